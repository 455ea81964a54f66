/* test_sql.c: bastion sql reads everything, changes nothing, and shows no secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/person.h"
#include "tests/program.h"

#define RUN(p, s, ...) program_run(p, s, NULL, (const char *const[]){"sql", __VA_ARGS__, NULL})
#define ENDLESS \
	"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"

static int
setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	scratch_make(s, HOME_BOX);
	*state = s;
	return 0;
}

static int
teardown(void **state)
{
	scratch_drop(*state);
	free(*state);
	return 0;
}

static void
statements_run_in_turn(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "--csv", "SELECT 1 AS a; -- one\n/* two; */ SELECT 2 AS b;;");
	assert_int_equal(p.code, 0);
	assert_string_equal(p.out, "a\r\n1\r\nb\r\n2\r\n");
	program_free(&p);
	/* What came before a fault was shown; what comes after it is not run. */
	RUN(&p, s, "--csv", "SELECT 1 AS a; SELECT nope; SELECT 3");
	assert_int_equal(p.code, 1);
	assert_string_equal(p.out, "a\r\n1\r\n");
	program_free(&p);
	program_run(&p, s, "SELECT 'from\n standard input' AS t",
	    (const char *const[]){"sql", "--json", NULL});
	assert_string_equal(p.out, "[{\"t\":\"from\\n standard input\"}]\n");
	program_free(&p);
	RUN(&p, s, "SELECT 1", "SELECT 2");
	assert_int_equal(p.code, 2);
	program_free(&p);
}

static void
faults_have_a_place(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "SELECT 1;\nSELECT 'é', frm box");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.err, "frm (line 2, column 13) [sql.error]"));
	program_free(&p);
	RUN(&p, s, "--json", "SELEC");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.err, "{\"error\":{\"code\":\"sql.error\",\"why\":\"near "));
	program_free(&p);
}

/* The functions of the product work, with its clock. */
static void
own_functions_work(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "--csv",
	    "SELECT now_ms() / 1000 - unixepoch() BETWEEN -5 AND 5 AS now,"
	    " hex(sha256('')) LIKE 'E3B0C4%' AS digest, (SELECT count(*) FROM live_grants) AS n");
	assert_string_equal(p.out, "now,digest,n\r\n1,1,0\r\n");
	program_free(&p);
}

/* Every way that we know to write, loosen the rules, or reach code or files. */
static void
nothing_is_written(void **state)
{
	static const char *const tries[] = {
	    "INSERT INTO setting VALUES ('x', 1, '', 0, 2, '')",
	    "UPDATE setting SET value = value",
	    "WITH w AS (SELECT 1) UPDATE setting SET value = 1 WHERE name = 'op.live'",
	    "WITH w AS (SELECT 1) DELETE FROM audit",
	    "REPLACE INTO box SELECT * FROM box",
	    "UPDATE audit_sink SET sent = 99",
	    "INSERT INTO audit_entry VALUES ('op', 'x', '1', 'x', '', '{}')",
	    "UPDATE factor SET state = 'dropped' RETURNING secret",
	    "CREATE TABLE x (a)",
	    "CREATE TEMP TABLE x (a)",
	    "CREATE TEMP TRIGGER t AFTER INSERT ON audit BEGIN SELECT 1; END",
	    "CREATE TEMP VIEW factor AS SELECT 1 AS secret",
	    "CREATE VIRTUAL TABLE x USING fts5(a)",
	    "CREATE INDEX x ON audit (who)",
	    "DROP TABLE audit",
	    "DROP TRIGGER audit_no_delete",
	    "ALTER TABLE audit RENAME TO gone",
	    "ATTACH ':memory:' AS m",
	    "ATTACH '/tmp/x.db' AS m",
	    "DETACH main",
	    "VACUUM",
	    "VACUUM INTO '/tmp/bastion-test-copy.db'",
	    "REINDEX",
	    "ANALYZE",
	    "PRAGMA journal_mode = DELETE",
	    "PRAGMA journal_mode(OFF)",
	    "PRAGMA writable_schema = ON",
	    "PRAGMA query_only = OFF",
	    "PRAGMA trusted_schema = ON",
	    "PRAGMA user_version = 9",
	    "PRAGMA foreign_keys = OFF",
	    "PRAGMA wal_checkpoint(TRUNCATE)",
	    "PRAGMA secure_delete = OFF",
	    "PRAGMA temp_store_directory = '/tmp'",
	    "PRAGMA optimize",
	    "UPDATE sqlite_master SET sql = ''",
	    "UPDATE sqlite_schema SET sql = ''",
	    "DELETE FROM sqlite_schema",
	    "SELECT load_extension('/tmp/x.so')",
	    "SELECT fts3_tokenizer('simple')",
	    "SELECT * FROM pragma_journal_mode('delete')",
	    "WITH w AS (SELECT load_extension('x') AS x) SELECT x FROM w",
	};
	unsigned char before[32], after[32];
	struct scratch *s = *state;
	struct program p;
	size_t i;

	person_digest(s, before);
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		RUN(&p, s, tries[i]);
		if (p.code == 0 || (p.code != 126 && strstr(tries[i], "pragma_") == NULL))
			fail_msg("exit %d for: %s: %s", p.code, tries[i], p.err);
		if (p.code == 126)
			assert_non_null(strstr(p.err, "[sql.refused]"));
		assert_string_equal(p.out, "");
		program_free(&p);
	}
	person_digest(s, after);
	assert_memory_equal(before, after, sizeof(before));
	assert_int_equal(access("/tmp/bastion-test-copy.db", F_OK), -1);
}

/* A transaction that a person leaves open holds nobody up. */
static void
transactions_hold_nobody_up(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;

	program_talk(&t, s, (const char *const[]){"sql", NULL});
	program_expect(&t, "bastion> ");
	program_type(&t, "BEGIN IMMEDIATE;\n");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT count(*) AS seen FROM setting;\n");
	program_expect(&t, "seen");
	assert_int_equal(scratch_sql(s, "UPDATE setting SET value = 61 WHERE name = 'op.live'"), 0);
	program_type(&t, ".quit\n");
	assert_int_equal(program_over(&t), 0);
}

/* The secret of a factor reads as NULL wherever a query may put it. */
static void
secrets_read_as_null(void **state)
{
	static const char *const tries[] = {
	    "SELECT secret FROM factor",
	    "SELECT * FROM factor",
	    "WITH w AS (SELECT secret AS x FROM factor) SELECT x FROM w",
	    "WITH w(x) AS MATERIALIZED (SELECT hex(secret) FROM factor) SELECT x FROM w",
	    "SELECT json_group_array(hex(secret)) AS x FROM factor",
	    "SELECT json_object('s', hex(secret)) AS x FROM factor",
	    "SELECT (SELECT secret FROM factor) AS x",
	    "SELECT f.secret AS x FROM factor AS f JOIN factor AS g ON g.id = f.id",
	    "SELECT max(secret) AS x FROM factor",
	    "SELECT group_concat(hex(secret)) AS x FROM factor",
	    "SELECT first_value(secret) OVER () AS x FROM factor",
	    "SELECT coalesce(secret, 'masked') AS x FROM factor",
	    "SELECT CAST(secret AS TEXT) AS x FROM factor UNION SELECT secret FROM factor",
	    "SELECT quote(secret) AS x FROM factor ORDER BY secret",
	};
	struct scratch *s = *state;
	struct person person;
	struct program p;
	char hex[600];
	size_t i;

	person_enrol(s, &person, "phone");
	scratch_text(s, "SELECT lower(hex(secret)) FROM factor", hex, sizeof(hex));
	assert_true(strlen(hex) >= 80);
	hex[20] = '\0'; /* any part of it would be too much */
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		RUN(&p, s, "--json", tries[i]);
		if (p.code != 0)
			fail_msg("%s: %s", tries[i], p.err);
		if (strcasestr(p.out, hex) != NULL)
			fail_msg("shown by: %s: %s", tries[i], p.out);
		program_free(&p);
	}
	/* Nor does a condition tell anything of it. */
	RUN(&p, s, "--csv",
	    "SELECT count(*) AS n FROM factor WHERE secret IS NOT NULL OR length(secret) > 0"
	    " OR secret > x'00' OR hex(secret) LIKE '%'||'0'||'%'");
	assert_string_equal(p.out, "n\r\n0\r\n");
	program_free(&p);
	RUN(&p, s, "--csv", "SELECT count(*) AS n FROM factor WHERE secret IS NULL");
	assert_string_equal(p.out, "n\r\n1\r\n");
	program_free(&p);
}

/* What a Host wrote is shown, not obeyed. */
static void
text_of_a_host_is_shown(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "SELECT 'x' || char(27) || ']0;owned' || char(7) AS t");
	assert_string_equal(p.out, "t\nx\\x1b]0;owned\\x07\n");
	program_free(&p);
}

static void
an_endless_query_is_ended(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "--timeout", "1s", ENDLESS);
	assert_string_equal(p.out, "");
	assert_non_null(strstr(p.err, "longer than 1.0 s [sql.timeout]"));
	assert_int_not_equal(p.code, 0);
	program_free(&p);
}

static void
files_and_their_faults(void **state)
{
	struct scratch *s = *state;
	struct program p;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/a.sql", s->dir);
	assert_non_null(f = fopen(path, "we"));
	fputs("SELECT 5 AS five;\n", f);
	fclose(f);
	RUN(&p, s, "--csv", "-f", path);
	assert_string_equal(p.out, "five\r\n5\r\n");
	program_free(&p);
	assert_non_null(f = fopen(path, "we"));
	fwrite("SELECT 1\0; DROP", 1, 15, f);
	fclose(f);
	RUN(&p, s, "-f", path);
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.err, "holds a NUL byte"));
	program_free(&p);
	RUN(&p, s, "-f", "/nowhere");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.err, "No such file"));
	program_free(&p);
}

static void
dots_are_commands(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, ".tables", "--csv");
	assert_non_null(strstr(p.out, "audit,table\r\n"));
	assert_non_null(strstr(p.out, "live_grants,view\r\n"));
	program_free(&p);
	RUN(&p, s, ".schema lease");
	assert_int_equal(strncmp(p.out, "CREATE TABLE lease", 18), 0);
	assert_non_null(strstr(p.out, "CREATE TRIGGER lease_fence_grows"));
	assert_null(strstr(p.out, "CREATE TABLE audit"));
	program_free(&p);
	RUN(&p, s, ".shell ls");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.err, "there is no command .shell"));
	program_free(&p);
}

static void
without_a_state(void **state)
{
	struct scratch *s = *state;
	struct program p;
	struct scratch none = *s;

	snprintf(none.home.state, sizeof(none.home.state), "%s/none", s->dir);
	RUN(&p, &none, "SELECT 1");
	assert_int_equal(p.code, 3);
	assert_non_null(strstr(p.err, "[store.missing]\n         start bastion serve"));
	assert_int_equal(access(none.home.state, F_OK), -1);
	program_free(&p);
}

/* A conversation on a terminal: lines that continue, a refusal that ends nothing, modes, history.
 */
static void
conversation(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;
	struct stat st;
	char path[128];

	program_talk(&t, s, (const char *const[]){"sql", NULL});
	program_expect(&t, ".help has the commands");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 'a;b' AS\n");
	program_expect(&t, "    ...> ");
	program_type(&t, "two_lines;\n");
	program_expect(&t, "a;b\r\n");
	program_expect(&t, "bastion> ");
	program_type(&t, "DELETE FROM audit;\n");
	program_expect(&t, "DELETE is not for it [sql.refused]");
	program_expect(&t, "bastion> ");
	program_type(&t, ".mode json\n");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 'café' AS name;\n");
	program_expect(&t, "[{\"name\":\"café\"}]");
	program_expect(&t, "bastion> ");
	program_type(&t, "\020"); /* Ctrl-P: the line before */
	program_expect(&t, "SELECT 'café' AS name;");
	program_type(&t, "\n");
	program_expect(&t, "[{\"name\":\"café\"}]");
	program_expect(&t, "bastion> ");
	program_type(&t, "\004");
	assert_int_equal(program_over(&t), 0);
	snprintf(path, sizeof(path), "%s/.bastion_sql_history", s->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

/* Ctrl-C ends the query, or empties the line; the shell stays. */
static void
interruption(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;

	program_talk(&t, s, (const char *const[]){"sql", NULL});
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 'left\n");
	program_expect(&t, "    ...> ");
	program_type(&t, "over\003");
	program_expect(&t, "^C");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 11 * 11 AS n; " ENDLESS ";\n");
	program_expect(&t, "121\r\n"); /* so the endless one runs now */
	program_type(&t, "\003");
	program_expect(&t, "the query was interrupted [sql.interrupted]");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 12 * 12 AS n;\n");
	program_expect(&t, "144\r\n");
	program_type(&t, ".quit\n");
	assert_int_equal(program_over(&t), 0);
}

/* On the terminal of 80 columns no line is longer, and an escape stays one that can be read. */
static void
the_terminal_is_not_overrun(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;
	char *line, *end;

	program_talk(&t, s, (const char *const[]){"settings", NULL});
	program_expect(&t, "store.tick_ms");
	for (line = t.seen; (end = strchr(line, '\n')) != NULL; line = end + 1)
		assert_in_range(end - line, 0, 90);
	assert_int_equal(program_over(&t), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(statements_run_in_turn, setup, teardown),
	    cmocka_unit_test_setup_teardown(faults_have_a_place, setup, teardown),
	    cmocka_unit_test_setup_teardown(own_functions_work, setup, teardown),
	    cmocka_unit_test_setup_teardown(nothing_is_written, setup, teardown),
	    cmocka_unit_test_setup_teardown(transactions_hold_nobody_up, setup, teardown),
	    cmocka_unit_test_setup_teardown(secrets_read_as_null, setup, teardown),
	    cmocka_unit_test_setup_teardown(text_of_a_host_is_shown, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_endless_query_is_ended, setup, teardown),
	    cmocka_unit_test_setup_teardown(files_and_their_faults, setup, teardown),
	    cmocka_unit_test_setup_teardown(dots_are_commands, setup, teardown),
	    cmocka_unit_test_setup_teardown(without_a_state, setup, teardown),
	    cmocka_unit_test_setup_teardown(conversation, setup, teardown),
	    cmocka_unit_test_setup_teardown(interruption, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_terminal_is_not_overrun, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
