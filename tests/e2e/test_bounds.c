/* test_bounds.c: a Host asks for a grant with bounds, uses it, is held by it and gives it back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/driver.h"

#define OP     "observe:packages"
#define BOUNDS "{\"prefix\":{\"prefix\":\"lib\"},\"_rate\":{\"max\":2,\"per_ms\":86400000}}"

static struct driver d;
static struct said said;

static const char *
number(int64_t n)
{
	static char text[24];

	snprintf(text, sizeof(text), "%" PRId64, n);
	return text;
}

static void
says(const char *text)
{
	if (strstr(said.out, text) == NULL)
		fail_msg("does not say %s: %s%s", text, said.out, said.err);
}

/* ENF-1: the whole walk; what the rate holds ends with 75 and the time, and is no use. */
static void
a_grant_with_bounds_serves(void **state)
{
	(void)state;
	driver_refused(&said, 2, "grant.bounds", NULL, "on", d.box, OP, "libc6", "--bounds",
	    "{\"prefix\":{\"prefix\":\"bash\"}}", NULL);
	driver_refused(&said, 2, "grant.bounds", NULL, "on", d.box, OP, "libc6", "--bounds",
	    "{\"packet\":{\"prefix\":\"lib\"}}", NULL);
	assert_non_null(
	    strstr(said.err, "bounds name \"packet\"; the parameters of this op are prefix"));
	assert_non_null(strstr(said.err, "bastion help on"));
	/* What is no object is found in the option, before anything is asked. */
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, OP, "libc6", "--bounds", "{", NULL), 2);
	assert_non_null(strstr(
	    said.err, "--bounds is no JSON object: a string is missing at byte 1 [usage.wrong]"));
	assert_int_equal(driver_run(&said, NULL, "on", d.box, OP, "libc6", "--bounds",
			     "{\"prefix\":{\"prefix\":\"lib\"}},\"anew\":true", NULL),
	    2);
	assert_non_null(strstr(said.err, "--bounds is no JSON object: "));
	assert_int_equal(
	    driver_run(&said, NULL, "on", d.box, OP, "libc6", "--bounds=[1]", NULL), 2);
	assert_non_null(strstr(said.err, "--bounds is no JSON object: a { is missing at byte 0"));
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, OP, "libc6", "--bounds",
	    BOUNDS, "--uses", "10", "--for", "3d", NULL);
	driver_does(&said, NULL, "approvals", "show", "1", NULL);
	says("Question 1, as it is signed:\n    bastion approval 2\n");
	says("- prefix: what begins with \"lib\"");
	says("- rate: at most 2 in any 1 d");
	driver_approve(&d, driver_question(&d));
	driver_does(&said, NULL, "on", d.box, OP, "libc6", NULL);
	driver_does(&said, NULL, "on", d.box, OP, "libs", NULL);
	driver_refused(&said, 126, "grant.args", NULL, "on", d.box, OP, "bash", NULL);
	driver_refused(&said, 75, "grant.rate", NULL, "on", d.box, OP, "libs", NULL);
	assert_int_equal(driver_value(&d, DRIVER_BOX, "SELECT count(*) FROM grant_use"), 2);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT retry_at - asked_at BETWEEN 86000000 AND 86400000 FROM call"
			     " WHERE code = 'grant.rate'"),
	    1);
	driver_does(&said, NULL, "grants", "show", "1", NULL);
	says("Only within:");
	driver_does(&said, NULL, "grants", "--json", NULL);
	says("\"next_at\"");
	driver_refused(&said, 2, "pairing.unknown", NULL, "grants", "1", NULL);
	driver_does(&said, NULL, "on", d.box, "grant:list", "--json", NULL);
	says("\"uses_left\":8");
	driver_does(&said, NULL, "on", d.box, "grant:drop", "1", "--json", NULL);
	says("{\"r\":{\"dropped\":1}}");
	driver_does(&said, NULL, "on", d.box, "grant:drop", "all", "--json", NULL);
	says("{\"r\":{\"dropped\":0}}");
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, OP, "libs", NULL);
	assert_int_equal(
	    driver_value(&d, DRIVER_BOX,
		"SELECT count(*) FROM audit WHERE entity = 'grant' AND action = 'dropped'"
		" AND body ->> 'reason' = 'given back by the Host'"),
	    1);
	/* Taken back by a person in the words of ops: nothing is left to drop. */
	driver_does(&said, NULL, "ops", "drop", "--all", NULL);
	says("Nothing to drop");
}

/* ENF-2: what acts is looked at first and then done, where the bounds let it; the Host hears of the
 * verbs. */
static void
a_verb_is_looked_at_and_applied(void **state)
{
	char path[128], bounds[256], outside[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/site.conf", d.dir);
	snprintf(outside, sizeof(outside), "%s/state.conf", d.state[DRIVER_BOX]);
	snprintf(bounds, sizeof(bounds),
	    "{\"path\":{\"beneath\":\"%s\"},\"text\":{\"like\":\"**\"}}", d.dir);
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, "file:put", path,
	    "listen 80\n", "--bounds", bounds, "--uses", "3", NULL);
	/* The person looks before they answer. */
	driver_does(&said, NULL, "approvals", "dry", number(driver_question(&d)), NULL);
	says("\"dry\":true,\"changed\":true,\"exists\":false");
	driver_approve(&d, driver_question(&d));
	driver_does(
	    &said, NULL, "on", d.box, "file:put", path, "listen 80\n", "--dry-run", "--json", NULL);
	says("\"lines_added\":1");
	assert_int_equal(access(path, F_OK), -1);
	driver_does(&said, NULL, "on", d.box, "file:put", path, "listen 80\n", "--json", NULL);
	says("\"dry\":false,\"changed\":true");
	assert_int_equal(access(path, F_OK), 0);
	driver_does(
	    &said, NULL, "on", d.box, "file:put", path, "listen 81\n", "--dry-run", "--json", NULL);
	says("\"from_line\":1,\"lines_removed\":1,\"lines_added\":1");
	/* Within the bounds, and still not into what bastion keeps for itself. */
	assert_int_not_equal(
	    driver_run(&said, NULL, "on", d.box, "file:put", outside, "x", "--json", NULL), 0);
	says("act.own");
	assert_int_equal(access(outside, F_OK), -1);
	driver_refused(
	    &said, 126, "grant.args", NULL, "on", d.box, "file:put", "/etc/motd", "x", NULL);
	driver_does(&said, NULL, "ops", "verbs", "--json", NULL);
	says("file.put");
	assert_int_equal(driver_value(&d, DRIVER_BOX,
			     "SELECT count(*) = (SELECT count(*) FROM verb) FROM op_probe"
			     " WHERE op IN (SELECT op FROM verb)"),
	    1);
}

static int
begin(void **state)
{
	(void)state;
	driver_make(&d);
	driver_first_day(&d);
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
	    cmocka_unit_test(a_grant_with_bounds_serves),
	    cmocka_unit_test(a_verb_is_looked_at_and_applied),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
