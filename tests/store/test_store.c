/* test_store.c: open, roles, refusals, transactions, the bell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/scratch.h"

/* A grant is spent by its use, and the next ask is a question again. */
static void
a_run_needs_a_grant(void **state)
{
	struct scratch s;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	scratch_refused(
	    &s, "approval.needed",
	    "INSERT INTO op_run (pairing_id, op, args, nonce, queued_at) VALUES (1, 'observe:folders', '[\"/usr\",\"2\"]',"
	    " '00000000000000000000000000000001', now_ms())");
	assert_int_equal(scratch_grant(&s, "observe:folders", "[\"/usr\",\"2\"]", 1, 60000), 1);
	if (scratch_sql(
		&s,
		"INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at) VALUES (1, 'observe:folders', '[\"/usr\",\"2\"]',"
		" '00000000000000000000000000000001', 1, now_ms())") != 0)
		fail_msg("%s", s.error);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant WHERE state = 'spent'"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM approval WHERE state = 'burned'"),
			 1);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_run_needs_a_grant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
