/* inject.c: swap a placeholder, or say the whole. */
#include <sodium.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "engine/crypto/base64.h"
#include "net/egress/inject.h"

#define BASIC "Basic "

/* Copy ${given} with the secret for each placeholder; ${*found}: there was one. */
static long
swap(const struct token *t, const char *given, size_t len, char *out, size_t size, bool *found)
{
	size_t n = 0, piece;
	const char *at;

	for (*found = false;; *found = true) {
		at = memmem(given, len, t->placeholder, TOKEN_PLACEHOLDER_LEN);
		piece = at == NULL ? len : (size_t)(at - given);
		if (n + piece + (at == NULL ? 0 : t->len) > size)
			return -1;
		memcpy(out + n, given, piece);
		n += piece;
		if (at == NULL)
			return (long)n;
		memcpy(out + n, t->secret, t->len);
		n += t->len;
		given += piece + TOKEN_PLACEHOLDER_LEN;
		len -= piece + TOKEN_PLACEHOLDER_LEN;
	}
}

static long
basic(const char *plain, size_t len, char *out, size_t size)
{
	const size_t head = strlen(BASIC);

	if (head + sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL) > size)
		return -1;
	memcpy(out, BASIC, head);
	sodium_bin2base64(out + head, size - head, (const unsigned char *)plain, len,
	    sodium_base64_VARIANT_ORIGINAL);
	return (long)strlen(out);
}

/* The same within base64.  Return 0 where this is no Basic with a placeholder. */
static long
swap_basic(const struct token *t, const char *given, size_t len, char *out, size_t size)
{
	const size_t head = strlen(BASIC);
	char plain[TOKEN_SECRET_MAX], *swapped;
	bool found = false;
	ssize_t n;
	long all;

	if (len <= head || strncasecmp(given, BASIC, head) != 0 ||
	    (n = base64_read(given + head, len - head, " ", plain, sizeof(plain))) == -1)
		return 0;
	if ((swapped = sodium_malloc(2 * TOKEN_SECRET_MAX)) == NULL)
		return -1;
	all = swap(t, plain, (size_t)n, swapped, 2 * TOKEN_SECRET_MAX, &found);
	if (all >= 0)
		all = found ? basic(swapped, (size_t)all, out, size) : 0;
	sodium_free(swapped);
	return all;
}

static long
whole(const struct token *t, char *out, size_t size)
{
	size_t scheme = strlen(t->scheme);

	if (strcasecmp(t->scheme, "Basic") == 0)
		return basic(t->secret, t->len, out, size);
	if (scheme + 1 + t->len > size)
		return -1;
	memcpy(out, t->scheme, scheme);
	if (scheme > 0)
		out[scheme++] = ' ';
	memcpy(out + scheme, t->secret, t->len);
	return (long)(scheme + t->len);
}

long
inject_value(const struct token *t, const char *given, size_t len, char *out, size_t size)
{
	bool found;
	long n;

	if (given != NULL) {
		if ((n = swap(t, given, len, out, size, &found)) < 0 || found)
			return n;
		if ((n = swap_basic(t, given, len, out, size)) != 0)
			return n;
	}
	return whole(t, out, size);
}
