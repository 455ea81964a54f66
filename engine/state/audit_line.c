/* audit_line.c: json_array in C, for checks of long chains. */
#include <stdlib.h>
#include <string.h>

#include "engine/state/audit_line.h"

#define NUMBER  20 /* characters of an integer, at most */
#define ESCAPED 6  /* characters that one byte may become */

static int
line_room(struct audit_line *line, size_t more)
{
	char *text;

	if (line->size >= more)
		return 0;
	if ((text = realloc(line->text, more * 2)) == NULL)
		return -1;
	line->text = text;
	line->size = more * 2;
	return 0;
}

/* Two digits a division. */
static char *
put_number(char *out, int64_t number)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";
	char digits[NUMBER + 2];
	uint64_t n = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	size_t i = sizeof(digits);

	for (; n >= 100; n /= 100)
		memcpy(&digits[i -= 2], &pairs[n % 100 * 2], 2);
	memcpy(&digits[i -= 2], &pairs[n * 2], 2);
	i += n < 10;
	if (number < 0)
		digits[--i] = '-';
	memcpy(out, digits + i, sizeof(digits) - i);
	return out + sizeof(digits) - i;
}

/* What follows the backslash for the bytes below 0x20, 'u' for those without a letter. */
static char *
put_escape(char *out, unsigned char c)
{
	static const char letters[] = "uuuuuuuubtnufruuuuuuuuuuuuuuuuuu";
	static const char hex[] = "0123456789abcdef";
	char letter = c < 0x20 ? letters[c] : (char)c;

	*out++ = '\\';
	*out++ = letter;
	if (c >= 0x20 || letter != 'u')
		return out;
	*out++ = '0';
	*out++ = '0';
	*out++ = hex[c >> 4];
	*out++ = hex[c & 15];
	return out;
}

/*
 * How many of the 8 bytes of ${w} stand for themselves before one that does not: below 0x20, a
 * quote or a backslash.  A borrow may mark a byte too many, but only behind one that is marked
 * rightly.
 */
static unsigned
plain_bytes(uint64_t w)
{
	const uint64_t ones = ~(uint64_t)0 / 255, high = ones << 7;
	uint64_t quote = w ^ ones * '"', back = w ^ ones * '\\', marked;

	marked =
	    (((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) | ((back - ones) & ~back)) & high;
	return marked == 0 ? 8 : (unsigned)__builtin_ctzll(marked) / 8;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte is the lowest");

/* ${out} has room for 8 bytes more than is needed. */
static char *
put_text(char *out, const struct audit_text *t)
{
	const char *at = t->text, *end = at + t->len;
	unsigned n;
	uint64_t w;

	*out++ = ',';
	*out++ = '"';
	while (end - at >= 8) {
		memcpy(&w, at, 8);
		memcpy(out, &w, 8);
		n = plain_bytes(w);
		at += n;
		out += n;
		if (n < 8)
			out = put_escape(out, (unsigned char)*at++);
	}
	for (; at < end; at++) {
		if ((unsigned char)*at < 0x20 || *at == '"' || *at == '\\')
			out = put_escape(out, (unsigned char)*at);
		else
			*out++ = *at;
	}
	*out++ = '"';
	return out;
}

int
audit_line_make(
    struct audit_line *line, int64_t seq, int64_t at, const struct audit_text texts[AUDIT_TEXTS])
{
	size_t need = 2 * NUMBER + 16;
	char *out;
	int i;

	for (i = 0; i < AUDIT_TEXTS; i++)
		need += texts[i].len * ESCAPED + 3;
	if (line_room(line, need) != 0)
		return -1;
	out = line->text;
	*out++ = '[';
	out = put_number(out, seq);
	*out++ = ',';
	out = put_number(out, at);
	for (i = 0; i < AUDIT_TEXTS; i++)
		out = put_text(out, &texts[i]);
	*out++ = ']';
	line->len = (size_t)(out - line->text);
	return 0;
}
