/* test_sql_query.c: the library of queries, and the views that answer an operator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/sql_query.h"
#include "tests/day.h"
#include "tests/program.h"

#define RUN(p, s, ...) program_run(p, s, NULL, (const char *const[]){"sql", __VA_ARGS__, NULL})

/* What a first day leaves: a Host, a grant with one of two uses spent, a run, something refused. */
static int
setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));
	const struct day_step *step;

	assert_non_null(s);
	scratch_make(s, HOME_BOX);
	for (step = day_steps; step->name != NULL; step++) {
		scratch_open(s, step->role);
		if (day_take(s->db, step) != 0)
			fail_msg("%s: %s", step->name, store_refusal(s->db)->why);
	}
	*state = s;
	return 0;
}

static int
teardown(void **state)
{
	scratch_drop(*state);
	free(*state);
	return 0;
}

static void
says(struct scratch *s, const char *query, const char *parameter, const char *csv)
{
	struct program p;

	if (parameter == NULL)
		RUN(&p, s, "--csv", query);
	else
		RUN(&p, s, "--csv", query, "-p", parameter);
	if (p.code != 0 || strstr(p.out, csv) == NULL)
		fail_msg("%s does not say %s but (%d) %s%s", query, csv, p.code, p.out, p.err);
	program_free(&p);
}

static void
lacks(struct scratch *s, const char *query, const char *parameter, const char *csv)
{
	struct program p;

	RUN(&p, s, "--csv", query, "-p", parameter);
	assert_int_equal(p.code, 0);
	if (strstr(p.out, csv) != NULL)
		fail_msg("%s -p %s says %s", query, parameter, p.out);
	program_free(&p);
}

/* Each is listed with what it answers, and runs as it is listed. */
static void
every_query_runs(void **state)
{
	struct scratch *s = *state;
	const struct sql_query *q;
	struct program list, p;
	char name[64], row[96];

	RUN(&list, s, "--queries", "--csv");
	assert_int_equal(list.code, 0);
	for (q = sql_queries; q->name != NULL; q++) {
		assert_int_equal(strncmp(q->text, "-- ", 3), 0);
		snprintf(name, sizeof(name), "@%s", q->name);
		snprintf(row, sizeof(row), "\r\n%s,", name);
		assert_non_null(strstr(list.out, row));
		if (strcmp(q->name, "row-origin") == 0)
			RUN(&p, s, name, "-p", "entity=grant", "-p", "id=1");
		else if (strcmp(q->name, "run-origin") == 0)
			RUN(&p, s, name, "-p", "id=1");
		else
			RUN(&p, s, name);
		if (p.code != 0)
			fail_msg("%s: %s", name, p.err);
		program_free(&p);
	}
	assert_true(q - sql_queries >= 10);
	program_free(&list);
}

/* Names and parameters are checked: a slip would answer another question. */
static void
slips_are_told(void **state)
{
	static const struct {
		const char *words[4], *why;
	} slips[] = {
	    {{"@open-aprovals"}, "there is no query @open-aprovals; near it: open-approvals"},
	    {{"@zzzzzz"}, "there is no query @zzzzzz [sql.query]"},
	    {{"@"}, "there is no query @ [sql.query]"},
	    {{"@runs", "-p", "hots=laptop"}, "@runs has no parameter hots [sql.query]"},
	    {{"@run-origin"}, "@run-origin needs -p id=VALUE [sql.query]"},
	};
	struct scratch *s = *state;
	struct program p;
	size_t i;

	for (i = 0; i < sizeof(slips) / sizeof(slips[0]); i++) {
		RUN(&p, s, slips[i].words[0], slips[i].words[1], slips[i].words[2]);
		assert_int_equal(p.code, 2);
		if (strstr(p.err, slips[i].why) == NULL)
			fail_msg("%s, not %s", p.err, slips[i].why);
		program_free(&p);
	}
}

/* Typed at the prompt or in a script, a query ends with its line, and so do its parameters. */
static void
lines_have_their_own_parameters(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "--csv", "@may host='other'\nSELECT 'between' AS a;\n@may");
	assert_int_equal(p.code, 0);
	assert_non_null(strstr(p.out, "a\r\nbetween\r\n"));
	assert_null(strstr(strstr(p.out, "host"), "other,"));
	assert_non_null(strstr(strstr(p.out, "between"), "laptop,observe:folders"));
	*strstr(p.out, "between") = '\0';
	assert_null(strstr(p.out, "laptop"));
	program_free(&p);

	RUN(&p, s, "--csv", "@may host=other\nSELECT :host AS a");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.err, "the parameter :host has no value"));
	program_free(&p);

	RUN(&p, s, "--csv", ".queries open");
	assert_int_equal(p.code, 0);
	assert_non_null(strstr(p.out, "@open-approvals,host=,"));
	assert_null(strstr(p.out, "@runs"));
	program_free(&p);
}

/* A value is a value, whatever stands in it. */
static void
parameters_are_no_sql(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "--csv", "@may", "-p", "host=x' OR 1 --");
	assert_int_equal(p.code, 0);
	assert_null(strstr(p.out, "laptop"));
	program_free(&p);
}

/* What may Host X do now? What is left, and on whose word. */
static void
what_a_host_may_do(void **state)
{
	struct scratch *s = *state;

	says(s, "@may", "host=laptop", "laptop,observe:folders,\"[\"\"/usr\"\",\"\"2\"\"]\",1,");
	says(s, "@may", NULL, ",root,phone,1\r\n");
	lacks(s, "@may", "host=other", "laptop");
	/* On a network without an anchor it may do nothing, whatever was granted. */
	if (scratch_sql(s, "UPDATE box SET mode = 'networked'") != 0)
		fail_msg("%s", s->error);
	lacks(s, "@may", "host=laptop", "observe");
	if (scratch_sql(s, "UPDATE box SET mode = 'local'") != 0)
		fail_msg("%s", s->error);
	says(s, "@may", "host=laptop", "observe:folders");
	if (scratch_sql(s, "UPDATE grant SET state = 'dropped', ended_at = now_ms()") != 0)
		fail_msg("%s", s->error);
	lacks(s, "@may", "host=laptop", "observe");
}

/* What waits for me, and what do I type? */
static void
what_waits(void **state)
{
	struct scratch *s = *state;

	if (scratch_sql(s,
		"INSERT INTO approval (nonce, kind, box_name, pairing_id, host_name, op, args,"
		" uses, ttl_ms, asked_at, expires_at) SELECT printf('%032x', 7), 'op', name, 1,"
		" 'laptop', 'observe:logins', '[]', 1, 60000, now_ms(), now_ms() + 60000 FROM box;"
		"INSERT INTO amendment (nonce, box_name, reason, statement, asked_at, expires_at)"
		" SELECT printf('%032x', 8), name, 'tidy up', 'UPDATE x', now_ms(), now_ms() + 60000"
		" FROM box;"
		"INSERT INTO context_ask (nonce, uid, box_name, pairing_id, host_name, root, name,"
		" asked_at, expires_at) SELECT printf('%032x', 9), 7, name, 1, 'laptop', '/srv/papers',"
		" 'papers', now_ms(), now_ms() + 60000 FROM box;"
		"UPDATE box SET mode = 'networked';"
		"INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
		" VALUES ('tower', 'unix', randomblob(32), 0, 'pending', now_ms())") != 0)
		fail_msg("%s", s->error);
	says(s, "@waiting", NULL, "approval,2,laptop,observe:logins [],");
	says(s, "@waiting", NULL, ",bastion approve 2\r\n");
	says(s, "@waiting", NULL, ",bastion sql -w --amendment 1 --signature FILE\r\n");
	says(s, "@waiting", NULL, "folder,1,laptop,uid 7 shares /srv/papers,");
	says(s, "@waiting", NULL, ",bastion context allow 1\r\n");
	says(s, "@waiting", NULL, "pairing,2,tower,the word of the anchor,");
	says(s, "@expiring", NULL, "folder,1,laptop,uid 7 shares /srv/papers,");
	says(s, "@open-approvals", "host=laptop", "2,laptop,observe:logins,[],1,60,");
	lacks(s, "@open-approvals", "host=other", "logins");
	says(s, "@expiring", NULL, "approval,2,laptop,observe:logins [],");
	says(s, "@expiring", NULL, "grant,1,laptop,");
	lacks(s, "@expiring", "minutes=2", "grant,");
}

/* What ran in the last hour, and who approved it? Where did the run come from? */
static void
what_ran(void **state)
{
	struct scratch *s = *state;

	says(s, "@runs", NULL, ",laptop,observe:folders,\"[\"\"/usr\"\",\"\"2\"\"]\",done,0,");
	says(s, "@runs", "minutes=5", ",root,phone,1\r\n");
	lacks(s, "@runs", "host=other", "laptop");
	says(s, "SELECT count(*) AS n FROM recent_runs", NULL, "n\r\n1\r\n");
	says(s, "@run-origin", "id=1", ",laptop,1,1,1,");
	says(s, "@run-origin", "id=1", ",totp,phone,");
	lacks(s, "@failures", "hours=1", "observe");
}

/* What was refused, and why? */
static void
what_was_refused(void **state)
{
	says(*state, "@refusals", "host=laptop",
	    ",laptop,lane,observe:folders,approval.needed,a person first,have a person at the");
}

/* What holds a lock? A holder that is dead is told from one that lives. */
static void
what_holds_a_lock(void **state)
{
	struct scratch *s = *state;

	if (scratch_sql(s, "INSERT INTO lease (name, process_id, fence, expires_at)"
			   " VALUES ('refresh', 1, 1, now_ms() + 60000)") != 0)
		fail_msg("%s", s->error);
	says(s, "@locks", NULL, "lease,refresh,bastion,1,0,,");
	says(s, "@locks", NULL, "instance,box ready,bastion,1,0,");
}

/* What begins by itself, and when? */
static void
what_begins_by_itself(void **state)
{
	struct scratch *s = *state;

	if (scratch_sql(s,
		"INSERT INTO schedule (name, every_ms, zone, missed, argv, cwd, by_uid,"
		"  added_at, start_at, seen_at, next_at) SELECT 'tick', 900000, 'UTC', 'run',"
		"  '[\"true\"]', '/', 0, t, t + 900000, t, t + 900000 FROM (SELECT now_ms() AS t)") !=
	    0)
		fail_msg("%s", s->error);
	says(s, "@schedules", NULL, "tick,every 15m,active,");
}

/* Where did a row come from, and who moved it? */
static void
where_a_row_came_from(void **state)
{
	struct scratch *s = *state;
	struct program p;

	says(s, "@settings-changed", NULL, "at,who,setting,was,became\r\n");
	RUN(&p, s, "--csv", "@row-origin", "-p", "entity=approval", "-p", "id=1");
	assert_non_null(strstr(p.out, "\r\napproval,1,"));
	assert_non_null(strstr(p.out, ",pending,laptop,"));
	assert_non_null(strstr(p.out, ",burned,3\r\n"));
	program_free(&p);
}

/* The question that a view answers stands above it. */
static void
every_view_says_its_question(void **state)
{
	static char text[65536];
	char *at, *line;
	FILE *f;
	int n = 0;

	(void)state;
	assert_non_null(f = fopen("schema/view.sql", "re"));
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	for (at = text; (at = strstr(at, "\nCREATE VIEW ")) != NULL; at++, n++) {
		for (line = at; line > text && line[-1] != '\n';)
			line--;
		if (strncmp(line, "-- ", 3) != 0)
			fail_msg("no question above %.40s", at + 1);
	}
	assert_true(n >= 8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(every_query_runs, setup, teardown),
	    cmocka_unit_test_setup_teardown(slips_are_told, setup, teardown),
	    cmocka_unit_test_setup_teardown(lines_have_their_own_parameters, setup, teardown),
	    cmocka_unit_test_setup_teardown(parameters_are_no_sql, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_a_host_may_do, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_waits, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_ran, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_was_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_holds_a_lock, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_begins_by_itself, setup, teardown),
	    cmocka_unit_test_setup_teardown(where_a_row_came_from, setup, teardown),
	    cmocka_unit_test(every_view_says_its_question),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
