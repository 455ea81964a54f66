/* test_grant.c: a grant holds what a person sealed, as often and as long as they said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/grant.h"
#include "engine/state/pairing.h"
#include "tests/person.h"

static int64_t
morning(struct scratch *s, struct person *p)
{
	scratch_make(s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	person_enrol(s, p, "phone");
	return person_host(s, "laptop");
}

/* OPS-1, OPS-2, OPS-3: all held grants are dropped and counted; again, none; then no run. */
static void
dropping_all_counts_once(void **state)
{
	int64_t pairing, grant_id[3], count;
	struct person p;
	struct scratch s;
	int i;

	(void)state;
	pairing = morning(&s, &p);
	grant_id[0] = person_granted(&s, &p, pairing, "[1]");
	grant_id[1] = person_granted(&s, &p, pairing, "[2]");
	grant_id[2] = person_granted(&s, &p, pairing, "[3]");
	assert_int_equal(grant_drop_all(scratch_open(&s, ROLE_PERSON), NULL, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(grant_drop_all(s.db, NULL, &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant WHERE state = 'dropped'"
					   " AND end_reason = 'dropped at this machine'"),
	    3);
	for (i = 0; i < 3; i++) {
		assert_int_equal(person_run(&s, grant_id[i], i), -1);
		person_says(&s, "grant.gone");
	}
	scratch_drop(&s);
}

static void
dropping_one_is_idempotent(void **state)
{
	int64_t pairing, one, two, count;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	one = person_granted(&s, &p, pairing, "[1]");
	two = person_granted(&s, &p, pairing, "[2]");
	assert_int_equal(grant_drop(scratch_open(&s, ROLE_PERSON), one, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(grant_drop(s.db, one, &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(grant_drop(s.db, 99, &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(person_run(&s, two, 1), 0);
	scratch_drop(&s);
}

static void
dropping_by_host_spares_others(void **state)
{
	int64_t one, two, count;
	struct person p;
	struct scratch s;

	(void)state;
	one = morning(&s, &p);
	two = person_host(&s, "desk");
	person_granted(&s, &p, one, "[1]");
	person_granted(&s, &p, two, "[1]");
	assert_int_equal(grant_drop_all(scratch_open(&s, ROLE_PERSON), "desk", &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM live_grants WHERE host = 'laptop'"), 1);
	assert_int_equal(grant_drop_all(s.db, "nobody", &count), -1);
	person_says(&s, "pairing.unknown");
	scratch_drop(&s);
}

static void
uses_and_time_are_bounds(void **state)
{
	int64_t pairing, one, two;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	one = person_granted(&s, &p, pairing, "[1]");
	assert_int_equal(person_run(&s, one, 1), 0);
	assert_int_equal(person_run(&s, one, 2), 0);
	assert_int_equal(scratch_value(&s, "SELECT state = 'spent' FROM grant"), 1);
	assert_int_equal(person_run(&s, one, 3), -1);
	person_says(&s, "grant.gone");
	two = person_granted(&s, &p, pairing, "[2]");
	clock_fix(clock_now() + 59999);
	assert_int_equal(person_run(&s, two, 4), 0);
	clock_fix(clock_now() + 1);
	assert_int_equal(person_run(&s, two, 5), -1);
	person_says(&s, "grant.expired");
	scratch_drop(&s);
}

/* What another tool does: take the guards down, edit, put them back as they were. */
static void
edited(struct scratch *s, const char *edit)
{
	static const char *const guards[] = {"grant_moves", "grant_audit_move"};
	char sql[2][4096], name[PATH_MAX];
	sqlite3 *raw;
	size_t i;

	scratch_open(s, ROLE_MIGRATE);
	for (i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "SELECT sql FROM sqlite_schema WHERE name = '%s'",
		    guards[i]);
		scratch_text(s, name, sql[i], sizeof(sql[i]));
	}
	store_close(s->db);
	s->db = NULL;
	snprintf(name, sizeof(name), "%s/bastion.db", s->home.state);
	assert_int_equal(sqlite3_open(name, &raw), SQLITE_OK);
	for (i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "DROP TRIGGER %s", guards[i]);
		assert_int_equal(sqlite3_exec(raw, name, NULL, NULL, NULL), SQLITE_OK);
	}
	assert_int_equal(sqlite3_exec(raw, edit, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_changes(raw), 1);
	for (i = 0; i < 2; i++)
		assert_int_equal(sqlite3_exec(raw, sql[i], NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
}

/* SEAL-1: any change of a stored grant, and it holds nothing; put back, it holds again. */
static void
an_edited_grant_holds_nothing(void **state)
{
	static const struct {
		const char *edit, *back;
	} edits[] = {
	    {"UPDATE grant SET uses = 900", "UPDATE grant SET uses = 2"},
	    {"UPDATE grant SET expires_at = expires_at + 1",
		"UPDATE grant SET expires_at = expires_at - 1"},
	    {"UPDATE grant SET bounds = '{\"depth\":{\"max\":3}}'",
		"UPDATE grant SET bounds = NULL"},
	    {"UPDATE grant SET kind = 'root', bounds = '{}'",
		"UPDATE grant SET kind = 'op', bounds = NULL"},
	    {"UPDATE grant SET factor_id = 2", "UPDATE grant SET factor_id = 1"},
	    {"UPDATE grant SET created_at = created_at - 1",
		"UPDATE grant SET created_at = created_at + 1"},
	};
	int64_t pairing, grant_id;
	struct person p, q;
	struct scratch s;
	size_t i;

	(void)state;
	pairing = morning(&s, &p);
	person_enrol(&s, &q, "watch");
	grant_id = person_granted(&s, &p, pairing, "[1]");
	for (i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		edited(&s, edits[i].edit);
		assert_int_equal(person_run(&s, grant_id, 1), -1);
		person_says(&s, "grant.seal");
		edited(&s, edits[i].back);
	}
	/* Arguments: the ask that matches the edit is held by the seal, not by the arguments. */
	edited(&s, "UPDATE grant SET args = '[2]'");
	assert_int_equal(person_run(&s, grant_id, 1), -1);
	person_says(&s, "grant.seal");
	edited(&s, "UPDATE grant SET args = '[1]'");
	assert_int_equal(person_run(&s, grant_id, 1), 0);
	scratch_drop(&s);
}

/* SEAL-1, by bytes: no flip of a bit of the seal goes through. */
static void
a_flipped_seal_holds_nothing(void **state)
{
	int64_t pairing, grant_id;
	struct person p;
	struct scratch s;
	char edit[160];
	int at;

	(void)state;
	pairing = morning(&s, &p);
	grant_id = person_granted(&s, &p, pairing, "[1]");
	for (at = 0; at < 64; at += 9) {
		snprintf(edit, sizeof(edit),
		    "UPDATE grant SET seal = CAST(substr(seal, 1, %d) || CASE substr(seal, %d,"
		    " 1) WHEN x'00' THEN x'01' ELSE x'00' END || substr(seal, %d) AS BLOB)",
		    at, at + 1, at + 2);
		edited(&s, edit);
		assert_int_equal(scratch_value(&s, "SELECT length(seal) FROM grant"), 64);
		assert_int_equal(person_run(&s, grant_id, at), -1);
		person_says(&s, "grant.seal");
	}
	scratch_drop(&s);
}

/* SEAL-2: a grant that nobody sealed, and one that another machine sealed, cannot be made. */
static void
a_grant_without_our_seal_is_not_made(void **state)
{
	struct scratch s, other;
	struct store_keys keys;
	struct person p;

	(void)state;
#define GRANT(seal)                                                                               \
	"UPDATE approval SET state = 'approved', factor_id = 1, decided_digest = digest,"         \
	" decided_by_uid = 0, decided_by = 'x', decided_at = now_ms();"                           \
	"INSERT INTO grant (pairing_id, kind, op, args, uses, created_at, expires_at, factor_id," \
	" approval_id, seal) SELECT pairing_id, kind, op, args, uses, decided_at,"                \
	" decided_at + ttl_ms, factor_id, id, " seal " FROM approval"
	morning(&s, &p);
	person_asked(&s, 1, "[]");
	person_refused(&s, "grant.seal", GRANT("zeroblob(64)"));
	person_refused(&s, "grant.seal", GRANT("seal_sign('grant', 'another text')"));
	person_refused(&s, "grant.seal",
	    GRANT("seal_sign('audit', json_array('grant', pairing_id, kind, op, args,"
		  " uses, decided_at, decided_at + ttl_ms, factor_id, id))"));
	scratch_make(&other, HOME_BOX);
	keys = s.keys;
	s.keys.secret = other.key;
	person_refused(&s, "grant.seal",
	    GRANT("seal_sign('grant', json_array('grant', pairing_id, kind, op, args,"
		  " uses, decided_at, decided_at + ttl_ms, factor_id, id))"));
	s.keys = keys;
	scratch_drop(&other);
	clock_fix(PERSON_MORNING);
	scratch_drop(&s);
}

/* What the tables of grants refuse, whoever asks. */
static void
the_tables_hold(void **state)
{
	int64_t pairing, grant_id;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	grant_id = person_granted(&s, &p, pairing, "[1]");
	assert_int_equal(person_run(&s, grant_id, 1), 0);
	/* A burned approval makes no second grant, and a pending one none at all. */
#define AGAIN                                                                                     \
	"INSERT INTO grant (pairing_id, kind, op, args, uses, created_at, expires_at, factor_id," \
	" approval_id, seal) SELECT pairing_id, kind, op, args, uses, decided_at,"                \
	" decided_at + ttl_ms, 1, id, zeroblob(64) FROM approval"
	person_refused(&s, "grant.approval", AGAIN);
	person_refused(
	    &s, "grant.fixed", "UPDATE grant SET uses = 3, state = 'spent', ended_at = 1");
	person_refused(&s, "grant.fixed",
	    "UPDATE grant SET seal = zeroblob(64), state = 'spent', ended_at = 1");
	person_refused(&s, "grant.final", "UPDATE grant SET uses = 3");
	person_refused(&s, "grant.kept", "DELETE FROM grant");
	person_refused(&s, "grant.uses", "UPDATE grant_use SET at = 1");
	person_refused(&s, "grant.uses", "DELETE FROM grant_use");
	assert_int_equal(person_run(&s, grant_id, 2), 0);
	person_refused(&s, "grant.spent",
	    "INSERT INTO grant_use (grant_id, n, op_run_id, at) VALUES (1, 3, 1, 1)");
	person_refused(&s, "grant.final", "UPDATE grant SET state = 'active', ended_at = NULL");
	scratch_drop(&s);
}

/* What rules are measured by is when it was, not what the role says. */
static void
times_are_now(void **state)
{
#define RUN_AT(at)                                                              \
	"INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)" \
	" SELECT pairing_id, op, args, printf('%032x', 9), id, " at " FROM grant"
#define ASK_AT(at, until)                                                                     \
	"INSERT INTO approval (nonce, kind, box_name, pairing_id, host_name, op, args, uses," \
	" ttl_ms, asked_at, expires_at) SELECT printf('%032x', 9), 'op', box_name, 1,"        \
	" host_name, op, '[\"/usr\"]', 1, 1000, " at ", " until " FROM approval"
#define SHARE_AT(at, until)                                                                  \
	"INSERT INTO context_ask (nonce, uid, box_name, pairing_id, host_name, root, name,"  \
	" asked_at, expires_at) SELECT printf('%032x', 9), 7, box_name, 1, host_name, '/x'," \
	" 'x', " at ", " until " FROM approval"
	struct scratch s;
	struct person p;
	int64_t pairing;

	(void)state;
	pairing = morning(&s, &p);
	person_granted(&s, &p, pairing, "[1]");
	person_refused(&s, "op.transition", RUN_AT("0"));
	person_refused(&s, "op.transition", RUN_AT("now_ms() - 1"));
	person_refused(&s, "op.transition", RUN_AT("now_ms() + 1"));
	person_refused(&s, "approval.transition", ASK_AT("0", "now_ms() + 1000"));
	person_refused(&s, "approval.transition", ASK_AT("now_ms() + 1", "now_ms() + 1000"));
	person_refused(&s, "approval.transition", ASK_AT("now_ms()", "now_ms() + 2592000001"));
	person_refused(&s, "context.transition", SHARE_AT("0", "now_ms() + 1000"));
	person_refused(&s, "context.transition", SHARE_AT("now_ms()", "now_ms() + 2592000001"));
	if (scratch_sql(&s, RUN_AT("now_ms()")) != 0)
		fail_msg("%s", s.error);
	if (scratch_sql(&s, SHARE_AT("now_ms()", "now_ms() + 2592000000")) != 0 ||
	    scratch_sql(&s, ASK_AT("now_ms()", "now_ms() + 2592000000")) != 0)
		fail_msg("%s", s.error);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM grant_use WHERE at = now_ms()"), 1);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(dropping_all_counts_once),
	    cmocka_unit_test(dropping_one_is_idempotent),
	    cmocka_unit_test(dropping_by_host_spares_others),
	    cmocka_unit_test(uses_and_time_are_bounds),
	    cmocka_unit_test(an_edited_grant_holds_nothing),
	    cmocka_unit_test(a_flipped_seal_holds_nothing),
	    cmocka_unit_test(a_grant_without_our_seal_is_not_made),
	    cmocka_unit_test(the_tables_hold),
	    cmocka_unit_test(times_are_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
