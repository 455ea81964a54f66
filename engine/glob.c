/* glob.c: a pattern is a row of steps; the places that are reached in it are bits. */
#include <stdint.h>
#include <string.h>

#include "engine/glob.h"

#define WORDS (GLOB_MAX / 64 + 1)

enum step_kind { ITSELF, ANY_ONE, ANY_RUN, EVERY_RUN, OF_SET };

/* One step: a byte, any character, a run, or a set of ASCII. */
struct step {
	enum step_kind kind;
	unsigned char byte;
	bool inverse;
	uint64_t set[2];
};

struct pattern {
	int n;
	struct step step[GLOB_MAX];
};

static void
set_add(struct step *s, unsigned char from, unsigned char to)
{
	unsigned c;

	for (c = from; c <= to; c++)
		s->set[c / 64] |= UINT64_C(1) << (c % 64);
}

/* One character of a set, with its backslash gone.  Return it, or -1 where there is none. */
static int
set_char(const char **at)
{
	if (**at == '\\')
		++*at;
	if (**at == '\0' || (unsigned char)**at >= 0x80)
		return -1;
	return (unsigned char)*(*at)++;
}

/* What stands behind "[", up to its "]". */
static int
read_set(const char **at, struct step *s)
{
	int from, to;

	*s = (struct step){.kind = OF_SET, .inverse = **at == '!'};
	*at += s->inverse;
	do {
		if ((from = to = set_char(at)) == -1)
			return -1;
		if (**at == '-' && (*at)[1] != ']' && (++*at, to = set_char(at)) == -1)
			return -1;
		if (to < from)
			return -1;
		set_add(s, (unsigned char)from, (unsigned char)to);
	} while (**at != ']');
	++*at;
	return 0;
}

static int
read_step(const char **at, struct step *s)
{
	char c = *(*at)++;

	*s = (struct step){.kind = ITSELF, .byte = (unsigned char)c};
	switch (c) {
	case '[':
		return read_set(at, s);
	case '?':
		s->kind = ANY_ONE;
		return 0;
	case '*':
		s->kind = **at == '*' ? EVERY_RUN : ANY_RUN;
		*at += s->kind == EVERY_RUN;
		return 0;
	case '\\':
		if (**at == '\0')
			return -1;
		s->byte = (unsigned char)*(*at)++;
		return 0;
	default:
		return 0;
	}
}

static int
pattern_read(const char *text, struct pattern *p)
{
	if (strlen(text) > GLOB_MAX)
		return -1;
	for (p->n = 0; *text != '\0'; p->n++)
		if (read_step(&text, &p->step[p->n]) != 0)
			return -1;
	return 0;
}

bool
glob_valid(const char *pattern)
{
	struct pattern p;

	return pattern_read(pattern, &p) == 0;
}

/* Bytes of the character at ${text}. */
static size_t
char_len(const char *text, size_t left)
{
	unsigned char c = (unsigned char)*text;
	size_t i, n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

	if (n > left)
		return 1;
	for (i = 1; i < n; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 1;
	return n;
}

static bool
has(const uint64_t *places, int i)
{
	return (places[i / 64] >> (i % 64)) & 1;
}

/* The place ${i}, and those behind it that runs of nothing lead to. */
static void
reach(const struct pattern *p, uint64_t *places, int i)
{
	for (; !has(places, i); i++) {
		places[i / 64] |= UINT64_C(1) << (i % 64);
		if (i == p->n || (p->step[i].kind != ANY_RUN && p->step[i].kind != EVERY_RUN))
			return;
	}
}

/* Does the character ${c} of ${n} bytes pass ${s}, which is no byte for itself? */
static bool
passes(const struct step *s, unsigned char c, size_t n)
{
	if (s->kind == EVERY_RUN)
		return true;
	if (c == '/')
		return false;
	if (s->kind == OF_SET)
		return (n == 1 && c < 0x80 && ((s->set[c / 64] >> (c % 64)) & 1) != 0) !=
		       s->inverse;
	return true;
}

bool
glob_matches(const char *pattern, const char *text, size_t len)
{
	/* Of places before a byte, and of those that a character of several bytes leads to. */
	uint64_t now[4 + 1][WORDS] = {{0}};
	struct pattern p;
	size_t at, n, skip = 0;
	int i, to;

	if (pattern_read(pattern, &p) != 0)
		return false;
	reach(&p, now[0], 0);
	for (at = 0; at < len; at++) {
		unsigned char c = (unsigned char)text[at];

		n = skip == 0 ? char_len(text + at, len - at) : 0;
		skip = skip == 0 ? n - 1 : skip - 1;
		for (i = 0; i < p.n; i++) {
			if (!has(now[0], i))
				continue;
			to = p.step[i].kind == ANY_RUN || p.step[i].kind == EVERY_RUN ? i : i + 1;
			if (p.step[i].kind == ITSELF && p.step[i].byte == c)
				reach(&p, now[1], to);
			else if (p.step[i].kind != ITSELF && n > 0 && passes(&p.step[i], c, n))
				reach(&p, now[n], to);
		}
		memmove(now[0], now[1], sizeof(now) - sizeof(now[0]));
		memset(now[4], 0, sizeof(now[4]));
	}
	return has(now[0], p.n);
}
