/* token.h: secrets that programs use and never see. */
#ifndef ENGINE_STATE_TOKEN_H
#define ENGINE_STATE_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/crypto/key.h"
#include "engine/store/store.h"

#define TOKEN_SECRET_MIN      8 /* shorter, it would be struck out of any text */
#define TOKEN_SECRET_MAX      4096
#define TOKEN_HEADER_MAX      64
#define TOKEN_SCHEME_MAX      32
#define TOKEN_PLACEHOLDER_LEN 40

/* A token as it is asked for. */
struct token_wish {
	const char *name;
	const char *const *hosts; /* as host_text() spells them */
	size_t nhosts;
	const char *header, *scheme; /* NULL: Authorization, Bearer; scheme "": the secret alone */
	int64_t by_uid;
};

/**
 * token_add(db, key, wish, secret, id):
 * Keep ${secret}, TOKEN_SECRET_MIN to TOKEN_SECRET_MAX printable ASCII characters (of the scheme
 * Basic: user:password), sealed with the key of KEY_TOKEN.  One durable transaction.  Store its id
 * in ${*id}.  Return 0, or -1 with the refusal of ${db}: token.secret, token.name, token.header,
 * token.scheme, token.host, token.many.
 */
int token_add(struct store *db, const struct key *key, const struct token_wish *wish,
    const char *secret, int64_t *id);

/**
 * token_rotate(db, key, name, secret):
 * Give the live token ${name} another secret; what was sealed before is overwritten.  Return 0, or
 * -1 with token.unknown or token.secret.
 */
int token_rotate(struct store *db, const struct key *key, const char *name, const char *secret);

/**
 * token_drop(db, name):
 * Drop the live token ${name} and wipe its secret.  Return 0, or -1 with token.unknown.
 */
int token_drop(struct store *db, const char *name);

/* A token that is opened, in guarded memory: token_free wipes it. */
struct token {
	char header[TOKEN_HEADER_MAX + 1], scheme[TOKEN_SCHEME_MAX + 1];
	char placeholder[TOKEN_PLACEHOLDER_LEN + 1];
	char secret[TOKEN_SECRET_MAX + 1];
	size_t len; /* of the secret */
};

/**
 * token_open(db, key, id):
 * Open the live token ${id}; ${db} is of ROLE_EGRESS or ROLE_WORKER.  Return it, for the caller to
 * token_free, or NULL with the refusal of ${db}: token.dropped, token.key (no ${key}), seal.broken.
 */
struct token *token_open(struct store *db, const struct key *key, int64_t id);
void token_free(struct token *token);

#endif
