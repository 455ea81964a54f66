/* test_schedule.c: schedules as a person has them: a daemon that begins their work, and kills. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/driver.h"

#define KILLS 12

static struct driver d;
static struct said said;

static int
make(void **state)
{
	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

static void
shows(const char *text)
{
	if (strstr(said.out, text) == NULL)
		fail_msg("no %s in: %s", text, said.out);
}

static void
it_begins_by_itself(void **state)
{
	(void)state;
	driver_does(&said, NULL, "schedule", NULL);
	shows("Nothing begins by itself");
	driver_does(&said, NULL, "schedule", "add", "tick", "--every", "1s", "--runs", "3", "--cwd",
	    d.dir, "--", "sh", "-c", "echo I am $BASTION_SESSION", NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM schedule WHERE state = 'over'");
	driver_refused(&said, 126, "schedule.over", NULL, "schedule", "resume", "tick", NULL);
	driver_until(&d, DRIVER_BOX, 3, "SELECT count(*) FROM session WHERE state = 'done'");
	driver_until(&d, DRIVER_BOX, 3, "SELECT count(*) FROM firing WHERE state = 'done'");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM firing AS f JOIN session AS s ON s.name = f.session"
		" JOIN session_output AS o ON o.session_id = s.id"
		" WHERE CAST(o.data AS TEXT) = 'I am ' || s.name || char(10) AND s.queued_at >= f.due_at"),
	    3);
	driver_does(&said, NULL, "schedule", "log", "tick", NULL);
	shows("done");
	driver_does(&said, NULL, "schedule", "ls", "--json", NULL);
	shows("\"when\":\"every 1s\"");
	shows("\"runs\":3");
}

static void
a_person_decides(void **state)
{
	char text[128];

	(void)state;
	driver_does(&said, NULL, "worker", "add", "sweeper", "--", "sh", "-c", "echo $0", NULL);
	driver_does(&said, NULL, "schedule", "add", "nightly", "--daily", "02:30", "--zone",
	    "Europe/Berlin", "--missed", "skip", "sweeper", "deep", NULL);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM schedule WHERE cron = '30 2 * * *'"
		" AND zone = 'Europe/Berlin' AND missed = 'skip' AND worker = 'sweeper'"
		" AND argv = '[\"deep\"]' AND state = 'active'"),
	    1);
	driver_refused(&said, 3, "schedule.exists", NULL, "schedule", "add", "nightly", "--every",
	    "1h", "sweeper", NULL);
	driver_does(&said, NULL, "schedule", "run", "nightly", NULL);
	snprintf(text, sizeof(text), "%.*s", (int)strcspn(said.out, "\n"), said.out);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM session WHERE name = '%s' AND state = 'done'", text);
	driver_does(&said, NULL, "session", "logs", text, NULL);
	assert_string_equal(said.out, "deep\n");
	driver_does(&said, NULL, "schedule", "pause", "nightly", NULL);
	driver_does(&said, NULL, "schedule", "show", "nightly", NULL);
	shows("paused");
	driver_does(&said, NULL, "schedule", "pause", "nightly", NULL);
	driver_does(&said, NULL, "schedule", "resume", "nightly", NULL);
	driver_does(&said, NULL, "schedule", "show", "nightly", NULL);
	shows("active");
	driver_does(&said, NULL, "schedule", "log", "nightly", "--json", NULL);
	shows("by hand");
	driver_does(&said, NULL, "schedule", "rm", "nightly", NULL);
	driver_refused(&said, 2, "schedule.unknown", NULL, "schedule", "rm", "nightly", NULL);
	driver_does(&said, NULL, "audit", "verify", NULL);
}

/* SD-05: a time of day is two digits, a colon and two digits, of a day; blanks around it are no
 * matter. */
static void
wrong_words_are_told(void **state)
{
	static const char *const wrong[][8] = {{"schedule", "frobnicate", NULL},
	    {"schedule", "add", "x", NULL}, {"schedule", "add", "x", "true", NULL},
	    {"schedule", "rm", NULL},
	    {"schedule", "add", "x", "--every", "1h", "--cron", "@daily", "w"},
	    {"schedule", "add", "x", "--cron", "@daily", "--first", "1h", "w"},
	    {"schedule", "add", "x", "--every", "0.5s", "w", NULL},
	    {"schedule", "add", "x", "--every", "-1", "w", NULL},
	    {"schedule", "add", "x", "--daily", "24:00", "w", NULL},
	    {"schedule", "add", "x", "--daily", "10:60", "w", NULL},
	    {"schedule", "add", "x", "--daily", "9", "w", NULL},
	    {"schedule", "add", "x", "--daily", "x:y", "w", NULL},
	    {"schedule", "add", "x", "--daily", "-1:00", "w", NULL}};
	const char *words[9];
	struct job job;
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		for (n = 0; n < 8 && wrong[i][n] != NULL; n++)
			words[n] = wrong[i][n];
		words[n] = NULL;
		driver_start(&job, NULL, words);
		if (driver_finish(&job, &said) != 2 || said.out[0] != '\0' || said.err[0] == '\0')
			fail_msg("case %zu: %d: %s%s", i, said.code, said.out, said.err);
	}
	driver_refused(&said, 2, "schedule.every", NULL, "schedule", "add", "x", "--every", "0",
	    "--", "true", NULL);
	driver_refused(&said, 2, "schedule.cron", NULL, "schedule", "add", "x", "--cron", "* * *",
	    "--", "true", NULL);
	driver_refused(&said, 2, "worker.unknown", NULL, "schedule", "add", "x", "--cron", "@daily",
	    "w", NULL);
	driver_does(&said, NULL, "schedule", "add", "x", "--daily", " 09:30 ", "--", "true", NULL);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM schedule WHERE cron = '30 9 * * *'"),
	    1);
}

/* kill -9 of worker and daemon at any instant around a time: each time that came has one row and
 * one session, each session ran once at most, and what it began before is never overrun. */
static void
kills_at_its_time(void **state)
{
	int kills = getenv("KILLS") != NULL ? atoi(getenv("KILLS")) : KILLS, i;
	unsigned seed =
	    getenv("SEED") != NULL ? (unsigned)atoi(getenv("SEED")) : (unsigned)time(NULL);
	struct timespec ts = {0};
	char path[128], line[256], last[256] = "";
	pid_t pid;
	FILE *f;
	int ran = 0;

	(void)state;
	print_message("SEED=%u KILLS=%d\n", seed, kills);
	srandom(seed);
	driver_does(&said, NULL, "settings", "set", "actor.backoff_ms", "1", NULL);
	driver_does(&said, NULL, "settings", "set", "actor.backoff_cap_ms", "20", NULL);
	snprintf(path, sizeof(path), "%s/ran", d.dir);
	driver_does(&said, NULL, "schedule", "add", "tick", "--every", "1s", "--cwd", d.dir, "--",
	    "sh", "-c", "echo $BASTION_SESSION >> ran", NULL);
	for (i = 0; i < kills; i++) {
		/* Around the next whole second of its own: when it is due. */
		driver_until(&d, DRIVER_BOX, 1,
		    "SELECT next_at - now_ms() BETWEEN -2000 AND 300 FROM schedule");
		ts.tv_nsec = random() % 400000000;
		nanosleep(&ts, NULL);
		if (i % 3 == 0) {
			driver_end(&d, DRIVER_BOX, SIGKILL);
			driver_serve(&d, DRIVER_BOX);
		} else if ((pid = driver_actor(&d, DRIVER_BOX, "worker")) > 1) {
			kill(pid, SIGKILL);
		}
	}
	/* It goes on. */
	i = (int)driver_value(&d, DRIVER_BOX, "SELECT runs FROM schedule");
	driver_until(&d, DRIVER_BOX, 1, "SELECT runs >= %d FROM schedule", i + 2);
	driver_does(&said, NULL, "schedule", "pause", "tick", NULL);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM session WHERE finished_at IS NULL");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM session AS s WHERE (SELECT count(*) FROM firing"
			     " WHERE session = s.name) <> 1"),
	    0);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT runs = (SELECT count(*) FROM session)"
			     " AND runs + skips = (SELECT count(*) FROM firing)"
			     " FROM schedule"),
	    1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM session AS a JOIN session AS b ON b.id > a.id"
			     " WHERE b.queued_at < a.finished_at"),
	    0);
	assert_non_null(f = fopen(path, "re"));
	for (; fgets(line, sizeof(line), f) != NULL; ran++) {
		assert_string_not_equal(line, last);
		memcpy(last, line, sizeof(last));
	}
	fclose(f);
	assert_true(ran >= driver_value(&d, DRIVER_BOX,
			       "SELECT count(*) FROM session WHERE state = 'done'"));
	assert_true(ran <= driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session"));
	print_message("%d ran\n", ran);
	driver_does(&said, NULL, "audit", "verify", NULL);
}

/* While nobody served: once, late. */
static void
missed_while_nobody_served(void **state)
{
	(void)state;
	driver_does(&said, NULL, "schedule", "add", "tick", "--every", "1s", "--", "true", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_until(&d, DRIVER_BOX, 1, "SELECT next_at < now_ms() - 2500 FROM schedule");
	driver_serve(&d, DRIVER_BOX);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT last_at > (SELECT max(started_at) FROM instance)"
	    " FROM schedule");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM firing, (SELECT max(started_at) AS at FROM instance)"
		" WHERE due_at < at AND fired_at >= at AND fired_at - due_at > 2500"),
	    1);
	driver_does(&said, NULL, "schedule", "rm", "tick", NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(it_begins_by_itself, make, drop),
	    cmocka_unit_test_setup_teardown(a_person_decides, make, drop),
	    cmocka_unit_test_setup_teardown(wrong_words_are_told, make, drop),
	    cmocka_unit_test_setup_teardown(kills_at_its_time, make, drop),
	    cmocka_unit_test_setup_teardown(missed_while_nobody_served, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
