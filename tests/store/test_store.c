/* test_store.c: roles, secrets, refusals, transactions, statements, seals; foreign schemas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <limits.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "engine/store/backup.h"
#include "engine/store/migrate.h"
#include "tests/scratch.h"

#define ASK                                                                     \
	"INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)" \
	" VALUES (1, 'observe:folders', '[\"/usr\",\"2\"]', '00000000000000000000000000000001',"
#define ARGS "[\"/usr\",\"2\"]"

/* A grant is spent by its use, and the next ask is a question again. */
static void
a_run_needs_a_grant(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	scratch_refused(&s, "approval.needed", ASK " NULL, now_ms())");
	assert_int_equal(scratch_grant(&s, "observe:folders", ARGS, 1, 60000), 1);
	if (scratch_sql(&s, ASK " 1, now_ms())") != 0)
		fail_msg("%s", s.error);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant WHERE state = 'spent'"), 1);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM approval WHERE state = 'burned'"), 1);
	scratch_drop(&s);
}

static const struct {
	char letter;
	enum store_role role;
} roles[] = {
    {'R', ROLE_READER},
    {'P', ROLE_PERSON},
    {'A', ROLE_AMEND},
    {'N', ROLE_NET},
    {'L', ROLE_LINK},
    {'W', ROLE_WORKER},
    {'E', ROLE_EGRESS},
    {'K', ROLE_KEEPER},
    {'S', ROLE_SUPERVISOR},
};

#define ROLES (sizeof(roles) / sizeof(roles[0]))

/* Who inserts, updates, deletes, from the actors' jobs in DESIGN §5; every table stands here. */
static const struct {
	const char *table, *may[3];
} duties[] = {
    {"setting", {"", "PA", ""}},
    {"factor", {"P", "P", ""}},
    {"factor_try", {"P", "", ""}},
    {"approval", {"N", "PK", ""}},
    {"grant", {"P", "PKA", ""}},
    {"mode_change", {"P", "", ""}},
    {"pairing", {"P", "PKA", ""}},
    {"pairing_consent", {"P", "", ""}},
    {"anchor", {"P", "P", ""}},
    {"anchor_terms", {"PN", "", ""}},
    {"invitation", {"P", "PNK", ""}},
    {"host_box", {"N", "PNL", ""}},
    {"call", {"N", "NLK", ""}},
    {"call_output", {"L", "", "K"}},
    {"context_ask", {"N", "PNK", ""}},
    {"pairing_endpoint", {"P", "", "P"}},
    {"pairing_tls", {"P", "", ""}},
    {"tls_authority", {"PL", "", ""}},
    {"tls_identity", {"PNL", "", ""}},
    {"box_certificate", {"N", "L", ""}},
    {"box_line", {"N", "N", ""}},
    {"pairing_line", {"N", "N", "N"}},
    {"pairing_socket", {"P", "P", ""}},
    {"listen", {"P", "", "P"}},
    {"host_address", {"P", "", "P"}},
    {"op_run", {"N", "NW", ""}},
    {"op_output", {"W", "", "K"}},
    {"op_probe", {"W", "W", ""}},
    {"agent_scan", {"W", "W", ""}},
    {"verb_dial", {"W", "", ""}},
    {"sandbox_run", {"PNW", "PNW", ""}},
    {"op_manifest", {"P", "P", ""}},
    {"program_run", {"W", "W", ""}},
    {"program_reach", {"", "", ""}},
    {"program_lend", {"", "", ""}},
    {"op_built", {"P", "", ""}},
    {"op_manifest_after", {"", "", ""}},
    {"op_cancel", {"N", "", ""}},
    {"remote_listen", {"P", "", "P"}},
    {"remote_credential", {"P", "PK", ""}},
    {"remote_try", {"N", "", ""}},
    {"remote_bundle", {"N", "N", ""}},
    {"run_port", {"PN", "", ""}},
    {"worker", {"P", "", "P"}},
    {"session", {"PNW", "PNW", "P"}},
    {"session_number", {"", "", ""}}, /* triggers do */
    {"schedule", {"P", "PW", "P"}},
    {"firing", {"PW", "", ""}},
    {"session_input", {"PN", "", ""}},
    {"session_typist", {"N", "N", "N"}},
    {"session_output", {"W", "", "W"}},
    {"attempt", {"W", "W", ""}},
    {"folder_walk", {"W", "W", ""}},
    {"mcp_token", {"P", "P", ""}},
    {"refused", {"NPL", "", ""}},
    {"host_beat", {"NL", "", ""}},
    {"host_order", {"P", "PNLK", ""}},
    {"directive", {"L", "LNWK", ""}},
    {"directive_untold", {"", "", "L"}},
    {"rotation_endpoint", {"L", "", ""}},
    {"contain_spare", {"P", "P", ""}},
    {"contain_account", {"P", "P", ""}},
    {"contain_right", {"P", "PK", ""}},
    {"contain_process", {"W", "", ""}},
    {"quarantine", {"", "PK", ""}},
    {"policy_value", {"P", "P", "P"}},
    {"policy_domain", {"P", "", "P"}},
    {"policy_path", {"P", "", "P"}},
    {"tool_grant", {"P", "P", ""}},
    {"decision", {"PNW", "", ""}},
    {"audit_seal", {"KP", "", ""}},
    {"audit_sink", {"", "PK", ""}},
    {"audit_base", {"K", "", ""}},
    {"retention", {"", "K", ""}},
    {"backup", {"P", "", ""}},
    {"audit_tile", {"KP", "", ""}},
    {"audit_checkpoint", {"KP", "", ""}},
    {"audit_word", {"K", "", ""}},
    /* FTS5's own: no statement of anybody's writes them. */
    {"audit_word_data", {NULL}},
    {"audit_word_idx", {NULL}},
    {"audit_word_docsize", {NULL}},
    {"audit_word_config", {NULL}},
    {"host_terms", {"P", "L", ""}},
    {"box_witness", {"L", "LP", ""}},
    {"box_catalog", {"", "", ""}},
    {"directive_gone", {"", "", ""}},
    {"box_op", {"", "", ""}},
    {"egress_rule", {"P", "P", ""}},
    {"egress_within", {"P", "", ""}},
    {"egress_request", {"E", "E", "E"}},
    {"egress_authority", {"E", "E", ""}},
    {"token", {"P", "P", ""}},
    {"token_host", {"P", "", ""}},
    {"egress_flow", {"E", "E", "E"}},
    {"egress_use", {"", "", "E"}},
    {"egress_parked", {"N", "N", "N"}},
    {"egress_port", {"P", "", "P"}},
    {"box_parked", {"N", "N", "N"}},
    {"own_address", {"E", "", "E"}},
    {"egress_way", {"", "", ""}},
    {"egress_room", {"", "", ""}},
    {"egress_stretch", {"", "", ""}},
    {"process", {"PNLWEKS", "", ""}},
    {"lease", {"PNLWEKS", "PNLWEKSA", ""}},
    {"amendment", {"P", "P", ""}},
    {"instance", {"S", "S", ""}},
    {"actor_run", {"S", "S", ""}},
    /* Of the machine's birth, of migrations, or of triggers alone. */
    {"schema_step", {"", "", ""}},
    {"remote_session", {"", "", ""}},
    {"refusal", {"", "", ""}},
    {"state_rule", {"", "", ""}},
    {"box", {"", "", ""}},
    {"restore", {"", "", ""}},
    {"op", {"", "", ""}},
    {"op_param", {"", "", ""}},
    {"verb", {"", "", ""}},
    {"op_result", {"", "", ""}},
    {"address_class", {"", "", ""}},
    {"egress_preset", {"", "", ""}},
    {"audit", {"", "", ""}},
    {"audit_entry", {"", "", ""}},
    {"audit_gap", {"", "", ""}},
    {"grant_use", {"", "", ""}},
    {"beat_request", {"", "", "L"}},
    {"enforces", {"", "", ""}},
    {"strike", {"", "", ""}},
    {"refused_stretch", {"", "", ""}},
    {"policy_field", {"", "", ""}},
    {"decision_gate", {"", "", ""}},
    {"decision_found", {"", "", ""}},
    {"gate", {"", "", ""}},
};

#define DUTIES (sizeof(duties) / sizeof(duties[0]))

/* ${form} with $t and $c as the names of a table and a column. */
static void
fill(const char *form, const char *table, const char *column, char *out, size_t size)
{
	size_t n = 0;

	for (; *form != '\0' && n + 1 < size; form++)
		if (*form != '$')
			out[n++] = *form;
		else
			n += (size_t)snprintf(
			    out + n, size - n, "%s", *++form == 't' ? table : column);
	assert_true(n < size);
	out[n] = '\0';
}

/* What SQLite says to ${sql}, compiled and not run. */
static int
verdict(struct store *db, const char *sql)
{
	sqlite3_stmt *q;
	int rc = sqlite3_prepare_v2(store_handle(db), sql, -1, &q, NULL);

	sqlite3_finalize(q);
	return rc & 0xff;
}

static void
first_column(struct store *db, const char *table, char *column, size_t size)
{
	sqlite3_stmt *q;
	char sql[96];

	snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
	assert_int_equal(sqlite3_prepare_v2(store_handle(db), sql, -1, &q, NULL), SQLITE_OK);
	snprintf(column, size, "%s", sqlite3_column_name(q, 0));
	sqlite3_finalize(q);
}

static void
duty_holds(struct scratch *s, size_t role, size_t duty)
{
	static const char *const forms[] = {
	    "INSERT INTO $t DEFAULT VALUES", "UPDATE $t SET \"$c\" = NULL", "DELETE FROM $t"};
	char sql[256], column[64];
	int i, rc, want;

	first_column(s->db, duties[duty].table, column, sizeof(column));
	for (i = 0; i < 3; i++) {
		fill(forms[i], duties[duty].table, column, sql, sizeof(sql));
		/* Of a view only an INSERT has a trigger; the rest means nothing. */
		if (i > 0 && strcmp(duties[duty].table, "audit_entry") == 0)
			continue;
		rc = verdict(s->db, sql);
		if (duties[duty].may[0] == NULL) {
			if (rc != SQLITE_AUTH && rc != SQLITE_ERROR)
				fail_msg("role %c: %s passes", roles[role].letter, sql);
			continue;
		}
		want = strchr(duties[duty].may[i], roles[role].letter) != NULL ? SQLITE_OK
									       : SQLITE_AUTH;
		if ((rc == SQLITE_AUTH) != (want == SQLITE_AUTH))
			fail_msg("role %c: %s: %s, SQLite says %d", roles[role].letter, sql,
			    want == SQLITE_OK ? "is its job" : "is not its job", rc);
	}
}

/* DESIGN §3: each role writes its own tables and no other: role by table by statement. */
static void
roles_write_their_own(void **state)
{
	struct scratch s;
	size_t role, duty;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"
					   " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"),
	    DUTIES - 1);
	for (role = 0; role < ROLES; role++) {
		scratch_open(&s, roles[role].role);
		for (duty = 0; duty < DUTIES; duty++)
			duty_holds(&s, role, duty);
	}
	/* Who only reads has nothing signed. */
	scratch_open(&s, ROLE_READER);
	assert_int_equal(verdict(s.db, "SELECT seal_sign('grant', 'x')"), SQLITE_ERROR);
	assert_int_equal(verdict(s.db, "SELECT checkpoint_sign(1, zeroblob(32))"), SQLITE_ERROR);
	scratch_open(&s, ROLE_KEEPER);
	assert_int_equal(verdict(s.db, "SELECT checkpoint_sign(1, zeroblob(32))"), SQLITE_OK);
	scratch_drop(&s);
}

/* A connection that looks cannot write at all: its file is open for reading. */
static void
readers_only_read(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_READER);
	assert_int_equal(sqlite3_db_readonly(store_handle(s.db), "main"), 1);
	sqlite3_set_authorizer(store_handle(s.db), NULL, NULL);
	assert_int_equal(stmt_run(store_sql(s.db, "UPDATE setting SET value = 1"
						  " WHERE name = 'op.live'")),
	    -1);
	assert_string_equal(store_refusal(s.db)->code, "store.readonly");
	scratch_drop(&s);
}

/* Reading the column in any shape gives NULL. */
static void
secret_hidden(struct scratch *s, const char *table, const char *column, bool hidden)
{
	static const char *const forms[] = {
	    "SELECT count($c) FROM $t",
	    "SELECT count(*) FROM $t WHERE $c IS NOT NULL",
	    "WITH c AS (SELECT * FROM $t) SELECT count($c) FROM c",
	    "WITH RECURSIVE c(x) AS (SELECT $c FROM $t UNION SELECT x FROM c) SELECT count(x) FROM c",
	    "SELECT count(*) FROM (SELECT * FROM $t) AS t WHERE length(t.$c) > 0",
	    "SELECT count(*) FROM $t WHERE json_array(hex($c)) <> json_array('')",
	    "SELECT count(*) FROM $t WHERE $c BETWEEN x'00' AND x'ffff'",
	    "SELECT count(*) FROM (SELECT max($c) AS m FROM $t) WHERE m IS NOT NULL",
	    "SELECT count(*) FROM (SELECT $c AS m FROM $t GROUP BY $c) WHERE m IS NOT NULL",
	    "SELECT count(*) FROM (SELECT lead($c, 0) OVER () AS m FROM $t) WHERE m IS NOT NULL",
	    "SELECT count(*) FROM $t WHERE (SELECT typeof($c)) <> 'null'",
	    "SELECT count(*) FROM $t AS o WHERE EXISTS (SELECT 1 WHERE o.$c IS NOT NULL)",
	    "SELECT count(*) FROM $t WHERE CASE WHEN $c > x'' THEN 1 ELSE 0 END",
	};
	char sql[512];
	size_t i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		fill(forms[i], table, column, sql, sizeof(sql));
		if ((scratch_value(s, sql) == 0) != hidden)
			fail_msg("%s shows %s", sql, hidden ? "a secret" : "nothing");
	}
}

/* DESIGN §3: secret columns are NULL but for the role that uses them. */
static void
secrets_are_for_one_role(void **state)
{
	struct scratch s;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	if (scratch_sql(&s,
		"INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
		" VALUES ('b', randomblob(32), now_ms(), now_ms() + 1000);"
		"INSERT INTO mcp_token (label, digest, created_at)"
		" VALUES ('agent', randomblob(32), now_ms());"
		"INSERT INTO remote_credential (name, found_by, digest, by_uid, verbs, roots,"
		"  created_at, expires_at) VALUES ('far', '0123456789abcdef', randomblob(32), 0,"
		"  '[\"run\"]', '[\"/srv\"]', now_ms(), now_ms() + 1000)") != 0)
		fail_msg("%s", s.error);
	for (i = 0; i < ROLES; i++) {
		scratch_open(&s, roles[i].role);
		secret_hidden(&s, "factor", "secret", roles[i].letter != 'P');
		secret_hidden(
		    &s, "invitation", "token_digest", strchr("PNL", roles[i].letter) == NULL);
		secret_hidden(&s, "mcp_token", "digest", strchr("PN", roles[i].letter) == NULL);
		secret_hidden(
		    &s, "remote_credential", "digest", strchr("PN", roles[i].letter) == NULL);
		if (roles[i].letter != 'P')
			assert_int_equal(
			    scratch_value(&s, "SELECT count(*) FROM factor, pragma_table_list"
					      " WHERE factor.secret IS NOT NULL"),
			    0);
	}
	scratch_drop(&s);
}

/*
 * SQLite 3.40 asks no authorizer for the columns of NATURAL and USING: FULL JOIN USING (secret)
 * shows them.  Such joins are refused where they could, whatever they are dressed as.
 */
static void
joins_show_no_secret(void **state)
{
	static const char *const leaks[] = {
	    "SELECT secret FROM factor AS a FULL JOIN factor AS b USING (secret)",
	    "SELECT secret FROM factor AS a FULL JOIN factor AS b uSiNg/**/(\"secret\")",
	    "SELECT secret FROM factor AS a FULL JOIN factor AS b USING -- '\n ([Secret])",
	    "SELECT * FROM factor AS a FULL JOIN factor AS b USING (id, `secret`)",
	    "SELECT * FROM factor AS a FULL JOIN factor AS b USING (id, 'secret')",
	    "SELECT * FROM factor NATURAL FULL JOIN factor AS b",
	    "SELECT * FROM \"factor\" AS a NATURAL FULL OUTER JOIN 'factor' AS b",
	    "SELECT count(*) FROM factor NATURAL JOIN (SELECT x'00' AS secret)",
	    "SELECT 'it''s' /* ' */, secret FROM factor AS a FULL JOIN factor USING (secret)",
	};
	static const char *const fine[] = {
	    "SELECT id FROM factor AS a JOIN factor AS b USING (id)",
	    "SELECT 'using', secret FROM factor",
	    "SELECT 'natural' FROM factor",
	    "SELECT 1 -- using (secret)",
	    "SELECT 1 /* natural join factor */",
	    "SELECT * FROM op_run NATURAL JOIN grant",
	};
	struct scratch s;
	struct stmt *q;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	scratch_open(&s, ROLE_READER);
	for (i = 0; i < sizeof(leaks) / sizeof(leaks[0]); i++) {
		if ((q = store_sql(s.db, leaks[i])) != NULL)
			fail_msg("shown: %s", leaks[i]);
		assert_string_equal(store_refusal(s.db)->code, "store.role");
	}
	for (i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		if ((q = store_sql(s.db, fine[i])) == NULL)
			fail_msg("%s: %s", fine[i], store_refusal(s.db)->why);
		stmt_done(q);
	}
	scratch_open(&s, ROLE_PERSON);
	assert_non_null(q = store_sql(s.db, leaks[0]));
	stmt_done(q);
	scratch_drop(&s);
}

/* Nothing that reaches past the tables is open to a role. */
static void
no_way_around(void **state)
{
	static const char *const tries[] = {
	    "ATTACH ':memory:' AS x",
	    "ATTACH 'bastion.db' AS x",
	    "DETACH main",
	    "PRAGMA writable_schema = ON",
	    "PRAGMA foreign_keys = OFF",
	    "PRAGMA foreign_keys",
	    "PRAGMA journal_mode = DELETE",
	    "PRAGMA journal_mode",
	    "PRAGMA user_version = 7",
	    "PRAGMA application_id = 7",
	    "PRAGMA secure_delete = OFF",
	    "PRAGMA recursive_triggers = OFF",
	    "PRAGMA trusted_schema = OFF",
	    "PRAGMA ignore_check_constraints = ON",
	    "PRAGMA defer_foreign_keys = ON",
	    "PRAGMA wal_autocheckpoint = 1",
	    "PRAGMA wal_checkpoint(TRUNCATE)",
	    "PRAGMA locking_mode = EXCLUSIVE",
	    "PRAGMA synchronous = OFF",
	    "PRAGMA synchronous = 0",
	    "PRAGMA data_version = 1",
	    "PRAGMA schema_version = 1",
	    "PRAGMA cell_size_check = OFF",
	    "PRAGMA mmap_size = 1000000",
	    "PRAGMA temp_store_directory = '/tmp'",
	    "SELECT load_extension('x')",
	    "SELECT fts3_tokenizer('simple', x'0000000000000000')",
	    "CREATE TABLE t (a)",
	    "CREATE TEMP TABLE t (a)",
	    "CREATE TABLE t AS SELECT * FROM factor",
	    "CREATE VIEW v AS SELECT secret FROM factor",
	    "CREATE TEMP VIEW v AS SELECT secret FROM factor",
	    "CREATE TEMP TRIGGER t AFTER INSERT ON approval BEGIN DELETE FROM audit; END",
	    "CREATE TRIGGER t AFTER INSERT ON approval BEGIN DELETE FROM audit; END",
	    "CREATE INDEX i ON factor (secret)",
	    "CREATE VIRTUAL TABLE f USING fts5(x)",
	    "CREATE VIRTUAL TABLE temp.f USING fts5(x)",
	    "DROP TABLE audit",
	    "DROP TRIGGER audit_no_update",
	    "DROP VIEW live_runs",
	    "DROP INDEX grant_usable",
	    "ALTER TABLE audit RENAME TO a",
	    "ALTER TABLE audit ADD COLUMN a",
	    "ALTER TABLE audit DROP COLUMN body",
	    "INSERT INTO sqlite_schema VALUES ('table', 't', 't', 2, 'CREATE TABLE t (a)')",
	    "DELETE FROM sqlite_schema",
	    "VACUUM",
	    "VACUUM INTO '/tmp/bastion-vacuum'",
	    "REINDEX",
	    "ANALYZE",
	};
	struct scratch s;
	size_t role, i;
	int want;

	(void)state;
	scratch_make(&s, HOME_BOX);
	for (role = 0; role < ROLES; role++) {
		scratch_open(&s, roles[role].role);
		for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
			if (sqlite3_exec(store_handle(s.db), tries[i], NULL, NULL, NULL) ==
			    SQLITE_OK)
				fail_msg("role %c may: %s", roles[role].letter, tries[i]);
		assert_int_not_equal(verdict(s.db, "UPDATE sqlite_schema SET sql = ''"), SQLITE_OK);
		assert_int_equal(verdict(s.db, "SELECT value FROM json_each('[1]')"), SQLITE_OK);
		/* An amendment has no PRAGMA at all, and its transaction is not its own. */
		want = roles[role].role == ROLE_AMEND ? SQLITE_AUTH : SQLITE_OK;
		assert_int_equal(verdict(s.db, "PRAGMA table_info(grant)"), want);
		assert_int_equal(verdict(s.db, "PRAGMA integrity_check"), want);
		assert_int_equal(verdict(s.db, "COMMIT"), want);
		assert_int_equal(verdict(s.db, "SAVEPOINT a"), want);
	}
	scratch_drop(&s);
}

/* A role that may not write the audit writes it through the rules, under its own name. */
static void
triggers_write_the_audit(void **state)
{
	struct scratch s;
	struct stmt *q;
	char who[64];

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_NET);
	store_acting(s.db, "host:%s", "laptop");
	assert_int_equal(store_begin(s.db), 0);
	assert_non_null(q = store_sql(s.db, "INSERT INTO refused (at, surface, asked, code, why)"
					    " VALUES (now_ms(), 'lane', 'x', 'op.unknown', 'y')"));
	assert_int_equal(stmt_run_one(q), 0);
	assert_int_equal(store_commit(s.db), 0);
	assert_string_equal(
	    scratch_text(&s, "SELECT who FROM audit WHERE action = 'refused'", who, sizeof(who)),
	    "host:laptop");
	assert_null(
	    store_sql(s.db, "INSERT INTO audit_entry (stream, entity, entity_id, action, body)"
			    " VALUES ('op', 'x', '', 'x', '{}')"));
	assert_string_equal(store_refusal(s.db)->code, "store.role");
	scratch_drop(&s);
}

static void
refused(struct store *db, const char *sql, const char *code, const char *why)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) != NULL && stmt_run(q) == 0)
		fail_msg("not refused: %s", sql);
	assert_string_equal(store_refusal(db)->code, code);
	if (why != NULL)
		assert_string_equal(store_refusal(db)->why, why);
}

/* 'code|why' of a trigger is the refusal; SQLite's own words come under a code of the store. */
static void
refusals_are_named(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	refused(s.db, "DELETE FROM box", "box.identity",
	    "the machine is not deleted from its own database");
	refused(s.db, "SELECT 1 FROM nowhere", "store.failed",
	    "the database answered: no such table: nowhere");
	refused(s.db, "SELECT '|' FROM \"a b|c\"", "store.failed", NULL);
	refused(s.db, "INSERT INTO setting VALUES ('a|b', 1, 'x', 2, 3, '')", "store.failed", NULL);
	refused(s.db,
	    "INSERT INTO audit_seal (seq, head, at, reason, signature)"
	    " VALUES (1, zeroblob(32), 0, 'request', zeroblob(64))",
	    "audit.seal", "a seal covers the head that the chain has there");
	scratch_open(&s, ROLE_LINK);
	refused(s.db, "DELETE FROM audit", "store.role", NULL);
	scratch_drop(&s);
}

static void
wait_past(int64_t ms)
{
	struct timespec nap = {0, 200000};

	while (clock_now() <= ms)
		nanosleep(&nap, NULL);
}

/* now_ms() stands still within a transaction, in C as in SQL, and moves on after it. */
static void
time_stands_still(void **state)
{
	struct scratch s;
	int64_t t;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(store_begin(s.db), 0);
	t = store_now(s.db);
	wait_past(t + 3);
	assert_int_equal(store_now(s.db), t);
	assert_int_equal(scratch_value(&s, "SELECT now_ms()"), t);
	assert_int_equal(scratch_value(&s, "SELECT count(DISTINCT now_ms()) FROM setting"), 1);
	assert_int_equal(store_commit(s.db), 0);
	assert_true(store_now(s.db) > t);
	assert_true(scratch_value(&s, "SELECT now_ms()") > t);
	assert_int_equal(store_begin(s.db), 0);
	assert_true(store_now(s.db) > t);
	store_rollback(s.db);
	clock_fix(1234567);
	assert_int_equal(scratch_value(&s, "SELECT now_ms()"), 1234567);
	scratch_drop(&s);
}

/* The name of who acts is cut to what the audit takes, not refused by it. */
static void
acting_is_bounded(void **state)
{
	struct scratch s;
	char text[256];

	(void)state;
	scratch_make(&s, HOME_BOX);
	memset(text, 'a', sizeof(text));
	text[255] = '\0';
	store_acting(s.db, "%s", text);
	scratch_text(&s, "SELECT acting()", text, sizeof(text));
	assert_int_equal(strlen(text), 160);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(
	    stmt_run(store_sql(s.db, "UPDATE setting SET value = 0 WHERE name = 'audit.syslog'")),
	    0);
	assert_int_equal(store_commit(s.db), 0);
	scratch_drop(&s);
}

/* The chain of the audit, computed anew with OpenSSL: prev, then the line, from 32 zeros on. */
static void
chain_is_sha256(void **state)
{
	struct scratch s;
	struct stmt *q;
	unsigned char head[32] = {0};
	const char *line;
	EVP_MD_CTX *md;
	int n = 0;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	scratch_grant(&s, "observe:folders", ARGS, 1, 60000);
	assert_non_null(md = EVP_MD_CTX_new());
	assert_non_null(
	    q = store_sql(s.db, "SELECT prev, hash, line FROM audit_line ORDER BY seq"));
	for (; stmt_step(q) == 1; n++) {
		assert_memory_equal(stmt_get_blob(q, 0, 32), head, 32);
		line = stmt_get_text(q, 2);
		assert_int_equal(EVP_DigestInit_ex(md, EVP_sha256(), NULL), 1);
		EVP_DigestUpdate(md, head, 32);
		EVP_DigestUpdate(md, line, strlen(line));
		EVP_DigestFinal_ex(md, head, NULL);
		assert_memory_equal(stmt_get_blob(q, 1, 32), head, 32);
	}
	EVP_MD_CTX_free(md);
	assert_true(n >= 6);
	assert_int_equal(scratch_value(&s, "SELECT chain_hash(zeroblob(31), 'x') IS NULL"), 1);
	assert_int_equal(scratch_value(&s, "SELECT sha256(NULL) IS NULL"), 1);
	assert_int_equal(scratch_value(&s,
			     "SELECT hex(sha256('abc')) ="
			     " 'BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD'"),
	    1);
	scratch_drop(&s);
}

/* A seal is good for its kind, its text and this machine's key, and for nothing else. */
static void
seals_cannot_be_forged(void **state)
{
	static const char good[] =
	    "SELECT seal_ok('grant', 'text', seal_sign('grant', 'text')) = 1";
	static const char *const forged[] = {
	    "SELECT seal_ok('audit', 'text', seal_sign('grant', 'text')) = 1",
	    "SELECT seal_ok('grant', 'texT', seal_sign('grant', 'text')) = 1",
	    "SELECT seal_ok('grant', 'text' || char(0), seal_sign('grant', 'text')) = 1",
	    "SELECT seal_ok('grant', '', seal_sign('grant', 'text')) = 1",
	    "SELECT seal_ok('grant', 'text', zeroblob(64)) = 1",
	    "SELECT seal_ok('grant', 'text', randomblob(64)) = 1",
	    "SELECT seal_ok('grant', 'text', substr(seal_sign('grant', 'text'), 1, 63)) = 1",
	    "SELECT seal_ok('grant', 'text', seal_sign('grant', 'text') || x'00') = 1",
	    "SELECT seal_ok('grant', 'text', substr(seal_sign('grant', 'text'), 1, 63) || x'ff') = 1",
	    "SELECT seal_ok('grant', 'text', NULL) = 1",
	    "SELECT seal_ok('grant', NULL, seal_sign('grant', 'text')) = 1",
	    "SELECT seal_ok('other', 'text', seal_sign('grant', 'text')) = 1",
	    "SELECT seal_ok(NULL, 'text', seal_sign('grant', 'text')) = 1",
	};
	struct scratch s;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(scratch_value(&s, good), 1);
	for (i = 0; i < sizeof(forged) / sizeof(forged[0]); i++)
		if (scratch_value(&s, forged[i]) == 1)
			fail_msg("good: %s", forged[i]);
	assert_int_equal(scratch_value(&s, good), 1);
	/* Another machine's keys, and none. */
	s.keys.grant[5] ^= 1;
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_not_equal(scratch_value(&s, good), 1);
	s.keys.grant[5] ^= 1;
	s.keys.present = false;
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_not_equal(scratch_value(&s, good), 1);
	s.keys.present = true;
	s.keys.secret = NULL;
	scratch_open(&s, ROLE_MIGRATE);
	refused(s.db, "SELECT seal_sign('grant', 'text')", "grant.seal",
	    "this process holds no key to seal with");
	scratch_drop(&s);
}

/* DESIGN §3: a grant that another tool edited (rules dropped and put back) pays for nothing. */
static void
edited_grant_holds_nothing(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	scratch_grant(&s, "observe:folders", ARGS, 1, 60000);
	assert_int_equal(scratch_sql(&s, "DROP TRIGGER grant_moves; UPDATE grant SET uses = 9,"
					 " end_reason = NULL"),
	    0);
	scratch_refused(&s, "grant.seal", ASK " 1, now_ms())");
	scratch_drop(&s);
}

static int64_t
pragma(struct store *db, const char *sql)
{
	return stmt_value(store_sql(db, sql), -1);
}

/* The settings of the connection are on, in every role, and what is soft is soft only once. */
static void
pragmas_are_on(void **state)
{
	struct scratch s;
	size_t i;
	int on;

	(void)state;
	scratch_make(&s, HOME_BOX);
	for (i = 0; i < ROLES; i++) {
		scratch_open(&s, roles[i].role);
		sqlite3_set_authorizer(store_handle(s.db), NULL, NULL);
		assert_int_equal(pragma(s.db, "PRAGMA foreign_keys"), 1);
		assert_int_equal(pragma(s.db, "PRAGMA secure_delete"), 1);
		assert_int_equal(pragma(s.db, "PRAGMA recursive_triggers"), 1);
		assert_int_equal(pragma(s.db, "PRAGMA cell_size_check"), 1);
		assert_int_equal(pragma(s.db, "PRAGMA temp_store"), 2);
		assert_int_equal(pragma(s.db, "PRAGMA synchronous"), 2);
		sqlite3_db_config(store_handle(s.db), SQLITE_DBCONFIG_DEFENSIVE, -1, &on);
		assert_int_equal(on, 1);
		sqlite3_db_config(
		    store_handle(s.db), SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, -1, &on);
		assert_int_equal(on, 0);
	}
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(store_begin_soft(s.db), 0);
	assert_int_equal(pragma(s.db, "PRAGMA synchronous"), 1);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(pragma(s.db, "PRAGMA synchronous"), 2);
	assert_int_equal(store_commit(s.db), 0);
	scratch_drop(&s);
}

/* The same text twice at once is two statements; more at once than the cache holds still work. */
static void
statements_nest_and_overflow(void **state)
{
	static const char rows[] = "SELECT n FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3)";
	static char text[300][32];
	struct stmt *q[300], *outer, *inner;
	struct scratch s;
	int i, round, n = 0;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_non_null(outer = store_sql(s.db, rows));
	while (stmt_step(outer) == 1) {
		assert_non_null(inner = store_sql(s.db, rows));
		assert_ptr_not_equal(inner, outer);
		while (stmt_step(inner) == 1)
			n += (int)stmt_get_int(outer, 0) * (int)stmt_get_int(inner, 0);
	}
	assert_int_equal(n, 36);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 300; i++) {
			snprintf(text[i], sizeof(text[i]), "SELECT %d + :n", i);
			assert_non_null(q[i] = store_sql(s.db, text[i]));
			stmt_int(q[i], ":n", i);
		}
		for (i = 299; i >= 0; i--)
			assert_int_equal(stmt_value(q[i], -1), 2 * i);
	}
	/* Bindings do not outlive their use. */
	assert_non_null(outer = store_sql(s.db, "SELECT :n IS NULL"));
	stmt_int(outer, ":n", 1);
	assert_int_equal(stmt_value(outer, -1), 0);
	assert_int_equal(stmt_value(store_sql(s.db, "SELECT :n IS NULL"), -1), 1);
	/* A parameter that is not there fails the step. */
	assert_non_null(outer = store_sql(s.db, "SELECT :n"));
	stmt_int(outer, ":m", 1);
	assert_int_equal(stmt_step(outer), -1);
	assert_string_equal(store_refusal(s.db)->code, "store.failed");
	scratch_drop(&s);
}

/* A step undone inside a transaction leaves the others; a refusal outlives the rollback. */
static void
steps_undo_alone(void **state)
{
	static const char low[] = "UPDATE setting SET value = 1 WHERE name = 'op.live'";
	static const char high[] = "UPDATE setting SET value = 2 WHERE name = 'op.parallel'";
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(store_savepoint(s.db), -1);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(store_savepoint(s.db), 0);
	assert_int_equal(stmt_run_one(store_sql(s.db, low)), 0);
	assert_int_equal(store_release(s.db), 0);
	assert_int_equal(store_savepoint(s.db), 0);
	assert_int_equal(stmt_run_one(store_sql(s.db, high)), 0);
	assert_int_equal(stmt_run(store_sql(s.db, "DELETE FROM box")), -1);
	assert_int_equal(store_undo(s.db), -1);
	assert_string_equal(store_refusal(s.db)->code, "box.identity");
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(store_setting(s.db, "op.live"), 1);
	assert_int_equal(store_setting(s.db, "op.parallel"), 8);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(stmt_run(store_sql(s.db, "DELETE FROM box")), -1);
	assert_int_equal(store_rollback(s.db), -1);
	assert_string_equal(store_refusal(s.db)->code, "box.identity");
	assert_int_equal(stmt_run_one(store_sql(s.db, "UPDATE setting SET value = value + 1"
						      " WHERE name = 'no.such'")),
	    -1);
	scratch_drop(&s);
}

/* What SQLite undid by itself is not gone on with outside of a transaction, row by row. */
static void
undone_stays_undone(void **state)
{
	static const char low[] = "UPDATE setting SET value = 1 WHERE name = 'op.live'";
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(sqlite3_exec(store_handle(s.db), "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	refusal_set(store_refusal(s.db), "store.full", "as SQLite would say");
	assert_int_equal(store_savepoint(s.db), -1);
	assert_int_equal(stmt_run(store_sql(s.db, low)), -1);
	assert_int_equal(store_commit(s.db), -1);
	assert_string_equal(store_refusal(s.db)->code, "store.full");
	assert_int_equal(store_setting(s.db, "op.live"), 64);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(stmt_run_one(store_sql(s.db, low)), 0);
	assert_int_equal(store_commit(s.db), 0);
	assert_int_equal(store_setting(s.db, "op.live"), 1);
	scratch_drop(&s);
}

/* store_changed: other connections' commits, each told once; our own are no news. */
static void
changes_are_told_once(void **state)
{
	struct refusal r = {0};
	struct store *other;
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_PERSON);
	if ((other = store_open(&s.home, ROLE_READER, &s.keys, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	store_changed(other);
	assert_false(store_changed(other));
	store_changed(s.db);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(
	    stmt_run(store_sql(s.db, "UPDATE setting SET value = 1 WHERE name = 'op.live'")), 0);
	assert_false(store_changed(other));
	assert_int_equal(store_commit(s.db), 0);
	assert_true(store_changed(other));
	assert_false(store_changed(other));
	assert_false(store_changed(s.db));
	store_close(other);
	scratch_drop(&s);
}

/* SQ-8: the PKCE vector of RFC 7636, appendix B. */
static void
pkce_vector(void **state)
{
	static const char verifier[] = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
	unsigned char digest[32];
	char challenge[64];

	(void)state;
	assert_int_equal(
	    EVP_Digest(verifier, strlen(verifier), digest, NULL, EVP_sha256(), NULL), 1);
	sodium_bin2base64(
	    challenge, sizeof(challenge), digest, 32, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	assert_string_equal(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
}

/* SQ-9: names refuse what is no name, a NUL in the middle too. */
static void
names_refuse(void **state)
{
	static const char *const bad[] = {
	    "'a/b'",
	    "'a' || char(10)",
	    "'\xc3\xa9'",
	    "''",
	    "'-a'",
	    "'a' || char(0) || '/../b'",
	    "'a b'",
	    "char(0)",
	    "'a' || char(0)",
	    "'a\"b'",
	    "'a''b'",
	    "replace(hex(zeroblob(33)), '0', 'a')",
	};
	char sql[512];
	struct scratch s;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(sql, sizeof(sql),
		    "INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
		    " VALUES (%s, 'unix', randomblob(32), 0, 'active', now_ms())",
		    bad[i]);
		if (scratch_sql(&s, sql) == 0)
			fail_msg("a name: %s", bad[i]);
		snprintf(sql, sizeof(sql),
		    "INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
		    " VALUES (%s, randomblob(32), now_ms(), now_ms() + 1000)",
		    bad[i]);
		if (scratch_sql(&s, sql) == 0)
			fail_msg("a name: %s", bad[i]);
	}
	scratch_drop(&s);
}

/* SQ-10: with trusted_schema off our functions still run inside triggers: they are innocuous. */
static void
functions_are_innocuous(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(
	    sqlite3_exec(store_handle(s.db), "PRAGMA trusted_schema = OFF", NULL, NULL, NULL),
	    SQLITE_OK);
	assert_int_equal(sqlite3_exec(store_handle(s.db),
			     "CREATE TABLE t (a CHECK (now_ms() > 0 AND length(acting()) > 0));"
			     "INSERT INTO t VALUES (1); DROP TABLE t;",
			     NULL, NULL, NULL),
	    SQLITE_OK);
	/* What signs is for statements of ours alone. */
	assert_int_not_equal(sqlite3_exec(store_handle(s.db),
				 "CREATE VIEW v AS SELECT seal_sign('grant', 'x') AS s;"
				 "SELECT s FROM v;",
				 NULL, NULL, NULL),
	    SQLITE_OK);
	assert_int_equal(
	    sqlite3_exec(store_handle(s.db), "DROP VIEW IF EXISTS v", NULL, NULL, NULL), SQLITE_OK);
	scratch_drop(&s);
}

#define INSTANCE                                                                       \
	"INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)" \
	" SELECT coalesce(max(epoch), 0) + 1, 'box', 1, '0', '/r', now_ms() FROM instance;"

/* SQ-11: one instance at a time, held by the index even where the trigger is gone. */
static void
one_instance(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	if (scratch_sql(&s,
		"INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
		" VALUES ('00000000-0000-0000-0000-000000000000', 1, 1, 0, 'x', 0);" INSTANCE) != 0)
		fail_msg("%s", s.error);
	scratch_refused(&s, "instance.running", INSTANCE);
	assert_int_equal(scratch_sql(&s, "DROP TRIGGER instance_born; " INSTANCE), -1);
	assert_non_null(strstr(s.error, "UNIQUE"));
	scratch_drop(&s);
}

/* SQ-12: REPLACE would delete, and the rules against deleting see it (recursive_triggers). */
static void
replace_is_a_delete(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	scratch_refused(&s, "factor.kept",
	    "INSERT OR REPLACE INTO factor (id, kind, label, secret, fingerprint,"
	    " enrolled_at) VALUES (1, 'totp', 'other', randomblob(60), 'x', 0)");
	scratch_refused(
	    &s, "setting.fixed", "REPLACE INTO setting VALUES ('op.live', 9, 'rows', 1, 10, '')");
	if (scratch_sql(&s, "INSERT INTO lease (name) VALUES ('a') ON CONFLICT DO NOTHING;"
			    "INSERT INTO lease (name) VALUES ('a') ON CONFLICT DO NOTHING") != 0)
		fail_msg("%s", s.error);
	scratch_refused(&s, "lease.kept", "REPLACE INTO lease (name) VALUES ('a')");
	scratch_drop(&s);
}

/* How many locks on records of ${ino} the descriptor ${fd} of this process has. */
static int
locks_by(const char *fd, ino_t ino)
{
	unsigned long long inode;
	char path[64], line[256];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%.20s", fd);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL)
		n += sscanf(line, "lock: %*d: POSIX %*s %*s %*d %*x:%*x:%llu", &inode) == 1 &&
		     inode == ino;
	fclose(f);
	return n;
}

/* How many locks on records of ${ino} this process has, as the kernel says.  (/proc/locks has them
 * too, but while others take and drop theirs a reader of it may miss some.) */
static int
locks_on(ino_t ino)
{
	DIR *d = opendir("/proc/self/fdinfo");
	struct dirent *e;
	int n = 0;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		n += locks_by(e->d_name, ino);
	closedir(d);
	return n;
}

/*
 * RF-98: whatever else this process does about the database, SQLite's locks stay: places are looked
 * at by name, copies are SQLite's own.
 */
static void
nothing_drops_sqlites_locks(void **state)
{
	char memory[PATH_MAX], copy[PATH_MAX];
	uint8_t pk[KEY_PUBLIC_SIZE];
	struct backup_copy made;
	struct refusal r = {0};
	struct store *other;
	struct scratch s;
	struct home home;
	struct stat st;
	int held, version;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_PERSON);
	key_public(s.key, KEY_IDENTITY, pk);
	assert_int_equal(store_begin(s.db), 0);
	home_path(&s.home, "bastion.db-shm", memory);
	assert_int_equal(stat(memory, &st), 0);
	held = locks_on(st.st_ino);
	assert_true(held > 1); /* that it is open, and that it writes */

	assert_int_equal(home_open(&home, HOME_BOX, true, &r), 0);
	home_close(&home);
	assert_int_equal(migrate_version(&s.home, &version, &r), 0);
	assert_non_null(other = store_open(&s.home, ROLE_READER, NULL, &r));
	snprintf(copy, sizeof(copy), "%s/copy.db", s.dir);
	assert_int_equal(backup_write(other, copy, pk, false, NULL, &made), 0);
	assert_true(backup_size(other) > 0);
	store_close(other);
	assert_int_equal(locks_on(st.st_ino), held);
	assert_int_equal(store_rollback(s.db), -1);
	assert_true(locks_on(st.st_ino) < held);
	scratch_drop(&s);
}

/* RF-75: a question is one statement, and sees one moment, whatever is committed while it is read.
 */
static void
a_question_sees_one_moment(void **state)
{
	struct scratch s;
	struct store *reader;
	struct stmt *q;
	int i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_non_null(reader = store_open(&s.home, ROLE_READER, NULL, NULL));
	assert_non_null(q = store_sql(reader,
			    "SELECT value FROM setting WHERE name IN ('op.live', 'session.slots')"
			    " ORDER BY name"));
	assert_int_equal(stmt_step(q), 1);
	i = (int)stmt_get_int(q, 0);
	if (scratch_sql(&s,
		"UPDATE setting SET value = 9 WHERE name = 'op.live';"
		"UPDATE setting SET value = value + 1 WHERE name = 'session.slots'") != 0)
		fail_msg("%s", s.error);
	assert_int_not_equal(i, 9);
	assert_int_equal(stmt_step(q), 1);
	i = (int)stmt_get_int(q, 0);
	stmt_done(q);
	assert_int_equal(stmt_value(store_sql(reader, "SELECT value FROM setting"
						      " WHERE name = 'session.slots'"),
			     -1),
	    i + 1);
	store_close(reader);
	scratch_drop(&s);
}

/* What has a life begins it at its beginning. */
static void
nothing_is_born_old(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_HOST);
	scratch_refused(
	    &s, "op.transition", "INSERT INTO folder_walk (op_run_id, state) VALUES (1, 'done')");
	scratch_refused(&s, "call.transition",
	    "INSERT INTO call (box_id, op, args, nonce, state, asked_at, finished_at, exit_code)"
	    " VALUES (1, 'observe:logins', '[]', printf('%032x', 1), 'done', 1, 1, 0)");
	scratch_drop(&s);
}

/* Write ${len} bytes in a process that leaves; return the length of the log that is there then. */
static int64_t
leave_after(struct scratch *s, const char *len)
{
	char path[PATH_MAX], sql[128];
	struct store *db;
	struct stat st;
	int status;
	pid_t pid;

	snprintf(sql, sizeof(sql), "INSERT INTO kept VALUES (zeroblob(%s))", len);
	if ((pid = fork()) == 0) {
		if ((db = store_open(&s->home, ROLE_MIGRATE, NULL, NULL)) == NULL)
			_exit(1);
		if (store_begin(db) != 0 ||
		    store_exec(db, "CREATE TABLE IF NOT EXISTS kept (x BLOB)") != 0 ||
		    store_exec(db, sql) != 0 || store_commit(db) != 0)
			_exit(2);
		/* What is begun and not committed never was. */
		if (store_begin(db) != 0 || store_exec(db, sql) != 0)
			_exit(3);
		store_leave(db);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
	home_path(&s->home, "bastion.db-wal", path);
	return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* A process that is gone at once leaves a short log to the next, and a long one to nobody. */
static void
leaving_keeps_what_was_committed(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	store_close(s.db);
	s.db = NULL;
	assert_true(leave_after(&s, "1") > 0);
	assert_true(leave_after(&s, "100") > 0);
	assert_int_equal(scratch_value(&s, "SELECT sum(length(x)) FROM kept"), 101);
	store_close(s.db);
	s.db = NULL;
	assert_int_equal(leave_after(&s, "2000000"), 0);
	assert_int_equal(scratch_value(&s, "SELECT sum(length(x)) FROM kept"), 2000101);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_drops_sqlites_locks),
	    cmocka_unit_test(a_question_sees_one_moment),
	    cmocka_unit_test(nothing_is_born_old),
	    cmocka_unit_test(a_run_needs_a_grant),
	    cmocka_unit_test(roles_write_their_own),
	    cmocka_unit_test(readers_only_read),
	    cmocka_unit_test(secrets_are_for_one_role),
	    cmocka_unit_test(joins_show_no_secret),
	    cmocka_unit_test(no_way_around),
	    cmocka_unit_test(triggers_write_the_audit),
	    cmocka_unit_test(refusals_are_named),
	    cmocka_unit_test(time_stands_still),
	    cmocka_unit_test(acting_is_bounded),
	    cmocka_unit_test(chain_is_sha256),
	    cmocka_unit_test(seals_cannot_be_forged),
	    cmocka_unit_test(edited_grant_holds_nothing),
	    cmocka_unit_test(pragmas_are_on),
	    cmocka_unit_test(statements_nest_and_overflow),
	    cmocka_unit_test(steps_undo_alone),
	    cmocka_unit_test(undone_stays_undone),
	    cmocka_unit_test(changes_are_told_once),
	    cmocka_unit_test(pkce_vector),
	    cmocka_unit_test(names_refuse),
	    cmocka_unit_test(functions_are_innocuous),
	    cmocka_unit_test(one_instance),
	    cmocka_unit_test(replace_is_a_delete),
	    cmocka_unit_test(leaving_keeps_what_was_committed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
