/* clock.h: time and randomness, in one place so that tests can set them. */
#ifndef ENGINE_CLOCK_H
#define ENGINE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/**
 * clock_now():
 * Return the time in milliseconds since 1970, UTC, or what clock_fix set.
 */
int64_t clock_now(void);

/**
 * clock_fix(ms):
 * For tests: stop the clock at ${ms}; a negative ${ms} lets it run again.
 */
void clock_fix(int64_t ms);

/**
 * random_fill(buf, len):
 * Fill ${buf} with ${len} random bytes from the kernel, or from what random_fix set.
 */
void random_fill(void *buf, size_t len);

/**
 * random_fix(source):
 * For tests: take randomness from ${source}; NULL goes back to the kernel.
 */
void random_fix(void (*source)(void *buf, size_t len));

/**
 * random_hex(out):
 * Store 16 random bytes as 32 lower-case hexadecimal digits and a NUL in ${out}.
 */
void random_hex(char out[33]);

/**
 * nonce_hex(out):
 * Store a number to be used once in ${out}, in the form of random_hex: 48 bits of the time in
 * milliseconds and 80 random ones, in the order of RFC 9562, section 5.7.  Those of one time stand
 * beside each other in an index, which a commit then writes a page of and not a page for each.
 */
void nonce_hex(char out[33]);

#endif
