/* test_base64.c: base64 has one spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "engine/crypto/base64.h"

static ssize_t
reads(const char *text, const char *ignore)
{
	char out[8];

	return base64_read(text, strlen(text), ignore, out, sizeof(out));
}

static void
one_spelling_is_read(void **state)
{
	static const char *const bad[] = {"Zm9v\xc3\xbf", "Zm9\xff", "////\x80\x80\x80\x80", "Zm8",
	    "Zm9=", "Zm8=x", "Zm 8=", "Zm8=\n", "-_-_", "Zm9vZm9vZm9v"};
	char out[8];
	size_t i;

	(void)state;
	assert_int_equal(base64_read("Zm9vYg==", 8, NULL, out, sizeof(out)), 4);
	assert_memory_equal(out, "foob", 4);
	assert_int_equal(reads("", NULL), 0);
	assert_int_equal(reads("//++", NULL), 3);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (reads(bad[i], NULL) != -1)
			fail_msg("read: %s", bad[i]);
	assert_int_equal(reads("Zm\r\n8=\n", "\r\n"), 2);
	assert_int_equal(reads("Zm\x80\r\n8=", "\r\n"), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_spelling_is_read)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
