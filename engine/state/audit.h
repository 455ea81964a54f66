/* audit.h: the chain of what happened: sealing its head, and checking all of it. */
#ifndef ENGINE_STATE_AUDIT_H
#define ENGINE_STATE_AUDIT_H

#include <stdint.h>

#include "engine/state/audit_check.h"
#include "engine/store/store.h"

/* Who is told how far a long check or copy has come, now and then; ${total} is 0 where unknown. */
struct audit_progress {
	void (*fn)(void *ctx, int64_t done, int64_t total);
	void *ctx;
};

/**
 * audit_seal(db, reason):
 * Have the machine sign the head of the chain as it is now, for ${reason}: "interval", "shutdown"
 * or "request", and with it a checkpoint of the tree (audit_tree.h), which is brought up to date
 * first.  ${db} must hold the machine's key.  Return 1 when a seal was made, 0 when the head has
 * one already or there is no row, or -1 with ${db}'s refusal set.
 */
int audit_seal(struct store *db, const char *reason);

/**
 * audit_unsealed(db, since):
 * Return how many rows of ${db} wait for a seal, and store the time of the oldest of them (ms UTC)
 * in ${*since}; -1 with ${db}'s refusal set.
 */
int64_t audit_unsealed(struct store *db, int64_t *since);

/**
 * audit_checkpoint(db, pk, size, note):
 * Write the newest checkpoint of ${db}, or that of ${size} rows where it is not 0, to ${note} as
 * the machine with the public key ${pk} signed it.  Return the rows that it is of, 0 where there is
 * none, or -1 with ${db}'s refusal set.
 */
int64_t audit_checkpoint(
    struct store *db, const unsigned char *pk, int64_t size, char note[CHECKPOINT_TEXT]);

/**
 * audit_verify(db, key, progress, report), audit_verify_kept(db, key, kept, progress, report):
 * Check the whole chain of ${db}, as it is at one moment, against the machine's public key ${key}
 * (32 bytes): that rows are numbered without a gap, that each hash covers its row and the row
 * before it, that each seal covers the hash that stands at its row and was signed with the key, and
 * that tiles and checkpoints are those of these rows.  Where retention removed rows, the chain
 * begins at the row that the machine signed for then; before it, the leaves that the tiles kept are
 * held against tiles and checkpoints.  With ${kept} also that a checkpoint which
 * was kept elsewhere is of these rows.  Stop at the first thing that is wrong.  ${progress} and
 * ${kept} may be NULL.  Store what was found in ${report}.  Return 0 for a good chain, AUDIT_BAD,
 * or -1 with ${db}'s refusal set.
 *
 * This shows an edited, missing, added or moved row; rows cut off behind a seal; a changed seal;
 * and a chain that was written anew with good hashes, since its seals no longer fit.  It cannot
 * show what was done to rows behind the last seal (report->behind) by someone who wrote their
 * hashes anew, nor that the newest seals were taken away together with the rows they covered, nor
 * what someone did who holds the machine's key.  For the first two, keep a checkpoint elsewhere (a
 * Host does) and pass it as ${kept}.
 */
int audit_verify(struct store *db, const unsigned char *key, const struct audit_progress *progress,
    struct audit_report *report);
int audit_verify_kept(struct store *db, const unsigned char *key, const struct checkpoint *kept,
    const struct audit_progress *progress, struct audit_report *report);

#endif
