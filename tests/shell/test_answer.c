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
#include "tests/scratch.h"

/* Show ${frame} into ${out}. */
static void
shown(struct scratch *s, const char *frame, char *out, size_t size)
{
	struct cli cli = {.verb = "on", .db = scratch_open(s, ROLE_PERSON)};
	char path[80];
	FILE *f;
	int saved;

	snprintf(path, sizeof(path), "%s/shown", s->dir);
	fflush(stdout);
	saved = dup(STDOUT_FILENO);
	assert_non_null(f = fopen(path, "w+e"));
	dup2(fileno(f), STDOUT_FILENO);
	if (answer_show(&cli, frame) != 0)
		fail_msg("%s", store_refusal(cli.db)->why);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(f);
	out[fread(out, 1, size - 1, f)] = '\0';
	fclose(f);
}

/* A name in a list that would end a literal, a quoted name or a path is a name like any other. */
static void
names_are_never_sql(void **state)
{
	struct scratch s;
	char out[4096];

	(void)state;
	scratch_make(&s, HOME_HOST);
	shown(&s,
	    "{\"r\":{\"rows\":[{\"a' || (SELECT name FROM box) || '\":1},{\"b\\\"c\":2},{\"d]\":3}]}}",
	    out, sizeof(out));
	assert_null(strstr(out, "host-a"));
	assert_non_null(strstr(out, "(SELECT name FROM box)"));
	assert_non_null(strstr(out, "b\"c"));
	assert_non_null(strstr(out, "d]"));
	scratch_drop(&s);
}

/* A result is lines and tables; a list of plain values is a column. */
static void
results_are_readable(void **state)
{
	struct scratch s;
	char out[4096];

	(void)state;
	scratch_make(&s, HOME_HOST);
	shown(&s,
	    "{\"r\":{\"path\":\"/usr\",\"folders\":[{\"path\":\"/usr/lib\",\"bytes\":7}],\"names\":[\"x\"]}}",
	    out, sizeof(out));
	assert_non_null(strstr(out, "path: /usr\n"));
	assert_non_null(strstr(out, "/usr/lib"));
	assert_non_null(strstr(out, "bytes"));
	assert_non_null(strstr(out, "x"));
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_are_never_sql),
	    cmocka_unit_test(results_are_readable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
