/* test_verb_audit.c: bastion audit, run as a person runs it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/state/audit.h"
#include "tests/scratch.h"

#define ENTRY "INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body) "

/* A state, and what the last run of the program said and returned. */
static struct {
	struct scratch s;
	char program[PATH_MAX];
	char out[65536];
	int code;
} b;

static int
make(void **state)
{
	(void)state;
	if (access(b.program, X_OK) != 0) {
		print_message("%s is not built\n", b.program);
		return 0;
	}
	scratch_make(&b.s, HOME_BOX);
	setenv("BASTION_STATE", b.s.home.state, 1);
	setenv("BASTION_RUN", b.s.home.run, 1);
	setenv("TZ", "UTC", 1);
	if (scratch_sql(&b.s, ENTRY
		"VALUES ('op', 'grant', '3', 'expired', 'laptop',"
		" '{\"op\":\"observe:cert\",\"reason\":\"ran out\",\"none\":null}');" ENTRY
		"VALUES ('op', 'grant', '4', 'active', 'lap' || char(27) || '[2Jtop', '{}')") != 0)
		fail_msg("%s", b.s.error);
	assert_int_equal(audit_seal(b.s.db, "request"), 1);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	if (b.s.db != NULL)
		scratch_drop(&b.s);
	b.s.db = NULL;
	return 0;
}

/* Run "bastion audit ${words}"; what it says on either output is in b.out. */
static const char *
audit(const char *words)
{
	char command[PATH_MAX + 512];
	size_t len;
	FILE *f;
	int status;

	if (b.s.db == NULL)
		skip();
	snprintf(command, sizeof(command), "cd %s && %s audit %s 2>&1", b.s.dir, b.program, words);
	assert_non_null(f = popen(command, "re"));
	len = fread(b.out, 1, sizeof(b.out) - 1, f);
	b.out[len] = '\0';
	status = pclose(f);
	assert_true(WIFEXITED(status));
	b.code = WEXITSTATUS(status);
	return b.out;
}

static void
says(const char *text)
{
	if (strstr(b.out, text) == NULL)
		fail_msg("not said: %s\nbut: %s", text, b.out);
}

/* Who, what and when in a line; what a Host named drives no terminal. */
static void
tail_is_readable(void **state)
{
	(void)state;
	audit("");
	assert_int_equal(b.code, 0);
	says("  test:scratch  box 1 created  name=box-a role=box mode=local key=");
	says("  test:scratch  grant 3 expired  [laptop]  op=observe:cert reason=\"ran out\"\n");
	says("[lap\\x1b[2Jtop]");
	assert_null(strchr(b.out, 27));
	audit("tail -n 1");
	assert_int_equal(b.code, 0);
	assert_null(strstr(b.out, "grant 3"));
	says("grant 4");
	audit("-n 0");
	assert_string_equal(b.out, "");
}

static void
tail_keeps_to_one_thing(void **state)
{
	(void)state;
	audit("--entity grant");
	says("grant 3");
	says("grant 4");
	assert_null(strstr(b.out, "box 1"));
	audit("tail --entity grant 3");
	says("grant 3");
	assert_null(strstr(b.out, "grant 4"));
	audit("--entity nothing");
	assert_int_equal(b.code, 0);
	assert_string_equal(b.out, "");
	audit("tail --entity grant 3 --json");
	assert_int_equal(b.code, 0);
	assert_int_equal(b.out[0], '[');
	says("\"body\":{\"op\":\"observe:cert\"");
}

static void
wrong_calls_are_told(void **state)
{
	(void)state;
	audit("nonsense");
	assert_int_equal(b.code, 2);
	says("unexpected word: nonsense");
	audit("-n -1");
	assert_int_equal(b.code, 2);
	audit("-n 5x");
	assert_int_equal(b.code, 2);
	audit("verify --key 12");
	assert_int_equal(b.code, 2);
	says("a key is 64 hexadecimal digits");
	audit("-f --csv");
	assert_int_equal(b.code, 2);
	audit("verify missing");
	assert_int_equal(b.code, 3);
	audit("--host");
	assert_int_not_equal(b.code, 0);
}

/* -f shows what is committed later, and ends when nobody reads any more. */
static void
follow_goes_on(void **state)
{
	char command[PATH_MAX + 64], line[512];
	FILE *f;

	(void)state;
	if (b.s.db == NULL)
		skip();
	snprintf(command, sizeof(command), "exec %s audit -n 1 -f --json", b.program);
	assert_non_null(f = popen(command, "re"));
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "\"id\":\"4\""));
	if (scratch_sql(&b.s, ENTRY "VALUES ('op', 'grant', '5', 'active', '', '{}')") != 0)
		fail_msg("%s", b.s.error);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "\"entity\":\"grant\",\"id\":\"5\""));
	assert_int_equal(pclose(f), 0);
}

static void
verify_says_good(void **state)
{
	(void)state;
	audit("verify");
	assert_int_equal(b.code, 0);
	says("good: 3 rows, 1 seals, from ");
	says("sealed up to row 3 at ");
	audit("verify --json");
	assert_int_equal(b.code, 0);
	says("{\"good\":true,\"rows\":3,\"seals\":1,\"first\":1,\"last\":3,\"first_at\":\"20");
	says("\"behind\":0,\"bad\":null,\"what\":null}\n");
}

/* A copy and an export are checked with this machine's key, or with one that was kept. */
static void
verify_takes_a_file(void **state)
{
	char words[256], key[65];
	sqlite3 *raw;

	(void)state;
	audit("key");
	assert_int_equal(b.code, 0);
	sodium_bin2hex(key, sizeof(key), b.s.keys.identity, 32);
	assert_int_equal(strncmp(b.out, key, 64), 0);
	assert_string_equal(b.out + 64, "\n");

	audit("export e");
	assert_int_equal(b.code, 0);
	assert_string_equal(b.out, "3 rows\n");
	audit("export e");
	assert_int_not_equal(b.code, 0);
	says("File exists");
	audit("export --since 2 | wc -l");
	assert_int_equal(atoi(b.out), 3);
	snprintf(words, sizeof(words), "verify e --key %s", key);
	audit(words);
	assert_int_equal(b.code, 0);
	audit("export --since 2 part");
	audit("verify part");
	assert_int_equal(b.code, 0);
	says("the file begins at row 2");
	memset(key, '0', 64);
	snprintf(words, sizeof(words), "verify e --key %s", key);
	audit(words);
	assert_int_equal(b.code, 1);
	says(
	    "bad: the seal of row 3 is not of this machine's key, or the key is another machine's");

	scratch_open(&b.s, ROLE_MIGRATE);
	snprintf(words, sizeof(words), "VACUUM INTO '%s/copy'", b.s.dir);
	assert_int_equal(sqlite3_exec(store_handle(b.s.db), words, NULL, NULL, NULL), SQLITE_OK);
	audit("verify copy");
	assert_int_equal(b.code, 0);
	snprintf(words, sizeof(words), "%s/copy", b.s.dir);
	assert_int_equal(sqlite3_open(words, &raw), SQLITE_OK);
	sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	assert_int_equal(
	    sqlite3_exec(raw, "UPDATE audit SET who = 'nobody' WHERE seq = 2", NULL, NULL, NULL),
	    SQLITE_OK);
	sqlite3_close(raw);
	audit("verify copy");
	assert_int_equal(b.code, 1);
	says("bad: row 2 does not match its hash: it was edited\ngood before it: 1 rows, 0 seals");
	audit("verify copy --json");
	assert_int_equal(b.code, 1);
	says("\"bad\":2,\"what\":\"row 2 does not match its hash: it was edited\"}");
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(tail_is_readable, make, drop),
	    cmocka_unit_test_setup_teardown(tail_keeps_to_one_thing, make, drop),
	    cmocka_unit_test_setup_teardown(wrong_calls_are_told, make, drop),
	    cmocka_unit_test_setup_teardown(follow_goes_on, make, drop),
	    cmocka_unit_test_setup_teardown(verify_says_good, make, drop),
	    cmocka_unit_test_setup_teardown(verify_takes_a_file, make, drop),
	};
	char beside[PATH_MAX - 32], path[PATH_MAX];

	/* build/tests/shell/test_verb_audit is tested with build/bastion. */
	(void)argc;
	snprintf(beside, sizeof(beside), "%s", argv[0]);
	if (strrchr(beside, '/') != NULL)
		*strrchr(beside, '/') = '\0';
	snprintf(path, sizeof(path), "%s/../../bastion", beside);
	if (realpath(path, b.program) == NULL)
		b.program[0] = '\0';
	return cmocka_run_group_tests(tests, NULL, NULL);
}
