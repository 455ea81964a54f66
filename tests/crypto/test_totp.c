/* test_totp.c: the vectors of RFC 4226, 6238 and 4648, the real oathtool, and codes used once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/crypto/base32.h"
#include "engine/crypto/totp.h"

static const uint8_t SECRET[] = "12345678901234567890";

#define SECRET_LEN (sizeof(SECRET) - 1)
#define STEP       ((int64_t)TOTP_STEP_MS)

static void
rfc4226_vectors(void **state)
{
	static const char *const WANT[] = {"755224", "287082", "359152", "969429", "338314",
	    "254676", "287922", "162583", "399871", "520489"};
	char code[TOTP_DIGITS_MAX + 1];
	uint64_t i;

	(void)state;
	for (i = 0; i < 10; i++) {
		assert_int_equal(totp_code(SECRET, SECRET_LEN, i, 6, code), 0);
		assert_string_equal(code, WANT[i]);
	}
}

static void
rfc6238_vectors(void **state)
{
	static const struct {
		uint64_t seconds;
		const char *code;
	} WANT[] = {
	    {59, "94287082"},
	    {1111111109, "07081804"},
	    {1111111111, "14050471"},
	    {1234567890, "89005924"},
	    {2000000000, "69279037"},
	    {20000000000, "65353130"},
	};
	char code[TOTP_DIGITS_MAX + 1];
	int64_t counter;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(WANT) / sizeof(WANT[0]); i++) {
		assert_int_equal(totp_code(SECRET, SECRET_LEN, WANT[i].seconds / 30, 8, code), 0);
		assert_string_equal(code, WANT[i].code);
		assert_int_equal(totp_match(SECRET, SECRET_LEN, (int64_t)WANT[i].seconds * 1000,
				     WANT[i].code + 2, 0, -1, &counter, NULL),
		    0);
		assert_int_equal(counter, WANT[i].seconds / 30);
	}
}

static void
code_bounds(void **state)
{
	uint8_t big[TOTP_SECRET_MAX + 1] = {0};
	char code[TOTP_DIGITS_MAX + 1];

	(void)state;
	assert_int_equal(totp_code(big, TOTP_SECRET_MIN - 1, 1, 6, code), -1);
	assert_int_equal(totp_code(big, TOTP_SECRET_MAX + 1, 1, 6, code), -1);
	assert_int_equal(totp_code(big, TOTP_SECRET_MAX, 1, 5, code), -1);
	assert_int_equal(totp_code(big, TOTP_SECRET_MAX, 1, 9, code), -1);
	assert_int_equal(totp_code(big, TOTP_SECRET_MIN, 1, 6, code), 0);
	assert_int_equal(totp_code(big, TOTP_SECRET_MAX, 1, 6, code), 0);
}

/* Run oathtool for the test secret below; return 0, or -1 if this machine has none. */
static int
oathtool(const char *base32, int64_t seconds, char code[8])
{
	char now[32], command[256];
	FILE *f;
	size_t n;

	snprintf(now, sizeof(now), "@%lld", (long long)seconds);
	snprintf(command, sizeof(command), "oathtool --totp -b -N %s %s 2>/dev/null", now, base32);
	if ((f = popen(command, "r")) == NULL)
		return -1;
	n = fread(code, 1, 7, f);
	code[n == 7 ? 6 : 0] = '\0';
	return pclose(f) == 0 ? 0 : -1;
}

/* The codes of another implementation, over secrets of every length modulo 5, are ours. */
static void
agrees_with_oathtool(void **state)
{
	uint8_t secret[TOTP_SECRET_MAX];
	char text[TOTP_SECRET_MAX * 2], code[8];
	int64_t seconds, counter;
	size_t len, i;

	(void)state;
	if (system("command -v oathtool >/dev/null 2>&1") != 0) {
		print_message("oathtool is not installed\n");
		skip();
	}
	for (len = TOTP_SECRET_MIN; len <= 36; len++) {
		for (i = 0; i < len; i++)
			secret[i] = (uint8_t)(7 * i + 31 * len);
		seconds = 1700000000 + (int64_t)len * 1234567;
		assert_int_equal(base32_encode(secret, len, text, sizeof(text)), 0);
		assert_int_equal(oathtool(text, seconds, code), 0);
		assert_int_equal(
		    totp_match(secret, len, seconds * 1000, code, 0, -1, &counter, NULL), 0);
		assert_int_equal(counter, seconds / 30);
	}
}

/* The code of step ${step}, tried at ${now_ms}. */
static int
try(int64_t step, int64_t now_ms, unsigned window, int64_t last, int64_t *counter,
    struct refusal *r)
{
	char code[TOTP_DIGITS_MAX + 1];

	assert_int_equal(totp_code(SECRET, SECRET_LEN, (uint64_t)step, TOTP_DIGITS, code), 0);
	return totp_match(SECRET, SECRET_LEN, now_ms, code, window, last, counter, r);
}

static void
window_is_both_ways(void **state)
{
	int64_t counter, now = 1000 * STEP;
	struct refusal r;

	(void)state;
	assert_int_equal(try(1000, now, 0, -1, &counter, &r), 0);
	assert_int_equal(try(1000, now + STEP - 1, 0, -1, &counter, &r), 0);
	assert_int_equal(try(1000, now + STEP, 0, -1, &counter, &r), -1);
	assert_string_equal(r.code, "totp.wrong");
	assert_int_equal(try(1000, now - 1, 0, -1, &counter, &r), -1);
	assert_int_equal(try(999, now, 1, -1, &counter, &r), 0);
	assert_int_equal(counter, 999);
	assert_int_equal(try(1001, now, 1, -1, &counter, &r), 0);
	assert_int_equal(counter, 1001);
	assert_int_equal(try(998, now, 1, -1, &counter, &r), -1);
	assert_int_equal(try(1002, now, 1, -1, &counter, &r), -1);
	assert_int_equal(try(1000, now, TOTP_WINDOW_MAX + 1, -1, &counter, &r), -1);
	/* The first steps of the epoch have no steps before them. */
	assert_int_equal(try(0, 0, 2, -1, &counter, &r), 0);
	assert_int_equal(counter, 0);
	assert_int_equal(try(0, -1, 2, -1, &counter, &r), -1);
}

/* RSL-4: the same code twice: the second is refused, since the counter must grow. */
static void
code_works_once(void **state)
{
	int64_t last = -1, now = 1000 * STEP + 10000;
	struct refusal r = {0};

	(void)state;
	assert_int_equal(try(1000, now, 1, last, &last, &r), 0);
	assert_int_equal(last, 1000);
	assert_int_equal(try(1000, now, 1, last, &last, &r), -1);
	assert_string_equal(r.code, "totp.used");
	assert_int_equal(r.retry_at, 1001 * STEP);
	assert_int_equal(last, 1000);
	/* One that was skipped is over as well, and the next one works. */
	assert_int_equal(try(999, now, 1, last, &last, &r), -1);
	assert_string_equal(r.code, "totp.used");
	assert_int_equal(try(1001, now, 1, last, &last, &r), 0);
	assert_int_equal(last, 1001);
	assert_int_equal(try(1000, now, 1, last, &last, &r), -1);
}

/* RSL-1 (the code's part): "not-a-code", and all else that is not six ASCII digits, is no code. */
static void
only_six_digits(void **state)
{
	static const char *const BAD[] = {"", "not-a-code", "28708", "2870822", " 87082", "287082 ",
	    "287082\n", "+87082", "-87082", "28708a", "0x7082", "287 082",
	    "\xd9\xa2\xd9\xa8\xd9\xa7",
	    "\xef\xbc\x92"
	    "87082"};
	int64_t counter = -1;
	struct refusal r;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		assert_int_equal(
		    totp_match(SECRET, SECRET_LEN, STEP, BAD[i], 1, -1, &counter, &r), -1);
		assert_string_equal(r.code, "totp.form");
	}
	assert_int_equal(counter, -1);
	assert_int_equal(totp_match(SECRET, SECRET_LEN, STEP, "287082", 0, -1, &counter, &r), 0);
	assert_int_equal(totp_match(SECRET, 3, STEP, "287082", 0, -1, &counter, &r), -1);
	assert_string_equal(r.code, "totp.wrong");
}

/* Of the million codes, one opens each step. */
static void
one_code_in_a_million(void **state)
{
	char code[16];
	int64_t counter;
	int i, hits = 0;

	(void)state;
	for (i = 0; i < 1000000; i++) {
		snprintf(code, sizeof(code), "%06d", i);
		hits += totp_match(SECRET, SECRET_LEN, STEP, code, 0, -1, &counter, NULL) == 0;
	}
	assert_int_equal(hits, 1);
}

static void
uri_is_escaped(void **state)
{
	char uri[TOTP_URI_SIZE], label[TOTP_LABEL_MAX + 2];

	(void)state;
	assert_int_equal(totp_uri(SECRET, SECRET_LEN, "build-7.lan", uri), 0);
	assert_string_equal(uri, "otpauth://totp/bastion:build-7.lan"
				 "?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=bastion");
	assert_int_equal(totp_uri(SECRET, SECRET_LEN, "a b&c=d?e#f/g%:@\xc3\xa9", uri), 0);
	assert_non_null(strstr(uri, "bastion:a%20b%26c%3Dd%3Fe%23f%2Fg%25%3A%40%C3%A9?secret="));

	assert_int_equal(totp_uri(SECRET, SECRET_LEN, "", uri), -1);
	memset(label, ' ', sizeof(label));
	label[TOTP_LABEL_MAX + 1] = '\0';
	assert_int_equal(totp_uri(SECRET, SECRET_LEN, label, uri), -1);
	label[TOTP_LABEL_MAX] = '\0';
	assert_int_equal(totp_uri(SECRET, TOTP_SECRET_MIN - 1, label, uri), -1);
}

/* The longest label and secret fit the room that the header promises. */
static void
longest_uri_fits(void **state)
{
	uint8_t secret[TOTP_SECRET_MAX] = {0};
	char uri[TOTP_URI_SIZE], label[TOTP_LABEL_MAX + 1];

	(void)state;
	memset(label, ' ', TOTP_LABEL_MAX);
	label[TOTP_LABEL_MAX] = '\0';
	assert_int_equal(totp_uri(secret, sizeof(secret), label, uri), 0);
	assert_non_null(strstr(uri, "AAA&issuer=bastion"));
}

static void
base32_vectors(void **state)
{
	static const struct {
		const char *plain, *padded, *bare;
	} WANT[] = {
	    {"", "", ""},
	    {"f", "MY======", "MY"},
	    {"fo", "MZXQ====", "MZXQ"},
	    {"foo", "MZXW6===", "MZXW6"},
	    {"foob", "MZXW6YQ=", "MZXW6YQ"},
	    {"fooba", "MZXW6YTB", "MZXW6YTB"},
	    {"foobar", "MZXW6YTBOI======", "MZXW6YTBOI"},
	};
	char text[32];
	uint8_t back[16];
	size_t i, len, n;

	(void)state;
	for (i = 0; i < sizeof(WANT) / sizeof(WANT[0]); i++) {
		len = strlen(WANT[i].plain);
		assert_int_equal(base32_size(len), strlen(WANT[i].bare) + 1);
		assert_int_equal(
		    base32_encode((const uint8_t *)WANT[i].plain, len, text, base32_size(len)), 0);
		assert_string_equal(text, WANT[i].bare);
		assert_int_equal(
		    base32_encode((const uint8_t *)WANT[i].plain, len, text, base32_size(len) - 1),
		    -1);
		assert_int_equal(base32_decode(WANT[i].bare, back, len, &n), 0);
		assert_int_equal(n, len);
		assert_memory_equal(back, WANT[i].plain, len);
		assert_int_equal(base32_decode(WANT[i].padded, back, len, &n), 0);
		assert_int_equal(n, len);
		if (len > 0)
			assert_int_equal(base32_decode(WANT[i].bare, back, len - 1, &n), -1);
	}
	assert_int_equal(base32_decode("mzxw6ytboi", back, sizeof(back), &n), 0);
	assert_memory_equal(back, "foobar", 6);
	assert_int_equal(base32_size(SIZE_MAX), 0);
}

static void
base32_is_strict(void **state)
{
	static const char *const BAD[] = {"M", "MZX", "MZXW6Y", "MZ",
	    "MY=", "MY=====", "MY=======", "MZXW6YTB========", "MZXW6YTB=", "M0======", "M1", "M8",
	    "MY MY", "MY\n", "=", "MY==A===", "MZXR", "MZXW7", "MZXW6YR", "M\xc3\xa9"};
	uint8_t back[16];
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_int_equal(base32_decode(BAD[i], back, sizeof(back), &n), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rfc4226_vectors),
	    cmocka_unit_test(rfc6238_vectors),
	    cmocka_unit_test(code_bounds),
	    cmocka_unit_test(agrees_with_oathtool),
	    cmocka_unit_test(window_is_both_ways),
	    cmocka_unit_test(code_works_once),
	    cmocka_unit_test(only_six_digits),
	    cmocka_unit_test(one_code_in_a_million),
	    cmocka_unit_test(uri_is_escaped),
	    cmocka_unit_test(longest_uri_fits),
	    cmocka_unit_test(base32_vectors),
	    cmocka_unit_test(base32_is_strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
