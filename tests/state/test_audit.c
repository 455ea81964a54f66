/* test_audit.c: seals, and what a check of the chain notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/crypto/key.h"
#include "engine/state/audit.h"
#include "engine/state/audit_export.h"
#include "engine/store/function.h"
#include "tests/scratch.h"

#define ROW(action, body)                                                            \
	"INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)" \
	" VALUES ('op', 'test', '1', '" action "', 'laptop', '" body "');"

/* ${n} rows, each the result of a trigger's insert as any other. */
static void
add_rows(struct scratch *s, int n)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
	    "INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)"
	    " SELECT 'op', 'test', value, 'added', 'laptop', json_object('n', value)"
	    "   FROM (WITH RECURSIVE c (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM c"
	    "          WHERE value < %d) SELECT value FROM c)",
	    n);
	if (scratch_sql(s, sql) != 0)
		fail_msg("%s", s->error);
}

/* A chain of 30 rows with seals at 10 and 20. */
static void
make_chain(struct scratch *s)
{
	int64_t born;

	scratch_make(s, HOME_BOX);
	born = scratch_value(s, "SELECT max(seq) FROM audit");
	assert_in_range(born, 1, 9);
	add_rows(s, 10 - (int)born);
	assert_int_equal(audit_seal(s->db, "interval"), 1);
	add_rows(s, 10);
	assert_int_equal(audit_seal(s->db, "request"), 1);
	add_rows(s, 10);
}

/* What someone may do who holds the file and a tool of their own: our functions, but not our rules.
 */
static void
tamper(struct scratch *s, const char *sql, const struct store_keys *keys, char path[PATH_MAX])
{
	struct function_context ctx;
	char into[PATH_MAX + 32];
	sqlite3 *raw;
	char *error = NULL;

	home_path(&s->home, "copy.db", path);
	remove(path);
	scratch_open(s, ROLE_MIGRATE);
	snprintf(into, sizeof(into), "VACUUM INTO '%s'", path);
	assert_int_equal(sqlite3_exec(store_handle(s->db), into, NULL, NULL, NULL), SQLITE_OK);

	memset(&ctx, 0, sizeof(ctx));
	if (keys != NULL)
		ctx.keys = *keys;
	assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
	assert_int_equal(function_register(raw, &ctx), 0);
	sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	if (sqlite3_exec(raw, "PRAGMA ignore_check_constraints = ON", NULL, NULL, NULL) ||
	    sqlite3_exec(raw, sql, NULL, NULL, &error) != SQLITE_OK)
		fail_msg("%s: %s", sql, error);
	sqlite3_close(raw);
}

static int
verify_copy(const char *path, const unsigned char *key, struct audit_report *report)
{
	struct refusal r = {0};
	struct store *copy;
	int rc;

	if ((copy = store_open_file(path, ROLE_READER, NULL, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	rc = audit_verify(copy, key, NULL, report);
	store_close(copy);
	return rc;
}

/* A head gets one seal, whatever the reason; a new row needs a new one. */
static void
a_head_is_sealed_once(void **state)
{
	struct scratch s;
	int64_t since;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_KEEPER);
	assert_true(audit_unsealed(s.db, &since) > 0);
	assert_true(since > 0);
	assert_int_equal(audit_seal(s.db, "interval"), 1);
	assert_int_equal(audit_seal(s.db, "shutdown"), 0);
	assert_int_equal(audit_unsealed(s.db, &since), 0);
	add_rows(&s, 1);
	assert_int_equal(audit_unsealed(s.db, &since), 1);
	assert_int_equal(audit_seal(s.db, "shutdown"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_seal"), 2);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_seal JOIN audit USING (seq)"
					   " WHERE head = hash"),
	    2);
	scratch_drop(&s);
}

/* Who has no key makes no seal, and nothing is left behind. */
static void
no_key_no_seal(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	s.keys.secret = NULL;
	scratch_open(&s, ROLE_KEEPER);
	assert_int_equal(audit_seal(s.db, "interval"), -1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_seal"), 0);
	scratch_drop(&s);
}

static void
a_whole_chain_is_good(void **state)
{
	struct audit_report report;
	struct scratch s;

	(void)state;
	make_chain(&s);
	scratch_open(&s, ROLE_READER);
	assert_int_equal(audit_verify(s.db, s.keys.identity, NULL, &report), 0);
	assert_int_equal(report.rows, 30);
	assert_int_equal(report.first, 1);
	assert_int_equal(report.last, 30);
	assert_int_equal(report.seals, 2);
	assert_int_equal(report.sealed, 20);
	assert_int_equal(report.behind, 10);
	assert_int_equal(report.bad, 0);
	assert_string_equal(report.what, "");
	assert_int_equal(report.first_at, scratch_value(&s, "SELECT min(at) FROM audit"));
	assert_int_equal(report.last_at, scratch_value(&s, "SELECT max(at) FROM audit"));
	scratch_drop(&s);
}

/* Write rows ${from}.. anew, each with a hash that is right. */
#define RECHAIN(from)                                                                  \
	"CREATE TEMP TABLE c AS WITH RECURSIVE c (seq, prev, hash) AS ("               \
	" SELECT seq, prev, chain_hash(prev, line) FROM audit_line WHERE seq = " from  \
	" UNION ALL SELECT l.seq, c.hash, chain_hash(c.hash, l.line)"                  \
	"   FROM c JOIN audit_line AS l ON l.seq = c.seq + 1) SELECT * FROM c;"        \
	"UPDATE audit SET prev = (SELECT prev FROM c WHERE c.seq = audit.seq),"        \
	"  hash = (SELECT hash FROM c WHERE c.seq = audit.seq) WHERE seq >= " from ";" \
	"DROP TABLE c;"

static const struct {
	const char *sql;
	int64_t bad;
	const char *what;
} tamperings[] = {
    {"UPDATE audit SET body = '{}' WHERE seq = 15", 15, "row 15 does not match its hash"},
    {"UPDATE audit SET who = 'person:mallory' WHERE seq = 28", 28, "row 28 does not match"},
    {"UPDATE audit SET at = at + 1 WHERE seq = 1", 1, "row 1 does not match"},
    {"UPDATE audit SET hash = randomblob(32) WHERE seq = 15", 15, "row 15 does not match"},
    {"UPDATE audit SET hash = x'00' WHERE seq = 15", 15, "row 15 has no hash of 32 bytes"},
    {"UPDATE audit SET body = '{}' WHERE seq = 15;"
     "UPDATE audit SET hash = (SELECT chain_hash(prev, line) FROM audit_line WHERE seq = 15)"
     " WHERE seq = 15",
	16, "row 16 does not follow"},
    {"DELETE FROM audit WHERE seq = 15", 15, "row 15 is missing"},
    {"DELETE FROM audit WHERE seq BETWEEN 12 AND 14", 12, "rows 12 to 14 are missing"},
    {"DELETE FROM audit WHERE seq = 1", 1, "row 1 is missing"},
    {"UPDATE audit SET seq = 1000 WHERE seq = 15; UPDATE audit SET seq = 15 WHERE seq = 16;"
     "UPDATE audit SET seq = 16 WHERE seq = 1000",
	15, "row 15 does not follow"},
    {"DELETE FROM audit WHERE seq > 18", 19, "rows 19 to 20 are missing"},
    {"DELETE FROM audit WHERE seq = 20 OR seq > 20", 20, "row 20 is missing"},
    {"DELETE FROM audit", 1, "rows 1 to 10 are missing"},
    {"UPDATE audit_seal SET at = at + 1 WHERE seq = 10", 10, "the seal of row 10 is not of this"},
    {"UPDATE audit_seal SET reason = 'shutdown' WHERE seq = 20", 20, "the seal of row 20"},
    {"UPDATE audit_seal SET signature = randomblob(64) WHERE seq = 20", 20, "the seal of row 20"},
    {"UPDATE audit_seal SET signature = x'00' WHERE seq = 20", 20, "the seal of row 20"},
    {"UPDATE audit_seal SET seq = 19 WHERE seq = 20", 19, "the seal of row 19 is not of this"},
    /* A forgery with every hash right: the seals are of another chain. */
    {"UPDATE audit SET body = '{}' WHERE seq = 15;" RECHAIN("15"), 20,
	"rows 11 to 20 are not those that were sealed"},
    {"UPDATE audit SET body = '{}' WHERE seq = 15;" RECHAIN(
	 "15") "UPDATE audit_seal SET head = (SELECT hash FROM audit WHERE seq = 20) WHERE seq = 20",
	20, "the seal of row 20 is not of this machine's key"},
};

/* Every way to bend the chain is found, at its row. */
static void
tampering_is_noticed(void **state)
{
	struct audit_report report;
	struct scratch s;
	char path[PATH_MAX];
	size_t i;

	(void)state;
	make_chain(&s);
	for (i = 0; i < sizeof(tamperings) / sizeof(tamperings[0]); i++) {
		tamper(&s, tamperings[i].sql, NULL, path);
		if (verify_copy(path, s.keys.identity, &report) != AUDIT_BAD)
			fail_msg("not noticed: %s", tamperings[i].sql);
		if (report.bad != tamperings[i].bad ||
		    strncmp(report.what, tamperings[i].what, strlen(tamperings[i].what)) != 0)
			fail_msg("row %lld, %s: %s", (long long)report.bad, report.what,
			    tamperings[i].sql);
	}
	scratch_drop(&s);
}

/* A chain and seals that are all in order, but of another machine. */
static void
a_forged_seal_needs_the_key(void **state)
{
	static const char sql[] = "UPDATE audit SET body = '{}' WHERE seq = 5;" RECHAIN(
	    "5") "UPDATE audit_seal SET head = (SELECT hash FROM audit WHERE audit.seq = audit_seal.seq);"
		 "UPDATE audit_seal SET signature = seal_sign('audit', seal_text);"
		 "DELETE FROM audit_checkpoint";
	struct store_keys forger = {.present = true};
	struct audit_report report;
	struct refusal r = {0};
	struct scratch s;
	struct key *key;
	char path[PATH_MAX];

	(void)state;
	make_chain(&s);
	home_path(&s.home, "forger.key", path);
	assert_int_equal(key_create(path, &r), 0);
	assert_non_null(key = key_load(path, &r));
	forger.secret = key;
	key_public(key, KEY_IDENTITY, forger.identity);
	tamper(&s, sql, &forger, path);
	assert_int_equal(verify_copy(path, s.keys.identity, &report), AUDIT_BAD);
	assert_int_equal(report.bad, 10);
	assert_int_equal(verify_copy(path, forger.identity, &report), 0);
	key_free(key);
	scratch_drop(&s);
}

/*
 * The limits that audit.h names: rows that go together with their seals, and rows behind the last
 * seal that are computed anew, look like a younger chain; the report says where the seals end.
 */
static void
what_a_check_cannot_show(void **state)
{
	struct audit_report report;
	struct scratch s;
	char path[PATH_MAX];

	(void)state;
	make_chain(&s);
	tamper(&s,
	    "DELETE FROM audit_seal WHERE seq = 20; DELETE FROM audit_checkpoint WHERE size = 20;"
	    "DELETE FROM audit WHERE seq > 14",
	    NULL, path);
	assert_int_equal(verify_copy(path, s.keys.identity, &report), 0);
	assert_int_equal(report.sealed, 10);
	assert_int_equal(report.behind, 4);
	tamper(&s, "UPDATE audit SET body = '{}' WHERE seq = 25;" RECHAIN("25"), NULL, path);
	assert_int_equal(verify_copy(path, s.keys.identity, &report), 0);
	assert_int_equal(report.sealed, 20);
	assert_int_equal(report.behind, 10);
	scratch_drop(&s);
}

static FILE *
export_of(struct scratch *s, int64_t since)
{
	struct audit_export export = {.format = AUDIT_JSONL, .since = since};
	FILE *f;

	assert_non_null(f = tmpfile());
	assert_true(audit_export(s->db, &export, f) >= 0);
	rewind(f);
	return f;
}

/* Everything that JSON, UTF-8 and SQLite could each write in a way of their own. */
static void
add_odd_rows(struct scratch *s)
{
	if (scratch_sql(s,
		ROW("odd", "{\"store_id\":9007199254740993,\"f\":1.50, \"s\" : 1}") ROW(
		    "t\t\"q\\ /", "{\"e\":\"\\u00e9\\/\"}") ROW("żółć \xf0\x9f\xa6\x8a",
		    "{}") "INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body) VALUES"
			  " ('op', 'test', char(1, 8, 9, 10, 12, 13, 27, 31, 127, 133, 8232), 'odd', '',"
			  "  json_object('t', char(1, 127, 8233)))") != 0)
		fail_msg("%s", s->error);
}

/* What was exported is the chain, whole or from a row on. */
static void
an_export_is_the_chain(void **state)
{
	struct audit_report report, same;
	struct refusal r = {0};
	struct scratch s;
	FILE *f;

	(void)state;
	make_chain(&s);
	add_odd_rows(&s);
	assert_int_equal(audit_seal(s.db, "request"), 1);
	assert_int_equal(audit_verify(s.db, s.keys.identity, NULL, &report), 0);
	f = export_of(&s, 1);
	assert_int_equal(audit_export_verify(f, s.keys.identity, NULL, NULL, &same, &r), 0);
	assert_memory_equal(&report, &same, sizeof(report));
	fclose(f);

	f = export_of(&s, 15);
	assert_int_equal(audit_export_verify(f, s.keys.identity, NULL, NULL, &same, &r), 0);
	assert_int_equal(same.first, 15);
	assert_int_equal(same.rows, 20);
	assert_int_equal(same.seals, 2);
	fclose(f);

	f = export_of(&s, 1000);
	assert_int_equal(audit_export_verify(f, s.keys.identity, NULL, NULL, &same, &r), AUDIT_BAD);
	fclose(f);
	scratch_drop(&s);
}

static const struct {
	const char *edit; /* a sed script */
	int64_t bad;
	const char *what;
} edits[] = {
    {"15s/added/addde/", 0, "does not match its hash"},
    {"15d", 0, "is missing"},
    {"15{h;d};16G", 0, "is missing"},
    {"15p", 0, "stands behind"},
    {"15s/{/{ /", 0, "is not a line of an audit export"},
    {"15s/}$/,\"who\":\"x\"}/", 0, "is not a line of an audit export"},
    {"15s/^/{\"seq\":1}/", 0, "is not a line of an audit export"},
    {"15s/$/\\n/", 0, "is not a line of an audit export"},
    {"15s/.*/nonsense/", 0, "is not a line of an audit export"},
    {"15s/\"prev\":\"../\"prev\":\"zz/", 0, "has no hash"},
    {"/interval/s/\"at\":1/\"at\":2/", 10, "the seal of row 10"},
    {"/interval/{h;d};13G", 10, "the seal of row 10 does not stand"},
};

static void
an_edited_export_is_noticed(void **state)
{
	struct audit_report report;
	struct refusal r = {0};
	struct scratch s;
	struct audit_export whole = {.format = AUDIT_JSONL, .since = 1};
	char command[256], line[80];
	FILE *f, *edited;
	size_t i;

	(void)state;
	make_chain(&s);
	snprintf(line, sizeof(line), "%s/export", s.dir);
	assert_non_null(f = fopen(line, "we"));
	assert_int_equal(audit_export(s.db, &whole, f), 30);
	fclose(f);
	for (i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		snprintf(command, sizeof(command), "sed -e '%s' %s", edits[i].edit, line);
		assert_non_null(edited = popen(command, "re"));
		if (audit_export_verify(edited, s.keys.identity, NULL, NULL, &report, &r) !=
		    AUDIT_BAD)
			fail_msg("not noticed: %s", edits[i].edit);
		pclose(edited);
		assert_non_null(strstr(report.what, edits[i].what));
		if (edits[i].bad != 0)
			assert_int_equal(report.bad, edits[i].bad);
	}
	scratch_drop(&s);
}

/* The script of audit_export.md, as an outsider would run it. */
static void
an_outsider_can_check(void **state)
{
	static const char script[] =
	    "sed -n '/^```python/,/^```/p' engine/state/audit_export.md | sed '/^```/d'";
	struct scratch s;
	struct audit_export whole = {.format = AUDIT_JSONL, .since = 1};
	char command[512], key[CHECKPOINT_KEY], path[80];
	FILE *f;

	(void)state;
	if (system("command -v python3 openssl > /dev/null") != 0) {
		print_message("no python3 or openssl here\n");
		skip();
	}
	make_chain(&s);
	add_odd_rows(&s);
	assert_int_equal(audit_seal(s.db, "request"), 1);
	snprintf(path, sizeof(path), "%s/export", s.dir);
	assert_non_null(f = fopen(path, "we"));
	assert_int_equal(audit_export(s.db, &whole, f), 34);
	fclose(f);
	checkpoint_key_write(s.keys.identity, key);
	snprintf(command, sizeof(command), "%s > %s/check.py && python3 %s/check.py %s < %s",
	    script, s.dir, s.dir, key, path);
	assert_int_equal(system(command), 0);

	/* It does not say yes to everything: an edited row, and an edited seal. */
	snprintf(command, sizeof(command),
	    "sed '5s/op/on/' %s | python3 %s/check.py %s 2> /dev/null", path, s.dir, key);
	assert_int_not_equal(system(command), 0);
	snprintf(command, sizeof(command),
	    "sed 's/interval/shutdown/' %s | python3 %s/check.py %s > /dev/null 2>&1", path, s.dir,
	    key);
	assert_int_not_equal(system(command), 0);
	scratch_drop(&s);
}

struct writer {
	struct scratch *s;
	struct store *db;
	int calls;
};

/* Rows and a seal arrive while the check is half way. */
static void
write_more(void *ctx, int64_t done, int64_t total)
{
	struct writer *w = ctx;

	if (w->calls++ > 0)
		return;
	assert_true(done < total);
	assert_int_equal(store_begin(w->db), 0);
	assert_int_equal(stmt_run(store_sql(w->db, ROW("late", "{}"))), 0);
	assert_int_equal(store_commit(w->db), 0);
	assert_int_equal(audit_seal(w->db, "interval"), 1);
}

/* A check is of one moment, however long it takes. */
static void
a_check_is_of_one_moment(void **state)
{
	struct audit_progress progress;
	struct audit_report report;
	struct refusal r = {0};
	struct scratch s;
	struct writer w = {0};

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 1 WHERE name = 'audit.outbox'"), 0);
	add_rows(&s, 5000);
	assert_int_equal(audit_seal(s.db, "interval"), 1);
	w.s = &s;
	assert_non_null(w.db = store_open(&s.home, ROLE_MIGRATE, &s.keys, &r));
	progress.fn = write_more;
	progress.ctx = &w;
	scratch_open(&s, ROLE_READER);
	assert_int_equal(audit_verify(s.db, s.keys.identity, &progress, &report), 0);
	assert_int_equal(w.calls, 1);
	assert_int_equal(report.seals, 1);
	assert_int_equal(report.behind, 0);
	assert_int_equal(audit_verify(s.db, s.keys.identity, NULL, &report), 0);
	assert_int_equal(report.seals, 2);
	store_close(w.db);
	scratch_drop(&s);
}

static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* 100 000 rows a second, from the database and from an export. */
static void
a_check_is_fast(void **state)
{
	struct audit_report report;
	struct refusal r = {0};
	struct scratch s;
	double begin, database, text;
	FILE *f;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 1 WHERE name = 'audit.outbox'"), 0);
	add_rows(&s, 50000);
	begin = seconds();
	assert_int_equal(audit_verify(s.db, s.keys.identity, NULL, &report), 0);
	database = (double)report.rows / (seconds() - begin);
	f = export_of(&s, 1);
	begin = seconds();
	assert_int_equal(audit_export_verify(f, s.keys.identity, NULL, NULL, &report, &r), 0);
	text = (double)report.rows / (seconds() - begin);
	fclose(f);
	print_message(
	    "%.0f rows a second from the database, %.0f from an export\n", database, text);
#ifndef __SANITIZE_ADDRESS__
	assert_true(database > 100000);
#endif
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_head_is_sealed_once),
	    cmocka_unit_test(no_key_no_seal),
	    cmocka_unit_test(a_whole_chain_is_good),
	    cmocka_unit_test(tampering_is_noticed),
	    cmocka_unit_test(a_forged_seal_needs_the_key),
	    cmocka_unit_test(what_a_check_cannot_show),
	    cmocka_unit_test(an_export_is_the_chain),
	    cmocka_unit_test(an_edited_export_is_noticed),
	    cmocka_unit_test(an_outsider_can_check),
	    cmocka_unit_test(a_check_is_of_one_moment),
	    cmocka_unit_test(a_check_is_fast),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
