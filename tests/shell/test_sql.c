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
	    "INSERT INTO live_grants (id) VALUES (1)",
	    "INSERT INTO audit_entry SELECT 'op', 'x', '1', 'x', '', '{}' FROM setting",
	    "INSERT INTO setting SELECT * FROM setting WHERE true ON CONFLICT DO UPDATE SET value = 1",
	    "EXPLAIN DELETE FROM audit",
	    "EXPLAIN QUERY PLAN UPDATE setting SET value = 1",
	    "CREATE TEMP TABLE x AS SELECT * FROM factor",
	    "CREATE TABLE x (a, b GENERATED ALWAYS AS (a + 1) STORED)",
	    "PRAGMA recursive_triggers = OFF",
	    "PRAGMA cell_size_check = OFF",
	    "PRAGMA hard_heap_limit = 0",
	    "PRAGMA locking_mode = EXCLUSIVE",
	    "PRAGMA mmap_size = 1073741824",
	    "PRAGMA temp_store = FILE",
	    "PRAGMA main.application_id = 7",
	    "PRAGMA ignore_check_constraints = ON",
	    "PRAGMA legacy_alter_table = ON",
	    "PRAGMA schema_version = 1",
	    "SELECT * FROM pragma_user_version(5)",
	    ".plan DELETE FROM audit",
	    ".explain PRAGMA writable_schema = ON",
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

/* Nor is there a way to a file, to raw pages, or to another program. */
static void
nothing_outside_is_reached(void **state)
{
	static const char *const tries[] = {
	    "SELECT readfile('/etc/passwd')",
	    "SELECT writefile('/tmp/bastion-test-copy.db', 'x')",
	    "SELECT edit('x')",
	    "SELECT * FROM sqlite_dbpage",
	    "SELECT * FROM fsdir('/')",
	    "SELECT data FROM zipfile('/tmp/x.zip')",
	    "SELECT * FROM csv('/etc/passwd')",
	    "SELECT fts5(zeroblob(8)), fts5_no()",
	    ".shell ls",
	    ".system ls",
	    ".open /tmp/x.db",
	    ".import /etc/passwd x",
	    ".load /tmp/x.so",
	    ".output /tmp/bastion-test-copy.db",
	    ".once /tmp/bastion-test-copy.db",
	    ".once |ls",
	    ".read /etc/passwd",
	};
	struct scratch *s = *state;
	struct program p;
	size_t i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		RUN(&p, s, tries[i]);
		if (p.code == 0)
			fail_msg("%s: %s", tries[i], p.out);
		assert_string_equal(p.out, "");
		program_free(&p);
	}
	/* A file is named by whoever types, not by what comes in. */
	program_run(&p, s, ".output /tmp/bastion-test-copy.db\nSELECT 1;\n",
	    (const char *const[]){"sql", NULL});
	assert_int_equal(p.code, 126);
	assert_non_null(strstr(p.err, "only a person does who types"));
	program_free(&p);
	assert_int_equal(access("/tmp/bastion-test-copy.db", F_OK), -1);
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
	    "WITH f(a, b, c, d, e, f, g, h, i, j) AS (SELECT * FROM factor) SELECT d FROM f",
	    "SELECT hex(secret || zeroblob(4)) || quote(zeroblob(2)) AS x FROM factor",
	    "SELECT replace(hex(secret), 'A', 'A') AS x FROM factor",
	    "SELECT iif(secret IS NULL, 'masked', hex(secret)) AS x FROM factor",
	    "SELECT value AS x FROM factor, json_each(json_array(hex(secret)))",
	    "SELECT value AS x FROM factor, json_each(secret)",
	    "WITH RECURSIVE r(n, x) AS (SELECT 1, hex(secret) FROM factor UNION ALL SELECT n + 1,"
	    " (SELECT hex(secret) FROM factor) FROM r WHERE n < 3) SELECT x FROM r",
	    "SELECT group_concat(hex(f.secret)) OVER (PARTITION BY g.secret) AS x FROM factor AS f"
	    " CROSS JOIN factor AS g",
	    "SELECT (SELECT hex(main.factor.secret)) AS x FROM main.factor",
	    "SELECT [secret], \"secret\", `secret`, SECRET FROM \"factor\"",
	    "SELECT max(hex(secret)) FILTER (WHERE secret IS NOT NULL) AS x FROM factor",
	    "SELECT hex(sha256(secret)) AS x, length(secret), typeof(secret) FROM factor",
	    "VALUES ((SELECT hex(secret) FROM factor))",
	    "SELECT json_group_object(label, hex(secret)) AS x FROM factor GROUP BY secret",
	};
	static const char *const refused[] = {
	    "SELECT secret FROM factor JOIN factor AS g USING (secret)",
	    "SELECT * FROM factor NATURAL JOIN factor AS g",
	    "SELECT g.secret FROM factor NATURAL/**/JOIN (SELECT x'00' AS secret) AS g",
	    "SELECT 1 FROM (SELECT x'00' AS secret) AS g JOIN factor using\n(\"secret\")",
	    ".plan SELECT * FROM factor NATURAL JOIN factor AS g",
	    ".explain SELECT * FROM factor NATURAL JOIN factor AS g",
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
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		RUN(&p, s, refused[i]);
		if (p.code != 126)
			fail_msg("exit %d for: %s: %s", p.code, refused[i], p.out);
		program_free(&p);
	}
	RUN(&p, s, "--csv", "SELECT 1 AS a FROM box NATURAL JOIN setting; SELECT id FROM factor");
	assert_string_equal(p.out, "a\r\nid\r\n1\r\n"); /* each statement is looked at by itself */
	program_free(&p);
	/* Nor does a condition tell anything of it. */
	RUN(&p, s, "--csv",
	    "SELECT (SELECT count(DISTINCT secret) FROM factor) AS m,"
	    " (SELECT total(length(secret)) FROM factor) AS l,"
	    " (SELECT count(*) FROM factor WHERE (SELECT * FROM factor) IN factor) AS n");
	assert_string_equal(p.out, "m,l,n\r\n0,0.0,0\r\n");
	program_free(&p);
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

/* A value, and all of memory, have a bound; what does not look at the clock is ended all the same.
 */
static void
memory_and_deaf_functions_are_bounded(void **state)
{
	static const char *const tries[] = {
	    "SELECT length(zeroblob(2000000000))",
	    "SELECT hex(zeroblob(60000000))",
	    "SELECT replace(hex(zeroblob(30000000)), '00', 'aaaaaaaa')",
	    "WITH RECURSIVE r(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM r) SELECT length(x) FROM r",
	    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"
	    " SELECT zeroblob(30000000) FROM r ORDER BY x DESC",
	};
	struct scratch *s = *state;
	struct program p;
	size_t i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		RUN(&p, s, "--json", tries[i]);
		if (p.code != 1 || strstr(p.err, "\"sql.interrupted\"") == NULL)
			fail_msg("exit %d for: %s: %s", p.code, tries[i], p.err);
		assert_true(p.len < 2000);
		program_free(&p);
	}
	RUN(&p, s, "--timeout", "1s",
	    "SELECT instr(hex(zeroblob(30000000)), hex(zeroblob(1000000)) || '1')");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.err, "[sql.timeout]"));
	program_free(&p);
}

/* Numbers are numbers where they are written as such; nothing is guessed to be NULL. */
static void
parameters_are_bound(void **state)
{
	static const struct {
		const char *given, *shown;
	} cases[] = {
	    {"x=7", "'integer',7"},
	    {"x=-7", "'integer',-7"},
	    {"x=9223372036854775807", "'integer',9223372036854775807"},
	    {"x=9223372036854775808", "'text','9223372036854775808'"},
	    {"x=2.50", "'real',2.5"},
	    {"x=007", "'text','007'"},
	    {"x=+7", "'text','+7'"},
	    {"x=1e3", "'text','1e3'"},
	    {"x=-0", "'text','-0'"},
	    {"x=-", "'text','-'"},
	    {"x=1.", "'text','1.'"},
	    {"x=", "'text',''"},
	    {"x=NULL", "'text','NULL'"},
	    {"x:=7", "'text','7'"},
	    {"x=a=b", "'text','a=b'"},
	    {"x='; DROP TABLE audit", "'text','''; DROP TABLE audit'"},
	};
	struct scratch *s = *state;
	struct program p;
	char want[128];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RUN(&p, s, "--mode", "quote", "-p", cases[i].given,
		    "SELECT typeof(:x) AS t, @x AS x WHERE $x IS :x");
		snprintf(want, sizeof(want), "'t','x'\n%s\n", cases[i].shown);
		assert_string_equal(p.out, want);
		program_free(&p);
	}
	RUN(&p, s, "-p", "a=1", "-p", "a=2", "--csv", "SELECT :a AS a; SELECT :a + 1 AS b");
	assert_string_equal(p.out, "a\r\n2\r\nb\r\n3\r\n");
	program_free(&p);
	RUN(&p, s, "-p", "hots=laptop", "SELECT * FROM live_grants WHERE host = :host");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.err, "the parameter :host has no value: give -p host=VALUE"));
	program_free(&p);
	RUN(&p, s, "SELECT ?");
	assert_int_equal(p.code, 1);
	program_free(&p);
	RUN(&p, s, "-p", "x", "SELECT :x");
	assert_int_equal(p.code, 2);
	program_free(&p);
}

/* What a script may rely on: one document or one line a row, errors as objects, codes. */
static void
scripts_have_stable_ends(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "--jsonl", "SELECT 1 AS a, 1800000000123 AS at UNION ALL SELECT NULL, 2");
	assert_string_equal(p.out, "{\"a\":1,\"at\":1800000000123}\n{\"a\":null,\"at\":2}\n");
	program_free(&p);
	RUN(&p, s, "--jsonl", "SELECT 1 AS a WHERE 0");
	assert_string_equal(p.out, "");
	assert_int_equal(p.code, 0);
	program_free(&p);
	RUN(&p, s, "--jsonl", "SELECT nope");
	assert_int_equal(p.code, 1);
	assert_int_equal(strncmp(p.err, "{\"error\":{\"code\":\"sql.error\"", 28), 0);
	program_free(&p);
	RUN(&p, s, "--mode", "chart", "SELECT 1");
	assert_int_equal(p.code, 2);
	program_free(&p);
	/* Times are dates for people alone. */
	program_run(&p, s, ".times utc\nSELECT 0 AS at;\n.mode json\nSELECT 0 AS at;\n",
	    (const char *const[]){"sql", NULL});
	assert_string_equal(p.out, "at\n1970-01-01T00:00:00.000Z\n[{\"at\":0}]\n");
	program_free(&p);
	program_run(&p, s, ".times raw\nSELECT 5 AS at; .quit\nSELECT 6 AS at;\n",
	    (const char *const[]){"sql", NULL});
	assert_string_equal(p.out, "at\n5\n");
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
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "No such file or directory [file.missing]"));
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
	program_ends(&t, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(statements_run_in_turn, setup, teardown),
	    cmocka_unit_test_setup_teardown(faults_have_a_place, setup, teardown),
	    cmocka_unit_test_setup_teardown(own_functions_work, setup, teardown),
	    cmocka_unit_test_setup_teardown(nothing_is_written, setup, teardown),
	    cmocka_unit_test_setup_teardown(nothing_outside_is_reached, setup, teardown),
	    cmocka_unit_test_setup_teardown(secrets_read_as_null, setup, teardown),
	    cmocka_unit_test_setup_teardown(memory_and_deaf_functions_are_bounded, setup, teardown),
	    cmocka_unit_test_setup_teardown(parameters_are_bound, setup, teardown),
	    cmocka_unit_test_setup_teardown(scripts_have_stable_ends, setup, teardown),
	    cmocka_unit_test_setup_teardown(text_of_a_host_is_shown, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_endless_query_is_ended, setup, teardown),
	    cmocka_unit_test_setup_teardown(files_and_their_faults, setup, teardown),
	    cmocka_unit_test_setup_teardown(without_a_state, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_terminal_is_not_overrun, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
