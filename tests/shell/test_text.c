/* test_text.c: text is decoded, escaped, measured and cut as it should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shell/text.h"

static char *made; /* by the last call below; freed at the next */
static size_t made_len;

static FILE *
begin(void)
{
	FILE *f;

	free(made);
	made = NULL;
	assert_non_null(f = open_memstream(&made, &made_len));
	return f;
}

static int
shown(const char *s, size_t len)
{
	FILE *f = begin();
	int columns = text_show(f, s, len);

	assert_int_equal(fclose(f), 0);
	return columns;
}

static void
shows(const char *s, const char *as, int columns)
{
	assert_int_equal(shown(s, strlen(s)), columns);
	assert_string_equal(made, as);
	assert_int_equal(text_width(made, made_len), columns);
}

/* RFC 3629: overlong forms, surrogates, what lies past U+10FFFF, cut sequences: a byte at a time.
 */
static void
only_utf8_is_decoded(void **state)
{
	static const struct {
		const char *bytes;
		int32_t rune;
		size_t taken;
	} cases[] = {
	    {"a", 'a', 1},
	    {"\xc3\xa9", 0xe9, 2},
	    {"\xe2\x82\xac", 0x20ac, 3},
	    {"\xf0\x9f\x98\x80", 0x1f600, 4},
	    {"\xf4\x8f\xbf\xbf", 0x10ffff, 4},
	    {"\xf4\x90\x80\x80", -1, 1},
	    {"\xc0\xaf", -1, 1},
	    {"\xe0\x80\xaf", -1, 1},
	    {"\xed\xa0\x80", -1, 1},
	    {"\x80", -1, 1},
	    {"\xe2\x82", -1, 1},
	    {"\xff", -1, 1},
	};
	int32_t rune;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(
		    text_next(cases[i].bytes, cases[i].bytes + strlen(cases[i].bytes), &rune),
		    cases[i].taken);
		assert_int_equal(rune, cases[i].rune);
	}
}

/* A Host's text cannot move the cursor, change colours, turn the direction or hide. */
static void
nothing_drives_the_terminal(void **state)
{
	(void)state;
	shows("plain", "plain", 5);
	shows("a\033[2Jb", "a\\x1b[2Jb", 9);
	shows("a\r\nb\tc", "a\\r\\nb\\tc", 9);
	shows("\xc2\x9b"
	      "2J",
	    "\\u009b2J", 8);
	shows("\xe2\x80\xae"
	      "abc",
	    "\\u202eabc", 9);
	shows("x\xe2\x80\x8by", "x\\u200by", 8);
	shows("\xf3\xa0\x81\x81", "\\U0e0041", 8);
	shows("bad\xff"
	      "end",
	    "bad\\xffend", 10);
	assert_int_equal(shown("a\0b", 3), 6);
	assert_string_equal(made, "a\\x00b");
}

/* Every byte, and every pair of them, ends up as something that no terminal obeys. */
static void
all_bytes_are_safe(void **state)
{
	char pair[2];
	size_t j;
	int i;

	(void)state;
	for (i = 0; i < 65536; i++) {
		pair[0] = (char)(i >> 8);
		pair[1] = (char)i;
		shown(pair, 2);
		for (j = 0; j < made_len; j++) {
			assert_false((unsigned char)made[j] < 0x20 || made[j] == 0x7f);
			assert_false(
			    j > 0 && made[j - 1] == '\xc2' && (unsigned char)made[j] < 0xa0);
		}
	}
}

static void
width_is_that_of_the_terminal(void **state)
{
	(void)state;
	shows("caf\xc3\xa9", "caf\xc3\xa9", 4);
	shows("cafe\xcc\x81", "cafe\xcc\x81", 4);
	shows("\xe6\xbc\xa2\xe5\xad\x97", "\xe6\xbc\xa2\xe5\xad\x97", 4);
}

static void
clipped(const char *s, int width, const char *as, int columns)
{
	FILE *f = begin();

	assert_int_equal(text_clip(f, s, strlen(s), width), columns);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(made, as);
}

static void
cut_text_says_so(void **state)
{
	(void)state;
	clipped("hello", 5, "hello", 5);
	clipped("hello", 4, "hel…", 4);
	clipped("hello", 1, "…", 1);
	clipped("hello", 0, "", 0);
	clipped("", 3, "", 0);
	/* A wide character that fits only by half is left out. */
	clipped("\xe6\xbc\xa2\xe5\xad\x97", 2, "…", 1);
	clipped("\xe6\xbc\xa2\xe5\xad\x97", 3, "\xe6\xbc\xa2…", 3);
}

/* Emoji are two columns wide, also those that a selector makes of a letter's width. */
static void
emoji_are_wide(void **state)
{
	(void)state;
	shows("\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 2);
	shows("\xe2\x9d\xa4", "\xe2\x9d\xa4", 1);
	shows("\xe2\x9d\xa4\xef\xb8\x8f", "\xe2\x9d\xa4\xef\xb8\x8f", 2);
	shows("a\xef\xb8\x8f", "a\xef\xb8\x8f", 1);
	shows("\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", 2);
	/* Joined ones take at most what their parts take: text of a Host must not overrun. */
	shows("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb",
	    "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb", 4);
	/* What joins is not left without its second half. */
	clipped("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb", 3, "\xf0\x9f\x91\xa9…", 3);
}

static void
field(const char *s, const char *as)
{
	FILE *f = begin();

	text_csv(f, s, strlen(s));
	assert_int_equal(fclose(f), 0);
	assert_string_equal(made, as);
}

/* RFC 4180 §2: quotes where there are commas, quotes or line ends. */
static void
csv_quotes_what_it_must(void **state)
{
	(void)state;
	field("plain", "plain");
	field("", "\"\"");
	field("a,b", "\"a,b\"");
	field("say \"hi\"", "\"say \"\"hi\"\"\"");
	field("two\r\nlines", "\"two\r\nlines\"");
	field(" led", "\" led\"");
}

static void
string(const char *s, size_t len, const char *as)
{
	FILE *f = begin();

	text_json(f, s, len);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(made, as);
}

/* RFC 8259 §7. */
static void
json_escapes(void **state)
{
	(void)state;
	string("a\"b\\c", 5, "\"a\\\"b\\\\c\"");
	string("\n\033\0", 3, "\"\\n\\u001b\\u0000\"");
	string("caf\xc3\xa9", 5, "\"caf\xc3\xa9\"");
	string("\xff", 1, "\"\\ufffd\"");
	string("\xe2\x80\xae", 3, "\"\\u202e\"");
	string("\xf3\xa0\x81\x81", 4, "\"\\udb40\\udc41\"");
}

static void
times_are_of_a_calendar(void **state)
{
	char out[TEXT_TIME_MAX];

	(void)state;
	assert_true(text_time(INT64_C(1800000000123), true, out));
	assert_string_equal(out, "2027-01-15T08:00:00.123Z");
	assert_true(text_time(-1, true, out));
	assert_string_equal(out, "1969-12-31T23:59:59.999Z");
	assert_true(text_time(INT64_C(1800000000999), false, out));
	assert_string_equal(out, "2027-01-15 08:00:00");
	assert_false(text_time(INT64_MAX, true, out));
	assert_string_equal(out, "9223372036854775807");
	assert_false(text_time(INT64_MIN, false, out));
	assert_string_equal(out, "-9223372036854775808");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_utf8_is_decoded),
	    cmocka_unit_test(nothing_drives_the_terminal),
	    cmocka_unit_test(all_bytes_are_safe),
	    cmocka_unit_test(width_is_that_of_the_terminal),
	    cmocka_unit_test(cut_text_says_so),
	    cmocka_unit_test(emoji_are_wide),
	    cmocka_unit_test(csv_quotes_what_it_must),
	    cmocka_unit_test(json_escapes),
	    cmocka_unit_test(times_are_of_a_calendar),
	};
	int failed;

	setenv("TZ", "UTC", 1);
	tzset();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(made);
	return failed;
}
