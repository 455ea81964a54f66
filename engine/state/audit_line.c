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

static char *
put_number(char *out, int64_t number)
{
	char digits[NUMBER];
	uint64_t n = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	int i = NUMBER;

	do
		digits[--i] = (char)('0' + n % 10);
	while ((n /= 10) != 0);
	if (number < 0)
		digits[--i] = '-';
	memcpy(out, digits + i, (size_t)(NUMBER - i));
	return out + NUMBER - i;
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

/* Whether one of the 8 bytes of ${w} is below 0x20, a quote or a backslash; never missed. */
static int
needs_escape(uint64_t w)
{
	const uint64_t ones = ~(uint64_t)0 / 255, high = ones << 7;
	uint64_t quote = w ^ ones * '"', back = w ^ ones * '\\';

	return (((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) | ((back - ones) & ~back)) & high
		   ? 1
		   : 0;
}

static char *
put_text(char *out, const struct audit_text *t)
{
	const char *at = t->text, *end = at + t->len;
	uint64_t w;

	*out++ = ',';
	*out++ = '"';
	while (at < end) {
		for (; end - at >= 8; at += 8, out += 8) {
			memcpy(&w, at, 8);
			memcpy(out, at, 8);
			if (needs_escape(w))
				break;
		}
		for (const char *stop = end - at > 8 ? at + 8 : end; at < stop; at++) {
			if ((unsigned char)*at < 0x20 || *at == '"' || *at == '\\')
				out = put_escape(out, (unsigned char)*at);
			else
				*out++ = *at;
		}
	}
	*out++ = '"';
	return out;
}

int
audit_line_make(struct audit_line *line, int64_t seq, int64_t at,
    const struct audit_text texts[AUDIT_TEXTS])
{
	size_t need = 2 * NUMBER + 8;
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
