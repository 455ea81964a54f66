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
	    cmocka_unit_test_setup_teardown(anothers_key_is_told, make, drop),
	    cmocka_unit_test_setup_teardown(a_broken_database_is_told, make, drop),
	    cmocka_unit_test(nothing_there_is_told),
	    cmocka_unit_test(a_good_day_is_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
