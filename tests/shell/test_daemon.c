/* test_daemon.c: the daemon is begun and ended from a terminal that goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/actor/lock.h"
#include "tests/driver.h"
#include "tests/wire.h"

static struct driver d;
static struct said said;

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
	driver_run(&said, NULL, "stop", NULL);
	driver_run(&said, NULL, "stop", "--host", NULL);
	driver_drop(&d);
	return 0;
}

static mode_t
mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static int
lock_is_free(void)
{
	int dir = open(d.state[DRIVER_BOX], O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	struct refusal r;
	int64_t holder;

	fd = lock_take(dir, "bastion.lock", &holder, &r);
	if (fd >= 0)
		close(fd);
	close(dir);
	return fd >= 0;
}

/* DC-06, DC-07, DC-10, DC-15, DC-18, RF-07: a stop is over when the lock is free, so a start after
 * it has it; without a daemon there is nothing to stop.  DC-13: what was started stays when start
 * has ended, and does its work.  RF-82: after a stop it can be started again, and again. */
static void
a_stop_is_over(void **state)
{
	char control[96], log[96];

	(void)state;
	driver_does(&said, NULL, "stop", NULL);
	assert_string_equal(said.out, "It is not running.\n");
	assert_int_equal(driver_run(&said, NULL, "stop", "oops", NULL), 2);
	assert_int_equal(driver_run(&said, NULL, "start", "oops", NULL), 2);
	driver_does(&said, NULL, "start", NULL);
	assert_non_null(strstr(said.out, "It serves (pid "));
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_BOX]);
	snprintf(log, sizeof(log), "%s.log", d.run[DRIVER_BOX]);
	assert_int_equal(mode_of(control), 0600);
	assert_int_equal(mode_of(d.run[DRIVER_BOX]), 0700);
	assert_int_equal(mode_of(log), 0600);
	assert_false(lock_is_free());
	driver_does(&said, NULL, "start", NULL);
	assert_non_null(strstr(said.out, "It is already running (pid "));
	driver_does(
	    &said, NULL, "session", "run", "--detach", "--name", "s", "--", "sleep", "600", NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) FROM attempt WHERE state = 'running'");
	driver_does(&said, NULL, "stop", NULL);
	assert_string_equal(said.out, "It has ended.\n");
	assert_true(lock_is_free());
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM session WHERE end_reason = 'drain'"),
	    1);
	driver_does(&said, NULL, "restart", NULL);
	driver_does(&said, NULL, "restart", NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT max(epoch) FROM instance"), 3);
}

/* A Host's daemon is begun and ended in the same way, also one that was begun in the foreground,
 * and neither is taken for the machine's. */
static void
a_host_is_begun_and_ended(void **state)
{
	(void)state;
	driver_does(&said, NULL, "start", "--host", NULL);
	assert_non_null(strstr(said.out, "It serves (pid "));
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM live_instance WHERE state = 'ready'"),
	    1);
	driver_does(&said, NULL, "stop", NULL);
	assert_string_equal(said.out, "It is not running.\n");
	driver_does(&said, NULL, "restart", "--host", NULL);
	driver_refused(&said, 1, "instance.running", NULL, "host", "serve", NULL);
	assert_non_null(strstr(said.err, "bastion stop --host"));
	driver_does(&said, NULL, "stop", "--host", NULL);
	assert_string_equal(said.out, "It has ended.\n");
	driver_serve(&d, DRIVER_HOST);
	driver_does(&said, NULL, "stop", "--host", "--json", NULL);
	assert_null(strstr(said.out, "\"pid\":0"));
	driver_end(&d, DRIVER_HOST, 0);
	driver_does(&said, NULL, "stop", "--host", NULL);
	assert_string_equal(said.out, "It is not running.\n");
}

static void
sets_version(int version)
{
	char path[128], sql[64];
	sqlite3 *db;

	snprintf(path, sizeof(path), "%s/bastion.db", d.state[DRIVER_BOX]);
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", version);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, 20000);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

/* After an upgrade the old daemon still serves the old schema: it can be ended, as the advice says
 * that it must be before the state is brought up to date. */
static void
an_older_daemon_is_ended(void **state)
{
	int version;

	(void)state;
	driver_does(&said, NULL, "start", NULL);
	driver_settle(&d, DRIVER_BOX); /* one that begins later would meet the older schema */
	version = (int)driver_value(&d, DRIVER_BOX, "SELECT user_version FROM pragma_user_version");
	sets_version(version - 1);
	driver_refused(&said, 3, "store.older", NULL, "session", NULL);
	driver_refused(&said, 1, "instance.running", NULL, "migrate", "up", NULL);
	assert_non_null(strstr(said.err, "bastion stop"));
	driver_does(&said, NULL, "stop", NULL);
	assert_string_equal(said.out, "It has ended.\n");
	assert_true(lock_is_free());
	sets_version(version);
}

/* The first start of a user makes every place that it needs.  Where a start was cut short before
 * that, what is missed is a database, not the key of one. */
static void
a_first_start_makes_its_places(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/none/state", d.dir);
	setenv("BASTION_STATE", path, 1);
	snprintf(path, sizeof(path), "%s/none/run/bastion", d.dir);
	setenv("BASTION_RUN", path, 1);
	driver_refused(&said, 3, "store.missing", NULL, "worker", "add", "w", "--", "true", NULL);
	snprintf(path, sizeof(path), "%s/none", d.dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/none/state", d.dir);
	assert_int_equal(mkdir(path, 0700), 0);
	driver_refused(&said, 3, "store.missing", NULL, "worker", "add", "w", "--", "true", NULL);
	driver_does(&said, NULL, "start", NULL);
	driver_does(&said, NULL, "worker", "add", "w", "--", "true", NULL);
	driver_does(&said, NULL, "stop", NULL);
}

/* DC-21: two that start at the same moment are one daemon, and neither is an error. */
static void
two_starts_are_one(void **state)
{
	static const char *const words[] = {"start", NULL};
	struct job one, two;
	int serves;

	(void)state;
	driver_start(&one, NULL, words);
	driver_start(&two, NULL, words);
	assert_int_equal(driver_finish(&one, &said), 0);
	serves = strstr(said.out, "It serves") != NULL;
	assert_int_equal(driver_finish(&two, &said), 0);
	serves += strstr(said.out, "It serves") != NULL;
	assert_int_equal(serves, 1);
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM live_instance WHERE state = 'ready'"),
	    1);
	/* DC-22: one in the foreground is refused by name. */
	driver_refused(&said, 1, "instance.running", NULL, "serve", NULL);
	assert_non_null(strstr(said.err, "already serves"));
}

/* RF-76: a state that cannot be read is not an empty one: nothing is made in its place, and nobody
 * says that nothing runs there. */
static void
damaged_stays(void)
{
	static const char noise[] = "no database any more";
	char path[160], now[sizeof(noise)] = "";
	struct stat before, after;
	int fd;

	snprintf(path, sizeof(path), "%s/bastion.db", d.state[DRIVER_BOX]);
	assert_true((fd = open(path, O_RDWR | O_CLOEXEC)) != -1);
	assert_int_equal(pread(fd, now, sizeof(now), 0), sizeof(now));
	assert_int_equal(pwrite(fd, noise, sizeof(noise), 0), sizeof(noise));
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_not_equal(driver_run(&said, NULL, "start", NULL), 0);
	driver_refused(&said, 1, "store.corrupt", NULL, "status", NULL);
	driver_refused(&said, 1, "store.corrupt", NULL, "stop", NULL);
	assert_int_equal(stat(path, &after), 0);
	assert_true(after.st_ino == before.st_ino && after.st_size == before.st_size);
	assert_int_equal(pwrite(fd, now, sizeof(now), 0), sizeof(now));
	close(fd);
}

/* DC-12, RF-04: what does not get as far as serving is ended, and says where it said why. */
static void
a_start_that_fails_leaves_nothing(void **state)
{
	char key[96], aside[96];

	(void)state;
	driver_does(&said, NULL, "start", NULL);
	driver_does(&said, NULL, "stop", NULL);
	snprintf(key, sizeof(key), "%s/bastion.key", d.state[DRIVER_BOX]);
	snprintf(aside, sizeof(aside), "%s/key", d.dir);
	assert_int_equal(rename(key, aside), 0);
	driver_refused(&said, 1, "instance.start", NULL, "start", NULL);
	assert_non_null(strstr(said.err, "box-run.log"));
	assert_true(lock_is_free());
	assert_int_equal(rename(aside, key), 0);
	damaged_stays();
	driver_does(&said, NULL, "start", NULL);
}

/* The inode of ${name} in the box's state. */
static ino_t
inode_of(const char *name)
{
	char path[160];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", d.state[DRIVER_BOX], name);
	assert_int_equal(lstat(path, &st), 0);
	return st.st_ino;
}

/*
 * RF-69, RF-73, RF-86, RF-87, RF-88, RF-92: through starts, kills and a restore that swaps the
 * database, the lock is one file, never moved, copied, put back or taken over; and it is not the
 * database.
 */
static void
the_lock_is_one_file(void **state)
{
	char copy[96];
	ino_t lock, database;
	struct dirent *entry;
	int locks = 0;
	DIR *dir;

	(void)state;
	driver_serve(&d, DRIVER_BOX);
	lock = inode_of("bastion.lock");
	assert_true(lock != inode_of("bastion.db"));
	driver_end(&d, DRIVER_BOX, SIGKILL);
	driver_does(&said, NULL, "start", NULL);
	driver_does(&said, NULL, "stop", NULL);
	assert_int_equal(inode_of("bastion.lock"), lock);
	database = inode_of("bastion.db");
	snprintf(copy, sizeof(copy), "%s/copy.db", d.dir);
	driver_does(&said, NULL, "backup", copy, NULL);
	driver_does(&said, NULL, "restore", copy, NULL);
	assert_true(inode_of("bastion.db") != database);
	assert_int_equal(inode_of("bastion.lock"), lock);
	driver_does(&said, NULL, "start", NULL);
	assert_non_null(dir = opendir(d.state[DRIVER_BOX]));
	while ((entry = readdir(dir)) != NULL)
		locks += strstr(entry->d_name, "lock") != NULL;
	closedir(dir);
	assert_int_equal(locks, 1);
	assert_false(lock_is_free());
}

/* Whether somebody listens on the port of 127.0.0.1. */
static bool
listens(int port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	    .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	rc = connect(fd, (const struct sockaddr *)&sin, sizeof(sin));
	close(fd);
	return rc == 0;
}

/*
 * DC-23, RF-8: without the lock of its state, or its socket, a daemon ends with what is wrong,
 * before a port is opened, and never said that it serves (RF-9: it is heard when it says so).
 * DC-17: numbers are numbers.  RF-72: which lock that is follows from the state alone, wherever
 * sockets and temporary files are.
 */
static void
no_port_without_the_lock(void **state)
{
	int dir, fd, sock, port = driver_port();
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	static struct wire_answer answer;
	char place[64], other[96];
	struct refusal r;
	int64_t holder;

	(void)state;
	driver_does(&said, NULL, "start", NULL);
	snprintf(place, sizeof(place), "127.0.0.1:%d", port);
	driver_does(&said, NULL, "remote", "listen", place, NULL);
	driver_does(&said, NULL, "stop", NULL);
	assert_int_equal(driver_run(&said, NULL, "remote", "listen", "127.0.0.1:abc", NULL), 2);
	assert_int_equal(driver_run(&said, NULL, "remote", "listen", "127.0.0.1:70000", NULL), 2);
	assert_int_equal(
	    driver_run(&said, NULL, "settings", "set", "remote.connections", "abc", NULL), 2);
	assert_int_equal(
	    driver_run(&said, NULL, "settings", "set", "remote.connections", "1.9", NULL), 2);
	driver_does(&said, NULL, "settings", "set", "remote.connections", "5", NULL);
	assert_false(listens(port));

	assert_true((dir = open(d.state[DRIVER_BOX], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) != -1);
	assert_true((fd = lock_take(dir, "bastion.lock", &holder, &r)) >= 0);
	snprintf(other, sizeof(other), "%s/other", d.dir);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(setenv("BASTION_RUN", other, 1), 0);
	assert_int_equal(setenv("TMPDIR", other, 1), 0);
	driver_refused(&said, 1, "instance.running", NULL, "serve", NULL);
	assert_false(listens(port));
	assert_int_equal(setenv("BASTION_RUN", d.run[DRIVER_BOX], 1), 0);
	assert_int_equal(unsetenv("TMPDIR"), 0);
	close(fd);
	close(dir);

	/* Its socket is another program's, which is heard there. */
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/control.sock", d.run[DRIVER_BOX]);
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(sock, (const struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(chmod(sun.sun_path, 0600), 0);
	assert_int_equal(listen(sock, 4), 0);
	assert_int_equal(driver_run(&said, NULL, "serve", NULL), 3);
	assert_non_null(strstr(said.err, "[socket.taken]"));
	assert_int_not_equal(driver_run(&said, NULL, "start", NULL), 0);
	assert_string_equal(said.out, "");
	assert_false(listens(port));
	close(sock);
	assert_int_equal(unlink(sun.sun_path), 0);
	driver_does(&said, NULL, "start", NULL);
	assert_int_equal(wire_ask(sun.sun_path, "GET", "/v1/status", "", NULL, 0, &answer), 200);
	while (!listens(port))
		driver_pause();
	driver_run(&said, NULL, "doctor", NULL);
	strcat(place, " takes connections\n");
	if (strstr(said.out, place) == NULL)
		fail_msg("no \"%s\" in: %s%s", place, said.out, said.err);
}

/* 500 connections that say nothing. */
static int silent[500];

static void
say_nothing(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	size_t i;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/control.sock", d.run[DRIVER_BOX]);
	for (i = 0; i < 500; i++) {
		silent[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(silent[i], (const struct sockaddr *)&sun, sizeof(sun)), 0);
	}
}

/*
 * SV-11: 500 connections that say nothing keep nobody from an answer, are no more than the cap, and
 * go at their deadline.  SV-05: and those that are open then hold up no end.
 */
static void
silence_is_borne(void **state)
{
	static struct wire_answer answer;
	char control[128], byte;
	int64_t began;
	size_t i;

	(void)state;
	driver_does(&said, NULL, "start", NULL);
	snprintf(control, sizeof(control), "%s/control.sock", d.run[DRIVER_BOX]);
	say_nothing();
	assert_int_equal(wire_ask(control, "GET", "/v1/status", "", NULL, 0, &answer), 200);
	began = driver_now();
	driver_does(&said, NULL, "stop", NULL);
	assert_true(
	    driver_now() - began < driver_value(&d, DRIVER_BOX,
				       "SELECT value FROM setting WHERE name = 'actor.drain_ms'"));
	for (i = 0; i < 500; i++)
		close(silent[i]);

	driver_does(&said, NULL, "settings", "set", "http.idle_ms", "1500", NULL);
	driver_does(&said, NULL, "start", NULL);
	say_nothing();
	assert_int_equal(wire_ask(control, "GET", "/v1/status", "", NULL, 0, &answer), 200);
	for (i = 0; i < 500; i++) {
		assert_int_equal(recv(silent[i], &byte, 1, 0), 0); /* waits for the close */
		close(silent[i]);
	}
	assert_int_equal(wire_ask(control, "GET", "/v1/status", "", NULL, 0, &answer), 200);
}

/* RF-17: who accepts and is silent wedges nobody: not who asks whether it runs, nor who ends it. */
static void
a_silent_daemon_wedges_nobody(void **state)
{
	pid_t net;

	(void)state;
	driver_does(&said, NULL, "start", NULL);
	driver_does(&said, NULL, "settings", "set", "actor.drain_ms", "500", NULL);
	assert_true((net = driver_actor(&d, DRIVER_BOX, "net")) > 1);
	assert_int_equal(kill(net, SIGSTOP), 0);
	driver_does(&said, NULL, "status", NULL);
	driver_does(&said, NULL, "start", NULL);
	assert_non_null(strstr(said.out, "It is already running"));
	assert_int_equal(driver_run(&said, NULL, "doctor", NULL), 1);
	assert_non_null(strstr(said.out, "bad   socket "));
	driver_does(&said, NULL, "stop", NULL);
	assert_true(lock_is_free());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_stop_is_over, make, drop),
	    cmocka_unit_test_setup_teardown(a_host_is_begun_and_ended, make, drop),
	    cmocka_unit_test_setup_teardown(an_older_daemon_is_ended, make, drop),
	    cmocka_unit_test_setup_teardown(a_first_start_makes_its_places, make, drop),
	    cmocka_unit_test_setup_teardown(two_starts_are_one, make, drop),
	    cmocka_unit_test_setup_teardown(a_start_that_fails_leaves_nothing, make, drop),
	    cmocka_unit_test_setup_teardown(the_lock_is_one_file, make, drop),
	    cmocka_unit_test_setup_teardown(no_port_without_the_lock, make, drop),
	    cmocka_unit_test_setup_teardown(silence_is_borne, make, drop),
	    cmocka_unit_test_setup_teardown(a_silent_daemon_wedges_nobody, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
