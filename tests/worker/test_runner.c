/* test_runner.c: runs in processes of their own, and what becomes of those. */
#include "tests/worker/ask.h"

#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "engine/worker/kill.h"
#include "engine/worker/pump.h"
#include "engine/worker/runner.h"
#include "engine/worker/seal.h"
#include "engine/worker/tool.h"

#define APPEAR_MS 10000 /* until a process that was asked for is there */

static struct observe_limits limits;
static struct observe_env env;
static struct runner runner;
static char root[64];
static int can_mount;

/* What came out of a run. */
struct output {
	char text[1 << 16];
	size_t len;
};

static int
set_up(void **state)
{
	struct refusal refusal;

	(void)state;
	observe_defaults(&limits, &env);
	limits.memory_max = ASK_MEMORY;
	limits.kill_ms = 200;
	strcpy(root, "/tmp/bastion-runner-XXXXXX");
	if (mkdtemp(root) == NULL)
		return -1;
	if (runner_start(&runner, "/proc/self/exe", &refusal) == -1) {
		print_error("%s: %s\n", refusal.code, refusal.why);
		return -1;
	}
	return 0;
}

static int
tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf --one-file-system '%s'", root);
	return runner_stop(&runner) == 0 && system(command) == 0 ? 0 : -1;
}

static int
take_frame(void *ctx, const char *frame, size_t len)
{
	struct output *o = ctx;

	assert_true(o->len + len + 2 < sizeof(o->text));
	memcpy(o->text + o->len, frame, len);
	o->len += len;
	o->text[o->len++] = '\n';
	o->text[o->len] = '\0';
	return 0;
}

/* Start an op; its answer can be read from the descriptor. */
static int
start(const char *op, const char *first, uint64_t *id)
{
	const char *const words[] = {first, NULL};
	struct observe_args args;
	struct refusal refusal;
	int fd = -1;

	assert_int_equal(ask_check(op, words, &args, &refusal), 0);
	assert_int_equal(
	    runner_spawn(&runner, observe_find(op), &args, &limits, &env, &fd, id, &refusal), 0);
	return fd;
}

/* Read until the end of the answer, at most ${ms}.  Return 0, or 1 if it is still open. */
static int
drain(int fd, struct output *o, int ms)
{
	int64_t deadline = tool_now_ms() + ms, left;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct pump pump;
	int rc = 1;

	memset(o, 0, sizeof(*o));
	assert_int_equal(pump_init(&pump, fd, 1 << 16, 1 << 20, take_frame, o), 0);
	while (rc == 1 && (left = deadline - tool_now_ms()) > 0) {
		if (poll(&p, 1, (int)left) == 1)
			rc = pump_read(&pump);
	}
	pump_free(&pump);
	return rc;
}

/* Wait for the next event, at most ${ms}.  Return as runner_event. */
static int
next_event(struct runner_event *e, int ms)
{
	struct pollfd p = {.fd = runner_fd(&runner), .events = POLLIN};

	poll(&p, 1, ms);
	return runner_event(&runner, e);
}

static void
expect_exit(uint64_t id, int code)
{
	struct runner_event e;

	assert_int_equal(next_event(&e, 5000), 1);
	assert_int_equal(e.kind, RUNNER_EXITED);
	assert_int_equal(e.id, id);
	assert_true(WIFEXITED(e.status));
	assert_int_equal(WEXITSTATUS(e.status), code);
}

/* A stand-in program that hangs, with a child that hangs too, and says that it is one. */
static void
stand_in(const char *name, const char *body, char *path, size_t len)
{
	char text[1024];

	snprintf(path, len, "%s/%s", root, name);
	snprintf(
	    text, sizeof(text), "#!/bin/sh\n# a stand-in for %s, made by a test\n%s\n", name, body);
	ask_write(path, text, 0755);
}

static void
answers_and_exits(void **state)
{
	struct output o;
	uint64_t id;
	int fd;

	(void)state;
	fd = start("observe:folders", root, &id);
	assert_int_equal(drain(fd, &o, 5000), 0);
	close(fd);
	assert_memory_equal(o.text, "{\"r\":{", 6);
	assert_non_null(strstr(o.text, root));
	expect_exit(id, OBSERVE_DONE);
}

/* A closed port is refused before anything is dialled: OBS-12, here through the runner. */
static void
exit_code_is_the_ops(void **state)
{
	struct output o;
	uint64_t id;
	int fd;

	(void)state;
	stand_in("ss", "exit 0", env.ss, sizeof(env.ss));
	fd = start("observe:cert", "443", &id);
	assert_int_equal(drain(fd, &o, 5000), 0);
	close(fd);
	assert_non_null(strstr(o.text, "observe.port_closed"));
	expect_exit(id, OBSERVE_WRONG);
}

/* Sockets that the runner holds; every other descriptor must be one that it has to have. */
static int
count_sockets(void)
{
	char path[64], link[256];
	struct dirent *e;
	ssize_t n;
	DIR *d;
	int sockets = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)runner.pid);
	assert_non_null(d = opendir(path));
	while ((e = readdir(d)) != NULL) {
		n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);
		if (n <= 0 || strcmp(e->d_name, "2") == 0)
			continue;
		link[n] = '\0';
		sockets += strncmp(link, "socket:", 7) == 0;
		assert_true(strcmp(link, "/dev/null") == 0 || strncmp(link, "socket:", 7) == 0 ||
			    strcmp(link, "anon_inode:[signalfd]") == 0);
	}
	closedir(d);
	return sockets;
}

/* DESIGN 3: the runner and its children hold no descriptor, variable or name of the worker. */
static void
inherits_nothing(void **state)
{
	int64_t deadline = tool_now_ms() + 5000;
	char path[64], text[4096];
	ssize_t n;
	int fd;

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root to look into a process that is not dumpable\n");
		skip();
	}
	/* One to us, one to the child that stands ready; while that is made there is one more. */
	while (count_sockets() != 2)
		assert_true(tool_now_ms() < deadline);
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)runner.pid);
	assert_int_not_equal(fd = open(path, O_RDONLY | O_CLOEXEC), -1);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(n >= 0);
	text[n] = '\0';
	assert_null(memmem(text, (size_t)n, "BASTION_TEST_SECRET", 19));
	snprintf(path, sizeof(path), "/proc/%d/status", (int)runner.pid);
	assert_int_not_equal(fd = open(path, O_RDONLY | O_CLOEXEC), -1);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n] = '\0';
	assert_non_null(strstr(text, "NoNewPrivs:\t1"));
}

/* The run number ${n} of those that live, which leads its group; behind the runs stands the spare.
 */
static pid_t
find_child(int n)
{
	int64_t until = tool_now_ms() + APPEAR_MS;
	char path[64];
	int children[16], count;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)runner.pid, (int)runner.pid);
	do {
		assert_true(tool_now_ms() < until);
		assert_non_null(f = fopen(path, "r"));
		for (count = 0; count < 16 && fscanf(f, "%d", &children[count]) == 1; count++)
			continue;
		fclose(f);
	} while (count < n + 1);
	return n > 0 ? children[n - 1] : 0;
}

/* Wait until the run's stand-in, which ignores SIGTERM, is up: the run and two more in its group.
 */
static void
wait_members(pid_t group, int want)
{
	int64_t until = tool_now_ms() + APPEAR_MS;
	char command[64];
	int n = 0;
	FILE *p;

	snprintf(command, sizeof(command), "ps -e -o pgid= | grep -c -w %d", (int)group);
	while (n < want) {
		assert_true(tool_now_ms() < until);
		assert_non_null(p = popen(command, "r"));
		assert_int_equal(fscanf(p, "%d", &n), 1);
		pclose(p);
	}
}

/* RF-26, KI-04: several runs are ended together, and nothing of their groups is left, not even what
 * ignores SIGTERM. */
static void
kill_ends_the_group(void **state)
{
	struct runner_event e;
	uint64_t ids[3];
	int64_t began;
	pid_t groups[3];
	int fds[3], i;

	(void)state;
	stand_in("ss", "trap '' TERM; while :; do sleep 30; done", env.ss, sizeof(env.ss));
	limits.kill_ms = 2000;
	for (i = 0; i < 3; i++) {
		fds[i] = start("observe:cert", "443", &ids[i]);
		groups[i] = find_child(i + 1);
		wait_members(groups[i], 3);
	}
	began = tool_now_ms();
	for (i = 0; i < 3; i++)
		assert_int_equal(runner_kill(&runner, ids[i]), 0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(next_event(&e, 5000), 1);
		assert_int_equal(e.kind, RUNNER_EXITED);
		assert_true(WIFSIGNALED(e.status));
		close(fds[i]);
	}
	for (i = 0; i < 3; i++) {
		while (kill_lives(groups[i], groups[i]))
			assert_true(tool_now_ms() - began < 1500);
	}
}

/* SQ-06, KI-05: when a run ends, what it started ends too, so the answer's end is not held up. */
static void
descendants_end_with_the_run(void **state)
{
	struct output o;
	uint64_t id;
	int64_t began = tool_now_ms();
	pid_t group;
	int fd;

	(void)state;
	stand_in("ss", "sleep 30 & exit 0", env.ss, sizeof(env.ss));
	limits.tool_ms = 500;
	fd = start("observe:cert", "443", &id);
	group = find_child(1);
	assert_int_equal(drain(fd, &o, 5000), 0);
	close(fd);
	assert_non_null(strstr(o.text, "observe.tool"));
	expect_exit(id, OBSERVE_MISSING);
	while (kill_lives(group, group))
		assert_true(tool_now_ms() - began < 3000);
}

/* A child that crashes is one exit event; the runner goes on. */
static void
survives_a_crash(void **state)
{
	struct runner_event e;
	struct output o;
	uint64_t id;
	int fd;

	(void)state;
	stand_in("ss", "exec sleep 30", env.ss, sizeof(env.ss));
	fd = start("observe:cert", "443", &id);
	assert_int_equal(kill(find_child(1), SIGABRT), 0);
	assert_int_equal(next_event(&e, 5000), 1);
	assert_int_equal(e.kind, RUNNER_EXITED);
	assert_true(WIFSIGNALED(e.status) || WEXITSTATUS(e.status) != 0);
	assert_int_equal(drain(fd, &o, 5000), 0);
	close(fd);
	answers_and_exits(state);
}

/* Death of the runner is seen, refused in words, and mended by a new one. */
static void
death_is_seen(void **state)
{
	struct observe_args args = {.n = 1};
	struct runner_event e;
	struct refusal refusal;
	uint64_t id;
	int fd;

	(void)state;
	assert_int_equal(kill(runner.pid, SIGKILL), 0);
	assert_int_equal(next_event(&e, 5000), -1);
	assert_int_equal(runner_stop(&runner), 0);
	assert_int_equal(runner_spawn(&runner, observe_find("observe:logins"), &args, &limits, &env,
			     &fd, &id, &refusal),
	    -1);
	assert_string_equal(refusal.code, "runner.gone");
	assert_int_equal(runner_start(&runner, "/proc/self/exe", &refusal), 0);
	answers_and_exits(state);
}

/* A runner that does not come up is refused. */
static void
wrong_program(void **state)
{
	struct refusal refusal;
	struct runner other;

	(void)state;
	assert_int_equal(runner_start(&other, "/bin/true", &refusal), -1);
	assert_string_equal(refusal.code, "runner.start");
	assert_int_equal(runner_start(&other, "/nonexistent", &refusal), -1);
}

/* Nonsense from the other end is dropped. */
static void
nonsense_is_dropped(void **state)
{
	static char big[65536];

	(void)state;
	assert_int_equal(send(runner_fd(&runner), "x", 1, 0), 1);
	assert_int_equal(send(runner_fd(&runner), big, sizeof(big), 0), sizeof(big));
	assert_int_equal(runner_kill(&runner, 12345), 0);
	answers_and_exits(state);
}

/* Runs side by side, each with its own answer. */
static void
many_at_once(void **state)
{
	struct runner_event e;
	struct output o;
	uint64_t ids[64], seen = 0;
	int fds[64], i;

	(void)state;
	for (i = 0; i < 64; i++)
		fds[i] = start("observe:folders", root, &ids[i]);
	for (i = 0; i < 64; i++) {
		assert_int_equal(drain(fds[i], &o, 10000), 0);
		assert_non_null(strstr(o.text, "total_bytes"));
		close(fds[i]);
	}
	for (i = 0; i < 64; i++) {
		assert_int_equal(next_event(&e, 5000), 1);
		assert_int_equal(e.kind, RUNNER_EXITED);
		assert_int_equal(e.status, 0);
		seen += e.id;
	}
	assert_int_equal(seen, 64 * 65 / 2);
}

/* A file system that answers its first question and then never again. */
struct dead_mount {
	char path[128];
	int fd;
};

static void
dead_mount(struct dead_mount *m)
{
	struct {
		struct fuse_out_header head;
		struct fuse_init_out init;
	} answer = {.head = {.len = sizeof(answer)}};
	char options[128], buf[65536];
	struct fuse_in_header head;

	snprintf(m->path, sizeof(m->path), "%s/dead", root);
	assert_int_equal(mkdir(m->path, 0755), 0);
	assert_int_not_equal(m->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), -1);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0", m->fd);
	assert_int_equal(mount("dead", m->path, "fuse", 0, options), 0);
	assert_true(read(m->fd, buf, sizeof(buf)) > (ssize_t)sizeof(head));
	memcpy(&head, buf, sizeof(head));
	assert_int_equal(head.opcode, FUSE_INIT);
	answer.head.unique = head.unique;
	answer.init.major = FUSE_KERNEL_VERSION;
	answer.init.minor = 31;
	answer.init.max_write = 4096;
	answer.init.max_readahead = 4096;
	assert_int_equal(write(m->fd, &answer, sizeof(answer)), sizeof(answer));
}

/* Take one question from the kernel and leave it without an answer: now it waits for ever. */
static void
ignore_one(const struct dead_mount *m)
{
	struct pollfd p = {.fd = m->fd, .events = POLLIN};
	char buf[65536];

	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_true(read(m->fd, buf, sizeof(buf)) > 0);
}

/* OBS-5: a walk that a dead file system holds answers in time, is reported as left behind after
 * SIGKILL, and as ended when the file system goes away. */
static void
stuck_walk_is_left_behind(void **state)
{
	struct dead_mount m;
	struct runner_event e;
	struct output o;
	int64_t began;
	uint64_t id;
	int fd;

	(void)state;
	if (!can_mount || access("/dev/fuse", R_OK | W_OK) != 0) {
		print_message("needs root, a mount namespace and /dev/fuse\n");
		skip();
	}
	dead_mount(&m);
	limits.folders_budget_ms = 400;
	began = tool_now_ms();
	fd = start("observe:folders", m.path, &id);
	ignore_one(&m);
	assert_int_equal(drain(fd, &o, 5000), 0);
	close(fd);
	assert_in_range(tool_now_ms() - began, 300, 700);
	assert_non_null(strstr(o.text, "\"lower_bounds\":true,\"stuck\":true"));
	assert_int_equal(next_event(&e, 100), 0);
	assert_int_equal(runner_kill(&runner, id), 0);
	assert_int_equal(next_event(&e, 5000), 1);
	assert_int_equal(e.kind, RUNNER_LEFT);
	assert_int_equal(e.id, id);
	answers_and_exits(state);
	close(m.fd);
	assert_int_equal(next_event(&e, 5000), 1);
	assert_int_equal(e.kind, RUNNER_EXITED);
	assert_int_equal(e.id, id);
	assert_int_equal(umount2(m.path, MNT_DETACH), 0);
}

/* A dead mount below the start is a mount, and holds nothing up. */
static void
dead_mount_below(void **state)
{
	struct dead_mount m;
	struct output o;
	uint64_t id;
	int fd;

	(void)state;
	if (!can_mount || access("/dev/fuse", R_OK | W_OK) != 0) {
		print_message("needs root, a mount namespace and /dev/fuse\n");
		skip();
	}
	dead_mount(&m);
	fd = start("observe:folders", root, &id);
	assert_int_equal(drain(fd, &o, 5000), 0);
	close(fd);
	close(m.fd);
	assert_int_equal(umount2(m.path, MNT_DETACH), 0);
	assert_non_null(strstr(o.text, "\"reason\":\"mount\""));
	assert_non_null(strstr(o.text, "\"lower_bounds\":false"));
	expect_exit(id, OBSERVE_DONE);
}

/* Everything a handler might do to change something; each returns -1 under the seal. */
static int
try_write(int which)
{
	int64_t how[3] = {O_RDWR | O_CREAT, 0600, 0};

	switch (which) {
	case 0:
		return open("made", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	case 1:
		return open("there", O_RDWR | O_CLOEXEC);
	case 2:
		return open("there", O_RDONLY | O_TRUNC | O_CLOEXEC);
	case 3:
		return open(".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	case 4:
		return (int)syscall(SYS_openat2, AT_FDCWD, "made", how, sizeof(how));
	case 5:
		return mkdir("made", 0700);
	case 6:
		return unlink("there");
	case 7:
		return rename("there", "made");
	case 8:
		return link("there", "made");
	case 9:
		return symlink("there", "made");
	case 10:
		return truncate("there", 0);
	case 11:
		return chmod("there", 0777);
	case 12:
		return utimensat(AT_FDCWD, "there", NULL, 0);
	case 13:
		return mknod("made", S_IFIFO | 0600, 0);
	case 14:
		return (int)syscall(SYS_io_uring_setup, 1, NULL);
	case 15:
		return creat("made", 0600);
	default:
		return -2;
	}
}

/* OBS-14: under the seal that every run is under, nothing can be written; reading goes on. */
static void
seal_holds(void **state)
{
	struct sock_fprog seal;
	char path[128];
	int status, which;
	pid_t pid;

	(void)state;
	snprintf(path, sizeof(path), "%s/there", root);
	ask_write(path, "text", 0600);
	assert_int_equal(seal_build(&seal), 0);
	for (which = 0; which < 16; which++) {
		if ((pid = fork()) == 0) {
			if (chdir(root) == -1 || seal_apply(&seal) == -1 ||
			    open("there", O_RDONLY | O_CLOEXEC) == -1)
				_exit(100);
			_exit(
			    try_write(which) == -1 && (errno == EROFS || errno == ENOSYS) ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status != 0)
			print_error("try_write(%d): %x\n", which, (unsigned)status);
		assert_int_equal(status, 0);
	}
	free(seal.filter);
	assert_int_equal(chdir(root), 0);
	/* Without it the same calls do work: the test can fail. */
	assert_int_not_equal(try_write(1), -1);
	assert_int_equal(try_write(9), 0);
	assert_int_equal(chdir("/"), 0);
}

/* OBS-14: and so do the programs that an op starts. */
static void
seal_holds_for_tools(void **state)
{
	char path[128];
	struct output o;
	uint64_t id;
	int fd;

	(void)state;
	stand_in("ss", "(echo x > \"${0%/*}/written\"); mkdir \"${0%/*}/made\"; exit 0", env.ss,
	    sizeof(env.ss));
	fd = start("observe:cert", "443", &id);
	assert_int_equal(drain(fd, &o, 5000), 0);
	close(fd);
	snprintf(path, sizeof(path), "%s/written", root);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/made", root);
	assert_int_equal(access(path, F_OK), -1);
	expect_exit(id, OBSERVE_WRONG);
}

static int
compare(const void *a, const void *b)
{
	int64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

static int64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Microseconds that it takes to start /bin/true and see it end. */
static int64_t
start_true(void)
{
	int64_t began = now_us();
	int status;
	pid_t pid;

	if ((pid = vfork()) == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return now_us() - began;
}

/* A run costs about as much as starting /bin/true does: ask to first byte, in the middle of 51. */
static void
first_byte_is_quick(void **state)
{
	int64_t us[51], peer[51], began;
	struct pollfd p = {.events = POLLIN};
	struct runner_event e;
	struct output o;
	uint64_t id;
	int i;

	(void)state;
	for (i = 0; i < 51; i++) {
		find_child(0);
		peer[i] = start_true();
		began = now_us();
		p.fd = start("observe:folders", root, &id);
		assert_int_equal(poll(&p, 1, 5000), 1);
		us[i] = now_us() - began;
		assert_int_equal(drain(p.fd, &o, 5000), 0);
		close(p.fd);
		assert_int_equal(next_event(&e, 5000), 1);
	}
	qsort(us, 51, sizeof(us[0]), compare);
	qsort(peer, 51, sizeof(peer[0]), compare);
	print_message("ask to first byte: median %lld us; /bin/true: %lld us\n", (long long)us[25],
	    (long long)peer[25]);
	/* Generous: a busy machine must not fail the suite. */
	assert_true(us[25] < 8 * peer[25]);
}

/* Frames of the pump. */
struct frames {
	char text[512];
	int n;
};

static int
join_frame(void *ctx, const char *frame, size_t len)
{
	struct frames *f = ctx;

	f->n++;
	strncat(f->text, frame, len);
	strcat(f->text, "|");
	return 0;
}

static void
pump_text(const char *text, int64_t frame_max, int64_t total_max, const char *want)
{
	struct frames f = {.n = 0};
	struct pump pump;
	int fds[2], rc;
	size_t i, len = strlen(text);

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(pump_init(&pump, fds[0], frame_max, total_max, join_frame, &f), 0);
	/* Byte by byte: frames do not depend on how they arrive. */
	for (i = 0; i < len; i++) {
		assert_int_equal(write(fds[1], text + i, 1), 1);
		assert_int_equal(pump_read(&pump), 1);
	}
	close(fds[1]);
	while ((rc = pump_read(&pump)) == 1)
		continue;
	assert_int_equal(rc, 0);
	pump_free(&pump);
	close(fds[0]);
	assert_string_equal(f.text, want);
}

/* Answers are cut at their bounds, and say so. */
static void
pump_cuts(void **state)
{
	(void)state;
	pump_text("{\"a\":1}\n{\"b\":2}\n", 100, 100, "{\"a\":1}|{\"b\":2}|");
	pump_text("\n\n{}\n", 100, 100, "{}|");
	pump_text("", 100, 100, "");
	pump_text("aaaaaaaaaaaa\n{}\n", 10, 100, "{\"cut\":{\"what\":\"frame\",\"bytes\":12}}|{}|");
	pump_text("aaaaaaaaaa\n", 10, 100, "aaaaaaaaaa|");
	pump_text("{}\n{\"half", 100, 100, "{}|{\"cut\":{\"what\":\"end\",\"bytes\":6}}|");
	pump_text("{\"a\":1}\n{\"b\":2}\n{}\n", 100, 8,
	    "{\"a\":1}|{\"cut\":{\"what\":\"answer\",\"bytes\":10}}|");
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(answers_and_exits, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(exit_code_is_the_ops, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(inherits_nothing, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(kill_ends_the_group, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(descendants_end_with_the_run, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(survives_a_crash, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(death_is_seen, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(wrong_program, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(nonsense_is_dropped, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(many_at_once, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(stuck_walk_is_left_behind, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(dead_mount_below, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(seal_holds, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(seal_holds_for_tools, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(first_byte_is_quick, set_up, tear_down),
	    cmocka_unit_test(pump_cuts),
	};

	if (argc > 1 && strcmp(argv[1], "runner") == 0)
		return runner_main(argc, argv);
	setenv("BASTION_TEST_SECRET", "must not pass", 1);
	can_mount =
	    unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
