/* test_quarantine.c: a Host that keeps asking for what it may not is held, and fills nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/approval.h"
#include "engine/state/quarantine.h"
#include "engine/state/retention.h"
#include "tests/person.h"
#include "tests/scratch.h"

#define BASE    300000
#define STRIKES 5

static struct scratch s;
static struct person p;
static int64_t laptop, now;

static void
sets(const char *sql)
{
	if (scratch_sql(&s, sql) != 0)
		fail_msg("%s: %s", sql, s.error);
}

static int
made(void **state)
{
	(void)state;
	clock_fix(now = PERSON_MORNING);
	scratch_make(&s, HOME_BOX);
	laptop = person_host(&s, "laptop");
	person_enrol(&s, &p, "phone");
	sets("UPDATE setting SET value = 5 WHERE name = 'quarantine.strikes'");
	return 0;
}

static int
end(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

static void
later(int64_t ms)
{
	clock_fix(now += ms);
}

/* ${n} asks of the Host ${pairing} are refused with ${code}, as the lane keeps them. */
static void
refused(int64_t pairing, const char *code, int n)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
	    "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < %d)"
	    "INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
	    " SELECT now_ms(), %d, 'lane', 'observe:folders', '%s', 'no' FROM c",
	    n, (int)pairing, code);
	sets(sql);
}

static int64_t
held_for(void)
{
	return scratch_value(&s, "SELECT until_at - now_ms() FROM held_pairings");
}

static int
asks(int64_t pairing)
{
	int64_t id;
	int rc;

	assert_int_equal(store_begin(scratch_open(&s, ROLE_NET)), 0);
	rc = approval_ask(s.db, pairing, "observe:folders", "[\"/srv\",\"1\"]", 1, 60000, &id);
	store_rollback(s.db);
	return rc;
}

/* The setting's number of refused asks holds a Host; held, it asks nothing, though it has a grant,
 * and no question is put. */
static void
strikes_hold_a_host(void **state)
{
	int64_t grant = person_granted(&s, &p, laptop, "[\"/srv\",\"2\"]");
	struct refusal r;

	(void)state;
	now = clock_now();
	refused(laptop, "grant.args", STRIKES - 1);
	assert_int_equal(held_for(), -1);
	assert_int_equal(person_run(&s, grant, 1), 0);
	refused(laptop, "op.unknown", 1);
	assert_int_equal(held_for(), BASE);
	assert_int_equal(person_run(&s, grant, 2), -1);
	person_says(&s, "pairing.held");
	assert_int_equal(asks(laptop), -1);
	person_says(&s, "pairing.held");
	r = *store_refusal(s.db);
	quarantine_tell(s.db, laptop, &r);
	assert_int_equal(r.retry_at, now + BASE);
	later(BASE - 1);
	assert_int_equal(asks(laptop), -1);
	later(1);
	assert_int_equal(asks(laptop), 0);
}

/* Asks of long ago, "not now", and what was not proven to be the Host's, count nothing; nor do
 * another's. */
static void
only_strikes_count(void **state)
{
	(void)state;
	refused(laptop, "approval.needed", 50);
	refused(laptop, "lane.signature", 50);
	refused(laptop, "op.busy", 50);
	refused(laptop, "grant.args", STRIKES - 1);
	later(600000);
	refused(laptop, "grant.args", STRIKES - 1);
	assert_int_equal(held_for(), -1);
	refused(person_host(&s, "other"), "grant.args", 1);
	assert_int_equal(held_for(), -1);
	refused(laptop, "grant.args", 1);
	assert_int_equal(held_for(), BASE);
	assert_int_equal(asks(2), 0);
	scratch_refused(
	    &s, "quarantine.early", "UPDATE quarantine SET state = 'lapsed', ended_at = 1");
	scratch_refused(&s, "quarantine.kept", "DELETE FROM quarantine");
	scratch_refused(&s, "quarantine.fixed",
	    "UPDATE quarantine SET state = 'lifted', by_uid = 0, ended_at = now_ms(), until_at = 7");
}

/* HO-1: a hold that a person lifted is forgiven: the next one is no longer than the first. */
static void
a_lifted_hold_is_forgiven(void **state)
{
	(void)state;
	refused(laptop, "grant.args", STRIKES);
	assert_int_equal(held_for(), BASE);
	assert_int_equal(quarantine_lift(scratch_open(&s, ROLE_PERSON), laptop, 1000), 0);
	assert_int_equal(quarantine_lift(s.db, laptop, 1000), -1);
	person_says(&s, "quarantine.none");
	assert_int_equal(asks(laptop), 0);
	/* What it was held for does not count again. */
	refused(laptop, "grant.args", STRIKES - 1);
	assert_int_equal(held_for(), -1);
	refused(laptop, "grant.args", 1);
	assert_in_range(held_for(), 1, BASE + 60000);
}

/* HO-2: a hold that lapses by itself doubles the next, up to the cap; one long past is forgotten.
 */
static void
a_lapsed_hold_doubles_the_next(void **state)
{
	(void)state;
	refused(laptop, "grant.args", STRIKES);
	later(BASE);
	assert_int_equal(held_for(), -1);
	refused(laptop, "grant.args", STRIKES);
	assert_true(held_for() >= 2 * BASE - 60000);
	assert_int_equal(held_for(), 2 * BASE);
	later(2 * BASE);
	sets("UPDATE quarantine SET state = 'lapsed', ended_at = now_ms() WHERE state = 'held'");
	sets("UPDATE setting SET value = 700000 WHERE name = 'quarantine.cap_ms'");
	refused(laptop, "grant.args", STRIKES);
	assert_int_equal(held_for(), 700000);
	later(INT64_C(8) * 86400000);
	refused(laptop, "grant.args", STRIKES);
	assert_int_equal(held_for(), BASE);
}

/* HO-2: holds that are over go after their time, but the newest of a Host stays: the next is
 * measured by it, and refused asks before it count no more. */
static void
the_last_hold_stays(void **state)
{
	int rc;

	(void)state;
	sets("UPDATE setting SET value = 1 WHERE name = 'retention.quarantine'");
	refused(laptop, "grant.args", STRIKES);
	later(BASE);
	refused(laptop, "grant.args", STRIKES);
	later(2 * BASE);
	sets("UPDATE quarantine SET state = 'lapsed', ended_at = now_ms() WHERE state = 'held'");
	scratch_refused(&s, "quarantine.kept", "DELETE FROM quarantine");
	later(INT64_C(2) * 86400000);
	scratch_refused(&s, "quarantine.kept", "DELETE FROM quarantine WHERE id = 2");
	store_acting(scratch_open(&s, ROLE_KEEPER), "actor:keeper");
	while ((rc = retention_step(s.db)) == 1)
		;
	assert_int_equal(rc, 0);
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(scratch_value(&s, "SELECT group_concat(id) FROM quarantine"), 2);
	assert_int_equal(held_for(), -1);
	refused(laptop, "grant.args", STRIKES);
	assert_int_equal(held_for(), 4 * BASE);
	/* One that holds stays, however long. */
	sets("UPDATE setting SET value = high WHERE name = 'quarantine.strikes'");
	later(INT64_C(2) * 86400000);
	scratch_refused(&s, "quarantine.kept", "DELETE FROM quarantine WHERE id = 3");
}

/* A Host cannot fill the database with refused asks: what is over the bound is counted. Neither can
 * one who only names it crowd out what it did itself, nor its harmless asks its strikes. */
static void
refused_asks_are_bounded(void **state)
{
	int64_t rows;

	(void)state;
	sets("UPDATE setting SET value = 100 WHERE name = 'refused.kept'");
	refused(laptop, "lane.signature", 300);
	refused(laptop, "approval.needed", 300);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM refused"), 200);
	assert_int_equal(scratch_value(&s, "SELECT sum(dropped) FROM refused_dropped"), 400);
	rows = scratch_value(&s, "SELECT count(*) FROM audit");
	refused(laptop, "approval.needed", 300);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit"), rows);
	refused(laptop, "grant.args", STRIKES);
	assert_int_equal(held_for(), BASE);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'refused_stretch'"), 2);
	later(3600000);
	refused(laptop, "approval.needed", 10);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM refused"), 215);
	refused(person_host(&s, "other"), "approval.needed", 100);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM refused"), 315);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(strikes_hold_a_host, made, end),
	    cmocka_unit_test_setup_teardown(only_strikes_count, made, end),
	    cmocka_unit_test_setup_teardown(a_lifted_hold_is_forgiven, made, end),
	    cmocka_unit_test_setup_teardown(a_lapsed_hold_doubles_the_next, made, end),
	    cmocka_unit_test_setup_teardown(the_last_hold_stays, made, end),
	    cmocka_unit_test_setup_teardown(refused_asks_are_bounded, made, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
