/* test_factor.c: enrolling, proving and dropping factors; the throttle; the counter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "engine/state/factor.h"
#include "tests/person.h"

#define WRONG "SELECT count(*) FROM factor_try WHERE outcome = 'wrong'"

/* A box at a fixed time, with a Host and a person. */
static int64_t
morning(struct scratch *s, struct person *p)
{
	scratch_make(s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	if (p != NULL)
		person_enrol(s, p, "phone");
	return person_host(s, "laptop");
}

/* A code that is not the one of this moment or its neighbours. */
static const char *
wrong_code(const struct person *p, char code[7])
{
	char right[3][7];
	unsigned n = 0;
	int i;

	for (i = 0; i < 3; i++)
		person_code(p, clock_now() + (i - 1) * 30000, right[i]);
	do
		snprintf(code, 7, "%06u", n++ % 1000000);
	while (strcmp(code, right[0]) == 0 || strcmp(code, right[1]) == 0 ||
	       strcmp(code, right[2]) == 0);
	return code;
}

static void
an_authenticator_is_enrolled_sealed(void **state)
{
	struct factor_totp totp;
	struct scratch s;
	char text[256];

	(void)state;
	morning(&s, NULL);
	assert_int_equal(factor_add_totp(s.db, s.key, "phone", &totp), 0);
	assert_int_equal(strlen(totp.secret), 32);
	assert_non_null(strstr(totp.uri, totp.secret));
	assert_int_equal(strncmp(totp.uri, "otpauth://totp/bastion:", 23), 0);
	assert_int_equal(scratch_value(&s, "SELECT length(secret) FROM factor"), 60);
	scratch_text(&s, "SELECT fingerprint || label FROM factor", text, sizeof(text));
	assert_null(strstr(text, totp.secret));
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'factor'"), 1);
	assert_int_equal(factor_add_totp(s.db, s.key, "phone", &totp), -1);
	person_says(&s, "factor.label");
	assert_int_equal(totp.secret[0], '\0');
	assert_int_equal(factor_add_totp(s.db, s.key, "two\nlines", &totp), -1);
	person_says(&s, "factor.label");
	assert_int_equal(factor_add_totp(s.db, s.key, "", &totp), -1);
	person_says(&s, "factor.label");
	/* Who only looks sees no secret, not even sealed. */
	scratch_open(&s, ROLE_READER);
	assert_int_equal(scratch_value(&s, "SELECT count(secret) FROM factor"), 0);
	scratch_drop(&s);
}

/* RSL-4: the same code twice: the second is refused, for every question. */
static void
a_code_works_once(void **state)
{
	int64_t pairing, one, two, grant_id;
	struct person p;
	struct scratch s;
	char code[7], next[7];

	(void)state;
	pairing = morning(&s, &p);
	one = person_asked(&s, pairing, "[\"/usr\"]");
	two = person_asked(&s, pairing, "[\"/var\"]");
	person_code(&p, clock_now(), code);
	assert_int_equal(person_answers(&s, one, code, NULL, &grant_id), 0);
	assert_int_equal(person_answers(&s, two, code, NULL, &grant_id), -1);
	person_says(&s, "factor.used");
	assert_true(store_refusal(s.db)->retry_at > clock_now());
	/* The step before is spent as well: a counter only grows. */
	assert_int_equal(
	    person_answers(&s, two, person_code(&p, clock_now() - 30000, next), NULL, &grant_id),
	    -1);
	person_says(&s, "factor.used");
	assert_int_equal(scratch_value(&s, WRONG), 0);
	clock_fix(clock_now() + 30000);
	assert_int_equal(
	    person_answers(&s, two, person_code(&p, clock_now(), next), NULL, &grant_id), 0);
	scratch_drop(&s);
}

/* RSL-4, between processes: of two that show one code at once, one is believed. */
static void
a_code_works_once_across_processes(void **state)
{
	int64_t pairing, question[2], grant_id;
	int i, round, status, right = 0, refused = 0, gate[2];
	struct person p;
	struct scratch s;
	char code[7], c;
	pid_t pid[2];

	(void)state;
	pairing = morning(&s, &p);
	for (round = 0; round < 5; round++) {
		clock_fix(clock_now() + 30000);
		question[0] = person_asked(&s, pairing, "[\"/usr\"]");
		question[1] = person_asked(&s, pairing, "[\"/var\"]");
		person_code(&p, clock_now(), code);
		store_close(s.db);
		s.db = NULL;
		assert_int_equal(pipe(gate), 0);
		for (i = 0; i < 2; i++)
			if ((pid[i] = fork()) == 0) {
				close(gate[1]);
				if (read(gate[0], &c, 1) != 0)
					_exit(9);
				if (person_answers(&s, question[i], code, NULL, &grant_id) == 0)
					_exit(0);
				_exit(
				    strcmp(store_refusal(s.db)->code, "factor.used") == 0 ? 1 : 2);
			}
		close(gate[0]);
		close(gate[1]);
		for (i = 0; i < 2; i++) {
			assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
			assert_true(WIFEXITED(status));
			right += WEXITSTATUS(status) == 0;
			refused += WEXITSTATUS(status) == 1;
		}
		if (scratch_sql(&s, "UPDATE approval SET state = 'expired', decided_at = now_ms()"
				    " WHERE state = 'pending'") != 0)
			fail_msg("%s", s.error);
	}
	assert_int_equal(right, 5);
	assert_int_equal(refused, 5);
	scratch_drop(&s);
}

/* Wrong codes close the door; behind it the right code is not looked at, so it is not spent. */
static void
wrong_codes_are_throttled(void **state)
{
	int64_t pairing, id, grant_id, opens;
	struct person p;
	struct scratch s;
	char code[7];
	int i;

	(void)state;
	pairing = morning(&s, &p);
	id = person_asked(&s, pairing, "[]");
	for (i = 0; i < 5; i++) {
		clock_fix(PERSON_MORNING + i);
		assert_int_equal(person_answers(&s, id, wrong_code(&p, code), NULL, &grant_id), -1);
		person_says(&s, "factor.code");
		assert_int_equal(scratch_value(&s, WRONG), i + 1);
	}
	opens = PERSON_MORNING + 900000;
	for (i = 0; i < 2; i++) {
		person_code(&p, clock_now(), code);
		assert_int_equal(
		    person_answers(&s, id, i == 0 ? "000000" : code, NULL, &grant_id), -1);
		person_says(&s, "factor.throttled");
		assert_int_equal(store_refusal(s.db)->retry_at, opens);
	}
	assert_int_equal(scratch_value(&s, "SELECT last_counter FROM factor"), -1);
	assert_int_equal(scratch_value(&s, WRONG), 5);
	person_refused(&s, "factor.throttled",
	    "INSERT INTO factor_try (at, kind, outcome) VALUES (now_ms(), 'totp', 'right')");
	clock_fix(opens);
	assert_int_equal(
	    person_answers(&s, id, person_code(&p, clock_now(), code), NULL, &grant_id), 0);
	scratch_drop(&s);
}

/* The cap holds however many guess at once: no more tries are heard than the setting allows. */
static void
parallel_guesses_share_the_throttle(void **state)
{
	int64_t pairing, id, grant_id;
	int i, status, heard = 0, throttled = 0;
	struct person p;
	struct scratch s;
	char code[7];
	pid_t pid[8];

	(void)state;
	pairing = morning(&s, &p);
	id = person_asked(&s, pairing, "[]");
	wrong_code(&p, code);
	store_close(s.db);
	s.db = NULL;
	for (i = 0; i < 8; i++)
		if ((pid[i] = fork()) == 0) {
			if (person_answers(&s, id, code, NULL, &grant_id) == 0)
				_exit(9);
			_exit(strcmp(store_refusal(s.db)->code, "factor.throttled") == 0 ? 1 : 2);
		}
	for (i = 0; i < 8; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		throttled += WEXITSTATUS(status) == 1;
		heard += WEXITSTATUS(status) == 2;
	}
	assert_int_equal(heard, 5);
	assert_int_equal(throttled, 3);
	assert_int_equal(scratch_value(&s, WRONG), 5);
	scratch_drop(&s);
}

/* A wrong try is kept although what it was for is undone; no code at all is no try. */
static void
a_wrong_try_changes_nothing_else(void **state)
{
	int64_t pairing, id, grant_id;
	struct person p;
	struct scratch s;
	char code[7];

	(void)state;
	pairing = morning(&s, &p);
	id = person_asked(&s, pairing, "[]");
	assert_int_equal(person_answers(&s, id, "12345", NULL, &grant_id), -1);
	person_says(&s, "factor.code");
	assert_int_equal(person_answers(&s, id, "12345x", NULL, &grant_id), -1);
	assert_int_equal(scratch_value(&s, WRONG), 0);
	assert_int_equal(person_answers(&s, id, wrong_code(&p, code), NULL, &grant_id), -1);
	assert_int_equal(scratch_value(&s, WRONG), 1);
	assert_int_equal(
	    scratch_value(
		&s, "SELECT count(*) FROM audit WHERE entity = 'factor' AND action = 'wrong'"),
	    1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant"), 0);
	assert_int_equal(scratch_value(&s, "SELECT state = 'pending' FROM approval"), 1);
	/* A right one forgives what was wrong before it. */
	assert_int_equal(
	    person_answers(&s, id, person_code(&p, clock_now(), code), NULL, &grant_id), 0);
	assert_int_equal(scratch_value(&s, "SELECT wrong FROM factor_throttle"), 0);
	scratch_drop(&s);
}

static void
without_a_factor_nobody_can_approve(void **state)
{
	int64_t pairing, id, grant_id;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, NULL);
	id = person_asked(&s, pairing, "[]");
	assert_int_equal(person_answers(&s, id, "000000", NULL, &grant_id), -1);
	person_says(&s, "factor.none");
	assert_int_equal(person_answers(&s, id, NULL, "a signature", &grant_id), -1);
	person_says(&s, "factor.none");
	person_enrol_key(&s, &p, "laptop-key");
	assert_int_equal(person_answers(&s, id, "000000", NULL, &grant_id), -1);
	person_says(&s, "factor.none");
	assert_int_equal(scratch_value(&s, WRONG), 0);
	scratch_drop(&s);
}

/* Of several authenticators any will do, and each has a counter of its own. */
static void
any_authenticator_will_do(void **state)
{
	int64_t pairing, one, two, grant_id;
	struct person a, b;
	struct scratch s;
	char code[7];

	(void)state;
	pairing = morning(&s, &a);
	person_enrol(&s, &b, "watch");
	one = person_asked(&s, pairing, "[\"/usr\"]");
	two = person_asked(&s, pairing, "[\"/var\"]");
	assert_int_equal(
	    person_answers(&s, one, person_code(&b, clock_now(), code), NULL, &grant_id), 0);
	assert_int_equal(
	    person_answers(&s, two, person_code(&a, clock_now(), code), NULL, &grant_id), 0);
	assert_int_equal(scratch_value(&s, "SELECT factor_id FROM grant WHERE id = 1"), b.factor);
	assert_int_equal(scratch_value(&s, "SELECT factor_id FROM grant WHERE id = 2"), a.factor);
	scratch_drop(&s);
}

/* The sealed secret of one row does not open in another, nor with another machine's key. */
static void
a_secret_belongs_to_its_row_and_machine(void **state)
{
	int64_t pairing, id, grant_id;
	struct person a;
	struct scratch s, other;
	struct key *mine;
	char code[7];

	(void)state;
	pairing = morning(&s, &a);
	id = person_asked(&s, pairing, "[]");
	scratch_make(&other, HOME_BOX);
	mine = s.key;
	s.key = other.key;
	assert_int_equal(
	    person_answers(&s, id, person_code(&a, clock_now(), code), NULL, &grant_id), -1);
	person_says(&s, "factor.seal");
	s.key = mine;
	if (scratch_sql(&s,
		"INSERT INTO factor (id, kind, label, secret, fingerprint, enrolled_at)"
		" SELECT 9, 'totp', 'moved', secret, 'TOTP:9', now_ms() FROM factor;"
		"UPDATE factor SET state = 'dropped', dropped_at = now_ms() WHERE id = 1") != 0)
		fail_msg("%s", s.error);
	assert_int_equal(
	    person_answers(&s, id, person_code(&a, clock_now(), code), NULL, &grant_id), -1);
	person_says(&s, "factor.seal");
	assert_int_equal(scratch_value(&s, WRONG), 0);
	scratch_drop(&other);
	scratch_drop(&s);
}

/* DEV-1, DEV-2, DEV-3, DEV-6, KEY-1, KEY-2: a dropped factor takes its grants with it, for good. */
static void
dropping_a_factor_drops_its_grants_for_good(void **state)
{
	int64_t pairing, id, mine, theirs, dropped;
	struct person key, phone, again;
	char signature[2048];
	struct scratch s;

	(void)state;
	pairing = morning(&s, &phone);
	person_enrol_key(&s, &key, "key");
	id = person_asked(&s, pairing, "[\"/usr\"]");
	assert_int_equal(person_answers(&s, id, NULL,
			     person_sign(&s, &key, id, signature, sizeof(signature)), &mine),
	    0);
	theirs = person_granted(&s, &phone, pairing, "[\"/var\"]");
	assert_int_equal(person_run(&s, mine, 1), 0);
	assert_int_equal(factor_drop(scratch_open(&s, ROLE_PERSON), key.factor, &dropped), 0);
	assert_int_equal(dropped, 1);
	assert_int_equal(person_run(&s, mine, 2), -1);
	person_says(&s, "grant.gone");
	assert_int_equal(person_run(&s, theirs, 3), 0);
	person_enrol_key(&s, &again, "key");
	assert_int_not_equal(again.factor, key.factor);
	assert_int_equal(person_run(&s, mine, 4), -1);
	person_says(&s, "grant.gone");
	person_refused(
	    &s, "grant.final", "UPDATE grant SET state = 'active', ended_at = NULL WHERE id = 1");
	person_refused(&s, "factor.transition",
	    "UPDATE factor SET state = 'active', dropped_at = NULL WHERE id = 2");
	assert_int_equal(factor_drop(scratch_open(&s, ROLE_PERSON), key.factor, &dropped), -1);
	person_says(&s, "factor.transition");
	assert_int_equal(factor_drop(s.db, 99, &dropped), -1);
	person_says(&s, "factor.unknown");
	assert_int_equal(factor_drop(s.db, phone.factor, &dropped), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(secret) FROM factor"), 0);
	scratch_drop(&s);
}

/* DEV-6: were the grant left active by a fault, its approver's end would still hold it. */
static void
a_grant_needs_its_approver(void **state)
{
	int64_t pairing, grant_id;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	grant_id = person_granted(&s, &p, pairing, "[]");
	if (scratch_sql(&s, "DROP TRIGGER factor_dropped;"
			    "UPDATE factor SET state = 'dropped', dropped_at = now_ms()") != 0)
		fail_msg("%s", s.error);
	/* The schema is foreign now, so only a connection without a role opens it. */
	scratch_refused(&s, "grant.approver",
	    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
	    " SELECT pairing_id, op, args, printf('%032x', 1), id, now_ms() FROM grant");
	assert_int_equal(grant_id, 1);
	scratch_drop(&s);
}

static void
a_wrong_signature_is_a_try(void **state)
{
	int64_t pairing, one, two, grant_id;
	struct person key, stranger;
	char signature[2048];
	struct scratch s;

	(void)state;
	pairing = morning(&s, NULL);
	person_enrol_key(&s, &key, "key");
	one = person_asked(&s, pairing, "[\"/usr\"]");
	two = person_asked(&s, pairing, "[\"/var\"]");
	/* Of the right key, over other terms. */
	person_sign(&s, &key, one, signature, sizeof(signature));
	assert_int_equal(person_answers(&s, two, NULL, signature, &grant_id), -1);
	person_says(&s, "factor.signature");
	assert_int_equal(scratch_value(&s, WRONG), 1);
	/* Of a key that is not enrolled any more. */
	person_enrol_key(&s, &stranger, "stranger");
	person_sign(&s, &stranger, two, signature, sizeof(signature));
	assert_int_equal(factor_drop(scratch_open(&s, ROLE_PERSON), stranger.factor, &grant_id), 0);
	assert_int_equal(person_answers(&s, two, NULL, signature, &grant_id), -1);
	person_says(&s, "factor.signature");
	assert_int_equal(scratch_value(&s, WRONG), 2);
	/* No signature at all is no try. */
	assert_int_equal(person_answers(&s, two, NULL, "hello", &grant_id), -1);
	person_says(&s, "factor.signature");
	assert_int_equal(scratch_value(&s, WRONG), 2);
	scratch_drop(&s);
}

static void
put_string(unsigned char **p, const void *bytes, size_t len)
{
	(*p)[0] = (*p)[1] = 0;
	(*p)[2] = (unsigned char)(len >> 8);
	(*p)[3] = (unsigned char)len;
	if (len > 0)
		memcpy(*p + 4, bytes, len);
	*p += 4 + len;
}

/* A FIDO token in software: PROTOCOL.u2f and PROTOCOL.sshsig, by hand. */
struct token {
	unsigned char pk[32], sk[64];
	char line[256];
};

#define TOKEN_TYPE "sk-ssh-ed25519@openssh.com"

static void
token_make(struct token *t)
{
	unsigned char blob[256], *p = blob;
	char text[200];

	crypto_sign_keypair(t->pk, t->sk);
	put_string(&p, TOKEN_TYPE, strlen(TOKEN_TYPE));
	put_string(&p, t->pk, 32);
	put_string(&p, "ssh:", 4);
	sodium_bin2base64(
	    text, sizeof(text), blob, (size_t)(p - blob), sodium_base64_VARIANT_ORIGINAL);
	snprintf(t->line, sizeof(t->line), "%s %s token", TOKEN_TYPE, text);
}

static const char *
token_sign(const struct token *t, const char *msg, uint32_t counter, char *out, size_t size)
{
	unsigned char digest[64], data[512], *p = data, claim[69], blob[1024], sig[64], one[256];
	unsigned char tail[5] = {1, (unsigned char)(counter >> 24), (unsigned char)(counter >> 16),
	    (unsigned char)(counter >> 8), (unsigned char)counter};
	char text[1600];

	crypto_hash_sha512(digest, (const unsigned char *)msg, strlen(msg));
	memcpy(p, "SSHSIG", 6);
	p += 6;
	put_string(&p, "bastion", 7);
	put_string(&p, "", 0);
	put_string(&p, "sha512", 6);
	put_string(&p, digest, 64);
	crypto_hash_sha256(claim, (const unsigned char *)"ssh:", 4);
	memcpy(claim + 32, tail, 5);
	crypto_hash_sha256(claim + 37, data, (size_t)(p - data));
	crypto_sign_detached(sig, NULL, claim, sizeof(claim), t->sk);

	p = blob;
	memcpy(p, "SSHSIG\0\0\0\1", 10);
	p += 10;
	{
		unsigned char *k = one;

		put_string(&k, TOKEN_TYPE, strlen(TOKEN_TYPE));
		put_string(&k, t->pk, 32);
		put_string(&k, "ssh:", 4);
		put_string(&p, one, (size_t)(k - one));
		put_string(&p, "bastion", 7);
		put_string(&p, "", 0);
		put_string(&p, "sha512", 6);
		k = one;
		put_string(&k, TOKEN_TYPE, strlen(TOKEN_TYPE));
		put_string(&k, sig, 64);
		memcpy(k, tail, 5);
		put_string(&p, one, (size_t)(k + 5 - one));
	}
	sodium_bin2base64(
	    text, sizeof(text), blob, (size_t)(p - blob), sodium_base64_VARIANT_ORIGINAL);
	snprintf(out, size, "-----BEGIN SSH SIGNATURE-----\n");
	for (size_t i = 0; i < strlen(text); i += 70)
		snprintf(out + strlen(out), size - strlen(out), "%.70s\n", text + i);
	snprintf(out + strlen(out), size - strlen(out), "-----END SSH SIGNATURE-----\n");
	return out;
}

/* Approve a new question with a signature whose token counted to ${counter}. */
static int
token_answers(struct scratch *s, const struct token *t, int64_t pairing, uint32_t counter)
{
	static int path;
	char args[32], sql[96], terms[4096], signature[2048];
	int64_t id, grant_id;

	snprintf(args, sizeof(args), "[\"/%d\"]", path++);
	id = person_asked(s, pairing, args);
	snprintf(sql, sizeof(sql), "SELECT terms FROM approval WHERE id = %lld", (long long)id);
	scratch_text(s, sql, terms, sizeof(terms));
	token_sign(t, terms, counter, signature, sizeof(signature));
	return person_answers(s, id, NULL, signature, &grant_id);
}

/* A FIDO token's count must grow, unless the token never counts. */
static void
a_tokens_count_grows(void **state)
{
	int64_t pairing, id;
	struct scratch s;
	struct token t;

	(void)state;
	pairing = morning(&s, NULL);
	token_make(&t);
	assert_int_equal(factor_add_ssh(scratch_open(&s, ROLE_PERSON), t.line, "token", &id), 0);
	assert_int_equal(token_answers(&s, &t, pairing, 0), 0);
	assert_int_equal(token_answers(&s, &t, pairing, 0), 0);
	assert_int_equal(token_answers(&s, &t, pairing, 7), 0);
	assert_int_equal(scratch_value(&s, "SELECT last_counter FROM factor"), 7);
	assert_int_equal(token_answers(&s, &t, pairing, 7), -1);
	person_says(&s, "factor.used");
	assert_int_equal(token_answers(&s, &t, pairing, 0), -1);
	person_says(&s, "factor.used");
	assert_int_equal(token_answers(&s, &t, pairing, 8), 0);
	scratch_drop(&s);
}

static void
keys_are_refused_in_words(void **state)
{
	static const char *const lines[] = {"", "ssh-ed25519",
	    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ== x",
	    "command=\"x\" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA== y"};
	struct scratch s;
	struct person p;
	int64_t id;
	size_t i;

	(void)state;
	morning(&s, NULL);
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(factor_add_ssh(s.db, lines[i], "x", &id), -1);
		person_says(&s, "factor.key");
	}
	person_enrol_key(&s, &p, "key");
	assert_int_equal(scratch_value(&s, "SELECT label = 'key' FROM factor"), 1);
	/* The same key under another label is the same key. */
	scratch_refused(&s, "factor.label",
	    "INSERT INTO factor (kind, label, public_key, fingerprint, enrolled_at)"
	    " SELECT 'ssh', 'other', public_key, fingerprint, now_ms() FROM factor");
	scratch_drop(&s);
}

/* What the tables of factors refuse, whoever asks. */
static void
the_tables_hold(void **state)
{
	struct person p;
	struct scratch s;

	(void)state;
	morning(&s, &p);
	person_refused(&s, "factor.transition",
	    "INSERT INTO factor (kind, label, secret, fingerprint, enrolled_at, state,"
	    " dropped_at) VALUES ('totp', 'x', zeroblob(60), 'x', 1, 'dropped', 2)");
	person_refused(&s, "factor.label",
	    "INSERT INTO factor (kind, label, secret, fingerprint, enrolled_at)"
	    " VALUES ('totp', 'phone', zeroblob(60), 'x', 1)");
	person_refused(&s, "factor.fixed", "UPDATE factor SET label = 'other'");
	person_refused(&s, "factor.fixed", "UPDATE factor SET fingerprint = 'other'");
	person_refused(&s, "factor.fixed", "UPDATE factor SET secret = zeroblob(60)");
	person_refused(&s, "factor.fixed", "UPDATE factor SET enrolled_at = 1");
	person_refused(&s, "factor.used", "UPDATE factor SET last_counter = -2");
	person_refused(&s, "factor.used", "UPDATE factor SET last_counter = -1");
	person_refused(&s, "factor.kept", "DELETE FROM factor");
	/* A right try is no audit row, a wrong one is. */
	if (scratch_sql(
		&s, "INSERT INTO factor_try (at, kind, outcome) VALUES (now_ms(), 'ssh', 'right')"))
		fail_msg("%s", s.error);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit WHERE action = 'wrong'"), 0);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_authenticator_is_enrolled_sealed),
	    cmocka_unit_test(a_code_works_once),
	    cmocka_unit_test(a_code_works_once_across_processes),
	    cmocka_unit_test(wrong_codes_are_throttled),
	    cmocka_unit_test(parallel_guesses_share_the_throttle),
	    cmocka_unit_test(a_wrong_try_changes_nothing_else),
	    cmocka_unit_test(without_a_factor_nobody_can_approve),
	    cmocka_unit_test(any_authenticator_will_do),
	    cmocka_unit_test(a_secret_belongs_to_its_row_and_machine),
	    cmocka_unit_test(dropping_a_factor_drops_its_grants_for_good),
	    cmocka_unit_test(a_grant_needs_its_approver),
	    cmocka_unit_test(a_wrong_signature_is_a_try),
	    cmocka_unit_test(a_tokens_count_grows),
	    cmocka_unit_test(keys_are_refused_in_words),
	    cmocka_unit_test(the_tables_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
