/* test_disk.c: a disk that is full, read-only or somebody else's; a key that is gone; a newer file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/store/embed.h"
#include "tests/driver.h"

static struct driver d;
static struct said said;

/* A disk of ${size} for the state of ${side}, in a mount namespace of this process. */
static void
disk_make(enum driver_side side, const char *size)
{
	static bool alone;
	char options[64];

	if (!alone) {
		assert_int_equal(unshare(CLONE_NEWNS), 0);
		assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
		alone = true;
	}
	assert_true(mkdir(d.state[side], 0700) == 0 || errno == EEXIST);
	snprintf(options, sizeof(options), "size=%s,mode=0700", size);
	if (mount("tmpfs", d.state[side], "tmpfs", MS_NOSUID | MS_NODEV, options) != 0)
		fail_msg("tmpfs: %s", strerror(errno));
}

static void
disk_fill(enum driver_side side)
{
	static const char zeros[4096];
	struct statfs disk;
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/filler", d.state[side]);
	assert_true((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) != -1);
	assert_true(fstatfs(fd, &disk) == 0 && disk.f_type == TMPFS_MAGIC); /* not the machine's */
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
	close(fd);
}

static void
disk_free(enum driver_side side)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/filler", d.state[side]);
	assert_int_equal(unlink(path), 0);
}

static bool
only_root(void)
{
	if (geteuid() == 0)
		return false;
	print_message("only root can mount or give files away\n");
	return true;
}

static int
make(void **state)
{
	(void)state;
	driver_make(&d);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	if (d.serving[DRIVER_BOX] != 0)
		driver_end(&d, DRIVER_BOX, SIGTERM);
	if (geteuid() == 0 && umount2(d.state[DRIVER_BOX], MNT_DETACH) == 0)
		rmdir(d.state[DRIVER_BOX]);
	driver_drop(&d);
	return 0;
}

/* DK-1: on a full disk a change is refused in one sentence, nothing is lost, reading goes on, and
 * with room again all goes on without a new start. */
static void
full_disk_refuses_and_recovers(void **state)
{
	int64_t rows;

	(void)state;
	if (only_root())
		skip();
	disk_make(DRIVER_BOX, "8m");
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "settings", "set", "cert.wait_ms", "4000", NULL);
	driver_does(&said, NULL, "factor", "add", "totp", "--label", "before", NULL);
	disk_fill(DRIVER_BOX);
	/* What is in the log already may be written over: so many rows that it has to grow. */
	for (rows = 0; rows < 400; rows++)
		if (driver_run(&said, NULL, "settings", "set", "cert.wait_ms",
			rows % 2 == 0 ? "4001" : "4002", NULL) != 0)
			break;
	assert_int_equal(said.code, 1);
	assert_non_null(strstr(said.err, "[store.full]\n"));
	driver_refused(
	    &said, 1, "store.full", NULL, "factor", "add", "totp", "--label", "during", NULL);
	driver_does(&said, NULL, "factor", NULL);
	assert_non_null(strstr(said.out, "before"));
	assert_null(strstr(said.out, "during"));
	driver_does(&said, NULL, "status", NULL);
	assert_int_equal(kill(d.serving[DRIVER_BOX], 0), 0);
	driver_invariants(&d, DRIVER_BOX);
	disk_free(DRIVER_BOX);
	driver_does(&said, NULL, "factor", "add", "totp", "--label", "after", NULL);
	driver_does(&said, NULL, "audit", "verify", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_serve(&d, DRIVER_BOX);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT value FROM setting WHERE name = 'cert.wait_ms'"),
	    rows % 2 == 0 ? (rows == 0 ? 4000 : 4002) : 4001);
	driver_invariants(&d, DRIVER_BOX);
}

/* So that not even the log has room for a row. */
static void
disk_fill_log(void)
{
	struct store *db = driver_open(&d, DRIVER_BOX, ROLE_PERSON, NULL);
	int rc = 0, i;

	disk_fill(DRIVER_BOX);
	for (i = 0; i < 4000 && rc == 0; i++) {
		assert_int_equal(store_begin(db), 0);
		rc = store_exec(db, "UPDATE setting SET value = iif(value = 4001, 4002, 4001)"
				    " WHERE name = 'cert.wait_ms'");
		rc = rc == 0 ? store_commit(db) : store_rollback(db);
	}
	assert_int_equal(rc, -1);
	assert_string_equal(store_refusal(db)->code, "store.full");
	store_close(db);
}

static void
log_says(const char *text)
{
	static char log[65536];
	int64_t limit = driver_now() + DRIVER_WAIT_MS;
	FILE *f;

	do {
		driver_pause();
		assert_non_null(f = fopen(d.log[DRIVER_BOX], "re"));
		log[fread(log, 1, sizeof(log) - 1, f)] = '\0';
		fclose(f);
		if (driver_now() > limit)
			fail_msg("the log does not say \"%s\": %s", text, log);
	} while (strstr(log, text) == NULL);
}

static void
put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* As driver_first_day, which has a directory of its own. */
static void
pair(void)
{
	static struct said invited;

	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "host", "init", "conductor", NULL);
	driver_serve(&d, DRIVER_HOST);
	driver_enrol(&d);
	driver_does(&invited, NULL, "host", "invite", d.box, NULL);
	driver_does(&said, invited.out, "pair", "-", NULL);
}

/* A run that ends while the disk is full runs by its row, with its sandbox, until there is room
 * again; then it is what it was. */
static void
full_disk_keeps_ends_for_later(void **state)
{
	char path[128], text[1024], code[8];
	const char *const words[] = {"on", d.box, "run:waits", "--wait", NULL};
	struct job job;
	pid_t worker;

	(void)state;
	if (only_root())
		skip();
	disk_make(DRIVER_BOX, "24m");
	pair();
	driver_does(&said, NULL, "settings", "set", "store.tick_ms", "100", NULL);
	snprintf(path, sizeof(path), "%s/program", d.dir);
	snprintf(text, sizeof(text), "echo begun; while [ ! -e %s/site/go ]; do sleep 0.02; done",
	    d.dir);
	put(path, text);
	snprintf(text, sizeof(text),
	    "{\"name\":\"run:waits\",\"summary\":\"wait\",\"interpreter\":\"/bin/sh\","
	    "\"program\":\"%s\",\"reads\":[\"%s/site\"]}",
	    path, d.dir);
	snprintf(path, sizeof(path), "%s/manifest", d.dir);
	put(path, text);
	driver_does(&said, driver_code(&d, code), "op", "add", path, NULL);
	snprintf(path, sizeof(path), "%s/site", d.dir);
	assert_int_equal(mkdir(path, 0755), 0);
	driver_grant(&d, "run:waits", NULL, NULL, "3", "1d");
	driver_start(&job, NULL, words);
	driver_until(&d, DRIVER_BOX, 1,
	    "SELECT count(*) FROM op_output AS o JOIN op_run AS r ON r.id = o.op_run_id"
	    " WHERE r.state = 'running' AND o.frame LIKE '%%begun%%'");
	worker = driver_actor(&d, DRIVER_BOX, "worker");
	disk_fill_log();
	snprintf(path, sizeof(path), "%s/site/go", d.dir);
	put(path, "");
	log_says("the end of a run could not be kept yet");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM live_sandboxes"), 1);
	disk_free(DRIVER_BOX);
	assert_int_equal(driver_finish(&job, &said), 0);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM op_run AS r JOIN program_run AS p"
		" ON p.op_run_id = r.id JOIN sandbox_run AS s ON s.id = p.sandbox_run_id"
		" WHERE r.state = 'done' AND r.exit_code = 0 AND s.state = 'ended'"),
	    1);
	assert_int_equal(driver_actor(&d, DRIVER_BOX, "worker"), worker);
}

/* DK-2: a disk that is full from the start: no state is made by halves; with room it is made. */
static void
full_disk_has_no_birth(void **state)
{
	(void)state;
	if (only_root())
		skip();
	disk_make(DRIVER_BOX, "256k");
	disk_fill(DRIVER_BOX);
	assert_int_not_equal(driver_run(&said, NULL, "serve", NULL), 0);
	assert_non_null(strstr(said.err, "No space left"));
	disk_free(DRIVER_BOX);
	driver_refused(&said, 1, "store.full", NULL, "serve", NULL);
	assert_int_equal(mount("none", d.state[DRIVER_BOX], NULL, MS_REMOUNT, "size=16m"), 0);
	driver_serve(&d, DRIVER_BOX);
	driver_invariants(&d, DRIVER_BOX);
}

/* DK-3: a disk that is read-only. */
static void
readonly_disk_is_said(void **state)
{
	(void)state;
	if (only_root())
		skip();
	disk_make(DRIVER_BOX, "16m");
	driver_serve(&d, DRIVER_BOX);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	assert_int_equal(mount("none", d.state[DRIVER_BOX], NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	driver_refused(&said, 1, "store.readonly", NULL, "serve", NULL);
	driver_refused(&said, 1, "store.readonly", NULL, "factor", "add", "totp", NULL);
	assert_int_equal(mount("none", d.state[DRIVER_BOX], NULL, MS_REMOUNT, NULL), 0);
	driver_serve(&d, DRIVER_BOX);
	driver_invariants(&d, DRIVER_BOX);
}

/* DK-4: a state directory that belongs to another user than the one who serves. */
static void
directory_of_another_is_refused(void **state)
{
	(void)state;
	if (only_root())
		skip();
	driver_serve(&d, DRIVER_BOX);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	assert_int_equal(chown(d.state[DRIVER_BOX], 65534, 65534), 0);
	driver_refused(&said, 3, "store.directory", NULL, "serve", NULL);
	assert_non_null(strstr(said.err, "65534"));
	assert_int_equal(chown(d.state[DRIVER_BOX], 0, 0), 0);
	driver_serve(&d, DRIVER_BOX);
}

/* DK-5: without its key a database is not served, and no new key is made behind its back. */
static void
missing_key_is_said(void **state)
{
	char key[128], away[128];

	(void)state;
	driver_serve(&d, DRIVER_BOX);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	snprintf(key, sizeof(key), "%s/bastion.key", d.state[DRIVER_BOX]);
	snprintf(away, sizeof(away), "%s/key", d.dir);
	assert_int_equal(rename(key, away), 0);
	driver_refused(&said, 3, "key.missing", NULL, "serve", NULL);
	driver_refused(&said, 3, "key.missing", NULL, "factor", "add", "totp", NULL);
	assert_int_equal(access(key, F_OK), -1);
	assert_int_equal(rename(away, key), 0);
	driver_serve(&d, DRIVER_BOX);
}

/* DK-6: the database of a newer bastion is left alone, by the daemon and by every verb. */
static void
newer_database_is_left_alone(void **state)
{
	char command[256];

	(void)state;
	driver_serve(&d, DRIVER_BOX);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	snprintf(command, sizeof(command), "sqlite3 %s/bastion.db 'PRAGMA user_version = 9999'",
	    d.state[DRIVER_BOX]);
	assert_int_equal(system(command), 0);
	driver_refused(&said, 3, "store.newer", NULL, "serve", NULL);
	driver_refused(&said, 3, "store.newer", NULL, "serve", "--migrate", NULL);
	driver_refused(&said, 3, "store.newer", NULL, "status", NULL);
	snprintf(command, sizeof(command), "sqlite3 %s/bastion.db 'PRAGMA user_version = %d'",
	    d.state[DRIVER_BOX], embedded_versions);
	assert_int_equal(system(command), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(full_disk_refuses_and_recovers, make, drop),
	    cmocka_unit_test_setup_teardown(full_disk_keeps_ends_for_later, make, drop),
	    cmocka_unit_test_setup_teardown(full_disk_has_no_birth, make, drop),
	    cmocka_unit_test_setup_teardown(readonly_disk_is_said, make, drop),
	    cmocka_unit_test_setup_teardown(directory_of_another_is_refused, make, drop),
	    cmocka_unit_test_setup_teardown(missing_key_is_said, make, drop),
	    cmocka_unit_test_setup_teardown(newer_database_is_left_alone, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
