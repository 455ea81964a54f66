/* test_answer.c: what a box answers is shown, and never obeyed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shell/answer.h"

/* What showing ${frame} writes to ${stream}, into ${out}.  Return what it returns. */
static int
shown_on(FILE *stream, const char *frame, char *out, size_t size)
{
	struct answer_view view = {.mode = CLI_TABLE};
	struct refusal r = {0};
	FILE *f = tmpfile();
	int saved, rc;

	assert_non_null(f);
	fflush(stream);
	saved = dup(fileno(stream));
	dup2(fileno(f), fileno(stream));
	rc = answer_show(&view, frame, &r);
	fflush(stream);
	dup2(saved, fileno(stream));
	close(saved);
	rewind(f);
	out[fread(out, 1, size - 1, f)] = '\0';
	fclose(f);
	answer_drop(&view);
	if (rc != 0)
		assert_string_equal(r.code, "call.failed");
	return rc;
}

static void
shown(const char *frame, char *out, size_t size)
{
	assert_int_equal(shown_on(stdout, frame, out, size), 0);
}

/* A name in a list that would end a literal, a quoted name or a path is a name like any other. */
static void
names_are_never_sql(void **state)
{
	char out[4096];

	(void)state;
	shown("{\"r\":{\"rows\":[{\"a' || (SELECT 'host-a') || '\":1},{\"b\\\"c\":2},{\"d]\":3}]}}",
	    out, sizeof(out));
	assert_null(strstr(out, "ahost-a"));
	assert_non_null(strstr(out, "(SELECT 'host-a')"));
	assert_non_null(strstr(out, "b\"c"));
	assert_non_null(strstr(out, "d]"));
}

/* A result is lines and tables; a list of plain values is a column. */
static void
results_are_readable(void **state)
{
	char out[4096];

	(void)state;
	shown(
	    "{\"r\":{\"path\":\"/usr\",\"folders\":[{\"path\":\"/usr/lib\",\"bytes\":7}],\"names\":[\"x\"]}}",
	    out, sizeof(out));
	assert_non_null(strstr(out, "path: /usr\n"));
	assert_non_null(strstr(out, "/usr/lib"));
	assert_non_null(strstr(out, "bytes"));
	assert_non_null(strstr(out, "x"));
}

/* Text and names from a box do not drive the terminal. */
static void
controls_are_escaped(void **state)
{
	static const char *const frames[] = {"{\"o\":\"\\u001b[2Jx\"}",
	    "{\"r\":{\"a\\u001b[2J\":1}}", "{\"r\":{\"a\\u001b[2J\":[1]}}",
	    "{\"r\":{\"a\":[{\"b\\u001b[2J\":\"\\u001b[2J\"}]}}", "{\"r\":{\"a\":\"\\u001b[2J\"}}"};
	static const char error[] = "{\"e\":{\"code\":\"op.lost\",\"why\":\"\\u001b[2J\"}}";
	char out[4096];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		shown(frames[i], out, sizeof(out));
		assert_null(strchr(out, 0x1b));
		assert_non_null(strstr(out, "\\x1b[2J"));
	}
	assert_int_equal(shown_on(stderr, error, out, sizeof(out)), 0);
	assert_string_equal(out, "bastion: \\x1b[2J [op.lost]\n");
}

/* What cannot be shown is said, not left out. */
static void
what_cannot_be_shown_is_said(void **state)
{
	static char frame[8192];
	char out[4096];
	size_t n;
	int i;

	(void)state;
	assert_int_equal(shown_on(stdout, "{\"r\":{", out, sizeof(out)), -1);
	n = (size_t)sprintf(frame, "{\"r\":{\"a\":[{\"b\":0");
	for (i = 0; i < 300; i++)
		n += (size_t)sprintf(frame + n, ",\"column-%d\":1", i);
	sprintf(frame + n, "}]}}");
	assert_int_equal(shown_on(stdout, frame, out, sizeof(out)), -1);
}

/* A refusal of the daemon's is taken apart; what is none is not taken for one. */
static void
refusals_are_taken_apart(void **state)
{
	static const char *const none[] = {
	    "", "{", "{}", "{\"x\":1}", "{\"e\":7}", "{\"e\":{\"code\":1,\"why\":\"y\"}}", "[1]"};
	struct answer_view view = {.mode = CLI_TABLE};
	struct answer_end end = {.exit_code = 0};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(answer_refusal(&view, none[i], &end), -1);
	assert_int_equal(answer_refusal(&view,
			     "{\"x\":77,\"e\":{\"code\":\"approval.needed\",\"why\":\"ask\","
			     "\"exit\":77,\"advice\":\"wait\",\"retry_at\":5,\"approval\":3}}",
			     &end),
	    0);
	assert_string_equal(end.refusal.code, "approval.needed");
	assert_string_equal(end.refusal.why, "ask");
	assert_string_equal(end.advice, "wait");
	assert_int_equal(end.refusal.retry_at, 5);
	assert_int_equal(end.exit_code, 77);
	/* Success is no exit of a refusal: then none was said. */
	assert_int_equal(
	    answer_refusal(&view, "{\"error\":{\"code\":\"a.b\",\"why\":\"\",\"exit\":0}}", &end),
	    0);
	assert_int_equal(end.exit_code, 0);
	answer_drop(&view);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_are_never_sql),
	    cmocka_unit_test(results_are_readable),
	    cmocka_unit_test(controls_are_escaped),
	    cmocka_unit_test(what_cannot_be_shown_is_said),
	    cmocka_unit_test(refusals_are_taken_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
