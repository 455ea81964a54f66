/* test_amendment.c: a person's own SQL under the rules: what it may, what it may not, on what
 * proof. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/amendment.h"
#include "tests/person.h"

#define LIVE(n) "UPDATE setting SET value = " #n " WHERE name = 'op.live'"
#define DROP                                                                                     \
	"UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'gone' WHERE id " \
	"= 1"

struct desk {
	struct scratch s;
	struct person person;
	struct amendment_change change;
};

static int
setup(void **state)
{
	struct desk *d = calloc(1, sizeof(*d));
	int64_t host;

	assert_non_null(d);
	scratch_make(&d->s, HOME_BOX);
	clock_fix(PERSON_MORNING);
	host = person_host(&d->s, "laptop");
	person_enrol(&d->s, &d->person, "phone");
	person_granted(&d->s, &d->person, host, "[\"/usr\",\"2\"]");
	clock_fix(clock_now() + 30000);
	scratch_open(&d->s, ROLE_PERSON);
	*state = d;
	return 0;
}

static int
teardown(void **state)
{
	struct desk *d = *state;

	amendment_free(&d->change);
	scratch_drop(&d->s);
	clock_fix(-1);
	free(d);
	return 0;
}

static int
tried(struct desk *d, const char *sql)
{
	amendment_free(&d->change);
	return amendment_try(d->s.db, sql, &d->change);
}

/* ${sql} is refused with ${code}, and not a byte is another afterwards. */
static void
refused(struct desk *d, const char *code, const char *sql)
{
	unsigned char before[32], after[32];

	person_digest(&d->s, before);
	scratch_open(&d->s, ROLE_PERSON);
	if (tried(d, sql) == 0)
		fail_msg("not refused: %s", sql);
	if (strcmp(store_refusal(d->s.db)->code, code) != 0)
		fail_msg("%s (%s), not %s: %s", store_refusal(d->s.db)->code,
		    store_refusal(d->s.db)->why, code, sql);
	assert_int_equal(sqlite3_get_autocommit(store_handle(d->s.db)), 1);
	person_digest(&d->s, after);
	assert_memory_equal(before, after, 32);
	scratch_open(&d->s, ROLE_PERSON);
}

static int64_t
asked(struct desk *d, const char *sql)
{
	int64_t id;

	if (amendment_ask(d->s.db, "a test", sql, &id) != 0)
		fail_msg("%s", store_refusal(d->s.db)->why);
	return id;
}

/* Answer the amendment ${id} with ${code}, its digest being that of its terms. */
static int
answered(struct desk *d, int64_t id, const char *code, const unsigned char *seen)
{
	struct approval_answer answer = {
	    .id = id, .uid = 1000, .name = "alice", .key = d->s.key, .code = code};
	unsigned char digest[AMENDMENT_DIGEST] = {0};
	const void *found;
	struct stmt *q;

	assert_non_null(
	    q = store_sql(d->s.db, "SELECT sha256(terms) FROM amendment WHERE id = :id"));
	stmt_int(q, ":id", id);
	if (stmt_step(q) == 1) {
		if ((found = stmt_get_blob(q, 0, sizeof(digest))) != NULL)
			memcpy(digest, found, sizeof(digest));
		stmt_done(q);
	}
	answer.digest = digest;
	amendment_free(&d->change);
	return amendment_make(d->s.db, &answer, seen, &d->change);
}

/* Try, ask and answer with the code of the moment. */
static int
amended(struct desk *d, const char *sql)
{
	unsigned char seen[AMENDMENT_DIGEST];
	char code[7];

	if (tried(d, sql) != 0)
		fail_msg("%s: %s", sql, store_refusal(d->s.db)->why);
	memcpy(seen, d->change.digest, sizeof(seen));
	return answered(d, asked(d, sql), person_code(&d->person, clock_now(), code), seen);
}

static int64_t
value(struct desk *d, const char *sql)
{
	return scratch_value(&d->s, sql);
}

static void
made_with_its_audit(void **state)
{
	struct desk *d = *state;
	char text[2048];

	store_acting(d->s.db, "person:alice(1000)");
	assert_int_equal(amended(d, LIVE(60) "; " DROP), 0);
	assert_int_equal(d->change.rows, 2);
	assert_int_equal(value(d, "SELECT value FROM setting WHERE name = 'op.live'"), 60);
	scratch_text(&d->s,
	    "SELECT group_concat(entity || ' ' || action, ', ') FROM (SELECT * FROM audit WHERE"
	    " seq > (SELECT after_seq FROM amendment) ORDER BY seq)",
	    text, sizeof(text));
	assert_string_equal(
	    text, "amendment running, setting changed, grant dropped, amendment done");
	scratch_text(&d->s,
	    "SELECT who || '|' || (body ->> 'statement') || '|' || (body ->> 'reason') || '|' ||"
	    " (body ->> 'factor') || '|' || (body ->> 'by') FROM audit WHERE entity = 'amendment'"
	    " AND action = 'running'",
	    text, sizeof(text));
	assert_string_equal(text, "person:alice(1000)|" LIVE(60) "; " DROP "|a test|1|alice");
	scratch_text(&d->s, "SELECT changes FROM amendment", text, sizeof(text));
	assert_string_equal(text, "{\"grant\":{\"inserted\":0,\"updated\":1,\"deleted\":0},"
				  "\"setting\":{\"inserted\":0,\"updated\":1,\"deleted\":0}}");
}

/* Every way that we know to write what is not for it, to loosen the rules, or to reach code. */
static void
sealed_tables_are_out_of_reach(void **state)
{
	static const char *const tries[] = {
	    "DELETE FROM audit",
	    "UPDATE audit SET who = 'x'",
	    "INSERT INTO audit_entry VALUES ('op', 'x', '1', 'x', '', '{}')",
	    "INSERT INTO audit_entry SELECT 'op', 'x', '1', 'x', '', '{}'",
	    "WITH a AS (SELECT 1) INSERT INTO audit_entry VALUES ('op', 'x', '1', 'x', '', '{}')",
	    "WITH audit_entry_chains AS (SELECT 1) INSERT INTO audit_entry"
	    " VALUES ('op', 'x', '1', 'x', '', '{}')",
	    "WITH a AS (SELECT 1) DELETE FROM audit",
	    "DELETE FROM audit_seal",
	    "UPDATE audit_sink SET sent = 1",
	    "INSERT INTO audit_gap VALUES (1, 2)",
	    "UPDATE grant_use SET at = 1",
	    "DELETE FROM grant_use",
	    "UPDATE op_output SET frame = '{}'",
	    "UPDATE schema_step SET name = 'x'",
	    "DELETE FROM refused",
	    "DELETE FROM factor_try",
	    "UPDATE factor SET secret = NULL",
	    "UPDATE factor SET last_counter = 1",
	    "UPDATE factor SET state = 'dropped', dropped_at = now_ms()",
	    "INSERT INTO factor (kind, label, secret, fingerprint, enrolled_at)"
	    " VALUES ('totp', 'mine', randomblob(60), 'x', now_ms())",
	    "UPDATE amendment SET reason = 'x'",
	    "UPDATE amendment SET state = 'done'",
	    "UPDATE approval SET state = 'approved'",
	    "UPDATE approval SET decided_by = 'x'",
	    "UPDATE box SET mode = 'networked'",
	    "UPDATE refusal SET advice = 'x'",
	    "DELETE FROM state_rule",
	    "INSERT INTO state_rule VALUES ('grant', 'dropped', 'active')",
	    "INSERT INTO op VALUES ('x:y', 'observe', '', '')",
	    "INSERT INTO grant SELECT * FROM grant",
	    "INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
	    " VALUES ('x', 'unix', randomblob(32), 0, 'active', 0)",
	    "INSERT INTO setting VALUES ('x.y', 1, 'a', 0, 2, 'b')",
	    "INSERT INTO setting VALUES ('op.live', 1, 'a', 0, 2, 'b')"
	    " ON CONFLICT (name) DO UPDATE SET value = 1",
	    "REPLACE INTO setting SELECT * FROM setting",
	    "INSERT OR REPLACE INTO lease (name) VALUES ('a')",
	    "DELETE FROM setting",
	    "DELETE FROM grant",
	    "DELETE FROM lease",
	    "UPDATE invitation SET state = 'withdrawn'",
	    "UPDATE host_box SET lane = '/x'",
	    "UPDATE op_run SET state = 'cancelled'",
	    "UPDATE call SET state = 'lost'",
	    "UPDATE OR REPLACE grant SET id = 1",
	    "UPDATE OR IGNORE setting SET value = 1",
	    "UPDATE/**/Or/* */iGnOrE setting SET value = 1",
	    "UPDATE OR ROLLBACK setting SET value = 99999999",
	    "UPDATE OR FAIL setting SET value = 1",
	    LIVE(60) " RETURNING value",
	    "UPDATE invitation SET state = 'withdrawn' RETURNING token_digest",
	    "UPDATE setting SET value = :value WHERE name = 'op.live'",
	    "UPDATE setting SET value = ? WHERE name = 'op.live'",
	    "SELECT 1",
	    "EXPLAIN " LIVE(60),
	    "BEGIN",
	    "COMMIT",
	    LIVE(60) "; COMMIT",
	    LIVE(60) "; END; BEGIN",
	    LIVE(60) "; ROLLBACK",
	    LIVE(60) "; SAVEPOINT a; RELEASE a",
	    LIVE(60) "; DELETE FROM audit",
	    "ATTACH ':memory:' AS m",
	    "DETACH main",
	    "REINDEX",
	    "ANALYZE",
	    "CREATE TABLE x (a)",
	    "CREATE TEMP TABLE grant (a)",
	    "CREATE TEMP VIEW setting AS SELECT 1 AS value",
	    "CREATE TEMP TRIGGER t AFTER UPDATE ON setting BEGIN DELETE FROM audit; END",
	    "DROP TRIGGER grant_moves",
	    "DROP TABLE audit",
	    "ALTER TABLE setting ADD COLUMN x",
	    "PRAGMA writable_schema = ON",
	    "PRAGMA recursive_triggers = OFF",
	    "PRAGMA foreign_keys = OFF",
	    "PRAGMA user_version = 9",
	    "PRAGMA table_info(setting)",
	    "PRAGMA synchronous = NORMAL",
	    "UPDATE setting SET value = 1 WHERE name IN (SELECT name FROM pragma_table_info('op'))",
	    "UPDATE grant SET end_reason = hex(seal_sign('grant', 'x'))",
	    "UPDATE grant SET end_reason = hex(checkpoint_sign(9, zeroblob(32)))",
	    "UPDATE grant SET end_reason = load_extension('/tmp/x.so')",
	    "UPDATE grant SET end_reason = fts3_tokenizer('simple')",
	};
	struct desk *d = *state;
	size_t i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		refused(d, "amendment.refused", tries[i]);
	/* SQLite itself holds these, before anybody is asked. */
	refused(d, "sql.error", "UPDATE live_grants SET used = 0");
	refused(d, "sql.error", "UPDATE audit_line SET hash = x''");
	refused(d, "sql.error", "VACUUM");
	refused(d, "sql.error", "VACUUM INTO '/tmp/bastion-test-amended.db'");
	refused(d, "store.role",
	    "UPDATE setting SET value = 1 WHERE EXISTS (SELECT secret FROM factor AS a"
	    " FULL JOIN factor AS b USING (secret))");
}

/* The schema's own table is out of reach, whoever asks. */
static void
the_schema_is_out_of_reach(void **state)
{
	static const char *const tries[] = {
	    "UPDATE sqlite_schema SET sql = ''",
	    "UPDATE sqlite_master SET sql = 'x' WHERE name = 'grant_moves'",
	    "DELETE FROM sqlite_schema",
	    "INSERT INTO sqlite_schema VALUES ('table', 't', 't', 2, 'CREATE TABLE t (a)')",
	};
	struct desk *d = *state;
	unsigned char before[32], after[32];
	size_t i;

	person_digest(&d->s, before);
	scratch_open(&d->s, ROLE_PERSON);
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		assert_int_equal(tried(d, tries[i]), -1);
	person_digest(&d->s, after);
	assert_memory_equal(before, after, 32);
	scratch_open(&d->s, ROLE_PERSON);
}

/* Triggers and CHECKs hold, and the refusal names the rule. */
static void
rules_hold_and_are_named(void **state)
{
	struct desk *d = *state;

	refused(d, "setting.fixed", "UPDATE setting SET high = 99 WHERE name = 'op.live'");
	assert_int_equal(tried(d, "UPDATE grant SET uses = 99"), -1);
	assert_string_equal(store_refusal(d->s.db)->code, "grant.final");
	assert_non_null(strstr(store_refusal(d->s.db)->why, "(trigger grant_moves on grant)"));
	refused(d, "grant.fixed", "UPDATE grant SET state = 'dropped', ended_at = 1, uses = 99");
	refused(d, "amendment.constraint", "UPDATE setting SET value = 0 WHERE name = 'op.live'");
	refused(d, "amendment.constraint", "UPDATE grant SET state = 'dropped'");
	refused(d, "pairing.fixed", "UPDATE pairing SET host_key = zeroblob(32)");
	refused(d, "amendment.nothing", LIVE(1) " AND value = 0");
	refused(d, "sql.error", "UPDATE setting SET nope = 1");
	refused(d, "sql.error", "UPDATE setting SET");
	/* The second of two is named, and the first is undone. */
	assert_int_equal(tried(d, LIVE(60) "; UPDATE setting SET doc = ''"), -1);
	assert_int_equal(
	    strncmp(store_refusal(d->s.db)->why, "statement 2: only the value", 27), 0);
	assert_int_equal(value(d, "SELECT value FROM setting WHERE name = 'op.live'"), 64);
}

/* What an amendment may update could still give; then the audit row of it gives it away. */
static void
nothing_is_given(void **state)
{
	static const char *const gives[] = {
	    "UPDATE pairing SET state = 'revoked', ended_at = now_ms();"
	    "UPDATE pairing SET state = 'pending', ended_at = NULL;"
	    "UPDATE pairing SET state = 'active'",
	    "UPDATE pairing SET state = 'revoked', ended_at = now_ms();"
	    "UPDATE pairing SET state = 'pending', ended_at = NULL, host_key = zeroblob(32)",
	    "UPDATE grant SET state = 'spent', ended_at = now_ms()",
	};
	struct desk *d = *state;
	size_t i;

	for (i = 0; i < sizeof(gives) / sizeof(gives[0]); i++) {
		assert_int_equal(amended(d, gives[i]), -1);
		person_says(&d->s, "amendment.gives");
		assert_int_equal(value(d, "SELECT count(*) FROM live_grants"), 1);
		assert_int_equal(
		    value(d, "SELECT count(*) FROM amendment WHERE state <> 'pending'"), 0);
	}
	/* Taking away is what it is for, with all that follows. */
	assert_int_equal(
	    amended(d, "UPDATE pairing SET state = 'revoked', ended_at = now_ms()"), 0);
	assert_int_equal(value(d, "SELECT count(*) FROM live_grants"), 0);
	assert_int_equal(value(d, "SELECT changes ->> '$.grant.updated' FROM amendment"
				  " WHERE state = 'done'"),
	    1);
}

/* The end_reason that the preview gives the grant. */
static const char *
reason_shown(struct desk *d)
{
	const struct amendment_table *t = d->change.tables;
	const struct amendment_cell *c;
	const char *text;

	while (strcmp(t->name, "grant") != 0)
		t++;
	for (c = t->rows[0].cells; strcmp(c->column, "end_reason") != 0;)
		c++;
	text = (const char *)sqlite3_value_text(c->to);
	return text == NULL ? "" : text;
}

/* A secret is NULL also for a statement that writes, whatever it is dressed as. */
static void
secrets_stay_masked(void **state)
{
	static const char *const leaks[] = {
	    "(SELECT hex(secret) FROM factor)",
	    "(WITH w AS (SELECT secret AS x FROM factor) SELECT hex(x) FROM w)",
	    "(WITH grant_moves AS MATERIALIZED (SELECT secret AS x FROM factor)"
	    " SELECT hex(x) FROM grant_moves)",
	    "(SELECT json_group_array(hex(secret)) FROM factor)",
	    "(SELECT hex(secret) FROM (SELECT * FROM factor) AS factor_dropped)",
	    "f.secret FROM factor AS f",
	    "hex(f.secret) FROM (SELECT * FROM factor) AS f",
	};
	struct desk *d = *state;
	char sql[512];
	size_t i;

	for (i = 0; i < sizeof(leaks) / sizeof(leaks[0]); i++) {
		snprintf(sql, sizeof(sql),
		    "UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = %s",
		    leaks[i]);
		if (tried(d, sql) != 0)
			fail_msg("%s: %s", sql, store_refusal(d->s.db)->why);
		if (strlen(reason_shown(d)) > strlen("[\"\"]"))
			fail_msg("%s shows %s", sql, reason_shown(d));
	}
}

/* One code, one amendment; a wrong one is a try and changes nothing else. */
static void
a_code_amends_once(void **state)
{
	struct desk *d = *state;
	unsigned char seen[AMENDMENT_DIGEST];
	int64_t id;
	char code[7];
	int i;

	assert_int_equal(amended(d, LIVE(60)), 0);
	assert_int_equal(amended(d, LIVE(61)), -1);
	person_says(&d->s, "factor.used");
	clock_fix(clock_now() + 30000);
	assert_int_equal(tried(d, LIVE(61)), 0);
	memcpy(seen, d->change.digest, sizeof(seen));
	id = asked(d, LIVE(61));
	for (i = 0; i < 5; i++) {
		assert_int_equal(answered(d, id, "000000", seen), -1);
		person_says(&d->s, "factor.code");
	}
	person_code(&d->person, clock_now(), code);
	assert_int_equal(answered(d, id, code, seen), -1);
	person_says(&d->s, "factor.throttled");
	assert_int_equal(value(d, "SELECT value FROM setting WHERE name = 'op.live'"), 60);
	assert_int_equal(
	    value(d, "SELECT count(*) FROM amendment WHERE state IN ('running', 'done')"), 1);
}

/* The digest of the terms of the only amendment. */
static void
terms_digest(struct desk *d, unsigned char digest[AMENDMENT_DIGEST])
{
	struct stmt *q;

	assert_non_null(q = store_sql(d->s.db, "SELECT sha256(terms) FROM amendment"));
	assert_int_equal(stmt_step(q), 1);
	memcpy(digest, stmt_get_blob(q, 0, AMENDMENT_DIGEST), AMENDMENT_DIGEST);
	stmt_done(q);
}

/* What was shown is what is made: a row that was edited past its rules has other terms. */
static void
what_was_shown_is_made(void **state)
{
	struct desk *d = *state;
	struct approval_answer answer = {.uid = 1000, .name = "alice", .key = d->s.key};
	unsigned char seen[AMENDMENT_DIGEST], digest[AMENDMENT_DIGEST];
	char code[7], trigger[8192], sql[16384];

	assert_int_equal(tried(d, LIVE(60)), 0);
	memcpy(seen, d->change.digest, sizeof(seen));
	answer.id = asked(d, LIVE(60));
	answer.digest = digest;
	answer.code = person_code(&d->person, clock_now(), code);
	terms_digest(d, digest);
	scratch_text(&d->s, "SELECT sql FROM sqlite_schema WHERE name = 'amendment_moves'", trigger,
	    sizeof(trigger));
	snprintf(sql, sizeof(sql),
	    "DROP TRIGGER amendment_moves; UPDATE amendment SET statement = statement || '%s'; %s",
	    " OR name = ''factor.tries''", trigger);
	if (scratch_sql(&d->s, sql) != 0)
		fail_msg("%s", d->s.error);
	scratch_open(&d->s, ROLE_PERSON);
	amendment_free(&d->change);
	assert_int_equal(amendment_make(d->s.db, &answer, seen, &d->change), -1);
	person_says(&d->s, "amendment.terms");
	assert_int_equal(value(d, "SELECT value FROM setting WHERE name = 'op.live'"), 64);
	/* The code was not looked at, so it is good for another. */
	assert_int_equal(value(d, "SELECT count(*) FROM factor_try WHERE outcome = 'wrong'"), 0);
}

/* Another writer in between: nothing is made, the new preview is there, and the code still good. */
static void
a_moved_world_is_shown_again(void **state)
{
	static const char sql[] = "UPDATE setting SET value = value + 1 WHERE name = 'op.live'";
	struct desk *d = *state;
	unsigned char seen[AMENDMENT_DIGEST];
	int64_t id;
	char code[7];

	assert_int_equal(tried(d, sql), 0);
	memcpy(seen, d->change.digest, sizeof(seen));
	id = asked(d, sql);
	/* Nobody waits for a person who thinks. */
	assert_int_equal(scratch_sql(&d->s, LIVE(90)), 0);
	scratch_open(&d->s, ROLE_PERSON);
	person_code(&d->person, clock_now(), code);
	assert_int_equal(answered(d, id, code, seen), -1);
	person_says(&d->s, "amendment.changed");
	assert_int_equal(value(d, "SELECT value FROM setting WHERE name = 'op.live'"), 90);
	memcpy(seen, d->change.digest, sizeof(seen));
	assert_int_equal(answered(d, id, code, seen), 0);
	assert_int_equal(value(d, "SELECT value FROM setting WHERE name = 'op.live'"), 91);
	/* It is made once. */
	clock_fix(clock_now() + 30000);
	assert_int_equal(answered(d, id, person_code(&d->person, clock_now(), code), seen), -1);
	person_says(&d->s, "amendment.decided");
}

/* The present moves on between showing and making, and that is no other change. */
static void
the_present_is_no_change(void **state)
{
	struct desk *d = *state;
	unsigned char seen[AMENDMENT_DIGEST];
	int64_t id;
	char code[7];

	assert_int_equal(tried(d, DROP), 0);
	memcpy(seen, d->change.digest, sizeof(seen));
	id = asked(d, DROP);
	clock_fix(clock_now() + 5000);
	assert_int_equal(answered(d, id, person_code(&d->person, clock_now(), code), seen), 0);
	assert_int_equal(
	    value(d, "SELECT ended_at = now_ms() FROM grant WHERE state = 'dropped'"), 1);
}

static void
what_waits_runs_out(void **state)
{
	struct desk *d = *state;
	unsigned char seen[AMENDMENT_DIGEST];
	int64_t id, given_up;
	char code[7];

	assert_int_equal(tried(d, LIVE(60)), 0);
	memcpy(seen, d->change.digest, sizeof(seen));
	id = asked(d, LIVE(60));
	given_up = asked(d, LIVE(60));
	assert_int_equal(amendment_drop(d->s.db, given_up), 0);
	person_code(&d->person, clock_now(), code);
	assert_int_equal(answered(d, given_up, code, seen), -1);
	person_says(&d->s, "amendment.decided");
	assert_int_equal(amendment_drop(d->s.db, given_up), -1);
	person_says(&d->s, "amendment.decided");
	clock_fix(clock_now() + store_setting(d->s.db, "amendment.ttl_ms"));
	assert_int_equal(answered(d, id, person_code(&d->person, clock_now(), code), seen), -1);
	person_says(&d->s, "amendment.expired");
	asked(d, LIVE(61));
	assert_int_equal(value(d, "SELECT count(*) FROM amendment WHERE state = 'expired'"), 1);
	assert_int_equal(answered(d, 77, code, seen), -1);
	person_says(&d->s, "amendment.unknown");
	scratch_refused(&d->s, "amendment.kept", "DELETE FROM amendment");
	scratch_refused(&d->s, "amendment.decided", "UPDATE amendment SET state = 'done'");
}

/* It holds the others up for so long and no longer. */
static void
what_takes_long_is_ended(void **state)
{
	struct desk *d = *state;

	assert_int_equal(
	    scratch_sql(&d->s, "UPDATE setting SET value = 20 WHERE name = 'amendment.time_ms'"),
	    0);
	scratch_open(&d->s, ROLE_PERSON);
	refused(d, "amendment.time",
	    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
	    " UPDATE setting SET value = (SELECT count(*) FROM c)");
	refused(d, "store.failed", "UPDATE grant SET end_reason = hex(zeroblob(900000000))");
}

/* Statement and reason are text that can be shown. */
static void
terms_are_plain(void **state)
{
	static const char *const reasons[] = {"", "   ", "two\nlines", "\x1b[2J", "a\x7f"};
	struct desk *d = *state;
	char text[512], *longest;
	size_t i;
	int64_t id;

	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		assert_int_equal(amendment_ask(d->s.db, reasons[i], LIVE(60), &id), -1);
		person_says(&d->s, "amendment.reason");
	}
	assert_int_equal(amendment_ask(d->s.db, "x", LIVE(60) " -- \x1b[8m", &id), -1);
	person_says(&d->s, "amendment.text");
	assert_int_equal(amendment_ask(d->s.db, "x", LIVE(60) "\r", &id), -1);
	person_says(&d->s, "amendment.text");
	assert_non_null(longest = calloc(1, 20000));
	memset(longest, ' ', 19999);
	assert_int_equal(amendment_ask(d->s.db, "x", longest, &id), -1);
	person_says(&d->s, "amendment.text");
	free(longest);
	/* No line of a statement poses as one of the terms. */
	asked(d, "/*\nnonce: 0\nmachine: other\n*/" LIVE(60));
	scratch_text(&d->s, "SELECT terms FROM amendment", text, sizeof(text));
	assert_non_null(strstr(text, "\n    nonce: 0\n    machine: other\n"));
	assert_null(strstr(text, "\nmachine: other"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(made_with_its_audit, setup, teardown),
	    cmocka_unit_test_setup_teardown(sealed_tables_are_out_of_reach, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_schema_is_out_of_reach, setup, teardown),
	    cmocka_unit_test_setup_teardown(rules_hold_and_are_named, setup, teardown),
	    cmocka_unit_test_setup_teardown(nothing_is_given, setup, teardown),
	    cmocka_unit_test_setup_teardown(secrets_stay_masked, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_code_amends_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_was_shown_is_made, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_moved_world_is_shown_again, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_present_is_no_change, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_waits_runs_out, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_takes_long_is_ended, setup, teardown),
	    cmocka_unit_test_setup_teardown(terms_are_plain, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
