/* person.h: for tests: a person with an authenticator or a key, and a Host that asks them. */
#ifndef TESTS_PERSON_H
#define TESTS_PERSON_H

#include "engine/state/approval.h"
#include "tests/scratch.h"

#define PERSON_MORNING INT64_C(1800000015000) /* in the middle of a step of 30 s */

struct person {
	int64_t factor;
	char secret[41]; /* base32; "" for an SSH key */
	char path[80];   /* of the private SSH key */
};

/**
 * person_host(s, name):
 * Pair the Host ${name}, with a key made from its name; return the pairing's id.
 */
int64_t person_host(struct scratch *s, const char *name);

/**
 * person_enrol(s, p, label), person_enrol_key(s, p, label):
 * Enrol an authenticator, or an SSH key that ssh-keygen makes in the scratch directory.
 */
void person_enrol(struct scratch *s, struct person *p, const char *label);
void person_enrol_key(struct scratch *s, struct person *p, const char *label);

/**
 * person_code(p, at_ms, code):
 * The code that oathtool computes for the time ${at_ms}.
 */
const char *person_code(const struct person *p, int64_t at_ms, char code[7]);

/**
 * person_sign(s, p, id, out, size):
 * What ssh-keygen -Y sign makes of the terms of the question ${id}.
 */
const char *person_sign(
    struct scratch *s, const struct person *p, int64_t id, char *out, size_t size);

/**
 * person_asked(s, pairing_id, args):
 * Ask for observe:folders with ${args}, two uses, one minute, as the net actor does.  Return the
 * question's id.
 */
int64_t person_asked(struct scratch *s, int64_t pairing_id, const char *args);

/**
 * person_answers(s, id, code, signature, grant_id):
 * Approve the question ${id} with what proves it, the digest taken from the database.  Return what
 * approval_approve does; the refusal is that of s->db.
 */
int person_answers(
    struct scratch *s, int64_t id, const char *code, const char *signature, int64_t *grant_id);

/**
 * person_granted(s, p, pairing_id, args):
 * Ask and approve with the next code of ${p}, moving the fixed clock on by a step.  Return the
 * grant.
 */
int64_t person_granted(
    struct scratch *s, const struct person *p, int64_t pairing_id, const char *args);

/**
 * person_run(s, grant_id, nonce):
 * Run ${grant_id} once more, as the net actor does: insert its op_run.  Return 0, or -1 with the
 * refusal of s->db.
 */
int person_run(struct scratch *s, int64_t grant_id, int nonce);

/**
 * person_digest(s, digest):
 * The SHA-256 of every row of every table.
 */
void person_digest(struct scratch *s, unsigned char digest[32]);

/**
 * person_refused(s, code, sql):
 * scratch_refused, and not a byte of any table is another afterwards.
 */
void person_refused(struct scratch *s, const char *code, const char *sql);

/**
 * person_says(s, code):
 * Assert that the refusal of s->db is ${code}.
 */
void person_says(struct scratch *s, const char *code);

#endif
