/* test_upgrade.c: a database of a released version becomes one of this build with its rows intact.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/store/embed.h"
#include "engine/store/migrate.h"
#include "tests/day.h"
#include "tests/scratch.h"

/* Rows for what a box's first day leaves empty: the tables of a Host, leases. */
static const char REST[] =
    "INSERT INTO lease (name, process_id, fence, expires_at) VALUES ('a', 1, 1, now_ms() + 1000);"
    "INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
    " VALUES ('box-b', randomblob(32), now_ms(), now_ms() + 1000);"
    "UPDATE invitation SET state = 'redeemed', ended_at = now_ms();"
    "INSERT INTO host_box (name, box_key, lane, peer_uid, invitation_id, paired_at)"
    " VALUES ('box-b', randomblob(32), '/run/b', 0, 1, now_ms());"
    "INSERT INTO call (box_id, op, args, nonce, asked_at)"
    " VALUES (1, 'observe:logins', '[]', lower(hex(randomblob(16))), now_ms());"
    "UPDATE call SET state = 'sent', sent_at = now_ms();"
    "INSERT INTO call_output (call_id, seq, frame) VALUES (1, 1, '{\"o\":1}');";

/* A database of version 1 with a row in every table, made by the code itself. */
static void
version_1(struct scratch *s)
{
	const struct day_step *step;

	scratch_make(s, HOME_BOX);
	for (step = day_steps; step->name != NULL; step++) {
		scratch_open(s, step->role);
		if (day_take(s->db, step) != 0)
			fail_msg("%s: %s", step->name, store_refusal(s->db)->why);
	}
	if (scratch_sql(s, REST) != 0)
		fail_msg("%s", s->error);
}

static void
tables_are_filled(struct scratch *s)
{
	char names[64][64], sql[128];
	sqlite3_stmt *q;
	int i, n = 0;

	assert_int_equal(sqlite3_prepare_v2(store_handle(s->db),
			     "SELECT name FROM sqlite_schema WHERE type = 'table' AND name"
			     " NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
			     -1, &q, NULL),
	    SQLITE_OK);
	for (; n < 64 && sqlite3_step(q) == SQLITE_ROW; n++)
		snprintf(names[n], sizeof(names[n]), "%s", (const char *)sqlite3_column_text(q, 0));
	sqlite3_finalize(q);
	for (i = 0; i < n; i++) {
		snprintf(sql, sizeof(sql), "SELECT count(*) FROM \"%.63s\"", names[i]);
		if (scratch_value(s, sql) < 1)
			fail_msg("%s has no row to lose", names[i]);
	}
}

/* The rows that a day made, as one text: what an upgrade must leave as it is. */
static void
rows_of(struct scratch *s, char *out, size_t size)
{
	scratch_text(s,
	    "SELECT group_concat(line, char(10)) FROM (SELECT line FROM audit_line ORDER BY seq)",
	    out, size);
}

/* fixtures/db/ holds a file of each released version; until there is one, version 1 is made here.
 */
static void
rows_survive(void **state)
{
	static char before[65536], after[65536];
	struct refusal r = {0};
	struct scratch s;

	(void)state;
	version_1(&s);
	tables_are_filled(&s);
	rows_of(&s, before, sizeof(before));
	store_close(s.db);
	s.db = NULL;
	if (migrate_up(&s.home, &r) != embedded_versions - 1)
		fail_msg("%s: %s", r.code, r.why);
	scratch_open(&s, ROLE_MIGRATE);
	rows_of(&s, after, sizeof(after));
	assert_string_equal(before, after);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM schema_step"), embedded_versions);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM schema_step WHERE version = 1"
					   " AND name = '0001_first_day' AND length(sha256) = 32"),
	    1);
	scratch_drop(&s);
}

static void
edit(struct scratch *s, const char *sql)
{
	sqlite3 *db;
	char path[PATH_MAX];

	store_close(s->db);
	s->db = NULL;
	home_path(&s->home, "bastion.db", path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

/* DESIGN §4: a newer database is refused in words and left as it is; so is one with foreign
 * objects. */
static void
what_is_not_ours_is_refused(void **state)
{
	struct refusal r = {0};
	struct scratch s;
	int version;

	(void)state;
	version_1(&s);
	edit(&s, "PRAGMA user_version = 77");
	assert_int_equal(migrate_up(&s.home, &r), -1);
	assert_string_equal(r.code, "store.newer");
	assert_int_equal(migrate_version(&s.home, &version, &r), 0);
	assert_int_equal(version, 77);
	edit(&s, "PRAGMA user_version = 1; CREATE TABLE other (a)");
	assert_int_equal(migrate_up(&s.home, &r), -1);
	assert_string_equal(r.code, "store.foreign");
	edit(&s, "DROP TABLE other");
	/* A database of another program that never was ours. */
	edit(&s, "PRAGMA user_version = 0");
	assert_int_equal(migrate_up(&s.home, &r), -1);
	assert_string_equal(r.code, "store.failed");
	edit(&s, "PRAGMA user_version = 1");
	assert_int_equal(migrate_up(&s.home, &r), embedded_versions - 1);
	scratch_drop(&s);
}

/* Processes that find no database at once make one, and each is told that it is there. */
static void
many_migrate_at_once(void **state)
{
	struct refusal r = {0};
	struct scratch s;
	int i, status;

	(void)state;
	scratch_make(&s, HOME_BOX);
	store_close(s.db);
	s.db = NULL;
	assert_int_equal(unlinkat(s.home.fd, "bastion.db", 0), 0);
	for (i = 0; i < 4; i++)
		if (fork() == 0) {
			if (migrate_up(&s.home, &r) >= 0)
				_exit(0);
			fprintf(stderr, "%s: %s\n", r.code, r.why);
			_exit(1);
		}
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM schema_step"), embedded_versions);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_survive),
	    cmocka_unit_test(what_is_not_ours_is_refused),
	    cmocka_unit_test(many_migrate_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
