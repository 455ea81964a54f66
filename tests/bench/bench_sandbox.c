/* bench_sandbox.c: from the word to start until the program runs, against bwrap with the same
 * binds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/worker/sandbox.h"
#include "engine/worker/sandbox_backend.h"
#include "engine/worker/sandbox_system.h"

#define ROUNDS 101
#define WARM   5
#define MANY   200
#define TARGET 0.6

/* The program: it says the time at which it runs, and ends. */
static char program[4096], word[] = "now";

static struct sandbox_system seen;
static struct sandbox_path paths[SANDBOX_PATHS_MAX];
static struct sandbox_plan plan;
static const char *bwrap[BACKEND_ARGV_MAX];
static char room[65536];

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int
by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double
median(double *times, int n)
{
	qsort(times, (size_t)n, sizeof(*times), by_size);
	return times[n / 2];
}

/* The kernel takes networks apart behind our backs, and makes no new one meanwhile: a start that
 * follows an end at once would measure that. */
static void
settle(void)
{
	struct timespec nap = {.tv_nsec = 25000000};

	nanosleep(&nap, NULL);
}

/* What the program said, less ${began}. */
static double
told(int fd, double began)
{
	double at = 0;

	assert_int_equal(read(fd, &at, sizeof(at)), sizeof(at));
	close(fd);
	return at - began;
}

/* As the runner starts one: in a sandbox that stands ready, or without one. */
static double
ours(bool ready)
{
	struct refusal refusal;
	struct sandbox box;
	double began, took;
	int out[2], status;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	plan.stdio[1] = out[1];
	sandbox_limits(&plan.limits);
	if (ready && sandbox_spare(&box, &refusal) != 0)
		fail_msg("%s", refusal.why);
	settle();
	began = now();
	if ((ready ? sandbox_start_spare : sandbox_start)(&plan, &box, &refusal) != 0 ||
	    sandbox_ready(&box, 10000, &refusal) != 0)
		fail_msg("%s", refusal.why);
	close(out[1]);
	took = told(out[0], began);
	waitpid(box.pid, &status, 0);
	sandbox_reaped(&box);
	sandbox_free(&box);
	return took;
}

static double
theirs(const char *const *argv)
{
	int out[2];
	double began, took;
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	settle();
	began = now();
	if ((pid = vfork()) == 0) {
		dup2(plan.stdio[0], 0);
		dup2(out[1], 1);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(out[1]);
	took = told(out[0], began);
	waitpid(pid, NULL, 0);
	return took;
}

/* 200 that are started before the first has ended. */
static double
many(void)
{
	static struct sandbox box[MANY];
	static char cat[] = "/usr/bin/cat";
	static char *argv[] = {cat, NULL};
	struct sandbox_plan p = plan;
	struct refusal refusal;
	double began = now(), took;
	int in[2], i, status;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	p.argv = argv;
	p.stdio[0] = in[0];
	p.stdio[1] = p.stdio[2];
	for (i = 0; i < MANY; i++)
		if (sandbox_start(&p, &box[i], &refusal) != 0)
			fail_msg("number %d: %s", i, refusal.why);
	for (i = 0; i < MANY; i++)
		if (sandbox_ready(&box[i], 60000, &refusal) != 0)
			fail_msg("number %d: %s", i, refusal.why);
	took = now() - began;
	close(in[1]);
	close(in[0]);
	for (i = 0; i < MANY; i++) {
		waitpid(box[i].pid, &status, 0);
		assert_int_equal(status, 0);
		sandbox_reaped(&box[i]);
		sandbox_free(&box[i]);
	}
	return took;
}

static void
prepare(void)
{
	static char *argv[] = {program, word, NULL}, *env[] = {NULL};
	struct refusal refusal;
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	size_t i, kept = 0;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_true(n > 0);
	plan.uid = geteuid();
	assert_true(sandbox_system(&seen, &plan, paths, NULL, NULL, &refusal) == 0);
	/* The same binds: what is hidden would be more. */
	for (i = 0; i < plan.path_count; i++)
		if (paths[i].kind <= SANDBOX_LINK)
			paths[kept++] = paths[i];
	paths[kept++] = (struct sandbox_path){SANDBOX_READ, program, program};
	plan = (struct sandbox_plan){.argv = argv,
	    .env = env,
	    .cwd = "/",
	    .paths = paths,
	    .path_count = kept,
	    .uid = geteuid(),
	    .gid = getegid(),
	    .stdio = {null, null, null}};
	assert_true(
	    sandbox_bubblewrap(&plan, "/usr/bin/bwrap", bwrap, room, sizeof(room), &refusal) > 0);
}

static void
measure(void **state)
{
	const char *bare[] = {program, word, NULL};
	double a[ROUNDS], b[ROUNDS], c[ROUNDS], d[ROUNDS], peer, ready, first, all;
	int i;

	(void)state;
	prepare();
	/* In turns, so that whatever else goes on falls on all of them. */
	for (i = -WARM; i < ROUNDS; i++) {
		a[i < 0 ? 0 : i] = ours(true);
		b[i < 0 ? 0 : i] = theirs(bwrap);
		c[i < 0 ? 0 : i] = theirs(bare);
		d[i < 0 ? 0 : i] = ours(false);
	}
	ready = median(a, ROUNDS);
	peer = median(b, ROUNDS);
	first = median(d, ROUNDS);
	printf(
	    "sandbox start to exec, as the runner does it (ms; peer: bwrap --unshare-all) | %.2f "
	    "| %.2f | %.2f | <= %.1f\n",
	    ready, peer, ready / peer, TARGET);
	printf("the same, none standing ready (ms; peer: bwrap, which caps nothing) | %.2f | %.2f "
	       "| %.2f | -\n",
	    first, peer, first / peer);
	printf("a bare exec of the same (ms; peer: bwrap) | %.2f | %.2f | %.2f | -\n",
	    median(c, ROUNDS), peer, c[ROUNDS / 2] / peer);
	all = many();
	printf(
	    "%d sandboxes at once, each (ms; peer: one bwrap) | %.2f | %.2f | %.2f | no failure\n",
	    MANY, all / MANY, peer, all / MANY / peer);
	assert_true(ready / peer <= TARGET);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(measure)};
	double at = now();

	if (argc == 2 && strcmp(argv[1], word) == 0)
		return write(1, &at, sizeof(at)) == sizeof(at) ? 0 : 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
