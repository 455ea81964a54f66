/* test_bounds.c: a Host asks for a grant with bounds, uses it, is held by it and gives it back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/driver.h"

#define OP     "observe:packages"
#define BOUNDS "{\"prefix\":{\"prefix\":\"lib\"},\"_rate\":{\"max\":2,\"per_ms\":86400000}}"

static struct driver d;
static struct said said;

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
	driver_refused(&said, 77, "approval.needed", NULL, "on", d.box, OP, "libc6", "--bounds",
	    BOUNDS, "--uses", "10", "--for", "3d", NULL);
	driver_does(&said, NULL, "approvals", "show", "1", NULL);
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
	says("held_until");
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_grant_with_bounds_serves)};

	return cmocka_run_group_tests(tests, begin, end);
}
