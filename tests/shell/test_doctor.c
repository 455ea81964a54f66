/* test_doctor.c: what is wrong is said, with what to do about it; what is right is no complaint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/clock.h"
#include "tests/driver.h"
#include "tests/program.h"
#include "tests/scratch.h"

static struct scratch s;
static struct said said; /* of the tests that have a daemon */

static int
make(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

/* The doctor of the scratch state ends with ${code} and says ${line}. */
static void
says(int code, const char *line)
{
	const char *const words[] = {"doctor", "--deep", NULL};
	struct program p;

	program_run(&p, &s, NULL, words);
	if (p.code != code || strstr(p.out, line) == NULL)
		fprintf(stderr, "%s%s", p.out, p.err);
	assert_int_equal(p.code, code);
	assert_non_null(strstr(p.out, line));
	program_free(&p);
}

static void
quiet_of(const char *word)
{
	const char *const words[] = {"doctor", NULL};
	struct program p;

	program_run(&p, &s, NULL, words);
	assert_null(strstr(p.out, word));
	program_free(&p);
}

/* Too few descriptors for what a setting allows, that of the process that needs the most. */
static void
descriptors_are_counted(void **state)
{
	struct rlimit before, few = {.rlim_cur = 600, .rlim_max = 600};

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	says(1,
	    "warn  descriptors  a process may have 600, and the connections allowed want 23128\n");
	says(1, " or lower the setting egress.connections\n");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 100 WHERE name IN"
			    " ('egress.connections', 'egress.live', 'egress.live_each')"),
	    0);
	says(1, "ok    descriptors  a process may have 600\n");
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 900 WHERE name = 'http.connections'"), 0);
	says(1, " or lower the setting http.connections\n");
	/* (Who may not raise it again has enough for the other tests.) */
	setrlimit(RLIMIT_NOFILE, &before);
}

/* A state without a daemon: that is bad, and what there is besides is looked at. */
static void
what_is_there_is_looked_at(void **state)
{
	(void)state;
	says(1, "bad   daemon       it does not run\n");
	says(1, "ok    pages        every page of the database is sound\n");
	says(1, "ok    key          this machine's\n");
	says(1, "warn  approving    no factor is enrolled");
	scratch_pair(&s);
	scratch_endpoint(&s, 1, 1, "no endpoint", 11);
	says(1, "warn  pairings     laptop is not served: its endpoint 1 is not a host:port\n");
}

static void __attribute__((format(printf, 1, 2))) sql(const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (scratch_sql(&s, text) != 0)
		fail_msg("%s: %s", text, s.error);
}

/* Whoever reads on and on keeps the log from being taken back: it grows, and that is told. */
static void
a_log_that_grows_is_told(void **state)
{
	char log[sizeof(s.home.state) + sizeof("/bastion.db-wal")];

	(void)state;
	snprintf(log, sizeof(log), "%s/bastion.db-wal", s.home.state);
	sql("UPDATE setting SET value = 61 WHERE name = 'op.live'");
	assert_int_equal(truncate(log, 67108864), 0); /* behind what was written stands nothing */
	quiet_of("  log  ");
	assert_int_equal(truncate(log, 67108864 + 1048576), 0);
	says(1,
	    "warn  log          the log of the database has grown to 65 MiB: a reader keeps it\n");
	says(1, "bastion sql .who; continue that process, or end it\n");
}

/* A program that a worker names and nobody has; a schedule that is late, one that failed; a port at
 * which nobody answers; an authority that ran out. */
static void
what_does_not_work_is_told(void **state)
{
	(void)state;
	sql("INSERT INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES (1, '00000000-0000-0000-0000-000000000000', 4711, 1, 0, 'bastion', now_ms());"
	    "INSERT INTO instance (id, epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (1, 1, 'box', 1, 'test', '/run/bastion', now_ms());"
	    "UPDATE instance SET state = 'ready', ready_at = now_ms();"
	    "INSERT INTO worker (name, argv, max_attempts, by_uid, added_at)"
	    " VALUES ('gone', '[\"no-such-program\"]', 1, 0, now_ms()),"
	    "  ('there', '[\"sh\",\"-c\"]', 1, 0, now_ms()), ('far', '[\"/no/such\"]', 1, 0, now_ms());"
	    "INSERT INTO schedule (name, every_ms, zone, missed, argv, cwd, by_uid, added_at, start_at, seen_at, next_at)"
	    " SELECT 'tick', 3600000, 'UTC', 'run', '[\"true\"]', '/', 0, now_ms(), now_ms() + 60000, now_ms(),"
	    "   now_ms() + 60000;"
	    "INSERT INTO listen VALUES ('lane', '127.0.0.1', %d, now_ms());"
	    "INSERT INTO tls_authority (id, cert, fp, key, not_after, made_at)"
	    " VALUES (1, x'00', sha256(x'00'), zeroblob(64), now_ms() - 3 * 86400000, now_ms())",
	    driver_port());
	says(1, "warn  workers      gone: there is no program no-such-program\n");
	says(1, "warn  workers      far: there is no program /no/such\n");
	says(1, "ok    schedules    1 begin by themselves, the next in ");
	says(1, "Connection refused\n");
	says(1, "bad   certificates the authority of this machine ran out 3 days ago\n");
	clock_fix(clock_now() - 7200000);
	sql("INSERT INTO schedule (name, every_ms, zone, missed, argv, cwd, by_uid, added_at, start_at, seen_at, next_at)"
	    " SELECT 'late', 3600000, 'UTC', 'run', '[\"true\"]', '/', 0, now_ms(), now_ms(), now_ms(), now_ms()");
	clock_fix(-1);
	says(1, "bad   schedules    late is due since 720");
	sql("UPDATE instance SET state = 'draining', draining_at = now_ms();"
	    "UPDATE instance SET state = 'ended', ended_at = now_ms(), end_reason = 'test'");
}

/* What a schedule began, and failed, is told with where to look. */
static void
a_failed_time_is_told(void **state)
{
	static struct driver d;

	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "schedule", "add", "tick", "--every", "1s", "--", "false", NULL);
	driver_until(&d, DRIVER_BOX, 1, "SELECT count(*) > 0 FROM firing WHERE state = 'failed'");
	driver_run(&said, NULL, "doctor", NULL);
	assert_non_null(strstr(said.out, "schedules    tick: the last time "));
	driver_does(&said, NULL, "schedule", "rm", "tick", NULL);
	driver_drop(&d);
}

/* A socket that others may open is one that they may speak at. */
static void
an_open_socket_is_told(void **state)
{
	static struct driver d;
	char path[128];

	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	snprintf(path, sizeof(path), "%s/control.sock", d.run[DRIVER_BOX]);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(driver_run(&said, NULL, "doctor", NULL), 1);
	assert_non_null(
	    strstr(said.out, "control.sock is not a socket of its owner alone (mode 0666"));
	driver_drop(&d);
}

/* A key of another machine is told before anything is sealed with it. */
static void
anothers_key_is_told(void **state)
{
	char path[PATH_MAX];
	FILE *f;
	int first;

	(void)state;
	home_path(&s.home, "bastion.key", path);
	assert_non_null(f = fopen(path, "r+"));
	assert_int_not_equal(first = fgetc(f), EOF);
	rewind(f);
	assert_int_equal(fputc(first ^ 1, f), first ^ 1);
	fclose(f);
	says(1, "bad   key          it is another machine's than the database\n");
	assert_int_equal(chmod(path, 0644), 0);
	says(1, "[key.open]");
	assert_int_equal(unlink(path), 0);
	says(1, "[key.missing]");
}

/* Pages that nobody can read any more. */
static void
a_broken_database_is_told(void **state)
{
	char path[PATH_MAX], page[4096], zeros[4096] = "";
	long at;
	FILE *f;

	(void)state;
	at = 4096 * (long)(scratch_value(&s, "SELECT rootpage FROM sqlite_schema"
					     " WHERE name = 'op_run_live'") -
			   1);
	store_close(s.db); /* the last one: the log goes into the file */
	s.db = NULL;
	home_path(&s.home, "bastion.db", path);
	assert_non_null(f = fopen(path, "r+"));
	assert_int_equal(fseek(f, at, SEEK_SET), 0);
	assert_int_equal(fread(page, sizeof(page), 1, f), 1);
	assert_int_equal(fseek(f, at, SEEK_SET), 0);
	assert_int_equal(fwrite(zeros, sizeof(zeros), 1, f), 1);
	assert_int_equal(fflush(f), 0);
	says(1, "bad   pages        ");
	assert_int_equal(fseek(f, at, SEEK_SET), 0);
	assert_int_equal(fwrite(page, sizeof(page), 1, f), 1);
	fclose(f);
}

/* No state: said as such, and the machine itself is looked at all the same. */
static void
nothing_there_is_told(void **state)
{
	static struct driver d;

	(void)state;
	driver_make(&d);
	assert_int_equal(driver_run(&said, NULL, "doctor", NULL), 1);
	assert_non_null(strstr(said.out, "[store.missing]\n"));
	assert_non_null(strstr(said.out, "start bastion serve"));
	assert_non_null(strstr(said.out, " descriptors "));
	driver_drop(&d);
}

/* A day without fault: every line is ok or a warning, the socket answers, the code is 0. */
static void
a_good_day_is_good(void **state)
{
	static struct driver d;

	(void)state;
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "doctor", "--deep", NULL);
	assert_non_null(strstr(said.out, "ok    daemon       ready, pid "));
	assert_non_null(strstr(said.out, "control.sock answers\n"));
	assert_null(strstr(said.out, "bad "));
	driver_does(&said, NULL, "doctor", "--json", NULL);
	assert_non_null(
	    strstr(said.out, "{\"check\":\"daemon\",\"level\":\"ok\",\"what\":\"ready, pid "));
	driver_end(&d, DRIVER_BOX, SIGKILL);
	assert_int_equal(driver_run(&said, NULL, "doctor", NULL), 1);
	assert_non_null(strstr(said.out, "bad   daemon       the last one died without a word\n"));
	driver_drop(&d);
}

/* Write ${text} to ${name} in the home ${home}. */
static void
put(const char *home, const char *name, const char *text)
{
	char path[192];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", home, name);
	assert_non_null(f = fopen(path, "we"));
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* This process sees a machine with one account, ours, which lives in ${home}. */
static void
move_home(const char *home)
{
	char text[256], path[192];

	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mkdir(home, 0700), 0);
	snprintf(path, sizeof(path), "%s/.cursor", home);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(text, sizeof(text), "root:x:%u:0::%s:/bin/sh\n", (unsigned)getuid(), home);
	put(home, "passwd", text);
	snprintf(path, sizeof(path), "%s/passwd", home);
	assert_int_equal(mount(path, "/etc/passwd", NULL, MS_BIND, NULL), 0);
}

static void
lacks(const char *text)
{
	if (strstr(said.out, text) != NULL || strstr(said.err, text) != NULL)
		fail_msg("\"%s\" is in: %s%s", text, said.out, said.err);
}

static void
has(const char *text)
{
	if (strstr(said.out, text) == NULL)
		fail_msg("\"%s\" is not in: %s%s", text, said.out, said.err);
}

/*
 * BD-1, BD-2: a declared tool server that cannot work is bad, with what to do and without a secret.
 * BD-4: those that can are counted, and neither started nor asked.  BD-6, BD-7: none at all is
 * right, one that is switched off is a warning.  BD-8: nor is a secret shown that is a name.  BD-3,
 * BD-9: help, and a word too many.
 */
static void
declared_tools_are_read_alone(void **state)
{
	static struct driver d;
	char home[96], text[1024], sentinel[128];
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int port = driver_port(), fd;

	(void)state;
	driver_make(&d);
	snprintf(home, sizeof(home), "%s/home", d.dir);
	move_home(home);
	driver_serve(&d, DRIVER_BOX);
	driver_does(&said, NULL, "doctor", NULL);
	has("ok    tools        no tool server in use is declared\n");

	put(home, ".cursor/mcp.json",
	    "{\"mcpServers\":{\"remote\":{\"type\":\"http\",\"url\":\"https://a.example/?k=SECRET-1\"},"
	    "\"broken\":{\"type\":\"http\",\"headers\":{\"Authorization\":\"Bearer SECRET-2\"}},"
	    "\"ghp_SECRET3\":{\"args\":[\"SECRET-4\"]}}}");
	put(home, ".claude.json", "{\"mcpServers\": SECRET-5");
	assert_int_equal(driver_run(&said, NULL, "doctor", NULL), 1);
	has("bad   tools        cursor declares the tool server broken with neither a program nor an"
	    " address\n");
	has("give broken a command or an address in the settings of cursor, or take it out\n");
	has("bad   tools        cursor declares the tool server *** with neither");
	has("warn  tools        1 files in which clients declare tool servers could not be read\n");
	has("ok    tools        1 declared tool servers can be used as they are\n");
	lacks("SECRET");
	assert_int_equal(driver_run(&said, NULL, "doctor", "--json", NULL), 1);
	has("{\"check\":\"tools\",\"level\":\"bad\",\"what\":\"cursor declares the tool server broken");
	lacks("SECRET");

	sin.sin_port = htons((uint16_t)port);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 8), 0);
	snprintf(sentinel, sizeof(sentinel), "%s/started", home);
	snprintf(text, sizeof(text),
	    "{\"mcpServers\":{\"web\":{\"url\":\"http://127.0.0.1:%d/mcp\"},"
	    "\"local\":{\"command\":\"touch\",\"args\":[\"%s\"]}}}",
	    port, sentinel);
	put(home, ".cursor/mcp.json", text);
	put(home, ".claude.json", "{}");
	driver_does(&said, NULL, "doctor", NULL);
	has("ok    tools        2 declared tool servers can be used as they are\n");
	assert_int_equal(access(sentinel, F_OK), -1);
	assert_int_equal(accept4(fd, NULL, NULL, SOCK_CLOEXEC), -1);
	assert_int_equal(errno, EAGAIN);
	close(fd);

	put(home, ".cursor/mcp.json",
	    "{\"mcpServers\":{\"resting\":{\"command\":\"true\",\"disabled\":true}}}");
	driver_does(&said, NULL, "doctor", NULL);
	has("warn  tools        cursor declares the tool server resting, switched off\n");
	lacks("bad ");

	driver_does(&said, NULL, "doctor", "--help", NULL);
	has("usage: bastion doctor");
	has("--json");
	assert_int_equal(driver_run(&said, NULL, "doctor", "extra", NULL), 2);
	driver_drop(&d);
	assert_int_equal(umount2("/etc/passwd", MNT_DETACH), 0);
}

/* SQLite is a part of the program: an update of the machine's is told as one that it lacks. */
static void
what_is_built_in_is_told(void **state)
{
	static struct driver d;
	Dl_info library;
	char newer[192];

	(void)state;
	driver_make(&d);
	driver_run(&said, NULL, "doctor", NULL);
	has("ok    built in     SQLite ");
	assert_int_not_equal(dladdr((void *)sqlite3_libversion, &library), 0);
	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	put(d.dir, "newer", "");
	snprintf(newer, sizeof(newer), "%s/newer", d.dir);
	assert_int_equal(mount(newer, library.dli_fname, NULL, MS_BIND, NULL), 0);
	driver_run(&said, NULL, "doctor", NULL);
	has("warn  built in     libsqlite3.so.0 was updated on this machine after bastion was installed\n");
	has("build and install bastion again\n");
	lacks("ok    built in");
	assert_int_equal(umount(library.dli_fname), 0);
	driver_drop(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(descriptors_are_counted, make, drop),
	    cmocka_unit_test_setup_teardown(what_is_there_is_looked_at, make, drop),
	    cmocka_unit_test_setup_teardown(a_log_that_grows_is_told, make, drop),
	    cmocka_unit_test_setup_teardown(what_does_not_work_is_told, make, drop),
	    cmocka_unit_test_setup_teardown(anothers_key_is_told, make, drop),
	    cmocka_unit_test_setup_teardown(a_broken_database_is_told, make, drop),
	    cmocka_unit_test(nothing_there_is_told),
	    cmocka_unit_test(a_good_day_is_good),
	    cmocka_unit_test(a_failed_time_is_told),
	    cmocka_unit_test(an_open_socket_is_told),
	    cmocka_unit_test(declared_tools_are_read_alone),
	    cmocka_unit_test(what_is_built_in_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
