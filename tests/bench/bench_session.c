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
#define FIRSTS      200
#define COLD        20
#define QUEUED      1000
#define PLACES      4
#define WORK_MS     100
#define PACE        200000 /* lines a second, for PACE_S seconds, 4 follow */
#define PACE_S      10
#define PROBES      200 /* lines with the time in them, for how late a row is */

#define RATE_TARGET   200000.0
#define LATE_TARGET   50.0 /* ms */
#define FIRST_TARGET  20.0
#define REPLAY_TARGET 500000.0
#define START_TARGET  20.0
#define CROWD_TARGET  10000.0
#define USED_TARGET   95.0 /* % of the places' time while somebody waits */
#define FLAT_TARGET   16.0 /* MiB that the worker may grow by, however much is said */

static struct driver d;
static struct said said;
static char self[PATH_MAX], program[PATH_MAX];
static int missed;
static long divisor = 1; /* for a look: that much less of everything */

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

/* ${lines} lines, ${rate} a second (0: as they come), which begin with the time, in ms UTC. */
static void
speak(long lines, long rate)
{
	struct timespec ts = {.tv_nsec = 1000000};
	double began = now(), at = began;
	long i;

	for (i = 1; i <= lines; i++) {
		if (rate > 0)
			printf("%13.0f a line as a program says it, neither long nor short\n", at);
		else
			printf("%ld a line as a program says it, neither long nor short\n", i);
		if (rate > 0 && i % 100 == 0) {
			fflush(stdout);
			while ((at = now()) < began + (double)i * 1e3 / (double)rate)
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
	if (strcmp(argv[1], "speak") != 0 && strcmp(argv[1], "time") != 0)
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
	    d.dir, self, (int)(LINES / divisor), d.dir, path, d.dir);
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
	return (double)(LINES / divisor) / took * 1e3;
}

/* script(1), with the same lines through a terminal into a file that nobody syncs, for a look. */
static void
script_beside(void)
{
	char command[3 * PATH_MAX];
	double began = now();

	snprintf(command, sizeof(command),
	    "script -q -e -c '%s speak %ld' %s/typescript </dev/null >/dev/null 2>&1", self,
	    LINES / divisor, d.dir);
	if (system(command) == 0)
		printf(
		    "session: the same lines through script, nothing durable (lines/s) | %.0f | - | - | -\n",
		    (double)(LINES / divisor) / (now() - began) * 1e3);
}

static void
one_worker_is_kept_up_with(void)
{
	char lines[16];
	pid_t pids[WATCHERS];
	double took;
	int i;

	snprintf(lines, sizeof(lines), "%ld", LINES / divisor);
	begin("fast", "speak", lines, NULL);
	for (i = 0; i < WATCHERS; i++)
		pids[i] = watcher("fast", "/dev/null");
	all_end(pids, WATCHERS);
	assert_int_equal((int)of("fast", "lines"), LINES / divisor);
	took = of("fast", "finished_at - started_at");
	more_is_better("session: lines/s of one worker, 4 watch (peer: tmux)",
	    (double)(LINES / divisor) / took * 1e3, tmux(), RATE_TARGET);
	script_beside();
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

/* Resident memory of the daemon's actor ${actor}, in MiB. */
static double
memory(const char *actor)
{
	char path[64], line[128];
	long pages = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)driver_actor(&d, DRIVER_BOX, actor));
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	if (fgets(line, sizeof(line), f) != NULL)
		(void)sscanf(line, "%*d %ld", &pages);
	fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

/* What comes through ${fd}, and how late: lines begin with their time.  Return how many there were.
 */
static long
read_late(int fd, int64_t *late, size_t most, size_t *n)
{
	static char buf[(1 << 18) + 1];
	size_t have = 0;
	char *last;
	long lines = 0;
	ssize_t got;

	*n = 0;
	while ((got = read(fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
		have += (size_t)got;
		buf[have] = '\0';
		if ((last = memrchr(buf, '\n', have)) == NULL)
			continue;
		for (char *at = buf; at <= last; at++)
			lines += *at == '\n';
		/* The first line is the oldest. */
		if (*n < most)
			late[(*n)++] = (int64_t)(now() - strtod(buf, NULL));
		have -= (size_t)(last + 1 - buf);
		memmove(buf, last + 1, have);
	}
	return lines;
}

/* A watcher sees what is durable: how late he sees it is at least how late that is. */
static void
four_follow_a_pace(void)
{
	static int64_t late[100000];
	char lines[16], rate[16];
	pid_t pids[WATCHERS];
	double before = memory("worker"), took;
	long count = (long)PACE * PACE_S / divisor, seen;
	size_t n;
	int i, fd;

	snprintf(lines, sizeof(lines), "%ld", count);
	snprintf(rate, sizeof(rate), "%d", PACE + PACE / 50);
	begin("pace", "speak", lines, rate);
	pids[0] = reader("pace", &fd);
	for (i = 1; i < WATCHERS; i++)
		pids[i] = watcher("pace", "/dev/null");
	seen = read_late(fd, late, sizeof(late) / sizeof(late[0]), &n);
	all_end(pids, WATCHERS);
	close(fd);
	assert_int_equal(seen, count);
	assert_true(n > 0);
	qsort(late, n, sizeof(late[0]), by_size);
	took = of("pace", "finished_at - started_at");
	more_is_better("session: lines/s of a worker that paces itself at 204,000, 4 watch",
	    (double)count / took * 1e3, 0, PACE);
	less_is_better("session: line to its watcher at that pace, median (ms)",
	    (double)late[n / 2], LATE_TARGET);
	less_is_better("session: line to its watcher at that pace, 95 of 100 (ms)",
	    (double)late[n * 95 / 100], LATE_TARGET);
	less_is_better("session: what the worker grew by meanwhile (MiB)",
	    memory("worker") - before, FLAT_TARGET);
}

static void
a_crowd_follows(void)
{
	char lines[16];
	pid_t pids[CROWD];
	double began, took, before = memory("worker");
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
	less_is_better("session: what the worker grew by meanwhile (MiB)",
	    memory("worker") - before, FLAT_TARGET);
}

/* From the start of the program that attaches to its first byte. */
static int64_t
first_byte(void)
{
	static char buf[1 << 16];
	double began = now(), took;
	pid_t pid;
	int fd;

	pid = reader("long", &fd);
	assert_true(read(fd, buf, sizeof(buf)) > 0);
	took = now() - began;
	close(fd);
	waitpid(pid, NULL, 0);
	return (int64_t)(took * 1e3);
}

/* Have the kernel forget what it has of the database. */
static void
forget_pages(void)
{
	char path[PATH_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/bastion.db", d.state[DRIVER_BOX]);
	/* No connection of this process is open, whose locks a close would drop. */
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return;
	(void)fdatasync(fd);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static void
first_bytes(const char *how, int count, void (*before)(void))
{
	static int64_t took[FIRSTS];
	char what[80];
	int i;

	for (i = 0; i < count; i++) {
		if (before != NULL)
			before();
		took[i] = first_byte();
	}
	qsort(took, (size_t)count, sizeof(took[0]), by_size);
	snprintf(what, sizeof(what), "session: attach to 10 million lines, %s, median (ms)", how);
	less_is_better(what, (double)took[count / 2] / 1e3, FIRST_TARGET);
	snprintf(
	    what, sizeof(what), "session: attach to 10 million lines, %s, 99 of 100 (ms)", how);
	less_is_better(what, (double)took[count * 99 / 100] / 1e3, FIRST_TARGET);
}

/* How long until the first byte; and all of it. */
static void
a_long_one_is_read_again(void)
{
	static char buf[1 << 20];
	long count = LONG_LINES / divisor, seen = 0;
	char lines[16];
	double began, took;
	ssize_t n, at;
	pid_t pid;
	int fd;

	snprintf(lines, sizeof(lines), "%ld", count);
	begin("long", "speak", lines, NULL);
	pid = watcher("long", "/dev/null");
	all_end(&pid, 1);
	first_bytes("warm", FIRSTS, NULL);
	first_bytes("cold", COLD, forget_pages);
	began = now();
	pid = reader("long", &fd);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (at = 0; at < n; at++)
			seen += buf[at] == '\n';
	took = now() - began;
	close(fd);
	all_end(&pid, 1);
	assert_int_equal(seen, count);
	more_is_better("session: replay, lines/s", (double)count / took * 1e3, 0, REPLAY_TARGET);
}

/* Its times, of the session ${s}: asked; taken from the queue; ready and noted; its first look at
 * the clock. */
static const char *const MOMENTS[] = {"s.queued_at",
    "(SELECT launched_at FROM attempt WHERE session_id = s.id)",
    "(SELECT at FROM audit WHERE entity = 'attempt' AND action = 'running'"
    "   AND entity_id = (SELECT id FROM attempt WHERE session_id = s.id))",
    "(SELECT CAST(substr(CAST(data AS TEXT), 1, 13) AS INTEGER) FROM session_output"
    "  WHERE session_id = s.id AND seq = 1)"};

/* Part ${part} of the starts, sorted: from one moment to the next. */
static void
part_of(const int64_t at[STARTS][4], int from, int to, int64_t out[STARTS])
{
	int i;

	for (i = 0; i < STARTS; i++)
		out[i] = at[i][to] - at[i][from];
	qsort(out, STARTS, sizeof(out[0]), by_size);
}

/* From the row that asks to the first look at the clock of a small program. */
static void
sessions_begin(const char *how, const char *option, double target)
{
	static const char *const parts[] = {
	    "ask to queue's end", "queue's end to ready", "ready to exec"};
	static int64_t at[STARTS][4], took[STARTS];
	char name[32], what[80];
	pid_t pid;
	int i, k;

	for (i = 0; i < STARTS; i++) {
		snprintf(name, sizeof(name), "%s%d", how, i);
		if (option == NULL)
			driver_does(&said, NULL, "session", "run", "--detach", "--name", name, "--",
			    "date", "+%s%3N", NULL);
		else
			driver_does(&said, NULL, "session", "run", "--detach", option, "--name",
			    name, "--", "date", "+%s%3N", NULL);
		pid = watcher(name, "/dev/null");
		all_end(&pid, 1);
		for (k = 0; k < 4; k++)
			at[i][k] = (int64_t)of(name, MOMENTS[k]);
	}
	for (k = 0; k < 3; k++) {
		part_of(at, k, k + 1, took);
		printf("session: %s, %s, median; at best (ms) | %d | %d | - | -\n", how, parts[k],
		    (int)took[STARTS / 2], (int)took[0]);
	}
	part_of(at, 0, 3, took);
	snprintf(what, sizeof(what), "session: %s, request to exec, median (ms)", how);
	less_is_better(what, (double)took[STARTS / 2], target);
}

static void
a_session_begins(void)
{
	sessions_begin("command", NULL, START_TARGET);
	sessions_begin("held", "--sandbox", START_TARGET);
}

static const char MANY[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)"
    " INSERT INTO session (id, name, argv, cwd, by_uid, max_attempts, queued_at, not_before)"
    " SELECT (SELECT id FROM next_session_number) + i, 'm' || i, '[\"sleep\",\"0.1\"]', '/', ?2, 1,"
    "        now_ms(), now_ms() FROM n";

/* The last of them is taken from the queue then. */
#define UNTIL                                                                                 \
	"(SELECT max(launched_at) FROM attempt AS a JOIN session AS s ON s.id = a.session_id" \
	"  WHERE s.name GLOB 'm*')"

static void
many_asked(int count)
{
	struct store *db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, NULL);
	sqlite3_stmt *q;

	assert_int_equal(store_begin(db), 0);
	assert_int_equal(sqlite3_prepare_v2(store_handle(db), MANY, -1, &q, NULL), SQLITE_OK);
	sqlite3_bind_int(q, 1, count);
	sqlite3_bind_int(q, 2, (int)getuid());
	if (sqlite3_step(q) != SQLITE_DONE)
		fail_msg("%s", sqlite3_errmsg(store_handle(db)));
	sqlite3_finalize(q);
	assert_int_equal(store_commit(db), 0);
	store_close(db);
}

/* All at once: what part of the places' time was used while somebody waited; and none is lost. */
static void
many_wait(void)
{
	int count = (int)(QUEUED / divisor), i;
	double span, used;
	char places[8];

	snprintf(places, sizeof(places), "%d", PLACES);
	driver_does(&said, NULL, "settings", "set", "session.slots", places, NULL);
	many_asked(count);
	for (i = 1; i <= 20; i++)
		driver_until(&d, DRIVER_BOX, 1,
		    "SELECT count(*) >= %d FROM session WHERE name GLOB 'm*' AND state = 'done'",
		    count * i / 20);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM attempt AS a JOIN session AS s"
			     " ON s.id = a.session_id WHERE s.name GLOB 'm*'"),
	    count);
	span = (double)driver_value(&d, DRIVER_BOX,
	    "SELECT " UNTIL " - min(launched_at) FROM attempt AS a JOIN session AS s"
	    " ON s.id = a.session_id WHERE s.name GLOB 'm*'");
	used = (double)driver_value(&d, DRIVER_BOX,
	    "SELECT sum(min(ended_at, " UNTIL ") - launched_at) FROM attempt AS a"
	    " JOIN session AS s ON s.id = a.session_id WHERE s.name GLOB 'm*'");
	printf(
	    "session: %d of %d ms on %d places, until the queue is empty (ms) | %.0f | %d | %.2f | -\n",
	    count, WORK_MS, PLACES, span, count * WORK_MS / PLACES,
	    span / ((double)count * WORK_MS / PLACES));
	more_is_better("session: places in use while somebody waits (%)",
	    100 * used / (PLACES * span), 0, USED_TARGET);
}

/* The parts, by the names that the command line may give. */
static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {{"fast", one_worker_is_kept_up_with}, {"late", a_row_is_soon_there},
    {"pace", four_follow_a_pace}, {"crowd", a_crowd_follows}, {"long", a_long_one_is_read_again},
    {"start", a_session_begins}, {"many", many_wait}};

static char **wanted; /* NULL: all */

static bool
is_wanted(const char *name)
{
	char **w;

	for (w = wanted; w != NULL && *w != NULL; w++)
		if (strcmp(*w, name) == 0)
			return true;
	return wanted == NULL;
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
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (is_wanted(parts[i].name))
			parts[i].run();
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
	/* For a look: bench_session 10 many start, with a tenth of the work. */
	if (argc > 1 && (divisor = strtol(argv[1], NULL, 10)) < 1)
		return 2;
	if (argc > 2)
		wanted = argv + 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
