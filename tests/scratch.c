/* scratch.c: a bastion's state for one test. */
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/key.h"
#include "engine/store/migrate.h"
#include "tests/scratch.h"

#define FAIL_WITH(r) fail_msg("%s: %s", (r)->code, (r)->why)

static const char BORN[] = "INSERT INTO box (id, name, role, identity_key, created_at)"
			   " VALUES (1, :name, :role, :key, now_ms())";

static void
copy_all(int from, int to)
{
	char bytes[65536];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(from, bytes, sizeof(bytes), at)) > 0) {
		assert_int_equal(pwrite(to, bytes, (size_t)n, at), n);
		at += n;
	}
	assert_int_equal(n, 0);
	assert_true(at > 0);
}

void
scratch_database(const struct home *home)
{
	static int made = -1;
	struct refusal r = {0};
	bool first = made == -1;
	int fd;

	if (first) {
		if (migrate_up(home, &r) < 0)
			FAIL_WITH(&r);
		assert_true((made = memfd_create("database", MFD_CLOEXEC)) != -1);
	}
	if ((fd = home_file(home, "bastion.db", &r)) == -1)
		FAIL_WITH(&r);
	copy_all(first ? fd : made, first ? made : fd);
	close(fd);
}

void
scratch_make(struct scratch *s, enum home_role home_role)
{
	char state[80], run[80], path[PATH_MAX];
	struct refusal r = {0};
	struct stmt *q;

	memset(s, 0, sizeof(*s));
	assert_true(sodium_init() >= 0);
	snprintf(s->dir, sizeof(s->dir), "/tmp/bastion-test-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(state, sizeof(state), "%s/state", s->dir);
	snprintf(run, sizeof(run), "%s/run", s->dir);
	if (home_at(&s->home, state, run, home_role, true, &r) != 0 || home_run(&s->home, &r) != 0)
		FAIL_WITH(&r);
	home_path(&s->home, "bastion.key", path);
	if (key_create(path, &r) != 0 || (s->key = key_load(path, &r)) == NULL)
		FAIL_WITH(&r);
	key_public(s->key, KEY_IDENTITY, s->keys.identity);
	key_public(s->key, KEY_GRANT, s->keys.grant);
	s->keys.secret = s->key;
	s->keys.present = true;
	scratch_database(&s->home);
	scratch_open(s, ROLE_MIGRATE);
	assert_int_equal(store_begin(s->db), 0);
	assert_non_null(q = store_sql(s->db, BORN));
	stmt_text(q, ":name", home_role == HOME_HOST ? "host-a" : "box-a");
	stmt_text(q, ":role", home_role == HOME_HOST ? "host" : "box");
	stmt_blob(q, ":key", s->keys.identity, 32);
	if (stmt_run_one(q) != 0 || store_commit(s->db) != 0)
		FAIL_WITH(store_refusal(s->db));
}

struct store *
scratch_open(struct scratch *s, enum store_role role)
{
	struct refusal r = {0};

	store_close(s->db);
	if ((s->db = store_open(&s->home, role, &s->keys, &r)) == NULL)
		FAIL_WITH(&r);
	store_acting(s->db, "test:scratch");
	return s->db;
}

int
scratch_sql(struct scratch *s, const char *sql)
{
	char *error = NULL;

	scratch_open(s, ROLE_MIGRATE);
	s->error[0] = '\0';
	if (store_begin(s->db) != 0)
		FAIL_WITH(store_refusal(s->db));
	if (sqlite3_exec(store_handle(s->db), sql, NULL, NULL, &error) != SQLITE_OK) {
		snprintf(s->error, sizeof(s->error), "%s", error);
		sqlite3_free(error);
		return store_rollback(s->db);
	}
	return store_commit(s->db);
}

/* What the database says, table by table; two equal ones hold the same rows. */
static int64_t
everything(struct scratch *s)
{
	return scratch_value(s,
	    "SELECT (SELECT count(*) FROM audit) * 1000003 + (SELECT count(*) FROM op_run)"
	    " + (SELECT count(*) FROM grant_use) + (SELECT count(*) FROM approval)"
	    " + (SELECT count(*) FROM grant) + (SELECT count(*) FROM factor)"
	    " + (SELECT count(*) FROM pairing) + (SELECT count(*) FROM call)");
}

void
scratch_refused(struct scratch *s, const char *code, const char *sql)
{
	int64_t before = everything(s);
	size_t len = strlen(code);

	if (scratch_sql(s, sql) == 0)
		fail_msg("not refused, though %s should hold it: %s", code, sql);
	if (strncmp(s->error, code, len) != 0 || s->error[len] != '|')
		fail_msg("refused with \"%s\", not with %s: %s", s->error, code, sql);
	assert_int_equal(everything(s), before);
}

int64_t
scratch_value(struct scratch *s, const char *sql)
{
	sqlite3_stmt *q;
	int64_t value = -1;

	if (s->db == NULL)
		scratch_open(s, ROLE_MIGRATE);
	if (sqlite3_prepare_v2(store_handle(s->db), sql, -1, &q, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(store_handle(s->db)));
	if (sqlite3_step(q) == SQLITE_ROW)
		value = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return value;
}

const char *
scratch_text(struct scratch *s, const char *sql, char *out, size_t size)
{
	sqlite3_stmt *q;

	if (s->db == NULL)
		scratch_open(s, ROLE_MIGRATE);
	if (sqlite3_prepare_v2(store_handle(s->db), sql, -1, &q, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(store_handle(s->db)));
	out[0] = '\0';
	if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_text(q, 0) != NULL)
		snprintf(out, size, "%s", (const char *)sqlite3_column_text(q, 0));
	sqlite3_finalize(q);
	return out;
}

int64_t
scratch_pair(struct scratch *s)
{
	if (scratch_sql(s,
		"INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
		" VALUES ('laptop', 'unix', randomblob(32), 0, 'active', now_ms());"
		"INSERT INTO factor (kind, label, secret, fingerprint, enrolled_at)"
		" VALUES ('totp', 'phone', randomblob(60), 'totp:test', now_ms());") != 0)
		fail_msg("%s", s->error);
	return 1;
}

int64_t
scratch_grant(struct scratch *s, const char *op, const char *args, int uses, int64_t ttl_ms)
{
	char sql[2048];

	snprintf(sql, sizeof(sql),
	    "INSERT INTO approval (nonce, kind, box_name, pairing_id, host_name, op, args, uses, ttl_ms,"
	    "   asked_at, expires_at)"
	    " SELECT v.nonce, (SELECT iif(class IN ('observe', 'action'), 'op', class) FROM op"
	    "  WHERE name = '%s'), v.box, 1, 'laptop', '%s', '%s', %d, %lld,"
	    "   now_ms(), now_ms() + 3600000"
	    " FROM (SELECT substr((SELECT lower(hex(sha256(count(*) || 'n'))) FROM approval), 1, 32) AS nonce,"
	    "   (SELECT name FROM box) AS box) AS v;"
	    "UPDATE approval SET state = 'approved', factor_id = 1, decided_digest = digest, decided_by_uid = 0,"
	    "  decided_by = 'root', decided_at = now_ms() WHERE state = 'pending';"
	    "INSERT INTO grant (pairing_id, kind, op, args, uses, created_at, expires_at, factor_id, approval_id,"
	    "   seal)"
	    " SELECT pairing_id, kind, op, args, uses, decided_at, decided_at + ttl_ms, factor_id, id,"
	    "   seal_sign('grant', json_array('grant', pairing_id, kind, op, args, uses, decided_at,"
	    "     decided_at + ttl_ms, factor_id, id)) FROM approval WHERE state = 'approved';",
	    op, op, args, uses, (long long)ttl_ms);
	if (scratch_sql(s, sql) != 0)
		fail_msg("%s", s->error);
	return scratch_value(s, "SELECT max(id) FROM grant");
}

/* tests/invariants.sql: each statement gives (name, detail) rows for what is wrong. */
void
scratch_check(struct scratch *s)
{
	static char sql[65536];
	sqlite3_stmt *q;
	const char *tail = sql;
	FILE *f;
	size_t len;

	if ((f = fopen("tests/invariants.sql", "re")) == NULL)
		fail_msg("tests run from the top of the repository");
	len = fread(sql, 1, sizeof(sql) - 1, f);
	fclose(f);
	sql[len] = '\0';
	scratch_open(s, ROLE_MIGRATE);
	while (*tail != '\0') {
		if (sqlite3_prepare_v2(store_handle(s->db), tail, -1, &q, &tail) != SQLITE_OK)
			fail_msg("invariants: %s", sqlite3_errmsg(store_handle(s->db)));
		while (q != NULL && sqlite3_step(q) == SQLITE_ROW)
			fail_msg("invariant broken: %s: %s",
			    (const char *)sqlite3_column_text(q, 0),
			    (const char *)sqlite3_column_text(q, 1));
		sqlite3_finalize(q);
	}
}

void
scratch_drop(struct scratch *s)
{
	char command[128];

	clock_fix(-1);
	scratch_check(s);
	store_close(s->db);
	key_free(s->key);
	home_close(&s->home);
	snprintf(command, sizeof(command), "rm -rf %s", s->dir);
	assert_int_equal(system(command), 0);
}

static void
anything(sqlite3_context *c, int n, sqlite3_value **v)
{
	(void)n;
	sqlite3_result_value(c, v[0]);
}

void
scratch_endpoint(struct scratch *s, int64_t pairing_id, int ord, const char *text, size_t len)
{
	sqlite3 *handle = store_handle(scratch_open(s, ROLE_MIGRATE));
	struct stmt *q;

	assert_int_equal(
	    sqlite3_create_function(handle, "endpoint_text", 1,
		SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, NULL, anything, NULL, NULL),
	    SQLITE_OK);
	assert_int_equal(store_begin(s->db), 0);
	assert_non_null(
	    q = store_sql(s->db, "INSERT INTO pairing_endpoint VALUES (:id, :ord, :text)"));
	stmt_int(q, ":id", pairing_id);
	stmt_int(q, ":ord", ord);
	stmt_text_n(q, ":text", text, len);
	if (stmt_run_one(q) != 0 || store_commit(s->db) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
	store_close(s->db);
	s->db = NULL;
}
