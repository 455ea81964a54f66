/* checkpoint.c: notes, keys and proofs as text, written and read. */
#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/base64.h"
#include "engine/crypto/checkpoint.h"
#include "engine/crypto/sha256.h"

#define ORIGIN      "bastion.audit/"
#define PROOF_HEAD  "c2sp.org/tlog-proof@v1"
#define DASH        "\xe2\x80\x94 " /* em dash and space: what begins the line of a signature */
#define ED25519     0x01
#define KEY_ID      4
#define SIGNATURES  64 /* lines of signers that are looked at */
#define SIZE_DIGITS 19

_Static_assert(sizeof(ORIGIN) + 32 == CHECKPOINT_ORIGIN, "16 bytes in hex");

/*
 * Text in parts.
 */

/* What is left of a text; a line ends with its line feed, and each must have one. */
struct rest {
	const char *at, *end;
};

struct line {
	const char *text;
	size_t len;
};

static int
line_next(struct rest *rest, struct line *line)
{
	const char *end = memchr(rest->at, '\n', (size_t)(rest->end - rest->at));

	if (end == NULL)
		return -1;
	*line = (struct line){rest->at, (size_t)(end - rest->at)};
	rest->at = end + 1;
	return 0;
}

static int
line_is(const struct line *line, const char *text)
{
	return line->len == strlen(text) && memcmp(line->text, text, line->len) == 0;
}

/* Drop ${word} from the front of ${line}.  Return 0, or -1 where it does not stand there. */
static int
line_after(struct line *line, const char *word)
{
	size_t len = strlen(word);

	if (line->len < len || memcmp(line->text, word, len) != 0)
		return -1;
	line->text += len;
	line->len -= len;
	return 0;
}

/* A decimal number in its one spelling. */
static int
number_read(const struct line *line, uint64_t *number)
{
	size_t i;

	*number = 0;
	if (line->len == 0 || line->len > SIZE_DIGITS || (line->len > 1 && line->text[0] == '0'))
		return -1;
	for (i = 0; i < line->len; i++) {
		if (line->text[i] < '0' || line->text[i] > '9')
			return -1;
		*number = *number * 10 + (uint64_t)(line->text[i] - '0');
	}
	return *number >> (MERKLE_LEVELS - 1) == 0 ? 0 : -1;
}

static int
hash_read(const struct line *line, unsigned char hash[MERKLE_HASH])
{
	return line->len == 44 &&
		       base64_read(line->text, line->len, NULL, hash, MERKLE_HASH) == MERKLE_HASH
		   ? 0
		   : -1;
}

static void
hash_write(const unsigned char hash[MERKLE_HASH], char text[45])
{
	sodium_bin2base64(text, 45, hash, MERKLE_HASH, sodium_base64_VARIANT_ORIGINAL);
}

/*
 * Keys.
 */

void
checkpoint_origin(const unsigned char pk[KEY_PUBLIC_SIZE], char origin[CHECKPOINT_ORIGIN])
{
	memcpy(origin, ORIGIN, sizeof(ORIGIN));
	sodium_bin2hex(origin + sizeof(ORIGIN) - 1, CHECKPOINT_ORIGIN - sizeof(ORIGIN) + 1, pk, 16);
}

static void
key_id(const unsigned char pk[KEY_PUBLIC_SIZE], unsigned char id[KEY_ID])
{
	unsigned char text[CHECKPOINT_ORIGIN + 1 + KEY_PUBLIC_SIZE], digest[SHA256_SIZE];
	size_t len = CHECKPOINT_ORIGIN - 1;

	checkpoint_origin(pk, (char *)text);
	text[len++] = '\n';
	text[len++] = ED25519;
	sha256_pair(text, len, pk, KEY_PUBLIC_SIZE, digest);
	memcpy(id, digest, KEY_ID);
}

void
checkpoint_key_write(const unsigned char pk[KEY_PUBLIC_SIZE], char text[CHECKPOINT_KEY])
{
	unsigned char typed[1 + KEY_PUBLIC_SIZE] = {ED25519}, id[KEY_ID];
	char hex[2 * KEY_ID + 1], base64[45], origin[CHECKPOINT_ORIGIN];

	memcpy(typed + 1, pk, KEY_PUBLIC_SIZE);
	key_id(pk, id);
	checkpoint_origin(pk, origin);
	sodium_bin2hex(hex, sizeof(hex), id, sizeof(id));
	sodium_bin2base64(
	    base64, sizeof(base64), typed, sizeof(typed), sodium_base64_VARIANT_ORIGINAL);
	snprintf(text, CHECKPOINT_KEY, "%s+%s+%s", origin, hex, base64);
}

int
checkpoint_key_read(const char *text, unsigned char pk[KEY_PUBLIC_SIZE])
{
	unsigned char typed[1 + KEY_PUBLIC_SIZE];
	char again[CHECKPOINT_KEY];
	const char *base64;
	size_t n;

	if (strlen(text) == 2 * KEY_PUBLIC_SIZE)
		return sodium_hex2bin(
			   pk, KEY_PUBLIC_SIZE, text, 2 * KEY_PUBLIC_SIZE, NULL, &n, NULL) == 0 &&
			       n == KEY_PUBLIC_SIZE
			   ? 0
			   : -1;
	/* Written again it must be the same: then its parts are all right. */
	if ((base64 = strchr(text, '+')) == NULL || (base64 = strchr(base64 + 1, '+')) == NULL ||
	    base64_read(base64 + 1, strlen(base64 + 1), NULL, typed, sizeof(typed)) !=
		(ssize_t)sizeof(typed))
		return -1;
	memcpy(pk, typed + 1, KEY_PUBLIC_SIZE);
	checkpoint_key_write(pk, again);
	return strcmp(again, text) == 0 ? 0 : -1;
}

/*
 * Checkpoints.
 */

/* What follows the origin and its line feed. */
static int
body_write(const struct checkpoint *cp, char body[80])
{
	char root[45];

	hash_write(cp->root, root);
	return snprintf(body, 80, "%" PRIu64 "\n%s\n", cp->size, root);
}

int
checkpoint_sign(
    const struct key *key, const struct checkpoint *cp, unsigned char signature[KEY_SIGN_SIZE])
{
	unsigned char pk[KEY_PUBLIC_SIZE];
	char origin[CHECKPOINT_ORIGIN], body[80];
	int len = body_write(cp, body);

	key_public(key, KEY_IDENTITY, pk);
	checkpoint_origin(pk, origin);
	return key_sign(key, KEY_IDENTITY, origin, body, (size_t)len, signature);
}

int
checkpoint_verify(const unsigned char pk[KEY_PUBLIC_SIZE], const struct checkpoint *cp,
    const unsigned char signature[KEY_SIGN_SIZE])
{
	char origin[CHECKPOINT_ORIGIN], body[80];
	int len = body_write(cp, body);

	checkpoint_origin(pk, origin);
	return key_verify(pk, origin, body, (size_t)len, signature);
}

void
checkpoint_write(const unsigned char pk[KEY_PUBLIC_SIZE], const struct checkpoint *cp,
    const unsigned char signature[KEY_SIGN_SIZE], char text[CHECKPOINT_TEXT])
{
	unsigned char signed_by[KEY_ID + KEY_SIGN_SIZE];
	char origin[CHECKPOINT_ORIGIN], body[80], base64[96];

	checkpoint_origin(pk, origin);
	body_write(cp, body);
	key_id(pk, signed_by);
	memcpy(signed_by + KEY_ID, signature, KEY_SIGN_SIZE);
	sodium_bin2base64(
	    base64, sizeof(base64), signed_by, sizeof(signed_by), sodium_base64_VARIANT_ORIGINAL);
	snprintf(text, CHECKPOINT_TEXT, "%s\n%s\n" DASH "%s %s\n", origin, body, origin, base64);
}

/* Where the text of a note ends: behind it stand the last blank line, and the signatures. */
static const char *
note_end(const char *text, size_t len)
{
	const char *at;

	for (at = text + len - 1; at > text; at--)
		if (at[0] == '\n' && at[-1] == '\n')
			return at;
	return NULL;
}

static int
note_plain(const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 && text[i] != '\n')
			return -1;
	return len > 0 && len <= CHECKPOINT_MAX ? 0 : -1;
}

/* Return 1 with our signature, 0 without one, -1 where the lines are not in their form. */
static int
signature_find(const unsigned char pk[KEY_PUBLIC_SIZE], struct rest rest,
    unsigned char signature[KEY_ID + KEY_SIGN_SIZE])
{
	unsigned char id[KEY_ID];
	char ours[sizeof(DASH) + CHECKPOINT_ORIGIN + 1], origin[CHECKPOINT_ORIGIN];
	struct line line, base64;
	int n;

	key_id(pk, id);
	checkpoint_origin(pk, origin);
	snprintf(ours, sizeof(ours), DASH "%s ", origin);
	for (n = 0; rest.at < rest.end; n++) {
		if (n == SIGNATURES || line_next(&rest, &line) != 0)
			return -1;
		base64 = line;
		if (line_after(&line, DASH) != 0)
			return -1;
		if (line_after(&base64, ours) == 0 &&
		    base64_read(base64.text, base64.len, NULL, signature, KEY_ID + KEY_SIGN_SIZE) ==
			KEY_ID + KEY_SIGN_SIZE &&
		    memcmp(signature, id, KEY_ID) == 0)
			return 1;
	}
	return n == 0 ? -1 : 0;
}

int
checkpoint_read(const unsigned char pk[KEY_PUBLIC_SIZE], const char *text, size_t len,
    struct checkpoint *cp, struct refusal *r)
{
	unsigned char signature[KEY_ID + KEY_SIGN_SIZE];
	char origin[CHECKPOINT_ORIGIN];
	struct line name, size, root;
	struct rest rest;
	const char *end, *body;
	int found;

	if (note_plain(text, len) != 0 || (end = note_end(text, len)) == NULL)
		return refusal_set(r, "checkpoint.form", "this is no signed note");
	rest = (struct rest){text, end};
	if (line_next(&rest, &name) != 0 || line_next(&rest, &size) != 0 ||
	    number_read(&size, &cp->size) != 0 || line_next(&rest, &root) != 0 ||
	    hash_read(&root, cp->root) != 0)
		return refusal_set(r, "checkpoint.form",
		    "a checkpoint is an origin, a number of rows and a root, a line each");
	found = signature_find(pk, (struct rest){end + 1, text + len}, signature);
	if (found == -1)
		return refusal_set(
		    r, "checkpoint.form", "the signatures of the checkpoint are not in their form");
	checkpoint_origin(pk, origin);
	if (found == 0 || !line_is(&name, origin))
		return refusal_set(r, "checkpoint.other",
		    "the checkpoint is not signed with this key, so it is another machine's");
	body = size.text;
	if (key_verify(pk, origin, body, (size_t)(end - body), signature + KEY_ID) != 0)
		return refusal_set(r, "checkpoint.signature",
		    "the checkpoint was changed: its signature does not fit");
	return 0;
}

/*
 * Proofs.
 */

static int
extra_write(const char *extra, FILE *out)
{
	size_t len = strlen(extra);
	size_t need = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
	char *base64;
	int rc;

	if ((base64 = malloc(need)) == NULL)
		return -1;
	sodium_bin2base64(
	    base64, need, (const unsigned char *)extra, len, sodium_base64_VARIANT_ORIGINAL);
	rc = fprintf(out, "extra %s\n", base64) < 0 ? -1 : 0;
	free(base64);
	return rc;
}

int
checkpoint_proof_write(
    const struct checkpoint_proof *proof, const char *extra, const char *note, FILE *out)
{
	char hash[45];
	size_t i;

	if (proof->kind == PROOF_INCLUSION && fputs(PROOF_HEAD "\n", out) == EOF)
		return -1;
	if (proof->kind == PROOF_INCLUSION && extra != NULL && extra_write(extra, out) != 0)
		return -1;
	fprintf(out, "%s %" PRIu64 "\n", proof->kind == PROOF_INCLUSION ? "index" : "old",
	    proof->number);
	for (i = 0; i < proof->proof.n; i++) {
		hash_write(proof->proof.hash[i], hash);
		fprintf(out, "%s\n", hash);
	}
	return fprintf(out, "\n%s", note) < 0 ? -1 : 0;
}

/* What stands above the hashes. */
static int
proof_head(struct rest *rest, struct checkpoint_proof *proof)
{
	struct line line;

	if (line_next(rest, &line) != 0)
		return -1;
	proof->kind = line_is(&line, PROOF_HEAD) ? PROOF_INCLUSION : PROOF_CONSISTENCY;
	if (proof->kind == PROOF_CONSISTENCY)
		return line_after(&line, "old ") == 0 ? number_read(&line, &proof->number) : -1;
	if (line_next(rest, &line) != 0)
		return -1;
	if (line_after(&line, "extra ") == 0) {
		proof->extra = line.text;
		proof->extra_len = line.len;
		if (line_next(rest, &line) != 0)
			return -1;
	}
	return line_after(&line, "index ") == 0 ? number_read(&line, &proof->number) : -1;
}

int
checkpoint_proof_read(
    const char *text, size_t len, struct checkpoint_proof *proof, struct refusal *r)
{
	struct rest rest = {text, text + len};
	struct line line;

	memset(proof, 0, sizeof(*proof));
	if (proof_head(&rest, proof) != 0)
		return refusal_set(r, "proof.form", "this does not begin as a proof does");
	while (line_next(&rest, &line) == 0) {
		if (line.len == 0) {
			proof->note = rest.at;
			proof->note_len = (size_t)(rest.end - rest.at);
			return 0;
		}
		if (proof->proof.n == MERKLE_PROOF ||
		    hash_read(&line, proof->proof.hash[proof->proof.n]) != 0)
			return refusal_set(r, "proof.form",
			    "a line of the proof is no hash, or there are too many");
		proof->proof.n++;
	}
	return refusal_set(r, "proof.form", "the proof ends before its checkpoint");
}
