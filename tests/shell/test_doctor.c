/* test_doctor.c: what is wrong is said, with what to do about it; what is right is no complaint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/clock.h"
#include "tests/driver.h"
#include "tests/program.h"
#include "tests/scratch.h"

static struct scratch s;

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
	static struct said said;

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
	static struct said said;
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

	(void)state;
	home_path(&s.home, "bastion.key", path);
	assert_non_null(f = fopen(path, "r+"));
	assert_int_equal(fputc('!', f), '!');
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
	static struct said said;

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
	static struct said said;

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(what_is_there_is_looked_at, make, drop),
	    cmocka_unit_test_setup_teardown(what_does_not_work_is_told, make, drop),
	    cmocka_unit_test_setup_teardown(anothers_key_is_told, make, drop),
	    cmocka_unit_test_setup_teardown(a_broken_database_is_told, make, drop),
	    cmocka_unit_test(nothing_there_is_told),
	    cmocka_unit_test(a_good_day_is_good),
	    cmocka_unit_test(a_failed_time_is_told),
	    cmocka_unit_test(an_open_socket_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
