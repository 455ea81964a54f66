/* ascii.h: letters and digits as wires have them, whatever the locale. */
#ifndef ENGINE_ASCII_H
#define ENGINE_ASCII_H

#include <stdbool.h>

/**
 * ascii_is_digit(c), ascii_is_letter(c):
 * Return whether ${c} is one of 0 to 9; of A to Z or a to z.
 */
static inline bool
ascii_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool
ascii_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

#endif
