/* test_migrate.c: the verb migrate over files of an older version, as a person meets it. */
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
#include <unistd.h>

#include "engine/state/instance.h"
#include "engine/store/embed.h"
#include "tests/program.h"
#include "tests/scratch.h"

static struct scratch s;
static struct program p;

/* A state that is the fixture of version 1. */
static int
make(void **state)
{
	char command[512];

	(void)state;
	scratch_make(&s, HOME_BOX);
	store_close(s.db);
	s.db = NULL;
	snprintf(command, sizeof(command),
	    "cd %s/state && rm bastion.* && cp %s/fixtures/db/1/box.db bastion.db &&"
	    " cp %s/fixtures/db/1/box.key bastion.key && chmod 600 bastion.*",
	    s.dir, getenv("PWD"), getenv("PWD"));
	assert_int_equal(system(command), 0);
	s.keys.present = false;
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

static void
run(const char *a, const char *b, const char *c)
{
	const char *const words[] = {a, b, c, NULL};

	program_run(&p, &s, NULL, words);
}

static void
says(int code, const char *text)
{
	if (p.code != code)
		fail_msg("exit %d, not %d: %s%s", p.code, code, p.out, p.err);
	if (strstr(p.out, text) == NULL && strstr(p.err, text) == NULL)
		fail_msg("does not say '%s': %s%s", text, p.out, p.err);
	program_free(&p);
}

/* As another tool does it. */
static void
edit(const char *sql)
{
	char path[PATH_MAX];
	sqlite3 *db;

	store_close(s.db);
	s.db = NULL;
	home_path(&s.home, "bastion.db", path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

/* What is there, what is to come, and then it is done; each in words and in JSON. */
static void
status_plan_up(void **state)
{
	char want[128];

	(void)state;
	run("status", NULL, NULL);
	says(3, "store.older");
	run("migrate", NULL, NULL);
	says(1, "schema version 1, this bastion has");
	run("migrate", "status", "--json");
	says(1, "\"steps\":[{\"version\":1,\"name\":\"0001_first_day\"");
	run("migrate", "plan", NULL);
	says(0, "a hash tree over the audit");
	run("migrate", "plan", "--json");
	says(0, "\"copy_bytes\":335872");
	run("migrate", "up", NULL);
	snprintf(want, sizeof(want), "Schema version 1 is now %d", embedded_versions);
	says(0, want);
	assert_int_equal(faccessat(s.home.fd, "bastion.db.before-2", F_OK, 0), 0);
	run("migrate", "status", NULL);
	says(0, "ok");
	run("migrate", "plan", NULL);
	says(0, "Nothing is to be done");
	run("migrate", "up", "--json");
	says(0, "\"steps\":0,\"copy\":null");
	run("status", NULL, NULL);
	says(1, "not running");
}

/* A step that was applied with another text is named, and nothing is done. */
static void
an_edited_step_is_named(void **state)
{
	(void)state;
	edit("CREATE TEMP TABLE t AS SELECT sql FROM sqlite_schema"
	     "  WHERE name = 'schema_step_is_history';"
	     "DROP TRIGGER schema_step_is_history;"
	     "CREATE TEMP TABLE was AS SELECT sha256 FROM schema_step;"
	     "UPDATE schema_step SET sha256 = zeroblob(32);"
	     "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT 'trigger',"
	     " 'schema_step_is_history', 'schema_step', 0, sql FROM temp.t");
	run("migrate", NULL, NULL);
	says(1, "edited");
	run("migrate", "up", NULL);
	says(3, "0001_first_day");
	assert_int_not_equal(faccessat(s.home.fd, "bastion.db.before-2", F_OK, 0), 0);
	run("migrate", "up", NULL);
	says(3, "migrate.edited");
	run("serve", "--migrate", NULL);
	says(3, "migrate.edited");
	make(state);
	run("migrate", "up", NULL);
	says(0, "is now");
}

/* Not under a daemon; not a newer one; not where there is none. */
static void
what_cannot_be_is_refused(void **state)
{
	struct refusal r = {0};
	char want[64];
	int lock;

	(void)state;
	assert_true((lock = instance_lock(&s.home, &r)) >= 0);
	run("migrate", "up", NULL);
	snprintf(want, sizeof(want), "the process %ld already serves", (long)getpid());
	says(1, want);
	close(lock);
	edit("PRAGMA user_version = 77");
	run("migrate", "up", NULL);
	says(3, "schema version 77, this bastion knows up to");
	run("migrate", "status", NULL);
	says(1, "schema version 77");
	assert_int_equal(unlinkat(s.home.fd, "bastion.db", 0), 0);
	run("migrate", "up", NULL);
	says(3, "store.missing");
	run("migrate", NULL, NULL);
	says(3, "store.missing");
	assert_int_not_equal(faccessat(s.home.fd, "bastion.db", F_OK, 0), 0);
	run("migrate", "down", NULL);
	says(2, "unexpected word: down");
	make(state);
	run("migrate", "up", NULL);
	says(0, "is now");
}

/* A file that was backed up before the upgrade is restored after it, up to date. */
static void
an_older_backup_is_brought_up_to_date(void **state)
{
	char path[PATH_MAX];

	(void)state;
	run("migrate", "up", NULL);
	says(0, "is now");
	home_path(&s.home, "bastion.db.before-2", path);
	run("restore", path, NULL);
	says(0, "Restored, as of audit row");
	run("migrate", NULL, NULL);
	says(0, "ok");
	run("audit", "verify", NULL);
	says(0, "good:");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(status_plan_up, make, drop),
	    cmocka_unit_test_setup_teardown(an_edited_step_is_named, make, drop),
	    cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, make, drop),
	    cmocka_unit_test_setup_teardown(an_older_backup_is_brought_up_to_date, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
