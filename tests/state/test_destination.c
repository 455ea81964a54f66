/* test_destination.c: where verbs may reach out to, judged as it is declared and as it is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/destination.h"
#include "engine/state/approval.h"
#include "engine/state/mode.h"
#include "engine/state/pairing.h"
#include "engine/state/process.h"
#include "tests/paper.h"
#include "tests/person.h"

#define OWN                                                                             \
	"INSERT INTO own_address VALUES (address_bytes('127.0.0.0'),"                   \
	" address_bytes('127.255.255.255'), 'local_route', 'lo'),"                      \
	" (address_bytes('203.0.113.7'), address_bytes('203.0.113.7'), 'nic', 'eth0')," \
	" (address_bytes('10.0.0.9'), address_bytes('10.0.0.9'), 'nic', 'eth1');"
#define DIAL(host, addresses)                                                            \
	"INSERT INTO verb_dial (op_run_id, host, port, addresses, at) VALUES (1, '" host \
	"', 443, '" addresses "', now_ms())"

static struct scratch s;
static int64_t pairing;

static int64_t
question(const char *op, const char *args)
{
	const struct approval_question q = {.op = op, .args = args, .uses = 9, .ttl_ms = 86400000};
	int64_t id;

	return approval_put(scratch_open(&s, ROLE_NET), pairing, &q, &id) == 0 ? id : -1;
}

/* A run of ${args} under a grant for it: 1. */
static void
running(struct person *p, const char *args)
{
	int64_t id, grant_id;
	char code[7];

	if ((id = question("git:fetch", args)) == -1)
		fail_msg("%s", store_refusal(s.db)->why);
	clock_fix(clock_now() + 30000);
	assert_int_equal(
	    person_answers(&s, id, person_code(p, clock_now(), code), NULL, &grant_id), 0);
	if (person_run(&s, grant_id, 1) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE op_run SET state = 'running', started_at = now_ms()"), 0);
}

static int
morning(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	pairing = person_host(&s, "laptop");
	assert_int_equal(scratch_sql(&s, OWN), 0);
	return 0;
}

/* A networked machine whose anchor the Host is. */
static int
anchored_morning(void **state)
{
	struct mode_change change = {.mode = "networked"};
	struct paper_host h;
	struct pairing_offer offer = {
	    .host = "main", .host_key = h.pk, .peer_uid = 1000, .answer = "yes"};
	struct pairing_made made;

	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	assert_int_equal(mode_set(scratch_open(&s, ROLE_PERSON), &change), 0);
	paper_host(&h, "main");
	assert_int_equal(pairing_add(scratch_open(&s, ROLE_PERSON), &offer, &made), 0);
	pairing = made.id;
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM live_anchor"), 1);
	assert_int_equal(scratch_sql(&s, OWN), 0);
	return 0;
}

static int
evening(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

static void
held_of(const char *op, const char *args, const char *code)
{
	int64_t before = scratch_value(&s, "SELECT count(*) FROM approval");

	if (question(op, args) != -1)
		fail_msg("asked: %s", args);
	if (strcmp(store_refusal(s.db)->code, code) != 0)
		fail_msg("%s: %s, not %s", args, store_refusal(s.db)->code, code);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM approval"), before);
}

static void
held(const char *args, const char *code)
{
	held_of("git:fetch", args, code);
}

/* DST-1, DST-3, DST-6: an address that is declared is judged before anybody is asked, in any form.
 */
static void
declared_addresses_are_judged_on_arrival(void **state)
{
	(void)state;
	held("[\"/srv/t\",\"192.168.1.5\"]", "egress.network");
	held("[\"/srv/t\",\"10.0.0.5:8443\"]", "egress.network");
	held("[\"/srv/t\",\"100.64.0.1\"]", "egress.network");
	held("[\"/srv/t\",\"[fd00::1]:443\"]", "egress.network");
	held("[\"/srv/t\",\"[64:ff9b::c0a8:105]\"]", "egress.network");
	held("[\"/srv/t\",\"[64:ff9b::c0a8:0105]\"]", "egress.network");
	held("[\"/srv/t\",\"[2002:c0a8:105::1]\"]", "egress.network");
	held("[\"/srv/t\",\"[64:ff9b:1::1]\"]", "egress.unreadable");
	held("[\"/srv/t\",\"169.254.169.254\"]", "egress.link");
	held("[\"/srv/t\",\"[fe80::1]\"]", "egress.link");
	held("[\"/srv/t\",\"127.0.0.1\"]", "egress.this_machine");
	held("[\"/srv/t\",\"[::ffff:127.0.0.1]\"]", "egress.host");
	held("[\"/srv/t\",\"203.0.113.7\"]", "egress.own");
	held("[\"/srv/t\",\"[::ffff:0:7f00:1]\"]", "egress.obsolete");
	held("[\"/srv/t\",\"0x7f.1\"]", "egress.host");
	held("[\"/srv/t\",\"git.example:0\"]", "egress.host");
	held("[\"/srv/t\",\"user@git.example\"]", "egress.host");
	held_of("k8s:set_image", "[\"a/b/c\",\"192.168.1.5:5000/i:1\"]", "egress.network");
	held_of("k8s:set_image", "[\"a/b/c\",\"203.0.113.7/i\"]", "egress.own");
	assert_int_not_equal(question("k8s:set_image", "[\"a/b/c\",\"r.example/i:1\"]"), -1);
	/* A name waits for what it leads to, and so does a place that only the tree knows. */
	assert_int_not_equal(question("git:fetch", "[\"/srv/t\",\"198.51.100.8:8443\"]"), -1);
	assert_int_not_equal(question("git:fetch", "[\"/srv/t\",\"git.example\"]"), -1);
	assert_int_not_equal(question("git:fetch", "[\"/srv/t\"]"), -1);
}

/* DST-2, DST-3, DST-6: what a name leads to is judged when it is used, and one bad address is
 * enough. */
static void
one_bad_address_refuses_all(void **state)
{
	struct person p;

	(void)state;
	person_enrol(&s, &p, "phone");
	running(&p, "[\"/srv/t\"]");
	scratch_refused(
	    &s, "egress.network", DIAL("git.example", "[\"198.51.100.8\",\"192.168.1.5\"]"));
	scratch_refused(&s, "egress.network", DIAL("git.example", "[\"64:ff9b::c0a8:105\"]"));
	scratch_refused(&s, "egress.link", DIAL("git.example", "[\"169.254.169.254\"]"));
	scratch_refused(
	    &s, "egress.this_machine", DIAL("git.example", "[\"198.51.100.8\",\"127.0.0.1\"]"));
	scratch_refused(&s, "egress.own", DIAL("git.example", "[\"203.0.113.7\"]"));
	scratch_refused(&s, "egress.own", DIAL("git.example", "[\"64:ff9b::cb00:7107\"]"));
	scratch_refused(&s, "egress.this_machine", DIAL("a.localhost", "[\"198.51.100.8\"]"));
	scratch_refused(&s, "egress.resolve", DIAL("git.example", "[]"));
	scratch_refused(&s, "egress.address", DIAL("git.example", "[\"0x7f.1\"]"));
	scratch_refused(&s, "egress.address", DIAL("git.example", "[7]"));
	scratch_refused(&s, "egress.host", DIAL("Git.Example", "[\"198.51.100.8\"]"));
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM verb_dial"), 0);
	assert_int_equal(
	    scratch_sql(&s, DIAL("git.example", "[\"198.51.100.8\",\"2001:db8::8\"]")), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'verb_dial'"
					   " AND body ->> '$.addresses[1]' = '2001:db8::8'"),
	    1);
	/* Once, and as it was. */
	scratch_refused(&s, "act.dial", DIAL("git.example", "[\"198.51.100.8\"]"));
	scratch_refused(&s, "act.dial", "UPDATE verb_dial SET host = 'other.example'");
	scratch_refused(&s, "act.dial", "DELETE FROM verb_dial");
}

/* What nobody knows about this machine's own addresses is no leave. */
static void
unknown_own_addresses_hold(void **state)
{
	struct person p;

	(void)state;
	person_enrol(&s, &p, "phone");
	running(&p, "[\"/srv/t\"]");
	assert_int_equal(scratch_sql(&s, "DELETE FROM own_address"), 0);
	scratch_refused(&s, "egress.own_unknown", DIAL("git.example", "[\"198.51.100.8\"]"));
}

/* What was approved is what is reached; what a rule of the lane denies is denied to verbs too. */
static void
only_what_was_declared_is_reached(void **state)
{
	struct person p;

	(void)state;
	person_enrol(&s, &p, "phone");
	running(&p, "[\"/srv/t\",\"git.example:443\"]");
	scratch_refused(&s, "act.remote", DIAL("other.example", "[\"198.51.100.8\"]"));
	scratch_refused(&s, "act.remote",
	    "INSERT INTO verb_dial (op_run_id, host, port, addresses, at)"
	    " VALUES (1, 'git.example', 22, '[\"198.51.100.8\"]', now_ms())");
	assert_int_equal(
	    scratch_sql(&s, "INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
			    " VALUES ('deny', 'example', now_ms(), 0)"),
	    0);
	scratch_refused(&s, "egress.denied", DIAL("git.example", "[\"198.51.100.8\"]"));
	assert_int_equal(
	    scratch_sql(&s, "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"), 0);
	/* What is denied to one run is for that run. */
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(store_begin(s.db), 0);
	assert_true(process_self(s.db) > 0);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(
	    scratch_sql(&s,
		"INSERT INTO sandbox_run (nonce, backend, process_id, uid, program, words, net,"
		"  started_at) SELECT lower(hex(randomblob(16))), 'native', max(id), 1000, 'agent', 1,"
		"  'sockets', now_ms() FROM process;"
		"INSERT INTO egress_rule (verdict, run_id, suffix, made_at, made_by_uid)"
		" SELECT 'deny', max(id), 'example', now_ms(), 0 FROM sandbox_run"),
	    0);
	assert_int_equal(scratch_sql(&s, DIAL("git.example", "[\"198.51.100.8\"]")), 0);
}

/* DST-4, DST-6: an anchored machine reaches its network; never itself, its links, or metadata
 * services. */
static void
an_anchored_machine_reaches_its_network(void **state)
{
	(void)state;
	assert_int_not_equal(question("git:fetch", "[\"/srv/t\",\"10.0.0.5\"]"), -1);
	assert_int_not_equal(question("git:fetch", "[\"/srv/t\",\"[fd00::5]:8443\"]"), -1);
	assert_int_not_equal(question("k8s:set_image", "[\"a/b/c\",\"10.0.0.5:5000/i\"]"), -1);
	held("[\"/srv/t\",\"10.0.0.9\"]", "egress.own");
	held("[\"/srv/t\",\"169.254.169.254\"]", "egress.link");
	held("[\"/srv/t\",\"127.0.0.1\"]", "egress.this_machine");
	held("[\"/srv/t\",\"[::1]\"]", "egress.this_machine");
	held("[\"/srv/t\",\"[64:ff9b::a9fe:a9fe]\"]", "egress.link");
}

static void
rule(const char *verdict, const char *suffix, int port)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
	    "INSERT INTO egress_rule (verdict, suffix, port, pairing_id, made_at, made_by_uid)"
	    " VALUES ('%s', '%s', %d, %d, now_ms(), 0)",
	    verdict, suffix, port, (int)pairing);
	assert_int_equal(scratch_sql(&s, sql), 0);
}

/* Without an anchor a network's own address is reached where a rule allows that address to this
 * Host, and no other: not by a name, not for everybody, and never this machine or its links. */
static void
a_rule_opens_one_address_of_a_network(void **state)
{
	struct person p;

	(void)state;
	person_enrol(&s, &p, "phone");
	running(&p, "[\"/srv/t\",\"git.example:443\"]");
	rule("allow", "git.example", 0);
	rule("allow", "*", 0);
	assert_int_equal(
	    scratch_sql(&s, "INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
			    " VALUES ('allow', '192.168.1.5', now_ms(), 0)"),
	    0);
	rule("allow", "192.168.1.5", 5000);
	rule("allow", "203.0.113.7", 0);
	rule("allow", "127.0.0.1", 0);
	rule("allow", "169.254.169.254", 0);
	scratch_refused(&s, "egress.network", DIAL("git.example", "[\"192.168.1.5\"]"));
	held_of("container:pull", "[\"192.168.1.5/i:1\"]", "egress.network");
	held_of("container:pull", "[\"192.168.1.6:5000/i:1\"]", "egress.network");
	held_of("container:pull", "[\"203.0.113.7/i:1\"]", "egress.own");
	held_of("container:pull", "[\"127.0.0.1:5000/i:1\"]", "egress.this_machine");
	held_of("container:pull", "[\"169.254.169.254/i:1\"]", "egress.link");
	assert_int_not_equal(question("container:pull", "[\"192.168.1.5:5000/i:1\"]"), -1);
	rule("allow", "192.168.1.7", 0);
	scratch_refused(
	    &s, "egress.network", DIAL("git.example", "[\"192.168.1.7\",\"192.168.1.8\"]"));
	rule("deny", "git.example", 0);
	scratch_refused(&s, "egress.denied", DIAL("git.example", "[\"192.168.1.7\"]"));
	assert_int_equal(
	    scratch_sql(&s, "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"
			    " WHERE verdict = 'deny'"),
	    0);
	assert_int_equal(scratch_sql(&s, DIAL("git.example", "[\"192.168.1.7\"]")), 0);
}

static void
destinations_are_read_in_one_way(void **state)
{
	static const struct {
		const char *text, *host;
		int port;
	} cases[] = {{"git.example", "git.example", 443}, {"GIT.example:8443", "git.example", 8443},
	    {"198.51.100.8:1", "198.51.100.8", 1}, {"[2001:DB8::8]", "2001:db8::8", 443},
	    {"[2001:db8::8]:65535/x/y:tag", "2001:db8::8", 65535},
	    {"reg.example:5000/a:b", "reg.example", 5000}, {"git.example/", "git.example", 443},
	    {"", NULL, 0}, {":443", NULL, 0}, {"/x", NULL, 0}, {"2001:db8::8", NULL, 0},
	    {"[git.example]", NULL, 0}, {"[198.51.100.8]", NULL, 0}, {"[::1", NULL, 0},
	    {"[::1]x", NULL, 0}, {"[::1]443", NULL, 0}, {"a:", NULL, 0}, {"a:0", NULL, 0},
	    {"a:065", NULL, 0}, {"a:65536", NULL, 0}, {"a:123456", NULL, 0}, {"a:+1", NULL, 0},
	    {"a@b", NULL, 0}, {"a b", NULL, 0}, {"127.1", NULL, 0}};
	struct destination d;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if ((destination_read(cases[i].text, strlen(cases[i].text), &d) == 0) !=
		    (cases[i].host != NULL))
			fail_msg("%s", cases[i].text);
		if (cases[i].host == NULL)
			continue;
		assert_string_equal(d.host.text, cases[i].host);
		assert_int_equal(d.port, cases[i].port);
	}
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, morning, evening)
	const struct CMUnitTest tests[] = {
	    CASE(declared_addresses_are_judged_on_arrival),
	    CASE(one_bad_address_refuses_all),
	    CASE(unknown_own_addresses_hold),
	    CASE(only_what_was_declared_is_reached),
	    CASE(a_rule_opens_one_address_of_a_network),
	    cmocka_unit_test_setup_teardown(
		an_anchored_machine_reaches_its_network, anchored_morning, evening),
	    cmocka_unit_test(destinations_are_read_in_one_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
