/* key.h: the machine's key, which is never in the database. */
#ifndef ENGINE_CRYPTO_KEY_H
#define ENGINE_CRYPTO_KEY_H

#include <stddef.h>

#include "engine/refusal.h"

enum key_use { KEY_IDENTITY = 1, KEY_GRANT = 2, KEY_COLUMN = 3 };

struct key;

int key_create(const char *path, struct refusal *r);
struct key *key_load(const char *path, struct refusal *r);
void key_free(struct key *key);
int key_public(const struct key *key, enum key_use use, unsigned char pk[32]);
int key_sign(const struct key *key, enum key_use use, const char *domain, const void *msg,
	     size_t len, unsigned char sig[64]);
int key_verify(const unsigned char pk[32], const char *domain, const void *msg, size_t len,
	       const unsigned char sig[64]);

#endif
