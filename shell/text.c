/* text.c: decode, escape, measure and cut text. */
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#include "shell/text.h"

#define JOINER "\xe2\x80\x8d" /* U+200D */

static bool
continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

size_t
text_next(const char *s, const char *end, int32_t *rune)
{
	static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned char c = (unsigned char)*s;
	size_t len, i;
	int32_t r;

	*rune = -1;
	if (c < 0x80) {
		*rune = c;
		return 1;
	}
	if (c < 0xc2 || c > 0xf4)
		return 1;
	len = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	if ((size_t)(end - s) < len)
		return 1;
	r = c & (0x7f >> len);
	for (i = 1; i < len; i++) {
		if (!continues(s[i]))
			return 1;
		r = r << 6 | ((unsigned char)s[i] & 0x3f);
	}
	if (r < least[len] || r > 0x10ffff || (r >= 0xd800 && r <= 0xdfff))
		return 1;
	*rune = r;
	return len;
}

/* What a terminal or a reader's eye would obey, or not see at all. */
static bool
is_hidden(int32_t rune)
{
	if (rune < 0x20 || (rune >= 0x7f && rune < 0xa0))
		return true;
	if (rune == 0xad || rune == 0x61c || rune == 0x180e || rune == 0xfeff)
		return true;
	if (rune >= 0x200b && rune <= 0x200f)
		return rune != 0x200c && rune != 0x200d; /* these two join letters and emoji */
	if ((rune >= 0x2028 && rune <= 0x202e) || (rune >= 0x2060 && rune <= 0x206f))
		return true;
	return rune >= 0xe0000 && rune <= 0xe0fff;
}

static int
show_escape(FILE *out, int32_t rune, unsigned char byte)
{
	switch (rune) {
	case '\n':
		return fprintf(out, "\\n");
	case '\r':
		return fprintf(out, "\\r");
	case '\t':
		return fprintf(out, "\\t");
	default:
		break;
	}
	if (rune < 0x80)
		return fprintf(out, "\\x%02x", byte);
	if (rune < 0x10000)
		return fprintf(out, "\\u%04x", (unsigned)rune);
	return fprintf(out, "\\U%06x", (unsigned)rune);
}

/* What a variation selector turns from a letter's width to an emoji's. */
static bool
can_be_emoji(int32_t rune)
{
	return rune == 0xa9 || rune == 0xae || (rune >= 0x203c && rune <= 0x3299) ||
	       rune >= 0x1f000;
}

static void
locale_load(void)
{
	setlocale(LC_CTYPE, "C.UTF-8");
}

/* What the C library says.  Its tables cost a tenth of a millisecond, and most text is ASCII. */
static int
width_of(int32_t rune)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (rune >= ' ' && rune < 0x7f)
		return 1;
	pthread_once(&once, locale_load);
	return wcwidth((wchar_t)rune);
}

/* The columns that ${rune} adds behind ${before}; -1 for what has no width. */
static int
rune_width(int32_t rune, int32_t before)
{
	if (rune < 0)
		return -1;
	if (rune == 0xfe0f)
		return can_be_emoji(before) && width_of(before) == 1 ? 1 : 0;
	return width_of(rune);
}

int
text_show(FILE *out, const char *s, size_t len)
{
	const char *end = s + len;
	int columns = 0, width;
	int32_t rune, before = 0;
	size_t n;

	for (; s < end; s += n) {
		n = text_next(s, end, &rune);
		width = is_hidden(rune) ? -1 : rune_width(rune, before);
		before = rune;
		if (width < 0) {
			columns += show_escape(out, rune, (unsigned char)*s);
			continue;
		}
		fwrite(s, 1, n, out);
		columns += width;
	}
	return columns;
}

/* How many bytes of the text fit into so many columns. */
static size_t
fitting(const char *s, size_t len, int width, int *columns)
{
	const char *p = s, *end = s + len;
	int32_t rune, before = 0;
	size_t n;
	int w;

	for (*columns = 0; p < end; p += n) {
		n = text_next(p, end, &rune);
		w = rune_width(rune, before);
		w = w < 0 ? 1 : w;
		if (w > width - *columns)
			break;
		*columns += w;
		before = rune;
	}
	return (size_t)(p - s);
}

int
text_width(const char *s, size_t len)
{
	int columns;

	fitting(s, len, INT_MAX, &columns);
	return columns;
}

int
text_clip(FILE *out, const char *s, size_t len, int width)
{
	int columns;
	size_t n;

	if (width < 1)
		return 0;
	n = fitting(s, len, width, &columns);
	if (n == len) {
		fwrite(s, 1, n, out);
		return columns;
	}
	n = fitting(s, len, width - 1, &columns);
	while (n >= 3 && memcmp(s + n - 3, JOINER, 3) == 0)
		n -= 3; /* it would join the ellipsis */
	fwrite(s, 1, n, out);
	fputs("…", out);
	return columns + 1;
}

static void
json_escape(FILE *out, int32_t rune)
{
	if (rune >= 0x10000) { /* UTF-16 pair, RFC 8259 §7 */
		rune -= 0x10000;
		fprintf(out, "\\u%04x", (unsigned)(0xd800 + (rune >> 10)));
		rune = 0xdc00 + (rune & 0x3ff);
	}
	fprintf(out, "\\u%04x", (unsigned)rune);
}

void
text_json(FILE *out, const char *s, size_t len)
{
	const char *end = s + len;
	int32_t rune;
	size_t n;

	putc('"', out);
	for (; s < end; s += n) {
		n = text_next(s, end, &rune);
		if (rune == '"' || rune == '\\')
			fprintf(out, "\\%c", (char)rune);
		else if (rune == '\n')
			fputs("\\n", out);
		else if (rune < 0)
			json_escape(out, 0xfffd);
		else if (is_hidden(rune))
			json_escape(out, rune);
		else
			fwrite(s, 1, n, out);
	}
	putc('"', out);
}

void
text_csv(FILE *out, const char *s, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (memchr(",\"\r\n", s[i], 4) != NULL)
			break;
	}
	if (i == len && len > 0 && s[0] != ' ' && s[len - 1] != ' ') {
		fwrite(s, 1, len, out);
		return;
	}
	putc('"', out);
	for (i = 0; i < len; i++) {
		if (s[i] == '"')
			putc('"', out);
		putc(s[i], out);
	}
	putc('"', out);
}

/* Whether all of it is UTF-8 (RFC 3629). */
static bool
is_text(const char *s, size_t len)
{
	const char *end = s + len;
	int32_t rune = 0;

	while (s < end && rune >= 0)
		s += text_next(s, end, &rune);
	return rune >= 0;
}

void
text_sql(FILE *out, const char *s, size_t len)
{
	const char *end = s + len;
	int32_t rune;
	size_t n;

	if (!is_text(s, len)) {
		fputs("CAST(X'", out);
		for (; s < end; s++)
			fprintf(out, "%02x", (unsigned char)*s);
		fputs("' AS TEXT)", out);
		return;
	}
	putc('\'', out);
	for (; s < end; s += n) {
		n = text_next(s, end, &rune);
		if (rune == '\'')
			fputs("''", out);
		else if (is_hidden(rune))
			fprintf(out, "'||char(%" PRId32 ")||'", rune);
		else
			fwrite(s, 1, n, out);
	}
	putc('\'', out);
}

bool
text_time(int64_t ms, bool utc, char out[TEXT_TIME_MAX])
{
	int64_t part = ms % 1000;
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	size_t n;

	if (part < 0) {
		part += 1000;
		s--;
	}
	if ((utc ? gmtime_r(&s, &tm) : localtime_r(&s, &tm)) == NULL || tm.tm_year > 9999 - 1900 ||
	    tm.tm_year < -1900) {
		snprintf(out, TEXT_TIME_MAX, "%" PRId64, ms);
		return false;
	}
	n = strftime(out, TEXT_TIME_MAX, utc ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
	if (utc)
		snprintf(out + n, TEXT_TIME_MAX - n, ".%03dZ", (int)part);
	return true;
}
