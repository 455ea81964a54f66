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
	says("no row is of this kind\n");
	audit("--entity grant 999");
	says("no row is of this one\n");
	audit("--entity nothing --json");
	assert_string_equal(b.out, "[]\n");
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
	says("a key is what bastion audit key shows, or 64 hexadecimal digits");
	audit("-f --csv");
	assert_int_equal(b.code, 2);
	audit("verify missing");
	assert_int_equal(b.code, 2);
	says("[file.missing]");
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
	says("good: 3 rows, 1 seal, 1 checkpoint, from ");
	says("checkpoint of 3 rows, root ");
	says("sealed up to row 3 at ");
	audit("verify --json");
	assert_int_equal(b.code, 0);
	says("{\"good\":true,\"rows\":3,\"seals\":1,\"first\":1,\"last\":3,\"first_at\":\"20");
	says("\"checkpoints\":1,\"size\":3,\"root\":\"");
	says("\"behind\":0,\"bad\":null,\"what\":null}\n");
}

/* A copy and an export are checked with this machine's key, or with one that was kept. */
static void
verify_takes_a_file(void **state)
{
	char words[256], key[CHECKPOINT_KEY];
	sqlite3 *raw;

	(void)state;
	audit("key");
	assert_int_equal(b.code, 0);
	checkpoint_key_write(b.s.keys.identity, key);
	assert_int_equal(strncmp(b.out, key, strlen(key)), 0);
	assert_string_equal(b.out + strlen(key), "\n");

	audit("export e");
	assert_int_equal(b.code, 0);
	assert_string_equal(b.out, "3 rows\n");
	audit("export e");
	assert_int_not_equal(b.code, 0);
	says("File exists");
	audit("export --since 2 | wc -l");
	assert_int_equal(atoi(b.out), 5); /* a base, two rows, a seal, a checkpoint */
	snprintf(words, sizeof(words), "verify e --key %s", key);
	audit(words);
	assert_int_equal(b.code, 0);
	audit("export --since 2 part");
	audit("verify part");
	assert_int_equal(b.code, 0);
	says("the file begins at row 2");
	memset(key, '0', 64);
	key[64] = '\0';
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
	says(
	    "bad: row 2 does not match its hash: it was edited\ngood before it: 1 row, 0 seals, 0 checkpoints");
	audit("verify copy --json");
	assert_int_equal(b.code, 1);
	says("\"bad\":2,\"what\":\"row 2 does not match its hash: it was edited\"}");
}

/* Run a script of ours with Python, over the export's directory. */
static const char *
python(const char *words)
{
	char command[PATH_MAX + 768];
	size_t len;
	FILE *f;

	if (b.s.db == NULL || system("python3 -c 'import cryptography' 2> /dev/null") != 0)
		skip();
	snprintf(command, sizeof(command), "t=$PWD/tests && cd %s && python3 $t/%s 2>&1", b.s.dir,
	    words);
	assert_non_null(f = popen(command, "re"));
	len = fread(b.out, 1, sizeof(b.out) - 1, f);
	b.out[len] = '\0';
	b.code = WEXITSTATUS(pclose(f));
	return b.out;
}

/* Rows that every format has to escape in its own way. */
static void
add_odd_rows(void)
{
	if (scratch_sql(&b.s,
		"INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body) VALUES"
		" ('op', 'op_run', '7', 'failed', 'a|b=c\\d', '{\"a.b\":\"x=y|z\\\\\",\"n\":1.5,\"l\":[1]}'),"
		" ('op', 'e\"q\"', ',', 'line' || char(13, 10) || 'two', '', '{\"t\":\"\\n\\r\\u0001\"}'),"
		" ('management', 'refused', 'żółć' || char(128027), 'refused', '', '{}'),"
		" ('op', 'back\\', 'pipe|', 'eq=', 'sp ace cs1=x', json_object('k', char(9, 13, 8232))),"
		" ('op', 'long', '', 'done', '', json_object('t', printf('%.5000c', 'x')));"
		"UPDATE setting SET value = 1000 WHERE name = 'audit.seal_ms'") != 0)
		fail_msg("%s", b.s.error);
	assert_int_equal(audit_seal(b.s.db, "request"), 1);
}

/* What a collector takes, a standard parser of the format reads back, row by row. */
static void
every_format_is_parsed_back(void **state)
{
	static const char *const formats[] = {"csv", "cef", "ecs"};
	char words[128];
	size_t i;

	(void)state;
	audit("key");
	add_odd_rows();
	audit("export all");
	assert_int_equal(b.code, 0);
	for (i = 0; i < 3; i++) {
		snprintf(words, sizeof(words), "export --format %s in.%s", formats[i], formats[i]);
		audit(words);
		assert_int_equal(b.code, 0);
		snprintf(
		    words, sizeof(words), "parse_audit.py %s in.%s all", formats[i], formats[i]);
		python(words);
		if (strcmp(b.out, "9 rows\n") != 0)
			fail_msg("%s: %s", formats[i], b.out);
	}
	audit("export --format xml");
	assert_int_equal(b.code, 2);
	says("a format is jsonl, csv, cef or ecs");
}

/* One check by the program, one by a verifier that shares nothing with it: both say the same. */
static void
both_say(const char *what, const char *file, const char *kept, bool good)
{
	char words[512], key[CHECKPOINT_KEY];

	checkpoint_key_write(b.s.keys.identity, key);
	if (strcmp(what, "checkpoint") != 0) {
		snprintf(words, sizeof(words), "verify %s%s%s --key %s", file,
		    kept == NULL ? "" : " --checkpoint ", kept == NULL ? "" : kept, key);
		audit(words);
		if ((b.code == 0) != good)
			fail_msg("verify %s: %s", file, b.out);
	}
	snprintf(words, sizeof(words), "verify_audit.py %s %s %s %s", key, what, file,
	    kept == NULL ? "" : kept);
	python(words);
	if ((b.code == 0) != good || strncmp(b.out, good ? "good" : "bad:", 4) != 0)
		fail_msg("verify_audit.py %s %s: %s", what, file, b.out);
}

static void
shell(const char *script)
{
	char command[1024];

	snprintf(command, sizeof(command), "cd %s && %s", b.s.dir, script);
	assert_int_equal(system(command), 0);
	/* What is bent is bent. */
	snprintf(command, sizeof(command),
	    "cd %s && ! for f in all part old row between; do cmp -s $f bad && exit 0; done",
	    b.s.dir);
	assert_int_equal(system(command), 0);
}

/* Exports, checkpoints and both kinds of proof, whole and bent, before two independent verifiers.
 */
static void
two_verifiers_agree(void **state)
{
	(void)state;
	audit("checkpoint > old");
	add_odd_rows();
	audit("checkpoint > new");
	audit("export all");
	audit("export --since 5 part");
	audit("export --until 4 begin");
	audit("prove 5 > row");
	audit("consistency 3 > between");

	both_say("export", "all", NULL, true);
	both_say("export", "all", "old", true);
	both_say("export", "all", "new", true);
	both_say("export", "part", NULL, true);
	both_say("export", "part", "new", true);
	both_say("export", "begin", "old", true);
	both_say("checkpoint", "old", NULL, true);
	both_say("inclusion", "row", NULL, true);
	both_say("consistency", "between", "old", true);

	/* A row edited, dropped, doubled; a hash of what came before; the end cut off. */
	shell("sed 6s/op_run/op_rum/ all > bad");
	both_say("export", "bad", NULL, false);
	shell("sed 2d all > bad");
	both_say("export", "bad", NULL, false);
	shell("sed 2p all > bad");
	both_say("export", "bad", NULL, false);
	shell("sed '1s/\\[\"./[\"f/;1s/\\[\"f\\(.\\)/[\"\\10/' part > bad");
	both_say("export", "bad", NULL, false);
	both_say("export", "begin", "new", false);
	both_say("export", "part", "old", false);
	/* A checkpoint of other rows, or with another signature. */
	shell("sed 's/n3.n/n4\\\\n/' all > bad");
	both_say("export", "bad", NULL, false);
	shell("sed 2s/3/4/ old > bad");
	both_say("checkpoint", "bad", NULL, false);
	/* A proof of another row, with another row, with a hash too few or too many, or changed. */
	shell("sed 's/^index 4/index 5/' row > bad");
	both_say("inclusion", "bad", NULL, false);
	shell("sed 's/^extra eyJz/extra eyJ0/' row > bad");
	both_say("inclusion", "bad", NULL, false);
	shell("sed 4d row > bad");
	both_say("inclusion", "bad", NULL, false);
	shell("sed 4p row > bad");
	both_say("inclusion", "bad", NULL, false);
	shell("sed 's/^old 3/old 2/' between > bad");
	both_say("consistency", "bad", "old", false);
	shell("sed 2d between > bad");
	both_say("consistency", "bad", "old", false);
	shell("sed '2s/^./-/;2s/^-\\(.\\)/A\\1/' between > bad");
	both_say("consistency", "bad", "old", false);
	both_say("consistency", "between", "new", false);
}

/* What was exported and signed once stays good: fixtures/audit. */
static void
formats_are_for_ever(void **state)
{
	static const char *const files[][3] = {{"export", "whole.jsonl", ""},
	    {"export", "whole.jsonl", "old.checkpoint"},
	    {"export", "whole.jsonl", "new.checkpoint"}, {"export", "part.jsonl", "new.checkpoint"},
	    {"checkpoint", "old.checkpoint", ""}, {"inclusion", "row.tlog-proof", ""},
	    {"consistency", "old-to-new.proof", "old.checkpoint"}};
	char words[512], key[CHECKPOINT_KEY];
	size_t i;
	FILE *f;

	(void)state;
	if (b.s.db == NULL)
		skip();
	assert_non_null(f = fopen("fixtures/audit/key", "re"));
	assert_non_null(fgets(key, sizeof(key), f));
	key[strcspn(key, "\n")] = '\0';
	fclose(f);
	snprintf(words, sizeof(words), "cp fixtures/audit/* %s", b.s.dir);
	assert_int_equal(system(words), 0);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(words, sizeof(words), "verify %s %s %s --key %s", files[i][1],
		    *files[i][2] == '\0' ? "" : "--checkpoint", files[i][2], key);
		if (strcmp(files[i][0], "checkpoint") != 0)
			audit(words);
		if (b.code != 0)
			fail_msg("%s: %s", files[i][1], b.out);
		snprintf(words, sizeof(words), "verify_audit.py %s %s %s %s", key, files[i][0],
		    files[i][1], files[i][2]);
		python(words);
		if (b.code != 0)
			fail_msg("%s: %s", files[i][1], b.out);
	}
}

/* jsonl goes on with what a seal vouches for; the formats of collectors at once. */
static void
export_follows(void **state)
{
	char command[PATH_MAX + 96], line[4096];
	FILE *f, *g;

	(void)state;
	if (b.s.db == NULL)
		skip();
	snprintf(command, sizeof(command), "exec %s audit export --since 3 --until 4 --follow",
	    b.program);
	assert_non_null(f = popen(command, "re"));
	snprintf(command, sizeof(command),
	    "exec %s audit export --format cef --since 4 --until 4 --follow", b.program);
	assert_non_null(g = popen(command, "re"));
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "{\"base\":2,"));
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "{\"seq\":3,"));
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "{\"seal\":3,"));
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "{\"checkpoint\":3,"));
	if (scratch_sql(&b.s, ENTRY "VALUES ('op', 'grant', '5', 'active', '', '{}')") != 0)
		fail_msg("%s", b.s.error);
	assert_non_null(fgets(line, sizeof(line), g));
	assert_non_null(strstr(line, "externalId=4 "));
	assert_int_equal(pclose(g), 0);
	assert_int_equal(audit_seal(b.s.db, "request"), 1);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "{\"seq\":4,"));
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "{\"seal\":4,"));
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "{\"checkpoint\":4,"));
	assert_int_equal(pclose(f), 0);
}

static void
search_finds_rows(void **state)
{
	(void)state;
	audit("search ran out");
	assert_int_equal(b.code, 0);
	says("grant 3 expired  [laptop]  op=observe:cert reason=\"ran out\"\n");
	assert_null(strstr(b.out, "grant 4"));
	audit("search expired OR active --json");
	assert_int_equal(b.code, 0);
	says("\"id\":\"3\"");
	says("\"id\":\"4\"");
	audit("search '\"out ran\"'");
	assert_int_equal(b.code, 1);
	says("no row has these words");
	audit("search grant --until 2");
	assert_null(strstr(b.out, "grant 4"));
	audit("search grant --since 7d --until 1h");
	assert_int_equal(b.code, 1);
	audit("search grant --since 2020-01-01");
	assert_int_equal(b.code, 0);
	audit("search grant --since tuesday");
	assert_int_equal(b.code, 2);
	says("a row's number, a time (2026-11-29");
	audit("search '\"open'");
	assert_int_equal(b.code, 2);
	says("a quotation mark is not closed");
	audit("search");
	assert_int_equal(b.code, 2);
	says("there is no word to find");
}

/* What is wrong with a proof, a checkpoint or a key is said, and what to do. */
static void
proofs_are_told_apart(void **state)
{
	(void)state;
	audit("prove 9");
	assert_int_equal(b.code, 2);
	says("row 9 is not in the audit");
	audit("consistency 9");
	assert_int_equal(b.code, 2);
	says("the older of the two has 1 to 3 rows");
	audit("consistency 1 2");
	says("no checkpoint of 2 rows was signed");
	audit("checkpoint 2");
	assert_int_equal(b.code, 2);
	if (scratch_sql(&b.s, ENTRY "VALUES ('op', 'grant', '5', 'active', '', '{}')") != 0)
		fail_msg("%s", b.s.error);
	audit("prove 4");
	assert_int_equal(b.code, 75);
	says("the newest checkpoint is of 3 rows, and does not cover row 4");
	audit("consistency 1 > p");
	audit("verify p");
	assert_int_equal(b.code, 2);
	says("checked against the older checkpoint: --checkpoint");
	audit("verify p --checkpoint p");
	assert_int_not_equal(b.code, 0);
	audit("checkpoint > c");
	audit("verify --checkpoint c");
	assert_int_equal(b.code, 0);
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
	    cmocka_unit_test_setup_teardown(every_format_is_parsed_back, make, drop),
	    cmocka_unit_test_setup_teardown(two_verifiers_agree, make, drop),
	    cmocka_unit_test_setup_teardown(formats_are_for_ever, make, drop),
	    cmocka_unit_test_setup_teardown(export_follows, make, drop),
	    cmocka_unit_test_setup_teardown(search_finds_rows, make, drop),
	    cmocka_unit_test_setup_teardown(proofs_are_told_apart, make, drop),
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
