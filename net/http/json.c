/* json.c: one pass over the text, a stack of open containers, one hash table for all keys. */
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/http/json.h"

/* A key that was seen: which object it is in, and where its unescaped bytes are. */
struct key {
	uint32_t object; /* 0: the place is free */
	size_t at, len;
	uint64_t hash;
};

struct check {
	const char *text, *p, *end;
	struct refusal *refusal;
	unsigned depth, depth_max;
	uint32_t open[JSON_DEPTH_MAX]; /* number of the object; 0: an array */
	uint32_t objects;
	bool disguised; /* the string has a character escaped that needs no escape */
	char *arena;    /* unescaped keys, one after the other: never longer than the text */
	size_t arena_len;
	struct key *keys;
	size_t nkeys, room;
	unsigned char secret[crypto_shorthash_KEYBYTES]; /* so that nobody can aim collisions */
};

static int
invalid(struct check *c, const char *why)
{
	return refusal_set(
	    c->refusal, "json.invalid", "%s at byte %zu", why, (size_t)(c->p - c->text));
}

static int
no_memory(struct check *c)
{
	return refusal_set(c->refusal, "http.memory", "no memory to check a JSON text");
}

/* RFC 3629 §4: no overlong form, no surrogate, nothing above U+10FFFF. */
size_t
http_utf8_len(const char *text, const char *end)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t i, n, left = (size_t)(end - text);
	unsigned char low = 0x80, high = 0xbf;

	if (left == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (left < n)
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0;
	if (p[0] == 0xed)
		high = 0x9f;
	if (p[0] == 0xf0)
		low = 0x90;
	if (p[0] == 0xf4)
		high = 0x8f;
	if (p[1] < low || p[1] > high)
		return 0;
	for (i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static void
skip_space(struct check *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
		c->p++;
}

static bool
at(const struct check *c, char ch)
{
	return c->p < c->end && *c->p == ch;
}

static int
hex4(const char *p, const char *end)
{
	int i, v = 0;

	if (end - p < 4)
		return -1;
	for (i = 0; i < 4; i++) {
		v <<= 4;
		if (p[i] >= '0' && p[i] <= '9')
			v |= p[i] - '0';
		else if ((p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'f')
			v |= (p[i] | 0x20) - 'a' + 10;
		else
			return -1;
	}
	return v;
}

static size_t
utf8_put(char *out, uint32_t u)
{
	if (u < 0x80) {
		out[0] = (char)u;
		return 1;
	}
	if (u < 0x800) {
		out[0] = (char)(0xc0 | u >> 6);
		out[1] = (char)(0x80 | (u & 0x3f));
		return 2;
	}
	if (u < 0x10000) {
		out[0] = (char)(0xe0 | u >> 12);
		out[1] = (char)(0x80 | (u >> 6 & 0x3f));
		out[2] = (char)(0x80 | (u & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | u >> 18);
	out[1] = (char)(0x80 | (u >> 12 & 0x3f));
	out[2] = (char)(0x80 | (u >> 6 & 0x3f));
	out[3] = (char)(0x80 | (u & 0x3f));
	return 4;
}

/* At the "u" of an escape: store its character in ${*u} and go behind it. */
static int
unicode_escape(struct check *c, uint32_t *u)
{
	int high, low;

	if ((high = hex4(c->p + 1, c->end)) < 0)
		return invalid(c, "\\u without four hex digits");
	if (high == 0)
		return invalid(c, "an escaped NUL");
	if (high >= 0xdc00 && high <= 0xdfff)
		return invalid(c, "a lone surrogate");
	*u = (uint32_t)high;
	if (high < 0xd800 || high > 0xdbff) {
		c->p += 5;
		return 0;
	}
	if (c->end - c->p < 11 || c->p[5] != '\\' || c->p[6] != 'u' ||
	    (low = hex4(c->p + 7, c->end)) < 0xdc00 || low > 0xdfff)
		return invalid(c, "a lone surrogate");
	*u = 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
	c->p += 11;
	return 0;
}

/* Behind a backslash: store what the escape stands for in ${*u} and go behind it. */
static int
escape(struct check *c, uint32_t *u)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *found;

	if (at(c, 'u'))
		return unicode_escape(c, u);
	if (c->p == c->end || *c->p == '\0' || (found = strchr(from, *c->p)) == NULL)
		return invalid(c, "an unknown escape");
	*u = (uint32_t)to[found - from];
	c->p++;
	return 0;
}

/*
 * Whether an escape of ${u} hides what could stand as it is.  Writers of JSON escape what the
 * standard wants and what is not ASCII, and "/", "<", ">" and "&" for the sake of web pages.
 */
static bool
is_disguise(uint32_t u)
{
	return u >= 0x20 && u < 0x7f && strchr("\"\\/<>&", (int)u) == NULL;
}

/* One character of a string; with ${out}, append it there unescaped. */
static int
string_char(struct check *c, char **out)
{
	char utf8[4];
	const char *from = c->p;
	uint32_t u = 0;
	size_t n;

	if ((unsigned char)*c->p < 0x20)
		return invalid(c, "a control character in a string");
	if (*c->p == '\\') {
		c->p++;
		if (escape(c, &u) == -1)
			return -1;
		c->disguised |= is_disguise(u);
		from = utf8;
		n = utf8_put(utf8, u);
	} else {
		if ((n = http_utf8_len(c->p, c->end)) == 0)
			return invalid(c, "invalid UTF-8");
		c->p += n;
	}
	if (out != NULL) {
		memcpy(*out, from, n);
		*out += n;
	}
	return 0;
}

static int
string(struct check *c, char **out)
{
	if (!at(c, '"'))
		return invalid(c, "a string is missing");
	c->p++;
	while (c->p < c->end && *c->p != '"')
		if (string_char(c, out) == -1)
			return -1;
	if (c->p == c->end)
		return invalid(c, "a string does not end");
	c->p++;
	return 0;
}

/* Where in the table the key is, or the free place where it would be. */
static struct key *
key_place(const struct check *c, const struct key *k)
{
	size_t i;
	struct key *have;

	for (i = k->hash & (c->room - 1);; i = (i + 1) & (c->room - 1)) {
		have = &c->keys[i];
		if (have->object == 0)
			return have;
		if (have->hash == k->hash && have->object == k->object && have->len == k->len &&
		    memcmp(c->arena + have->at, c->arena + k->at, k->len) == 0)
			return have;
	}
}

static int
keys_grow(struct check *c)
{
	struct key *old = c->keys;
	size_t i, n = c->room;

	if (c->nkeys * 2 < c->room)
		return 0;
	c->room = n ? n * 2 : 32;
	if ((c->keys = calloc(c->room, sizeof(*c->keys))) == NULL) {
		c->keys = old;
		return no_memory(c);
	}
	for (i = 0; i < n; i++)
		if (old[i].object != 0)
			*key_place(c, &old[i]) = old[i];
	free(old);
	return 0;
}

static uint64_t
key_hash(const struct check *c, const struct key *k)
{
	unsigned char sum[crypto_shorthash_BYTES];
	uint64_t h;

	crypto_shorthash(sum, (const unsigned char *)c->arena + k->at, k->len, c->secret);
	memcpy(&h, sum, sizeof(h));
	return h ^ k->object * 0x9e3779b97f4a7c15u;
}

/*
 * A key, the colon behind it, and the check that its object does not have it yet.  SQLite's
 * json_each has a key unescaped, and a path finds it only as it is written: who spells "dry" with
 * an escape would have it allowed by its name and then not seen.
 */
static int
key(struct check *c)
{
	struct key k = {.object = c->open[c->depth - 1], .at = c->arena_len}, *place;
	char *out;

	if (c->arena == NULL) {
		if ((c->arena = malloc((size_t)(c->end - c->text))) == NULL)
			return no_memory(c);
		crypto_shorthash_keygen(c->secret);
	}
	out = c->arena + c->arena_len;
	c->disguised = false;
	if (string(c, &out) == -1 || keys_grow(c) == -1)
		return -1;
	k.len = (size_t)(out - c->arena) - k.at;
	k.hash = key_hash(c, &k);
	place = key_place(c, &k);
	if (place->object != 0)
		return refusal_set(c->refusal, "json.duplicate",
		    "an object has the key that ends at byte %zu twice", (size_t)(c->p - c->text));
	if (c->disguised)
		return invalid(c, "a key with an escape that it does not need");
	*place = k;
	c->nkeys++;
	c->arena_len += k.len;
	skip_space(c);
	if (!at(c, ':'))
		return invalid(c, "a colon is missing");
	c->p++;
	return 0;
}

static bool
digits(struct check *c)
{
	const char *from = c->p;

	while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
		c->p++;
	return c->p > from;
}

static int
number(struct check *c)
{
	if (at(c, '-'))
		c->p++;
	if (at(c, '0'))
		c->p++;
	else if (!digits(c))
		return invalid(c, "a value is missing");
	if (at(c, '.')) {
		c->p++;
		if (!digits(c))
			return invalid(c, "a fraction without digits");
	}
	if (at(c, 'e') || at(c, 'E')) {
		c->p++;
		if (at(c, '+') || at(c, '-'))
			c->p++;
		if (!digits(c))
			return invalid(c, "an exponent without digits");
	}
	return 0;
}

static int
literal(struct check *c)
{
	static const char *const words[] = {"true", "false", "null"};
	size_t i, n;

	for (i = 0; i < 3; i++) {
		n = strlen(words[i]);
		if ((size_t)(c->end - c->p) >= n && memcmp(c->p, words[i], n) == 0) {
			c->p += n;
			return 0;
		}
	}
	return number(c);
}

static int
descend(struct check *c)
{
	if (c->depth == c->depth_max)
		return refusal_set(
		    c->refusal, "json.depth", "nested more than %u deep", c->depth_max);
	c->open[c->depth++] = *c->p == '{' ? ++c->objects : 0;
	c->p++;
	return 0;
}

/*
 * Where a value may start.  Return 1 when it is complete, 0 when a container was opened and its
 * first value is next, -1 when refused.
 */
static int
value(struct check *c)
{
	char closes;

	skip_space(c);
	if (at(c, '"'))
		return string(c, NULL) == -1 ? -1 : 1;
	if (!at(c, '{') && !at(c, '['))
		return literal(c) == -1 ? -1 : 1;
	closes = *c->p == '{' ? '}' : ']';
	if (descend(c) == -1)
		return -1;
	skip_space(c);
	if (at(c, closes)) {
		c->p++;
		c->depth--;
		return 1;
	}
	if (closes == '}')
		return key(c);
	return 0;
}

/* Behind a complete value: close containers.  Return 1 at the end, 0 before a value, or -1. */
static int
after_value(struct check *c)
{
	bool object;

	for (;;) {
		skip_space(c);
		if (c->depth == 0)
			return c->p == c->end ? 1 : invalid(c, "something follows the value");
		object = c->open[c->depth - 1] != 0;
		if (at(c, ',')) {
			c->p++;
			skip_space(c);
			return object ? key(c) : 0;
		}
		if (!at(c, object ? '}' : ']'))
			return invalid(c, "a comma or a closing bracket is missing");
		c->p++;
		c->depth--;
	}
}

int
http_json_check(const char *text, size_t len, unsigned depth_max, struct refusal *refusal)
{
	struct check c = {.text = text, .p = text, .end = text + len, .refusal = refusal};
	int r;

	c.depth_max = depth_max < JSON_DEPTH_MAX ? depth_max : JSON_DEPTH_MAX;
	if (len >= UINT32_MAX)
		return invalid(&c, "a text of 4 GiB or more");
	do {
		if ((r = value(&c)) == 1)
			r = after_value(&c);
	} while (r == 0);
	free(c.arena);
	free(c.keys);
	return r == 1 ? 0 : -1;
}
