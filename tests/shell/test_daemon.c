/* test_daemon.c: the daemon is begun and ended from a terminal that goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/actor/lock.h"
#include "tests/driver.h"

static struct driver d;
static struct said said;

static int
make(void **state)
{
	(void)state;
	driver_make(&d);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	driver_run(&said, NULL, "stop", NULL);
	driver_drop(&d);
	return 0;
}

static mode_t
mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static int
lock_is_free(void)
{
	int dir = open(d.state[DRIVER_BOX], O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	struct refusal r;
	int64_t holder;

	fd = lock_take(dir, "bastion.lock", &holder, &r);
	if (fd >= 0)
		close(fd);
	close(dir);
	return fd >= 0;
}

/* DC-06, DC-07, DC-10, DC-15, DC-18, RF-07: a stop is over when the lock is free, so a start after
 * it has it; without a daemon there is nothing to stop. */
static void
a_stop_is_over(void **state)
{
	char control[96], log[96];

	(void)state;
	driver_does(&said, NULL, "stop", NULL);
	assert_string_equal(said.out, "It is not running.\n");
	assert_int_equal(driver_run(&said, NULL, "stop", "oops", NULL), 2);
	assert_int_equal(driver_run(&said, NULL, "start", "oops", NULL), 2);
	driver_does(&said, NULL, "start", NULL);
	assert_non_null(strstr(said.out, "It serves (pid "));
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_BOX]);
	snprintf(log, sizeof(log), "%s.log", d.run[DRIVER_BOX]);
	assert_int_equal(mode_of(control), 0600);
	assert_int_equal(mode_of(d.run[DRIVER_BOX]), 0700);
	assert_int_equal(mode_of(log), 0600);
	assert_false(lock_is_free());
	driver_does(&said, NULL, "start", NULL);
	assert_non_null(strstr(said.out, "It is already running (pid "));
	driver_does(
	    &said, NULL, "session", "run", "--detach", "--name", "s", "--", "sleep", "600", NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM attempt WHERE state = 'running'");
	driver_does(&said, NULL, "stop", NULL);
	assert_string_equal(said.out, "It has ended.\n");
	assert_true(lock_is_free());
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session WHERE end_reason = 'drain'"),
	    1);
	driver_does(&said, NULL, "restart", NULL);
	driver_does(&said, NULL, "restart", NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT max(epoch) FROM instance"), 3);
}

/* DC-21: two that start at the same moment are one daemon, and neither is an error. */
static void
two_starts_are_one(void **state)
{
	static const char *const words[] = {"start", NULL};
	struct job one, two;
	int serves;

	(void)state;
	driver_start(&one, NULL, words);
	driver_start(&two, NULL, words);
	assert_int_equal(driver_finish(&one, &said), 0);
	serves = strstr(said.out, "It serves") != NULL;
	assert_int_equal(driver_finish(&two, &said), 0);
	serves += strstr(said.out, "It serves") != NULL;
	assert_int_equal(serves, 1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM live_instance WHERE state = 'ready'"),
	    1);
	/* DC-22: one in the foreground is refused by name. */
	driver_refused(&said, 1, "instance.running", NULL, "serve", NULL);
	assert_non_null(strstr(said.err, "already serves"));
}

/* DC-12, RF-04: what does not get as far as serving is ended, and says where it said why. */
static void
a_start_that_fails_leaves_nothing(void **state)
{
	char key[96], aside[96];

	(void)state;
	driver_does(&said, NULL, "start", NULL);
	driver_does(&said, NULL, "stop", NULL);
	snprintf(key, sizeof(key), "%s/bastion.key", d.state[DRIVER_BOX]);
	snprintf(aside, sizeof(aside), "%s/key", d.dir);
	assert_int_equal(rename(key, aside), 0);
	driver_refused(&said, 1, "instance.start", NULL, "start", NULL);
	assert_non_null(strstr(said.err, "box-run.log"));
	assert_true(lock_is_free());
	assert_int_equal(rename(aside, key), 0);
	driver_does(&said, NULL, "start", NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_stop_is_over, make, drop),
	    cmocka_unit_test_setup_teardown(two_starts_are_one, make, drop),
	    cmocka_unit_test_setup_teardown(a_start_that_fails_leaves_nothing, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
