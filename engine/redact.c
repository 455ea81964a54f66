/*
 * redact.c: look for words in a stream, and hold what may become one.  There is one for each tunnel
 * with a token: guarded pages for each word of each would take a hundred times the memory, so words
 * stand in the heap, and are wiped.
 */
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redact.h"

#define WORDS_MAX 64
#define WORD_MIN  8

struct word {
	char *at;
	size_t len;
	bool shared; /* of base64: the character behind it has bits of it as well */
};

struct redact {
	struct word words[WORDS_MAX];
	size_t n, longest;
	bool begins[256]; /* some word begins with it */
	char *held;       /* room for the longest word */
	size_t nheld;
	bool shared; /* what comes next stands behind such a word */
};

struct redact *
redact_new(void)
{
	return calloc(1, sizeof(struct redact));
}

static void
wipe(char *at, size_t len)
{
	if (at != NULL)
		sodium_memzero(at, len);
	free(at);
}

void
redact_free(struct redact *r)
{
	size_t i;

	if (r == NULL)
		return;
	for (i = 0; i < r->n; i++)
		wipe(r->words[i].at, r->words[i].len);
	wipe(r->held, r->longest);
	free(r);
}

static int
word_add(struct redact *r, const char *at, size_t len, bool shared)
{
	char *held;
	size_t i;

	for (i = 0; i < r->n; i++)
		if (r->words[i].len == len && r->words[i].shared == shared &&
		    memcmp(r->words[i].at, at, len) == 0)
			return 0;
	if (len < WORD_MIN)
		return 0;
	if (r->n == WORDS_MAX)
		return -1;
	if (len > r->longest) {
		if ((held = malloc(len)) == NULL)
			return -1;
		if (r->nheld > 0)
			memcpy(held, r->held, r->nheld);
		wipe(r->held, r->longest);
		r->held = held;
		r->longest = len;
	}
	if ((r->words[r->n].at = malloc(len)) == NULL)
		return -1;
	memcpy(r->words[r->n].at, at, len);
	r->words[r->n].len = len;
	r->words[r->n++].shared = shared;
	r->begins[(unsigned char)*at] = true;
	return 0;
}

static size_t
percent(const char *secret, bool lower, char *out)
{
	size_t n = 0;

	for (; *secret != '\0'; secret++)
		if ((*secret >= '0' && *secret <= '9') || (*secret >= 'A' && *secret <= 'Z') ||
		    (*secret >= 'a' && *secret <= 'z') || strchr("-._~", *secret) != NULL)
			out[n++] = *secret;
		else
			n += (size_t)sprintf(
			    out + n, lower ? "%%%02x" : "%%%02X", (unsigned char)*secret);
	return n;
}

static size_t
json(const char *secret, bool slashes, char *out)
{
	size_t n = 0;

	for (; *secret != '\0'; secret++) {
		if (*secret == '"' || *secret == '\\' || (*secret == '/' && slashes))
			out[n++] = '\\';
		out[n++] = *secret;
	}
	return n;
}

static size_t
hexadecimal(const char *secret, bool lower, char *out)
{
	size_t n = 0;

	for (; *secret != '\0'; secret++)
		n += (size_t)sprintf(out + n, lower ? "%02x" : "%02X", (unsigned char)*secret);
	return n;
}

/*
 * In base64 a text has one of three forms, by how many bytes stand before it; of each the
 * characters that hold nothing but the text.  The one behind them may hold its last bits.  (The one
 * before them, with two or four of its first, has been passed on when they are seen.)
 */
static int
base64_add(struct redact *r, const char *secret, int variant, char *copy, char *out)
{
	size_t len = strlen(secret), before, first, whole;

	for (before = 0; before < 3; before++) {
		memset(copy, 'x', before);
		memcpy(copy + before, secret, len);
		sodium_bin2base64(out, sodium_base64_encoded_len(len + before, variant),
		    (const unsigned char *)copy, len + before, variant);
		first = before == 0 ? 0 : before + 1;
		whole = (len + before) * 8 / 6;
		if (whole > first &&
		    word_add(r, out + first, whole - first, (len + before) % 3 != 0) != 0)
			return -1;
	}
	return 0;
}

static int
forms_add(struct redact *r, const char *secret, char *copy, char *out)
{
	int rc = word_add(r, secret, strlen(secret), false);
	int lower;

	for (lower = 0; rc == 0 && lower < 2; lower++) {
		rc = word_add(r, out, percent(secret, lower, out), false);
		if (rc == 0)
			rc = word_add(r, out, json(secret, lower, out), false);
		if (rc == 0)
			rc = word_add(r, out, hexadecimal(secret, lower, out), false);
	}
	if (rc == 0)
		rc = base64_add(r, secret, sodium_base64_VARIANT_ORIGINAL, copy, out);
	return rc == 0 ? base64_add(r, secret, sodium_base64_VARIANT_URLSAFE_NO_PADDING, copy, out)
		       : -1;
}

int
redact_add(struct redact *r, const char *secret)
{
	size_t len = strlen(secret);
	char *copy = sodium_malloc(len + 4), *out = sodium_malloc(3 * len + 16);
	const char *password = strchr(secret, ':');
	int rc = -1;

	if (copy != NULL && out != NULL) {
		rc = forms_add(r, secret, copy, out);
		if (rc == 0 && password != NULL && strlen(password + 1) >= WORD_MIN)
			rc = forms_add(r, password + 1, copy, out);
	}
	sodium_free(copy);
	sodium_free(out);
	return rc;
}

/* The longest word that stands at ${at}, or NULL; ${*part} where more bytes could make one. */
static const struct word *
word_at(const struct redact *r, const char *at, size_t len, bool *part)
{
	const struct word *found = NULL, *w;

	*part = false;
	if (!r->begins[(unsigned char)*at])
		return NULL;
	for (w = r->words; w < r->words + r->n; w++) {
		if (memcmp(w->at, at, w->len < len ? w->len : len) != 0)
			continue;
		if (len < w->len)
			*part = true;
		else if (found == NULL || w->len > found->len)
			found = w;
	}
	return found;
}

static bool
is_base64(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("+/-_", c) != NULL);
}

/* Go over ${text}; return where what is to be held begins (${last}: nothing is). */
static size_t
strike(struct redact *r, char *text, size_t len, bool last)
{
	const struct word *found;
	size_t at = 0;
	bool part;

	while (at < len) {
		found = word_at(r, text + at, len - at, &part);
		if (part && !last)
			break;
		if (found != NULL)
			memset(text + at, '*', found->len);
		else if (r->shared && is_base64(text[at]))
			text[at] = '*';
		at += found != NULL ? found->len : 1;
		r->shared = found != NULL && found->shared;
	}
	return at;
}

size_t
redact_feed(struct redact *r, const char *in, size_t len, char *out)
{
	size_t all = r->nheld + len, done;

	if (r->nheld > 0)
		memcpy(out, r->held, r->nheld);
	if (len > 0)
		memcpy(out + r->nheld, in, len);
	done = strike(r, out, all, false);
	/* Less than a word: it has room. */
	r->nheld = all - done;
	if (r->nheld > 0) {
		memcpy(r->held, out + done, r->nheld);
		sodium_memzero(out + done, r->nheld);
	}
	return done;
}

size_t
redact_held(const struct redact *r)
{
	return r->nheld;
}

size_t
redact_end(struct redact *r, char *out)
{
	size_t len = r->nheld;

	if (len > 0) {
		memcpy(out, r->held, len);
		strike(r, out, len, true);
	}
	r->nheld = 0;
	r->shared = false;
	return len;
}
