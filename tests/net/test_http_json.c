/* test_http_json.c: what passes the JSON gate, what does not; and route matching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "net/http/json.h"
#include "net/http/route.h"

static const char *
check(const char *text, size_t len)
{
	static struct refusal r;

	r.code[0] = '\0';
	if (http_json_check(text, len, 32, &r) == 0)
		return "ok";
	return r.code;
}

static void
standard_texts_pass(void **state)
{
	static const char *const texts[] = {"{}", "[]", " [ ] ", "0", "-0", "1e9", "-1.5E+3",
	    "\"\"", "true", "null", "[1,2,[3]]", "{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}}",
	    "\"\\ud83d\\ude00\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "{\"\":0}", "\"\x7f\"",
	    "\"\xf4\x8f\xbf\xbf\xe2\x82\xac\xc3\xa9\"", "\t\r\n{\"a\" : 1 , \"b\" : [ ] }\n",
	    "\"\\uFFFF\""};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_string_equal(check(texts[i], strlen(texts[i])), "ok");
}

/* PR-12: trailing garbage, invalid UTF-8, NUL in a string; and all else that is not RFC 8259. */
static void
broken_texts_are_refused(void **state)
{
	static const char *const texts[] = {"", " ", "{", "[", "]", "}", "[1,]", "{\"a\":1,}",
	    "[,1]", "{,}", "{\"a\"}", "{\"a\":}", "{a:1}", "{'a':1}", "[1 2]", "[1}", "{\"a\":1]",
	    "01", "-", "+1", "1.", ".5", "1e", "1e+", "0x1", "NaN", "Infinity", "tru", "truee",
	    "nullx", "True", "\"", "\"a", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"",
	    "\"\\u0000\"", "\"\\ud800\"", "\"\\ud800x\"", "\"\\ud800\\u0041\"", "\"\\udc00\"",
	    "\"\\ud800\\ud800\"", "\"\t\"", "\"\n\"", "\"\x1f\"", "\"\x80\"", "\"\xc0\x80\"",
	    "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe0\x80\x80\"", "\"\xf0\x80\x80\x80\"",
	    "\"\xe2\x82\"", "\"\xff\"", "{}x", "{} {}", "1 2", "[]]", "\xef\xbb\xbf{}", "// c\n1",
	    "/**/1", "{\"a\":1 \"b\":2}", "{\"a\" 1}", "{1:1}", "[\"a\":1]", "\v1", "\"\\"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (strcmp(check(texts[i], strlen(texts[i])), "json.invalid") != 0)
			fail_msg("passed: %s", texts[i]);
	assert_string_equal(check("1\0", 2), "json.invalid");
	assert_string_equal(check("\"a\0b\"", 5), "json.invalid");
	assert_string_equal(check("[1,\0]", 5), "json.invalid");
}

/* PR-12, OF-15: a key twice, also when only its escapes differ; not in different objects. */
static void
duplicate_keys_are_refused(void **state)
{
	static const char *const texts[] = {"{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}",
	    "{\"\":1,\"\":2}", "[{\"x\":{\"k\":1,\"l\":2,\"k\":3}}]", "{\"a\":{\"b\":1},\"a\":2}",
	    "{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\ude00\":2}", "{\"\\/\":1,\"/\":2}"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_string_equal(check(texts[i], strlen(texts[i])), "json.duplicate");
	assert_string_equal(check("{\"a\":1,\"A\":2,\"aa\":3}", 20), "ok");
}

/* PR-13: a key that SQLite finds by its name and not by a path is none; others' escapes are. */
static void
disguised_keys_are_refused(void **state)
{
	static const char *const bad[] = {"{\"dr\\u0079\":true}", "{\"\\u0064ry\":true}",
	    "{\"a\":[{\"bound\\u0073\":{}}]}", "{\"a\\u005fb\":1}", "{\"a\\u002eb\":1}",
	    "{\"a\\u002D\":1}", "{\"\\u0030\":1}", "{\"a\\u0020b\":1}", "{\"\\u007e\":1}",
	    "{\"\\u0024\":1}"},
				 *const good[] = {"{\"dry\":\"\\u0064ry\"}",
				     "{\"\\u00e9t\\u00e9\":1}", "{\"\\ud83d\\ude00\":1}",
				     "{\"\\u003ca\\u003E\\u0026\":1}", "{\"\\\"\\\\\\/\":1}",
				     "{\"\\u0022\\u005c\\u002f\":1}", "{\"\\n\\u001f\\u007f\":1}",
				     "{\"a\":\"\\u0061\",\"b\":[\"\\u0061\"]}"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (strcmp(check(bad[i], strlen(bad[i])), "json.invalid") != 0)
			fail_msg("passed: %s", bad[i]);
	for (i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (strcmp(check(good[i], strlen(good[i])), "ok") != 0)
			fail_msg("refused: %s", good[i]);
}

static void
depth_is_bounded(void **state)
{
	char text[1024];

	(void)state;
	memset(text, '[', 33);
	memset(text + 33, ']', 33);
	assert_string_equal(check(text + 1, 64), "ok");
	assert_string_equal(check(text, 66), "json.depth");
	memset(text, '[', sizeof(text));
	assert_int_equal(http_json_check(text, sizeof(text), 1000000, NULL), -1);
}

/* A refusal never repeats the text, which may hold a secret. */
static void
reason_names_the_place_only(void **state)
{
	struct refusal r;

	(void)state;
	http_json_check("{\"hunter2\":1,\"hunter2\":2}", 25, 32, &r);
	assert_null(strstr(r.why, "hunter"));
	http_json_check("{\"hunter2\":hunter2}", 19, 32, &r);
	assert_string_equal(r.why, "a value is missing at byte 11");
}

static double
seconds_for(unsigned n)
{
	struct timespec a, b;
	char *text = malloc(n * 16u + 3), *p = text;
	unsigned i;

	*p++ = '{';
	for (i = 0; i < n; i++)
		p += sprintf(p, "%s\"k%07u\":1", i ? "," : "", i);
	*p++ = '}';
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	assert_string_equal(check(text, (size_t)(p - text)), "ok");
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	free(text);
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

/* Sixteen times the keys take about sixteen times as long: squared would be 256. */
static void
time_is_linear_in_keys(void **state)
{
	double small, large;

	(void)state;
	seconds_for(20000);
	small = seconds_for(20000);
	large = seconds_for(320000);
	assert_true(large < small * 100);
}

static const char *
match(const char *pattern, const char *target, const char *name)
{
	static struct route_params params;
	const char *value;

	if (!route_match(pattern, target, &params))
		return "-";
	value = route_param(&params, name);
	return value != NULL ? value : "+";
}

static void
routes_match_by_segment(void **state)
{
	(void)state;
	assert_string_equal(match("/v1/ops", "/v1/ops", "id"), "+");
	assert_string_equal(match("/v1/ops", "/v1/ops?x=/", "id"), "+");
	assert_string_equal(match("/v1/ops", "/v1/%6fps", "id"), "+");
	assert_string_equal(match("/v1/ops", "/v1/ops/", "id"), "-");
	assert_string_equal(match("/v1/ops", "/v1/op", "id"), "-");
	assert_string_equal(match("/v1/ops", "/v1/opss", "id"), "-");
	assert_string_equal(match("/v1/ops", "//v1/ops", "id"), "-");
	assert_string_equal(match("/v1/ops", "http://h/v1/ops", "id"), "-");
	assert_string_equal(match("/v1/ops", "*", "id"), "-");
	assert_string_equal(match("/v1/ops", "", "id"), "-");
	assert_string_equal(match("/", "/", "id"), "+");
	assert_string_equal(match("/", "/?a", "id"), "+");
	assert_string_equal(match("/v1/ops/{id}", "/v1/ops/a%20b%C3%A9", "id"), "a b\xc3\xa9");
	assert_string_equal(match("/v1/ops/{id}/x", "/v1/ops/7/x?y", "id"), "7");
	assert_string_equal(match("/v1/ops/{id}", "/v1/ops/7", "i"), "+");
	assert_string_equal(match("/{a}/{b}", "/1/2", "b"), "2");
}

/* What a parameter may not be: a file name that leads elsewhere, a hidden end, broken text. */
static void
hostile_segments_do_not_match(void **state)
{
	static const char *const bad[] = {"/f/", "/f/..", "/f/.", "/f/%2e%2e", "/f/%2E", "/f/a%00b",
	    "/f/%", "/f/%4", "/f/%zz", "/f/%80", "/f/%0a", "/f/a\x7f", "/f/\xff", "/f/a/b"};
	char longest[300] = "/f/";
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_string_equal(match("/f/{name}", bad[i], "name"), "-");
	assert_string_equal(match("/f/{name}", "/f/a%2Fb", "name"), "a/b");
	memset(longest + 3, 'a', 256);
	assert_string_equal(match("/f/{name}", longest, "name"), "-");
	longest[258] = '\0';
	assert_int_equal(strlen(match("/f/{name}", longest, "name")), 255);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(standard_texts_pass),
	    cmocka_unit_test(broken_texts_are_refused),
	    cmocka_unit_test(duplicate_keys_are_refused),
	    cmocka_unit_test(disguised_keys_are_refused),
	    cmocka_unit_test(depth_is_bounded),
	    cmocka_unit_test(reason_names_the_place_only),
	    cmocka_unit_test(time_is_linear_in_keys),
	    cmocka_unit_test(routes_match_by_segment),
	    cmocka_unit_test(hostile_segments_do_not_match),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
