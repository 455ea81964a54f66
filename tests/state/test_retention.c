/* test_retention.c: what is old goes in small steps, and nothing else can be removed by anyone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/clock.h"
#include "engine/state/audit.h"
#include "engine/state/retention.h"
#include "tests/program.h"
#include "tests/scratch.h"

#define DAY     INT64_C(86400000)
#define MORNING INT64_C(1800000015000)

static struct scratch s;
static int nonces;

static void
sql(const char *text)
{
	if (scratch_sql(&s, text) != 0)
		fail_msg("%s: %s", text, s.error);
}

static int64_t
value(const char *text)
{
	return scratch_value(&s, text);
}

static int
make(void **state)
{
	(void)state;
	clock_fix(MORNING);
	scratch_make(&s, HOME_BOX);
	nonces = 0;
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

/* One run with ${frames} of ${bytes} each, ended unless it is ${open}. */
static void
run_once(int frames, int bytes, bool open)
{
	char text[2048];

	snprintf(text, sizeof(text),
	    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at) VALUES"
	    " (1, 'observe:cert', '[\"443\"]', printf('%%032x', %d), 1, now_ms());"
	    "UPDATE op_run SET state = 'running', started_at = now_ms() WHERE finished_at IS NULL;"
	    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
	    " INSERT INTO op_output (op_run_id, seq, frame)"
	    " SELECT (SELECT max(id) FROM op_run), i, json_object('o', printf('%%.*c', %d, 'x'))"
	    "   FROM n WHERE i <= %d;"
	    "%s",
	    ++nonces, frames, bytes, frames,
	    open ? ""
		 : "UPDATE op_run SET state = 'done', exit_code = 0, finished_at = now_ms()"
		   " WHERE finished_at IS NULL");
	sql(text);
}

static void
paired(void)
{
	scratch_pair(&s);
	scratch_grant(&s, "observe:cert", "[\"443\"]", 1000, 200 * DAY / 10);
}

/* Take steps until nothing is due.  Return how many there were. */
static int
retain(void)
{
	int rc, n = 0;

	scratch_open(&s, ROLE_KEEPER);
	store_acting(s.db, "actor:keeper");
	while ((rc = retention_step(s.db)) == 1)
		n++;
	if (rc == -1)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
	scratch_open(&s, ROLE_MIGRATE);
	return n;
}

/* Answers go 90 days after their run ended; the run, and what paid for it, stays. */
static void
answers_go_after_their_time(void **state)
{
	(void)state;
	paired();
	run_once(3, 10, false);
	run_once(2, 10, false);
	clock_fix(MORNING + 10 * DAY);
	run_once(4, 10, false);
	run_once(1, 10, true);
	clock_fix(MORNING + 89 * DAY);
	assert_int_equal(retain(), 0);
	clock_fix(MORNING + 91 * DAY);
	assert_int_equal(retain(), 2);
	assert_int_equal(value("SELECT count(*) FROM op_output"), 5);
	assert_int_equal(value("SELECT min(op_run_id) FROM op_output"), 3);
	assert_int_equal(value("SELECT count(*) FROM op_run"), 4);
	assert_int_equal(value("SELECT count(*) FROM grant_use"), 4);
	assert_int_equal(value("SELECT count(*) FROM audit WHERE entity = 'retention'"
			       " AND entity_id = 'op_output' AND action = 'removed'"
			       " AND who = 'actor:keeper' AND body ->> 'rows' = 5"
			       " AND body ->> 'to' = 2 AND body ->> 'days' = 90"),
	    1);
	/* The open run is never old. */
	clock_fix(MORNING + 900 * DAY);
	retain();
	assert_int_equal(value("SELECT count(*) FROM op_output"), 1);
}

/* A setting of 0 keeps for ever, whatever the mark is asked to do. */
static void
for_ever_is_for_ever(void **state)
{
	(void)state;
	paired();
	run_once(3, 10, false);
	run_once(3, 10, false);
	sql("UPDATE setting SET value = 0 WHERE name = 'retention.op_output'");
	clock_fix(MORNING + 9000 * DAY);
	retain();
	assert_int_equal(value("SELECT count(*) FROM op_output"), 6);
	scratch_refused(
	    &s, "retention.young", "UPDATE retention SET gone_to = 1 WHERE entity = 'op_output'");
}

/* A row that may not go is not deleted by any statement, and no mark goes past it. */
static void
nothing_else_is_removed(void **state)
{
	static const char *const marks[] = {
	    "op_output", "factor_try", "refused", "audit", "actor_run", "call_output"};
	char text[128];
	size_t i;

	(void)state;
	paired();
	run_once(3, 10, false);
	run_once(3, 10, false);
	sql("INSERT INTO factor_try (at, kind, outcome) VALUES (now_ms(), 'totp', 'wrong'),"
	    " (now_ms(), 'totp', 'right'), (now_ms(), 'totp', 'right');"
	    "INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
	    " SELECT now_ms(), 1, 'lane', 'x', 'op.args', 'y' FROM op LIMIT 3;"
	    "INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at) VALUES"
	    " ('00000000-0000-0000-0000-000000000000', 1, 1, 0, 'bastion', now_ms())");
	scratch_open(&s, ROLE_KEEPER);
	assert_int_equal(audit_seal(s.db, "request"), 1);
	clock_fix(MORNING + 80 * DAY);
	scratch_refused(&s, "retention.kept", "DELETE FROM op_output");
	scratch_refused(&s, "retention.kept", "DELETE FROM factor_try");
	scratch_refused(&s, "retention.kept", "DELETE FROM refused");
	scratch_refused(&s, "retention.kept", "DELETE FROM process");
	scratch_refused(&s, "audit.append_only", "DELETE FROM audit WHERE seq = 1");
	scratch_refused(&s, "audit.append_only", "DELETE FROM audit_seal");
	scratch_refused(&s, "retention.mark", "DELETE FROM retention");
	scratch_refused(&s, "retention.mark",
	    "INSERT OR REPLACE INTO retention (entity, gone_to) VALUES ('audit', 99)");
	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		snprintf(text, sizeof(text), "UPDATE retention SET gone_to = 1 WHERE entity = '%s'",
		    marks[i]);
		scratch_refused(&s, "retention.young", text);
	}
	/* Old now, but no mark goes past the newest, or past what does not exist yet. */
	clock_fix(MORNING + 9000 * DAY);
	scratch_refused(
	    &s, "retention.young", "UPDATE retention SET gone_to = 2 WHERE entity = 'op_output'");
	scratch_refused(
	    &s, "retention.young", "UPDATE retention SET gone_to = 3 WHERE entity = 'factor_try'");
	scratch_refused(&s, "retention.young",
	    "UPDATE retention SET gone_to = 1 << 40 WHERE entity = 'refused'");
	sql("UPDATE retention SET gone_to = 1 WHERE entity = 'op_output'");
	scratch_refused(
	    &s, "retention.mark", "UPDATE retention SET gone_to = 0 WHERE entity = 'op_output'");
	scratch_refused(
	    &s, "retention.mark", "UPDATE retention SET gone_to = 1 WHERE entity = 'op_output'");
}

/* The keeper moves marks and cannot delete a row itself; nobody else can do even that. */
static void
only_the_keeper_moves_marks(void **state)
{
	static const enum store_role roles[] = {
	    ROLE_READER, ROLE_PERSON, ROLE_NET, ROLE_LINK, ROLE_WORKER, ROLE_SUPERVISOR};
	size_t i;

	(void)state;
	paired();
	clock_fix(MORNING + 9000 * DAY);
	for (i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		scratch_open(&s, roles[i]);
		assert_null(store_sql(s.db, "UPDATE retention SET gone_to = 1"));
		assert_string_equal(store_refusal(s.db)->code, "store.role");
	}
	scratch_open(&s, ROLE_KEEPER);
	assert_null(store_sql(s.db, "DELETE FROM factor_try"));
	assert_string_equal(store_refusal(s.db)->code, "store.role");
	assert_null(store_sql(s.db, "DELETE FROM audit"));
	assert_string_equal(store_refusal(s.db)->code, "store.role");
}

/* A step removes a batch at most, or the one answer that has more. */
static void
steps_are_small(void **state)
{
	int64_t before, after;

	(void)state;
	paired();
	run_once(4, 10, false);
	run_once(4, 10, false);
	run_once(25, 10, false);
	run_once(1, 10, false);
	clock_fix(MORNING + DAY);
	sql("UPDATE setting SET value = 10 WHERE name = 'retention.batch';"
	    "UPDATE setting SET value = 0 WHERE name = 'retention.op_output'");
	sql("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 36)"
	    " INSERT INTO factor_try (at, kind, outcome) SELECT now_ms(), 'totp', 'right' FROM n");
	clock_fix(MORNING + 100 * DAY);
	scratch_open(&s, ROLE_KEEPER);
	for (before = 36; before > 1; before = after) {
		assert_int_equal(retention_step(s.db), 1);
		after = stmt_value(store_sql(s.db, "SELECT count(*) FROM factor_try"), -1);
		assert_in_range(before - after, 1, 10);
	}
	assert_int_equal(retention_step(s.db), 0);
	sql("UPDATE setting SET value = 90 WHERE name = 'retention.op_output'");
	assert_int_equal(retain(), 4);
	assert_int_equal(value("SELECT count(*) FROM op_output"), 1);
	assert_int_equal(value("SELECT max(body ->> 'rows') FROM audit"
			       " WHERE entity = 'retention' AND entity_id = 'op_output'"),
	    25);
}

/* Answers go by frames: so many, no more than so long, but one at least. */
static void
frames_go_a_few_at_a_time(void **state)
{
	int64_t before, after;
	int n;

	(void)state;
	paired();
	run_once(20, 1000, false);
	run_once(3, 50000, false);
	run_once(1, 10, false);
	sql("UPDATE setting SET value = 5 WHERE name = 'retention.frames';"
	    "UPDATE setting SET value = 3000 WHERE name = 'retention.bytes'");
	clock_fix(MORNING + 100 * DAY);
	scratch_open(&s, ROLE_KEEPER);
	assert_int_equal(retention_step(s.db), 1);
	before = stmt_value(store_sql(s.db, "SELECT count(*) FROM op_output"), -1);
	assert_int_equal(before, 24);
	for (n = 0; retention_step(s.db) == 1; n++, before = after) {
		after = stmt_value(store_sql(s.db, "SELECT count(*) FROM op_output"), -1);
		assert_in_range(before - after, 1, 3);
	}
	/* Three of a thousand a step, then each long one alone; the last thousands go with one. */
	assert_int_equal(before, 1);
	assert_in_range(n, 9, 10);
	/* Every row that is left behind no mark is still held. */
	scratch_refused(&s, "retention.kept", "DELETE FROM op_output");
}

/* Numbers are not given again: the newest row stays, however old. */
static void
numbers_are_not_reused(void **state)
{
	(void)state;
	scratch_pair(&s);
	sql("INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
	    " SELECT now_ms(), 1, 'lane', 'x', 'op.args', 'y' FROM op LIMIT 3");
	clock_fix(MORNING + 400 * DAY);
	assert_int_equal(retain(), 1);
	assert_int_equal(value("SELECT count(*) FROM refused"), 1);
	sql("INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
	    " VALUES (now_ms(), 1, 'lane', 'x', 'op.args', 'y')");
	assert_int_equal(value("SELECT max(id) FROM refused"), 4);
}

/* A clock that was wrong for a while: what bears a later time stays, and what is behind it too. */
static void
a_mark_stops_at_what_is_young(void **state)
{
	(void)state;
	sql("INSERT INTO factor_try (at, kind, outcome) VALUES (now_ms(), 'totp', 'right'),"
	    " (now_ms() + 86400000000, 'totp', 'right'), (now_ms(), 'totp', 'right'),"
	    " (now_ms(), 'totp', 'right')");
	clock_fix(MORNING + 100 * DAY);
	assert_int_equal(retain(), 1);
	assert_int_equal(value("SELECT min(id) FROM factor_try"), 2);
	assert_int_equal(value("SELECT count(*) FROM factor_try"), 3);
	scratch_refused(
	    &s, "retention.young", "UPDATE retention SET gone_to = 3 WHERE entity = 'factor_try'");
}

/* Runs of actors go, and their processes with them, but for those that something else names. */
static void
processes_go_with_their_runs(void **state)
{
	(void)state;
	sql("INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at) VALUES"
	    " ('00000000-0000-0000-0000-000000000000', 1, 1, 0, 'bastion', now_ms()),"
	    " ('00000000-0000-0000-0000-000000000000', 2, 1, 0, 'net', now_ms()),"
	    " ('00000000-0000-0000-0000-000000000000', 3, 1, 0, 'net', now_ms()),"
	    " ('00000000-0000-0000-0000-000000000000', 4, 1, 0, 'net', now_ms()),"
	    " ('00000000-0000-0000-0000-000000000000', 5, 1, 0, 'sh', now_ms()),"
	    " ('00000000-0000-0000-0000-000000000000', 6, 1, 0, 'sh', now_ms()),"
	    " ('00000000-0000-0000-0000-000000000000', 7, 1, 0, 'sh', now_ms());"
	    "INSERT INTO lease (name, process_id, fence, expires_at) VALUES ('a', 3, 1, now_ms() + 1);"
	    "INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (1, 'box', 1, '0', '/run/x', now_ms());"
	    "INSERT INTO actor_run (instance_id, actor, attempt, process_id, started_at)"
	    " VALUES (1, 'net', 1, 2, now_ms()), (1, 'worker', 1, 3, now_ms()),"
	    "        (1, 'keeper', 1, 4, now_ms());"
	    "UPDATE instance SET state = 'ready', ready_at = now_ms();"
	    "INSERT INTO session (name, argv, cwd, by_uid, max_attempts, queued_at, not_before)"
	    " VALUES ('s', '[\"x\"]', '/', 0, 1, now_ms(), now_ms());"
	    "INSERT INTO attempt (session_id, n, launched_at) VALUES (1, 1, now_ms());"
	    "UPDATE attempt SET state = 'running', process_id = 5;"
	    "INSERT INTO sandbox_run (nonce, backend, process_id, uid, program, words, net, started_at)"
	    " VALUES (lower(hex(randomblob(16))), 'native', 6, 0, 'x', 1, 'none', now_ms());"
	    "UPDATE instance SET state = 'draining', draining_at = now_ms();"
	    "UPDATE actor_run SET state = 'ended', ended_at = now_ms(), exit_code = 0;"
	    "UPDATE instance SET state = 'ended', ended_at = now_ms(), end_reason = 'x'");
	sql("UPDATE lease SET process_id = 3, expires_at = now_ms() + 1, fence = 2");
	clock_fix(MORNING + 100 * DAY);
	assert_int_equal(retain(), 1);
	assert_int_equal(value("SELECT count(*) FROM actor_run"), 1);
	assert_int_equal(value("SELECT group_concat(id, '') = '134567' FROM process"), 1);
}

/* How many tables the plan ${sql} reads through. */
static int
scans(const char *sql)
{
	sqlite3_stmt *q;
	int n = 0;

	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(sqlite3_prepare_v2(store_handle(s.db), sql, -1, &q, NULL), SQLITE_OK);
	while (sqlite3_step(q) == SQLITE_ROW)
		n += strncmp((const char *)sqlite3_column_text(q, 3), "SCAN", 4) == 0;
	sqlite3_finalize(q);
	return n;
}

/* As many processes as one move covers, and no table is read through for each of them. */
static void
processes_go_a_few_at_a_time(void **state)
{
	char text[512];

	(void)state;
	sql("UPDATE setting SET value = 3 WHERE name = 'retention.batch';"
	    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)"
	    " INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
	    " SELECT '00000000-0000-0000-0000-000000000000', i, 1, 0, 'x', now_ms() FROM n;"
	    "INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (1, 'box', 1, '0', '/run/x', now_ms());"
	    "INSERT INTO actor_run (instance_id, actor, attempt, process_id, started_at)"
	    " VALUES (1, 'net', 1, 1, now_ms()), (1, 'worker', 1, 1, now_ms());"
	    "UPDATE actor_run SET state = 'lost', ended_at = now_ms();"
	    "UPDATE instance SET state = 'lost', ended_at = now_ms(), end_reason = 'x'");
	clock_fix(MORNING + 100 * DAY);
	assert_int_equal(retain(), 1);
	assert_string_equal(
	    scratch_text(&s, "SELECT group_concat(id, '') FROM process", text, sizeof(text)),
	    "156789");
	scratch_text(&s,
	    "SELECT group_concat('SELECT 1 FROM ' || m.name || ' WHERE ' || f.\"from\" || ' = 1',"
	    "    ' UNION ALL ')"
	    "  FROM sqlite_schema AS m JOIN pragma_foreign_key_list(m.name) AS f"
	    " WHERE m.type = 'table' AND f.\"table\" = 'process'",
	    text + 19, sizeof(text) - 19);
	memcpy(text, "EXPLAIN QUERY PLAN ", 19);
	assert_true(strlen(text) < sizeof(text) - 1);
	assert_int_equal(scans(text), 0);
}

/* Rows for the audit on day ${day}, sealed. */
static void
history(int day, int rows)
{
	char text[512];

	clock_fix(MORNING + day * DAY);
	snprintf(text, sizeof(text),
	    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
	    " INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)"
	    " SELECT 'op', 'test', i, 'added', '', '{}' FROM n",
	    rows);
	sql(text);
	scratch_open(&s, ROLE_KEEPER);
	assert_int_equal(audit_seal(s.db, "interval"), 1);
	scratch_open(&s, ROLE_MIGRATE);
}

static int
verify(struct audit_report *report)
{
	scratch_open(&s, ROLE_READER);
	return audit_verify(s.db, s.keys.identity, NULL, report);
}

/* The audit goes only where a person wants it, behind a row that is sealed and exported. */
static void
audit_goes_behind_an_exported_seal(void **state)
{
	struct audit_report report;
	int64_t head;

	(void)state;
	history(0, 20);
	history(1, 20);
	history(50, 300);
	clock_fix(MORNING + 100 * DAY);
	assert_int_equal(retain(), 0);
	sql("UPDATE setting SET value = 60 WHERE name = 'retention.audit'");
	/* Nothing was exported. */
	assert_int_equal(retain(), 0);
	/* Exported up to somewhere behind the second seal, which is row 41 + 1 of birth. */
	sql("UPDATE audit_sink SET sent = 45 WHERE name = 'export'");
	assert_int_equal(retain(), 2);
	assert_int_equal(
	    value("SELECT seq FROM audit_base"), value("SELECT min(seq) FROM audit_seal"));
	assert_int_equal(value("SELECT max(seq) FROM audit_base"), 41);
	assert_int_equal(value("SELECT min(seq) FROM audit"), 41);
	assert_int_equal(
	    value("SELECT count(*) FROM audit WHERE entity = 'audit' AND action = 'pruned'"
		  " AND entity_id = '41' AND body ->> 'exported' = 45"),
	    1);
	assert_int_equal(verify(&report), 0);
	assert_int_equal(report.base, 41);
	assert_int_equal(report.first, 41);
	head = report.last;
	/* And goes on from there. */
	history(101, 300);
	assert_int_equal(verify(&report), 0);
	assert_int_equal(report.last, head + 300);
	assert_int_equal(report.behind, 0);
	/* Rows of day 50 are too young, and those behind the export mark are not exported. */
	assert_int_equal(retain(), 0);
	clock_fix(MORNING + 200 * DAY);
	assert_int_equal(retain(), 0);
	sql("UPDATE audit_sink SET sent = (SELECT max(seq) FROM audit_seal) WHERE name = 'export'");
	assert_true(retain() > 0);
	assert_int_equal(verify(&report), 0);
	assert_true(report.base > 41);
}

static void
says(int code, const char *text, const char *const words[])
{
	struct program p;

	store_close(s.db);
	s.db = NULL;
	program_run(&p, &s, NULL, words);
	if (p.code != code || (strstr(p.out, text) == NULL && strstr(p.err, text) == NULL))
		fail_msg("exit %d, not %d with '%s': %s%s", p.code, code, text, p.out, p.err);
	program_free(&p);
}

/* As a person does it: an export that is marked, without a gap; then verify says where it begins.
 */
static void
a_marked_export_lets_rows_go(void **state)
{
	char first[96], second[96];
	const char *const gap[] = {"audit", "export", "--since", "30", "--mark", first, NULL};
	const char *const pipe[] = {"audit", "export", "--mark", "-", NULL};
	const char *const whole[] = {"audit", "export", "--mark", second, NULL};
	const char *const check[] = {"audit", "verify", NULL};

	(void)state;
	snprintf(first, sizeof(first), "%s/first", s.dir);
	snprintf(second, sizeof(second), "%s/second", s.dir);
	history(0, 20);
	history(1, 300);
	says(126, "rows before 30 were not exported", gap);
	says(2, "--mark needs a file", pipe);
	assert_int_equal(value("SELECT sent FROM audit_sink WHERE name = 'export'"), 0);
	says(0, "321 rows", whole);
	assert_int_equal(value("SELECT sent FROM audit_sink WHERE name = 'export'"), 321);
	assert_int_equal(value("SELECT count(*) FROM audit WHERE entity = 'audit'"
			       " AND action = 'exported' AND who GLOB 'person:*'"),
	    1);
	sql("UPDATE setting SET value = 60 WHERE name = 'retention.audit'");
	clock_fix(MORNING + 100 * DAY);
	assert_true(retain() > 0);
	says(0, "the audit begins at row 21: what came before was exported", check);
}

/* A beginning that the machine did not sign for is no beginning. */
static void
a_beginning_is_signed(void **state)
{
	static const char forge[] =
	    "INSERT INTO audit_base (seq, head, at, signature)"
	    " SELECT seq, head, now_ms(), %s FROM audit_seal ORDER BY seq LIMIT 1";
	char text[512];

	(void)state;
	history(0, 20);
	history(1, 300);
	clock_fix(MORNING + 100 * DAY);
	sql("UPDATE setting SET value = 60 WHERE name = 'retention.audit';"
	    "UPDATE audit_sink SET sent = 45 - 5 WHERE name = 'export'");
	snprintf(text, sizeof(text), forge, "zeroblob(64)");
	scratch_refused(&s, "audit.seal", text);
	/* The seal of the row is no signature of a beginning. */
	snprintf(text, sizeof(text), forge, "signature");
	scratch_refused(&s, "audit.seal", text);
	scratch_refused(&s, "audit.base",
	    "INSERT INTO audit_base (seq, head, at, signature)"
	    " SELECT seq, hash, now_ms(), zeroblob(64) FROM audit WHERE seq = 5");
	sql("UPDATE setting SET value = 0 WHERE name = 'retention.audit'");
	scratch_refused(&s, "retention.young", text);
}

/* As another tool would that knows the file's format and not the machine's key: edit a copy. */
static void
edit(const char *copy, const char *text)
{
	char all[2048];
	sqlite3 *db;

	assert_int_equal(sqlite3_open(copy, &db), SQLITE_OK);
	snprintf(all, sizeof(all),
	    "CREATE TEMP TABLE t AS SELECT * FROM sqlite_schema WHERE type = 'trigger';"
	    "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE type = 'trigger';"
	    "PRAGMA writable_schema = RESET; %s; PRAGMA writable_schema = ON;"
	    "INSERT INTO sqlite_schema SELECT * FROM temp.t; PRAGMA writable_schema = RESET",
	    text);
	if (sqlite3_exec(db, all, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", text, sqlite3_errmsg(db));
	sqlite3_close(db);
}

static void
copy_is_bad(const char *copy, const char *what)
{
	struct audit_report report;
	struct refusal r = {0};
	struct store *db;

	if ((db = store_open_file(copy, ROLE_READER, NULL, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	assert_int_equal(audit_verify(db, s.keys.identity, NULL, &report), AUDIT_BAD);
	if (strstr(report.what, what) == NULL)
		fail_msg("not '%s' but '%s'", what, report.what);
	store_close(db);
}

/* Rows that somebody took away cannot pass for rows that retention removed. */
static void
taken_rows_cannot_pass_for_old_ones(void **state)
{
	char copy[96], text[256];

	(void)state;
	history(0, 20);
	history(1, 20);
	store_close(s.db);
	s.db = NULL;
	snprintf(copy, sizeof(copy), "%s/copy.db", s.dir);
	snprintf(text, sizeof(text), "cp %s/state/bastion.db %s", s.dir, copy);
	assert_int_equal(system(text), 0);
	edit(copy, "DELETE FROM audit_seal WHERE seq < 41; DELETE FROM audit WHERE seq < 41;"
		   "UPDATE retention SET gone_to = 40 WHERE entity = 'audit'");
	copy_is_bad(copy, "rows 1 to 21 are missing");
	edit(copy, "INSERT INTO audit_base (seq, head, at, signature)"
		   " SELECT seq, head, at, signature FROM audit_seal WHERE seq = 41");
	copy_is_bad(copy, "not by the word of this machine's key");
}

/* A beginning that was signed holds for its row alone. */
static void
a_beginning_is_not_moved(void **state)
{
	char copy[96], text[256];

	(void)state;
	history(0, 20);
	history(1, 20);
	history(2, 300);
	sql("UPDATE setting SET value = 98 WHERE name = 'retention.audit';"
	    "UPDATE audit_sink SET sent = 45 WHERE name = 'export'");
	clock_fix(MORNING + 100 * DAY - 1000);
	assert_true(retain() > 0);
	assert_int_equal(value("SELECT max(seq) FROM audit_base"), 41);
	store_close(s.db);
	s.db = NULL;
	snprintf(copy, sizeof(copy), "%s/copy.db", s.dir);
	snprintf(text, sizeof(text), "cp %s/state/bastion.db %s", s.dir, copy);
	assert_int_equal(system(text), 0);
	edit(copy, "DELETE FROM audit_seal WHERE seq < 341; DELETE FROM audit WHERE seq < 341");
	copy_is_bad(copy, "row 41, where the audit begins, is missing");
	edit(copy, "UPDATE audit_base SET seq = 341,"
		   " head = (SELECT head FROM audit_seal WHERE seq = 341)");
	copy_is_bad(copy, "not by the word of this machine's key");
}

/* Pages that became free go back to the disk, a few at a time, down to what is kept for reuse. */
static void
free_pages_go_back(void **state)
{
	char path[PATH_MAX];
	struct stat st;
	int64_t full;
	int i;

	(void)state;
	paired();
	for (i = 0; i < 8; i++)
		run_once(10, 100000, false);
	run_once(1, 10, false);
	assert_int_equal(value("PRAGMA auto_vacuum"), 2);
	full = value("PRAGMA page_count");
	sql("UPDATE setting SET value = 100 WHERE name = 'store.free_pages'");
	clock_fix(MORNING + 100 * DAY);
	assert_true(retain() >= 7);
	assert_int_equal(value("PRAGMA freelist_count"), 100);
	assert_true(value("PRAGMA page_count") < full - 1500);
	store_close(s.db);
	s.db = NULL;
	home_path(&s.home, "bastion.db", path);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size < (full - 1500) * 4096);
}

static void
decided(int n)
{
	for (; n > 0; n--)
		sql("INSERT INTO decision (at, tool, side_effect, permission, granted, mode, autonomy,"
		    " args_sha256, risk_level, categories, cancelled, confined, scoped, policy) VALUES"
		    " (now_ms(), 'bash', 'shell', 'prompt', 0, 'ask', '', zeroblob(32), 'low', '[]', 0, 0,"
		    " 0, (SELECT policy FROM policy_json))");
}

/* Decisions about tools go after their time with what each gate said, the newest never; nobody
 * removes a younger one, and the audit says how many went. */
static void
decisions_go_after_their_time(void **state)
{
	(void)state;
	decided(3);
	clock_fix(MORNING + 100 * DAY);
	decided(2);
	assert_true(value("SELECT count(*) FROM decision_gate") >= 5);
	scratch_refused(&s, "policy.history", "DELETE FROM decision");
	scratch_refused(&s, "policy.history", "DELETE FROM decision_gate");
	scratch_refused(&s, "policy.history", "DELETE FROM decision_found");
	assert_int_equal(retain(), 0);
	clock_fix(MORNING + 366 * DAY);
	assert_int_equal(value("SELECT gone_to FROM decision_due"), 3);
	scratch_refused(&s, "policy.history", "DELETE FROM decision WHERE id = 4");
	scratch_refused(&s, "policy.history", "DELETE FROM decision_gate WHERE decision_id = 4");
	assert_true(retain() >= 1);
	assert_int_equal(value("SELECT min(id) FROM decision"), 4);
	assert_int_equal(value("SELECT min(decision_id) FROM decision_gate"), 4);
	assert_int_equal(value("SELECT min(decision_id) FROM decision_found"), 4);
	assert_int_equal(value("SELECT count(*) FROM audit WHERE entity = 'retention'"
			       " AND entity_id = 'decision' AND body ->> 'rows' = 3"),
	    1);
	clock_fix(MORNING + 900 * DAY);
	sql("UPDATE setting SET value = 0 WHERE name = 'retention.decision'");
	assert_int_equal(value("SELECT count(*) FROM decision_due"), 0);
	sql("UPDATE setting SET value = 365 WHERE name = 'retention.decision'");
	assert_true(retain() >= 1);
	assert_int_equal(value("SELECT group_concat(id) FROM decision"), 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(answers_go_after_their_time, make, drop),
	    cmocka_unit_test_setup_teardown(for_ever_is_for_ever, make, drop),
	    cmocka_unit_test_setup_teardown(nothing_else_is_removed, make, drop),
	    cmocka_unit_test_setup_teardown(only_the_keeper_moves_marks, make, drop),
	    cmocka_unit_test_setup_teardown(steps_are_small, make, drop),
	    cmocka_unit_test_setup_teardown(frames_go_a_few_at_a_time, make, drop),
	    cmocka_unit_test_setup_teardown(numbers_are_not_reused, make, drop),
	    cmocka_unit_test_setup_teardown(a_mark_stops_at_what_is_young, make, drop),
	    cmocka_unit_test_setup_teardown(processes_go_with_their_runs, make, drop),
	    cmocka_unit_test_setup_teardown(processes_go_a_few_at_a_time, make, drop),
	    cmocka_unit_test_setup_teardown(audit_goes_behind_an_exported_seal, make, drop),
	    cmocka_unit_test_setup_teardown(a_marked_export_lets_rows_go, make, drop),
	    cmocka_unit_test_setup_teardown(a_beginning_is_signed, make, drop),
	    cmocka_unit_test_setup_teardown(taken_rows_cannot_pass_for_old_ones, make, drop),
	    cmocka_unit_test_setup_teardown(a_beginning_is_not_moved, make, drop),
	    cmocka_unit_test_setup_teardown(decisions_go_after_their_time, make, drop),
	    cmocka_unit_test_setup_teardown(free_pages_go_back, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
