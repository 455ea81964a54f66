/* test_disk.c: a disk that is full, read-only or somebody else's; a key that is gone; a newer file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
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
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/filler", d.state[side]);
	assert_true((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) != -1);
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
	    cmocka_unit_test_setup_teardown(full_disk_has_no_birth, make, drop),
	    cmocka_unit_test_setup_teardown(readonly_disk_is_said, make, drop),
	    cmocka_unit_test_setup_teardown(directory_of_another_is_refused, make, drop),
	    cmocka_unit_test_setup_teardown(missing_key_is_said, make, drop),
	    cmocka_unit_test_setup_teardown(newer_database_is_left_alone, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
