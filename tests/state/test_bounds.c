/* test_bounds.c: a grant holds within its bounds: which arguments, at which hours, how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/factor.h"
#include "engine/state/grant.h"
#include "tests/person.h"

#define MONDAY INT64_C(1795996800000) /* 2026-11-30, 00:00 UTC */
#define MINUTE INT64_C(60000)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

#define FOLDERS "observe:folders"
#define LOGINS  "observe:logins"

static const char RUN[] =
    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at, dry)"
    " VALUES (:pairing, :op, :args, printf('%032x', :nonce), :grant, now_ms(), :dry)";

static int nonce;

static int64_t
morning(struct scratch *s, struct person *p)
{
	scratch_make(s, HOME_BOX);
	clock_fix(MONDAY);
	person_enrol(s, p, "phone");
	return person_host(s, "laptop");
}

static int
asked(struct scratch *s, int64_t pairing, const char *op, const char *args, const char *bounds,
    int64_t *id)
{
	const struct approval_question q = {
	    .op = op, .args = args, .bounds = bounds, .uses = 1000, .ttl_ms = 30 * DAY};

	return approval_put(scratch_open(s, ROLE_NET), pairing, &q, id);
}

static int64_t
granted(struct scratch *s, const struct person *p, int64_t pairing, const char *op,
    const char *args, const char *bounds)
{
	int64_t id, grant_id;
	char code[7];

	if (asked(s, pairing, op, args, bounds, &id) != 0)
		fail_msg("%s: %s", store_refusal(s->db)->code, store_refusal(s->db)->why);
	clock_fix(clock_now() + 30000);
	if (person_answers(s, id, person_code(p, clock_now(), code), NULL, &grant_id) != 0)
		fail_msg("%s: %s", store_refusal(s->db)->code, store_refusal(s->db)->why);
	return grant_id;
}

static int
run(struct scratch *s, int64_t pairing, int64_t grant, const char *op, const char *args, int dry)
{
	struct stmt *q;

	if (s->db == NULL)
		scratch_open(s, ROLE_NET);
	assert_int_equal(store_begin(s->db), 0);
	assert_non_null(q = store_sql(s->db, RUN));
	stmt_int(q, ":pairing", pairing);
	stmt_text(q, ":op", op);
	stmt_text(q, ":args", args);
	stmt_int(q, ":nonce", ++nonce);
	stmt_int(q, ":grant", grant);
	stmt_int(q, ":dry", dry);
	return stmt_run_one(q) == 0 ? store_commit(s->db) : store_rollback(s->db);
}

/* It is held by ${code} until ${at}, and nothing is spent. */
static void
held(struct scratch *s, int64_t pairing, int64_t grant, const char *op, const char *args,
    const char *code, int64_t at)
{
	int64_t used = scratch_value(s, "SELECT count(*) FROM grant_use");
	int64_t runs = scratch_value(s, "SELECT count(*) FROM op_run");

	scratch_open(s, ROLE_NET);
	assert_int_equal(run(s, pairing, grant, op, args, 0), -1);
	person_says(s, code);
	assert_int_equal(store_refusal(s->db)->retry_at, at);
	assert_null(strchr(store_refusal(s->db)->why, '|'));
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM grant_use"), used);
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM op_run"), runs);
	assert_int_equal(
	    scratch_value(s, "SELECT state = 'active' FROM grant ORDER BY id DESC"), 1);
	scratch_open(s, ROLE_NET);
}

/* GB-1, GB-2, GB-6, GB-7: what passes has a length, a zone and a day, and a rate within the
 * ceilings. */
static void
bounds_are_read_strictly(void **state)
{
	static const struct {
		const char *op, *args, *bounds;
	} good[] = {{LOGINS, "[\"2\"]",
			"{\"_window\":{\"days\":[\"mon\"],\"from\":\"22:00\",\"to\":\"06:00\","
			"\"zone\":\"Europe/Berlin\"}}"},
	    {LOGINS, "[\"2\"]",
		"{\"_rate\":{\"max\":2,\"per_ms\":86400000,\"apart_ms\":600000},"
		"\"hours\":{\"max\":2}}"},
	    {LOGINS, "[\"2\"]", "{\"hours\":{\"in\":[1,2,3],\"min\":1}}"},
	    {FOLDERS, "[\"/srv/a\",\"2\"]",
		"{\"path\":{\"beneath\":\"/srv\",\"like\":\"/srv/*\","
		"\"prefix\":\"/s\",\"in\":[\"/srv/a\"]}}"}},
	  bad[] = {{LOGINS, "[\"2\"]", "{\"_x\":1}"}, {LOGINS, "[\"2\"]", "{}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{}}"}, {LOGINS, "[\"2\"]", "[]"},
	      {LOGINS, "[\"2\"]", "null"}, {LOGINS, "[\"2\"]", "{"}, {LOGINS, "[\"2\"]", "7"},
	      {LOGINS, "[\"2\"]", "{\"_window\":null,\"_rate\":null}"},
	      {LOGINS, "[\"2\"]", "{\"path\":{\"beneath\":\"/\"}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"max\":3},\"hours\":{\"max\":9}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"max\":3,\"max\":9}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"max\":169}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"min\":0}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"max\":\"3\"}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"max\":1}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"in\":[]}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"in\":[\"2\"]}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"prefix\":\"2\"}}"},
	      {LOGINS, "[\"2\"]", "{\"hours\":{\"more\":2}}"}, {LOGINS, "[\"2\"]", "{\"hours\":2}"},
	      {LOGINS, "[]", "{\"hours\":{\"max\":3}}"},
	      {FOLDERS, "[\"/srv\"]", "{\"path\":{\"like\":\"[\"}}"},
	      {FOLDERS, "[\"/srv\"]", "{\"path\":{\"beneath\":\"srv\"}}"},
	      {FOLDERS, "[\"/srv\"]", "{\"path\":{\"beneath\":\"/srv/../etc\"}}"},
	      {FOLDERS, "[\"/srv\"]", "{\"path\":{\"prefix\":\"\"}}"},
	      {FOLDERS, "[\"/srv\"]", "{\"path\":{\"min\":1}}"},
	      {FOLDERS, "[\"/etc\"]", "{\"path\":{\"beneath\":\"/srv\"}}"},
	      {LOGINS, "[\"2\"]", "{\"_rate\":{}}"}, {LOGINS, "[\"2\"]", "{\"_rate\":{\"max\":2}}"},
	      {LOGINS, "[\"2\"]", "{\"_rate\":{\"per_ms\":2000}}"},
	      {LOGINS, "[\"2\"]", "{\"_rate\":{\"max\":0,\"per_ms\":2000}}"},
	      {LOGINS, "[\"2\"]", "{\"_rate\":{\"max\":1001,\"per_ms\":2000}}"},
	      {LOGINS, "[\"2\"]", "{\"_rate\":{\"max\":1,\"per_ms\":999}}"},
	      {LOGINS, "[\"2\"]", "{\"_rate\":{\"apart_ms\":2592000001}}"},
	      {LOGINS, "[\"2\"]", "{\"_rate\":{\"apart_ms\":2000.5}}"},
	      {LOGINS, "[\"2\"]", "{\"_rate\":{\"apart_ms\":2000,\"x\":1}}"},
	      {LOGINS, "[\"2\"]", "{\"_rate\":[1]}"},
#define WINDOW(inner) "{\"_window\":{" inner "}}"
	      {LOGINS, "[\"2\"]", WINDOW("\"from\":\"02:00\",\"to\":\"02:00\"")},
	      {LOGINS, "[\"2\"]",
		  WINDOW(
		      "\"days\":[\"mon\"],\"from\":\"02:00\",\"to\":\"02:00\",\"zone\":\"UTC\"")},
	      {LOGINS, "[\"2\"]", WINDOW("\"days\":[\"mon\"],\"from\":\"02:00\",\"to\":\"03:00\"")},
	      {LOGINS, "[\"2\"]",
		  WINDOW("\"days\":[],\"from\":\"02:00\",\"to\":\"03:00\",\"zone\":\"UTC\"")},
	      {LOGINS, "[\"2\"]",
		  WINDOW(
		      "\"days\":[\"mon\",7],\"from\":\"02:00\",\"to\":\"03:00\",\"zone\":\"UTC\"")},
	      {LOGINS, "[\"2\"]",
		  WINDOW("\"days\":\"mon\",\"from\":\"02:00\",\"to\":\"03:00\",\"zone\":\"UTC\"")},
	      {LOGINS, "[\"2\"]",
		  WINDOW("\"days\":[\"mon\"],\"from\":2,\"to\":\"03:00\",\"zone\":\"UTC\"")},
	      {LOGINS, "[\"2\"]",
		  WINDOW(
		      "\"days\":[\"mon\"],\"from\":\"02:00\",\"to\":\"03:00\",\"zone\":\"Mars\"")},
	      {LOGINS, "[\"2\"]",
		  WINDOW("\"days\":[\"mon\"],\"from\":\"02:00\",\"to\":\"03:00\","
			 "\"zone\":\"UTC\",\"until\":1")}};
	int64_t pairing, id;
	struct person p;
	struct scratch s;
	size_t i;

	(void)state;
	pairing = morning(&s, &p);
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (asked(&s, pairing, good[i].op, good[i].args, good[i].bounds, &id) != 0)
			fail_msg("%s: %s", good[i].bounds, store_refusal(s.db)->why);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (asked(&s, pairing, bad[i].op, bad[i].args, bad[i].bounds, &id) == 0)
			fail_msg("passes: %s", bad[i].bounds);
		person_says(&s, "grant.bounds");
	}
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM approval"),
	    (int64_t)(sizeof(good) / sizeof(good[0])));
	scratch_drop(&s);
}

/* What the person reads says the bounds in words, and text of the Host stays JSON in them. */
static void
a_person_reads_words(void **state)
{
	static const char bounds[] =
	    "{\"path\":{\"beneath\":\"/srv\",\"in\":[\"/srv\",\"/srv/\\n- open: always\"]},"
	    "\"depth\":{\"max\":2,\"min\":1},"
	    "\"_window\":{\"days\":[\"mon\",\"fri\"],\"from\":\"22:00\",\"to\":\"06:00\","
	    "\"zone\":\"Europe/Berlin\"},\"_rate\":{\"apart_ms\":90000,\"max\":2,\"per_ms\":86400000}}";
	static const char want[] =
	    "with: [\"/srv\",\"2\"]\n"
	    "within: %s\n"
	    "- path: a path beneath \"/srv\" and one of [\"/srv\",\"/srv/\\n- open: always\"]\n"
	    "- depth: at most 2 and at least 1\n"
	    "- open: mon fri, 22:00 to 06:00 of the next day, Europe/Berlin\n"
	    "- rate: at most 2 in any 1 d and 90 s between two\n"
	    "uses: 1000\n";
	static char terms[4096], text[4096];
	int64_t pairing, id;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	assert_int_equal(asked(&s, pairing, FOLDERS, "[\"/srv\",\"2\"]", bounds, &id), 0);
	scratch_text(&s, "SELECT terms FROM approval", terms, sizeof(terms));
	snprintf(text, sizeof(text), want, bounds);
	assert_non_null(strstr(terms, "bastion approval 2\n"));
	if (strstr(terms, text) == NULL)
		fail_msg("terms: %s", strstr(terms, "- rate"));
	/* Other words for the same bounds are not put to a person. */
	scratch_refused(&s, "approval.terms",
	    "INSERT INTO approval (nonce, box_name, pairing_id, host_name, op, args, bounds, words, uses,"
	    " ttl_ms, asked_at, expires_at) SELECT substr(nonce, 2) || '0', box_name, pairing_id, host_name,"
	    " op, args, bounds, '- nothing special', 7, ttl_ms, asked_at, expires_at FROM approval");
	/* The same question is asked once; with other bounds it is another. */
	assert_int_equal(asked(&s, pairing, FOLDERS, "[\"/srv\",\"2\"]", bounds, &pairing), 0);
	assert_int_equal(pairing, id);
	scratch_drop(&s);
}

/* GB-7: other arguments pass where each keeps its bound; one that is not bound stays as it was. */
static void
arguments_move_within(void **state)
{
	static const struct {
		const char *args;
		bool pass;
	} cases[] = {{"[\"/srv/a\",\"2\"]", true}, {"[\"/srv\",\"1\"]", true},
	    {"[\"/srv/a/b\",\"1\"]", true}, {"[\"/srv/a\",\"3\"]", false},
	    {"[\"/srv/a\",\"\"]", false}, {"[\"/srv/a\",\"01\"]", false},
	    {"[\"/srv/a\",\"-1\"]", false}, {"[\"/srv/a\"]", false}, {"[]", false},
	    {"[\"/srva\",\"2\"]", false}, {"[\"/\",\"2\"]", false},
	    {"[\"/srv/../etc\",\"2\"]", false}, {"[\"/srv/./a\",\"2\"]", false},
	    {"[\"/srv//a\",\"2\"]", false}, {"[\"/srv/\",\"2\"]", false},
	    {"[\"srv/a\",\"2\"]", false}, {"[\"/srv/a\",\"2\",\"x\"]", false},
	    {"[\"/srv/a\\u0000\",\"2\"]", false}, {"[null,\"2\"]", false},
	    {"[[\"/srv\"],\"2\"]", false}};
	int64_t pairing, grant, found;
	struct person p;
	struct scratch s;
	size_t i;

	(void)state;
	pairing = morning(&s, &p);
	grant = granted(&s, &p, pairing, FOLDERS, "[\"/srv/x\",\"2\"]",
	    "{\"path\":{\"beneath\":\"/srv\"},\"depth\":{\"max\":2,\"min\":1}}");
	scratch_open(&s, ROLE_NET);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(grant_find(s.db, pairing, FOLDERS, cases[i].args, &found), 0);
		if ((found == grant) != cases[i].pass)
			fail_msg("found: %s", cases[i].args);
		if ((run(&s, pairing, grant, FOLDERS, cases[i].args, 0) == 0) != cases[i].pass)
			fail_msg("runs: %s: %s", cases[i].args, store_refusal(s.db)->why);
		if (!cases[i].pass)
			person_says(&s, "grant.args");
	}
	/* Depth alone is bound: the path stays. */
	grant = granted(&s, &p, pairing, FOLDERS, "[\"/etc\",\"1\"]", "{\"depth\":{\"in\":[1,3]}}");
	scratch_open(&s, ROLE_NET);
	assert_int_equal(run(&s, pairing, grant, FOLDERS, "[\"/etc\",\"3\"]", 0), 0);
	assert_int_equal(run(&s, pairing, grant, FOLDERS, "[\"/etc\",\"2\"]", 0), -1);
	person_says(&s, "grant.args");
	assert_int_equal(run(&s, pairing, grant, FOLDERS, "[\"/etc/x\",\"3\"]", 0), -1);
	person_says(&s, "grant.args");
	scratch_drop(&s);
}

/* GB-A1, GB-A4, GB-8: outside its window an apply is held until the next opening, and costs
 * nothing. */
static void
a_window_holds(void **state)
{
	/* In winter, 22:00 in Berlin is 21:00 UTC. */
	const int64_t opens = MONDAY + 21 * HOUR, closes = MONDAY + 29 * HOUR;
	int64_t pairing, grant;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	grant = granted(&s, &p, pairing, LOGINS, "[\"2\"]",
	    "{\"_window\":{\"days\":[\"mon\"],\"from\":\"22:00\",\"to\":\"06:00\","
	    "\"zone\":\"Europe/Berlin\"}}");
	held(&s, pairing, grant, LOGINS, "[\"2\"]", "grant.window", opens);
	assert_int_equal(
	    scratch_value(&s, "SELECT exit_code FROM refusal WHERE code = 'grant.window'"), 75);
	clock_fix(opens - 1);
	held(&s, pairing, grant, LOGINS, "[\"2\"]", "grant.window", opens);
	clock_fix(opens);
	assert_int_equal(run(&s, pairing, grant, LOGINS, "[\"2\"]", 0), 0);
	clock_fix(closes - MINUTE);
	assert_int_equal(run(&s, pairing, grant, LOGINS, "[\"2\"]", 0), 0);
	clock_fix(closes);
	held(&s, pairing, grant, LOGINS, "[\"2\"]", "grant.window", opens + 7 * DAY);
	/* Bad arguments are refused as ever, window or not. */
	assert_int_equal(run(&s, pairing, grant, LOGINS, "[\"3\"]", 0), -1);
	person_says(&s, "grant.args");
	assert_int_equal(store_refusal(s.db)->retry_at, 0);
	/* Where it ends before it opens again, there is nothing to wait for. */
	clock_fix(MONDAY + 28 * DAY + 6 * HOUR);
	held(&s, pairing, grant, LOGINS, "[\"2\"]", "grant.window", opens + 28 * DAY);
	clock_fix(MONDAY + 29 * DAY + 6 * HOUR);
	held(&s, pairing, grant, LOGINS, "[\"2\"]", "grant.window", 0);
	scratch_drop(&s);
}

/* GB-4, GB-5, GB-A3, GB-A5: uses are counted from their rows, also by a process that was started
 * anew. */
static void
a_rate_holds(void **state)
{
	int64_t pairing, apart, daily, both, t;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	apart = granted(&s, &p, pairing, LOGINS, "[\"1\"]", "{\"_rate\":{\"apart_ms\":300000}}");
	daily = granted(
	    &s, &p, pairing, LOGINS, "[\"2\"]", "{\"_rate\":{\"max\":1,\"per_ms\":86400000}}");
	both = granted(&s, &p, pairing, LOGINS, "[\"3\"]",
	    "{\"_rate\":{\"max\":2,\"per_ms\":86400000,\"apart_ms\":600000}}");
	t = clock_now();
	scratch_open(&s, ROLE_NET);
	assert_int_equal(run(&s, pairing, apart, LOGINS, "[\"1\"]", 0), 0);
	assert_int_equal(run(&s, pairing, daily, LOGINS, "[\"2\"]", 0), 0);
	assert_int_equal(run(&s, pairing, both, LOGINS, "[\"3\"]", 0), 0);
	scratch_open(&s, ROLE_NET);
	clock_fix(t + 300000 - 1);
	held(&s, pairing, apart, LOGINS, "[\"1\"]", "grant.rate", t + 300000);
	clock_fix(t + 300000);
	assert_int_equal(run(&s, pairing, apart, LOGINS, "[\"1\"]", 0), 0);
	held(&s, pairing, both, LOGINS, "[\"3\"]", "grant.rate", t + 600000);
	clock_fix(t + 600000);
	assert_int_equal(run(&s, pairing, both, LOGINS, "[\"3\"]", 0), 0);
	clock_fix(t + DAY - 1);
	held(&s, pairing, daily, LOGINS, "[\"2\"]", "grant.rate", t + DAY);
	held(&s, pairing, both, LOGINS, "[\"3\"]", "grant.rate", t + DAY);
	clock_fix(t + DAY);
	assert_int_equal(run(&s, pairing, daily, LOGINS, "[\"2\"]", 0), 0);
	assert_int_equal(run(&s, pairing, both, LOGINS, "[\"3\"]", 0), 0);
	held(&s, pairing, both, LOGINS, "[\"3\"]", "grant.rate", t + DAY + 600000);
	scratch_drop(&s);
}

/* What holds an ask at any time is said before the time that a bound has to wait for: the next try
 * would be held by it all the same. */
static void
what_holds_always_is_said_first(void **state)
{
	struct scratch s;
	struct person p;
	int64_t pairing, grant;

	(void)state;
	pairing = morning(&s, &p);
	grant = granted(&s, &p, pairing, LOGINS, "[\"2\"]", "{\"_rate\":{\"apart_ms\":600000}}");
	scratch_open(&s, ROLE_NET);
	assert_int_equal(run(&s, pairing, grant, LOGINS, "[\"2\"]", 0), 0);
	held(&s, pairing, grant, LOGINS, "[\"2\"]", "grant.rate", clock_now() + 600000);
	nonce -= 2; /* the one that ran */
	held(&s, pairing, grant, LOGINS, "[\"2\"]", "op.replayed", 0);
	scratch_drop(&s);
}

/* Both at once: not before the rate frees it, and then when the window is open. */
static void
a_rate_waits_for_the_window(void **state)
{
	int64_t pairing, grant;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	grant = granted(&s, &p, pairing, LOGINS, "[\"1\"]",
	    "{\"_rate\":{\"apart_ms\":7200000},\"_window\":{\"days\":[\"mon\",\"tue\"],"
	    "\"from\":\"08:00\",\"to\":\"09:00\",\"zone\":\"UTC\"}}");
	clock_fix(MONDAY + 8 * HOUR);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(run(&s, pairing, grant, LOGINS, "[\"1\"]", 0), 0);
	clock_fix(MONDAY + 8 * HOUR + 1);
	held(&s, pairing, grant, LOGINS, "[\"1\"]", "grant.rate", MONDAY + 32 * HOUR);
	scratch_drop(&s);
}

/* The one that can be used first is taken: an exact one, then what is open, then what opens first.
 */
static void
the_first_usable_is_found(void **state)
{
	int64_t pairing, late, soon, open, exact, found;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
#define OPEN(from, to)                                                            \
	"{\"hours\":{\"max\":9},\"_window\":{\"days\":[\"mon\"],\"from\":\"" from \
	"\",\"to\":\"" to "\",\"zone\":\"UTC\"}}"
	late = granted(&s, &p, pairing, LOGINS, "[\"1\"]", OPEN("10:00", "12:00"));
	assert_int_equal(
	    grant_find(scratch_open(&s, ROLE_NET), pairing, LOGINS, "[\"5\"]", &found), 0);
	assert_int_equal(found, late);
	soon = granted(&s, &p, pairing, LOGINS, "[\"1\"]", OPEN("09:00", "12:00"));
	assert_int_equal(
	    grant_find(scratch_open(&s, ROLE_NET), pairing, LOGINS, "[\"5\"]", &found), 0);
	assert_int_equal(found, soon);
	open = granted(&s, &p, pairing, LOGINS, "[\"1\"]", OPEN("00:00", "12:00"));
	exact = granted(&s, &p, pairing, LOGINS, "[\"7\"]", NULL);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(grant_find(s.db, pairing, LOGINS, "[\"5\"]", &found), 0);
	assert_int_equal(found, open);
	assert_int_equal(grant_find(s.db, pairing, LOGINS, "[\"7\"]", &found), 0);
	assert_int_equal(found, exact);
	assert_int_equal(grant_find(s.db, pairing, LOGINS, "[\"10\"]", &found), 0);
	assert_int_equal(found, 0);
	assert_int_equal(grant_find(s.db, pairing + 1, LOGINS, "[\"5\"]", &found), 0);
	assert_int_equal(found, 0);
	scratch_drop(&s);
}

/* As many as the setting says, whether they are held or asked for. */
static void
bounded_grants_are_few(void **state)
{
	char args[32];
	int64_t pairing, id;
	struct person p;
	struct scratch s;
	int i;

	(void)state;
	pairing = morning(&s, &p);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 3 WHERE name = 'grant.bounded'"), 0);
	granted(&s, &p, pairing, LOGINS, "[\"1\"]", "{\"hours\":{\"max\":9}}");
	for (i = 2; i <= 3; i++) {
		snprintf(args, sizeof(args), "[\"%d\"]", i);
		assert_int_equal(
		    asked(&s, pairing, LOGINS, args, "{\"hours\":{\"max\":9}}", &id), 0);
	}
	assert_int_equal(asked(&s, pairing, LOGINS, "[\"4\"]", "{\"hours\":{\"max\":9}}", &id), -1);
	person_says(&s, "grant.many");
	assert_int_equal(asked(&s, pairing, LOGINS, "[\"4\"]", NULL, &id), 0);
	scratch_drop(&s);
}

/* Ask about the Host's own grants, for which no grant is needed. */
static int
own(struct scratch *s, int64_t pairing, const char *op, const char *args)
{
	struct stmt *q;

	scratch_open(s, ROLE_NET);
	assert_int_equal(store_begin(s->db), 0);
	assert_non_null(q = store_sql(s->db,
			    "INSERT INTO op_run (pairing_id, op, args, nonce, queued_at)"
			    " VALUES (:pairing, :op, :args, printf('%032x', :nonce), now_ms())"));
	stmt_int(q, ":pairing", pairing);
	stmt_text(q, ":op", op);
	stmt_text(q, ":args", args);
	stmt_int(q, ":nonce", ++nonce);
	return stmt_run_one(q) == 0 ? store_commit(s->db) : store_rollback(s->db);
}

static void
drops(struct scratch *s, int64_t pairing, const char *args, int count)
{
	assert_int_equal(own(s, pairing, "grant:drop", args), 0);
	assert_int_equal(scratch_value(s, "SELECT frame ->> '$.r.dropped' FROM op_output"
					  " ORDER BY op_run_id DESC"),
	    count);
	assert_int_equal(scratch_value(s, "SELECT state = 'done' AND exit_code = 0 FROM op_run"
					  " ORDER BY id DESC"),
	    1);
	scratch_open(s, ROLE_NET);
}

/* A Host gives back what it holds, at once and without a question; nothing of another's. */
static void
a_host_gives_back_its_own(void **state)
{
	int64_t pairing, other, mine, second, others;
	char text[512], sql[160];
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	other = person_host(&s, "desk");
	mine = granted(&s, &p, pairing, LOGINS, "[\"1\"]", "{\"hours\":{\"max\":9}}");
	second = granted(&s, &p, pairing, LOGINS, "[\"2\"]", NULL);
	others = granted(&s, &p, other, LOGINS, "[\"1\"]", NULL);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(own(&s, pairing, "grant:list", "[]"), 0);
	scratch_text(&s, "SELECT frame FROM op_output", text, sizeof(text));
	snprintf(sql, sizeof(sql),
	    "SELECT json_array_length(frame, '$.r.grants') = 2"
	    " AND frame ->> '$.r.grants[0].grant' = %lld"
	    " AND frame ->> '$.r.grants[0].bounds.hours.max' = 9 FROM op_output",
	    (long long)mine);
	if (scratch_value(&s, sql) != 1)
		fail_msg("%s", text);
	/* Another's, and one that never was: dropped already. */
	snprintf(sql, sizeof(sql), "[\"%lld\"]", (long long)others);
	drops(&s, pairing, sql, 0);
	drops(&s, pairing, "[\"999\"]", 0);
	snprintf(sql, sizeof(sql), "[\"%lld\"]", (long long)mine);
	drops(&s, pairing, sql, 1);
	drops(&s, pairing, sql, 0);
	assert_int_equal(run(&s, pairing, mine, LOGINS, "[\"1\"]", 0), -1);
	person_says(&s, "grant.gone");
	assert_int_equal(run(&s, pairing, second, LOGINS, "[\"2\"]", 0), 0);
	drops(&s, pairing, "[\"all\"]", 1);
	assert_int_equal(run(&s, other, others, LOGINS, "[\"1\"]", 0), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant WHERE state = 'dropped'"
					   " AND end_reason = 'given back by the Host'"),
	    2);
	/* It is no question to a person, and a grant is none of its business. */
	assert_int_equal(asked(&s, pairing, "grant:drop", "[\"all\"]", NULL, &mine), -1);
	person_says(&s, "approval.kind");
	scratch_open(&s, ROLE_NET);
	assert_int_equal(run(&s, other, others, "grant:drop", "[\"all\"]", 0), -1);
	person_says(&s, "grant.other");
	scratch_drop(&s);
}

/* GB-A2: outside its window and over its rate a grant still lets its verb be looked at, which is no
 * use. */
static void
a_dry_run_is_never_held(void **state)
{
	static const char args[] = "[\"/srv/a\",\"x\"]";
	int64_t pairing, grant, other;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	grant = granted(&s, &p, pairing, "file:put", args,
	    "{\"_window\":{\"days\":[\"mon\"],\"from\":\"22:00\",\"to\":\"23:00\",\"zone\":\"UTC\"},"
	    "\"_rate\":{\"apart_ms\":3600000}}");
	held(&s, pairing, grant, "file:put", args, "grant.window", MONDAY + 22 * HOUR);
	assert_int_equal(run(&s, pairing, grant, "file:put", args, 1), 0);
	clock_fix(MONDAY + 22 * HOUR);
	assert_int_equal(run(&s, pairing, grant, "file:put", args, 0), 0);
	held(&s, pairing, grant, "file:put", args, "grant.rate", MONDAY + (22 + 7 * 24) * HOUR);
	assert_int_equal(run(&s, pairing, grant, "file:put", args, 1), 0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant_use"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit WHERE entity = 'op_run'"
					   " AND action = 'queued' AND body ->> 'dry' = 1"),
	    2);
	scratch_open(&s, ROLE_NET);
	/* Of other arguments it shows nothing, and of a question there is nothing to look at. */
	assert_int_equal(run(&s, pairing, grant, "file:put", "[\"/srv/b\",\"x\"]", 1), -1);
	person_says(&s, "grant.args");
	other = granted(&s, &p, pairing, LOGINS, "[\"1\"]", NULL);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(run(&s, pairing, other, LOGINS, "[\"1\"]", 1), -1);
	person_says(&s, "op.dry");
	scratch_drop(&s);
}

/* RX-1, RX-2, RX-3, RX-4: root for 31 days is refused and named, for 30 granted; what was given for
 * longer than is allowed by now ends that long after it was given; a grant without that time cannot
 * be. */
static void
root_is_granted_for_thirty_days(void **state)
{
	struct approval_question q = {
	    .op = "root:exec", .args = "[\"id\"]", .uses = 9, .ttl_ms = 31 * DAY};
	int64_t pairing, id, grant;
	struct person p;
	struct scratch s;
	char code[7];

	(void)state;
	pairing = morning(&s, &p);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = high WHERE name = 'grant.ttl_ms'"), 0);
	assert_int_equal(approval_put(scratch_open(&s, ROLE_NET), pairing, &q, &id), -1);
	person_says(&s, "approval.root");
	assert_non_null(strstr(store_refusal(s.db)->why, "30 days"));
	q.ttl_ms = 30 * DAY;
	assert_int_equal(approval_put(s.db, pairing, &q, &id), 0);
	assert_int_equal(scratch_value(&s, "SELECT kind = 'root' FROM approval"), 1);
	clock_fix(clock_now() + 30000);
	assert_int_equal(
	    person_answers(&s, id, person_code(&p, clock_now(), code), NULL, &grant), 0);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 86400000 WHERE name = 'grant.root_ttl_ms'"),
	    0);
	clock_fix(clock_now() + DAY - 1);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(run(&s, pairing, grant, "root:exec", "[\"id\"]", 0), 0);
	clock_fix(clock_now() + 1);
	assert_int_equal(run(&s, pairing, grant, "root:exec", "[\"id\"]", 0), -1);
	person_says(&s, "grant.expired");
	scratch_refused(&s, "grant.approval",
	    "INSERT INTO grant (pairing_id, kind, op, args, uses, created_at, expires_at, factor_id,"
	    " approval_id, seal) SELECT pairing_id, kind, op, args, uses, NULL, expires_at, factor_id,"
	    " approval_id, seal FROM grant");
	scratch_drop(&s);
}

/* VERB-3: what this machine has no tool for is refused before anything is spent, as the machine's
 * matter: no strike, however often. */
static void
a_missing_tool_spends_nothing(void **state)
{
	static const char args[] = "[\"shop/web/app\",\"r.example/app:2\"]";
	int64_t pairing, grant, strikes;
	struct person p;
	struct scratch s;

	(void)state;
	pairing = morning(&s, &p);
	grant = granted(&s, &p, pairing, "k8s:set_image", args, NULL);
	assert_int_equal(scratch_sql(&s, "INSERT INTO op_probe VALUES ('k8s:set_image', 0,"
					 " 'this machine has no kubectl', now_ms())"),
	    0);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(run(&s, pairing, grant, "k8s:set_image", args, 0), -1);
	person_says(&s, "act.tool");
	assert_string_equal(store_refusal(s.db)->why, "this machine has no kubectl");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM grant_use"), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT exit_code FROM refusal WHERE code = 'act.tool'"), 3);
	strikes = scratch_value(&s, "SELECT value FROM setting WHERE name = 'quarantine.strikes'");
	assert_true(strikes > 0);
	for (; strikes >= 0; strikes--)
		assert_int_equal(
		    scratch_sql(&s,
			"INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
			" SELECT now_ms(), id, 'lane', 'k8s:set_image', 'act.tool', '' FROM pairing"),
		    0);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM quarantine"), 0);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE op_probe SET works = 1, why = '' WHERE op = 'k8s:set_image'"),
	    0);
	scratch_open(&s, ROLE_NET);
	assert_int_equal(run(&s, pairing, grant, "k8s:set_image", args, 0), 0);
	scratch_drop(&s);
}

/* The same numbers in every run. */
static unsigned
next_random(uint64_t *seed, unsigned below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(*seed >> 33) % below;
}

/* What a model of its own keeps of a grant: no SQL, no zones, no numbers of uses. */
struct model {
	unsigned days; /* 0: no window */
	int from, to;  /* minutes of UTC */
	int max;       /* 0: no rate */
	int64_t per, apart;
	int high;        /* of hours; 0: as asked */
	char top[32];    /* of path; "": as asked */
	char like[32];   /* of path; "": none */
	int64_t use[64]; /* when it was used */
	int used;
};

static void
model_make(struct model *m, uint64_t *seed, bool folders, char *bounds, size_t size)
{
	static const char *const names[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
	static const char *const likes[] = {"/srv/*", "/s?v/*a*", "/*", "/srv/*/*"};
	size_t n = 0;
	int k;

	*m = (struct model){.used = 0};
	n += (size_t)snprintf(bounds + n, size - n, "{");
#define PUT(...) n += (size_t)snprintf(bounds + n, size - n, __VA_ARGS__)
	if (next_random(seed, 3) > 0) {
		m->days = 1 + next_random(seed, 127);
		m->from = (int)next_random(seed, 1440);
		do
			m->to = (int)next_random(seed, 1441);
		while (m->to == m->from);
		PUT("\"_window\":{\"days\":[");
		for (k = 0; k < 7; k++)
			if (m->days >> k & 1)
				PUT("\"%s\"%s", names[k], m->days >> (k + 1) != 0 ? "," : "");
		PUT("],\"from\":\"%02d:%02d\",\"to\":\"%02d:%02d\",\"zone\":\"UTC\"},",
		    m->from / 60, m->from % 60, m->to / 60, m->to % 60);
	}
	if (next_random(seed, 3) > 0) {
		m->max = 1 + (int)next_random(seed, 4);
		m->per = 1000 * (1 + (int64_t)next_random(seed, 200000));
		if (next_random(seed, 2) == 0)
			m->apart = 1000 * (1 + (int64_t)next_random(seed, 20000));
		PUT("\"_rate\":{\"max\":%d,\"per_ms\":%lld", m->max, (long long)m->per);
		if (m->apart != 0)
			PUT(",\"apart_ms\":%lld", (long long)m->apart);
		PUT("},");
	}
	if (folders) {
		snprintf(m->top, sizeof(m->top), "%s", next_random(seed, 2) == 0 ? "/srv" : "/");
		PUT("\"path\":{\"beneath\":\"%s\"", m->top);
		if (next_random(seed, 2) == 0) {
			snprintf(m->like, sizeof(m->like), "%s", likes[next_random(seed, 4)]);
			PUT(",\"like\":\"%s\"", m->like);
		}
		PUT("}}");
	} else {
		m->high = 5 + (int)next_random(seed, 10);
		PUT("\"hours\":{\"max\":%d}}", m->high);
	}
	assert_true(n < size);
}

/* Is its window open in the minute of ${at}? */
static bool
model_open(const struct model *m, int64_t at)
{
	int64_t day = at / DAY;
	int minute = (int)(at % DAY / MINUTE), today = (int)((day + 3) % 7),
	    before = (today + 6) % 7;

	if (m->days == 0)
		return true;
	if (m->from < m->to)
		return (m->days >> today & 1) && minute >= m->from && minute < m->to;
	return ((m->days >> today & 1) && minute >= m->from) ||
	       ((m->days >> before & 1) && minute < m->to);
}

static bool
model_rate(const struct model *m, int64_t at)
{
	int i, n = 0;

	for (i = 0; i < m->used; i++) {
		n += at - m->use[i] < m->per;
		if (at - m->use[i] < m->apart)
			return false;
	}
	return m->max == 0 || n < m->max;
}

/* The first millisecond from ${at} on at which both hold: they turn where a use grows old or a
 * minute is full. */
static int64_t
model_next(const struct model *m, int64_t at)
{
	int64_t t = at, step;
	int i;

	while (!model_open(m, t) || !model_rate(m, t)) {
		step = t - t % MINUTE + MINUTE;
		for (i = 0; i < m->used; i++) {
			if (m->use[i] + m->per > t && m->use[i] + m->per < step)
				step = m->use[i] + m->per;
			if (m->use[i] + m->apart > t && m->use[i] + m->apart < step)
				step = m->use[i] + m->apart;
		}
		t = step;
	}
	return t;
}

static bool
model_takes(const struct model *m, const char *path, int hours)
{
	if (m->high != 0)
		return hours <= m->high;
	if (strcmp(m->top, "/") != 0 && strcmp(path, m->top) != 0 &&
	    (strncmp(path, m->top, strlen(m->top)) != 0 || path[strlen(m->top)] != '/'))
		return false;
	return m->like[0] == '\0' || fnmatch(m->like, path, FNM_PATHNAME) == 0;
}

/* GB-3, GB-4, GB-5: random bounds, clocks and asks: the database says what the model says. */
static void
decisions_are_those_of_the_model(void **state)
{
	static const char *const paths[] = {
	    "/srv", "/srv/a", "/srv/ba/a", "/srva", "/etc", "/srv/bab"};
	char bounds[1024], args[64], asks[64];
	int64_t pairing, grant, id, at, next, ends, said = 0;
	uint64_t seed = 42;
	struct model m;
	struct person p;
	struct scratch s;
	bool folders;
	int i, k, turn, hours, allowed = 0, stopped = 0;

	(void)state;
	pairing = morning(&s, &p);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 10000 WHERE name GLOB 'op.live*'"), 0);
	for (i = 0; i < 40; i++) {
		folders = i % 3 == 0;
		model_make(&m, &seed, folders, bounds, sizeof(bounds));
		snprintf(args, sizeof(args), folders ? "[\"%s\",\"2\"]" : "[\"1\"]", "/srv/ba");
		if (asked(&s, pairing, folders ? FOLDERS : LOGINS, args, bounds, &id) != 0) {
			/* What is asked for now has to keep within. */
			assert_true(folders && !model_takes(&m, "/srv/ba", 0));
			continue;
		}
		scratch_open(&s, ROLE_PERSON);
		assert_int_equal(
		    scratch_sql(&s, "UPDATE grant SET state = 'dropped', ended_at = now_ms(),"
				    " end_reason = 'test' WHERE state = 'active';"),
		    0);
		clock_fix(clock_now() + 30000);
		person_code(&p, clock_now(), asks);
		if (person_answers(&s, id, asks, NULL, &grant) != 0)
			fail_msg("%s", store_refusal(s.db)->why);
		ends = clock_now() + 30 * DAY;
		scratch_open(&s, ROLE_NET);
		for (turn = 0; turn < 40 && m.used < 60; turn++) {
			at = clock_now() + 1 + (int64_t)next_random(&seed, 40000000);
			/* Often exactly when it was said to be free, or just before. */
			if (said != 0 && next_random(&seed, 2) == 0)
				at = said - (int64_t)next_random(&seed, 2);
			if (at > clock_now())
				clock_fix(at);
			if ((at = clock_now()) >= ends)
				break;
			k = (int)next_random(&seed, 6);
			hours = 1 + (int)next_random(&seed, 20);
			if (folders)
				snprintf(asks, sizeof(asks), "[\"%s\",\"2\"]", paths[k]);
			else
				snprintf(asks, sizeof(asks), "[\"%d\"]", hours);
			said = 0;
			if (run(&s, pairing, grant, folders ? FOLDERS : LOGINS, asks, 0) == 0) {
				assert_true(model_takes(&m, paths[k], hours));
				assert_int_equal(model_next(&m, at), at);
				m.use[m.used++] = at;
				allowed++;
				continue;
			}
			if (!model_takes(&m, paths[k], hours)) {
				person_says(&s, "grant.args");
				continue;
			}
			next = model_next(&m, at);
			said = store_refusal(s.db)->retry_at;
			if (next == at || strncmp(store_refusal(s.db)->code, "grant.", 6) != 0 ||
			    said != (next < ends ? next : 0))
				fail_msg("%s at %lld: %s until %lld, not %lld", bounds,
				    (long long)at, store_refusal(s.db)->code, (long long)said,
				    (long long)next);
			assert_string_equal(store_refusal(s.db)->code,
			    model_rate(&m, at) ? "grant.window" : "grant.rate");
			stopped++;
		}
	}
	assert_true(allowed > 300 && stopped > 100);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bounds_are_read_strictly),
	    cmocka_unit_test(a_person_reads_words),
	    cmocka_unit_test(arguments_move_within),
	    cmocka_unit_test(a_window_holds),
	    cmocka_unit_test(a_rate_holds),
	    cmocka_unit_test(what_holds_always_is_said_first),
	    cmocka_unit_test(a_rate_waits_for_the_window),
	    cmocka_unit_test(the_first_usable_is_found),
	    cmocka_unit_test(bounded_grants_are_few),
	    cmocka_unit_test(a_host_gives_back_its_own),
	    cmocka_unit_test(a_dry_run_is_never_held),
	    cmocka_unit_test(a_missing_tool_spends_nothing),
	    cmocka_unit_test(root_is_granted_for_thirty_days),
	    cmocka_unit_test(decisions_are_those_of_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
