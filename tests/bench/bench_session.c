/* bench_session.c: how fast sessions speak, are watched, are read again, begin and follow each
 * other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/driver.h"

#define WATCHERS    4
#define LINES       1000000 /* of one worker, as fast as it can, 4 follow */
#define CROWD       100
#define CROWD_LINES 50000 /* at 10,500 a second */
#define LONG_LINES  10000000
#define STARTS      50
#define FIRSTS      20
#define QUEUED      1000
#define PROBES      200 /* lines with the time in them, for how late a row is */

#define RATE_TARGET   200000.0
#define LATE_TARGET   50.0 /* ms */
#define FIRST_TARGET  20.0
#define REPLAY_TARGET 500000.0
#define START_TARGET  20.0
#define CROWD_TARGET  10000.0

static struct driver d;
static struct said said;
static char self[PATH_MAX], program[PATH_MAX];
static int missed;

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts); /* that of now_ms() */
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void
more_is_better(const char *what, double ours, double peer, double target)
{
	if (peer > 0)
		printf("%s | %.0f | %.0f | %.2f | > %.0f\n", what, ours, peer, peer / ours, target);
	else
		printf("%s | %.0f | - | - | > %.0f\n", what, ours, target);
	fflush(stdout);
	missed += ours < target || ours < peer;
}

static void
less_is_better(const char *what, double ours, double target)
{
	printf("%s | %.1f | - | - | < %.0f\n", what, ours, target);
	fflush(stdout);
	missed += ours > target;
}

/*
 * The worker: this program itself.
 */

/* ${lines} lines, ${rate} a second (0: as they come). */
static void
speak(long lines, long rate)
{
	struct timespec ts = {.tv_nsec = 10000000};
	double began = now();
	long i;

	for (i = 1; i <= lines; i++) {
		printf("%ld a line as a program says it, neither long nor short\n", i);
		if (rate > 0 && i % 100 == 0) {
			fflush(stdout);
			while (now() < began + (double)i * 1e3 / (double)rate)
				nanosleep(&ts, NULL);
		}
	}
}

/* Lines that say when they were written, in ms UTC. */
static void
speak_the_time(long lines)
{
	struct timespec ts = {.tv_nsec = 13000000};

	while (lines-- > 0) {
		printf("%.0f\n", now());
		fflush(stdout);
		nanosleep(&ts, NULL);
	}
}

static int
is_worker(int argc, char **argv)
{
	if (argc < 3)
		return 0;
	if (strcmp(argv[1], "speak") == 0)
		speak(atol(argv[2]), argc > 3 ? atol(argv[3]) : 0);
	else
		speak_the_time(atol(argv[2]));
	return 1;
}

/*
 * Watchers: whoever attaches, without keeping what he sees.
 */

static pid_t
watcher(const char *name, const char *path)
{
	pid_t pid;
	int fd;

	fflush(NULL);
	if ((pid = fork()) != 0)
		return pid;
	if ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) == -1)
		_exit(126);
	dup2(fd, 1);
	execl(program, "bastion", "session", "attach", name, (char *)NULL);
	_exit(127);
}

static void
all_end(const pid_t *pids, int n)
{
	int i, status;

	for (i = 0; i < n; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

static void
begin(const char *name, const char *how, const char *lines, const char *rate)
{
	driver_does(&said, NULL, "session", "run", "--detach", "--name", name, "--", self, how,
	    lines, rate, NULL);
}

static double
of(const char *name, const char *what)
{
	return (double)driver_value(&d, DRIVER_BOX,
	    "SELECT CAST(%s AS INTEGER) FROM session AS s WHERE name = '%s'", what, name);
}

/* tmux, with the same lines through pipe-pane into a file: lines a second, or 0 without tmux. */
static double
tmux(void)
{
	char command[3 * PATH_MAX], path[128];
	double began, took;
	int64_t limit;
	FILE *f;

	if (system("command -v tmux >/dev/null 2>&1") != 0)
		return 0;
	snprintf(path, sizeof(path), "%s/piped", d.dir);
	snprintf(command, sizeof(command),
	    "tmux -S %s/tmux -f /dev/null new-session -d -x 200 -y 50 'read x; %s speak %d; echo at the end;"
	    " sleep 600' && tmux -S %s/tmux pipe-pane -o 'cat > %s' && tmux -S %s/tmux send-keys Enter",
	    d.dir, self, LINES, d.dir, path, d.dir);
	began = now();
	if (system(command) != 0)
		return 0;
	limit = driver_now() + 120000;
	snprintf(
	    command, sizeof(command), "tail -c 200 %s 2>/dev/null | grep -q 'at the end'", path);
	while (system(command) != 0 && driver_now() < limit)
		driver_pause();
	took = now() - began;
	snprintf(command, sizeof(command), "tmux -S %s/tmux kill-server", d.dir);
	(void)!system(command);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	fclose(f);
	return LINES / took * 1e3;
}

static void
one_worker_is_kept_up_with(void)
{
	char lines[16];
	pid_t pids[WATCHERS];
	double took;
	int i;

	snprintf(lines, sizeof(lines), "%d", LINES);
	begin("fast", "speak", lines, NULL);
	for (i = 0; i < WATCHERS; i++)
		pids[i] = watcher("fast", "/dev/null");
	all_end(pids, WATCHERS);
	assert_int_equal((int)of("fast", "lines"), LINES);
	took = of("fast", "finished_at - started_at");
	more_is_better("session: lines/s of one worker, 4 watch (peer: tmux)", LINES / took * 1e3,
	    tmux(), RATE_TARGET);
}

static int
by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* A row has one of the lines, or more where they came together: each is as late as its row. */
static void
a_row_is_soon_there(void)
{
	static int64_t late[PROBES];
	char lines[16];
	pid_t busy;
	int i;

	snprintf(lines, sizeof(lines), "%d", PROBES);
	begin("when", "time", lines, NULL);
	busy = watcher("when", "/dev/null");
	all_end(&busy, 1);
	for (i = 0; i < PROBES; i++)
		late[i] = driver_value(&d, DRIVER_BOX,
		    "SELECT at - CAST(substr(CAST(data AS TEXT), 1, 13) AS INTEGER) FROM session_output"
		    " AS o JOIN session AS s ON s.id = o.session_id WHERE s.name = 'when'"
		    "   AND line <= %d ORDER BY line DESC LIMIT 1",
		    i + 1);
	qsort(late, PROBES, sizeof(late[0]), by_size);
	less_is_better("session: write to row, median (ms)", (double)late[PROBES / 2], LATE_TARGET);
	less_is_better(
	    "session: write to row, 95 of 100 (ms)", (double)late[PROBES * 95 / 100], LATE_TARGET);
}

static void
a_crowd_follows(void)
{
	char lines[16];
	pid_t pids[CROWD];
	double began, took;
	int i;

	snprintf(lines, sizeof(lines), "%d", CROWD_LINES);
	began = now();
	begin("crowd", "speak", lines, "10500");
	for (i = 0; i < CROWD; i++)
		pids[i] = watcher("crowd", "/dev/null");
	all_end(pids, CROWD);
	took = now() - began;
	/* The beginning of a hundred programs is not what is measured: the pace of the writer is.
	 */
	printf("session: 100 watchers, all of %d lines seen after (ms) | %.0f | %d | %.2f | -\n",
	    CROWD_LINES, took, (int)(CROWD_LINES / 10.5), took / (CROWD_LINES / 10.5));
	took = of("crowd", "finished_at - started_at");
	more_is_better("session: lines/s of a worker that paces itself at 10,500, 100 watch",
	    CROWD_LINES / took * 1e3, 0, CROWD_TARGET);
}

static pid_t
reader(const char *name, int *end)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fflush(NULL);
	if ((pid = fork()) == 0) {
		dup2(ends[1], 1);
		execl(program, "bastion", "session", "attach", name, (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	close(ends[1]);
	*end = ends[0];
	return pid;
}

/* How long until the first byte, at best; and all of it. */
static void
a_long_one_is_read_again(void)
{
	static char buf[1 << 20];
	char lines[16];
	double began, first = 1e9, took;
	int64_t seen = 0;
	ssize_t n, at;
	pid_t pid;
	int i, fd;

	snprintf(lines, sizeof(lines), "%d", LONG_LINES);
	begin("long", "speak", lines, NULL);
	pid = watcher("long", "/dev/null");
	all_end(&pid, 1);
	for (i = 0; i < FIRSTS; i++) {
		began = now();
		pid = reader("long", &fd);
		assert_true(read(fd, buf, sizeof(buf)) > 0);
		took = now() - began;
		first = took < first ? took : first;
		close(fd);
		waitpid(pid, NULL, 0);
	}
	began = now();
	pid = reader("long", &fd);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (at = 0; at < n; at++)
			seen += buf[at] == '\n';
	took = now() - began;
	close(fd);
	all_end(&pid, 1);
	assert_int_equal(seen, LONG_LINES);
	less_is_better("session: attach to 10 million lines, first one (ms)", first, FIRST_TARGET);
	more_is_better("session: replay, lines/s", LONG_LINES / took * 1e3, 0, REPLAY_TARGET);
}

/* From the row that asks to the first look at the clock of a small program. */
static void
a_session_begins(void)
{
	static int64_t took[STARTS];
	char name[16];
	pid_t pid;
	int i;

	for (i = 0; i < STARTS; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		driver_does(&said, NULL, "session", "run", "--detach", "--name", name, "--", "date",
		    "+%s%3N", NULL);
		pid = watcher(name, "/dev/null");
		all_end(&pid, 1);
		took[i] = (int64_t)of(name,
		    "(SELECT CAST(substr(CAST(data AS TEXT), 1, 13) AS INTEGER) FROM session_output"
		    "  WHERE session_id = s.id AND seq = 1) - queued_at");
	}
	qsort(took, STARTS, sizeof(took[0]), by_size);
	less_is_better(
	    "session: request to exec, median (ms)", (double)took[STARTS / 2], START_TARGET);
}

static const char MANY[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
    " INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before)"
    " SELECT 'm' || i, '[\"sleep\",\"0.1\"]', '/', (SELECT by_uid FROM session LIMIT 1), 1, now_ms(),"
    "        now_ms() FROM n";

/* All at once, 4 places, 100 ms each: what part of the places' time was worked in. */
static void
many_wait(void)
{
	struct store *db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, NULL);
	double span, busy;
	char *error = NULL;
	int i;

	driver_does(&said, NULL, "settings", "set", "session.slots", "4", NULL);
	assert_int_equal(store_begin(db), 0);
	if (sqlite3_exec(store_handle(db), MANY, NULL, NULL, &error) != SQLITE_OK)
		fail_msg("%s", error);
	assert_int_equal(store_commit(db), 0);
	store_close(db);
	for (i = 1; i <= 10; i++)
		driver_until(&d, DRIVER_BOX, 1,
		    "SELECT count(*) >= %d FROM session WHERE name GLOB 'm*' AND state = 'done'",
		    QUEUED * i / 10);
	span = (double)driver_value(&d, DRIVER_BOX,
	    "SELECT max(ended_at) - min(launched_at) FROM attempt AS a JOIN session AS s"
	    " ON s.id = a.session_id WHERE s.name GLOB 'm*'");
	busy = (double)driver_value(&d, DRIVER_BOX,
	    "SELECT sum(ended_at - launched_at) FROM attempt AS a JOIN session AS s"
	    " ON s.id = a.session_id WHERE s.name GLOB 'm*'");
	printf(
	    "session: 1,000 of 100 ms on 4 places (ms; places in use, %%) | %.0f | %d | %.2f | %.0f%%\n",
	    span, QUEUED * 100 / 4, span / (QUEUED * 100 / 4.0), 100 * busy / (4 * span));
}

static void
measure(void **state)
{
	static const char *const settings[][2] = {
	    {"session.slots", "8"}, {"session.history", "4294967296"}, {"session.kept", "100000"}};
	size_t i;

	(void)state;
	assert_non_null(realpath("/proc/self/exe", self));
	assert_non_null(
	    realpath(getenv("BASTION") != NULL ? getenv("BASTION") : "build/bastion", program));
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		driver_does(&said, NULL, "settings", "set", settings[i][0], settings[i][1], NULL);
	one_worker_is_kept_up_with();
	a_row_is_soon_there();
	a_crowd_follows();
	a_long_one_is_read_again();
	a_session_begins();
	many_wait();
	driver_drop(&d);
	/* systemd-run with journald is a peer only where systemd runs the machine. */
	assert_int_equal(missed, 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(measure)};

	if (is_worker(argc, argv))
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
