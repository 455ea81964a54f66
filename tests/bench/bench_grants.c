/* bench_grants.c: what a decision costs beside 100,000 grants and a million uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/state/grant.h"
#include "tests/scratch.h"

#define GRANTS 100000
#define USES   10 /* of each */
#define ROUNDS 1001
#define TARGET 500.0 /* us */

#define BOUNDS                                                                                      \
	"'{\"hours\":{\"max\":20},\"_window\":{\"days\":[\"mon\",\"tue\",\"wed\",\"thu\","          \
	"\"fri\",\"sat\",\"sun\"],\"from\":\"00:00\",\"to\":\"24:00\",\"zone\":\"Europe/Berlin\"}," \
	"\"_rate\":{\"max\":900,\"per_ms\":86400000,\"apart_ms\":1000}}'"

/*
 * Written past the triggers, which would take an hour: 32 grants with bounds for one op, as many as
 * one Host may hold, and the rest for arguments of their own.
 */
static const char FILL[] =
    "INSERT INTO approval (id, nonce, box_name, pairing_id, host_name, op, args, uses, ttl_ms, state,"
    "  asked_at, expires_at, factor_id, digest, decided_digest, decided_by_uid, decided_by, decided_at,"
    "  bounds, words)"
    " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
    " SELECT i, printf('%032x', i), 'box-a', 1, 'laptop', iif(i <= 32, 'observe:logins', 'observe:folders'),"
    "  iif(i <= 32, json_array(CAST(i AS TEXT)), json_array('/srv/' || i, '2')), 1000, 2592000000, 'burned',"
    "  now_ms() - 1000, now_ms(), 1, zeroblob(32), zeroblob(32), 0, 'root', now_ms() - 1000,"
    "  iif(i <= 32, " BOUNDS ", NULL), iif(i <= 32, '-', NULL) FROM n;"
    "INSERT INTO grant (id, pairing_id, op, args, uses, created_at, expires_at, factor_id, approval_id,"
    "  bounds, seal)"
    " SELECT id, pairing_id, op, args, uses, decided_at, decided_at + ttl_ms, 1, id, bounds,"
    "  CASE WHEN id <= 64 THEN seal_sign('grant', iif(bounds IS NULL,"
    "    json_array('grant', pairing_id, 'op', op, args, uses, decided_at, decided_at + ttl_ms, 1, id),"
    "    json_array('bounded', pairing_id, 'op', op, args, uses, decided_at, decided_at + ttl_ms, 1, id,"
    "               bounds))) ELSE zeroblob(64) END FROM approval;"
    "INSERT INTO op_run (id, pairing_id, op, args, nonce, grant_id, state, queued_at, started_at,"
    "  finished_at, exit_code)"
    " WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999)"
    " SELECT i + 1, 1, 'observe:folders', '[]', printf('%032x', i), i / 10 + 1, 'done', now_ms() - 5000,"
    "  now_ms(), now_ms(), 0 FROM n;"
    "INSERT INTO grant_use SELECT grant_id, (id - 1) % 10 + 1, id, queued_at FROM op_run;";

static const char RUN[] =
    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
    " VALUES (1, :op, :args, 'ffffffffffffffffffffffffffffffff', :grant, now_ms())";

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int
by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void
fill(struct scratch *s)
{
	sqlite3 *db = store_handle(scratch_open(s, ROLE_MIGRATE));
	char *error;

	assert_int_equal(sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL), SQLITE_OK);
	assert_int_equal(store_begin(s->db), 0);
	if (sqlite3_exec(db, FILL, NULL, NULL, &error) != SQLITE_OK)
		fail_msg("%s", error);
	assert_int_equal(store_commit(s->db), 0);
}

/* One decision: which grant, and the row that it allows; then it is taken back. */
static double
decide(struct scratch *s, const char *op, const char *args)
{
	int64_t grant;
	double began, took;
	struct stmt *q;

	assert_int_equal(store_begin(s->db), 0);
	began = now();
	assert_int_equal(grant_find(s->db, 1, op, args, &grant), 0);
	assert_non_null(q = store_sql(s->db, RUN));
	stmt_text(q, ":op", op);
	stmt_text(q, ":args", args);
	stmt_int(q, ":grant", grant);
	if (stmt_run(q) != 0)
		fail_msg("%s: %s", store_refusal(s->db)->code, store_refusal(s->db)->why);
	took = now() - began;
	store_rollback(s->db);
	return took;
}

static double
median(struct scratch *s, const char *op, const char *args)
{
	static double times[ROUNDS];
	int i;

	for (i = 0; i < ROUNDS; i++)
		times[i] = decide(s, op, args);
	qsort(times, ROUNDS, sizeof(times[0]), by_size);
	return times[ROUNDS / 2];
}

static void
measure(void **state)
{
	char command[128];
	double few, exact, bounded;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	scratch_grant(&s, "observe:folders", "[\"/srv/40\",\"2\"]", 10, 3600000);
	scratch_open(&s, ROLE_NET);
	few = median(&s, "observe:folders", "[\"/srv/40\",\"2\"]");
	scratch_drop(&s);
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	fill(&s);
	scratch_open(&s, ROLE_NET);
	exact = median(&s, "observe:folders", "[\"/srv/40\",\"2\"]");
	bounded = median(&s, "observe:logins", "[\"17\"]");
	printf("decision beside 100,000 grants, beside one\t%.0f us\t%.0f us\t%.2f\t< 500 us\n",
	    exact, few, exact / few);
	printf("the same within bounds, hours and a rate\t%.0f us\t%.0f us\t%.2f\t< 500 us\n",
	    bounded, few, bounded / few);
	/* (scratch_drop would hold a million rows against the invariants.) */
	store_close(s.db);
	snprintf(command, sizeof(command), "rm -rf %s", s.dir);
	assert_int_equal(system(command), 0);
	assert_true(exact < TARGET && bounded < TARGET);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(measure)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
