/* inject.h: what a header says once the token is in it. */
#ifndef NET_EGRESS_INJECT_H
#define NET_EGRESS_INJECT_H

#include "engine/state/token.h"

/**
 * inject_value(token, given, len, out, size):
 * Write the value of ${token}'s header into ${out}: ${given} (NULL: the program has set none) with
 * the secret for each placeholder in it, be that within the base64 of Basic (RFC 7617 §2); or where
 * it has none, the scheme and the secret.  Return its length, or -1 where that does not fit.
 */
long inject_value(const struct token *token, const char *given, size_t len, char *out, size_t size);

#endif
