/* test_token.c: secrets are kept sealed, for hosts that never change, and are shown to nobody. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/state/egress.h"
#include "engine/state/token.h"
#include "tests/program.h"

#define SECRET "s3cr3t-0123456789-abcdef"
#define OTHER  "an0ther-9876543210-fedcba"

static struct scratch s;
static struct program p;

static int
set_up(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

/* Run "bastion token WORDS" with ${input}, which is to end with ${code} and say ${text}. */
static void
token(int code, const char *text, const char *input, const char *words)
{
	const char *all[16] = {"token"};
	char copy[256], *word, *rest = copy;
	size_t n = 1;

	snprintf(copy, sizeof(copy), "%s", words);
	while ((word = strsep(&rest, " ")) != NULL && n < 15)
		if (*word != '\0')
			all[n++] = word;
	program_run(&p, &s, input, all);
	if (p.code != code || (strstr(p.out, text) == NULL && strstr(p.err, text) == NULL))
		fail_msg("token %s: %d\n%s%s", words, p.code, p.out, p.err);
	/* Whatever it says, it is not the secret. */
	assert_null(strstr(p.out, SECRET));
	assert_null(strstr(p.err, SECRET));
	program_free(&p);
}

/* Whether ${text} stands in the file ${name} of the state. */
static bool
file_has(const char *name, const char *text)
{
	char path[PATH_MAX], *bytes;
	off_t len;
	bool found;
	int fd;

	home_path(&s.home, name, path);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return false;
	len = lseek(fd, 0, SEEK_END);
	assert_non_null(bytes = malloc((size_t)len + 1));
	assert_int_equal(pread(fd, bytes, (size_t)len, 0), len);
	found = memmem(bytes, (size_t)len, text, strlen(text)) != NULL;
	free(bytes);
	close(fd);
	return found;
}

/* A token comes from standard input, is listed without its secret, gets another, and goes.  RF-3: a
 * host has one spelling, whoever writes it and however, so a rule for it finds its token. */
static void
a_token_comes_and_goes(void **state)
{
	struct token *t;
	int64_t id;

	(void)state;
	token(0, "There is no token", NULL, "");
	token(0, "bastion-", SECRET "\n", "add github --host api.GitHub.com --host *.ghcr.io");
	token(0, "\"hosts\":\"api.github.com ghcr.io\"", NULL, "ls --json");
	token(0, "Authorization", NULL, "ls");
	program_run(&p, &s, NULL,
	    (const char *const[]){"egress", "allow", "API.GITHUB.com.", "--token", "github", NULL});
	assert_int_equal(p.code, 0);
	program_free(&p);
	token(2, "token.name", SECRET, "add github --host x.example");
	token(0, "\"placeholder\":\"bastion-", "user:" SECRET,
	    "add basic --host x.example --scheme Basic --json");
	token(0, "new secret", OTHER, "rotate github");
	id = scratch_value(&s, "SELECT id FROM token WHERE name = 'github'");
	scratch_open(&s, ROLE_EGRESS);
	assert_non_null(t = token_open(s.db, s.key, id));
	assert_string_equal(t->secret, OTHER);
	assert_string_equal(t->header, "Authorization");
	assert_string_equal(t->scheme, "Bearer");
	token_free(t);
	token(0, "wiped", NULL, "rm github");
	scratch_open(&s, ROLE_EGRESS);
	assert_null(token_open(s.db, s.key, id));
	assert_string_equal(store_refusal(s.db)->code, "token.dropped");
	token(2, "token.unknown", NULL, "rm github");
	token(2, "token.unknown", SECRET, "rotate github");
	token(0, "dropped", NULL, "ls --all --json");
	/* A name that is free again is another token. */
	token(0, "bastion-", SECRET, "add github --host api.github.com");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'token'"
					   " AND who LIKE 'person:%'"),
	    9);
}

/* What is no secret, header, scheme or host of a token. */
static void
odd_tokens_are_refused(void **state)
{
	char much[TOKEN_SECRET_MAX + 3];

	(void)state;
	memset(much, 'a', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	token(2, "token.secret", "", "add x --host a.example");
	token(2, "token.secret", "short", "add x --host a.example");
	token(2, "token.secret", "two words here", "add x --host a.example");
	token(2, "token.secret", "evil\rX-Header: y", "add x --host a.example");
	token(2, "token.secret", much, "add x --host a.example");
	token(2, "token.secret", SECRET, "add x --host a.example --scheme Basic");
	token(2, "--host", SECRET, "add x");
	token(2, "token.header", SECRET, "add x --host a.example --header Host");
	token(2, "token.header", SECRET, "add x --host a.example --header Transfer-Encoding");
	token(2, "token.header", SECRET, "add x --host a.example --header a:b");
	token(2, "token.scheme", SECRET, "add x --host a.example --scheme a:b");
	token(2, "token.name", SECRET, "add a/b --host a.example");
	token(126, "token.host", SECRET, "add x --host com");
	token(2, "egress.authority", SECRET, "add x --host http://a.example/");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM token"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM token_host"), 0);
}

/* Neither the database nor its log has the secret, nor does any role but the lane's open it. */
static void
the_secret_is_nowhere(void **state)
{
	static const char *const files[] = {"bastion.db", "bastion.db-wal"};
	struct refusal r;
	struct key *wire, *alone;
	char path[PATH_MAX];
	struct token *t;
	size_t i;

	(void)state;
	token(0, "bastion-", SECRET, "add x --host a.example");
	for (i = 0; i < 2; i++)
		assert_false(file_has(files[i], SECRET));
	/* The lane's key opens tokens and nothing else; that of the network does not open them. */
	home_path(&s.home, "bastion.key", path);
	assert_non_null(alone = key_load_token(path, &r));
	assert_non_null(wire = key_load_wire(path, &r));
	assert_null(key_sealer(alone, KEY_COLUMN));
	assert_null(key_sealer(alone, KEY_WIRE));
	assert_null(key_sealer(wire, KEY_TOKEN));
	scratch_open(&s, ROLE_EGRESS);
	assert_null(token_open(s.db, NULL, 1));
	assert_string_equal(store_refusal(s.db)->code, "token.key");
	assert_null(token_open(s.db, wire, 1));
	assert_non_null(t = token_open(s.db, alone, 1));
	assert_string_equal(t->secret, SECRET);
	token_free(t);
	key_free(alone);
	key_free(wire);
	scratch_open(&s, ROLE_NET);
	assert_null(token_open(s.db, s.key, 1));
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit WHERE body LIKE '%" SECRET "%'"), 0);
}

/* A sealed secret is for its row and generation: one from before a rotation opens no more. */
static void
an_older_secret_opens_nothing(void **state)
{
	char sql[512], *hex = malloc(1024);

	(void)state;
	token(0, "bastion-", SECRET, "add x --host a.example");
	scratch_text(&s, "SELECT hex(secret) FROM token", hex, 1024);
	token(0, "new secret", OTHER, "rotate x");
	snprintf(sql, sizeof(sql),
	    "UPDATE token SET secret = x'%s', generation = generation + 1, rotated_at = 9", hex);
	assert_int_equal(scratch_sql(&s, sql), 0);
	free(hex);
	scratch_open(&s, ROLE_EGRESS);
	assert_null(token_open(s.db, s.key, 1));
	assert_string_equal(store_refusal(s.db)->code, "seal.broken");
}

/* Rules of the tables, whoever writes them. */
static void
tokens_keep_what_they_are(void **state)
{
	(void)state;
	token(0, "bastion-", SECRET, "add x --host a.example");
	scratch_refused(
	    &s, "token.fixed", "UPDATE token SET name = 'y', generation = 2, rotated_at = 1");
	scratch_refused(
	    &s, "token.fixed", "UPDATE token SET header = 'X', generation = 2, rotated_at = 1");
	scratch_refused(
	    &s, "token.fixed", "UPDATE token SET secret = randomblob(64), rotated_at = 1");
	scratch_refused(&s, "token.kept", "DELETE FROM token");
	scratch_refused(&s, "token.fixed", "UPDATE token_host SET suffix = 'b.example'");
	scratch_refused(&s, "token.fixed", "DELETE FROM token_host");
	scratch_refused(&s, "token.host", "INSERT INTO token_host VALUES (1, 'com')");
	scratch_refused(&s, "token.host", "INSERT INTO token_host VALUES (1, 'B.example')");
	/* Nor a further host, although nothing uses it yet. */
	scratch_refused(&s, "token.fixed", "INSERT INTO token_host VALUES (1, 'b.example')");
	token(0, "wiped", NULL, "rm x");
	scratch_refused(&s, "token.final",
	    "UPDATE token SET state = 'active', dropped_at = NULL, secret = randomblob(64)");
	scratch_refused(&s, "token.fixed", "INSERT INTO token_host VALUES (1, 'b.example')");
}

/* A rule names a token only for hosts that the token is for, and never gets wider. */
static void
rules_name_tokens_for_their_hosts(void **state)
{
	struct egress_within within = {.token = "x"};
	struct egress_rule rule = {.uid = -1, .suffix = "a.example", .within = &within};
	int64_t id, again;

	(void)state;
	token(0, "bastion-", SECRET, "add x --host a.example");
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(egress_rule_make(s.db, &rule, &id), 0);
	within.path = "/repos/*";
	assert_int_equal(egress_rule_make(s.db, &rule, &again), 0);
	assert_int_equal(id, again);
	rule.suffix = "www.a.example";
	assert_int_equal(egress_rule_make(s.db, &rule, &id), 0);
	/* Without a part of it the rule is not there either. */
	rule.suffix = "b.example";
	assert_int_equal(egress_rule_make(s.db, &rule, &id), -1);
	assert_string_equal(store_refusal(s.db)->code, "token.host");
	rule.suffix = "*";
	assert_int_equal(egress_rule_make(s.db, &rule, &id), -1);
	assert_string_equal(store_refusal(s.db)->code, "token.host");
	rule.suffix = "evila.example";
	assert_int_equal(egress_rule_make(s.db, &rule, &id), -1);
	within.token = "nobody";
	assert_int_equal(egress_rule_make(s.db, &rule, &id), -1);
	assert_string_equal(store_refusal(s.db)->code, "token.unknown");
	within = (struct egress_within){.method = "get"};
	assert_int_equal(egress_rule_make(s.db, &rule, &id), -1);
	assert_string_equal(store_refusal(s.db)->code, "egress.narrow");
	within = (struct egress_within){.path = "repos"};
	assert_int_equal(egress_rule_make(s.db, &rule, &id), -1);
	/* Wide, and then narrow, would be two minds. */
	rule.within = NULL;
	assert_int_equal(egress_rule_make(s.db, &rule, &id), 0);
	rule.within = &within;
	within = (struct egress_within){.method = "GET"};
	assert_int_equal(egress_rule_make(s.db, &rule, &id), -1);
	assert_string_equal(store_refusal(s.db)->code, "egress.exists");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_rule"), 3);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_within"), 3);
	scratch_refused(&s, "egress.fixed", "UPDATE egress_within SET path = '*'");
	scratch_refused(&s, "egress.fixed", "DELETE FROM egress_within");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_token_comes_and_goes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(odd_tokens_are_refused, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_secret_is_nowhere, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(an_older_secret_opens_nothing, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(tokens_keep_what_they_are, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(rules_name_tokens_for_their_hosts, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
