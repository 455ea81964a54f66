/* sha256.h: SHA-256 (FIPS 180-4) of many short texts: libsodium's, or OpenSSL's where it pays. */
#ifndef ENGINE_CRYPTO_SHA256_H
#define ENGINE_CRYPTO_SHA256_H

#include <stddef.h>

#define SHA256_SIZE 32

/**
 * sha256_pair(a, a_len, b, b_len, out):
 * Store the SHA-256 of ${a}[0..${a_len}) followed by ${b}[0..${b_len}) in ${out}, which may be
 * either of them.
 */
void sha256_pair(
    const void *a, size_t a_len, const void *b, size_t b_len, unsigned char out[SHA256_SIZE]);

/**
 * sha256_hurry():
 * Let sha256_pair use OpenSSL from now on, in the whole process: five times faster on a processor
 * with SHA instructions, and a library to load.  Where that is missing nothing changes.
 */
void sha256_hurry(void);

#endif
