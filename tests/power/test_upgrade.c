/* test_upgrade.c: files of released versions come up to date with their rows; a crash costs no row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/state/audit.h"
#include "engine/store/embed.h"
#include "engine/store/migrate.h"
#include "engine/store/restore.h"
#include "tests/fault.h"
#include "tests/program.h"
#include "tests/scratch.h"

#define EVERY                                                                                 \
	(FAULT_READ | FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_OPEN | FAULT_DELETE | \
	    FAULT_LOCK | FAULT_SHM | FAULT_NAME)
#define LASTING (FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_DELETE | FAULT_NAME)
#define KILLS   20

static const struct fault_plan plans[] = {
    {.ops = EVERY},
    {.ops = FAULT_WRITE | FAULT_SYNC | FAULT_NAME, .sticky = true, .full = true},
    {.ops = LASTING, .power = true},
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST 3 /* a sanitizer makes each of these processes ten times as slow */
#else
#define MOST 12
#endif

/* Every operation with BASTION_FAULTS=all, which takes many minutes; else about MOST of ${total}.
 */
static int
stride(int total)
{
	return getenv("BASTION_FAULTS") != NULL || total < MOST ? 1 : (total / MOST) | 1;
}

/* What the process under faults has to say. */
static struct said {
	int count;
	bool done;
	struct refusal refusal;
} * said;

static void
copy_file(const char *from, const char *to)
{
	static char bytes[4 << 20];
	FILE *f;
	size_t n;
	int fd;

	if ((f = fopen(from, "re")) == NULL)
		fail_msg("%s is not there", from);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	unlink(to);
	assert_true((fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) != -1);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static void
remove_all(struct scratch *s, const char *pattern)
{
	char command[160];

	store_close(s->db);
	s->db = NULL;
	snprintf(command, sizeof(command), "rm -f %s/state/%s", s->dir, pattern);
	assert_int_equal(system(command), 0);
}

/* The state becomes that of the fixture ${version}/${side}, and nothing else. */
static void
put_fixture(struct scratch *s, int version, const char *side)
{
	char from[128], to[PATH_MAX];

	remove_all(s, "bastion.db*");
	snprintf(from, sizeof(from), "fixtures/db/%d/%s.db", version, side);
	home_path(&s->home, "bastion.db", to);
	copy_file(from, to);
}

static void
from_fixture(struct scratch *s, int version, const char *side)
{
	static const struct fault_plan none;
	struct refusal r = {0};
	char from[128], to[PATH_MAX];

	/* What looks afterwards needs no syncs. */
	fault_install(&none);
	scratch_make(s, strcmp(side, "host") == 0 ? HOME_HOST : HOME_BOX);
	put_fixture(s, version, side);
	snprintf(from, sizeof(from), "fixtures/db/%d/%s.key", version, side);
	home_path(&s->home, "bastion.key", to);
	copy_file(from, to);
	key_free(s->key);
	if ((s->key = key_load(to, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	key_public(s->key, KEY_IDENTITY, s->keys.identity);
	key_public(s->key, KEY_GRANT, s->keys.grant);
	s->keys.secret = s->key;
}

static void
audit_is_whole(struct scratch *s)
{
	struct audit_report report;

	if (audit_verify(s->db, s->keys.identity, NULL, &report) != 0)
		fail_msg("%s %s", report.what, store_refusal(s->db)->why);
	assert_true(report.sealed > 0);
}

/* Every row of the table ${name} of `before` is in `main` as it was, column by column.  Of a
 * refusal the code stays; how it is put and what is advised is this version's. */
static void
table_survived(struct scratch *s, const char *name)
{
	char columns[1024], sql[8192];

	snprintf(sql, sizeof(sql),
	    "SELECT group_concat('\"' || name || '\"') FROM pragma_table_info('%.63s', 'before')"
	    " WHERE '%.63s' <> 'refusal' OR name = 'code'",
	    name, name);
	scratch_text(s, sql, columns, sizeof(columns));
	snprintf(sql, sizeof(sql),
	    "SELECT count(*) FROM (SELECT %s FROM before.\"%.63s\" EXCEPT SELECT %s FROM main.\"%.63s\")",
	    columns, name, columns, name);
	if (scratch_value(s, sql) != 0)
		fail_msg("a row of %s is not what it was", name);
	snprintf(sql, sizeof(sql),
	    "SELECT (SELECT count(*) FROM before.\"%.63s\") = (SELECT count(*) FROM main.\"%.63s\")"
	    " OR '%.63s' IN ('schema_step', 'setting', 'refusal', 'state_rule', 'op', 'op_param',"
	    "   'op_result', 'audit_sink', 'verb')",
	    name, name, name);
	if (scratch_value(s, sql) != 1)
		fail_msg("%s has more or fewer rows than before", name);
}

static void
rows_survived(struct scratch *s, int version, const char *side)
{
	char sql[256], names[160][64];
	sqlite3_stmt *q;
	int i, n = 0;

	scratch_open(s, ROLE_MIGRATE);
	snprintf(sql, sizeof(sql), "ATTACH 'file:fixtures/db/%d/%s.db?immutable=1' AS before",
	    version, side);
	assert_int_equal(sqlite3_exec(store_handle(s->db), sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(store_handle(s->db),
			     "SELECT name FROM before.sqlite_schema WHERE type = 'table'"
			     " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
			     " AND name <> 'egress_counted'", /* is counted anew, elsewhere */
			     -1, &q, NULL),
	    SQLITE_OK);
	for (; n < 160 && sqlite3_step(q) == SQLITE_ROW; n++)
		snprintf(names[n], sizeof(names[n]), "%s", (const char *)sqlite3_column_text(q, 0));
	sqlite3_finalize(q);
	assert_in_range(n, 20, 159);
	for (i = 0; i < n; i++)
		table_survived(s, names[i]);
	scratch_open(s, ROLE_READER);
}

static void
fixture_survives(int version, const char *side)
{
	struct migrate_report report;
	struct refusal r = {0};
	struct scratch s;

	from_fixture(&s, version, side);
	if (migrate_run(&s.home, NULL, &report, &r) != embedded_versions - version)
		fail_msg("%s: %s", r.code, r.why);
	assert_int_equal(report.from, version);
	assert_int_equal(report.held.version, version);
	rows_survived(&s, version, side);
	audit_is_whole(&s);
	/* The copy is what was there. */
	remove_all(&s, "bastion.db");
	assert_int_equal(renameat(s.home.fd, report.copy, s.home.fd, "bastion.db"), 0);
	if (migrate_up(&s.home, &r) != embedded_versions - version)
		fail_msg("%s: %s", r.code, r.why);
	rows_survived(&s, version, side);
	scratch_drop(&s);
}

/* DESIGN §4: a file of every released version comes up to date with its rows intact. */
static void
rows_survive(void **state)
{
	char path[64];
	int version, n = 0;

	(void)state;
	sqlite3_config(SQLITE_CONFIG_URI, 1);
	for (version = 1; version < embedded_versions; version++) {
		snprintf(path, sizeof(path), "fixtures/db/%d", version);
		if (access(path, F_OK) != 0)
			continue; /* never released */
		fixture_survives(version, "box");
		fixture_survives(version, "host");
		n++;
	}
	assert_true(n >= 1);
}

/* The fixtures are days with something in every table, but for leases, which nobody takes yet. */
static void
fixtures_are_filled(void **state)
{
	sqlite3_stmt *q;
	sqlite3 *db;
	char sql[256];
	int n = 0;

	(void)state;
	assert_int_equal(sqlite3_open("file:fixtures/db/1/box.db?immutable=1", &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "ATTACH 'file:fixtures/db/1/host.db?immutable=1' AS host",
			     NULL, NULL, NULL),
	    SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db,
			     "SELECT name FROM main.sqlite_schema WHERE type = 'table'"
			     " AND name NOT IN ('lease', 'sqlite_sequence')",
			     -1, &q, NULL),
	    SQLITE_OK);
	for (; sqlite3_step(q) == SQLITE_ROW; n++) {
		sqlite3_stmt *c;

		snprintf(sql, sizeof(sql),
		    "SELECT (SELECT count(*) FROM main.\"%s\") + (SELECT count(*) FROM host.\"%s\")",
		    (const char *)sqlite3_column_text(q, 0),
		    (const char *)sqlite3_column_text(q, 0));
		assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &c, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_step(c), SQLITE_ROW);
		if (sqlite3_column_int(c, 0) == 0)
			fail_msg("%s is empty", (const char *)sqlite3_column_text(q, 0));
		sqlite3_finalize(c);
	}
	assert_true(n > 20);
	sqlite3_finalize(q);
	sqlite3_close(db);
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

static void
refused(struct scratch *s, const char *code)
{
	struct refusal r = {0};

	assert_int_equal(migrate_up(&s->home, &r), -1);
	assert_string_equal(r.code, code);
}

/* DESIGN §4: a newer database is refused in words and left as it is; so is what is not ours. */
static void
what_is_not_ours_is_refused(void **state)
{
	struct refusal r = {0};
	struct scratch s;
	int version;

	(void)state;
	from_fixture(&s, 1, "box");
	edit(&s, "PRAGMA user_version = 77");
	refused(&s, "store.newer");
	assert_int_equal(migrate_version(&s.home, &version, &r), 0);
	assert_int_equal(version, 77);
	edit(&s, "PRAGMA user_version = 1; CREATE TABLE other (a)");
	refused(&s, "store.foreign");
	edit(&s, "DROP TABLE other");
	/* A database of another program that never was ours. */
	edit(&s, "PRAGMA user_version = 0");
	refused(&s, "store.failed");
	edit(&s, "PRAGMA user_version = 1");
	/* A step with another text; the trigger of schema_step cannot hold another tool for ever.
	 */
	edit(&s, "CREATE TEMP TABLE t AS SELECT sql FROM sqlite_schema"
		 "  WHERE name = 'schema_step_is_history';"
		 "DROP TRIGGER schema_step_is_history;"
		 "UPDATE schema_step SET sha256 = zeroblob(32);"
		 "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT 'trigger',"
		 " 'schema_step_is_history', 'schema_step', 0, sql FROM temp.t");
	refused(&s, "migrate.edited");
	migrate_up(&s.home, &r);
	assert_non_null(strstr(r.why, "0001_first_day"));
	/* An audit that somebody edited is not carried over. */
	put_fixture(&s, 1, "box");
	edit(&s,
	    "CREATE TEMP TABLE t AS SELECT sql FROM sqlite_schema WHERE name = 'audit_no_update';"
	    "DROP TRIGGER audit_no_update; UPDATE audit SET action = 'x' WHERE seq = 5;"
	    "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT 'trigger',"
	    " 'audit_no_update', 'audit', 0, sql FROM temp.t");
	refused(&s, "audit.chain");
	assert_int_not_equal(faccessat(s.home.fd, "bastion.db.before-2", F_OK, 0), 0);
	put_fixture(&s, 1, "box");
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

/* Run ${body} in a process of its own, on a disk of ${plan}. */
static void
under(struct scratch *s, const struct fault_plan *plan, void (*body)(struct scratch *))
{
	int status;
	pid_t pid;

	store_close(s->db);
	s->db = NULL;
	memset(said, 0, sizeof(*said));
	if ((pid = fork()) == 0) {
		fault_install(plan);
		body(s);
		said->count = fault_count();
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) ||
	    (WEXITSTATUS(status) != 0 && !(plan->power && WEXITSTATUS(status) == FAULT_EXIT)))
		fail_msg("ops %u, operation %d: the process ended with %d", plan->ops, plan->nth,
		    status);
	if (plan->full && said->refusal.code[0] != '\0' &&
	    strcmp(said->refusal.code, "store.full") != 0)
		fail_msg("operation %d: a full disk is %s|%s", plan->nth, said->refusal.code,
		    said->refusal.why);
}

static void
body_migrate(struct scratch *s)
{
	said->done = migrate_up(&s->home, &said->refusal) >= 0;
}

/* A copy beside the database is a whole one, or is not there. */
static void
copy_is_whole(struct scratch *s)
{
	struct backup_copy held;
	struct refusal r = {0};
	struct store *copy;
	char path[PATH_MAX];

	home_path(&s->home, "bastion.db.before-2", path);
	if (access(path, F_OK) != 0)
		return;
	if ((copy = store_open_file(path, ROLE_MIGRATE, NULL, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	if (backup_check(copy, s->keys.identity, NULL, &held) != 0)
		fail_msg("the copy: %s", store_refusal(copy)->why);
	assert_int_equal(held.version, 1);
	store_close(copy);
}

/* Whatever became of it, the file is at one version or the next, and the next try completes. */
static void
upgrade_goes_on(struct scratch *s, const char *when, int nth)
{
	struct refusal r = {0};
	int version;

	if (migrate_version(&s->home, &version, &r) != 0)
		fail_msg("%s %d: %s: %s", when, nth, r.code, r.why);
	assert_in_range(version, 1, embedded_versions);
	copy_is_whole(s);
	if (migrate_up(&s->home, &r) != embedded_versions - version)
		fail_msg("%s %d: %s: %s", when, nth, r.code, r.why);
	copy_is_whole(s);
}

/* A fault, a full disk or a loss of power at any operation of an upgrade costs no row. */
static void
upgrades_fail_whole(void **state)
{
	struct fault_plan plan;
	struct scratch s;
	int total, n = 0;
	size_t i;

	(void)state;
	from_fixture(&s, 1, "box");
	for (i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		plan = plans[i];
		put_fixture(&s, 1, "box");
		under(&s, &plan, body_migrate);
		assert_true(said->done);
		total = said->count;
		for (plan.nth = 1; plan.nth <= total; plan.nth += stride(total), n++) {
			plan.seed = (unsigned)plan.nth % 7;
			put_fixture(&s, 1, "box");
			under(&s, &plan, body_migrate);
			upgrade_goes_on(&s, "operation", plan.nth);
			rows_survived(&s, 1, "box");
		}
	}
	print_message("%d upgrades\n", n);
	scratch_drop(&s);
}

static char backup_path[128];

static void
body_restore(struct scratch *s)
{
	struct restore_options options = {.acting = "test:restore"};
	struct restore_report report;

	said->done = restore_run(&s->home, backup_path, &s->keys, &options, NULL, &report,
			 &said->refusal) == 0;
}

/* A box that went on after its backup: the database as it is, in before.db. */
static void
went_on(struct scratch *s)
{
	struct refusal r = {0};
	struct backup_copy copy;
	char from[PATH_MAX], to[128];

	if (migrate_up(&s->home, &r) < 0)
		fail_msg("%s: %s", r.code, r.why);
	scratch_open(s, ROLE_PERSON);
	snprintf(backup_path, sizeof(backup_path), "%s/backup.db", s->dir);
	if (backup_write(s->db, backup_path, s->keys.identity, false, NULL, &copy) != 0)
		fail_msg("%s", store_refusal(s->db)->why);
	assert_int_equal(
	    scratch_sql(s, "UPDATE setting SET value = 7 WHERE name = 'factor.tries'"), 0);
	store_close(s->db);
	s->db = NULL;
	home_path(&s->home, "bastion.db", from);
	snprintf(to, sizeof(to), "%s/before.db", s->dir);
	copy_file(from, to);
}

static void
put_present(struct scratch *s)
{
	char from[128], to[PATH_MAX];

	remove_all(s, "bastion.db*");
	snprintf(from, sizeof(from), "%s/before.db", s->dir);
	home_path(&s->home, "bastion.db", to);
	copy_file(from, to);
}

/* The one or the other, whole, with its log; and whatever it is, a restore works now. */
static void
one_or_the_other(struct scratch *s, const char *when, int nth)
{
	int64_t restored, tries;
	char mode[16];

	/* As a daemon does at its start. */
	scratch_open(s, ROLE_SUPERVISOR);
	restored = scratch_value(s, "SELECT count(*) FROM restore");
	tries = scratch_value(s, "SELECT value FROM setting WHERE name = 'factor.tries'");
	if ((restored == 1) != (tries != 7))
		fail_msg("%s %d: it is neither (%d, %d)", when, nth, (int)restored, (int)tries);
	if (said->done && restored != 1)
		fail_msg("%s %d: said to be restored, and is not", when, nth);
	audit_is_whole(s);
	scratch_check(s);
	assert_string_equal(scratch_text(s, "PRAGMA journal_mode", mode, sizeof(mode)), "wal");
	store_close(s->db);
	s->db = NULL;
	memset(said, 0, sizeof(*said));
	body_restore(s);
	if (!said->done)
		fail_msg("%s %d: %s: %s", when, nth, said->refusal.code, said->refusal.why);
	scratch_open(s, ROLE_READER);
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM restore"), 1);
}

/* The same for a restore: the swap is one step, and what was there is kept. */
static void
restores_fail_whole(void **state)
{
	struct fault_plan plan;
	struct scratch s;
	int total, n = 0;
	size_t i;

	(void)state;
	from_fixture(&s, 1, "box");
	went_on(&s);
	for (i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		plan = plans[i];
		put_present(&s);
		under(&s, &plan, body_restore);
		if (!said->done)
			fail_msg("%s: %s", said->refusal.code, said->refusal.why);
		total = said->count;
		for (plan.nth = 1; plan.nth <= total; plan.nth += stride(total), n++) {
			plan.seed = (unsigned)plan.nth % 7;
			put_present(&s);
			under(&s, &plan, body_restore);
			one_or_the_other(&s, "operation", plan.nth);
		}
	}
	print_message("%d restores\n", n);
	scratch_drop(&s);
}

static char copy_path[128];

static void
body_backup(struct scratch *s)
{
	struct backup_copy copy;
	struct store *db;

	if ((db = store_open(&s->home, ROLE_PERSON, &s->keys, &said->refusal)) == NULL)
		return;
	said->done = backup_write(db, copy_path, s->keys.identity, true, NULL, &copy) == 0;
	said->refusal = *store_refusal(db);
	store_close(db);
}

/* A file of a backup's name is a whole backup, the older one or the newer one. */
static void
backup_is_whole(struct scratch *s, int nth)
{
	struct backup_copy copy;
	struct refusal r = {0};
	struct store *db;

	if ((db = store_open_file(copy_path, ROLE_MIGRATE, NULL, &r)) == NULL)
		fail_msg("operation %d: %s: %s", nth, r.code, r.why);
	if (backup_check(db, s->keys.identity, NULL, &copy) != 0)
		fail_msg("operation %d: %s", nth, store_refusal(db)->why);
	store_close(db);
	memset(said, 0, sizeof(*said));
	body_backup(s);
	if (!said->done)
		fail_msg("operation %d: %s: %s", nth, said->refusal.code, said->refusal.why);
}

static void
backups_fail_whole(void **state)
{
	struct fault_plan plan;
	struct scratch s;
	int total, n = 0;
	size_t i;

	(void)state;
	from_fixture(&s, 1, "box");
	went_on(&s);
	snprintf(copy_path, sizeof(copy_path), "%s/copy.db", s.dir);
	body_backup(&s);
	assert_true(said->done);
	for (i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		plan = plans[i];
		under(&s, &plan, body_backup);
		assert_true(said->done);
		total = said->count;
		for (plan.nth = 1; plan.nth <= total; plan.nth += stride(total), n++) {
			plan.seed = (unsigned)plan.nth % 7;
			under(&s, &plan, body_backup);
			backup_is_whole(&s, plan.nth);
		}
	}
	print_message("%d backups\n", n);
	scratch_drop(&s);
}

/* Start the program with ${words} and kill it after ${us} microseconds.  Return whether it ended.
 */
static bool
kill_at(struct scratch *s, const char *const words[], long us)
{
	struct timespec pause = {0, us * 1000};
	char state[80], run[80];
	int status;
	pid_t pid;

	snprintf(state, sizeof(state), "%s/state", s->dir);
	snprintf(run, sizeof(run), "%s/run", s->dir);
	if ((pid = fork()) == 0) {
		setenv("BASTION_STATE", state, 1);
		setenv("BASTION_RUN", run, 1);
		if (freopen("/dev/null", "w", stdout) == NULL ||
		    freopen("/dev/null", "w", stderr) == NULL)
			_exit(1);
		execv(program_path(), (char *const *)(uintptr_t)words);
		_exit(1);
	}
	assert_true(pid > 0);
	nanosleep(&pause, NULL);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int
kills(void)
{
	return getenv("KILLS") == NULL ? KILLS : atoi(getenv("KILLS"));
}

/* How long ${words} take when they are let, in microseconds. */
static long
takes(struct scratch *s, const char *const words[])
{
	struct timespec a, b;
	struct program p;

	clock_gettime(CLOCK_MONOTONIC, &a);
	program_run(&p, s, NULL, words + 1);
	clock_gettime(CLOCK_MONOTONIC, &b);
	if (p.code != 0)
		fail_msg("%s", p.err);
	program_free(&p);
	return (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000;
}

/* kill -9 of the program itself at random instants of an upgrade. */
static void
killed_upgrades_go_on(void **state)
{
	static const char *const words[] = {"bastion", "migrate", "up", NULL};
	struct scratch s;
	int i, ended = 0;
	long all;

	(void)state;
	from_fixture(&s, 1, "box");
	all = takes(&s, words);
	for (i = 0; i < kills(); i++) {
		put_fixture(&s, 1, "box");
		ended += kill_at(&s, words, random() % all);
		upgrade_goes_on(&s, "kill", i);
		rows_survived(&s, 1, "box");
	}
	print_message("%d kills, %d came too late\n", i, ended);
	scratch_drop(&s);
}

static void
killed_restores_are_one_or_the_other(void **state)
{
	const char *const words[] = {"bastion", "restore", backup_path, NULL};
	struct scratch s;
	int i;
	long all;

	(void)state;
	from_fixture(&s, 1, "box");
	went_on(&s);
	all = takes(&s, words);
	for (i = 0; i < kills(); i++) {
		put_present(&s);
		memset(said, 0, sizeof(*said));
		said->done = kill_at(&s, words, random() % all);
		one_or_the_other(&s, "kill", i);
	}
	scratch_drop(&s);
}

/* A backup that was killed has left no file of its name, and the next one is not in its way. */
static void
killed_backups_are_not_there(void **state)
{
	char file[128];
	const char *const words[] = {"bastion", "backup", file, NULL};
	struct backup_copy copy;
	struct scratch s;
	struct store *db;
	struct refusal r = {0};
	int i, there = 0;
	long all;

	(void)state;
	from_fixture(&s, 1, "box");
	went_on(&s);
	snprintf(file, sizeof(file), "%s/killed.db", s.dir);
	all = takes(&s, words);
	for (i = 0; i < kills(); i++) {
		unlink(file);
		kill_at(&s, words, random() % all);
		if (access(file, F_OK) != 0)
			continue;
		there++;
		if ((db = store_open_file(file, ROLE_MIGRATE, NULL, &r)) == NULL)
			fail_msg("%s: %s", r.code, r.why);
		if (backup_check(db, s.keys.identity, NULL, &copy) != 0)
			fail_msg("%s", store_refusal(db)->why);
		store_close(db);
	}
	print_message("%d kills left %d whole backups\n", i, there);
	unlink(file);
	takes(&s, words);
	snprintf(file, sizeof(file), "%s/killed.db.part", s.dir);
	assert_int_not_equal(access(file, F_OK), 0);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_survive),
	    cmocka_unit_test(fixtures_are_filled),
	    cmocka_unit_test(what_is_not_ours_is_refused),
	    cmocka_unit_test(many_migrate_at_once),
	    cmocka_unit_test(upgrades_fail_whole),
	    cmocka_unit_test(restores_fail_whole),
	    cmocka_unit_test(backups_fail_whole),
	    cmocka_unit_test(killed_upgrades_go_on),
	    cmocka_unit_test(killed_restores_are_one_or_the_other),
	    cmocka_unit_test(killed_backups_are_not_there),
	};

	said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (said == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
