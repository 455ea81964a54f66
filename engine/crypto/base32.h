/* base32.h: RFC 4648 §6, in which authenticator secrets are written. */
#ifndef ENGINE_CRYPTO_BASE32_H
#define ENGINE_CRYPTO_BASE32_H

#include <stddef.h>
#include <stdint.h>

/**
 * base32_size(len):
 * Return the room that base32_encode needs for ${len} bytes, its NUL included; 0 if that overflows.
 */
size_t base32_size(size_t len);

/**
 * base32_encode(in, len, out, out_size):
 * Write ${in}[0..${len}) to ${out} as upper case base32 without padding, and a NUL.  Return 0; or
 * -1 if ${out_size} is less than base32_size(${len}).
 */
int base32_encode(const uint8_t *in, size_t len, char *out, size_t out_size);

/**
 * base32_decode(text, out, out_size, len):
 * Decode the text ${text}, in either case, with all of its padding or none, into ${out}, and store
 * the number of bytes in ${*len}.  Return 0; or -1 for a foreign character, a length or padding
 * that no bytes encode to, left-over bits that are not zero, or more than ${out_size} bytes.
 */
int base32_decode(const char *text, uint8_t *out, size_t out_size, size_t *len)
    __attribute__((warn_unused_result));

#endif
