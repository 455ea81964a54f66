/* test_beat.c: what a box says of itself, what its Host orders in answer, and what becomes of that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/beat.h"
#include "engine/state/order.h"
#include "engine/state/retention.h"
#include "engine/worker/probe.h"
#include "tests/orders.h"
#include "tests/person.h"
#include "tests/scratch.h"

static struct scratch host, box;
static int64_t paired; /* the box's pairing with the host */
static char text[262144];

/* A machine and its Host, each with a database of its own and the other's key. */
static void
begin(void)
{
	char sql[512], hex[65];

	clock_fix(PERSON_MORNING);
	scratch_make(&host, HOME_HOST);
	scratch_make(&box, HOME_BOX);
	paired = orders_pair(&box, host.key);
	sodium_bin2hex(hex, sizeof(hex), box.keys.identity, 32);
	snprintf(sql, sizeof(sql),
	    "INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
	    "  VALUES ('box-a', zeroblob(32), now_ms(), now_ms() + 60000);"
	    "UPDATE invitation SET state = 'redeemed', ended_at = now_ms();"
	    "INSERT INTO host_box (name, box_key, lane, peer_uid, invitation_id, paired_at)"
	    "  VALUES ('box-a', x'%s', '/run/lane', 0, 1, now_ms());",
	    hex);
	if (scratch_sql(&host, sql) != 0)
		fail_msg("%s", host.error);
}

static int
end(void **state)
{
	(void)state;
	scratch_drop(&host);
	scratch_drop(&box);
	return 0;
}

static int
made(void **state)
{
	(void)state;
	begin();
	return 0;
}

static void
sets(struct scratch *s, const char *sql)
{
	if (scratch_sql(s, sql) != 0)
		fail_msg("%s: %s", sql, s->error);
}

/* The box's beat as its link makes it. The caller frees it. */
static char *
beats(void)
{
	char *body;

	if (beat_make(scratch_open(&box, ROLE_LINK), paired, &body) != 0)
		fail_msg("%s: %s", store_refusal(box.db)->code, store_refusal(box.db)->why);
	return body;
}

/* What the Host answers to ${beat}, or NULL with the refusal of host.db. The caller frees it. */
static char *
hears(const char *beat)
{
	char *answer = NULL;

	scratch_open(&host, ROLE_NET);
	assert_int_equal(store_begin(host.db), 0);
	if (beat_take(host.db, 1, beat, strlen(beat), &answer) != 0) {
		store_rollback(host.db);
		return NULL;
	}
	assert_int_equal(store_commit(host.db), 0);
	return answer;
}

static struct directive_taken
takes(const char *answer)
{
	struct directive_taken taken;

	if (directive_take(scratch_open(&box, ROLE_LINK), paired, answer, strlen(answer), &taken) !=
	    0)
		fail_msg("%s: %s", store_refusal(box.db)->code, store_refusal(box.db)->why);
	return taken;
}

/* One beat, there and back. */
static struct directive_taken
round_trip(void)
{
	char *beat = beats(), *answer = hears(beat);
	struct directive_taken taken;

	if (answer == NULL)
		fail_msg("%s: %s", store_refusal(host.db)->code, store_refusal(host.db)->why);
	taken = takes(answer);
	free(beat);
	free(answer);
	return taken;
}

static int64_t
rotates(const char *a, const char *b)
{
	const char *list[] = {a, b};
	int64_t id;

	if (order_rotate(
		scratch_open(&host, ROLE_PERSON), "box-a", list, b == NULL ? 1 : 2, 0, &id) != 0)
		return -1;
	return id;
}

/* The box is told of its pairing by endpoints, the one thing that a rotation can change. */
static void
dials(const char *endpoint)
{
	char sql[256];

	snprintf(sql, sizeof(sql), "INSERT INTO pairing_endpoint VALUES (%d, 1, '%s')", (int)paired,
	    endpoint);
	sets(&box, sql);
}

static void
says(struct scratch *s, const char *sql, const char *want)
{
	scratch_text(s, sql, text, sizeof(text));
	if (strcmp(text, want) != 0)
		fail_msg("%s: \"%s\", not \"%s\"", sql, text, want);
}

/* A beat tells who the box is, what it enforces and how this pairing stands; the Host keeps the
 * newest. */
static void
a_beat_is_kept(void **state)
{
	char *beat = beats(), *answer;

	(void)state;
	assert_non_null(answer = hears(beat));
	says(&host,
	    "SELECT beat ->> '$.name' || ' ' || (beat ->> '$.state') || ' '"
	    " || (beat ->> '$.endpoint_save_pending') FROM host_beat",
	    "box-a active 0");
	says(&host, "SELECT state FROM box_beats", "beating");
	assert_int_equal(scratch_value(&host, "SELECT heard_at FROM host_box"), PERSON_MORNING);
	says(&host, "SELECT beat ->> '$.platform' LIKE 'linux %' FROM host_beat", "1");
	free(answer);
	clock_fix(PERSON_MORNING + 200000);
	says(&host, "SELECT state FROM box_beats", "silent");
	assert_non_null(answer = hears(beat));
	free(answer);
	free(beat);
	assert_int_equal(scratch_value(&host, "SELECT count(*) FROM host_beat"), 1);
	says(&host, "SELECT state FROM box_beats", "beating");
}

/* EP-46: no pairing but the Host's own stands in its beat, and one that cannot be served has none.
 */
static void
a_beat_tells_of_no_other(void **state)
{
	char *beat;

	(void)state;
	person_host(&box, "elsewhere");
	beat = beats();
	assert_null(strstr(beat, "elsewhere"));
	free(beat);
	scratch_endpoint(&box, paired, 1, "no\nendpoint", 11);
	assert_int_equal(beat_make(scratch_open(&box, ROLE_LINK), paired, &beat), -1);
	person_says(&box, "pairing.invalid");
	assert_int_equal(beat_make(box.db, 77, &beat), -1);
	person_says(&box, "pairing.inactive");
}

/* ENF-1: whether grants may carry bounds is always said: a Host need not guess from silence. */
static void
bounds_are_reported(void **state)
{
	(void)state;
	free(beats());
	says(&box,
	    "SELECT json_type(report, '$.grant_run_bounds') IN ('true', 'false') FROM enforcing",
	    "1");
	says(&box, "SELECT json_type(report, '$.sandbox') FROM enforcing", "object");
}

/* ENF-2: each verb is reported, also one whose tool is missing, with the reason. */
static void
each_verb_is_reported(void **state)
{
	struct observe_limits limits;
	struct observe_env tools;

	(void)state;
	says(&box,
	    "SELECT count(*) = (SELECT count(*) FROM op) FROM enforcing, json_each(report, '$.verbs')"
	    " WHERE value ->> '$.can' = 0 AND value ->> '$.why' = 'not looked at yet'",
	    "1");
	observe_defaults(&limits, &tools);
	snprintf(tools.journalctl, sizeof(tools.journalctl), "/bin/sh");
	snprintf(tools.systemctl, sizeof(tools.systemctl), "/bin/sh");
	snprintf(tools.ss, sizeof(tools.ss), "/nowhere/ss");
	assert_int_equal(probe_write(scratch_open(&box, ROLE_WORKER), &tools), 0);
	says(&box,
	    "SELECT group_concat(value ->> '$.verb' || '=' || (value ->> '$.can'))"
	    " FROM enforcing, json_each(report, '$.verbs') WHERE value ->> '$.verb' IN"
	    " ('observe:cert', 'observe:folders', 'observe:journal', 'observe:logins')",
	    "observe:cert=0,observe:folders=1,observe:journal=1,observe:logins=1");
	says(&box, "SELECT why FROM op_probe WHERE op = 'observe:cert'", "this machine has no ss");
	assert_int_equal(probe_write(scratch_open(&box, ROLE_WORKER), &tools), 0);
}

/* What is looked for is what the rows of the verbs say that they need, and nothing else. */
static void
each_verb_has_its_probe(void **state)
{
	const struct probe_need *need;
	char sql[256];
	size_t i;
	int64_t n = 0;

	(void)state;
	for (i = 0; (need = probe_need_at(i)) != NULL; i++) {
		snprintf(sql, sizeof(sql), "SELECT count(*) FROM op WHERE name = '%s'", need->op);
		assert_int_equal(scratch_value(&box, sql), 1);
		snprintf(sql, sizeof(sql),
		    "SELECT count(*) FROM verb WHERE op = '%s' AND tool = '%s'", need->op,
		    need->tool);
		n += scratch_value(&box, sql);
	}
	assert_int_equal(
	    n, scratch_value(&box, "SELECT count(*) FROM verb WHERE tool IS NOT NULL"));
}

/* What is no beat is not kept, and says so. */
static void
what_is_no_beat_is_refused(void **state)
{
	static const char *const wrong[] = {"[]", "{}", "7",
	    "{\"name\":1,\"version\":\"1\",\"platform\":\"p\",\"state\":\"active\",\"enforcing\":{},"
	    "\"endpoint_save_pending\":false,\"orders\":[]}",
	    "{\"name\":\"a\",\"version\":\"1\",\"platform\":\"p\",\"state\":\"invalid\",\"enforcing\":{},"
	    "\"endpoint_save_pending\":false,\"orders\":[]}",
	    "{\"name\":\"a\",\"version\":\"1\",\"platform\":\"p\",\"state\":\"active\",\"enforcing\":{},"
	    "\"orders\":[]}",
	    "{\"name\":\"a\",\"version\":\"1\",\"platform\":\"p\",\"state\":\"active\",\"enforcing\":{},"
	    "\"endpoint_save_pending\":false,\"orders\":[{\"order\":\"1\"}]}",
	    "{\"name\":\"a\",\"version\":\"1\",\"platform\":\"p\",\"state\":\"active\",\"enforcing\":{},"
	    "\"endpoint_save_pending\":false,\"orders\":[7]}"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_null(hears(wrong[i]));
		person_says(&host, "beat.form");
	}
	assert_null(hears("{"));
	sets(&host, "UPDATE setting SET value = 131072 WHERE name = 'beat.bytes'");
	memset(text, ' ', 140000);
	text[0] = '{';
	text[139999] = '}';
	text[140000] = '\0';
	assert_null(hears(text));
	person_says(&host, "beat.size");
	assert_int_equal(scratch_value(&host, "SELECT count(*) FROM host_beat"), 0);
	sets(&host, "UPDATE host_box SET state = 'gone', gone_at = now_ms()");
	assert_null(hears("{}"));
	person_says(&host, "box.gone");
}

/* EP-29: a rotation is tried beside the old endpoints, and takes their place once the Host was
 * reached. */
static void
a_rotation_is_saved_when_it_was_reached(void **state)
{
	struct directive_taken taken;
	char *beat;

	(void)state;
	dials("old.example:443");
	assert_int_equal(rotates("NEW.example:444", "[2001:db8::1]:444"), 1);
	taken = round_trip();
	assert_int_equal(taken.taken, 1);
	says(&box,
	    "SELECT group_concat(endpoint || ' ' || fresh) FROM"
	    " (SELECT * FROM pairing_dial ORDER BY ord)",
	    "new.example:444 1,[2001:db8::1]:444 1,old.example:443 0");
	beat = beats();
	assert_non_null(strstr(beat, "\"endpoint_save_pending\":true"));
	free(beat);
	assert_int_equal(
	    endpoint_reached(scratch_open(&box, ROLE_LINK), paired, "old.example:443"), 0);
	assert_int_equal(endpoint_reached(box.db, paired, "other.example:1"), 0);
	says(&box, "SELECT group_concat(endpoint) FROM pairing_endpoint", "old.example:443");
	assert_int_equal(
	    endpoint_reached(scratch_open(&box, ROLE_LINK), paired, "[2001:DB8::1]:444"), 1);
	says(&box, "SELECT group_concat(endpoint) FROM pairing_endpoint",
	    "new.example:444,[2001:db8::1]:444");
	assert_int_equal(scratch_value(&box, "SELECT count(*) FROM rotation_endpoint"), 0);
	assert_int_equal(scratch_value(&box, "SELECT count(*) FROM beat_request"), 1);
	taken = round_trip();
	assert_int_equal(taken.again, 0);
	assert_int_equal(taken.results, 0);
	says(&host, "SELECT state || ' ' || outcome || ' ' || result FROM orders",
	    "answered done {\"endpoint\":\"[2001:db8::1]:444\"}");
	beat = beats();
	assert_non_null(strstr(beat, "\"endpoint_save_pending\":false"));
	assert_non_null(strstr(beat, "\"orders\":[]"));
	free(beat);
}

static const char GOOD[] = ORDERS_TERMS("rotate", ", 'endpoints', json_array('new.example:1')");

static struct directive_taken
takes_signed(const char *sql, int n)
{
	char *answer = orders_answer(&box, host.key, sql, n);
	struct directive_taken taken = takes(answer);

	free(answer);
	return taken;
}

/* EP-27, EP-28: an order with one endpoint that is none, or for a Host that is not dialled, changes
 * nothing. */
static void
a_wrong_rotation_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(rotates("fine.example:1", "no port"), -1);
	person_says(&host, "order.endpoint");
	assert_int_equal(takes_signed(GOOD, 1).results, 1); /* there is nothing to rotate here */
	says(&box, "SELECT result ->> '$.code' FROM directive", "rotate.none");
	dials("old.example:443");
	assert_int_equal(
	    takes_signed(ORDERS_TERMS("rotate",
			     ", 'endpoints', json_array('new.example:1', 'bad' || char(10))"),
		2)
		.results,
	    2);
	says(&box, "SELECT group_concat(endpoint) FROM pairing_dial", "old.example:443");
	says(&box, "SELECT result ->> '$.code' FROM directive WHERE id = 2", "endpoint.invalid");
	sets(&box, "UPDATE setting SET value = 1 WHERE name = 'pairing.endpoints'");
	takes_signed(
	    ORDERS_TERMS("rotate", ", 'endpoints', json_array('a.example:1', 'b.example:1')"), 3);
	says(&box, "SELECT result ->> '$.code' FROM directive WHERE id = 3", "endpoint.many");
	says(&box, "SELECT group_concat(endpoint) FROM pairing_dial", "old.example:443");
	assert_int_equal(scratch_value(&box, "SELECT count(*) FROM refused"), 3);
}

/* CF-6, CF-5: an order that comes twice, also after the box was started anew, is done once. */
static void
an_order_is_taken_once(void **state)
{
	char *answer;

	(void)state;
	dials("old.example:443");
	answer = orders_answer(&box, host.key, GOOD, 1);
	assert_int_equal(takes(answer).taken, 1);
	assert_int_equal(takes(answer).again, 1);
	assert_int_equal(
	    endpoint_reached(scratch_open(&box, ROLE_LINK), paired, "new.example:1"), 1);
	store_close(box.db);
	box.db = NULL;
	assert_int_equal(takes(answer).again, 1);
	/* Who brings it goes on as who they are; a Host that is deaf is not told without end. */
	assert_int_equal(takes(answer).results, 0);
	says(&box, "SELECT count(*) FROM directive_untold", "1");
	assert_int_equal(takes(answer).taken, 0);
	{
		struct stmt *q = store_sql(box.db, "SELECT acting()");

		assert_int_equal(stmt_step(q), 1);
		assert_string_equal(stmt_get_text(q, 0), "test:scratch");
		stmt_done(q);
	}
	says(&box, "SELECT who FROM audit WHERE entity = 'directive' AND action = 'taken'",
	    "host:host-a");
	clock_fix(PERSON_MORNING + INT64_C(3600000));
	assert_int_equal(takes(answer).again, 1);
	assert_int_equal(scratch_value(&box, "SELECT count(*) FROM directive"), 1);
	assert_int_equal(scratch_value(&box, "SELECT count(*) FROM refused"), 0);
	scratch_refused(&box, "directive.final", "DELETE FROM directive");
	scratch_refused(&box, "directive.final", "UPDATE directive SET result = '{}'");
	free(answer);
}

/* What was to be done may have been done, or withdrawn, since the copy was made. */
static void
orders_end_with_a_restore(void **state)
{
	static const char restore[] =
	    "INSERT INTO restore (restored_at, seq, head, keep_grants, keep_factors)"
	    " SELECT now_ms(), seq, hash, 1, 1 FROM audit ORDER BY seq DESC LIMIT 1";

	(void)state;
	dials("old.example:443");
	assert_int_equal(takes_signed(GOOD, 1).taken, 1);
	sets(&box, restore);
	says(&box, "SELECT state || ' ' || (result ->> '$.code') FROM directive",
	    "failed directive.replayed");
	says(&box, "SELECT group_concat(endpoint) FROM pairing_dial", "old.example:443");
	assert_int_not_equal(rotates("a.example:1", "b.example:1"), -1);
	sets(&host, restore);
	says(&host, "SELECT state FROM host_order", "withdrawn");
	assert_int_equal(scratch_value(&host, "SELECT count(*) FROM host_order_due"), 0);
}

/* Take steps of retention at ${s} until nothing is due. */
static void
retain(struct scratch *s)
{
	int rc;

	store_acting(scratch_open(s, ROLE_KEEPER), "actor:keeper");
	while ((rc = retention_step(s->db)) == 1)
		;
	if (rc == -1)
		fail_msg("%s: %s", store_refusal(s->db)->code, store_refusal(s->db)->why);
}

#define DAY INT64_C(86400000)

/* CF-6: an order is done once also where its row went after its time, and the clock was set back
 * since; one that is open, that its Host has not heard the end of, or that is the newest, stays. */
static void
an_order_is_never_done_again(void **state)
{
	char *answer, *beat;

	(void)state;
	dials("old.example:443");
	answer = orders_answer(&box, host.key, GOOD, 1);
	assert_int_equal(takes(answer).taken, 1);
	assert_int_equal(
	    endpoint_reached(scratch_open(&box, ROLE_LINK), paired, "new.example:1"), 1);
	clock_fix(PERSON_MORNING + 366 * DAY);
	takes_signed(ORDERS_TERMS("rotate", ", 'endpoints', json_array('a.example:1')"), 2);
	/* It is over, and old, but its Host does not know. */
	retain(&box);
	says(&box, "SELECT group_concat(id) FROM directive", "1,2");
	sets(&box, "DELETE FROM directive_untold");
	scratch_refused(&box, "directive.final", "DELETE FROM directive WHERE id = 1");
	scratch_refused(&box, "directive.final", "DELETE FROM directive WHERE id = 2");
	retain(&box);
	says(&box, "SELECT group_concat(id) FROM directive", "2");
	says(&box,
	    "SELECT json_extract(body, '$.rows', '$.to') FROM audit WHERE entity = 'retention'",
	    "[1,1]");
	assert_int_equal(takes(answer).again, 1);
	/* The clock goes back to when that order was good. */
	clock_fix(PERSON_MORNING);
	assert_int_equal(takes(answer).again, 1);
	assert_int_equal(takes(answer).taken, 0);
	scratch_refused(&box, "retention.mark", "UPDATE directive_gone SET expires_to = 0");
	scratch_refused(&box, "retention.mark", "DELETE FROM directive_gone");
	/* The newest that is open stays, however old. */
	clock_fix(PERSON_MORNING + 2000 * DAY);
	retain(&box);
	says(&box, "SELECT id || state FROM directive", "2taken");
	free(answer);
	/* At the Host: one that is over goes, the newest stays, and one that waits does. */
	clock_fix(PERSON_MORNING);
	assert_int_equal(rotates("a.example:1", NULL), 1);
	assert_int_equal(rotates("b.example:1", NULL), 2);
	assert_int_equal(order_withdraw(scratch_open(&host, ROLE_PERSON), 1), 0);
	clock_fix(PERSON_MORNING + 364 * DAY);
	retain(&host);
	says(&host, "SELECT count(*) FROM host_order", "2");
	clock_fix(PERSON_MORNING + 400 * DAY);
	scratch_refused(&host, "order.final", "DELETE FROM host_order WHERE id = 2");
	retain(&host);
	says(&host, "SELECT group_concat(id) FROM host_order", "2");
	beat = beats();
	answer = hears(beat);
	assert_null(strstr(answer, "a.example:1"));
	free(answer);
	free(beat);
}

/* What is not signed by this pairing's Host, for this machine, for now, is not taken, and stays
 * told. */
static void
orders_of_others_are_refused(void **state)
{
	static const struct {
		const char *sql, *code;
	} wrong[] = {
	    {"SELECT replace((" ORDERS_TERMS(
		 "rotate", ", 'endpoints', json_array('a:1')") "), 'host-a', 'b')",
		"directive.other"},
	    {"SELECT replace((" ORDERS_TERMS(
		 "rotate", ", 'endpoints', json_array('a:1')") "), :box, '00')",
		"directive.other"},
	    {ORDERS_TERMS("rotate", ", 'endpoints', json_array('a:1'), 'more', 1"),
		"directive.form"},
	    {ORDERS_TERMS("rotate", ""), "directive.form"},
	    {ORDERS_TERMS("reboot", ""), "directive.form"},
	    {ORDERS_TERMS("contain", ", 'pid', 7"), "directive.form"},
	    {ORDERS_TERMS("contain", ", 'pid', 7.5, 'exe', NULL, 'agent', json('false')"),
		"directive.form"},
	    {ORDERS_TERMS("contain", ", 'pid', 7, 'exe', NULL, 'agent', json('false'), 'pid', 8"),
		"directive.form"},
	    {"SELECT 'no JSON' || :n || :box", "directive.form"},
	    {"SELECT json_array(:n, :box)", "directive.form"},
	    {"SELECT json_set((" ORDERS_TERMS("rotate",
		 ", 'endpoints', json_array('a:1')") "),"
						     " '$.issued_at', now_ms() + 3600000, '$.expires_at', now_ms() + 3700000)",
		"directive.time"},
	    {"SELECT json_set((" ORDERS_TERMS("rotate",
		 ", 'endpoints', json_array('a:1')") "),"
						     " '$.issued_at', now_ms() - 3600000)",
		"directive.time"},
	    {"SELECT json_set((" ORDERS_TERMS("rotate",
		 ", 'endpoints', json_array('a:1')") "),"
						     " '$.expires_at', now_ms() + 6048000000)",
		"directive.time"},
	};
	struct directive_taken taken;
	char *answer, want[160];
	size_t i;

	(void)state;
	sets(&box, "UPDATE setting SET value = 100 WHERE name = 'quarantine.strikes'");
	dials("old.example:443");
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		taken = takes_signed(wrong[i].sql, (int)i);
		if (taken.refused != 1 || taken.taken != 0)
			fail_msg("taken: %s", wrong[i].sql);
		snprintf(want, sizeof(want), "%d %s", (int)i + 1, wrong[i].code);
		says(&box, "SELECT max(id) || ' ' || code FROM refused", want);
	}
	answer = orders_answer(&box, box.key, GOOD, 77);
	assert_int_equal(takes(answer).refused, 1);
	free(answer);
	says(&box, "SELECT code FROM refused ORDER BY id DESC LIMIT 1", "directive.signature");
	answer = orders_answer(&box, host.key, GOOD, 78);
	clock_fix(PERSON_MORNING + 60000);
	assert_int_equal(takes(answer).refused, 1);
	free(answer);
	says(&box, "SELECT code FROM refused ORDER BY id DESC LIMIT 1", "directive.expired");
	assert_int_equal(scratch_value(&box, "SELECT count(*) FROM directive"), 0);
	says(&box, "SELECT group_concat(endpoint) FROM pairing_dial", "old.example:443");
}

/* An answer that has not its form changes nothing at all; nor does one to a pairing that is not
 * served. */
static void
what_is_no_answer_is_refused(void **state)
{
	static const char *const wrong[] = {"{", "[]", "{}", "{\"heard\":[],\"directives\":{}}",
	    "{\"heard\":[7],\"directives\":[]}", "{\"heard\":[\"short\"],\"directives\":[]}",
	    "{\"heard\":[],\"directives\":[7]}",
	    "{\"heard\":[],\"directives\":[{\"terms\":\"x\",\"signature\":\"short\"}]}"};
	struct directive_taken taken;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(directive_take(scratch_open(&box, ROLE_LINK), paired, wrong[i],
				     strlen(wrong[i]), &taken),
		    -1);
		person_says(&box, "directive.form");
	}
	memset(text, ' ', sizeof(text) - 1);
	assert_int_equal(
	    directive_take(scratch_open(&box, ROLE_LINK), paired, text, 262145, &taken), -1);
	person_says(&box, "directive.size");
	sets(&box, "UPDATE pairing SET state = 'revoked', ended_at = now_ms()");
	assert_int_equal(
	    directive_take(scratch_open(&box, ROLE_LINK), paired, "{}", 2, &taken), -1);
	person_says(&box, "pairing.inactive");
}

/* The newest rotation alone is tried; with the pairing ends what waits. */
static void
a_later_rotation_takes_its_place(void **state)
{
	(void)state;
	dials("old.example:443");
	takes_signed(
	    ORDERS_TERMS("rotate", ", 'endpoints', json_array('a.example:1', 'b.example:1')"), 1);
	takes_signed(GOOD, 2);
	says(&box, "SELECT group_concat(endpoint) FROM pairing_dial",
	    "new.example:1,old.example:443");
	says(&box, "SELECT state || ' ' || (result ->> '$.code') FROM directive WHERE id = 1",
	    "failed rotate.superseded");
	clock_fix(PERSON_MORNING + 1000);
	sets(&box, "UPDATE pairing SET renewed_at = now_ms()");
	assert_int_equal(scratch_value(&box, "SELECT count(*) FROM pairing_dial"), 0);
	dials("coded.example:443");
	takes_signed(GOOD, 3);
	sets(&box, "UPDATE pairing SET state = 'revoked', ended_at = now_ms()");
	assert_int_equal(scratch_value(&box, "SELECT count(*) FROM pairing_dial"), 0);
	says(&box, "SELECT group_concat(result ->> '$.code') FROM directive WHERE id > 1",
	    "rotate.superseded,pairing.inactive");
}

/* Each order is sent until it is answered, runs out or is withdrawn; a batch at a time. */
static void
orders_are_sent_until_answered(void **state)
{
	char *beat, *answer;

	(void)state;
	sets(&host, "UPDATE setting SET value = 2 WHERE name IN ('order.batch', 'order.waiting')");
	assert_int_equal(rotates("a.example:1", NULL), 1);
	assert_int_equal(rotates("b.example:1", NULL), 2);
	assert_int_equal(rotates("c.example:1", NULL), -1);
	person_says(&host, "order.busy");
	beat = beats();
	answer = hears(beat);
	assert_non_null(strstr(answer, "a.example:1"));
	free(answer);
	says(&host, "SELECT group_concat(state) FROM host_order", "sent,sent");
	assert_int_equal(order_withdraw(scratch_open(&host, ROLE_PERSON), 1), 0);
	assert_int_equal(order_withdraw(host.db, 1), -1);
	person_says(&host, "order.decided");
	assert_int_equal(order_withdraw(host.db, 9), -1);
	person_says(&host, "order.unknown");
	answer = hears(beat);
	assert_null(strstr(answer, "a.example:1"));
	assert_non_null(strstr(answer, "b.example:1"));
	free(answer);
	clock_fix(PERSON_MORNING + INT64_C(2) * 86400000);
	answer = hears(beat);
	assert_null(strstr(answer, "b.example:1"));
	free(answer);
	free(beat);
	scratch_refused(&host, "order.fixed", "UPDATE host_order SET terms = '{}' WHERE id = 2");
	sets(&host, "UPDATE host_box SET state = 'gone', gone_at = now_ms()");
	says(&host, "SELECT group_concat(state) FROM host_order", "withdrawn,withdrawn");
	assert_int_equal(rotates("d.example:1", NULL), -1);
	person_says(&host, "box.gone");
}

/* Results of another box's orders are not taken, nor a second result. */
static void
results_are_of_the_box_that_was_ordered(void **state)
{
	char *beat, *answer, nonce[33], said[600];

	(void)state;
	assert_int_equal(rotates("a.example:1", NULL), 1);
	beat = beats();
	answer = hears(beat);
	free(answer);
	free(beat);
	scratch_text(&host, "SELECT nonce FROM host_order", nonce, sizeof(nonce));
	sets(&host, "UPDATE host_order SET box_id = box_id"); /* no rule is in the way of nothing */
	snprintf(said, sizeof(said),
	    "{\"name\":\"a\",\"version\":\"1\",\"platform\":\"p\",\"state\":\"active\",\"enforcing\":{},"
	    "\"endpoint_save_pending\":false,\"orders\":[{\"order\":\"%s\",\"kind\":\"rotate\","
	    "\"state\":\"failed\",\"result\":{\"code\":\"x\"}},{\"order\":\"%032d\",\"kind\":\"rotate\","
	    "\"state\":\"done\",\"result\":{}}]}",
	    nonce, 7);
	assert_non_null(answer = hears(said));
	assert_non_null(strstr(answer, nonce)); /* heard */
	free(answer);
	says(&host, "SELECT state || ' ' || outcome FROM host_order", "answered failed");
	memcpy(strstr(said, "failed"), "refuse", 6);
	assert_null(hears(said));
	memcpy(strstr(said, "\"refuse\""), "\"lost\"  ", 8);
	assert_non_null(answer = hears(said));
	free(answer);
	says(&host, "SELECT state || ' ' || outcome FROM host_order", "answered failed");
}

/* Long results go a few at a time, so that every Host takes the beat, and all of them arrive. */
static void
long_results_go_a_few_at_a_time(void **state)
{
	char *beat, *answer;
	int i;

	(void)state;
	sets(&host, "UPDATE setting SET value = low WHERE name = 'beat.bytes'");
	sets(&box, "UPDATE setting SET value = high WHERE name IN ('beat.bytes', 'order.batch')");
	for (i = 1; i <= 3; i++) {
		takes_signed(
		    ORDERS_TERMS("contain", ", 'pid', 7, 'exe', NULL, 'agent', json('false')"), i);
		sets(&box,
		    "UPDATE directive SET state = 'failed', ended_at = now_ms(),"
		    " result = json_object('x', hex(zeroblob(30000))) WHERE state = 'taken'");
	}
	for (i = 3; i > 0; i--) {
		assert_int_equal(scratch_value(&box, "SELECT count(*) FROM directive_untold"), i);
		beat = beats();
		assert_true(strlen(beat) < 131072);
		answer = hears(beat);
		assert_non_null(answer);
		takes(answer);
		free(beat);
		free(answer);
	}
	assert_int_equal(scratch_value(&box, "SELECT count(*) FROM directive_untold"), 0);
}

/* What a box that observes has seen stands at its Host as rows; what is no row of it is none. */
static void
agents_stand_at_the_host(void **state)
{
	char *beat, *answer;

	(void)state;
	sets(&box,
	    "UPDATE setting SET value = 1 WHERE name = 'agents.observe';"
	    "INSERT INTO agent_scan (kind, began_at) VALUES ('declared', now_ms());"
	    "UPDATE agent_scan SET state = 'done', ended_at = now_ms(), result = '{\"servers\":"
	    "[{\"name\":\"files\",\"transport\":\"stdio\",\"what\":\"mcp-files\"}],"
	    "\"timed_out\":false,\"truncated\":false,\"unread\":0}';"
	    "INSERT INTO agent_scan (kind, of_id, began_at) VALUES ('processes', 1, now_ms());"
	    "UPDATE agent_scan SET state = 'done', ended_at = now_ms(), result = '{\"agents\":"
	    "[{\"pid\":7,\"agent\":\"codex\"},7],\"running\":[[0,8]],\"undeclared\":[]}'"
	    " WHERE kind = 'processes'");
	beat = beats();
	assert_non_null(answer = hears(beat));
	says(&host, "SELECT group_concat(box || ' ' || agent || ' ' || pid) FROM box_agents",
	    "box-a codex 7");
	says(&host,
	    "SELECT name || ' ' || state || ' ' || pid || ' ' || timed_out FROM box_tool_servers",
	    "files running 8 0");
	free(beat);
	free(answer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_beat_is_kept, made, end),
	    cmocka_unit_test_setup_teardown(a_beat_tells_of_no_other, made, end),
	    cmocka_unit_test_setup_teardown(bounds_are_reported, made, end),
	    cmocka_unit_test_setup_teardown(each_verb_is_reported, made, end),
	    cmocka_unit_test_setup_teardown(each_verb_has_its_probe, made, end),
	    cmocka_unit_test_setup_teardown(what_is_no_beat_is_refused, made, end),
	    cmocka_unit_test_setup_teardown(a_rotation_is_saved_when_it_was_reached, made, end),
	    cmocka_unit_test_setup_teardown(a_wrong_rotation_changes_nothing, made, end),
	    cmocka_unit_test_setup_teardown(an_order_is_taken_once, made, end),
	    cmocka_unit_test_setup_teardown(orders_end_with_a_restore, made, end),
	    cmocka_unit_test_setup_teardown(an_order_is_never_done_again, made, end),
	    cmocka_unit_test_setup_teardown(orders_of_others_are_refused, made, end),
	    cmocka_unit_test_setup_teardown(what_is_no_answer_is_refused, made, end),
	    cmocka_unit_test_setup_teardown(a_later_rotation_takes_its_place, made, end),
	    cmocka_unit_test_setup_teardown(orders_are_sent_until_answered, made, end),
	    cmocka_unit_test_setup_teardown(results_are_of_the_box_that_was_ordered, made, end),
	    cmocka_unit_test_setup_teardown(long_results_go_a_few_at_a_time, made, end),
	    cmocka_unit_test_setup_teardown(agents_stand_at_the_host, made, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
