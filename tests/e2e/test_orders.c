/* test_orders.c: a Host's orders from the verb at one end to a real process at the other, and back;
 * the beats are carried by the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/state/beat.h"
#include "tests/driver.h"

static struct driver d;
static struct said said;

static int
begin(void **state)
{
	(void)state;
	driver_make(&d);
	driver_first_day(&d);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

/* One beat, there and back, as whoever carries them does it. */
static void
carry(void)
{
	struct store *box = driver_open(&d, DRIVER_BOX, ROLE_LINK, NULL);
	struct store *host = driver_open(&d, DRIVER_HOST, ROLE_NET, NULL);
	struct directive_taken taken;
	char *beat, *answer;

	store_acting(box, "actor:link");
	store_acting(host, "box:%s", d.box);
	if (beat_make(box, 1, &beat) != 0 || store_begin(host) != 0 ||
	    beat_take(host, 1, beat, strlen(beat), &answer) != 0 || store_commit(host) != 0)
		fail_msg("%s%s", store_refusal(box)->why, store_refusal(host)->why);
	if (directive_take(box, 1, answer, strlen(answer), &taken) != 0)
		fail_msg("%s", store_refusal(box)->why);
	assert_int_equal(taken.refused, 0);
	free(beat);
	free(answer);
	store_close(box);
	store_close(host);
}

static void
says(const char *part)
{
	if (strstr(said.out, part) == NULL)
		fail_msg("without \"%s\": %s%s", part, said.out, said.err);
}

/* CF-5: an order goes from the Host's verb to the box's worker, which ends a process where a person
 * allowed it; the Host sees what became of it. */
static void
an_order_ends_a_process(void **state)
{
	char pid[16], line[10], code[8];
	pid_t wanted;
	int status;

	(void)state;
	if (geteuid() != 0)
		skip();
	if ((wanted = fork()) == 0) {
		alarm(120);
		for (;;)
			pause();
	}
	snprintf(pid, sizeof(pid), "%d", wanted);
	driver_does(&said, NULL, "host", "contain", d.box, pid, NULL);
	carry();
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM directive WHERE state = 'refused'");
	carry();
	driver_does(&said, NULL, "host", "orders", d.box, "--json", NULL);
	says("contain.right");
	assert_int_equal(kill(wanted, 0), 0);
	snprintf(line, sizeof(line), "%s\n", driver_code(&d, code));
	driver_does(&said, line, "contain", "trust", "conductor", NULL);
	driver_does(&said, NULL, "host", "contain", d.box, pid, NULL);
	carry();
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM directive WHERE state = 'done'");
	assert_int_equal(waitpid(wanted, &status, 0), wanted);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	carry();
	driver_does(&said, NULL, "host", "orders", d.box, "--json", NULL);
	says("\\\"stopped\\\":1");
	/* The daemon itself is never stopped. */
	snprintf(pid, sizeof(pid), "%d", driver_actor(&d, DRIVER_BOX, "worker"));
	driver_does(&said, NULL, "host", "contain", d.box, pid, "--agent", NULL);
	carry();
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM directive WHERE id = 3 AND result ->> '$.code' = 'contain.agents'");
	driver_does(&said, NULL, "host", "contain", d.box, pid, NULL);
	carry();
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM directive WHERE id = 4 AND result ->> '$.code' = 'contain.bastion'");
	driver_does(&said, NULL, "contain", "orders", "--json", NULL);
	says("contain.bastion");
}

/* ENF-1, ENF-2, over a real daemon: what its worker found is in its beat. */
static void
the_beat_says_what_the_machine_can(void **state)
{
	(void)state;
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT (SELECT count(*) FROM op_probe)"
	    " = (SELECT count(*) FROM op)");
	carry();
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM box_beats, json_each(enforcing, '$.verbs')"
			     " WHERE value ->> '$.verb' = 'observe:folders' AND value ->> '$.can'"
			     "   AND json_type(enforcing, '$.grant_run_bounds') IS NOT NULL"),
	    1);
}

/* A Host that asks too often for what it may not is told until when it is held, and a person lifts
 * that. */
static void
a_held_host_is_told_until_when(void **state)
{
	int i;

	(void)state;
	driver_does(&said, NULL, "settings", "set", "quarantine.strikes", "3", NULL);
	for (i = 0; i < 3; i++)
		driver_run(&said, NULL, "on", d.box, "observe:folders", "relative", "1", NULL);
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "observe:folders", "/usr", "1", "--json", NULL),
	    75);
	if (strstr(said.err, "pairing.held") == NULL || strstr(said.err, "\"retry_at\":\"") == NULL)
		fail_msg("%s", said.err);
	driver_does(&said, NULL, "quarantine", "lift", "conductor", NULL);
	driver_refused(
	    &said, 77, "approval.needed", NULL, "on", d.box, "observe:folders", "/usr", "1", NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_order_ends_a_process),
	    cmocka_unit_test(the_beat_says_what_the_machine_can),
	    cmocka_unit_test(a_held_host_is_told_until_when),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
