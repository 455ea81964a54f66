/* test_session.c: sessions as a person has them: a daemon, real programs, terminals, kills. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "tests/driver.h"
#include "tests/program.h"

static struct driver d;
static struct said said;

static int
make(void **state)
{
	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "settings", "set", "session.backoff_ms", "1", NULL);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

/* Its parent may be slow to take note of its end. */
static bool
is_corpse(pid_t pid)
{
	struct identity id;

	return identity_of(pid, &id) != 0 || id.state == 'Z';
}

static void
is(const char *name, const char *state)
{
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM session WHERE name = '%s'"
	    " AND state || coalesce(' ' || end_reason, '') = '%s'",
	    name, state);
}

static void
detached(const char *name, const char *script)
{
	driver_does(&said, NULL, "session", "run", "--detach", "--name", name, "--", "sh", "-c",
	    script, NULL);
}

/* SE-01, PO-01, SV-01: what it says comes as it says it, and its code is ours. */
static void
a_session_is_its_program(void **state)
{
	(void)state;
	assert_int_equal(driver_run(&said, NULL, "session", "run", "--name", "a", "--", "sh", "-c",
			     "echo e1; echo no >&2; echo e2; exit 7", NULL),
	    7);
	assert_string_equal(said.out, "e1\ne2\n");
	assert_non_null(strstr(said.err, "no\n"));
	assert_non_null(strstr(said.err, "bastion: session: a failed with 7\n"));
	driver_does(&said, NULL, "session", "logs", "a", NULL); /* SE-04 */
	assert_string_equal(said.out, "e1\ne2\n");
	assert_string_equal(said.err, "no\n");
	driver_refused(
	    &said, 3, "session.exists", NULL, "session", "run", "--name", "a", "--", "true", NULL);
	driver_refused(&said, 2, "session.unknown", NULL, "session", "attach", "b", NULL);
}

/* LA-01, LA-02, LA-07, LA-08, RF-18, RF-23: nothing of ours is in its environment or descriptors.
 */
static void
a_worker_inherits_nothing(void **state)
{
	(void)state;
	setenv("BASTION_SECRET_OF_A_TEST", "hunter2", 1);
	driver_does(&said, NULL, "worker", "add", "env", "--", "sh", "-c",
	    "env; ls /proc/$$/fd; cat /proc/self/status", NULL);
	driver_does(&said, NULL, "session", "run", "--name", "e", "env", NULL);
	unsetenv("BASTION_SECRET_OF_A_TEST");
	assert_null(strstr(said.out, "hunter2"));
	assert_null(strstr(said.out, "BASTION_STATE"));
	assert_non_null(strstr(said.out, "BASTION_SESSION=e\n"));
	assert_non_null(strstr(said.out, "BASTION_ATTEMPT=1\n"));
	assert_non_null(strstr(said.out, "\n0\n1\n2\n"));
	assert_null(strstr(said.out, "\n3\n4\n")); /* (3 is that of ls itself) */
	if (strstr(said.out, "SigIgn:\t0000000000000000\n") == NULL)
		print_error("%s", strstr(said.out, "SigQ:"));
	assert_non_null(strstr(said.out, "SigBlk:\t0000000000000000\n"));
	assert_non_null(strstr(said.out, "SigIgn:\t0000000000000000\n"));
}

/* RF-18: a worker's session is in a sandbox that really holds, and says so by its rows; it writes
 * where it runs and where it may, reads what it may, and reaches neither the database, the key nor
 * a socket of ours, nor the network. */
static void
a_worker_is_held(void **state)
{
	char script[2048], data[96], out[96], work[96], other[96];
	FILE *f;

	(void)state;
	snprintf(data, sizeof(data), "%s/data", d.dir);
	snprintf(out, sizeof(out), "%s/out", d.dir);
	snprintf(work, sizeof(work), "%s/work", d.dir);
	snprintf(other, sizeof(other), "%s/other", d.dir);
	assert_int_equal(
	    mkdir(data, 0755) | mkdir(out, 0755) | mkdir(work, 0755) | mkdir(other, 0755), 0);
	snprintf(script, sizeof(script), "%s/known", data);
	assert_non_null(f = fopen(script, "we"));
	fputs("known\n", f);
	fclose(f);
	snprintf(script, sizeof(script),
	    "cat %s/known; echo made > mine; echo made > %s/mine; echo no > %s/mine; ls %s;"
	    " for f in %s %s/bastion.db %s/bastion.key %s %s-ask; do cat $f >/dev/null && echo reached $f;"
	    " ls $f/ && echo listed $f; done; tail -n +3 /proc/net/dev | cut -d: -f1;"
	    " echo $BASTION_SANDBOXED $HOME; test -n \"$BASTION_KIN\" || echo unmarked; exit 3",
	    data, out, data, other, d.state[DRIVER_BOX], d.state[DRIVER_BOX], d.state[DRIVER_BOX],
	    d.run[DRIVER_BOX], d.run[DRIVER_BOX]);
	driver_does(&said, NULL, "worker", "add", "held", "--read", data, "--write", out, "--",
	    "sh", "-c", script, NULL);
	assert_int_equal(driver_run(&said, NULL, "session", "run", "--name", "h", "--attempts", "1",
			     "--cwd", work, "held", NULL),
	    3);
	assert_string_equal(said.out, "known\n    lo\n1 /tmp\nunmarked\n");
	snprintf(script, sizeof(script),
	    "test -e %s/mine -a -e %s/mine -a ! -e %s/mine -a ! -e %s/mine", work, out, data,
	    other);
	assert_int_equal(system(script), 0);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM attempt AS a JOIN sandbox_run AS r ON r.id = a.sandbox_run_id"
		" WHERE r.state = 'ended' AND r.exit_code = 3 AND r.net = 'none' AND r.pid_ns > 0"
		"   AND a.outcome = 'crash'"),
	    1);
	/* What nothing holds says so when it is added, and not later. */
	driver_does(&said, NULL, "worker", "add", "free", "--backend", "none", "--", "sh", "-c",
	    "echo ${BASTION_SANDBOXED-no}", NULL);
	driver_does(&said, NULL, "session", "run", "--name", "f", "free", NULL);
	assert_string_equal(said.out, "no\n");
	driver_refused(&said, 2, "worker.unheld", NULL, "worker", "add", "x", "--backend", "none",
	    "--read", data, "--", "true", NULL);
}

/* A terminal, input, a cancel, and the end of the worker, with a sandbox around. */
static void
a_held_one_is_a_session(void **state)
{
	int64_t pid;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.kill_ms", "100", NULL);
	driver_does(&said, NULL, "session", "run", "--sandbox", "--terminal", "--name", "t", "--",
	    "sh", "-c",
	    "test -t 0 && test $(cut -d' ' -f7 /proc/self/stat) -ne 0 && echo here; stty size",
	    NULL);
	assert_string_equal(said.out, "here\r\n24 80\r\n");
	driver_does(&said, NULL, "session", "run", "--sandbox", "--input", "--detach", "--name",
	    "i", "--", "cat", NULL);
	driver_does(&said, NULL, "session", "send", "i", "one", "--end", NULL);
	is("i", "done");
	driver_does(&said, NULL, "session", "logs", "i", NULL);
	assert_string_equal(said.out, "one\n");
	driver_does(&said, NULL, "session", "run", "--sandbox", "--detach", "--name", "k", "--",
	    "sh", "-c", "trap '' TERM; setsid sleep 600 & echo here; wait; wait", NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 'k'");
	pid = driver_value(&d, DRIVER_BOX, "SELECT pid FROM sessions WHERE name = 'k'");
	assert_true(pid > 1 && kill((pid_t)pid, 0) == 0);
	driver_does(&said, NULL, "session", "cancel", "k", NULL);
	is("k", "cancelled cancelled");
	assert_true(is_corpse((pid_t)pid));
	assert_int_equal(driver_run(&said, NULL, "session", "run", "--sandbox", "--name", "n", "--",
			     "no-such-program", NULL),
	    1);
	assert_non_null(strstr(said.err, "could not be started"));
	driver_does(&said, NULL, "session", "run", "--sandbox", "--detach", "--name", "l", "--",
	    "sh", "-c", "echo here; sleep 600", NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 'l'");
	pid = driver_value(&d, DRIVER_BOX, "SELECT pid FROM sessions WHERE name = 'l'");
	driver_kill(&d, DRIVER_BOX, "worker");
	is("l", "failed daemon");
	while (!is_corpse((pid_t)pid))
		driver_pause();
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM sandbox_run AS r JOIN attempt AS a"
		" ON a.sandbox_run_id = r.id WHERE (r.state = 'lost') IS NOT (a.state = 'lost')"
		"   OR r.ended_at IS NULL"),
	    0);
}

/* PO-02, PO-03, RF-38: a crash is tried again, and who watches is told; 76 is not, DC-20: and is
 * the code of who watched. */
static void
crashes_are_tried_again(void **state)
{
	(void)state;
	driver_does(&said, NULL, "session", "run", "--name", "c", "--attempts", "3", "--", "sh",
	    "-c", "echo try $BASTION_ATTEMPT; test $BASTION_ATTEMPT = 3", NULL);
	assert_string_equal(said.out, "try 1\ntry 2\ntry 3\n");
	assert_non_null(strstr(said.err, "attempt 1 ended with exit 1; the next is due"));
	assert_int_equal(driver_run(&said, NULL, "session", "run", "--name", "p", "--attempts", "3",
			     "--", "sh", "-c", "echo once; exit 76", NULL),
	    76);
	assert_string_equal(said.out, "once\n");
	/* PO-15: a signal is a crash. */
	assert_int_equal(driver_run(&said, NULL, "session", "run", "--name", "s", "--attempts", "2",
			     "--", "sh", "-c", "kill -SEGV $$", NULL),
	    139);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM attempt WHERE term_signal = 11"), 2);
}

/* LA-06: what cannot be started says why, and leaves nothing. */
static void
what_cannot_start_says_why(void **state)
{
	(void)state;
	assert_int_equal(driver_run(&said, NULL, "session", "run", "--", "/no/such", NULL), 1);
	assert_non_null(
	    strstr(said.err, "could not be started: its program cannot be run: No such"));
	assert_int_equal(
	    driver_run(&said, NULL, "session", "run", "--", "no-such-program", NULL), 1);
	assert_non_null(strstr(said.err, "No such file"));
	/* Who watches is told of each attempt, and who adds such a worker at once. */
	driver_does(&said, NULL, "worker", "add", "gone", "--attempts", "2", "--",
	    "no-such-program", "--yes", NULL);
	assert_non_null(strstr(said.err, "gone: no-such-program is in none of the folders"));
	driver_does(&said, NULL, "worker", "add", "away", "--", "/no/such", NULL);
	assert_non_null(strstr(said.err, "/no/such cannot be run now (No such file"));
	driver_does(&said, NULL, "worker", "add", "here", "--", "sh", NULL);
	assert_string_equal(said.err, "");
	assert_int_equal(driver_run(&said, NULL, "session", "run", "--name", "g", "gone", NULL), 1);
	assert_non_null(
	    strstr(said.err, "bastion: g: attempt 1 could not be started: no-such-program "));
	assert_non_null(strstr(said.err, "No such file or directory; the next is due in "));
	assert_non_null(strstr(said.err, "bastion: session: g could not be started: "));
}

/* PO-06, PO-16, SE-03: places are bounded, the rest wait in their order. */
static void
places_are_bounded(void **state)
{
	char name[16], script[160], go[96];
	int i;

	(void)state;
	/* Those that run stay until all of them were asked for. */
	snprintf(go, sizeof(go), "%s/go", d.dir);
	snprintf(script, sizeof(script), "while ! test -e %s; do sleep 0.02; done", go);
	driver_does(&said, NULL, "settings", "set", "session.slots", "2", NULL);
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		detached(name, script);
	}
	driver_until(&d, DRIVER_BOX, 2, "SELECT count(*) FROM attempt WHERE state = 'running'");
	assert_int_equal(mkdir(go, 0700), 0);
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		is(name, "done");
	}
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM attempt AS a JOIN attempt AS b"
			     " ON b.id = a.id + 1 WHERE b.session_id < a.session_id"),
	    0);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT max(n) FROM (SELECT count(*) AS n FROM attempt AS a JOIN attempt AS b"
		" ON b.launched_at <= a.launched_at AND b.ended_at > a.launched_at GROUP BY a.id)"),
	    2);
}

/* Forty of nothing, all asked for at once. */
static void
forty_asked(void)
{
	static const char sql[] =
	    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
	    " INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before)"
	    " SELECT 'f' || i, '[\"true\"]', '/', %u, 1, now_ms(), now_ms() FROM n";
	struct store *db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, NULL);
	char text[sizeof(sql) + 16];

	snprintf(text, sizeof(text), sql, (unsigned)getuid());
	assert_int_equal(store_begin(db), 0);
	assert_int_equal(store_exec(db, text), 0);
	assert_int_equal(store_commit(db), 0);
	store_close(db);
}

/* Whoever waits has a place in the instant in which another gives it back, and nobody is lost. */
static void
no_place_is_idle(void **state)
{
	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.slots", "4", NULL);
	forty_asked();
	driver_until(&d, DRIVER_BOX, 40, "SELECT count(*) FROM session WHERE finished_at > 0");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session WHERE state = 'done'"), 40);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM attempt"), 40);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM attempt AS a WHERE id > 4 AND NOT EXISTS"
			     " (SELECT 1 FROM attempt AS b WHERE b.ended_at = a.launched_at)"),
	    0);
}

/* PO-13, KI-01, KI-04, RF-20: its end takes everything that it started, also what ignores the
 * polite word.
 */
static void
cancelling_ends_all(void **state)
{
	int64_t pid;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.kill_ms", "100", NULL);
	detached("k", "trap '' TERM; sleep 600 & echo $!; wait; wait");
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 'k'");
	pid = driver_value(&d, DRIVER_BOX,
	    "SELECT CAST(CAST(data AS TEXT) AS INTEGER)"
	    " FROM session_output WHERE seq = 1");
	assert_true(pid > 1 && kill((pid_t)pid, 0) == 0);
	driver_does(&said, NULL, "session", "cancel", "k", NULL);
	is("k", "cancelled cancelled");
	while (kill((pid_t)pid, 0) == 0 && !is_corpse((pid_t)pid))
		driver_pause();
	assert_int_equal(driver_run(&said, NULL, "session", "attach", "k", NULL), 137);
}

/* LA-03…LA-05, LA-10, RF-14, RF-19: lines of any length, without an end, with any bytes. */
static void
every_byte_is_kept(void **state)
{
	(void)state;
	driver_does(&said, NULL, "session", "run", "--detach", "--name", "b", "--", "sh", "-c",
	    "head -c 3000000 /dev/zero | tr '\\0' x; echo; printf 'a\\377\\0b\\n\\n'; printf last",
	    NULL);
	is("b", "done");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT bytes FROM session"), 3000001 + 5 + 1 + 4);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT lines FROM session"), 4);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(DISTINCT line) FROM session_output"), 3);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM session_output WHERE data = x'61ff00620a0a'"),
	    1);
}

/* LA-09, RF-22: the leader ends, a grandchild holds the pipe: it is heard for a while, then ended.
 */
static void
a_grandchild_holds_nobody_up(void **state)
{
	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.drain_ms", "100", NULL);
	driver_does(&said, NULL, "session", "run", "--name", "g", "--", "sh", "-c",
	    "(trap '' HUP; echo below; sleep 600) & sleep 0.1; echo above", NULL);
	assert_non_null(strstr(said.out, "below\n"));
	assert_non_null(strstr(said.out, "above\n"));
}

/* What is sent comes in, once, and ends when it is told to. */
static void
input_is_handed_on(void **state)
{
	(void)state;
	driver_does(
	    &said, NULL, "session", "run", "--detach", "--input", "--name", "i", "--", "cat", NULL);
	driver_does(&said, NULL, "session", "send", "i", "hello", "there", NULL);
	driver_does(&said, "piped\nsecret\n", "session", "send", "i", NULL);
	driver_does(&said, NULL, "session", "send", "i", "--end", NULL);
	driver_does(&said, NULL, "session", "attach", "i", NULL);
	assert_string_equal(said.out, "hello there\npiped\nsecret\n");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session_input"), 0);
	driver_refused(&said, 126, "session.over", NULL, "session", "send", "i", "late", NULL);
}

/* SE-13, RF-41: attach from any line, replay and following without a seam, for any number. */
static void
nobody_loses_a_line(void **state)
{
	static const char script[] = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; done";
	struct job jobs[4];
	int64_t sum;
	size_t i;
	char *at;

	(void)state;
	detached("n", script);
	for (i = 0; i < 4; i++)
		driver_start(&jobs[i], NULL, (const char *const[]){"session", "attach", "n", NULL});
	for (i = 0; i < 4; i++) {
		assert_int_equal(driver_finish(&jobs[i], &said), 0);
		for (sum = 0, at = said.out; *at != '\0'; at = strchr(at, '\n') + 1)
			assert_int_equal(atoll(at), ++sum);
		assert_int_equal(sum, 20000);
	}
	driver_does(&said, NULL, "session", "logs", "n", "-n", "3", NULL);
	assert_string_equal(said.out, "19998\n19999\n20000\n");
	driver_does(&said, NULL, "session", "logs", "n", "--from", "20000", NULL);
	assert_string_equal(said.out, "20000\n");
}

/* SE-11: what is not kept any more is said to be gone, and how much. */
static void
a_gap_is_told(void **state)
{
	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.history", "100000", NULL);
	detached("h",
	    "i=0; while [ $i -lt 300 ]; do i=$((i+1)); head -c 5000 /dev/zero | tr '\\0' y;"
	    " echo; done");
	is("h", "done");
	assert_true(driver_value(&d, DRIVER_BOX, "SELECT first_seq FROM session") > 1);
	assert_true(
	    driver_value(&d, DRIVER_BOX, "SELECT sum(length(data)) FROM session_output") >= 100000);
	driver_does(&said, NULL, "session", "logs", "h", NULL);
	assert_non_null(strstr(said.err, "bastion: h: lines 1 to "));
	assert_non_null(strstr(said.err, " are not kept any more\n"));
}

/* A terminal: full screen, its size, keys that leave; and a cast of it. */
static void
a_terminal_is_one(void **state)
{
	static const char *const words[] = {"session", "run", "--name", "t", "--terminal", "--",
	    "sh", "-c", "stty size; tty; read -r x; echo \"got $x\"; sleep 600", NULL};
	static struct program_talk t;

	(void)state;
	program_talk(&t, NULL, words);
	program_expect(&t, "24 80");
	program_expect(&t, "/dev/pts/");
	program_type(&t, "words\r");
	program_expect(&t, "got words");
	program_type(&t, "\035");
	program_expect(&t, "t goes on: bastion session attach t");
	program_ends(&t, 0);
	driver_does(&said, NULL, "session", "cancel", "t", NULL);
	is("t", "cancelled cancelled");
	driver_does(&said, NULL, "session", "export", "t", "--cast", NULL);
	assert_int_equal(strncmp(said.out, "{\"version\":2,\"width\":80,\"height\":24,", 36), 0);
	assert_non_null(strstr(said.out, ",\"o\",\""));
}

/* PO-07, SV-13: a drain ends what runs; what waits begins with the next daemon. DC-19, RF-10: who
 * watches is told, and does not leave with 0. DC-09: without a daemon nothing is begun. */
static void
a_drain_ends_and_keeps(void **state)
{
	static const char *const watch[] = {"session", "attach", "r", NULL};
	struct job job;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.slots", "1", NULL);
	detached("r", "echo here; sleep 600");
	detached("w", "echo later");
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 'r'");
	driver_start(&job, NULL, watch);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	is("r", "failed drain");
	assert_int_not_equal(driver_finish(&job, &said), 0);
	assert_string_equal(said.out, "here\n");
	assert_non_null(strstr(said.err, "was ended, as the daemon was told to end"));
	is("w", "queued");
	driver_refused(&said, 75, "session.offline", NULL, "session", "run", "--", "true", NULL);
	driver_serve(&d, DRIVER_BOX);
	is("w", "done");
}

/* RF-37: how one ended that was told to is read after it was known that all are to end: what it
 * then says of itself, never again or a crash, does not stand. RF-112: and its last words are kept
 * before it counts as ended. */
static void
a_drain_is_not_its_own_word(void **state)
{
	(void)state;
	detached("never", "trap 'exit 76' TERM; echo here; while :; do sleep 0.05; done");
	detached(
	    "crash", "trap 'seq 1 20000; exit 1' TERM; echo here; while :; do sleep 0.05; done");
	driver_until(&d, DRIVER_BOX, 2, "SELECT sum(lines) FROM session");
	driver_end(&d, DRIVER_BOX, SIGTERM);
	is("never", "failed drain");
	is("crash", "failed drain");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT sum(o.lines) FROM session_output AS o JOIN session AS s"
			     " ON s.id = o.session_id WHERE s.name = 'crash' AND kind = 'out'"),
	    20001);
}

/* One that hears nothing of it is ended while there is time to say so: it is not lost, though its
 * own grace is longer than the daemon's. */
static void
a_drain_hurries_the_deaf(void **state)
{
	(void)state;
	driver_does(&said, NULL, "settings", "set", "actor.drain_ms", "3000", NULL);
	detached("r", "trap '' TERM; echo here; while :; do sleep 1; done");
	driver_does(&said, NULL, "session", "run", "--sandbox", "--detach", "--name", "h", "--",
	    "sh", "-c", "trap '' TERM; echo here; while :; do sleep 1; done", NULL);
	detached("c", "trap '' TERM; echo here; while :; do sleep 1; done");
	driver_until(&d, DRIVER_BOX, 3, "SELECT sum(lines) FROM session");
	driver_does(&said, NULL, "session", "cancel", "c", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	is("r", "failed drain");
	is("h", "failed drain");
	is("c", "cancelled cancelled");
}

/* PO-11, PO-12: nothing sleeps through a drain: who waits an hour for the next try is a row, no
 * thread; the daemon ends, and he waits on, neither cancelled nor tried before his time. */
static void
waiting_holds_up_no_drain(void **state)
{
	int64_t due;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.backoff_cap_ms", "86400000", NULL);
	driver_does(&said, NULL, "settings", "set", "session.backoff_ms", "3600000", NULL);
	driver_does(&said, NULL, "settings", "set", "session.later_ms", "3600000", NULL);
	driver_does(&said, NULL, "session", "run", "--detach", "--name", "c", "--attempts", "2",
	    "--", "sh", "-c", "exit 1", NULL);
	driver_does(&said, NULL, "session", "run", "--detach", "--name", "l", "--attempts", "2",
	    "--", "sh", "-c", "exit 75", NULL);
	driver_until(&d, DRIVER_BOX, 2,
	    "SELECT count(*) FROM session WHERE state = 'queued' AND attempts = 1");
	due = driver_value(&d, DRIVER_BOX, "SELECT min(not_before) FROM session");
	driver_end(&d, DRIVER_BOX, SIGTERM);
	is("c", "queued");
	is("l", "queued");
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "session", "run", "--name", "other", "--", "true", NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT min(not_before) FROM session"
			     " WHERE name <> 'other'"),
	    due);
	is("c", "queued");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM attempt"), 3);
}

/* PO-9: a session whose start hangs when a drain begins: the drain waits for the start, and then
 * ends what was started before it does anything. */
static void
a_drain_waits_for_a_start(void **state)
{
	char made[128];
	pid_t runner = driver_runner(&d);

	(void)state;
	assert_true(runner > 0);
	driver_does(&said, NULL, "settings", "set", "session.kill_ms", "200", NULL);
	snprintf(made, sizeof(made), "%s/made", d.dir);
	assert_int_equal(kill(runner, SIGSTOP), 0);
	driver_does(&said, NULL, "session", "run", "--sandbox", "--detach", "--cwd", d.dir,
	    "--name", "s", "--", "sh", "-c", "sleep 600; touch made", NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM attempt WHERE state = 'launching'");
	assert_int_equal(kill(d.serving[DRIVER_BOX], SIGTERM), 0);
	driver_until(
	    &d, DRIVER_BOX, 1, "SELECT count(*) FROM live_instance WHERE state = 'draining'");
	assert_int_equal(kill(runner, SIGCONT), 0);
	assert_int_equal(driver_end(&d, DRIVER_BOX, 0), 0);
	is("s", "failed drain");
	assert_true(is_corpse(runner));
	assert_int_equal(access(made, F_OK), -1);
}

/* PO-10: one whose start hangs for ever holds nobody up beyond the grace; the start that comes too
 * late begins nothing. */
static void
a_start_that_hangs_is_left(void **state)
{
	pid_t runner = driver_runner(&d);

	(void)state;
	assert_true(runner > 0);
	driver_does(&said, NULL, "settings", "set", "actor.drain_ms", "100", NULL);
	assert_int_equal(kill(runner, SIGSTOP), 0);
	driver_does(&said, NULL, "session", "run", "--sandbox", "--detach", "--name", "s", "--",
	    "sleep", "600", NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM attempt WHERE state = 'launching'");
	driver_end(&d, DRIVER_BOX, SIGTERM);
	while (!is_corpse(runner))
		driver_pause();
	is("s", "failed daemon");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM sandbox_run WHERE ended_at IS NULL"
			     " OR user_ns IS NOT NULL"),
	    0);
}

/* PO-19, RF-2, SE-13: kill -9 of the worker and of the daemon: lost, never done; nothing lives on.
 * CL-03: who watched is told so, and does not leave with 0. */
static void
killed_is_lost(void **state)
{
	static const char *const watch[] = {"session", "attach", "y", NULL};
	struct job job;
	int64_t pid;

	(void)state;
	detached("x", "echo $$; exec sleep 600");
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 'x'");
	pid = driver_value(&d, DRIVER_BOX, "SELECT pid FROM sessions WHERE name = 'x'");
	assert_true(pid > 1);
	driver_kill(&d, DRIVER_BOX, "worker");
	is("x", "failed daemon");
	while (kill((pid_t)pid, 0) == 0 && !is_corpse((pid_t)pid))
		driver_pause();
	detached("y", "echo $$; exec sleep 600");
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 'y'");
	driver_start(&job, NULL, watch);
	driver_end(&d, DRIVER_BOX, SIGKILL);
	driver_serve(&d, DRIVER_BOX);
	is("y", "failed daemon");
	assert_int_equal(driver_finish(&job, &said), 1);
	assert_non_null(strstr(said.err, "was lost: the daemon that ran it died"));
	driver_does(&said, NULL, "session", "logs", "y", NULL);
	assert_true(atoi(said.out) > 1);
}

/* DC-01, DC-02, DC-03, DC-05, DC-08, DC-10, DC-16, RF-05, RF-06: wrong words, and words that are
 * missing, are a wrong call, told at once; an option that there is not is no name, and a number is
 * one, within its bounds. */
static void
wrong_words_are_told(void **state)
{
	static const char *const wrong[][7] = {{"session", "frobnicate", NULL},
	    {"session", "attach", "--frobnicate", NULL},
	    {"session", "run", "--attempts", "five", "--", "true", NULL},
	    {"session", "run", "--attempts", "5x", "--", "true", NULL},
	    {"session", "run", "--attempts", "99999999999999999999", "--", "true", NULL},
	    {"session", "logs", "a", "-n", "", NULL}, {"session", "run", NULL},
	    {"session", "run", "--name", "a", NULL}, {"session", "attach", NULL},
	    {"session", "attach", "a", "extra", NULL}, {"session", "cancel", NULL},
	    {"session", "ls", "oops", NULL}, {"worker", "frobnicate", NULL}, {"host", NULL}};
	struct job job;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		driver_start(&job, NULL, wrong[i]);
		if (driver_finish(&job, &said) != 2 || said.out[0] != '\0' || said.err[0] == '\0')
			fail_msg("%s %s: %d: %s%s", wrong[i][0], wrong[i][1], said.code, said.out,
			    said.err);
	}
	/* DC-04: what is missing is named, whatever else was said. */
	assert_int_equal(driver_run(&said, NULL, "session", "send", "--end", NULL), 2);
	assert_non_null(strstr(said.err, "send takes NAME"));
	driver_does(&said, NULL, "help", "session", NULL);
	assert_non_null(strstr(said.out, "usage: bastion session"));
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session"), 0);
}

/*
 * Reads of a session's output that fail: from here on every read of that many bytes, of whatever
 * this process starts, is asked about, and this thread answers.
 */
#define POOL_READ 65536

static _Atomic pid_t deaf;  /* its next read fails; 0: nobody's does */
static atomic_int listener; /* 0: not there yet */

static void *
answer_reads(void *ctx)
{
	struct seccomp_notif_resp resp;
	struct seccomp_notif req;

	while (atomic_load(&listener) == 0)
		sched_yield();
	for (;;) {
		memset(&req, 0, sizeof(req));
		if (ioctl(atomic_load(&listener), SECCOMP_IOCTL_NOTIF_RECV, &req) != 0)
			continue;
		resp = (struct seccomp_notif_resp){
		    .id = req.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
		if (req.pid != 0 && (pid_t)req.pid == atomic_load(&deaf)) {
			atomic_store(&deaf, 0);
			resp.flags = 0;
			resp.error = -EIO;
		}
		(void)ioctl(atomic_load(&listener), SECCOMP_IOCTL_NOTIF_SEND, &resp);
	}
	return ctx;
}

/* For good, so this is the last test. */
static int
make_deaf(void **state)
{
	struct sock_filter filter[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, POOL_READ, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	const struct sock_fprog prog = {sizeof(filter) / sizeof(filter[0]), filter};
	pthread_t thread;
	int fd;

	assert_int_equal(pthread_create(&thread, NULL, answer_reads, NULL), 0);
	pthread_detach(thread);
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	fd = (int)syscall(
	    SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	assert_true(fd > 0);
	atomic_store(&listener, fd);
	return make(state);
}

/* PO-8, RF-19: a read of what it says fails after a line: the line is kept, it is ended, and it did
 * not succeed, whatever it says of itself; who watches is told why. */
static void
what_cannot_be_read_is_no_success(void **state)
{
	char script[256], more[128];
	int64_t pid;

	(void)state;
	snprintf(more, sizeof(more), "%s/more", d.dir);
	snprintf(script, sizeof(script),
	    "trap 'exit 0' TERM; echo one; while test ! -e %s; do sleep 0.05; done; echo two;"
	    " while :; do sleep 0.05; done",
	    more);
	driver_does(&said, NULL, "session", "run", "--detach", "--name", "r", "--attempts", "1",
	    "--", "sh", "-c", script, NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 'r'");
	pid = driver_value(&d, DRIVER_BOX, "SELECT pid FROM sessions WHERE name = 'r'");
	atomic_store(&deaf, driver_actor(&d, DRIVER_BOX, "worker"));
	assert_true(atomic_load(&deaf) > 1);
	assert_int_equal(mknod(more, S_IFREG | 0600, 0), 0);
	is("r", "failed attempts");
	assert_int_equal(atomic_load(&deaf), 0);
	assert_true(is_corpse((pid_t)pid));
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM attempt WHERE outcome = 'crash'"
			     " AND exit_code = 0"),
	    1);
	driver_run(&said, NULL, "session", "logs", "r", NULL);
	assert_non_null(strstr(said.out, "one\n"));
	assert_null(strstr(said.out, "two\n"));
	assert_non_null(strstr(said.err, "what it says cannot be read any more: "));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_session_is_its_program, make, drop),
	    cmocka_unit_test_setup_teardown(a_worker_inherits_nothing, make, drop),
	    cmocka_unit_test_setup_teardown(a_worker_is_held, make, drop),
	    cmocka_unit_test_setup_teardown(a_held_one_is_a_session, make, drop),
	    cmocka_unit_test_setup_teardown(crashes_are_tried_again, make, drop),
	    cmocka_unit_test_setup_teardown(what_cannot_start_says_why, make, drop),
	    cmocka_unit_test_setup_teardown(places_are_bounded, make, drop),
	    cmocka_unit_test_setup_teardown(no_place_is_idle, make, drop),
	    cmocka_unit_test_setup_teardown(cancelling_ends_all, make, drop),
	    cmocka_unit_test_setup_teardown(every_byte_is_kept, make, drop),
	    cmocka_unit_test_setup_teardown(a_grandchild_holds_nobody_up, make, drop),
	    cmocka_unit_test_setup_teardown(input_is_handed_on, make, drop),
	    cmocka_unit_test_setup_teardown(nobody_loses_a_line, make, drop),
	    cmocka_unit_test_setup_teardown(a_gap_is_told, make, drop),
	    cmocka_unit_test_setup_teardown(a_terminal_is_one, make, drop),
	    cmocka_unit_test_setup_teardown(a_drain_ends_and_keeps, make, drop),
	    cmocka_unit_test_setup_teardown(a_drain_is_not_its_own_word, make, drop),
	    cmocka_unit_test_setup_teardown(a_drain_hurries_the_deaf, make, drop),
	    cmocka_unit_test_setup_teardown(waiting_holds_up_no_drain, make, drop),
	    cmocka_unit_test_setup_teardown(a_drain_waits_for_a_start, make, drop),
	    cmocka_unit_test_setup_teardown(a_start_that_hangs_is_left, make, drop),
	    cmocka_unit_test_setup_teardown(killed_is_lost, make, drop),
	    cmocka_unit_test_setup_teardown(wrong_words_are_told, make, drop),
	    cmocka_unit_test_setup_teardown(what_cannot_be_read_is_no_success, make_deaf, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
