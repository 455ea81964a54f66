/* test_lock.c: a program that runs under a lock, and everything that may happen to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/program.h"
#include "tests/scratch.h"

static struct scratch s;

static int
make(void **state)
{
	(void)state;
	alarm(120);
	scratch_make(&s, HOME_BOX);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

/* Run the verb with up to eight words; its code must be ${code}.  Keep what it said in ${p}. */
static void
says(struct program *p, int code, const char *const words[])
{
	program_run(p, &s, NULL, words);
	if (p->code != code)
		fprintf(stderr, "%s%s", p->out, p->err);
	assert_int_equal(p->code, code);
}

static void
does(int code, const char *const words[])
{
	struct program p;

	says(&p, code, words);
	program_free(&p);
}

/* A lock that a shell on a terminal holds until it is told to go on. */
static void
hold(struct program_talk *t, const char *name, const char *ttl)
{
	const char *const words[] = {"lock", "run", name, "--ttl", ttl, "--", "sh", "-c",
	    "echo held by $$ with $BASTION_FENCE of $BASTION_LOCK.; read go; exit 7", NULL};

	program_talk(t, &s, words);
	program_expect(t, "held by ");
}

/* LU-10, LU-15: one holder at a time; who does not wait is told who holds it, and ends with 75. */
static void
one_at_a_time(void **state)
{
	const char *const now[] = {"lock", "run", "deploy", "--now", "--", "true", NULL};
	const char *const other[] = {"lock", "run", "other", "--now", "--", "true", NULL};
	static struct program_talk t;
	struct program p;

	(void)state;
	hold(&t, "deploy", "30s");
	says(&p, 75, now);
	assert_non_null(strstr(p.err, "lock/deploy is held by the process "));
	assert_non_null(strstr(p.err, "[lease.held]"));
	program_free(&p);
	does(0, other);
	program_type(&t, "\n");
	program_ends(&t, 7); /* the program's own code */
	does(0, now);
}

static void
share(struct program_talk *t, const char *name)
{
	const char *const words[] = {"lock", "run", name, "--shared", "--", "sh", "-c",
	    "echo shared by $$ with ${BASTION_FENCE-none} of $BASTION_LOCK.; read go", NULL};

	program_talk(t, &s, words);
	program_expect(t, "shared by ");
	program_expect(t, " with none of ");
}

/* LU-16: two share it at once; who wants it alone waits for both, and nobody who comes later and
 * would share it goes before him; one that is killed leaves no place behind, and places are
 * bounded. */
static void
shared_or_alone(void **state)
{
	const char *const alone[] = {
	    "lock", "run", "db", "--", "sh", "-c", "echo alone; read go", NULL};
	const char *const now[] = {"lock", "run", "db", "--now", "--", "true", NULL};
	const char *const too[] = {"lock", "run", "db", "--shared", "--now", "--", "true", NULL};
	const char *const fewer[] = {"settings", "set", "lock.shared", "1", NULL};
	const char *const broken[] = {"lock", "break", "db", NULL};
	const char *const list[] = {"lock", "ls", NULL};
	static struct program_talk a, b, w;
	struct program p;

	(void)state;
	share(&a, "db");
	share(&b, "db");
	does(0, too);
	does(75, now);
	does(75, broken);
	says(&p, 0, list);
	assert_non_null(strstr(p.out, "db    shared"));
	assert_non_null(strstr(p.out, "db/1"));
	assert_non_null(strstr(p.out, "db/2"));
	program_free(&p);
	program_talk(&w, &s, alone);
	program_expect(&w, "waiting: lock/db/");
	does(75, too);
	program_type(&a, "\n");
	program_ends(&a, 0);
	does(75, too);
	program_type(&b, "\n");
	program_ends(&b, 0);
	program_expect(&w, "alone");
	does(75, too);
	program_type(&w, "\n");
	program_ends(&w, 0);
	does(0, fewer);
	share(&a, "db");
	does(75, too);
	kill(a.pid, SIGKILL);
	program_over(&a);
	does(0, now);
	does(0, too);
}

/* The token grows with each holder, and only the holder's passes. */
static void
tokens_grow(void **state)
{
	const char *const run[] = {
	    "lock", "run", "t", "--", "sh", "-c", "echo $BASTION_FENCE", NULL};
	const char *const first[] = {"lock", "check", "t", "3", NULL};
	const char *const older[] = {"lock", "check", "t", "2", NULL};
	static struct program_talk t;
	struct program p;

	(void)state;
	says(&p, 0, run);
	assert_string_equal(p.out, "1\n");
	program_free(&p);
	says(&p, 0, run);
	assert_string_equal(p.out, "2\n");
	program_free(&p);
	does(126, older); /* nobody holds it now */
	hold(&t, "t", "30s");
	does(0, first);
	does(126, older);
	program_type(&t, "\n");
	program_over(&t);
}

/* Whether the process is there and has not ended. */
static bool
runs(pid_t pid)
{
	char path[64], stat[512] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if ((f = fopen(path, "r")) == NULL)
		return false;
	(void)!fgets(stat, sizeof(stat), f);
	fclose(f);
	return strstr(stat, ") Z ") == NULL && strstr(stat, ") X ") == NULL;
}

/* LU-11, LU-12: a holder that is killed takes its program along and leaves a free lock, at once. */
static void
the_dead_hold_nothing(void **state)
{
	const char *const now[] = {"lock", "run", "k", "--now", "--", "true", NULL};
	const char *const list[] = {"lock", "ls", "--json", NULL};
	char script[160], path[96], text[24] = "";
	const char *const words[] = {
	    "lock", "run", "k", "--ttl", "1d", "--", "sh", "-c", script, NULL};
	static struct program_talk t;
	struct program p;
	pid_t held;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/pid", s.dir);
	snprintf(script, sizeof(script), "echo $$ > %s; echo held; exec sleep 600", path);
	program_talk(&t, &s, words);
	program_expect(&t, "held");
	assert_non_null(f = fopen(path, "r"));
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	held = (pid_t)atoi(text);
	assert_true(held > 1 && runs(held));
	kill(t.pid, SIGKILL);
	program_over(&t);
	does(0, now);
	while (runs(held)) /* the suite's alarm ends a test that waits for ever */
		usleep(1000);
	says(&p, 0, list);
	assert_non_null(strstr(p.out, "\"state\":\"free\""));
	program_free(&p);
}

/* break frees what nobody holds, and nothing else. */
static void
the_living_are_not_broken(void **state)
{
	const char *const breaks[] = {"lock", "break", "b", NULL};
	static struct program_talk t;

	(void)state;
	hold(&t, "b", "1d");
	does(75, breaks);
	kill(t.pid, SIGKILL);
	program_over(&t);
	does(0, breaks);
	does(0, breaks);
}

/* A holder that slept for too long has lost its lock, and its program ends. */
static void
a_lost_lock_ends_its_program(void **state)
{
	const char *const words[] = {
	    "lock", "run", "l", "--ttl", "1", "--", "sh", "-c", "echo begun; sleep 600", NULL};
	static struct program_talk t;

	(void)state;
	program_talk(&t, &s, words);
	program_expect(&t, "begun");
	kill(t.pid, SIGSTOP);
	/* Another took it meanwhile: what the clock would bring about. */
	assert_int_equal(scratch_sql(&s, "UPDATE lease SET expires_at = 1 WHERE name = 'lock/l';"
					 "UPDATE lease SET fence = fence + 1, process_id = NULL,"
					 " expires_at = NULL WHERE name = 'lock/l'"),
	    0);
	kill(t.pid, SIGCONT);
	program_expect(&t, "[lease.fence]");
	program_ends(&t, 126);
}

/* What cannot be started holds nothing; a name is a name. */
static void
wrong_calls_are_told(void **state)
{
	const char *const missing[] = {"lock", "run", "m", "--", "./no-such-program", NULL};
	const char *const name[] = {"lock", "run", "../m", "--", "true", NULL};
	const char *const nothing[] = {"lock", "run", "m", NULL};
	const char *const again[] = {"lock", "run", "m", "--now", "--", "true", NULL};
	const char *const killed[] = {"lock", "run", "m", "--", "sh", "-c", "kill -9 $$", NULL};
	struct program p;

	(void)state;
	says(&p, 2, missing);
	assert_non_null(strstr(p.err, "./no-such-program: No such file"));
	program_free(&p);
	does(2, name);
	does(2, nothing);
	does(0, again);
	does(137, killed);
	does(0, again);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(one_at_a_time, make, drop),
	    cmocka_unit_test_setup_teardown(shared_or_alone, make, drop),
	    cmocka_unit_test_setup_teardown(tokens_grow, make, drop),
	    cmocka_unit_test_setup_teardown(the_dead_hold_nothing, make, drop),
	    cmocka_unit_test_setup_teardown(the_living_are_not_broken, make, drop),
	    cmocka_unit_test_setup_teardown(a_lost_lock_ends_its_program, make, drop),
	    cmocka_unit_test_setup_teardown(wrong_calls_are_told, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
