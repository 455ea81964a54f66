/* redact.h: secrets are struck out of what comes back, wherever they are cut. */
#ifndef ENGINE_REDACT_H
#define ENGINE_REDACT_H

#include <stddef.h>

struct redact;

/**
 * redact_new(void):
 * Return one that strikes out nothing yet, or NULL without memory.
 */
struct redact *redact_new(void);

/**
 * redact_free(redact):
 * Wipe and free.  NULL is none.
 */
void redact_free(struct redact *redact);

/**
 * redact_add(redact, secret):
 * From now on strike out ${secret} as it is, percent-encoded, as JSON has it, in hexadecimal digits
 * and in base64 at each offset to the last bit; of "user:password" also the password.  Nothing
 * shorter than eight characters is struck out.  Return 0, or -1 without memory.
 */
int redact_add(struct redact *redact, const char *secret);

/**
 * redact_feed(redact, in, len, out):
 * Write what is known to be none of a secret, with stars for what is, into ${out}, which has room
 * for ${len} and redact_held bytes.  What may be the beginning of a secret is held until more
 * comes. Nothing gets shorter or longer.  Return how much was written.
 */
size_t redact_feed(struct redact *redact, const char *in, size_t len, char *out);

/**
 * redact_held(redact):
 * How many bytes are held.
 */
size_t redact_held(const struct redact *redact);

/**
 * redact_end(redact, out):
 * Nothing more comes: write what is held.  Return how much that is.
 */
size_t redact_end(struct redact *redact, char *out);

#endif
