/* test_sql_talk.c: a person talks to the database on a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "tests/program.h"

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

/* A transaction that a person leaves open holds nobody up. */
static void
transactions_hold_nobody_up(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;

	program_talk(&t, s, (const char *const[]){"sql", NULL});
	program_expect(&t, "bastion> ");
	program_type(&t, "BEGIN IMMEDIATE;\n");
	program_expect(&t, "bastion*> ");
	program_type(&t, "SELECT count(*) AS seen FROM setting;\n");
	program_expect(&t, "seen");
	assert_int_equal(scratch_sql(s, "UPDATE setting SET value = 61 WHERE name = 'op.live'"), 0);
	program_type(&t, ".quit\n");
	program_ends(&t, 0);
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
	program_ends(&t, 0);
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
	program_ends(&t, 0);
}

/* A function that never looks at the clock cannot hold a person who keeps on. */
static void
a_third_interrupt_leaves(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;
	struct pollfd ready = {.events = POLLIN};
	ssize_t n = 1;

	program_talk(&t, s, (const char *const[]){"sql", NULL});
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 121; SELECT instr(hex(zeroblob(30000000)),"
			 " hex(zeroblob(1000000)) || '1');\n");
	program_expect(&t, "121\r\n");
	program_type(&t, "\003");
	for (ready.fd = t.fd; n > 0 && t.len + 1024 < sizeof(t.seen);) {
		if (poll(&ready, 1, 100) == 0 && write(t.fd, "\003", 1) == 1)
			continue;
		if ((n = read(t.fd, t.seen + t.len, 1024)) > 0)
			t.len += (size_t)n;
	}
	t.seen[t.len] = '\0';
	assert_non_null(strstr(t.seen, "Ctrl-C once more leaves"));
	program_ends(&t, 130);
}

static void
words_are_completed(void **state)
{
	static const struct {
		const char *typed, *then;
	} cases[] = {
	    {".ta\t", "bles "},
	    {".mode mar\t", "kdown "},
	    {".times u\t", "tc "},
	    {".states fac\t", "tor "},
	    {".states grant pi\t", "cture "},
	    {".timeline host_b\t", "ox "},
	    {".settings op.pa\t", "rallel "},
	    {".schema lease_f\t", "ence_grows "},
	    {".plan SELECT * FROM leas\t", "e "},
	    {".plan SELECT * FROM lease AS l WHERE l.expi\t", "res_at "},
	    {"SELE\t", "CT "},
	    {"sele\t", "ct "},
	    {"SELECT * FROM grant WHERE end_r\t", "eason "},
	    {"SELECT * FROM grant AS g JOIN pairing p ON p.host_k\t", "ey "},
	    {"SELECT * FROM grant AS g JOIN pairing p ON g.approval\t", "_id "},
	    {"SELECT chain_h\t", "ash("},
	};
	struct scratch *s = *state;
	struct program_talk t;
	size_t i;

	program_talk(&t, s, (const char *const[]){"sql", NULL});
	program_expect(&t, "bastion> ");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		program_type(&t, cases[i].typed);
		program_expect(&t, cases[i].then);
		program_type(&t, "\003");
		program_expect(&t, "bastion> ");
	}
	/* Several are listed; inside of a text there is nothing to complete. */
	program_type(&t, "SELECT * FROM audit\t");
	program_expect(&t, "audit_outbox");
	program_type(&t, "\003");
	program_expect(&t, "bastion> ");
	program_type(&t, "\t\t");
	program_expect(&t, ".timeline");
	program_type(&t, "\003");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 17 AS\n\t\tseventeen;\n"); /* pasted */
	program_expect(&t, "seventeen\033[0m\r\n");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 'SELE\t' AS \"text\";\n");
	program_expect(&t, "text\033[0m\r\nSELE\r\n");
	program_expect(&t, "bastion> "); /* before it the terminal would take the end for itself */
	program_type(&t, "\004");
	program_ends(&t, 0);
}

/* What is longer than the terminal goes through $PAGER; leaving it ends the query, without a word.
 */
static void
long_results_are_paged(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;
	char pager[160], path[96];

	snprintf(path, sizeof(path), "%s/paged", s->dir);
	snprintf(pager, sizeof(pager), "cat > %s; echo paged", path);
	setenv("PAGER", pager, 1);
	program_talk(&t, s, (const char *const[]){"sql", NULL});
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT name FROM setting LIMIT 20;\n");
	program_expect(&t, "bastion> ");
	assert_int_equal(access(path, F_OK), -1);
	program_type(&t, "SELECT name FROM setting;\n");
	program_expect(&t, "paged\r\n");
	program_expect(&t, "bastion> ");
	assert_int_equal(access(path, F_OK), 0);
	program_type(&t, "\004");
	program_ends(&t, 0);

	setenv("PAGER", "head -n 3", 1);
	program_talk(&t, s, (const char *const[]){"sql", NULL});
	unsetenv("PAGER");
	program_expect(&t, "bastion> ");
	program_type(&t, ".mode csv\n");
	program_expect(&t, "bastion> ");
	program_type(&t, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
			 " SELECT x AS counted FROM c;\n");
	program_expect(&t, "counted\r\r\n1\r\r\n2\r\r\n");
	program_expect(&t, "bastion> ");
	assert_int_equal(t.len, 0);
	program_type(&t, "\004");
	program_ends(&t, 0);
}

/* Ctrl-C is for the pager: nobody leaves it alone on the terminal. */
static void
an_interrupted_pager_stays(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;

	setenv(
	    "PAGER", "trap '' INT; cat >/dev/null; echo paged; read -r x </dev/tty; echo bye", 1);
	program_talk(&t, s, (const char *const[]){"sql", "SELECT name FROM setting", NULL});
	unsetenv("PAGER");
	program_expect(&t, "paged");
	program_type(&t, "\003");
	program_expect(&t, "^C");
	program_type(&t, "\n");
	program_expect(&t, "bye");
	program_ends(&t, 0);
}

/* Ctrl-C while the terminal takes no more: what is cut off then was not wanted, and is no failure
 * of the shell when it ends.  How long the lines are says where in a line the terminal is full. */
static void
cut_off_output_is_not_lost_output(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;
	char query[160];
	int length;

	for (length = 2; length < 8; length++) {
		setenv("PAGER", "", 1);
		program_talk(&t, s, (const char *const[]){"sql", NULL});
		unsetenv("PAGER");
		program_expect(&t, "bastion> ");
		program_type(&t, ".mode list\n");
		program_expect(&t, "bastion> ");
		snprintf(query, sizeof(query),
		    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
		    " SELECT substr('xxxxxxxx', 1, %d) FROM n;\n",
		    length);
		program_type(&t, query);
		program_expect(&t, "\nxx");
		usleep(50000); /* until it is full */
		program_type(&t, "\003");
		program_expect(&t, "[sql.interrupted]");
		program_expect(&t, "bastion> ");
		program_type(&t, "exit\n");
		program_ends(&t, 0);
	}
}

/* A commit rings, the query runs again, and what is new stands in reverse. */
static void
watching_marks_changes(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;

	program_talk(&t, s, (const char *const[]){"sql", NULL});
	program_expect(&t, "bastion> ");
	program_type(&t, ".watch SELECT name, value FROM setting WHERE name GLOB 'op.[lp]*'\n");
	program_expect(&t, "q leaves");
	program_expect(&t, "op.live");
	program_expect(&t, "op.parallel");
	assert_null(strstr(t.seen, "\033[7m"));
	assert_int_equal(scratch_sql(s, "UPDATE setting SET value = 61 WHERE name = 'op.live'"), 0);
	program_expect(&t, "\033[7m61\033[0m");
	assert_int_equal(
	    scratch_sql(s, "UPDATE setting SET value = 7 WHERE name = 'op.parallel'"), 0);
	program_expect(&t, "61\033[K");
	program_expect(&t, "\033[7m7\033[0m");
	program_type(&t, "q");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 11 * 11;\n"); /* the terminal is as it was */
	program_expect(&t, "121\r\n");
	program_type(&t, ".watch\n"); /* the last statement */
	program_expect(&t, "q leaves  SELECT 11 * 11");
	program_expect(&t, "121");
	program_type(&t, "\003");
	program_expect(&t, "bastion> ");
	program_type(&t, "exit\n");
	program_ends(&t, 0);
}

/* Whatever ends it, the terminal is given back. */
static void
watching_gives_the_terminal_back(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;
	struct termios after;
	char seen[1024] = "";
	size_t len = 0;
	ssize_t n;

	program_talk(&t, s, (const char *const[]){"sql", ".watch SELECT 11 * 11 AS n", NULL});
	program_expect(&t, "121");
	assert_int_equal(kill(t.pid, SIGTERM), 0);
	while (len + 1 < sizeof(seen) && (n = read(t.fd, seen + len, sizeof(seen) - len - 1)) > 0)
		len += (size_t)n;
	assert_non_null(strstr(seen, "\033[?25h\033[?1049l"));
	assert_int_equal(tcgetattr(t.fd, &after), 0);
	assert_int_equal(after.c_lflag & (ECHO | ICANON), ECHO | ICANON);
	program_ends(&t, 128 + SIGTERM);
}

static void
file_holds(const char *path, const char *text)
{
	char held[256];
	size_t n;
	FILE *f = fopen(path, "re");

	assert_non_null(f);
	n = fread(held, 1, sizeof(held) - 1, f);
	fclose(f);
	held[n] = '\0';
	assert_string_equal(held, text);
}

static void
type_line(struct program_talk *t, const char *before, const char *path, const char *behind)
{
	program_type(t, before);
	program_type(t, path);
	program_type(t, behind);
	program_type(t, "\n");
	program_expect(t, "bastion> ");
}

/* A person at the terminal names files: for one result, for all, and to be read. */
static void
files_of_a_person(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;
	char path[96], more[96];
	FILE *f;

	snprintf(path, sizeof(path), "%s/a b.csv", s->dir);
	snprintf(more, sizeof(more), "%s/more.sql", s->dir);
	assert_non_null(f = fopen(more, "we"));
	fprintf(f, "SELECT 6 AS six;\n.once %s\nSELECT 7;\n", path);
	fclose(f);
	program_talk(&t, s, (const char *const[]){"sql", NULL});
	program_expect(&t, "bastion> ");
	type_line(&t, ".once '", path, "'");
	type_line(&t, ".mode csv", "", "");
	type_line(&t, "SELECT 1 AS a, char(27) AS e;", "", "");
	file_holds(path, "a,e\r\n1,\033\r\n");
	program_type(&t, "SELECT 5 AS five;\n");
	program_expect(&t, "five\r\r\n5\r\r\n");
	program_expect(&t, "bastion> ");
	program_type(&t, ".output '");
	program_type(&t, path);
	program_type(&t, "'\n");
	program_expect(&t, "is overwritten");
	program_expect(&t, "bastion> ");
	type_line(&t, "SELECT 2 AS b;", "", "");
	type_line(&t, "SELECT 3 AS c;", "", "");
	type_line(&t, ".output", "", "");
	file_holds(path, "b\r\n2\r\nc\r\n3\r\n");
	program_type(&t, ".read ");
	program_type(&t, more);
	program_type(&t, "\n");
	program_expect(&t, "six\r\r\n6\r\r\n");
	program_expect(&t, ".once names a file, which only a person does who types it");
	program_expect(&t, "bastion> ");
	program_type(&t, ".once /nowhere/x\n");
	program_expect(&t, "No such file");
	program_type(&t, "\\q\n");
	program_ends(&t, 0);
}

/* What is said besides rows. */
static void
the_shell_speaks(void **state)
{
	struct scratch *s = *state;
	struct program_talk t;

	setenv("PAGER", "", 1);
	program_talk(&t, s, (const char *const[]){"sql", NULL});
	unsetenv("PAGER");
	program_expect(&t, "bastion> ");
	program_type(&t, "help\n");
	program_expect(&t, ".timeline [ENTITY [ID]]");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 1 WHERE 0;\n");
	program_expect(&t, "no rows\r\n");
	program_expect(&t, "bastion> ");
	program_type(&t, ".timer on\n");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 1 UNION SELECT 2;\n");
	program_expect(&t, "2 rows, ");
	program_expect(&t, " ms\r\n");
	program_type(&t, "-- only a comment\n");
	program_expect(&t, "bastion> ");
	program_type(&t, "SELECT 1 -- a comment\n");
	program_expect(&t, "    ...> ");
	program_type(&t, "AS one;\n");
	program_expect(&t, "one\033[0m\r\n");
	program_type(&t, "quit;\n");
	program_ends(&t, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(conversation, setup, teardown),
	    cmocka_unit_test_setup_teardown(interruption, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_third_interrupt_leaves, setup, teardown),
	    cmocka_unit_test_setup_teardown(transactions_hold_nobody_up, setup, teardown),
	    cmocka_unit_test_setup_teardown(words_are_completed, setup, teardown),
	    cmocka_unit_test_setup_teardown(long_results_are_paged, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_interrupted_pager_stays, setup, teardown),
	    cmocka_unit_test_setup_teardown(cut_off_output_is_not_lost_output, setup, teardown),
	    cmocka_unit_test_setup_teardown(watching_marks_changes, setup, teardown),
	    cmocka_unit_test_setup_teardown(watching_gives_the_terminal_back, setup, teardown),
	    cmocka_unit_test_setup_teardown(files_of_a_person, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_shell_speaks, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
