/* test_ops.c: a person adds an op, a Host asks for it: looked at, applied, held, taken back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/driver.h"

static struct driver d;
static struct said said;
static char site[96], notes[96], program[96], manifest[96];

static void
says(const char *text)
{
	if (strstr(said.out, text) == NULL)
		fail_msg("does not say %s: %s%s", text, said.out, said.err);
}

static void
put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void
has(const char *name, const char *text)
{
	char path[160], is[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", site, name);
	assert_non_null(f = fopen(path, "r"));
	assert_true(fgets(is, sizeof(is), f) != NULL);
	fclose(f);
	assert_string_equal(is, text);
}

static void
add(const char *name, const char *members)
{
	char text[2048], code[8];

	snprintf(text, sizeof(text), "{\"name\":\"%s\",\"summary\":\"try it\",%s}", name, members);
	put(manifest, text);
	driver_does(&said, driver_code(&d, code), "op", "add", manifest, NULL);
}

/* The whole walk: added, asked for, approved, looked at, applied; and every word it says. */
static void
a_program_is_looked_at_and_applied(void **state)
{
	char members[1024];

	(void)state;
	put(program, "echo \"building $1\"\ncat \"$2\" >page\nrm old\necho new >new\n"
		     "[ \"$1\" = two ] && exit 7\nexit 0\n");
	snprintf(members, sizeof(members),
	    "\"interpreter\":\"/bin/sh\",\"program\":\"%s\",\"reads\":[\"%s\"],\"writes\":[\"%s\"],"
	    "\"params\":[{\"name\":\"branch\",\"type\":\"string\",\"max\":8,\"doc\":\"what\"},"
	    "{\"name\":\"notes\",\"type\":\"string\",\"like\":\"/**\",\"doc\":\"from where\"}]",
	    program, notes, site);
	add("run:site", members);
	says("Added.");
	driver_does(&said, NULL, "op", "ls", "--json", NULL);
	says("\"holds\":\"yes\"");
	/* What it takes is said before a person is asked. */
	driver_refused(&said, 2, "op.args", NULL, "on", d.box, "--", "run:site", "-x", notes, NULL);
	driver_refused(&said, 2, "op.args", NULL, "on", d.box, "run:site", "one", NULL);
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "run:site", "one", notes,
	    "--uses", "9", "--for", "1d", "--bounds", "{\"branch\":{\"in\":[\"one\",\"two\"]}}",
	    NULL);
	driver_approve(&d, driver_question(&d));
	driver_does(
	    &said, NULL, "on", d.box, "run:site", "one", notes, "--dry-run", "--json", NULL);
	says("building one");
	says("\"dry\":true");
	says("\"change\":\"deleted\"");
	says("\"applied\":0");
	has("old", "old\n");
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use"), 0);
	driver_does(&said, NULL, "on", d.box, "run:site", "one", notes, "--json", NULL);
	says("\"applied\":3");
	has("page", "a note\n");
	has("new", "new\n");
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM sandbox_run AS s JOIN program_run AS p"
		" ON p.sandbox_run_id = s.id WHERE s.applied = 3 AND s.state = 'ended'"),
	    1);
}

/* What ends with another code than 0 is half done: nothing of it is kept. */
static void
what_fails_is_not_applied(void **state)
{
	char path[160];

	(void)state;
	snprintf(path, sizeof(path), "%s/new", site);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/old", site);
	put(path, "old\n");
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "run:site", "two", notes, "--json", NULL), 7);
	says("\"applied\":0");
	has("old", "old\n");
	snprintf(path, sizeof(path), "%s/new", site);
	assert_int_equal(access(path, F_OK), -1);
	driver_refused(
	    &said, 126, "grant.args", NULL, "on", d.box, "run:site", "three", notes, NULL);
}

/* The policy of the machine is asked about every path, before anything starts. */
static void
the_policy_holds_a_program(void **state)
{
	(void)state;
	driver_does(&said, NULL, "sandbox", "policy", "add", "deny_write", site, NULL);
	assert_int_equal(driver_run(&said, NULL, "on", d.box, "run:site", "one", notes, "--dry-run",
			     "--json", NULL),
	    126);
	says("policy.held");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) FROM decision_made WHERE tool = 'run.site'"
			     " AND action = 'deny' AND gate = 'paths'"),
	    1);
	driver_does(&said, NULL, "sandbox", "policy", "remove", "deny_write", site, NULL);
	driver_does(
	    &said, NULL, "on", d.box, "run:site", "one", notes, "--dry-run", "--json", NULL);
}

/* SEAL-1: a program, or a row, that is not what was signed runs nothing. */
static void
only_what_was_signed_runs(void **state)
{
	char was[256];
	FILE *f;

	(void)state;
	assert_non_null(f = fopen(program, "r"));
	was[fread(was, 1, sizeof(was) - 1, f)] = '\0';
	fclose(f);
	put(program, "touch evil\n");
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, "run:site", "one", notes, "--json", NULL), 126);
	says("manifest.changed");
	put(program, was);
}

static int
begin(void **state)
{
	char path[160];

	(void)state;
	driver_make(&d);
	driver_first_day(&d);
	snprintf(site, sizeof(site), "%s/site", d.dir);
	snprintf(notes, sizeof(notes), "%s/notes", d.dir);
	snprintf(program, sizeof(program), "%s/program", d.dir);
	snprintf(manifest, sizeof(manifest), "%s/manifest", d.dir);
	assert_int_equal(mkdir(site, 0755), 0);
	snprintf(path, sizeof(path), "%s/old", site);
	put(path, "old\n");
	put(notes, "a note\n");
	return 0;
}

static int
end(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_program_is_looked_at_and_applied),
	    cmocka_unit_test(what_fails_is_not_applied),
	    cmocka_unit_test(the_policy_holds_a_program),
	    cmocka_unit_test(only_what_was_signed_runs),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
