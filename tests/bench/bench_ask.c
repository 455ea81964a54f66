/* bench_ask.c: what an ask costs beyond the work that it asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/wire.h"

#define ROUNDS     101
#define TARGET     10.0 /* ms beyond the walk */
#define TARGET_FAR 2.0  /* times as long over a network */
#define FOLDERS    200

static struct driver d;
static struct said said;
static char tree[128], control[512];
static double near; /* an ask of a box beside the Host */

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

/* The median of ROUNDS times of ${once}. */
static double
median(void (*once)(void))
{
	static double times[ROUNDS];
	double began;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		began = now();
		once();
		times[i] = now() - began;
	}
	qsort(times, ROUNDS, sizeof(times[0]), by_size);
	return times[ROUNDS / 2];
}

static void
ask(void)
{
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "1", NULL);
}

/* The peer: the same walk by du, in a process of its own. */
static void
walk(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (freopen("/dev/null", "w", stdout) != NULL)
			execlp("du", "du", "-x", "-B1", "-d", "1", tree, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static void
command_line(void)
{
	driver_does(&said, NULL, "version", NULL);
}

static void
request(void)
{
	static struct wire_answer answer;

	assert_int_equal(wire_ask(control, "GET", "/v1/status", "", "", 0, &answer), 200);
}

static void
commit(void)
{
	static int n;

	driver_does(
	    &said, NULL, "settings", "set", "cert.wait_ms", ++n % 2 ? "4000" : "4001", NULL);
}

static void
tree_make(void)
{
	char path[256];
	int i;

	snprintf(tree, sizeof(tree), "%s/tree", d.dir);
	assert_int_equal(mkdir(tree, 0700), 0);
	for (i = 0; i < FOLDERS; i++) {
		snprintf(path, sizeof(path), "%s/%d", tree, i);
		assert_int_equal(mkdir(path, 0700), 0);
	}
}

static void
measure(void **state)
{
	double asked, walked, run;

	(void)state;
	driver_first_day(&d);
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_BOX]);
	tree_make();
	driver_grant(&d, "observe:folders", tree, "1", "1000", "1h");
	ask();
	near = asked = median(ask);
	walked = median(walk);
	run = (double)driver_value(&d, DRIVER_BOX,
		  "SELECT cast(1000 * avg(finished_at - started_at) AS INTEGER)"
		  " FROM op_run WHERE state = 'done'") /
	      1000;
	printf("ask beyond the walk (ms) | %.2f | %.2f | %.2f | < %.0f\n", asked - walked, walked,
	    asked / walked, TARGET);
	printf("  of it: the run, from start to end in its row (ms) | %.2f | - | - | -\n", run);
	printf("  of it: the command line starts and ends (ms) | %.2f | - | - | -\n",
	    median(command_line));
	printf("  of it: one HTTP request and answer (ms) | %.2f | - | - | -\n", median(request));
	printf("  of it: a verb that commits once (ms) | %.2f | - | - | -\n", median(commit));
	driver_drop(&d);
	assert_true(asked - walked < TARGET);
}

/* The same ask over a network: on what the box dialled, and on what the Host dials. */
static void
measure_far(void **state)
{
	static const char *const names[] = {"a line that the box keeps", "a port of the box"};
	char at[32];
	double far;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		snprintf(at, sizeof(at), "127.0.0.1:%d", driver_port());
		driver_far_day(&d, i == 0 ? NULL : at);
		tree_make();
		if (i == 0)
			driver_until(
			    &d, DRIVER_HOST, 4, "SELECT coalesce((SELECT up FROM box_line), 0)");
		driver_grant(&d, "observe:folders", tree, "1", "1000", "1h");
		ask();
		far = median(ask);
		printf("ask over %s, against a socket (ms) | %.2f | %.2f | %.2f | < %.1f\n",
		    names[i], far, near, far / near, TARGET_FAR);
		driver_drop(&d);
		assert_true(far / near < TARGET_FAR);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(measure), cmocka_unit_test(measure_far)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
