/* test_identity.c: who a process is, waits that double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/backoff.h"
#include "engine/actor/identity.h"

/* LK-4: we are alive; 0, -1 and a number beyond any pid are not. */
static void
ourselves(void **state)
{
	struct identity me;

	(void)state;
	assert_int_equal(identity_of(getpid(), &me), 0);
	assert_int_equal(me.pid, getpid());
	assert_int_equal(strlen(me.boot_id), 36);
	assert_true(me.start_ticks > 0);
	assert_true(identity_alive(me.boot_id, me.pid, me.start_ticks));
	assert_false(identity_alive(me.boot_id, 0, me.start_ticks));
	assert_false(identity_alive(me.boot_id, -1, me.start_ticks));
	assert_false(identity_alive(me.boot_id, (int64_t)INT_MAX + 1 + getpid(), me.start_ticks));
}

/* RF-30, LU-19, SQ-7: another start time is another process, another boot an end to all of them. */
static void
reused_pid_and_other_boot(void **state)
{
	struct identity me;

	(void)state;
	assert_int_equal(identity_of(getpid(), &me), 0);
	assert_false(identity_alive(me.boot_id, me.pid, me.start_ticks - 1));
	assert_false(
	    identity_alive("00000000-0000-0000-0000-000000000000", me.pid, me.start_ticks));
}

/* RF-25: a zombie is gone, although signal 0 still reaches it. */
static void
zombies_are_gone(void **state)
{
	struct identity child;
	siginfo_t info;
	pid_t pid;

	(void)state;
	if ((pid = fork()) == 0) {
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
	assert_int_equal(identity_of(pid, &child), 0);
	assert_true(identity_alive(child.boot_id, pid, child.start_ticks));
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(kill(pid, 0), 0);
	assert_false(identity_alive(child.boot_id, pid, child.start_ticks));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(identity_alive(child.boot_id, pid, child.start_ticks));
}

/* A process names itself as it likes: fields are counted from the last parenthesis. */
static void
names_that_lie(void **state)
{
	static const char stat[] = "77 (a) R 1 2 (b) S 1 77 77 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 "
				   "1 0 123456 1000 50";
	struct identity id, me;

	(void)state;
	memset(&id, 0, sizeof(id));
	assert_int_equal(identity_parse(stat, &id), 0);
	assert_int_equal(id.pid, 77);
	assert_int_equal(id.start_ticks, 123456);
	assert_int_equal(id.state, 'S');
	assert_string_equal(id.program, "a) R 1 2 (b");
	assert_int_equal(prctl(PR_SET_NAME, ") Z 0 0 0 (", 0, 0, 0), 0);
	assert_int_equal(identity_of(getpid(), &me), 0);
	assert_string_equal(me.program, ") Z 0 0 0 (");
	assert_true(identity_alive(me.boot_id, me.pid, me.start_ticks));
}

/* Text that is cut or is no stat at all is no identity, and the result stays as it was. */
static void
no_identity(void **state)
{
	static const char *const bad[] = {
	    "",
	    "77",
	    "77 (a",
	    "77 a) S 1",
	    ")77 (",
	    "77 (a)",
	    "77 (a) S",
	    "77 (a) S 1 2 3",
	    "x (a) S 1 77 77 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 123456",
	    "77 (a) S 1 77 77 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 -5",
	    "77 (a) S 1 77 77 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 99999999999999999999",
	};
	struct identity id = {.pid = 5};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(identity_parse(bad[i], &id), -1);
		assert_int_equal(id.pid, 5);
	}
}

/* BO-1, BO-3: doubling from the first wait to the cap, without overflow. */
static void
doubling(void **state)
{
	static const struct {
		int n;
		int64_t ms;
	} steps[] = {{0, 1000}, {1, 2000}, {2, 4000}, {3, 8000}, {8, 256000}, {9, 300000},
	    {20, 300000}, {INT_MAX, 300000}, {-5, 1000}};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		assert_int_equal(backoff_base(steps[i].n, 1000, 300000), steps[i].ms);
	assert_int_equal(backoff_base(3, 500, 100), 100);
}

/* BO-2, RF-13: from half of the base to less than one and a half, not always the same. */
static void
jitter(void **state)
{
	int64_t base, ms, first;
	bool differs;
	int n, i;

	(void)state;
	for (n = 1; n <= 6; n++) {
		base = backoff_base(n, 1000, 300000);
		first = backoff_jitter(base);
		differs = false;
		for (i = 0; i < 200; i++) {
			ms = backoff_jitter(base);
			assert_in_range(ms, base / 2, base + base / 2 - 1);
			differs = differs || ms != first;
		}
		assert_true(differs);
	}
	assert_int_equal(backoff_jitter(1), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ourselves),
	    cmocka_unit_test(reused_pid_and_other_boot),
	    cmocka_unit_test(zombies_are_gone),
	    cmocka_unit_test(names_that_lie),
	    cmocka_unit_test(no_identity),
	    cmocka_unit_test(doubling),
	    cmocka_unit_test(jitter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
