/* test_progress.c: how far something long has come is said on a terminal, and nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/program.h"
#include "tests/scratch.h"

static struct scratch s;
static char file[96];

static int
make(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	snprintf(file, sizeof(file), "%s/copy.db", s.dir);
	assert_int_equal(
	    scratch_sql(&s,
		"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
		" i < 20000) INSERT INTO audit_entry (stream, entity, entity_id, action,"
		" pairing, body) SELECT 'op', 'test', i, 'added', '', '{}' FROM n"),
	    0);
	store_close(s.db);
	s.db = NULL;
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

/* One line that is written anew, taken away at the end, and then what came of it. */
static void
a_terminal_is_told(void **state)
{
	const char *const words[] = {"backup", file, NULL};
	static struct program_talk t;

	(void)state;
	program_talk(&t, &s, words);
	program_expect(&t, "copying");
	program_expect(&t, "%");
	program_expect(&t, "checking the audit");
	program_expect(&t, "\r\033[K");
	program_expect(&t, "checked; the audit in it goes to row 20001.");
	program_ends(&t, 0);
}

/* So is whoever waits for a check. */
static void
so_is_who_checks(void **state)
{
	const char *const words[] = {"audit", "verify", NULL};
	static struct program_talk t;

	(void)state;
	program_talk(&t, &s, words);
	program_expect(&t, "checking the audit");
	program_expect(&t, "%");
	program_expect(&t, "\r\033[K");
	program_expect(&t, "good: 20001 rows");
	program_ends(&t, 0);
}

/* A file, a pipe and a program hear nothing of it. */
static void
nobody_else_is(void **state)
{
	const char *const words[] = {"backup", file, NULL};
	const char *const json[] = {"backup", file, "--force", "--json", NULL};
	static struct program_talk t;
	struct program p;

	(void)state;
	program_run(&p, &s, NULL, words);
	assert_int_equal(p.code, 0);
	assert_string_equal(p.err, "");
	program_free(&p);
	program_talk(&t, &s, json);
	program_expect(&t, "\"audit_seq\":");
	assert_null(strstr(t.seen, "copying"));
	program_ends(&t, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_terminal_is_told, make, drop),
	    cmocka_unit_test_setup_teardown(so_is_who_checks, make, drop),
	    cmocka_unit_test_setup_teardown(nobody_else_is, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
