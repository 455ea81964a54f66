/* test_session_faults.c: sessions while things die: kills at random, full disks, bad watchers, bad
 * programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/slower.h"

#define KILLS    (SLOWER > 1 ? 8 : 30) /* a sanitizer makes a start ten times as slow */
#define PLACES   5
#define WATCHERS 2
#define MANY     150       /* sessions */
#define LONGEST  268435456 /* bytes of one line */
#define LOG_MOST 67108864  /* bytes: twice what the log grows to before it is folded */

static struct driver d;
static struct said said, rows;
static char program[PATH_MAX];

static int
make(void **state)
{
	static const char *const settings[][2] = {{"session.backoff_ms", "1"},
	    {"session.drain_ms", "200"}, {"session.kill_ms", "200"}, {"actor.backoff_ms", "1"},
	    {"actor.backoff_cap_ms", "20"}, {"session.slots", "8"}};
	size_t i;

	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		driver_does(&said, NULL, "settings", "set", settings[i][0], settings[i][1], NULL);
	assert_non_null(
	    realpath(getenv("BASTION") != NULL ? getenv("BASTION") : "build/bastion", program));
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	if (d.serving[DRIVER_BOX] != 0)
		driver_end(&d, DRIVER_BOX, SIGTERM);
	if (geteuid() == 0 && umount2(d.state[DRIVER_BOX], MNT_DETACH) == 0)
		rmdir(d.state[DRIVER_BOX]);
	driver_drop(&d);
	return 0;
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void
shell(const char *format, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

static void
detached(const char *name, const char *script)
{
	driver_does(&said, NULL, "session", "run", "--detach", "--cwd", d.dir, "--name", name, "--",
	    "sh", "-c", script, NULL);
}

static void
is(const char *name, const char *state)
{
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM session WHERE name = '%s'"
	    " AND state || coalesce(' ' || end_reason, '') = '%s'",
	    name, state);
}

static int64_t
of(const char *name, const char *column)
{
	return driver_value(
	    &d, DRIVER_BOX, "SELECT %s FROM session WHERE name = '%s'", column, name);
}

/* How many processes have ${text} in their environment: all that a session ever started has. */
static int
living(const char *text)
{
	static char buf[65536];
	struct dirent *e;
	int n = 0, fd;
	char path[300];
	ssize_t len;
	DIR *proc = opendir("/proc");

	assert_non_null(proc);
	while ((e = readdir(proc)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%s/environ", e->d_name);
		if (!isdigit((unsigned char)e->d_name[0]) ||
		    (fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
			continue;
		if ((len = read(fd, buf, sizeof(buf))) > 0)
			n += memmem(buf, (size_t)len, text, strlen(text)) != NULL;
		close(fd);
	}
	closedir(proc);
	return n;
}

static void
nobody_lives(const char *text)
{
	int64_t limit = driver_now() + DRIVER_WAIT_MS;

	while (living(text) > 0) {
		if (driver_now() > limit)
			fail_msg("%d processes of %s live on", living(text), text);
		driver_pause();
	}
}

/*
 * Kills.
 */

/* A session that is worked on, and who watches it. */
static struct place {
	char name[32];
	struct job watchers[WATCHERS];
} places[PLACES];
static int begun, looked, whole;

/* Says numbers, and a last word where it came to its end; leaves somebody behind each time. */
static const char WORK[] = "echo begin $BASTION_ATTEMPT; setsid sleep 600 >/dev/null 2>&1 & "
			   "seq 1 4000; sleep 0.0$(( $$ % 9 )); seq 4001 8000; echo all of it";

static void
place_fill(struct place *p)
{
	const char *words[] = {"session", "attach", p->name, NULL};
	int i;

	snprintf(p->name, sizeof(p->name), "k%d-%d", (int)getpid(), begun);
	/* The daemon may be dead just now. */
	if (driver_run(&said, NULL, "session", "run", "--detach", "--attempts", "3", "--name",
		p->name, "--", "sh", "-c", WORK, NULL) != 0) {
		assert_int_equal(said.code, 75);
		p->name[0] = '\0';
		return;
	}
	begun++;
	for (i = 0; i < WATCHERS; i++)
		driver_start(&p->watchers[i], NULL, words);
}

/* What a watcher saw is the beginning of what the rows have; one who saw the end saw all. */
static void
watcher_saw_the_truth(struct place *p, struct job *job)
{
	bool ended;

	driver_finish(job, &said);
	ended = said.code != 128 + SIGKILL;
	if (said.code == 128 + SIGABRT || said.code == 128 + SIGSEGV)
		fail_msg("a watcher of %s crashed: %s", p->name, said.err);
	if (strncmp(said.out, rows.out, strlen(said.out)) != 0)
		fail_msg("a watcher of %s saw what the rows have not", p->name);
	if (ended && strlen(said.out) != strlen(rows.out))
		fail_msg("a watcher of %s saw %zu bytes of %zu, and left with %d: %s", p->name,
		    strlen(said.out), strlen(rows.out), said.code, said.err);
	looked++;
}

static void
place_empty(struct place *p)
{
	int i;

	driver_does(&rows, NULL, "session", "logs", p->name, NULL);
	for (i = 0; i < WATCHERS; i++)
		watcher_saw_the_truth(p, &p->watchers[i]);
	if (driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM session WHERE name = '%s' AND state = 'done'",
		p->name) == 1) {
		assert_non_null(strstr(rows.out, "\n8000\nall of it\n"));
		whole++;
	}
	p->name[0] = '\0';
}

static void
traffic(void)
{
	struct place *p;

	for (p = places; p < places + PLACES; p++) {
		if (p->name[0] != '\0' && of(p->name, "finished_at IS NOT NULL") == 1)
			place_empty(p);
		if (p->name[0] == '\0')
			place_fill(p);
	}
}

/* One of them, by chance.  Return whether it was there. */
static bool
kill_one(void)
{
	struct place *p = &places[random() % PLACES];
	pid_t pid = 0;

	switch (random() % 6) {
	case 0:
		driver_end(&d, DRIVER_BOX, SIGKILL);
		driver_serve(&d, DRIVER_BOX);
		return true;
	case 1:
	case 2:
		pid = driver_actor(&d, DRIVER_BOX, "worker");
		break;
	case 3:
	case 4:
		if (p->name[0] != '\0')
			pid = (pid_t)driver_value(&d, DRIVER_BOX,
			    "SELECT coalesce(pid, 0) FROM sessions WHERE name = '%s'", p->name);
		break;
	default:
		if (p->name[0] != '\0' && !driver_finished(&p->watchers[0]))
			pid = p->watchers[0].pid;
	}
	return pid > 1 && kill(pid, SIGKILL) == 0;
}

static void
holds_now(void)
{
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM session AS s WHERE state = 'done' AND NOT EXISTS"
		" (SELECT 1 FROM attempt AS a WHERE a.session_id = s.id AND a.outcome = 'success')"),
	    0);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM attempt WHERE ended_at IS NULL AND launched_at"
			     " < (SELECT max(started_at) FROM instance)"),
	    0);
}

/* SE-13, PO-19: kill -9 of worker, supervisor, leaders and watchers at random instants, while
 * sessions write and are watched: what was seen is in the rows, what reads as done came to its end,
 * nothing hangs, and nobody lives on. */
static void
nothing_seen_is_lost(void **state)
{
	int kills = getenv("KILLS") != NULL ? atoi(getenv("KILLS")) : KILLS, n = 0, i;
	unsigned seed =
	    getenv("SEED") != NULL ? (unsigned)atoi(getenv("SEED")) : (unsigned)time(NULL);
	struct timespec ts = {0};
	char mark[48];

	(void)state;
	print_message("SEED=%u KILLS=%d\n", seed, kills);
	srandom(seed);
	driver_does(&said, NULL, "settings", "set", "session.kept", "1000", NULL);
	while (n < kills) {
		traffic();
		ts.tv_nsec = random() % 60000000;
		nanosleep(&ts, NULL);
		if (kill_one()) {
			n++;
			holds_now();
		}
	}
	for (i = 0; i < PLACES; i++)
		if (places[i].name[0] != '\0') {
			driver_until(&d, DRIVER_BOX, 1,
			    "SELECT finished_at IS NOT NULL FROM session WHERE name = '%s'",
			    places[i].name);
			place_empty(&places[i]);
		}
	holds_now();
	snprintf(mark, sizeof(mark), "BASTION_SESSION=k%d-", (int)getpid());
	nobody_lives(mark);
	driver_does(&said, NULL, "audit", "verify", NULL);
	print_message(
	    "%d kills; %d sessions, %d whole, %d watchers compared\n", n, begun, whole, looked);
}

/*
 * The disk.
 */

static void
disk_make(const char *size)
{
	char options[64];

	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_true(mkdir(d.state[DRIVER_BOX], 0700) == 0 || errno == EEXIST);
	snprintf(options, sizeof(options), "size=%s,mode=0700", size);
	assert_int_equal(
	    mount("tmpfs", d.state[DRIVER_BOX], "tmpfs", MS_NOSUID | MS_NODEV, options), 0);
}

static int
make_disk(void **state)
{
	(void)state;
	if (geteuid() != 0)
		return 0;
	driver_make(&d);
	disk_make("24m");
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "settings", "set", "session.slots", "2", NULL);
	driver_does(&said, NULL, "settings", "set", "store.tick_ms", "100", NULL);
	return 0;
}

/* One whose network cannot be made fails and says why, and whoever waits behind it has its turn. */
static void
who_cannot_begin_is_in_nobodys_way(void **state)
{
	(void)state;
	driver_make(&d);
	if (geteuid() != 0)
		skip();
	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("/proc", "/dev/shm", NULL, MS_BIND, NULL), 0);
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "settings", "set", "session.slots", "1", NULL);
	driver_does(&said, NULL, "worker", "add", "laned", "--net", "lane", "--", "true", NULL);
	driver_does(&said, NULL, "session", "run", "--detach", "--name", "a", "--attempts", "1",
	    "--cwd", "/tmp", "laned", NULL);
	driver_does(&said, NULL, "session", "run", "--name", "b", "--", "true", NULL);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM attempt AS t JOIN session AS s ON s.id = t.session_id"
		" WHERE s.name = 'a' AND s.state = 'failed' AND t.outcome = 'launch'"
		"   AND t.why GLOB '*it is no tmpfs*'"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM sandbox_run WHERE state <> 'failed'"),
	    0);
	assert_int_equal(umount2("/dev/shm", MNT_DETACH), 0);
}

static void
disk_fill(void)
{
	static const char zeros[4096];
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/filler", d.state[DRIVER_BOX]);
	assert_true((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) != -1);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
	close(fd);
}

static void
log_says(const char *text)
{
	static char log[65536];
	int64_t limit = driver_now() + DRIVER_WAIT_MS;
	FILE *f;

	for (;;) {
		assert_non_null(f = fopen(d.log[DRIVER_BOX], "re"));
		log[fread(log, 1, sizeof(log) - 1, f)] = '\0';
		fclose(f);
		if (strstr(log, text) != NULL)
			return;
		if (driver_now() > limit)
			fail_msg("the log does not say \"%s\": %s", text, log);
		driver_pause();
	}
}

/* A full disk: what sessions say waits, and so do they; one that ended meanwhile, and one that
 * could not begin, are what they are when there is room again.  The daemon serves all the time. */
static void
full_disk_is_a_pause(void **state)
{
	pid_t worker;

	(void)state;
	if (geteuid() != 0)
		skip();
	detached("says", "echo here; while [ ! -e go ]; do sleep 0.01; done; seq 1 900000");
	detached("ends", "while [ ! -e go ]; do sleep 0.01; done; echo last; exit 3");
	detached("waits", "echo waited");
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 'says'");
	worker = driver_actor(&d, DRIVER_BOX, "worker");
	disk_fill();
	shell("touch %s/go", d.dir);
	log_says("as it could not be kept");
	assert_int_equal(of("says", "state = 'running'"), 1);
	assert_int_equal(of("says", "finished_at IS NULL"), 1);
	driver_does(&said, NULL, "session", NULL);
	driver_does(&said, NULL, "status", NULL);
	assert_int_equal(driver_actor(&d, DRIVER_BOX, "worker"), worker);
	shell("rm %s/filler", d.state[DRIVER_BOX]);
	is("says", "done");
	is("ends", "failed attempts");
	is("waits", "done");
	assert_int_equal(of("ends", "exit_code"), 3);
	assert_int_equal(driver_actor(&d, DRIVER_BOX, "worker"), worker);
	shell("(echo here; seq 1 900000) > %s/expected; %s session logs says | cmp - %s/expected",
	    d.dir, program, d.dir);
}

/*
 * Watchers.
 */

/* In a group of its own, as a shell starts it: only then a terminal's Ctrl-Z stops it. */
static pid_t
watcher(const char *name, int out)
{
	pid_t pid;

	fflush(NULL);
	if ((pid = fork()) == 0) {
		setpgid(0, 0);
		dup2(out, 1);
		execl(program, "bastion", "session", "attach", name, (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	close(out);
	return pid;
}

/* One that nobody reads: its pipe is full. */
static pid_t
stalled_watcher(const char *name, int *end)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	*end = ends[0];
	return watcher(name, ends[1]);
}

static int
opened(const char *name, int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", d.dir, name);
	assert_true((fd = open(path, flags | O_CLOEXEC, 0600)) != -1);
	return fd;
}

static int64_t
log_bytes(void)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/bastion.db-wal", d.state[DRIVER_BOX]);
	return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* Slow, stalled, stopped and vanishing watchers: the writer does not wait, the log does not grow,
 * and whoever comes to again misses nothing. */
static void
watchers_cost_nothing(void **state)
{
	static const char *const words[] = {"session", "attach", "w", NULL};
	static char buf[65536];
	pid_t stalled, stopped;
	int end, out, status;
	size_t total = 0;
	struct job gone;
	ssize_t n;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.history", "1073741824", NULL);
	detached("w",
	    "while [ ! -e go ]; do sleep 0.01; done; seq 1 20000;"
	    " while [ ! -e on ]; do sleep 0.01; done; yes 0123456789abcdef | head -n 9000000");
	stalled = stalled_watcher("w", &end);
	stopped = watcher("w", opened("stopped", O_WRONLY | O_CREAT));
	out = opened("stopped", O_RDONLY);
	driver_start(&gone, NULL, words);
	shell("touch %s/go", d.dir);
	while (lseek(out, 0, SEEK_END) < 108894) /* seq 1 20000 */
		driver_pause();
	close(out);
	kill(stopped, SIGTSTP);
	assert_int_equal(waitpid(stopped, &status, WUNTRACED), stopped);
	assert_true(WIFSTOPPED(status));
	kill(gone.pid, SIGKILL);
	driver_finish(&gone, NULL);
	shell("touch %s/on", d.dir);
	is("w", "done");
	assert_int_equal(waitpid(stalled, NULL, WNOHANG), 0); /* it stands there still */
	assert_true(log_bytes() < LOG_MOST);
	kill(stopped, SIGCONT);
	assert_int_equal(waitpid(stopped, &status, 0), stopped);
	assert_int_equal(status, 0);
	while ((n = read(end, buf, sizeof(buf))) > 0)
		total += (size_t)n;
	close(end);
	assert_int_equal(waitpid(stalled, NULL, 0), stalled);
	assert_int_equal(total, of("w", "bytes"));
	shell(
	    "(seq 1 20000; yes 0123456789abcdef | head -n 9000000) > %s/expected; %s session logs w | cmp - %s/expected",
	    d.dir, program, d.dir);
}

/*
 * Programs.
 */

/* The peak of memory that the worker held, in KiB. */
static long
worker_peak(void)
{
	char path[64], line[256];
	long kib = -1;
	FILE *f;

	snprintf(
	    path, sizeof(path), "/proc/%d/status", (int)driver_actor(&d, DRIVER_BOX, "worker"));
	assert_non_null(f = fopen(path, "re"));
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

/* LA-03, RF-19: a line of 256 MiB: memory stays flat, and of the line is kept what is kept. */
static void
longest_line_is_flat(void **state)
{
	long before, after;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.history", "16777216", NULL);
	detached("warm", "head -c 4000000 /dev/zero");
	is("warm", "done");
	before = worker_peak();
	detached("l", "head -c 268435456 /dev/zero; echo");
	is("l", "done");
	after = worker_peak();
	assert_int_equal(of("l", "bytes"), LONGEST + 1);
	assert_int_equal(of("l", "lines"), 1);
	assert_true(driver_value(&d, DRIVER_BOX,
			"SELECT sum(length(data)) FROM session_output AS o JOIN session AS s"
			" ON s.id = o.session_id WHERE s.name = 'l'") < 2 * 16777216);
	if (SLOWER == 1 && before > 0 &&
	    after > before + 8192) /* a sanitizer keeps what is freed */
		fail_msg("the worker held %ld KiB at most, then %ld", before, after);
}

/* PO-13, KI-04: who forks twice, into a session of his own, closes everything and lives on, ends
 * with his session: also where its leader ended well, and where the worker dies. */
static void
nobody_lives_on(void **state)
{
	static const char leaves[] =
	    "(setsid sh -c 'trap \"\" TERM HUP; sleep 600; sleep 600' <&- >&- 2>&- &) ; echo left";
	char name[32], mark[64], script[256];

	(void)state;
	snprintf(name, sizeof(name), "n%d", (int)getpid());
	snprintf(mark, sizeof(mark), "BASTION_SESSION=%s", name);
	detached(name, leaves);
	is(name, "done");
	nobody_lives(mark);
	driver_does(&said, NULL, "session", "rm", name, NULL);
	snprintf(script, sizeof(script), "%s; sleep 600", leaves);
	detached(name, script);
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = '%s'", name);
	assert_true(living(mark) >= 2);
	driver_kill(&d, DRIVER_BOX, "worker");
	is(name, "failed daemon");
	nobody_lives(mark);
	driver_does(&said, NULL, "session", "rm", name, NULL);
	detached(name, script);
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = '%s'", name);
	driver_end(&d, DRIVER_BOX, SIGKILL);
	driver_serve(&d, DRIVER_BOX);
	is(name, "failed daemon");
	nobody_lives(mark);
}

/* Many short ones, side by side: each ends as it ended, and the worker that ran the first runs the
 * last. */
static void
many_short_ones_all_end(void **state)
{
	pid_t worker = driver_actor(&d, DRIVER_BOX, "worker");
	char name[16];
	int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		driver_does(
		    &said, NULL, "session", "run", "--detach", "--name", name, "--", "true", NULL);
	}
	driver_until(&d, DRIVER_BOX, MANY, "SELECT count(*) FROM session WHERE finished_at > 0");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session WHERE state = 'done'"),
	    MANY);
	assert_int_equal(driver_actor(&d, DRIVER_BOX, "worker"), worker);
}

/* A process that traces ${pid} and looks at nothing, or -1. */
static pid_t
traced(pid_t pid)
{
	pid_t tracer = fork();
	int64_t limit = driver_now() + DRIVER_WAIT_MS;
	char path[64], text[2048];
	ssize_t n;
	int fd;

	if (tracer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0)
			pause();
		_exit(1);
	}
	assert_true(tracer > 0);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	while (waitpid(tracer, NULL, WNOHANG) == 0 && driver_now() < limit) {
		assert_int_not_equal(fd = open(path, O_RDONLY | O_CLOEXEC), -1);
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
		text[n > 0 ? n : 0] = '\0';
		if (strstr(text, "TracerPid:\t0\n") == NULL)
			return tracer;
		driver_pause();
	}
	return -1;
}

static void
let_go(pid_t tracer)
{
	assert_int_equal(kill(tracer, SIGKILL), 0);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);
}

/* What the worker used of a processor, in milliseconds. */
static long
worker_used(void)
{
	char path[64], text[1024], *at;
	unsigned long user, kernel;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)driver_actor(&d, DRIVER_BOX, "worker"));
	assert_non_null(f = fopen(path, "re"));
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_non_null(at = strrchr(text, ')'));
	assert_int_equal(
	    sscanf(at + 2, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &user, &kernel),
	    2);
	return (long)((user + kernel) * 1000 / (unsigned long)sysconf(_SC_CLK_TCK));
}

/* One that is over while somebody traces it is nobody's to reap: the worker waits for that without
 * being busy, and serves the others. */
static void
a_traced_leader_is_waited_for(void **state)
{
	const struct timespec while_ = {.tv_nsec = 400000000};
	pid_t worker, pid, tracer;
	long used;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "store.tick_ms", "100", NULL);
	worker = driver_actor(&d, DRIVER_BOX, "worker");
	detached("t", "echo here; exec sleep 600");
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 't'");
	pid = (pid_t)driver_value(&d, DRIVER_BOX, "SELECT pid FROM sessions WHERE name = 't'");
	if ((tracer = traced(pid)) == -1)
		skip();
	assert_int_equal(kill(pid, SIGKILL), 0);
	used = worker_used();
	nanosleep(&while_, NULL);
	used = worker_used() - used;
	detached("o", "true");
	is("o", "done");
	is("t", "running");
	let_go(tracer);
	is("t", "failed attempts");
	assert_int_equal(of("t", "exit_code"), 128 + SIGKILL);
	assert_int_equal(driver_actor(&d, DRIVER_BOX, "worker"), worker);
	if (SLOWER == 1 && used > 100)
		fail_msg("the worker was busy for %ld ms of 400", used);
}

/* The same of what such a session left behind: it is over, and so is what comes next. */
static void
a_traced_orphan_holds_nobody_up(void **state)
{
	pid_t worker, tracer;
	int pid = 0;
	char text[32];
	ssize_t n;
	int fd;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "store.tick_ms", "100", NULL);
	worker = driver_actor(&d, DRIVER_BOX, "worker");
	detached("t", "setsid sleep 600 >/dev/null 2>&1 & echo $! >pid; echo here;"
		      " while [ ! -e go ]; do sleep 0.01; done");
	driver_until(&d, DRIVER_BOX, 1, "SELECT lines FROM session WHERE name = 't'");
	fd = opened("pid", O_RDONLY);
	assert_true((n = read(fd, text, sizeof(text) - 1)) > 0);
	close(fd);
	text[n] = '\0';
	assert_int_equal(sscanf(text, "%d", &pid), 1);
	assert_true(pid > 1);
	if ((tracer = traced(pid)) == -1)
		skip();
	shell("touch %s/go", d.dir);
	is("t", "done");
	detached("o", "true");
	is("o", "done");
	assert_int_equal(kill(pid, 0), 0);
	let_go(tracer);
	while (kill(pid, 0) == 0)
		driver_pause();
	assert_int_equal(driver_actor(&d, DRIVER_BOX, "worker"), worker);
}

/* As a kernel without nf_tables: for good, in this process and all that it starts. */
static int
make_without_nf_tables(void **state)
{
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);

	assert_non_null(c);
	assert_int_equal(
	    seccomp_rule_add(c, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
		SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_EQ, NETLINK_NETFILTER)),
	    0);
	if (geteuid() == 0)
		seccomp_attr_set(c, SCMP_FLTATR_CTL_NNP, 0);
	assert_int_equal(seccomp_load(c), 0);
	seccomp_release(c);
	return make(state);
}

/* Where the kernel has no network for the lane, each attempt fails and says why, and whoever waits
 * behind it has its turn. */
static void
no_lane_is_no_session_for_good(void **state)
{
	(void)state;
	driver_does(&said, NULL, "settings", "set", "session.slots", "1", NULL);
	driver_does(&said, NULL, "worker", "add", "laned", "--net", "lane", "--", "true", NULL);
	driver_does(&said, NULL, "session", "run", "--detach", "--name", "a", "--attempts", "2",
	    "--cwd", d.dir, "laned", NULL);
	is("a", "failed launch");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM attempt WHERE outcome = 'launch' AND why GLOB '*nf_tables*'"),
	    2);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM sandbox_run WHERE state <> 'failed'"),
	    0);
	detached("b", "true");
	is("b", "done");
	assert_int_equal(driver_end(&d, DRIVER_BOX, SIGTERM), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(nothing_seen_is_lost, make, drop),
	    cmocka_unit_test_setup_teardown(watchers_cost_nothing, make, drop),
	    cmocka_unit_test_setup_teardown(longest_line_is_flat, make, drop),
	    cmocka_unit_test_setup_teardown(nobody_lives_on, make, drop),
	    cmocka_unit_test_setup_teardown(many_short_ones_all_end, make, drop),
	    cmocka_unit_test_setup_teardown(full_disk_is_a_pause, make_disk, drop),
	    cmocka_unit_test_setup_teardown(a_traced_leader_is_waited_for, make, drop),
	    cmocka_unit_test_setup_teardown(a_traced_orphan_holds_nobody_up, make, drop),
	    cmocka_unit_test_teardown(who_cannot_begin_is_in_nobodys_way, drop),
	    /* The last: what it makes of this process stays. */
	    cmocka_unit_test_setup_teardown(
		no_lane_is_no_session_for_good, make_without_nf_tables, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
