/* test_nonce.c: numbers that are used once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"

/* They begin with the time, so that later ones sort behind, and the rest is random. */
static void
nonces_are_in_the_order_of_time(void **state)
{
	static const int64_t times[] = {0, 1, 1764547200000, 1764547200001, (1LL << 48) - 1};
	char last[33] = "", one[33], other[33], time[13];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		clock_fix(times[i]);
		nonce_hex(one);
		nonce_hex(other);
		snprintf(time, sizeof(time), "%012" PRIx64, (uint64_t)times[i]);
		assert_int_equal(strlen(one), 32);
		assert_int_equal(strspn(one, "0123456789abcdef"), 32);
		assert_memory_equal(one, time, 12);
		assert_memory_equal(other, time, 12);
		assert_string_not_equal(one, other);
		assert_true(strcmp(last, one) < 0);
		memcpy(last, one, sizeof(last));
	}
	clock_fix(-1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nonces_are_in_the_order_of_time),
	};

	return sodium_init() == -1 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
