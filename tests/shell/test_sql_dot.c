/* test_sql_dot.c: the commands of bastion sql, as a script runs them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/store/store.h"
#include "tests/program.h"

#define RUN(p, s, ...) program_run(p, s, NULL, (const char *const[]){"sql", __VA_ARGS__, NULL})

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
shows(struct scratch *s, const char *command, const char *mode, const char *text)
{
	struct program p;

	RUN(&p, s, command, "--mode", mode);
	if (p.code != 0 || strstr(p.out, text) == NULL)
		fail_msg("%s: exit %d, %s%s", command, p.code, p.out, p.err);
	program_free(&p);
}

static void
the_schema_is_shown(void **state)
{
	struct scratch *s = *state;
	struct program p;

	shows(s, ".tables", "csv", "\r\naudit,table,");
	shows(s, ".tables", "csv", "live_grants,view,What Hosts may do now\r\n");
	shows(s, ".tables grant", "csv", "\r\ngrant_use,table,");
	shows(s, ".views", "csv", "\r\nlive_grants,What Hosts may do now\r\n");
	shows(s, ".indexes factor", "csv", "factor,factor_by_label,label,yes,state = 'active'\r\n");
	shows(
	    s, ".triggers audit_seal", "csv", "audit_seal,audit_seal_no_delete,BEFORE DELETE\r\n");
	shows(s, ".settings op.live", "csv", "\r\nop.live,64,rows,1,10000,");
	shows(s, ".refusals lease.h", "csv", "\r\nlease.held,75,409,");
	RUN(&p, s, ".tables grant", "--csv");
	assert_null(strstr(p.out, "audit,"));
	program_free(&p);
	RUN(&p, s, ".schema lease");
	assert_int_equal(strncmp(p.out, "CREATE TABLE lease", 18), 0);
	assert_non_null(strstr(p.out, "CREATE TRIGGER lease_fence_grows"));
	assert_null(strstr(p.out, "CREATE TABLE audit"));
	program_free(&p);
}

/* A newcomer reads .tables first: each table and view says in a sentence what it is. */
static void
every_table_says_what_it_is(void **state)
{
	static const char dumb[] =
	    "SELECT value ->> 'name', value ->> 'about' FROM json_each(?1)"
	    " WHERE coalesce(length(value ->> 'about'), 0) NOT BETWEEN 8 AND 200";
	struct scratch *s = *state;
	struct program p;
	sqlite3_stmt *q;

	RUN(&p, s, ".tables", "--json");
	assert_int_equal(p.code, 0);
	assert_int_equal(sqlite3_prepare_v2(store_handle(s->db), dumb, -1, &q, NULL), SQLITE_OK);
	sqlite3_bind_text(q, 1, p.out, -1, SQLITE_STATIC);
	if (sqlite3_step(q) == SQLITE_ROW)
		fail_msg("%s: \"%s\"", sqlite3_column_text(q, 0), sqlite3_column_text(q, 1));
	sqlite3_finalize(q);
	program_free(&p);
}

static void
plans_are_shown(void **state)
{
	struct scratch *s = *state;

	shows(s, ".plan SELECT * FROM setting WHERE name = :name", "table",
	    "└─ SEARCH setting USING PRIMARY KEY (name=?)\n");
	shows(s, "SELECT count(*) FROM box; .plan", "table", "└─ SCAN box");
	shows(s, ".explain SELECT 1", "csv", ",ResultRow,");
}

/* The list is as wide as the narrowest terminal that people use. */
static void
help_fits(void **state)
{
	struct scratch *s = *state;
	struct program p;
	char *line, *end;

	RUN(&p, s, ".help");
	for (line = p.out; (end = strchr(line, '\n')) != NULL; line = end + 1)
		assert_in_range(end - line, 0, 80);
	program_free(&p);
	shows(s, ".help who;", "table", ".who ");
	RUN(&p, s, ".help .who");
	assert_ptr_equal(strchr(p.out, '\n'), p.out + p.len - 1);
	program_free(&p);
}

/* Whoever types what another shell knows, or nearly what this one does, is told what it is here. */
static void
commands_that_are_not_there(void **state)
{
	static const struct {
		const char *typed, *said;
	} cases[] = {
	    {".system ls", "there is no command .system; .help has them"},
	    {".tabels", "near it: .tables"},
	    {"\\d", ".schema NAME"},
	    {"\\timing", ".timer on"},
	    {".dump", "bastion backup FILE"},
	    {".schema leese", "there is no leese; near it: lease"},
	    {".states grand", "no entity grand has states; near it: grant"},
	    {".states grant chart", "a form is picture, table or dot"},
	    {".timeline grant 99", "the audit knows no grant 99"},
	    {".mode chart", "a mode is table, box,"},
	    {".mode box csv", "it is used so: .mode [MODE]"},
	    {".times never", "it is used so: .times [local|utc|raw]"},
	    {".help nothing", "there is no command nothing"},
	    {".plan", "there was no statement yet"},
	    {".watch SELECT 1", "a person watches, on a terminal"},
	    {".watch SELECT 1; SELECT 2", "one query can be watched"},
	    {".watch -- nothing", "one query can be watched"},
	};
	struct scratch *s = *state;
	struct program p;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RUN(&p, s, cases[i].typed);
		if (p.code != 1 || strstr(p.err, cases[i].said) == NULL)
			fail_msg("%s: exit %d, %s", cases[i].typed, p.code, p.err);
		program_free(&p);
	}
}

static void
state_machines_are_drawn(void **state)
{
	/* A state on several ways is drawn with its moves once, where it is nearest to birth. */
	static const char pairing[] = "pairing\n● ─┬→ active ─┬→ pending …\n"
				      "   │          └→ revoked ──→ pending …\n"
				      "   └→ pending ─┬→ active …\n"
				      "               └→ revoked …\n";
	struct scratch *s = *state;

	shows(s, ".states", "csv", "\r\nfactor,active,2,dropped\r\n");
	shows(s, ".states factor", "csv",
	    "from_state,to_state,then_it_is\r\n\"\",active,\"\"\r\nactive,dropped,final\r\n");
	shows(s, ".states pairing picture", "table", pairing);
	shows(s, ".states factor dot", "table",
	    "digraph \"factor\" {\n\trankdir=LR;\n\tnode [shape=box, style=rounded];\n"
	    "\t\"\" [shape=point];\n\t\"dropped\" [peripheries=2];\n\t\"\" -> \"active\";\n"
	    "\t\"active\" -> \"dropped\";\n}\n");
}

/* Every trigger that refuses is there, with codes that can be looked up. */
static void
rules_are_all_of_them(void **state)
{
	struct scratch *s = *state;
	struct program p;
	char *sql;

	shows(s, ".rules lease", "csv",
	    "lease,lease_fence_grows,lease.fence,a fence never falls\r\n");
	shows(s, ".rules lease", "csv",
	    "lease,fence,\"\",\"grows at each grant, never otherwise: fence >= 0\"\r\n");
	RUN(&p, s, ".rules", "--mode", "json");
	assert_int_equal(p.code, 0);
	sql = sqlite3_mprintf(
	    "WITH r AS (SELECT value ->> 'rule' AS rule, value ->> 'code' AS code FROM json_each(%Q)"
	    " WHERE value ->> 'code' <> '')"
	    " SELECT (SELECT count(*) FROM r WHERE code NOT IN (SELECT code FROM refusal)) = 0"
	    " AND (SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'"
	    " AND instr(sql, 'RAISE(ABORT') > 0 AND name NOT IN (SELECT rule FROM r)) = 0"
	    " AND (SELECT count(*) FROM r) > 50",
	    p.out);
	assert_int_equal(scratch_value(s, sql), 1);
	sqlite3_free(sql);
	program_free(&p);
}

/* What happened to one row, in its order, with the time between. */
static void
one_rows_life(void **state)
{
	struct scratch *s = *state;

	assert_int_equal(scratch_sql(s, "UPDATE setting SET value = 61 WHERE name = 'op.live'"), 0);
	assert_int_equal(scratch_sql(s, "UPDATE setting SET value = 62 WHERE name = 'op.live'"), 0);
	shows(s, ".timeline setting op.live", "json",
	    "\"after\":\"\",\"who\":\"test:scratch\",\"action\":\"changed\","
	    "\"body\":{\"from\":64,\"to\":61}}");
	shows(s, ".timeline setting op.live", "json", "\"body\":{\"from\":61,\"to\":62}}]\n");
	shows(s, ".timeline setting", "csv", ",setting,op.live,changed,");
	shows(s, ".timeline", "csv", ",box,");
}

/* An open transaction is named, with the process that holds it. */
static void
who_holds_what(void **state)
{
	struct scratch *s = *state;
	struct store *db = scratch_open(s, ROLE_PERSON);
	struct program p;
	char want[64];

	assert_int_equal(store_begin(db), 0);
	RUN(&p, s, ".who", "--csv");
	store_rollback(db);
	assert_int_equal(p.code, 0);
	snprintf(want, sizeof(want), "\n%ld,test_sql_dot,", (long)getpid());
	if (strstr(p.out, want) == NULL || strstr(p.out, "the gate: it may write") == NULL ||
	    strstr(p.out, "an open transaction that writes") == NULL)
		fail_msg("%s", p.out);
	program_free(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(the_schema_is_shown, setup, teardown),
	    cmocka_unit_test_setup_teardown(every_table_says_what_it_is, setup, teardown),
	    cmocka_unit_test_setup_teardown(plans_are_shown, setup, teardown),
	    cmocka_unit_test_setup_teardown(help_fits, setup, teardown),
	    cmocka_unit_test_setup_teardown(commands_that_are_not_there, setup, teardown),
	    cmocka_unit_test_setup_teardown(state_machines_are_drawn, setup, teardown),
	    cmocka_unit_test_setup_teardown(rules_are_all_of_them, setup, teardown),
	    cmocka_unit_test_setup_teardown(one_rows_life, setup, teardown),
	    cmocka_unit_test_setup_teardown(who_holds_what, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
