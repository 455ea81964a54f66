/* base64.c: libsodium's reader, held to ASCII. */
#include <sodium.h>

#include "engine/crypto/base64.h"

ssize_t
base64_read(const char *text, size_t len, const char *ignore, void *out, size_t size)
{
	size_t i, n;

	/* libsodium 1.0.18 takes every byte over 0x7f for '/'. */
	for (i = 0; i < len; i++)
		if ((unsigned char)text[i] > 0x7f)
			return -1;
	return sodium_base642bin(
		   out, size, text, len, ignore, &n, NULL, sodium_base64_VARIANT_ORIGINAL) == 0
		   ? (ssize_t)n
		   : -1;
}
