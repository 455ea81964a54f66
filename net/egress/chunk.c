/* chunk.c: one state for each byte, so that nothing depends on how it came in. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "net/egress/chunk.h"

#define SIZE_DIGITS 15

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int
size_byte(struct chunk *k, char c)
{
	int digit = hex_value(c);

	if (digit != -1 && k->digits < SIZE_DIGITS) {
		k->left = k->left * 16 + (uint64_t)digit;
		k->digits++;
		return 0;
	}
	if (digit != -1 || k->digits == 0)
		return -1;
	if (c == ';')
		k->state = CHUNK_EXTENSION;
	else if (c == '\r')
		k->state = CHUNK_SIZE_LF;
	else
		return -1;
	return 0;
}

static int
extension_byte(struct chunk *k, char c)
{
	if (c == '\r')
		k->state = CHUNK_SIZE_LF;
	else if (c == '\n' || c == '\0' || ++k->line > CHUNK_LINE_MAX)
		return -1;
	return 0;
}

static int
trailer_byte(struct chunk *k, char c)
{
	if (++k->trailer > CHUNK_TRAILER_MAX)
		return -1;
	if (c == '\r')
		k->state = CHUNK_TRAILER_LF;
	else if (c == '\n' || c == '\0' || ++k->line > CHUNK_LINE_MAX)
		return -1;
	return 0;
}

/* A byte that is none of the data. */
static int
frame_byte(struct chunk *k, char c)
{
	switch (k->state) {
	case CHUNK_SIZE:
		return size_byte(k, c);
	case CHUNK_EXTENSION:
		return extension_byte(k, c);
	case CHUNK_SIZE_LF:
		k->state = k->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
		k->line = 0;
		return c == '\n' ? 0 : -1;
	case CHUNK_DATA_CR:
		k->state = CHUNK_DATA_LF;
		return c == '\r' ? 0 : -1;
	case CHUNK_DATA_LF:
		k->state = CHUNK_SIZE;
		k->digits = 0;
		return c == '\n' ? 0 : -1;
	case CHUNK_TRAILER:
		return trailer_byte(k, c);
	case CHUNK_TRAILER_LF:
		k->state = k->line == 0 ? CHUNK_DONE : CHUNK_TRAILER;
		k->line = 0;
		return c == '\n' && ++k->trailer <= CHUNK_TRAILER_MAX ? 0 : -1;
	default:
		return -1;
	}
}

static long
walk(struct chunk *k, const char *in, size_t len, bool framed, char *out, size_t *out_len)
{
	size_t at = 0, n = 0, piece;

	while (at < len && k->state != CHUNK_DONE) {
		if (k->state != CHUNK_DATA) {
			if (frame_byte(k, in[at++]) != 0)
				return -1;
			continue;
		}
		piece = len - at < k->left ? len - at : (size_t)k->left;
		if (framed)
			n += (size_t)sprintf(out + n, "%zx\r\n", piece);
		memcpy(out + n, in + at, piece);
		n += piece;
		if (framed) {
			memcpy(out + n, "\r\n", 2);
			n += 2;
		}
		at += piece;
		if ((k->left -= piece) == 0)
			k->state = CHUNK_DATA_CR;
	}
	if (framed && k->state == CHUNK_DONE) {
		memcpy(out + n, "0\r\n\r\n", 5);
		n += 5;
	}
	*out_len = n;
	return (long)at;
}

long
chunk_feed(struct chunk *k, const char *in, size_t len, char *out, size_t *out_len)
{
	return walk(k, in, len, true, out, out_len);
}

long
chunk_data(struct chunk *k, const char *in, size_t len, char *out, size_t *out_len)
{
	return walk(k, in, len, false, out, out_len);
}
