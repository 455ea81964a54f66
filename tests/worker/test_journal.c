/* test_journal.c: what a unit logged, and what is said when nobody can know. */
#include "tests/worker/recorded.h"

#include <sys/wait.h>

static struct ask a;

static void
ask_journal(const char *unit, const char *minutes)
{
	const char *const words[] = {unit, minutes, NULL};

	free(a.frames);
	ask_run(&a, "observe:journal", words, &limits, &env);
}

/* The text of all output frames; the caller frees it. */
static char *
text_of(const char *frames)
{
	return ask_sql(frames,
	    "WITH RECURSIVE line(text, rest) AS (SELECT '', ?1 UNION ALL"
	    " SELECT substr(rest, 1, instr(rest, char(10)) - 1), substr(rest, instr(rest, char(10)) + 1)"
	    " FROM line WHERE rest <> '')"
	    " SELECT coalesce(group_concat(text ->> 'o', ''), '') FROM line WHERE json_valid(text)"
	    " AND text ->> 'o' IS NOT NULL");
}

static void
a_units_lines(void **state)
{
	char *text;

	(void)state;
	ask_journal("example", "5");
	assert_int_equal(a.code, OBSERVE_DONE);
	assert_non_null(text = text_of(a.frames));
	assert_non_null(strstr(text, "a \"quoted\" word, a \\ and a tab:\there\n"));
	assert_non_null(strstr(text, "gr\xc3\xbc\xc3\x9f"));
	free(text);
	assert_int_equal(ask_int(a.result, "$.lines"), 3);
	assert_int_equal(ask_int(a.result, "$.minutes"), 5);
	assert_int_equal(ask_int(a.result, "$.cut"), 0);
	ask_is(a.result, "SELECT json_extract(?1, '$.unit')", "example.service");
}

/* core 1.1.1: the program is started with exactly these arguments. */
static void
arguments(void **state)
{
	char *text;

	(void)state;
	ask_journal("arguments", NULL);
	assert_non_null(text = text_of(a.frames));
	assert_string_equal(text, "--unit=arguments.service\n--since=-15min\n-o\nshort-iso\n"
				  "--no-pager\n-q\n--lines=5000\n");
	free(text);
}

static void
a_silent_unit(void **state)
{
	(void)state;
	ask_journal("silent", NULL);
	assert_int_equal(a.code, OBSERVE_DONE);
	assert_int_equal(ask_int(a.result, "$.lines"), 0);
	assert_null(strstr(a.result, "unreadable"));
}

/* core 1.1.1: at most 200 KB, and the newest are kept, whole lines of them. */
static void
the_newest_are_kept(void **state)
{
	char *text;

	(void)state;
	ask_journal("large", NULL);
	assert_int_equal(a.code, OBSERVE_DONE);
	assert_non_null(text = text_of(a.frames));
	assert_in_range(strlen(text), 199000, 200000);
	assert_memory_equal(text, "2026-11-29T10:00:00+0000 box large[7]: line number ", 51);
	assert_string_equal(text + strlen(text) - 7, "020000\n");
	assert_int_equal(ask_int(a.result, "$.bytes"), strlen(text));
	assert_int_equal(ask_int(a.result, "$.cut"), 1);
	free(text);
	limits.journal_bytes = 1000;
	ask_journal("large", NULL);
	assert_non_null(text = text_of(a.frames));
	assert_in_range(strlen(text), 900, 1000);
	assert_string_equal(text + strlen(text) - 7, "020000\n");
	free(text);
}

/* OBS-9: an unknown unit is refused with names that are near. */
static void
unknown_unit(void **state)
{
	(void)state;
	ask_journal("exampel", NULL);
	assert_int_equal(a.code, OBSERVE_WRONG);
	ask_is(a.result, "SELECT json_extract(?1, '$.refused.code')", "observe.unit_unknown");
	ask_is(a.result, "SELECT json_extract(?1, '$.near[0]')", "example.service");
	ask_is(a.result, "SELECT json_extract(?1, '$.near[1]')", "examples.service");
	assert_null(strstr(a.result, "exampel"));
	ask_journal("ple-back", NULL);
	ask_is(a.result, "SELECT json_extract(?1, '$.near[0]')", "example-backup.service");
	ask_journal("zzzzzzzzzzzz", NULL);
	ask_is(a.result, "SELECT json_array_length(?1, '$.near')", "0");
}

/* An installed template makes its instances known. */
static void
instance_of_a_template(void **state)
{
	(void)state;
	ask_journal("worker@7", NULL);
	assert_int_equal(a.code, OBSERVE_FAILED);
	ask_is(a.result, "SELECT json_extract(?1, '$.unreadable')", "journalctl failed");
	assert_int_equal(ask_int(a.result, "$.lines"), -1);
	ask_journal("getty@tty2", NULL);
	assert_int_equal(a.code, OBSERVE_WRONG);
	ask_is(a.result, "SELECT json_extract(?1, '$.near[0]')", "getty@tty1.service");
}

/* What cannot be read is said, never shown as empty. */
static void
unreadable_is_said(void **state)
{
	(void)state;
	ask_journal("broken", NULL);
	assert_int_equal(a.code, OBSERVE_FAILED);
	ask_is(a.result, "SELECT json_extract(?1, '$.unreadable')", "journalctl failed");
	assert_int_equal(ask_int(a.result, "$.lines"), -1);

	strcpy(env.systemctl, "/nonexistent");
	ask_journal("example", NULL);
	assert_int_equal(a.code, OBSERVE_MISSING);
	ask_is(
	    a.result, "SELECT json_extract(?1, '$.unreadable')", "this machine has no systemctl");

	strcpy(env.journal, "/nonexistent");
	ask_journal("example", NULL);
	assert_int_equal(a.code, OBSERVE_MISSING);
	ask_is(a.result, "SELECT json_extract(?1, '$.unreadable')",
	    "this machine keeps no system journal");

	strcpy(env.journalctl, "/nonexistent");
	ask_journal("example", NULL);
	assert_int_equal(a.code, OBSERVE_MISSING);
	ask_is(
	    a.result, "SELECT json_extract(?1, '$.unreadable')", "this machine has no journalctl");
}

/* OBS-11: an ordinary user outside systemd-journal is told so. */
static void
ordinary_user(void **state)
{
	char why[256] = "";
	pid_t pid;
	int status;

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root to become somebody else\n");
		skip();
	}
	strcpy(env.journalctl, "/bin/true");
	if ((pid = fork()) == 0) {
		if (setgid(NOBODY) == -1 || setuid(NOBODY) == -1)
			_exit(9);
		_exit(observe_journal_reader(&env, why, sizeof(why)) == 0 &&
			      strstr(why, "systemd-journal") != NULL
			  ? 0
			  : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(observe_journal_reader(&env, why, sizeof(why)), 1);
}

/* A program that never ends is ended. */
static void
program_that_hangs(void **state)
{
	(void)state;
	recorded_stand_in(env.journalctl, "echo one; sleep 30");
	limits.tool_ms = 200;
	ask_journal("example", NULL);
	assert_int_equal(a.code, OBSERVE_FAILED);
	ask_is(
	    a.result, "SELECT json_extract(?1, '$.unreadable')", "journalctl did not end in time");
}

/* Bytes that are no text, and NULs, become text. */
static void
bytes_that_are_no_text(void **state)
{
	char *text;

	(void)state;
	recorded_stand_in(env.journalctl, "printf 'a\\000b\\377\\033[31mc\\n'");
	ask_journal("example", NULL);
	assert_int_equal(a.code, OBSERVE_DONE);
	assert_non_null(text = text_of(a.frames));
	assert_string_equal(text, "a\xef\xbf\xbd"
				  "b\xef\xbf\xbd\033[31mc\n");
	assert_null(strchr(a.frames, 033));
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_units_lines, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(arguments, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(a_silent_unit, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(
		the_newest_are_kept, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(unknown_unit, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(
		instance_of_a_template, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(
		unreadable_is_said, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(ordinary_user, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(
		program_that_hangs, recorded_set_up, recorded_tear_down),
	    cmocka_unit_test_setup_teardown(
		bytes_that_are_no_text, recorded_set_up, recorded_tear_down),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	free(a.frames);
	return rc;
}
