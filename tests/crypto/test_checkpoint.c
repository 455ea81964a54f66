/* test_checkpoint.c: notes, keys and proofs as text: what is written, and all that is not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/checkpoint.h"

static struct key *key;
static unsigned char pk[32];
static struct checkpoint cp = {.size = 20852163};
static char note[CHECKPOINT_TEXT];

static int
make(void **state)
{
	unsigned char signature[KEY_SIGN_SIZE];
	struct refusal r = {0};
	char dir[] = "/tmp/bastion-test-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/key", dir);
	assert_int_equal(key_create(path, &r), 0);
	assert_non_null(key = key_load(path, &r));
	unlink(path);
	rmdir(dir);
	key_public(key, KEY_IDENTITY, pk);
	memset(cp.root, 7, sizeof(cp.root));
	assert_int_equal(checkpoint_sign(key, &cp, signature), 0);
	assert_int_equal(checkpoint_verify(pk, &cp, signature), 0);
	checkpoint_write(pk, &cp, signature, note);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	key_free(key);
	return 0;
}

static void
reads(const char *text)
{
	struct checkpoint read;
	struct refusal r = {0};

	if (checkpoint_read(pk, text, strlen(text), &read, &r) != 0)
		fail_msg("%s in:\n%s", r.why, text);
	assert_int_equal(read.size, cp.size);
	assert_memory_equal(read.root, cp.root, 32);
}

static void
refuses(const char *text, const char *code)
{
	struct checkpoint read;
	struct refusal r = {0};

	if (checkpoint_read(pk, text, strlen(text), &read, &r) == 0)
		fail_msg("read:\n%s", text);
	if (strcmp(r.code, code) != 0)
		fail_msg("%s, not %s:\n%s", r.code, code, text);
}

/* ${text} with its first ${from} as ${to}. */
static const char *
with(const char *text, const char *from, const char *to)
{
	static char out[CHECKPOINT_TEXT + 512];
	const char *at = strstr(text, from);

	assert_non_null(at);
	snprintf(out, sizeof(out), "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	return out;
}

/* c2sp.org/tlog-checkpoint: three lines, a blank one, the signature over the first three. */
static void
a_note_has_its_form(void **state)
{
	char origin[CHECKPOINT_ORIGIN], begin[160];

	(void)state;
	checkpoint_origin(pk, origin);
	snprintf(begin, sizeof(begin),
	    "%s\n20852163\nBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n\n\xe2\x80\x94 %s ",
	    origin, origin);
	assert_int_equal(strncmp(note, begin, strlen(begin)), 0);
	assert_int_equal(note[strlen(note) - 1], '\n');
	reads(note);
}

/* Other signers' lines are passed over; ours may stand anywhere among them. */
static void
others_may_sign_too(void **state)
{
	char both[CHECKPOINT_TEXT + 128];

	(void)state;
	snprintf(both, sizeof(both), "%s\xe2\x80\x94 witness.example AAAAAAAA\n", note);
	reads(both);
	reads(with(note, "\n\n", "\n\n\xe2\x80\x94 witness.example AAAAAAAA\n"));
}

static void
what_is_changed_is_refused(void **state)
{
	char other[33], *line;

	(void)state;
	refuses(with(note, "20852163", "20852164"), "checkpoint.signature");
	refuses(with(note, "BwcH", "CwcH"), "checkpoint.signature");
	refuses(with(note, "\n\n", "\nextension\n\n"), "checkpoint.signature");
	refuses(with(note, "20852163", "020852163"), "checkpoint.form");
	refuses(with(note, "20852163", "99999999999999999999"), "checkpoint.form");
	refuses(with(note, "20852163", "-1"), "checkpoint.form");
	refuses(with(note, "20852163", ""), "checkpoint.form");
	refuses(with(note, "Bwc=", "Bwd="), "checkpoint.form"); /* bits behind the last byte */
	refuses(with(note, "Bwc=", "Bw=="), "checkpoint.form");
	refuses(with(note, "BwcH",
		    "\xfc"
		    "wcH"),
	    "checkpoint.form");
	refuses(with(note, "\n\n", "\n"), "checkpoint.form");
	refuses(with(note, "\n\n", "\n\n\n"), "checkpoint.signature");
	refuses(with(note, "bastion.audit", "bastion.other"), "checkpoint.other");
	refuses(with(note, "\xe2\x80\x94 b", "- b"), "checkpoint.form");
	refuses(with(note, "20852163", "2085\t2163"), "checkpoint.form");
	refuses("", "checkpoint.form");
	refuses("\n\n", "checkpoint.form");
	refuses("a\n1\n\n", "checkpoint.form");
	line = strrchr(note, '\n');
	*line = '\0';
	refuses(note, "checkpoint.form");
	*line = '\n';
	/* Another machine's key, and another log under this one. */
	memcpy(other, pk, 32);
	other[31] ^= 1;
	{
		struct checkpoint read;
		struct refusal r = {0};

		assert_int_equal(
		    checkpoint_read((unsigned char *)other, note, strlen(note), &read, &r), -1);
		assert_string_equal(r.code, "checkpoint.other");
	}
}

/* A signature of a checkpoint is none of a seal, and the other way round: the origin stands apart.
 */
static void
domains_are_apart(void **state)
{
	unsigned char signature[KEY_SIGN_SIZE];
	char origin[CHECKPOINT_ORIGIN];

	(void)state;
	checkpoint_origin(pk, origin);
	assert_non_null(strchr(origin, '/')); /* no other domain has one */
	assert_int_equal(checkpoint_sign(key, &cp, signature), 0);
	assert_int_equal(
	    key_verify(pk, "bastion-audit-1",
		"20852163\nBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n", 54, signature),
	    -1);
}

static void
keys_have_one_spelling(void **state)
{
	char text[CHECKPOINT_KEY], hex[65];
	unsigned char read[32];
	size_t i;

	(void)state;
	checkpoint_key_write(pk, text);
	assert_int_equal(checkpoint_key_read(text, read), 0);
	assert_memory_equal(read, pk, 32);
	for (i = 0; i < strlen(text); i++) {
		text[i] ^= 1;
		assert_int_equal(checkpoint_key_read(text, read), -1);
		text[i] ^= 1;
	}
	sodium_bin2hex(hex, sizeof(hex), pk, 32);
	assert_int_equal(checkpoint_key_read(hex, read), 0);
	assert_memory_equal(read, pk, 32);
	hex[5] = 'x';
	assert_int_equal(checkpoint_key_read(hex, read), -1);
	assert_int_equal(checkpoint_key_read("", read), -1);
	assert_int_equal(checkpoint_key_read("+", read), -1);
	assert_int_equal(checkpoint_key_read("a+b+", read), -1);
}

/* Both forms come back as they went out; what is not in them is refused. */
static void
proofs_have_their_forms(void **state)
{
	static const char *const wrong[] = {"", "old 5", "old 5\n", "old 05\n\nx\n", "old -1\n\nx",
	    "old 5\nAAAA\n\nx\n", "c2sp.org/tlog-proof@v1\n\nx",
	    "c2sp.org/tlog-proof@v1\nindex\n\nx", "c2sp.org/tlog-proof@v1\nextra AAAA\n",
	    "c2sp.org/tlog-proof@v2\nindex 5\n\nx\n",
	    "c2sp.org/tlog-proof@v1\nindex 5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n\nx\n",
	    "c2sp.org/tlog-proof@v1\nindex 9223372036854775807\n\nx\n"};
	struct checkpoint_proof proof = {.kind = PROOF_INCLUSION, .number = 73893}, read;
	struct refusal r = {0};
	char *text, *most;
	size_t len, i;
	FILE *f;
	int kind;

	(void)state;
	proof.proof.n = MERKLE_PROOF;
	for (i = 0; i < MERKLE_PROOF; i++)
		memset(proof.proof.hash[i], (int)i, 32);
	for (kind = 0; kind < 2; kind++) {
		proof.kind = (enum checkpoint_proof_kind)kind;
		assert_non_null(f = open_memstream(&text, &len));
		assert_int_equal(
		    checkpoint_proof_write(&proof, kind == 0 ? "a row" : NULL, note, f), 0);
		fclose(f);
		assert_true(len < CHECKPOINT_PROOF);
		if (checkpoint_proof_read(text, len, &read, &r) != 0)
			fail_msg("%s", r.why);
		assert_int_equal(read.kind, kind);
		assert_int_equal(read.number, 73893);
		assert_memory_equal(&read.proof, &proof.proof, sizeof(proof.proof));
		assert_int_equal(read.note_len, strlen(note));
		assert_memory_equal(read.note, note, read.note_len);
		assert_int_equal(read.extra_len, kind == 0 ? 8 : 0);
		/* One hash more than a proof can have. */
		most = strstr(text, "AAAA");
		assert_non_null(f = open_memstream(&most, &i));
		fprintf(f, "%.*s", (int)(strstr(text, "AAAAAAAAAA") - text), text);
		fprintf(f, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n%s",
		    strstr(text, "AAAAAAAAAA"));
		fclose(f);
		assert_int_equal(checkpoint_proof_read(most, i, &read, &r), -1);
		free(most);
		free(text);
	}
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (checkpoint_proof_read(wrong[i], strlen(wrong[i]), &read, &r) == 0)
			fail_msg("read: %s", wrong[i]);
		assert_string_equal(r.code, "proof.form");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_note_has_its_form),
	    cmocka_unit_test(others_may_sign_too),
	    cmocka_unit_test(what_is_changed_is_refused),
	    cmocka_unit_test(domains_are_apart),
	    cmocka_unit_test(keys_have_one_spelling),
	    cmocka_unit_test(proofs_have_their_forms),
	};

	return cmocka_run_group_tests(tests, make, drop);
}
