/* test_sql_write.c: bastion sql -w as a person meets it: what is shown, asked, proved and made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "tests/person.h"
#include "tests/program.h"

#define LIVE "UPDATE setting SET value = 60 WHERE name = 'op.live'"
#define RUN(p, s, input, ...) \
	program_run(p, s, input, (const char *const[]){"sql", "-w", __VA_ARGS__, NULL})

struct desk {
	struct scratch s;
	struct person person, key;
};

static int
setup(void **state)
{
	struct desk *d = calloc(1, sizeof(*d));

	assert_non_null(d);
	scratch_make(&d->s, HOME_BOX);
	person_enrol(&d->s, &d->person, "phone");
	person_enrol_key(&d->s, &d->key, "key");
	*state = d;
	return 0;
}

static int
teardown(void **state)
{
	struct desk *d = *state;

	scratch_drop(&d->s);
	free(d);
	return 0;
}

static int64_t
live(struct desk *d)
{
	scratch_open(&d->s, ROLE_MIGRATE);
	return scratch_value(&d->s, "SELECT value FROM setting WHERE name = 'op.live'");
}

/* The code of the moment, as a line. */
static const char *
code_line(struct desk *d, char line[9])
{
	char code[7];

	snprintf(line, 9, "%s\n", person_code(&d->person, clock_now(), code));
	return line;
}

static void
made_without_a_terminal(void **state)
{
	struct desk *d = *state;
	struct program p;
	char line[9];

	RUN(&p, &d->s, code_line(d, line), "--yes", "-m", "more at once", LIVE);
	assert_int_equal(p.code, 0);
	assert_string_equal(p.out, "Amendment 1 is made: 1 row changed.\n");
	assert_non_null(strstr(p.err, "Amendment 1, as it is signed:\n    bastion amendment 1\n"
				      "    machine: box-a\n    reason: more at once\n"
				      "    statement:\n        " LIVE "\n    nonce: "));
	assert_non_null(
	    strstr(p.err, "setting: 1 updated\n      name 'op.live': value 64 -> 60\n"));
	program_free(&p);
	assert_int_equal(live(d), 60);
	/* The same code proves nothing more, and what nobody will decide is given up. */
	RUN(&p, &d->s, line, "--yes", "--json", "-m", "again",
	    "UPDATE setting SET value = 61 WHERE name = 'op.live'");
	assert_int_equal(p.code, 126);
	assert_non_null(strstr(p.err, "\"code\":\"factor.used\""));
	program_free(&p);
	assert_int_equal(live(d), 60);
	assert_int_equal(
	    scratch_value(&d->s, "SELECT count(*) FROM amendment WHERE state = 'dropped'"), 1);
}

static void
calls_that_are_wrong(void **state)
{
	struct desk *d = *state;
	struct program p;

	RUN(&p, &d->s, "", LIVE);
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "say why: -m REASON"));
	program_free(&p);
	RUN(&p, &d->s, "", "-m", "why", LIVE);
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "without a terminal nobody can be asked"));
	program_free(&p);
	RUN(&p, &d->s, LIVE, "-m", "why", "--yes");
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "SQL comes as a word or from a file"));
	program_free(&p);
	RUN(&p, &d->s, "", "-m", "why", "--yes", "--signature", "/tmp/x", LIVE);
	assert_int_equal(p.code, 2);
	program_free(&p);
	RUN(&p, &d->s, "", "--amendment", "1", "--yes");
	assert_int_equal(p.code, 2);
	program_free(&p);
	RUN(&p, &d->s, "", "--yes", "-m", "why", "-p", "x=1", LIVE);
	assert_int_equal(p.code, 2);
	program_free(&p);
	program_run(&p, &d->s, "", (const char *const[]){"sql", "-m", "why", "SELECT 1", NULL});
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "this option is for an amendment: -w"));
	program_free(&p);
	RUN(&p, &d->s, "", "--yes", "--host", "-m", "why", LIVE);
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "a Host has no factor"));
	program_free(&p);
	RUN(&p, &d->s, "", "--yes", "-m", "why", "SELECT 1");
	assert_int_equal(p.code, 126);
	program_free(&p);
	assert_int_equal(live(d), 64);
	assert_int_equal(scratch_value(&d->s, "SELECT count(*) FROM amendment"), 0);
}

/* A trigger's refusal: its sentence, its name, its code, and what to do instead. */
static void
a_refusal_names_its_rule(void **state)
{
	struct desk *d = *state;
	struct program p;

	RUN(&p, &d->s, "", "--yes", "-m", "why", "UPDATE setting SET doc = 'x'");
	assert_int_equal(p.code, 126);
	assert_string_equal(p.err,
	    "bastion: sql: statement 1: only the value of a setting may change (trigger"
	    " setting_only_value_moves on setting) [setting.fixed]\n"
	    "         only the value of a setting may change\n");
	program_free(&p);
	RUN(&p, &d->s, "", "--yes", "-m", "why", "DELETE FROM audit");
	assert_int_equal(p.code, 126);
	assert_non_null(strstr(p.err, "DELETE FROM audit is refused; an amendment may only UPDATE"
				      " setting, grant,"));
	program_free(&p);
}

/* What the eye would not see is not run: escapes, direction, invisible characters. */
static void
statements_do_not_lie(void **state)
{
	static const char *const lies[] = {
	    LIVE " -- \x1b[2K\x1b[1A",
	    LIVE " -- \r" LIVE,
	    LIVE " -- \xe2\x80\xae",
	    LIVE " -- \xe2\x80\x8b",
	    LIVE " -- \xe2\x80\xa8 OR 1",
	    LIVE " -- \xc2\x9b"
		 "2J",
	    LIVE " -- \xff",
	    LIVE " -- \x08\x08",
	    LIVE "\t-- \\t",
	};
	struct desk *d = *state;
	struct program p;
	char line[9];
	size_t i;

	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		RUN(&p, &d->s, "", "--yes", "-m", "why", lies[i]);
		if (p.code != 2 || strstr(p.err, "[amendment.text]") == NULL)
			fail_msg("exit %d for lie %zu: %s", p.code, i, p.err);
		program_free(&p);
	}
	/* A line of a comment stands further in than any line of the terms. */
	RUN(&p, &d->s, code_line(d, line), "--yes", "-m", "why",
	    "/*\nreason: other\nIt would change:\n*/ " LIVE);
	assert_int_equal(p.code, 0);
	assert_null(strstr(p.err, "\n    reason: other"));
	assert_non_null(strstr(p.err, "\n        reason: other\n        It would change:\n"));
	program_free(&p);
}

/* On a terminal it is shown, and asked; no is no. */
static void
a_person_is_asked(void **state)
{
	struct desk *d = *state;
	struct program_talk t;
	char line[9];

	program_talk(
	    &t, &d->s, (const char *const[]){"sql", "-w", "-m", "more at once", LIVE, NULL});
	program_expect(&t, "value 64 -> 60");
	program_expect(&t, "Make this change? [y/N] ");
	program_type(&t, "\n");
	program_expect(&t, "the change was not made [amendment.declined]");
	program_ends(&t, 1);
	assert_int_equal(live(d), 64);
	assert_int_equal(
	    scratch_value(&d->s, "SELECT count(*) FROM amendment WHERE state = 'dropped'"), 1);
	program_talk(
	    &t, &d->s, (const char *const[]){"sql", "-w", "-m", "more at once", LIVE, NULL});
	program_expect(&t, "Make this change? [y/N] ");
	program_type(&t, "y\n");
	program_expect(&t, "Code: ");
	program_type(&t, code_line(d, line));
	program_expect(&t, "Amendment 2 is made: 1 row changed.");
	program_ends(&t, 0);
	assert_int_equal(live(d), 60);
}

/* Who thinks holds nobody up, and what changed meanwhile is shown before it is made. */
static void
thinking_holds_nobody_up(void **state)
{
	struct desk *d = *state;
	struct program_talk t;
	char line[9];

	program_talk(&t, &d->s,
	    (const char *const[]){"sql", "-w", "-m", "one more",
		"UPDATE setting SET value = value + 1 WHERE name = 'op.live'", NULL});
	program_expect(&t, "value 64 -> 65");
	program_expect(&t, "[y/N] ");
	assert_int_equal(
	    scratch_sql(&d->s, "UPDATE setting SET value = 90 WHERE name = 'op.live'"), 0);
	program_type(&t, "y\n");
	program_expect(&t, "Code: ");
	program_type(&t, code_line(d, line));
	program_expect(&t, "Somebody else wrote meanwhile. Nothing was changed yet.");
	program_expect(&t, "value 90 -> 91");
	program_expect(&t, "[y/N] ");
	assert_int_equal(live(d), 90);
	program_type(&t, "y\n");
	program_expect(&t, "Code: ");
	program_type(&t, code_line(d, line));
	program_expect(&t, "is made: 1 row changed.");
	program_ends(&t, 0);
	assert_int_equal(live(d), 91);
}

static void
write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void
sign(struct desk *d, const char *terms)
{
	char path[128], command[512];

	snprintf(path, sizeof(path), "%s/terms", d->s.dir);
	write_file(path, terms);
	snprintf(command, sizeof(command),
	    "ssh-keygen -q -Y sign -n bastion -f %s <%s >%s.sig 2>/dev/null", d->key.path, path,
	    path);
	assert_int_equal(system(command), 0);
}

/* A signature is over the bytes that --bytes prints: of this amendment, once, and of no other. */
static void
signatures_are_of_one_amendment(void **state)
{
	struct desk *d = *state;
	struct program p;
	char path[128], *terms;

	snprintf(path, sizeof(path), "%s/terms.sig", d->s.dir);
	RUN(&p, &d->s, "", "-m", "by key", "--bytes", LIVE);
	assert_int_equal(p.code, 0);
	assert_non_null(strstr(p.err, "bastion sql -w --amendment 1 --signature"));
	assert_non_null(terms = strdup(p.out));
	program_free(&p);
	sign(d, terms);
	/* Another one with the same words is not what was signed. */
	RUN(&p, &d->s, "", "-m", "by key", "--bytes", LIVE);
	assert_int_equal(p.code, 0);
	assert_string_not_equal(p.out, terms);
	program_free(&p);
	RUN(&p, &d->s, "", "--amendment", "2", "--signature", path, "--yes");
	assert_int_equal(p.code, 126);
	assert_non_null(strstr(p.err, "[factor.signature]"));
	program_free(&p);
	assert_int_equal(live(d), 64);
	RUN(&p, &d->s, "", "--amendment", "1", "--signature", path, "--yes", "--json");
	assert_int_equal(p.code, 0);
	assert_non_null(strstr(p.out, "\"state\":\"done\""));
	program_free(&p);
	assert_int_equal(live(d), 60);
	assert_int_equal(
	    scratch_sql(&d->s, "UPDATE setting SET value = 64 WHERE name = 'op.live'"), 0);
	RUN(&p, &d->s, "", "--amendment", "1", "--signature", path, "--yes");
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "[amendment.unknown]"));
	program_free(&p);
	assert_int_equal(live(d), 64);
	free(terms);
}

/* The daemon hears of it as of any commit of ours. */
static void
the_bell_rings(void **state)
{
	struct desk *d = *state;
	struct pollfd bell;
	struct program p;
	char line[9];

	scratch_open(&d->s, ROLE_NET);
	bell = (struct pollfd){.fd = store_bell(d->s.db), .events = POLLIN};
	store_bell_quiet(d->s.db);
	assert_int_equal(poll(&bell, 1, 0), 0);
	RUN(&p, &d->s, code_line(d, line), "--yes", "-m", "why", LIVE);
	assert_int_equal(p.code, 0);
	program_free(&p);
	assert_int_equal(poll(&bell, 1, 5000), 1);
}

/* Machine authority: the owner of the state directory, or root. */
static void
others_have_no_authority(void **state)
{
	struct desk *d = *state;
	struct program p;
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		print_message("only root can become another user\n");
		skip();
	}
	if ((pid = fork()) == 0) {
		if (chmod(d->s.dir, 0755) != 0 || setuid(65534) != 0)
			_exit(99);
		RUN(&p, &d->s, "000000\n", "--yes", "-m", "why", LIVE);
		_exit(p.code == 3 && strstr(p.err, "[store.directory]") != NULL ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(live(d), 64);
}

/* No factor, no amendment: and it is said before anything is shown. */
static void
nothing_without_a_factor(void **state)
{
	struct desk *d = *state;
	struct program p;

	assert_int_equal(scratch_sql(&d->s, "UPDATE factor SET state = 'dropped', dropped_at ="
					    " now_ms()"),
	    0);
	RUN(&p, &d->s, "000000\n", "--yes", "-m", "why", LIVE);
	assert_int_equal(p.code, 126);
	assert_non_null(strstr(p.err, "[factor.none]"));
	program_free(&p);
	assert_int_equal(live(d), 64);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(made_without_a_terminal, setup, teardown),
	    cmocka_unit_test_setup_teardown(calls_that_are_wrong, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_refusal_names_its_rule, setup, teardown),
	    cmocka_unit_test_setup_teardown(statements_do_not_lie, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_person_is_asked, setup, teardown),
	    cmocka_unit_test_setup_teardown(thinking_holds_nobody_up, setup, teardown),
	    cmocka_unit_test_setup_teardown(signatures_are_of_one_amendment, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_bell_rings, setup, teardown),
	    cmocka_unit_test_setup_teardown(others_have_no_authority, setup, teardown),
	    cmocka_unit_test_setup_teardown(nothing_without_a_factor, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
