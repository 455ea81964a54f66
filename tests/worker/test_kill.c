/* test_kill.c: what was ended is ended, with all that it started. */
#include "tests/worker/ask.h"

#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "engine/worker/kill.h"
#include "engine/worker/tool.h"

static const struct kill_grace quick = {.term_ms = 300, .kill_ms = 3000, .poll_ms = 10};

/* Start ${script}, as leader of its group if ${lead}, and wait for the line that it prints. */
static pid_t
start(const char *script, int lead, char *line, size_t len)
{
	int out[2];
	ssize_t n;
	size_t used = 0;
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	if ((pid = fork()) == 0) {
		if (lead)
			setpgid(0, 0);
		dup2(out[1], 1);
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	while ((used == 0 || line[used - 1] != '\n') && used < len - 1) {
		n = read(out[0], line + used, len - 1 - used);
		assert_true(n > 0);
		used += (size_t)n;
	}
	line[used] = '\0';
	close(out[0]);
	return pid;
}

static int
status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Numbers for which kill(2) signals many, or the first process: here they name nobody.  Signal 0
 * would say so, and does nothing. */
static void
nobody_is_everybody(void **state)
{
	const pid_t numbers[] = {1, 0, -1, -getpgrp()};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		errno = 0;
		assert_int_equal(kill_process(numbers[i], 0), -1);
		assert_int_equal(errno, ESRCH);
		errno = 0;
		assert_int_equal(kill_group(numbers[i], 0), -1);
		assert_int_equal(errno, ESRCH);
	}
	assert_int_equal(kill_process(getpid(), 0), 0);
}

/* KI-01, DC-14: one that ignores SIGTERM dies by SIGKILL, and not before the grace period. */
static void
ignores_term(void **state)
{
	char line[64];
	pid_t pid =
	    start("trap '' TERM; echo up; while :; do sleep 30; done", 1, line, sizeof(line));
	struct kill_target t = {.pid = pid};
	int64_t began = tool_now_ms();

	(void)state;
	assert_int_equal(kill_trees(&t, 1, &quick, NULL), 0);
	assert_in_range(tool_now_ms() - began, 300, 2000);
	assert_int_equal(WTERMSIG(status_of(pid)), SIGKILL);
}

/* KI-02: an ordinary one dies by SIGTERM, well within the grace. */
static void
ordinary(void **state)
{
	char line[64];
	pid_t pid = start("echo up; exec sleep 300", 1, line, sizeof(line));
	int64_t began = tool_now_ms();

	(void)state;
	assert_int_equal(kill_tree(pid, 0, NULL), 0);
	assert_true(tool_now_ms() - began < 1000);
	assert_int_equal(WTERMSIG(status_of(pid)), SIGTERM);
}

/* KI-03: one that ended already is a success, and nothing is signalled. */
static void
ended_already(void **state)
{
	char line[64];
	pid_t pid = start("echo up", 1, line, sizeof(line));

	(void)state;
	status_of(pid);
	assert_int_equal(kill_tree(pid, 0, NULL), 0);
	assert_int_equal(kill_tree(pid, pid, NULL), 0);
}

/* KI-04: what it forked is gone too. */
static void
with_children(void **state)
{
	char line[64];
	pid_t pid = start("sleep 300 & echo $!; wait", 1, line, sizeof(line)), child;

	(void)state;
	child = (pid_t)strtol(line, NULL, 10);
	assert_true(kill_lives(child, 0));
	assert_int_equal(kill_tree(pid, 0, NULL), 0);
	assert_false(kill_lives(child, 0));
	status_of(pid);
}

/* KI-05: the leader went first; the group that was remembered still ends. */
static void
leader_went_first(void **state)
{
	char line[64];
	pid_t pid = start("sleep 300 & echo $!", 1, line, sizeof(line)), child;

	(void)state;
	child = (pid_t)strtol(line, NULL, 10);
	status_of(pid);
	assert_true(kill_lives(child, 0));
	assert_int_equal(kill_tree(pid, pid, NULL), 0);
	assert_false(kill_lives(child, 0));
}

/* KI-06: one in our own group is ended alone, and we are still here. */
static void
not_a_leader(void **state)
{
	char line[64];
	pid_t pid = start("echo up; exec sleep 300", 0, line, sizeof(line));
	pid_t other = start("echo up; exec sleep 300", 0, line, sizeof(line));

	(void)state;
	assert_int_equal(getpgid(pid), getpgrp());
	assert_int_equal(kill_tree(pid, 0, NULL), 0);
	assert_int_equal(WTERMSIG(status_of(pid)), SIGTERM);
	assert_true(kill_lives(other, 0));
	/* Also when told that the group is ours. */
	assert_int_equal(kill_tree(other, getpgrp(), NULL), 0);
	assert_int_equal(WTERMSIG(status_of(other)), SIGTERM);
}

/* KI-07: 0, 1, -1 and ourselves are refused, and nobody else in the list is signalled either. */
static void
refused_numbers(void **state)
{
	char line[64];
	pid_t pid = start("echo up; exec sleep 300", 1, line, sizeof(line)), bad[4];
	struct kill_target t[2];
	struct refusal refusal;
	int i;

	(void)state;
	bad[0] = 0;
	bad[1] = 1;
	bad[2] = -1;
	bad[3] = getpid();
	for (i = 0; i < 4; i++) {
		t[0] = (struct kill_target){.pid = pid};
		t[1] = (struct kill_target){.pid = bad[i]};
		assert_int_equal(kill_trees(t, 2, &quick, &refusal), -1);
		assert_string_equal(refusal.code, "kill.pid");
	}
	t[0] = (struct kill_target){.pid = pid, .group = 1};
	assert_int_equal(kill_trees(t, 1, &quick, &refusal), -1);
	assert_true(kill_lives(pid, 0));
	assert_int_equal(kill_tree(pid, 0, NULL), 0);
	status_of(pid);
}

/* RF-25: a zombie does not live. */
static void
zombies_are_gone(void **state)
{
	siginfo_t info;
	pid_t pid;

	(void)state;
	if ((pid = fork()) == 0) {
		setpgid(0, 0);
		_exit(0);
	}
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(kill(pid, 0), 0);
	assert_false(kill_lives(pid, pid));
	assert_int_equal(kill_tree(pid, pid, NULL), 0);
	status_of(pid);
}

/* RF-26: three that ignore SIGTERM cost one grace period together. */
static void
one_shared_grace(void **state)
{
	char line[64];
	struct kill_target t[3];
	int64_t began;
	int i;

	(void)state;
	for (i = 0; i < 3; i++)
		t[i] = (struct kill_target){
		    .pid = start(
			"trap '' TERM; echo up; while :; do sleep 30; done", 1, line, sizeof(line)),
		};
	began = tool_now_ms();
	assert_int_equal(kill_trees(t, 3, &quick, NULL), 0);
	assert_in_range(tool_now_ms() - began, 300, 850);
	for (i = 0; i < 3; i++) {
		assert_true(t[i].gone);
		assert_int_equal(WTERMSIG(status_of(t[i].pid)), SIGKILL);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_is_everybody),
	    cmocka_unit_test(ignores_term),
	    cmocka_unit_test(ordinary),
	    cmocka_unit_test(ended_already),
	    cmocka_unit_test(with_children),
	    cmocka_unit_test(leader_went_first),
	    cmocka_unit_test(not_a_leader),
	    cmocka_unit_test(refused_numbers),
	    cmocka_unit_test(zombies_are_gone),
	    cmocka_unit_test(one_shared_grace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
