/* base64.h: base64 from outside, in its one spelling. */
#ifndef ENGINE_CRYPTO_BASE64_H
#define ENGINE_CRYPTO_BASE64_H

#include <sys/types.h>
#include <stddef.h>

/**
 * base64_read(text, len, ignore, out, size):
 * Decode ${text}[0..${len}), which must be base64 in its one spelling (RFC 4648 section 4: padded,
 * the last bits zero) but for the characters of ${ignore} (NULL: none), into at most ${size} bytes.
 * Return their number, or -1.
 */
ssize_t base64_read(const char *text, size_t len, const char *ignore, void *out, size_t size);

#endif
