/* secret.h: words that look like secrets, so that nobody shows them. */
#ifndef ENGINE_POLICY_SECRET_H
#define ENGINE_POLICY_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/**
 * secret_word(word, len):
 * Whether ${word} looks like a secret: it begins as tokens do, is an address with a password in it,
 * or is long and of letters and digits without a word in it.  It errs on the side of yes.
 */
bool secret_word(const char *word, size_t len);

/**
 * secret_name(name, len):
 * Whether ${name} is what secrets are called: key, token, secret, password, auth, credential.
 */
bool secret_name(const char *name, size_t len);

#endif
