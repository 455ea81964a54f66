/* test_kin.c: whoever is of a session is found, whatever it does in that moment. */
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
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "engine/worker/kin.h"
#include "tests/slower.h"

#define ROUNDS  60
#define LOOKS   20000
#define ALARM_S 120

static char dir[] = "/tmp/kin-XXXXXX", script[64];
static struct identity leader;

static void
write_script(const char *text)
{
	FILE *f = fopen(script, "we");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static int
make(void **state)
{
	(void)state;
	alarm(ALARM_S * SLOWER); /* who is not found may be waited for */
	assert_non_null(mkdtemp(dir));
	snprintf(script, sizeof(script), "%s/script", dir);
	return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static int
drop(void **state)
{
	(void)state;
	unlink(script);
	return rmdir(dir);
}

/* A marked leader that runs ${script}; it says a byte once it is about to. */
static pid_t
lead(void)
{
	char mark[KIN_SIZE], path[] = "PATH=/usr/bin:/bin", byte = 0;
	char *const words[] = {"sh", script, NULL}, *const env[] = {path, mark, NULL};
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	if ((pid = fork()) == 0) {
		if (setsid() == -1 || kin_mark(mark) != 0 || write(ends[1], &byte, 1) != 1)
			_exit(126);
		execve("/bin/sh", words, env);
		_exit(127);
	}
	assert_true(pid > 0);
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	assert_int_equal(identity_of(pid, &leader), 0);
	return pid;
}

static bool
is_led(void *ctx, const struct kin *kin)
{
	(void)ctx;
	return kin->pid == leader.pid && kin->start_ticks == leader.start_ticks &&
	       strcmp(kin->boot_id, leader.boot_id) == 0;
}

/* Until the script has written its file "on", and then for a while that is never the same. */
static void
let_run(int round)
{
	const struct timespec nap = {.tv_nsec = 1000000}, then = {.tv_nsec = 37000L * round};
	struct stat st;
	char on[64];

	snprintf(on, sizeof(on), "%s/on", dir);
	while (stat(on, &st) != 0)
		nanosleep(&nap, NULL);
	unlink(on);
	nanosleep(&then, NULL);
}

static bool
is_known(void *ctx, int64_t pid)
{
	(void)ctx;
	(void)pid;
	return false;
}

static void
nobody_is_left(void)
{
	siginfo_t si;

	assert_int_equal(kin_reap(is_known, NULL), 0);
	/* All orphans come to us: with no child there is nobody. */
	assert_int_equal(waitid(P_ALL, 0, &si, WEXITED | WNOWAIT | WNOHANG), -1);
}

static void
ends_all(const char *text, enum kin_where where)
{
	int i, left;
	pid_t pid;

	write_script(text);
	for (i = 0; i < ROUNDS; i++) {
		pid = lead();
		let_run(i);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_true(kin_end(where, is_led, NULL, &left) >= 1);
		if (where == KIN_ANYWHERE)
			while (waitpid(-1, NULL, 0) > 0)
				;
		nobody_is_left();
	}
}

/* KI-04: one that is another program all the time has no environment for a good part of it. */
static void
between_two_programs(void **state)
{
	(void)state;
	ends_all(
	    "[ \"$1\" = on ] || { (cd ${0%/*} && exec setsid sh \"$0\" on) & >${0%/*}/on; sleep 9; }\n"
	    "exec sh \"$0\" on\n",
	    KIN_CHILDREN);
}

static void
between_two_programs_anywhere(void **state)
{
	(void)state;
	ends_all(
	    "[ \"$1\" = on ] || { (cd ${0%/*} && exec setsid sh \"$0\" on) & >${0%/*}/on; sleep 9; }\n"
	    "exec sh \"$0\" on\n",
	    KIN_ANYWHERE);
}

static bool
is_seen(void *ctx, const struct kin *kin)
{
	*(bool *)ctx = is_led(NULL, kin);
	return false;
}

/*
 * KI-04: in the middle of execve(2) an environment begins and ends at one address for some
 * microseconds.  Whoever took that for an empty one left one of some thousand alone.
 */
static void
an_empty_moment_is_no_empty_environment(void **state)
{
	bool seen;
	int i, left;
	pid_t pid;

	(void)state;
	write_script("[ \"$1\" = on ] || >${0%/*}/on\nexec sh \"$0\" on\n");
	pid = lead();
	let_run(1);
	for (i = 0; i < LOOKS; i++) {
		seen = false;
		assert_int_equal(kin_end(KIN_CHILDREN, is_seen, &seen, &left), 0);
		assert_true(seen);
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* KI-04: one that is always the child of somebody who has just left. */
static void
always_the_next(void **state)
{
	(void)state;
	ends_all("[ \"$1\" = on ] || { setsid sh \"$0\" on & >${0%/*}/on; sleep 9; }\n"
		 "sh \"$0\" on &\n",
	    KIN_CHILDREN);
}

/* A whole family of groups of their own, of which each holds the next. */
static void
one_behind_the_other(void **state)
{
	(void)state;
	ends_all("n=${1:-0}; [ $n -eq 9 ] && { >${0%/*}/on; exec sleep 9; }\n"
		 "setsid -w sh \"$0\" $((n + 1)); sleep 9\n",
	    KIN_CHILDREN);
}

/* Who has the mark of somebody else, or none, is left alone. */
static void
others_are_left_alone(void **state)
{
	pid_t pid, other;
	int left;

	(void)state;
	write_script(">${0%/*}/on; exec sleep 60\n");
	other = lead();
	let_run(1);
	pid = lead();
	let_run(1);
	assert_int_equal(kin_end(KIN_CHILDREN, is_led, NULL, &left), 1);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1); /* it was reaped */
	assert_int_equal(kin_end(KIN_ANYWHERE, is_led, NULL, &left), 0);
	assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	kill(other, SIGKILL);
	assert_int_equal(waitpid(other, NULL, 0), other);
}

/* A process that traces ${pid} and looks at nothing. */
static pid_t
traced(pid_t pid)
{
	char byte = 0;
	int ends[2];
	pid_t tracer;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	if ((tracer = fork()) == 0) {
		byte = ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0;
		if (write(ends[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	assert_true(tracer > 0);
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	if (byte == 1)
		return tracer;
	kill(tracer, SIGKILL);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);
	return -1;
}

/* Who is traced cannot be reaped before his tracer looks or goes: that is said and not waited for.
 */
static void
traced_is_left_for_later(void **state)
{
	pid_t pid, tracer;
	int left;

	(void)state;
	write_script(">${0%/*}/on; exec sleep 60\n");
	pid = lead();
	let_run(1);
	if ((tracer = traced(pid)) == -1) {
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		print_message("nobody may be traced here\n");
		skip();
	}
	assert_int_equal(kin_end(KIN_CHILDREN, is_led, NULL, &left), 1);
	assert_int_equal(left, 1);
	assert_int_equal(kin_reap(is_known, NULL), 1);
	assert_int_equal(kin_end(KIN_CHILDREN, is_led, NULL, &left), 0);
	kill(tracer, SIGKILL);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);
	nobody_is_left();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(between_two_programs),
	    cmocka_unit_test(between_two_programs_anywhere),
	    cmocka_unit_test(an_empty_moment_is_no_empty_environment),
	    cmocka_unit_test(always_the_next),
	    cmocka_unit_test(one_behind_the_other),
	    cmocka_unit_test(others_are_left_alone),
	    cmocka_unit_test(traced_is_left_for_later),
	};

	return cmocka_run_group_tests(tests, make, drop);
}
