/* factor.h: what proves that a person decided: an authenticator's codes, or an SSH key. */
#ifndef ENGINE_STATE_FACTOR_H
#define ENGINE_STATE_FACTOR_H

#include <stddef.h>

#include "engine/crypto/totp.h"
#include "engine/store/store.h"

#define FACTOR_LABEL_MAX  64
#define FACTOR_SECRET_MAX 40        /* base32 of 20 bytes is 32 characters */
#define FACTOR_NAMESPACE  "bastion" /* of ssh-keygen -Y sign */

/* An authenticator that was just enrolled; to be shown once and wiped. */
struct factor_totp {
	int64_t id;
	char secret[FACTOR_SECRET_MAX + 1]; /* base32 */
	char uri[TOTP_URI_SIZE];            /* otpauth://... */
};

/**
 * factor_add_totp(db, key, label, totp):
 * Enrol a new authenticator with 20 random bytes, kept sealed by ${key}, under ${label}.  Return 0
 * with ${totp} filled, or -1 with the refusal of ${db}: factor.label.
 */
int factor_add_totp(
    struct store *db, const struct key *key, const char *label, struct factor_totp *totp);

/**
 * factor_add_ssh(db, line, label, id):
 * Enrol the SSH key of ${line}, as it stands in a .pub file, under ${label}, or under the comment
 * of the line where ${label} is NULL; store its id in ${*id}.  Return 0, or -1 with the refusal of
 * ${db}: factor.key, factor.label.  A key that was dropped becomes a new factor: what it approved
 * before stays dropped.
 */
int factor_add_ssh(struct store *db, const char *line, const char *label, int64_t *id);

/**
 * factor_drop(db, id, grants):
 * Drop the factor ${id} and, for good, every grant on its word; count these in ${*grants}.  Return
 * 0, or -1 with the refusal of ${db}: factor.unknown, factor.transition.
 */
int factor_drop(struct store *db, int64_t id, int64_t *grants);

/**
 * factor_prove_totp(db, key, code, id):
 * Prove a person by ${code}, within the transaction that decides and before it writes anything.
 * The throttle is looked at first.  Return 0 with the factor in ${*id}: its counter has moved, so
 * the code works once, if the caller commits.  Else -1 with the refusal of ${db} and no transaction
 * open: factor.throttled (with retry_at), factor.none, factor.code, factor.used, factor.seal.  Of a
 * wrong code the try stays, committed with the transaction that it ended.  What is no code at all,
 * and a code that was used, is no try.
 */
int factor_prove_totp(struct store *db, const struct key *key, const char *code, int64_t *id);

/**
 * factor_prove_ssh(db, msg, len, signature, id):
 * As factor_prove_totp, by the armored ${signature} that an enrolled key made over
 * ${msg}[0..${len}) in the namespace FACTOR_NAMESPACE.  Where a FIDO key counts its signatures, the
 * count must grow.  The refusal of a wrong one is factor.signature.
 */
int factor_prove_ssh(
    struct store *db, const void *msg, size_t len, const char *signature, int64_t *id);

#endif
