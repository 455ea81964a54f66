/* approval.h: questions to a person in exact terms, and the answers. */
#ifndef ENGINE_STATE_APPROVAL_H
#define ENGINE_STATE_APPROVAL_H

#include <stddef.h>

#include "engine/store/store.h"

struct key;

#define APPROVAL_DIGEST 32

/* What a Host wants to be allowed. */
struct approval_question {
	const char *op, *args; /* a JSON array */
	const char *bounds;    /* a JSON object as schema/bound.sql has it, or NULL */
	int64_t uses, ttl_ms;  /* 0: what the settings grant.default_... say */
};

/**
 * approval_put(db, pairing_id, asked, id):
 * Put the question whether the Host of ${pairing_id} may do what is ${asked}, and store its id in
 * ${*id}.  Arguments and bounds are kept as json() writes them.  The same question that still waits
 * is not put again: its id is stored.  A step of the caller's transaction where one is open, else
 * one of its own.  Return 0, or -1 with the refusal of ${db}: pairing.inactive, op.unknown,
 * op.args, approval.uses, approval.ttl, approval.busy, grant.bounds, grant.many.
 */
int approval_put(
    struct store *db, int64_t pairing_id, const struct approval_question *asked, int64_t *id);

/**
 * approval_ask(db, pairing_id, op, args, uses, ttl_ms, id):
 * approval_put without bounds.
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
