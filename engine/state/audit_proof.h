/* audit_proof.h: proofs from the audit's tree, in the formats of engine/crypto/checkpoint.h. */
#ifndef ENGINE_STATE_AUDIT_PROOF_H
#define ENGINE_STATE_AUDIT_PROOF_H

#include <stdint.h>
#include <stdio.h>

#include "engine/crypto/checkpoint.h"
#include "engine/store/store.h"

#define AUDIT_PROOF_MAX                                                           \
	8388608 /* bytes of the longest proof that is read: its row comes with it \
		 */

/**
 * audit_prove(db, pk, seq, out):
 * Write the proof that row ${seq} is under the newest checkpoint to ${out}, with the row's line of
 * an export as its extra data.  ${pk} is the machine's public key.  Return 0, or -1 with ${db}'s
 * refusal set: checkpoint.none where none covers the row yet, checkpoint.size where there is no
 * such row.
 */
int audit_prove(struct store *db, const unsigned char *pk, int64_t seq, FILE *out);

/**
 * audit_follow(db, pk, old, size, out):
 * Write the proof that the checkpoint of ${size} rows (0: the newest) goes on from the tree of the
 * first ${old} rows to ${out}.  Return 0, or -1 with ${db}'s refusal set: checkpoint.none,
 * checkpoint.size.
 */
int audit_follow(struct store *db, const unsigned char *pk, int64_t old, int64_t size, FILE *out);

/**
 * audit_witness(db, pk, held, out):
 * As audit_follow from ${held}, which somebody who watches this machine holds as a checkpoint of
 * it, to the newest.  Return 0, 1 where there is no checkpoint at all and ${held} is NULL, or -1
 * with ${db}'s refusal set: witness.behind where this audit has fewer rows, witness.forked where
 * they are others.  ${held} is NULL where nothing is held: then it proves nothing but itself.
 */
int audit_witness(
    struct store *db, const unsigned char *pk, const struct checkpoint *held, FILE *out);

/* What a proof says. */
struct audit_proof {
	enum checkpoint_proof_kind kind;
	int64_t seq;  /* of inclusion: the row */
	int64_t old;  /* of consistency: rows of the older tree */
	int64_t size; /* rows of the checkpoint */
};

/**
 * audit_proof_check(text, len, pk, old, proof, r):
 * Check the proof ${text}[0..${len}) against the public key ${pk}, without any database.  A proof
 * of consistency is one from the checkpoint ${old}; one of inclusion must carry its row.  Return 0
 * with what it says in ${proof}, or -1 with ${r}: proof.form, proof.wrong, checkpoint.form,
 * checkpoint.other, checkpoint.signature, store.failed.
 */
int audit_proof_check(const char *text, size_t len, const unsigned char *pk,
    const struct checkpoint *old, struct audit_proof *proof, struct refusal *r);

#endif
