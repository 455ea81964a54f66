/* base32.c: encode and decode by arithmetic, since a table read would be indexed by a secret. */
#include <string.h>

#include "engine/crypto/base32.h"

static char
digit(unsigned v)
{
	return (char)(v < 26 ? 'A' + v : '2' + (v - 26));
}

static int
value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a';
	if (c >= '2' && c <= '7')
		return c - '2' + 26;
	return -1;
}

size_t
base32_size(size_t len)
{
	if (len > SIZE_MAX / 2)
		return 0;
	return len / 5 * 8 + (len % 5 * 8 + 4) / 5 + 1;
}

int
base32_encode(const uint8_t *in, size_t len, char *out, size_t out_size)
{
	size_t i, need = base32_size(len);
	unsigned acc = 0, bits = 0;

	if (need == 0 || out_size < need)
		return -1;
	for (i = 0; i < len; i++) {
		acc = (acc << 8 | in[i]) & 0xfff;
		for (bits += 8; bits >= 5; bits -= 5)
			*out++ = digit(acc >> (bits - 5) & 31);
	}
	if (bits > 0)
		*out++ = digit(acc << (5 - bits) & 31);
	*out = '\0';
	return 0;
}

/* Is ${pad} what may follow ${digits} digits? */
static int
padding_ok(const char *pad, size_t digits)
{
	static const char FULL[] = "======";
	static const int WANT[8] = {0, -1, 6, -1, 4, 3, -1, 1};
	int want = WANT[digits % 8];

	if (want == -1)
		return 0;
	return *pad == '\0' || strcmp(pad, FULL + strlen(FULL) - (size_t)want) == 0;
}

int
base32_decode(const char *text, uint8_t *out, size_t out_size, size_t *len)
{
	size_t i, n = 0;
	unsigned acc = 0, bits = 0;
	int v;

	for (i = 0; (v = value(text[i])) != -1; i++) {
		acc = (acc << 5 | (unsigned)v) & 0xfff;
		bits += 5;
		if (bits < 8)
			continue;
		if (n == out_size)
			return -1;
		bits -= 8;
		out[n++] = (uint8_t)(acc >> bits);
	}
	if (!padding_ok(text + i, i) || (acc & ((1u << bits) - 1)) != 0)
		return -1;
	*len = n;
	return 0;
}
