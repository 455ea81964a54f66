/* approval.h: questions to a person in exact terms, and the answers. */
#ifndef ENGINE_STATE_APPROVAL_H
#define ENGINE_STATE_APPROVAL_H

#include <stddef.h>

#include "engine/store/store.h"

struct key;

#define APPROVAL_DIGEST 32

/**
 * approval_ask(db, pairing_id, op, args, uses, ttl_ms, id):
 * Put the question whether the Host of ${pairing_id} may run ${op} with the JSON array ${args},
 * ${uses} times within ${ttl_ms} milliseconds (0: what the settings grant.default_... say), and
 * store its id in ${*id}.  ${args} is kept as json() writes it.  The same question that still waits
 * is not put again: its id is stored.  A step of the caller's transaction where one is open, else
 * one of its own.  Return 0, or -1 with the refusal of ${db}: pairing.inactive, op.unknown,
 * op.args, approval.uses, approval.ttl, approval.busy.
 */
int approval_ask(struct store *db, int64_t pairing_id, const char *op, const char *args,
    int64_t uses, int64_t ttl_ms, int64_t *id);

/* What a person says to a question: who the kernel says they are, and what proves it. */
struct approval_answer {
	int64_t id;
	const unsigned char *digest; /* APPROVAL_DIGEST bytes: of the terms that they were shown */
	int64_t uid;
	const char *name;      /* NULL: the directory did not answer; then only deny */
	const struct key *key; /* opens authenticator secrets */
	const char *code;      /* of an authenticator, or NULL */
	const char *signature; /* armored, by an SSH key over the terms; where there is no code */
};

/**
 * approval_approve(db, answer, grant_id):
 * Approve: prove the person, make the grant, burn the approval, all in one durable transaction;
 * store the grant's id in ${*grant_id}.  The question is looked at before the proof, so a refusal
 * of the former spends no code and is no try.  Return 0, or -1 with the refusal of ${db} and
 * nothing changed but the try: approval.person, approval.unknown, approval.decided,
 * approval.expired, approval.terms, grant.seal, or those of factor_prove_totp and factor_prove_ssh.
 */
int approval_approve(struct store *db, const struct approval_answer *answer, int64_t *grant_id);

/**
 * approval_deny(db, answer):
 * Deny.  It needs no proof, digest or name.  Return 0, or -1 with the refusal of ${db}:
 * approval.unknown, approval.decided, approval.expired.
 */
int approval_deny(struct store *db, const struct approval_answer *answer);

#endif
