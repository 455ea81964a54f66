/* test_granted.c: what a grant holds for a Host's connections to the internet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "net/egress/conn.h"
#include "tests/person.h"

#define MONDAY INT64_C(1795996800000) /* 2026-11-30, 00:00 UTC */
#define MINUTE INT64_C(60000)

#define FLOW(host, port)                                                      \
	"INSERT INTO egress_flow (pairing_id, surface, host, port, asked_at)" \
	" VALUES (1, 'connect', '" host "', " port ", now_ms());"
#define OPEN                                                                       \
	"UPDATE egress_flow SET state = 'open', addresses = '[\"198.51.100.8\"]'," \
	"  opened_at = now_ms() WHERE id = (SELECT max(id) FROM egress_flow);"
#define RULE(verdict, what)                                                           \
	"INSERT INTO egress_rule (verdict, pairing_id, suffix, made_at, made_by_uid)" \
	" VALUES ('" verdict "', 1, '" what "', now_ms(), 0);"

static struct scratch s;
static struct person person;

static int
morning(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	clock_fix(MONDAY);
	person_enrol(&s, &person, "phone");
	assert_int_equal(person_host(&s, "laptop"), 1);
	assert_int_equal(
	    scratch_sql(&s,
		"INSERT INTO own_address (first, last, source, ifname) VALUES"
		" (address_bytes('127.0.0.0'), address_bytes('127.255.255.255'), 'nic', 'lo')"),
	    0);
	return 0;
}

static int
evening(void **state)
{
	(void)state;
	clock_fix(-1);
	scratch_drop(&s);
	return 0;
}

static int64_t
granted(const char *args, const char *bounds, int uses)
{
	const struct approval_question q = {.op = "egress:reach",
	    .args = args,
	    .bounds = bounds,
	    .uses = uses,
	    .ttl_ms = 600 * MINUTE};
	int64_t id, grant;
	char code[7];

	if (approval_put(scratch_open(&s, ROLE_NET), 1, &q, &id) != 0)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
	clock_fix(clock_now() + 30000);
	if (person_answers(&s, id, person_code(&person, clock_now(), code), NULL, &grant) != 0)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
	return grant;
}

static int64_t
used(void)
{
	return scratch_value(&s, "SELECT count(*) FROM grant_use");
}

static void
passes(const char *sql)
{
	if (scratch_sql(&s, sql) != 0)
		fail_msg("%s: %s", sql, s.error);
}

/* One connection is one use, whether it is looked up first or not; others are refused, and told how
 * to ask. */
static void
a_connection_is_a_use(void **state)
{
	(void)state;
	scratch_refused(&s, "egress.capability", FLOW("a.example", "443"));
	granted("[\"a.example\",\"443\"]", NULL, 2);
	passes(FLOW("a.example", "443") OPEN);
	assert_int_equal(used(), 1);
	assert_int_equal(
	    scratch_value(&s,
		"SELECT count(*) FROM egress_use AS u JOIN op_run AS r ON r.id = u.op_run_id"
		" WHERE u.flow_id = 1 AND r.state = 'done' AND r.grant_id = 1"),
	    1);
	scratch_refused(&s, "egress.ungranted", FLOW("b.a.example", "443"));
	scratch_refused(&s, "egress.ungranted", FLOW("a.example", "80"));
	assert_int_equal(scratch_value(&s, "SELECT advice LIKE '%egress:reach%' FROM refusal"
					   " WHERE code = 'egress.ungranted'"),
	    1);
	/* What was judged once holds for no other: each is judged, and spends. */
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_way"), 0);
	passes(FLOW("a.example", "443") OPEN);
	assert_int_equal(used(), 2);
	scratch_refused(&s, "egress.capability", FLOW("a.example", "443"));
	/* Used up, it still holds what is under way. */
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_ruling WHERE held IS NULL"), 2);
}

/* A use is of one machine's own addresses no more than a rule is. */
static void
no_grant_reaches_this_machine(void **state)
{
	(void)state;
	granted("[\"a.example\",\"443\"]", NULL, 5);
	passes(FLOW("a.example", "443"));
	scratch_refused(&s, "egress.internal",
	    "UPDATE egress_flow SET state = 'open', addresses = '[\"10.0.0.1\"]', opened_at = now_ms()");
	scratch_refused(&s, "egress.own",
	    "UPDATE egress_flow SET state = 'open', addresses = '[\"127.0.0.1\"]', opened_at = now_ms()");
}

/* A deny wins, and spends nothing; what a rule allows spends nothing either. */
static void
rules_come_first(void **state)
{
	(void)state;
	granted("[\"a.example\",\"443\"]", NULL, 5);
	passes(RULE("deny", "a.example"));
	scratch_refused(&s, "egress.denied", FLOW("a.example", "443"));
	passes(RULE("allow", "b.example"));
	passes(FLOW("c.b.example", "8443") OPEN);
	assert_int_equal(used(), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_way"), 1);
}

/* Bounds hold a connection as they hold an ask: other values, hours, how often. */
static void
bounds_hold_connections(void **state)
{
	(void)state;
	granted("[\"cdn.example\",\"443\"]",
	    "{\"host\":{\"like\":\"*.example\"},\"port\":{\"in\":[443,8443]},"
	    "\"_rate\":{\"max\":2,\"per_ms\":60000}}",
	    100);
	passes(FLOW("a.example", "8443") OPEN);
	scratch_refused(&s, "egress.ungranted", FLOW("a.example", "80"));
	scratch_refused(&s, "egress.ungranted", FLOW("example.org", "443"));
	passes(FLOW("b.example", "443"));
	scratch_refused(&s, "grant.rate", FLOW("c.example", "443"));
	assert_int_equal(used(), 2);
	clock_fix(clock_now() + MINUTE);
	passes(FLOW("c.example", "443"));
	assert_int_equal(used(), 3);
	granted("[\"d.test\",\"443\"]",
	    "{\"_window\":{\"days\":[\"mon\"],\"from\":\"02:00\",\"to\":\"03:00\",\"zone\":\"UTC\"}}",
	    9);
	scratch_refused(&s, "grant.window", FLOW("d.test", "443"));
	clock_fix(MONDAY + 150 * MINUTE);
	passes(FLOW("d.test", "443"));
}

/* What is under way is held again once its grant was taken back, or ran out. */
static void
grants_end_connections(void **state)
{
	int64_t first;

	(void)state;
	first = granted("[\"a.example\",\"443\"]", NULL, 5);
	granted("[\"b.example\",\"443\"]", NULL, 5);
	passes(FLOW("a.example", "443") OPEN FLOW("b.example", "443") OPEN);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_ruling WHERE held = 'unknown'"), 0);
	assert_int_equal(first, 1);
	passes("UPDATE grant SET state = 'dropped', ended_at = now_ms() WHERE id = 1");
	assert_int_equal(
	    scratch_value(&s, "SELECT id FROM egress_ruling WHERE held = 'unknown'"), 1);
	clock_fix(MONDAY + 700 * MINUTE);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM egress_ruling WHERE held = 'unknown'"), 2);
	/* A use is of the connection that it was made for. */
	scratch_refused(&s, "egress.fixed", "UPDATE egress_use SET flow_id = 9");
	scratch_refused(&s, "egress.fixed", "DELETE FROM egress_use");
	/* It goes with it. */
	passes("UPDATE egress_flow SET state = 'done', ended_at = now_ms()");
	clock_fix(clock_now() + 40 * 1440 * MINUTE);
	scratch_open(&s, ROLE_EGRESS);
	assert_int_equal(store_begin(s.db), 0);
	if (stmt_run(store_sql(s.db, "DELETE FROM egress_flow WHERE id = 1")) != 0)
		fail_msg("%s", store_refusal(s.db)->why);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_use"), 1);
}

/* HB-1: beside its Host a box parks nothing, whatever was granted, and its beat has no such member.
 */
static void
beside_it_nothing_is_parked(void **state)
{
	(void)state;
	granted("[\"a.example\",\"443\"]", NULL, 5);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM egress_hosts"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM pairing_parks"), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM beat"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM beat, json_each(body) WHERE key = 'serves'"),
	    0);
	scratch_refused(&s, "parked.unserved",
	    "INSERT INTO egress_parked (pairing_id, slot, changed_at) VALUES (1, 0, now_ms())");
}

/* EG-126: a reason that has line breaks is one line of a header, and one of the body. */
static void
reasons_are_one_line(void **state)
{
	struct proxy proxy = {.config = {.db = scratch_open(&s, ROLE_EGRESS)}};
	const struct conn c = {.proxy = &proxy};
	struct refusal why;
	char text[CONN_ANSWER_MAX];
	const char *at;
	size_t len;

	(void)state;
	refusal_set(&why, "egress.denied", "first\r\nX-Other: 1\n\r\nsecond");
	len = conn_answer(&c, &why, text);
	assert_int_equal(strlen(text), len);
	assert_non_null(at = strstr(text, "\r\nX-Bastion-Refused: "));
	assert_memory_equal(
	    at + 21, "first  X-Other: 1   second [egress.denied]; see bastion egress ls", 60);
	assert_null(strstr(text, "\nX-Other"));
	assert_null(strstr(text, "\nsecond"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_connection_is_a_use, morning, evening),
	    cmocka_unit_test_setup_teardown(no_grant_reaches_this_machine, morning, evening),
	    cmocka_unit_test_setup_teardown(rules_come_first, morning, evening),
	    cmocka_unit_test_setup_teardown(bounds_hold_connections, morning, evening),
	    cmocka_unit_test_setup_teardown(grants_end_connections, morning, evening),
	    cmocka_unit_test_setup_teardown(beside_it_nothing_is_parked, morning, evening),
	    cmocka_unit_test_setup_teardown(reasons_are_one_line, morning, evening),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
