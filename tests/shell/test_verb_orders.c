/* test_verb_orders.c: host orders, host contain, host rotate, contain and quarantine, as typed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "tests/person.h"
#include "tests/program.h"
#include "tests/scratch.h"

#define SAYS(input, exit, part, ...) \
	says(input, exit, part, (const char *const[]){__VA_ARGS__, NULL})

static struct scratch s;
static struct person p;

static void
says(const char *input, int exit, const char *part, const char *const words[])
{
	struct program run;

	store_close(s.db);
	s.db = NULL;
	program_run(&run, &s, input, words);
	if (run.code != exit || (strstr(run.out, part) == NULL && strstr(run.err, part) == NULL))
		fail_msg("exit %d: %s%s, without: %s", run.code, run.out, run.err, part);
	program_free(&run);
}

static void
sets(const char *sql)
{
	if (scratch_sql(&s, sql) != 0)
		fail_msg("%s: %s", sql, s.error);
}

static int
end(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

static int
box(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	person_host(&s, "laptop");
	person_enrol(&s, &p, "phone");
	return 0;
}

static int
host(void **state)
{
	(void)state;
	scratch_make(&s, HOME_HOST);
	sets("INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
	     "  VALUES ('box-a', zeroblob(32), now_ms(), now_ms() + 60000);"
	     "UPDATE invitation SET state = 'redeemed', ended_at = now_ms();"
	     "INSERT INTO host_box (name, box_key, lane, peer_uid, invitation_id, paired_at)"
	     "  VALUES ('box-a', zeroblob(32), '/run/lane', 0, 1, now_ms())");
	return 0;
}

/* A person at the Host orders, looks, and takes an order back. */
static void
a_host_orders(void **state)
{
	(void)state;
	SAYS(NULL, 0, "Nothing was ordered", "host", "orders");
	SAYS(NULL, 0, "Ordered (1)", "host", "rotate", "box-a", "new.example:443", "[::1]:7");
	SAYS(NULL, 0, "\"id\":2", "host", "contain", "box-a", "77", "--program", "/bin/sh",
	    "--json");
	SAYS(NULL, 0, "/bin/sh 77", "host", "orders", "box-a");
	SAYS(NULL, 0, "[]", "host", "orders", "box-b", "--json");
	SAYS(NULL, 0, "Withdrawn", "host", "orders", "withdraw", "1");
	SAYS(NULL, 126, "order.decided", "host", "orders", "withdraw", "1");
	SAYS(NULL, 2, "order.endpoint", "host", "rotate", "box-a", "no port");
	SAYS(NULL, 2, "order.process", "host", "contain", "box-a", "1");
	SAYS(NULL, 2, "box.gone", "host", "contain", "box-b", "77");
	SAYS(NULL, 2, "usage", "host", "contain", "box-a");
	SAYS(NULL, 2, "usage", "host", "rotate", "box-a");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM host_order"), 2);
}

/* A port that is not open is no failure to close it; how long a code holds is never said too long.
 */
static void
a_host_says_how_it_is(void **state)
{
	(void)state;
	SAYS(NULL, 0, "Nothing was open.\n", "host", "egress", "box-a", "--off");
	SAYS(NULL, 2, "box.gone", "host", "egress", "box-b", "--off");
	sets(
	    "UPDATE host_box SET lane = NULL, peer_uid = NULL, transport = 'reverse' WHERE name = 'box-a';"
	    "INSERT INTO egress_port (box_id, port, made_at) VALUES (1, 3128, now_ms())");
	SAYS(NULL, 0, "Closed.\n", "host", "egress", "box-a", "--off");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_port"), 0);
	SAYS(NULL, 0, "on box-c, within 1 s. It works", "host", "invite", "box-c", "--for", "1s");
	SAYS(NULL, 0, "within 1 min. It works", "host", "invite", "box-d", "--for", "119s");
	SAYS(NULL, 0, "within 15 min. It works", "host", "invite", "box-e");
	SAYS(NULL, 2, "--for does not take \"0s\": it takes a second or more", "host", "invite",
	    "box-f", "--for", "0s");
}

/* A person at the box lists a process, trusts a Host with a code, and takes both back. */
static void
a_box_is_told_whom_to_trust(void **state)
{
	char code[7], line[9], pid[16];
	pid_t mine;

	(void)state;
	if ((mine = fork()) == 0) {
		alarm(60);
		for (;;)
			pause();
	}
	snprintf(pid, sizeof(pid), "%d", mine);
	SAYS(NULL, 0, "No process is listed", "contain");
	SAYS(NULL, 0, "entry 1", "contain", "allow", pid, "--label", "my editor");
	SAYS(NULL, 126, "contain.listed", "contain", "allow", pid);
	SAYS(NULL, 0, "my editor", "contain", "ls");
	SAYS(NULL, 2, "contain.process", "contain", "allow", "2147480000");
	SAYS(NULL, 0, "No Host may", "contain", "hosts");
	SAYS(NULL, 0, "may have stopped: processes that are not listed", "contain", "trust",
	    "laptop", "--bytes");
	SAYS("000000\n", 126, "factor.code", "contain", "trust", "laptop");
	snprintf(line, sizeof(line), "%s\n", person_code(&p, clock_now(), code));
	SAYS(line, 0, "It may order", "contain", "trust", "laptop", "--for", "2h");
	SAYS(NULL, 0, "\"listed_too\":\"no\"", "contain", "hosts", "--json");
	SAYS(NULL, 0, "any more", "contain", "untrust", "laptop");
	SAYS(NULL, 0, "before", "contain", "untrust", "laptop");
	SAYS(NULL, 0, "No Host ever ordered", "contain", "orders");
	SAYS(NULL, 2, "contain.unknown", "contain", "drop", "7", "--bytes");
	SAYS(NULL, 2, "unexpected word", "contain", "what", "7");
	kill(mine, SIGKILL);
	waitpid(mine, NULL, 0);
}

/* A Host that is held is listed, and lifted by a person. */
static void
a_hold_is_lifted(void **state)
{
	(void)state;
	SAYS(NULL, 0, "No Host is held", "quarantine");
	SAYS(NULL, 2, "quarantine.none", "quarantine", "lift", "laptop");
	sets("INSERT INTO quarantine (pairing_id, strikes, last, from_at, until_at)"
	     " VALUES (1, 20, 0, now_ms(), now_ms() + 600000)");
	SAYS(NULL, 0, "\"strikes\":20", "quarantine", "ls", "--json");
	SAYS(NULL, 0, "may ask again", "quarantine", "lift", "laptop");
	SAYS(NULL, 0, "[]", "quarantine", "--json");
	SAYS(NULL, 0, "lifted", "quarantine", "--all");
	SAYS(NULL, 2, "unexpected word", "quarantine", "drop", "laptop");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_host_orders, host, end),
	    cmocka_unit_test_setup_teardown(a_host_says_how_it_is, host, end),
	    cmocka_unit_test_setup_teardown(a_box_is_told_whom_to_trust, box, end),
	    cmocka_unit_test_setup_teardown(a_hold_is_lifted, box, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
