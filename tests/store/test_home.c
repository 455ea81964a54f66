/* test_home.c: whose directories and files are taken, and which databases are opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/store/migrate.h"
#include "tests/scratch.h"

#define NOBODY 65534

static mode_t
mode_of(const struct home *home, const char *name)
{
	struct stat st;

	if (fstatat(home->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		fail_msg("%s is not there", name);
	return st.st_mode & 07777;
}

static void
closed(struct scratch *s)
{
	store_close(s->db);
	s->db = NULL;
}

/* Everything in the state directory is 0600, and it is 0700, under the widest umask. */
static void
files_are_private(void **state)
{
	static const char *const files[] = {"bastion.db", "bastion.db-wal", "bastion.db-shm",
	    "bastion.gate", "bastion.bell", "bastion.key"};
	mode_t old = umask(0);
	struct scratch s;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		assert_int_equal(mode_of(&s.home, files[i]), 0600);
	assert_int_equal(mode_of(&s.home, "."), 0700);
	assert_int_equal(mode_of(&s.home, "../run"), 0700);
	umask(old);
	scratch_drop(&s);
}

/* PT-5, SQ-3: what was there before and is too wide is tightened before it is used. */
static void
wide_is_tightened(void **state)
{
	struct refusal r = {0};
	struct scratch s;
	struct home again;

	(void)state;
	scratch_make(&s, HOME_BOX);
	closed(&s);
	assert_int_equal(fchmod(s.home.fd, 0777), 0);
	assert_int_equal(fchmodat(s.home.fd, "../run", 01777, 0), 0);
	assert_int_equal(fchmodat(s.home.fd, "bastion.db", 0664, 0), 0);
	assert_int_equal(home_at(&again, s.home.state, s.home.run, HOME_BOX, true, &r), 0);
	assert_int_equal(home_run(&again, &r), 0);
	assert_int_equal(mode_of(&again, "."), 0700);
	assert_int_equal(mode_of(&again, "../run"), 0700);
	scratch_open(&s, ROLE_READER);
	assert_int_equal(mode_of(&again, "bastion.db"), 0600);
	home_close(&again);
	scratch_drop(&s);
}

static void
home_refused(const char *state, const char *code)
{
	struct refusal r = {0};
	struct home home;

	if (home_at(&home, state, "/tmp/run", HOME_BOX, false, &r) == 0)
		fail_msg("taken: %s", state);
	assert_string_equal(r.code, code);
}

/* PT-6: a link in the place of the directory, or what is none, is refused. */
static void
links_are_refused(void **state)
{
	struct scratch s;
	char path[128];

	(void)state;
	scratch_make(&s, HOME_BOX);
	snprintf(path, sizeof(path), "%s/link", s.dir);
	assert_int_equal(symlink(s.home.state, path), 0);
	home_refused(path, "store.directory");
	snprintf(path, sizeof(path), "%s/state/bastion.key", s.dir);
	home_refused(path, "store.directory");
	snprintf(path, sizeof(path), "%s/none", s.dir);
	home_refused(path, "store.missing");
	scratch_drop(&s);
}

static void
open_refused(const struct home *home, enum store_role role, const char *code)
{
	struct refusal r = {0};
	struct store *db = store_open(home, role, NULL, &r);

	if (db != NULL)
		fail_msg("opened, though %s should hold it", code);
	assert_string_equal(r.code, code);
	assert_string_not_equal(r.why, "");
}

/* A link or a pipe in the place of the database is refused, and what a link names stays. */
static void
database_is_a_plain_file(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	closed(&s);
	assert_int_equal(renameat(s.home.fd, "bastion.db", s.home.fd, "kept"), 0);
	assert_int_equal(symlinkat("kept", s.home.fd, "bastion.db"), 0);
	open_refused(&s.home, ROLE_READER, "store.directory");
	assert_int_equal(unlinkat(s.home.fd, "bastion.db", 0), 0);
	assert_int_equal(mkfifoat(s.home.fd, "bastion.db", 0600), 0);
	open_refused(&s.home, ROLE_READER, "store.directory");
	assert_int_equal(renameat(s.home.fd, "kept", s.home.fd, "bastion.db"), 0);
	scratch_drop(&s);
}

/* Run ${body} as an ordinary user in a process of its own. */
static void
as_nobody(struct scratch *s, int (*body)(struct scratch *))
{
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		print_message("needs root to become another user\n");
		skip();
	}
	closed(s);
	if ((pid = fork()) == 0) {
		if (setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
		    setresuid(NOBODY, NOBODY, NOBODY) != 0)
			_exit(100);
		_exit(body(s));
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* 0 where opening is refused with ${code}; what else happened otherwise. */
static int
refusal_is(struct scratch *s, const char *code)
{
	struct refusal r = {0};
	struct home home;
	struct store *db;

	if (home_at(&home, s->home.state, s->home.run, HOME_BOX, true, &r) == 0 &&
	    (db = store_open(&home, ROLE_NET, NULL, &r)) != NULL)
		return 2;
	if (strcmp(r.code, code) != 0)
		fprintf(stderr, "%s: %s\n", r.code, r.why);
	return strcmp(r.code, code) != 0;
}

static int
foreign_directory(struct scratch *s)
{
	return refusal_is(s, "store.directory");
}

/* PT-6: a directory of somebody else is refused. */
static void
others_are_refused(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(chmod(s.dir, 0755), 0);
	as_nobody(&s, foreign_directory);
	scratch_drop(&s);
}

static int
read_only_file(struct scratch *s)
{
	return refusal_is(s, "store.readonly");
}

/* A database that may not be written is refused when it is opened, not at the first decision. */
static void
read_only_is_said(void **state)
{
	static const char *const files[] = {
	    ".", "bastion.db", "bastion.gate", "bastion.bell", "bastion.key"};
	struct scratch s;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	closed(&s);
	assert_int_equal(chmod(s.dir, 0755), 0);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		assert_int_equal(fchownat(s.home.fd, files[i], NOBODY, NOBODY, 0), 0);
	assert_int_equal(fchmodat(s.home.fd, "bastion.db", 0400, 0), 0);
	as_nobody(&s, read_only_file);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		assert_int_equal(fchownat(s.home.fd, files[i], geteuid(), getegid(), 0), 0);
	scratch_drop(&s);
}

/* The same where the whole file system is read-only. */
static void
read_only_disk_is_said(void **state)
{
	struct scratch s;
	int status;
	pid_t pid;

	(void)state;
	scratch_make(&s, HOME_BOX);
	closed(&s);
	if ((pid = fork()) == 0) {
		if (unshare(CLONE_NEWNS) != 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		    mount(s.home.state, s.home.state, NULL, MS_BIND, NULL) != 0 ||
		    mount(NULL, s.home.state, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) != 0)
			_exit(77);
		_exit(refusal_is(&s, "store.readonly"));
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	scratch_drop(&s);
	if (WEXITSTATUS(status) == 77) {
		print_message("needs a mount namespace\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* DESIGN §3: network file systems are known by their number, local ones are not taken for such. */
static void
networks_are_known(void **state)
{
	static const unsigned long network[] = {0x6969, 0xff534d42, 0xfe534d42, 0x01021997,
	    0x00c36400, 0xffffffffff534d42UL},
				   local[] = {0xef53, 0x9123683e, 0x58465342, 0x01021994,
				       0x794c7630, 0x2fc12fc1};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(network) / sizeof(network[0]); i++)
		assert_non_null(home_networked(network[i]));
	for (i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		assert_null(home_networked(local[i]));
}

/* Return where an ordinary user's state is, as the environment of this process says. */
static const char *
users_state(char state[PATH_MAX])
{
	struct refusal r;
	struct home home;
	int pair[2];
	ssize_t n;

	assert_int_equal(pipe(pair), 0);
	if (fork() == 0) {
		if (geteuid() != 0 || setresuid(NOBODY, NOBODY, NOBODY) == 0)
			(void)home_open(&home, HOME_BOX, false, &r);
		dprintf(pair[1], "%s", home.state);
		_exit(0);
	}
	close(pair[1]);
	n = read(pair[0], state, PATH_MAX - 1);
	close(pair[0]);
	wait(NULL);
	state[n > 0 ? n : 0] = '\0';
	return state;
}

/* A relative place in a variable of ours is refused by its name: it is no word for the default. */
static void
relative_places_are_refused(void **state)
{
	static const char *const variables[] = {
	    "BASTION_STATE", "BASTION_RUN", "BASTION_HOST_STATE", "BASTION_HOST_RUN"};
	static const char *const odd[] = {"state", "./state", "~/state", " ", " /state", "\t"};
	struct refusal r = {0};
	struct home home;
	char why[128];
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		for (k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
			setenv(variables[i], odd[k], 1);
			assert_int_equal(
			    home_open(&home, i < 2 ? HOME_BOX : HOME_HOST, true, &r), -1);
			assert_int_equal(home.fd, -1);
			assert_string_equal(r.code, "store.place");
			snprintf(why, sizeof(why), "%s is no absolute path: \"%s\"", variables[i],
			    odd[k]);
			assert_string_equal(r.why, why);
		}
		unsetenv(variables[i]);
	}
}

/*
 * PT-09, RF-24: only an absolute path in the environment counts, so it is the same wherever a
 * program is started; its bytes are the name, blanks too; the home is below the next that does. One
 * of ours that is empty is as unset.
 * SGR-03: what is named is taken as it is, else a user's is below XDG_STATE_HOME; tool grants lie
 * in the database there, as everything does.
 */
static void
environment_is_absolute(void **state)
{
	static const char *const odd[] = {"", "state", "./state", "~/state", " ", " /state"};
	struct refusal r = {0};
	struct home home;
	char dir[64], want[160], below[160], is[PATH_MAX];
	size_t i;

	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/bastion-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	setenv("BASTION_STATE", "", 1);
	setenv("BASTION_RUN", dir, 1);
	setenv("XDG_STATE_HOME", dir, 1);
	if (geteuid() == 0)
		snprintf(want, sizeof(want), "/var/lib/bastion");
	else
		snprintf(want, sizeof(want), "%s/bastion", dir);
	if (home_open(&home, HOME_BOX, false, &r) == 0)
		home_close(&home);
	else
		assert_string_equal(r.code, "store.missing");
	assert_string_equal(home.state, want);
	assert_string_equal(home.run, dir);
	snprintf(below, sizeof(below), "%s/bastion", dir);
	assert_string_equal(users_state(is), below);
	setenv("HOME", dir, 1);
	snprintf(below, sizeof(below), "%s/.local/state/bastion", dir);
	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		setenv("XDG_STATE_HOME", odd[i], 1);
		assert_string_equal(users_state(is), below);
	}
	snprintf(want, sizeof(want), "%s/a/ b ", dir);
	setenv("BASTION_STATE", want, 1);
	assert_int_equal(home_open(&home, HOME_BOX, true, &r), 0);
	assert_string_equal(home.state, want);
	assert_string_equal(users_state(is), want);
	home_close(&home);
	memset(want, 'a', sizeof(want));
	want[0] = '/';
	want[HOME_RUN_MAX + 1] = '\0';
	setenv("BASTION_RUN", want, 1);
	assert_int_equal(home_open(&home, HOME_BOX, true, &r), -1);
	assert_string_equal(r.code, "socket.path");
	unsetenv("BASTION_STATE");
	unsetenv("BASTION_RUN");
	unsetenv("XDG_STATE_HOME");
	snprintf(want, sizeof(want), "rm -rf %s", dir);
	assert_int_equal(system(want), 0);
}

/* What another tool, without our functions and roles, does to the database. */
static int
other_tool(struct scratch *s, const char *sql)
{
	char path[PATH_MAX];
	sqlite3 *db;
	int rc;

	home_path(&s->home, "bastion.db", path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_close(db);
	return rc;
}

/* A schema that is not ours to the last object is refused by name, in every role. */
static void
foreign_schemas_are_refused(void **state)
{
	static const char *const changes[] = {
	    "CREATE TABLE other (a)",
	    "CREATE VIEW other AS SELECT * FROM factor",
	    "CREATE INDEX other ON op_run (args)",
	    "CREATE TRIGGER other AFTER INSERT ON refused BEGIN DELETE FROM setting; END",
	    "ALTER TABLE lease ADD COLUMN other TEXT",
	    "DROP TRIGGER audit_no_delete",
	    "DROP TRIGGER audit_no_delete; CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit"
	    " BEGIN SELECT 1; END",
	    "DROP INDEX pairing_by_key",
	    /* A name that SQLite keeps for itself is no place to hide. */
	    "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES ('trigger', 'sqlite_x',"
	    " 'refused', 0, 'CREATE TRIGGER sqlite_x AFTER INSERT ON refused BEGIN DELETE FROM"
	    " audit_gap; END')",
	};
	char kept[160], back[320];
	struct scratch s;
	size_t i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	closed(&s);
	snprintf(kept, sizeof(kept), "cp %s/state/bastion.db %s/kept", s.dir, s.dir);
	snprintf(back, sizeof(back), "cp %s/kept %s/state/bastion.db", s.dir, s.dir);
	assert_int_equal(system(kept), 0);
	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		if (other_tool(&s, changes[i]) != SQLITE_OK)
			fail_msg("the other tool could not: %s", changes[i]);
		open_refused(&s.home, ROLE_READER, "store.foreign");
		open_refused(&s.home, ROLE_SUPERVISOR, "store.foreign");
		assert_int_equal(system(back), 0);
	}
	/* What ANALYZE leaves is no change of the schema. */
	assert_int_equal(other_tool(&s, "ANALYZE"), SQLITE_OK);
	scratch_open(&s, ROLE_NET);
	scratch_drop(&s);
}

/* Newer, older, damaged, no database at all: each by name, and left as it is. */
static void
odd_databases_are_refused(void **state)
{
	struct refusal r = {0};
	struct scratch s;
	int fd, version;

	(void)state;
	scratch_make(&s, HOME_BOX);
	closed(&s);
	assert_int_equal(other_tool(&s, "PRAGMA user_version = 999"), SQLITE_OK);
	open_refused(&s.home, ROLE_READER, "store.newer");
	assert_int_equal(migrate_up(&s.home, &r), -1);
	assert_string_equal(r.code, "store.newer");
	assert_int_equal(migrate_version(&s.home, &version, &r), 0);
	assert_int_equal(version, 999);
	assert_int_equal(other_tool(&s, "PRAGMA user_version = 0"), SQLITE_OK);
	open_refused(&s.home, ROLE_READER, "store.older");
	assert_int_equal(
	    other_tool(&s, "PRAGMA user_version = 1; PRAGMA journal_mode = DELETE"), SQLITE_OK);
	assert_true((fd = openat(s.home.fd, "bastion.db", O_RDWR | O_CLOEXEC)) >= 0);
	assert_int_equal(pwrite(fd, "no database of ours", 19, 0), 19);
	close(fd);
	open_refused(&s.home, ROLE_NET, "store.corrupt");
	assert_true((fd = openat(s.home.fd, "bastion.db", O_RDWR | O_CLOEXEC)) >= 0);
	assert_int_equal(pwrite(fd, "SQLite format 3", 16, 0), 16);
	/* The first page keeps its header and loses the tree of the schema. */
	assert_int_equal(pwrite(fd, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 100), 8);
	close(fd);
	open_refused(&s.home, ROLE_NET, "store.corrupt");
	assert_int_equal(unlinkat(s.home.fd, "bastion.db", 0), 0);
	open_refused(&s.home, ROLE_NET, "store.missing");
	assert_int_equal(migrate_version(&s.home, &version, &r), 0);
	assert_int_equal(version, 0);
	assert_true(migrate_up(&s.home, &r) > 0);
	scratch_drop(&s);
}

/* DESIGN §3: the sqlite3 tool reads what is there, and fails in the triggers when it writes. */
static void
sqlite3_tool_reads_only(void **state)
{
	static const char *const writes[] = {
	    "UPDATE pairing SET state = 'revoked', ended_at = 1",
	    "INSERT INTO pairing VALUES (9, 'x', 'unix', zeroblob(32), 0, 'pending', 1, NULL, NULL, NULL)",
	    "UPDATE setting SET value = 1 WHERE name = 'op.live'",
	    "DELETE FROM audit",
	    "UPDATE factor SET state = 'dropped', secret = NULL, dropped_at = 1",
	};
	char command[512];
	struct scratch s;
	size_t i;

	(void)state;
	if (system("command -v sqlite3 >/dev/null") != 0) {
		print_message("the sqlite3 tool is not installed\n");
		skip();
	}
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	snprintf(command, sizeof(command),
	    "test \"$(sqlite3 %s/state/bastion.db 'SELECT state FROM pairing')\" = active", s.dir);
	assert_int_equal(system(command), 0);
	for (i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		snprintf(command, sizeof(command), "sqlite3 %s/state/bastion.db \"%s\" 2>/dev/null",
		    s.dir, writes[i]);
		if (system(command) == 0)
			fail_msg("sqlite3 may: %s", writes[i]);
	}
	assert_int_equal(scratch_value(&s, "SELECT state = 'active' FROM pairing"), 1);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(files_are_private),
	    cmocka_unit_test(wide_is_tightened),
	    cmocka_unit_test(links_are_refused),
	    cmocka_unit_test(database_is_a_plain_file),
	    cmocka_unit_test(others_are_refused),
	    cmocka_unit_test(read_only_is_said),
	    cmocka_unit_test(read_only_disk_is_said),
	    cmocka_unit_test(networks_are_known),
	    cmocka_unit_test(relative_places_are_refused),
	    cmocka_unit_test(environment_is_absolute),
	    cmocka_unit_test(foreign_schemas_are_refused),
	    cmocka_unit_test(odd_databases_are_refused),
	    cmocka_unit_test(sqlite3_tool_reads_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
