/* test_mcp.c: the protocol that agents speak, message by message, over a Host's database. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "engine/worker/observe.h"
#include "net/host/mcp.h"
#include "tests/scratch.h"

#define HELLO                                                                                      \
	"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":" \
	"\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define RPC(id, method, params) \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":" params "}"
#define LOOK(id, args) \
	RPC(id, "tools/call", "{\"name\":\"vm.observe_folders\",\"arguments\":" args "}")
#define ASKING LOOK("7", "{\"path\":\"/usr\"}")

/* An agent, and the daemon's part played by the test. */
static struct scratch s;
static struct store *db;
static struct loop *loop;
static struct mcp *mcp;
static struct mcp_session *session;
static struct mcp_call *call; /* that asked last; NULL: gone */
static char *answer;          /* to the last message */
static char body[20000];      /* of the last ask */
static char said[262144];     /* all that was sent, a line each */
static int asks, forgotten, ended;
static int64_t cancelled; /* the last */

static void
on_ask(void *ctx, struct mcp_call *c, const char *text, size_t len)
{
	(void)ctx;
	assert_true(len < sizeof(body));
	memcpy(body, text, len + 1);
	call = c;
	asks++;
}

static void
on_forget(void *ctx, struct mcp_call *c)
{
	(void)ctx;
	(void)c;
	forgotten++;
}

static void
on_cancel(void *ctx, struct mcp_session *of, int64_t id)
{
	(void)ctx;
	(void)of;
	cancelled = id;
}

static void
on_send(
    void *ctx, struct mcp_session *to, struct mcp_call *c, const char *text, size_t len, bool last)
{
	(void)ctx;
	(void)to;
	(void)c;
	if (text != NULL) {
		assert_int_equal(strlen(text), len);
		assert_null(strchr(text, '\n'));
		snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", text);
	}
	if (last) {
		ended++;
		call = NULL;
	}
}

static const struct mcp_hooks hooks = {on_ask, on_forget, on_cancel, on_send};

static enum mcp_taken
take_n(const char *text, size_t len)
{
	struct mcp_call *made;
	enum mcp_taken taken;

	free(answer);
	taken = mcp_take(session, text, len, &answer, &made);
	if (taken == MCP_CALL)
		mcp_begin(made);
	return taken;
}

static enum mcp_taken
take(const char *text)
{
	return take_n(text, strlen(text));
}

/* What SQLite finds at ${path} of the JSON ${text}; "" for nothing. */
static const char *
at(const char *text, const char *path)
{
	static char found[65536];
	sqlite3_stmt *q;

	found[0] = '\0';
	if (text == NULL)
		return found;
	assert_int_equal(
	    sqlite3_prepare_v2(store_handle(db), "SELECT ?1 ->> ?2", -1, &q, NULL), SQLITE_OK);
	sqlite3_bind_text(q, 1, text, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 2, path, -1, SQLITE_STATIC);
	if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_text(q, 0) != NULL)
		snprintf(found, sizeof(found), "%s", (const char *)sqlite3_column_text(q, 0));
	sqlite3_finalize(q);
	return found;
}

/* ${text} is answered with the error ${code}. */
static void
fails(const char *text, const char *code)
{
	take(text);
	if (strcmp(at(answer, "$.error.code"), code) != 0)
		fail_msg("%s\n%s", text, answer == NULL ? "no answer" : answer);
}

static void
sql(const char *text)
{
	if (scratch_sql(&s, text) != 0)
		fail_msg("%s: %s", text, s.error);
}

static void
box_add(const char *name)
{
	char text[2048];

	snprintf(text, sizeof(text),
	    "INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
	    " VALUES ('%s', randomblob(32), now_ms(), now_ms() + 100000);"
	    "UPDATE invitation SET state = 'redeemed', ended_at = now_ms()"
	    " WHERE box_name = '%s' AND state = 'open';"
	    "INSERT INTO host_box (name, box_key, lane, peer_uid, invitation_id, paired_at)"
	    " SELECT '%s', randomblob(32), '/lane', 0, max(id), now_ms() FROM invitation;",
	    name, name, name);
	sql(text);
}

/* The row of the ask at hand, which goes on as the SQL ${rest} says; :id is its number. */
static void
row_make(const char *rest)
{
	char text[8192];

	snprintf(text, sizeof(text),
	    "INSERT INTO call (box_id, op, args, anew, nonce, asked_at)"
	    " VALUES (1, 'observe:folders', '[\"/usr\"]', %s, lower(hex(randomblob(16))),"
	    " now_ms()); UPDATE call SET state = 'sent', sent_at = now_ms()"
	    " WHERE id = (SELECT max(id) FROM call); %s",
	    at(body, "$.anew")[0] == '1' ? "1" : "0", rest);
	sql(text);
	mcp_asked(call, scratch_value(&s, "SELECT max(id) FROM call"), NULL);
}

#define FRAME(seq, json) "INSERT INTO call_output SELECT max(id), " #seq ", '" json "' FROM call;"
#define DONE(exit)                                                                   \
	"UPDATE call SET state = 'done', finished_at = now_ms(), exit_code = " #exit \
	" WHERE id = (SELECT max(id) FROM call);"

static void
serve(void)
{
	struct refusal r = {0};

	assert_non_null(db = store_open(&s.home, ROLE_READER, &s.keys, &r));
	assert_non_null(loop = loop_new());
	assert_non_null(mcp = mcp_new(db, loop, &hooks, NULL));
	assert_non_null(session = mcp_session_new(mcp, NULL));
	said[0] = body[0] = '\0';
	asks = forgotten = ended = 0;
	cancelled = 0;
	call = NULL;
	answer = NULL;
}

static int
setup_machine(void **state)
{
	(void)state;
	scratch_make(&s, HOME_BOX);
	serve();
	return 0;
}

static int
setup(void **state)
{
	(void)state;
	scratch_make(&s, HOME_HOST);
	sql("INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES ('12345678-1234-1234-1234-123456789abc', 1, 0, 0, 'bastion', 1);"
	    "INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (1, 'host', 1, '0', '/r', now_ms());"
	    "UPDATE instance SET state = 'ready', ready_at = now_ms();");
	box_add("vm");
	serve();
	return 0;
}

static int
setup_begun(void **state)
{
	setup(state);
	assert_int_equal(take(HELLO), MCP_ANSWER);
	assert_int_equal(
	    take("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"), MCP_NOTHING);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	free(answer);
	answer = NULL;
	if (session != NULL)
		mcp_session_free(session);
	mcp_free(mcp);
	loop_free(loop);
	store_close(db);
	scratch_drop(&s);
	return 0;
}

/*
 * Messages.
 */

/* MP-1: nothing but a ping comes before initialize; the revision is the agent's where we speak it,
 * else our latest; a session begins once. */
static void
a_session_begins_once(void **state)
{
	static const char old[] = RPC("1", "initialize",
	    "{\"protocolVersion\":\"1999-01-01\",\"capabilities\":{},\"clientInfo\":{}}");

	(void)state;
	fails(RPC("1", "tools/list", "{}"), "-32600");
	assert_int_equal(take(RPC("1", "ping", "{}")), MCP_ANSWER);
	assert_string_equal(answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	fails(RPC("1", "initialize", "{}"), "-32602");
	fails(RPC("1", "initialize", "{\"protocolVersion\":7}"), "-32602");
	assert_null(mcp_session_version(session));
	take(old);
	assert_string_equal(at(answer, "$.result.protocolVersion"), MCP_LATEST);
	assert_string_equal(at(answer, "$.result.serverInfo.name"), "bastion");
	assert_string_equal(at(answer, "$.result.capabilities.prompts"), "");
	assert_string_equal(at(answer, "$.result.capabilities.tools.listChanged"), "1");
	fails(old, "-32600");
	fails(RPC("1", "prompts/list", "{}"), "-32601");
	fails(RPC("1", "logging/setLevel", "{\"level\":\"info\"}"), "-32601");
}

/* MP-2: an id is a text or a whole number, and comes back as it was; every other type is refused,
 * with no id. */
static void
ids_are_texts_and_whole_numbers(void **state)
{
	static const char *const good[] = {"0", "-1", "9007199254740993",
	    "123456789012345678901234", "\"\"", "\"a\"", "\"\\u0001\\n\"", "\"1\"", "\"ä😀\""};
	static const char *const bad[] = {
	    "null", "true", "false", "[]", "[1]", "{}", "{\"a\":1}", "1.5", "1e3", "-0.0"};
	char text[1024], big[700];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}",
		    good[i]);
		assert_int_equal(take(text), MCP_ANSWER);
		snprintf(
		    text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", good[i]);
		assert_string_equal(answer, text);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}",
		    bad[i]);
		if (take(text) != MCP_WRONG)
			fail_msg("an id: %s", bad[i]);
		assert_non_null(strstr(answer, "\"id\":null"));
	}
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	snprintf(
	    text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"ping\"}", big);
	assert_int_equal(take(text), MCP_WRONG);
}

/* MP-3: what is no message is refused with the code that JSON-RPC has for it, batches too. */
static void
what_is_no_message_is_refused(void **state)
{
	static const struct {
		const char *text, *code;
	} cases[] = {
	    {"", "-32700"},
	    {"{", "-32700"},
	    {"nonsense", "-32700"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", "-32700"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":\"\\u0000\",\"method\":\"ping\"}", "-32700"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}", "-32700"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", "-32700"},
	    {"{} {}", "-32700"},
	    {"[]", "-32600"},
	    {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", "-32600"},
	    {"1", "-32600"},
	    {"null", "-32600"},
	    {"\"ping\"", "-32600"},
	    {"{}", "-32600"},
	    {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", "-32600"},
	    {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}", "-32600"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1}", "-32600"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", "-32600"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", "-32600"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":null}", "-32600"},
	};
	char deep[600];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(take(cases[i].text), MCP_WRONG);
		if (strcmp(at(answer, "$.error.code"), cases[i].code) != 0)
			fail_msg("%s: %s", cases[i].text, answer);
	}
	memset(deep, '[', 500);
	memset(deep + 500, '\0', 1);
	assert_int_equal(take(deep), MCP_WRONG);
	assert_int_equal(take_n("{}\0", 3), MCP_WRONG);
	/* Answers to what nobody asked, and notifications of any name, are nothing. */
	assert_int_equal(take("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"), MCP_NOTHING);
	assert_int_equal(
	    take("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}"),
	    MCP_NOTHING);
	assert_int_equal(take("{\"jsonrpc\":\"2.0\",\"method\":\"no/such\"}"), MCP_NOTHING);
	assert_int_equal(asks, 0);
}

/*
 * Tools.
 */

/* MP-4: each op of each box is a tool, in pages; a box that is gone has none, and a cursor of
 * another list is refused. */
static void
tools_come_in_pages(void **state)
{
	char text[512], cursor[200];
	int n, pages = 0, tools = 0;

	(void)state;
	box_add("a.b-1");
	box_add("gone");
	sql("UPDATE host_box SET state = 'gone', gone_at = now_ms() WHERE name = 'gone';"
	    "UPDATE setting SET value = 3 WHERE name = 'mcp.page';");
	snprintf(text, sizeof(text), "%s", RPC("1", "tools/list", "{}"));
	do {
		assert_int_equal(take(text), MCP_ANSWER);
		for (n = 0; n < 5; n++) {
			char path[64];

			snprintf(path, sizeof(path), "$.result.tools[%d].name", n);
			if (at(answer, path)[0] == '\0')
				break;
			assert_null(strstr(at(answer, path), "gone"));
			assert_int_equal(strspn(at(answer, path),
					     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					     "0123456789_.-"),
			    strlen(at(answer, path)));
		}
		tools += n;
		pages++;
		snprintf(cursor, sizeof(cursor), "%s", at(answer, "$.result.nextCursor"));
		snprintf(text, sizeof(text), RPC("1", "tools/list", "{\"cursor\":\"%s\"}"), cursor);
	} while (cursor[0] != '\0');
	assert_int_equal(
	    tools, 2 * scratch_value(&s, "SELECT count(*) FROM op WHERE name <> 'op:list'"));
	assert_int_equal(pages, (tools + 2) / 3);
	fails(RPC("1", "tools/list", "{\"cursor\":\"no\"}"), "-32602");
	fails(RPC("1", "tools/list", "{\"cursor\":7}"), "-32602");
	fails(RPC("1", "tools/list", "{\"cursor\":null}"), "-32602");
}

/* MP-5: the catalog's parameters are the ops' own: as many, as many needed, and the same where one
 * is not given; no two tools of a box have one name. */
static void
parameters_are_those_of_the_ops(void **state)
{
	static const char *const given[] = {
	    "/usr", "ssh.service", "443", "all", "ssh", "a/b/c", "r.example/i:1"};
	enum { GIVEN = sizeof(given) / sizeof(given[0]) };
	static struct observe_args canon;
	const struct observe_op *op;
	struct observe_word words[OBSERVE_ARGS_MAX];
	struct refusal r;
	char text[512], fallback[256];
	size_t i;
	int n, k;

	(void)state;
	for (i = 0; (op = observe_at(i)) != NULL; i++) {
		snprintf(
		    text, sizeof(text), "SELECT count(*) FROM op_param WHERE op = '%s'", op->name);
		assert_int_equal(scratch_value(&s, text), op->args_max);
		snprintf(text, sizeof(text),
		    "SELECT coalesce(sum(needed), 0) FROM op_param WHERE op = '%s'", op->name);
		assert_int_equal(scratch_value(&s, text), op->args_min);
		/* The first two words of these that the op takes. */
		for (k = 0; k < GIVEN * GIVEN; k++) {
			words[0] =
			    (struct observe_word){given[k / GIVEN], strlen(given[k / GIVEN])};
			words[1] =
			    (struct observe_word){given[k % GIVEN], strlen(given[k % GIVEN])};
			if (observe_check(op->name, op->args_min, words, &canon, &r) == 0)
				break;
		}
		assert_int_equal(observe_check(op->name, op->args_min, words, &canon, &r), 0);
		for (n = op->args_min; n < canon.n; n++) {
			snprintf(text, sizeof(text),
			    "SELECT fallback FROM op_param WHERE op = '%s' AND position = %d",
			    op->name, n + 1);
			assert_string_equal(
			    scratch_text(&s, text, fallback, sizeof(fallback)), canon.v[n]);
		}
		snprintf(
		    text, sizeof(text), "SELECT count(*) FROM op_result WHERE op = '%s'", op->name);
		assert_int_equal(scratch_value(&s, text), 1);
	}
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM op_param AS p WHERE NOT needed"
			      " AND fallback IS NULL AND position < (SELECT max(position)"
			      " FROM op_param WHERE op = p.op)"),
	    0);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) - count(DISTINCT name) FROM mcp_tool"), 0);
}

/* MP-6: arguments that do not fit are the agent's to mend: an answer with isError, and no ask. */
static void
arguments_that_do_not_fit_ask_nothing(void **state)
{
	static const char *const bad[] = {"{}", "{\"path\":7}", "{\"path\":null}",
	    "{\"path\":\"\"}", "{\"path\":[\"/usr\"]}", "{\"path\":{\"$\":1}}",
	    "{\"path\":\"/usr\",\"depth\":\"1\"}", "{\"path\":\"/usr\",\"depth\":0}",
	    "{\"path\":\"/usr\",\"depth\":4}", "{\"path\":\"/usr\",\"depth\":1.5}",
	    "{\"path\":\"/usr\",\"depth\":true}", "{\"path\":\"/usr\",\"depth\":1e99}",
	    "{\"path\":\"/usr\",\"depth\":99999999999999999999}",
	    "{\"path\":\"/usr\",\"x\\u001b[2J\":1}", "{\"depth\":1}", "{\"\":1,\"path\":\"/usr\"}"};
	char text[8192];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), LOOK("1", "%s"), bad[i]);
		assert_int_equal(take(text), MCP_ANSWER);
		if (strcmp(at(answer, "$.result.isError"), "1") != 0 ||
		    strcmp(at(answer, "$.result._meta.\"bastion/refusal\".code"), "op.args") != 0)
			fail_msg("%s: %s", bad[i], answer);
		assert_null(strchr(at(answer, "$.result.content[0].text"), 0x1b));
	}
	memset(text, 'a', sizeof(text));
	memcpy(text,
	    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
	    "\"vm.observe_folders\",\"arguments\":{\"path\":\"/",
	    strlen("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
		   "\"vm.observe_folders\",\"arguments\":{\"path\":\"/"));
	strcpy(text + 5000, "\"}}}");
	assert_int_equal(take(text), MCP_ANSWER);
	assert_string_equal(at(answer, "$.result.isError"), "1");
	fails(RPC("1", "tools/call", "{\"name\":\"vm.observe_none\"}"), "-32602");
	fails(RPC("1", "tools/call", "{\"name\":\"other.observe_folders\"}"), "-32602");
	fails(RPC("1", "tools/call", "{\"name\":7}"), "-32602");
	fails(RPC("1", "tools/call", "{}"), "-32602");
	fails(LOOK("1", "[]"), "-32602");
	assert_int_equal(asks, 0);
	assert_int_equal(mcp_session_calls(session), 0);
}

/* MP-7: words are asked as they are, control characters and all: the box's walls decide. What is
 * not given is left to the box. */
static void
words_are_asked_as_they_are(void **state)
{
	(void)state;
	assert_int_equal(take(LOOK("1", "{\"path\":\"/a\\u0001\\u001b\\n\\\"ä😀\"}")), MCP_CALL);
	assert_string_equal(at(body, "$.args[0]"), "/a\x01\x1b\n\"ä😀");
	assert_string_equal(at(body, "$.args[1]"), "");
	assert_string_equal(at(body, "$.box"), "vm");
	assert_string_equal(at(body, "$.op"), "observe:folders");
	assert_string_equal(at(body, "$.wait_ms"), "600000");
	assert_int_equal(take(LOOK("2", "{\"depth\":3,\"path\":\"/b\"}")), MCP_CALL);
	assert_string_equal(at(body, "$.args"), "[\"/b\",\"3\"]");
	assert_int_equal(
	    take(RPC("3", "tools/call", "{\"name\":\"vm.observe_logins\"}")), MCP_CALL);
	assert_string_equal(at(body, "$.args"), "[]");
}

/*
 * Calls.
 */

/* MP-8: a call is answered with text and with the result as an object, once. */
static void
a_result_is_text_and_an_object(void **state)
{
	(void)state;
	assert_int_equal(take(ASKING), MCP_CALL);
	row_make("");
	mcp_wake(mcp);
	assert_string_equal(said, "");
	sql(FRAME(1, "{\"o\":\"one\\n\"}") FRAME(2, "{\"o\":\"two\"}")
		FRAME(3, "{\"r\":{\"path\":\"/usr\",\"n\":[1]}}") DONE(0));
	mcp_wake(mcp);
	mcp_wake(mcp);
	assert_int_equal(ended, 1);
	assert_string_equal(at(said, "$.id"), "7");
	assert_string_equal(at(said, "$.result.isError"), "");
	assert_string_equal(at(said, "$.result.content[0].text"), "one\ntwo");
	assert_string_equal(at(said, "$.result.content[1].text"), "{\"path\":\"/usr\",\"n\":[1]}");
	assert_string_equal(at(said, "$.result.structuredContent.n"), "[1]");
	assert_int_equal(mcp_session_calls(session), 0);
}

/* MP-9: however it goes wrong, the agent reads what, why, and what to do. */
static void
failures_say_what_to_do(void **state)
{
	static const struct {
		const char *rows, *code, *text;
	} cases[] = {
	    {"UPDATE call SET state = 'refused', finished_at = now_ms(), code = 'approval.needed',"
	     " why = 'question 3', approval = 3 WHERE state = 'sent';",
		"approval.needed", "question 3 [approval.needed]\nhave a person"},
	    {"UPDATE call SET state = 'failed', finished_at = now_ms(), code = 'call.failed',"
	     " why = 'gone' WHERE state = 'sent';",
		"call.failed", "gone [call.failed]\ncheck"},
	    {"UPDATE call SET state = 'lost', finished_at = now_ms() WHERE state = 'sent';",
		"call.lost", "[call.lost]"},
	    {FRAME(1, "{\"q\":4}") FRAME(2, "{\"e\":{\"code\":\"approval.denied\",\"why\":\"no\"}}")
		    DONE(126),
		"approval.denied", "no [approval.denied]\na person said no"},
	    {FRAME(1, "{\"r\":{\"refused\":{\"code\":\"observe.folder\",\"why\":\"none\"}}}")
		    DONE(2),
		"observe.folder", "none [observe.folder]"},
	    {DONE(0), "call.failed", "without a result"},
	    {DONE(9), "call.failed", "exit 9"},
	    {FRAME(1, "{\"r\":5}") DONE(0), "call.failed", "without a result"},
	    {FRAME(1, "{\"r\":{},\"e\":{}}") DONE(0), "call.failed", "without a result"},
	    {FRAME(1, "[1]") FRAME(2, "{\"o\":[]}") FRAME(3, "{\"q\":\"x\"}") DONE(1),
		"call.failed", "exit 1"},
	    {FRAME(1, "{\"e\":{\"code\":[],\"why\":{}}}") DONE(1), "[]", "{} [[]]"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		said[0] = '\0';
		assert_int_equal(take(ASKING), MCP_CALL);
		row_make("");
		sql(cases[i].rows);
		mcp_wake(mcp);
		if (strcmp(at(said, "$.result._meta.\"bastion/refusal\".code"), cases[i].code) !=
			0 ||
		    strcmp(at(said, "$.result.isError"), "1") != 0 ||
		    at(said, "$.result.structuredContent")[0] != '\0' ||
		    strstr(at(said, "$.result.content[0].text"), cases[i].text) == NULL)
			fail_msg("%zu: %s", i, said);
	}
}

/* MP-10: an agent that gave a token is told of the question that its call waits for, with growing
 * numbers; one that gave none, or none that is one, just waits. */
static void
a_wait_is_told_as_progress(void **state)
{
	static const char *const tokens[] = {"\"t\"", "5", "null", "{}", "1.5"};
	char text[512];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		said[0] = '\0';
		snprintf(text, sizeof(text),
		    RPC("7", "tools/call",
			"{\"name\":\"vm.observe_folders\",\"arguments\":{\"path\":\"/usr\"},"
			"\"_meta\":{\"progressToken\":%s}}"),
		    tokens[i]);
		assert_int_equal(take(text), MCP_CALL);
		row_make(FRAME(1, "{\"q\":12}"));
		if (i < 2) {
			assert_string_equal(at(said, "$.method"), "notifications/progress");
			assert_string_equal(at(said, "$.params.progress"), "1");
			assert_string_equal(at(said, "$.params.progressToken"), i == 0 ? "t" : "5");
			assert_non_null(strstr(said, "a person at vm has to approve question 12"));
		} else {
			assert_string_equal(said, "");
		}
		mcp_wake(mcp);
		sql(FRAME(2, "{\"r\":{}}") DONE(0));
		mcp_wake(mcp);
	}
	assert_int_equal(ended, 5);
}

/* MP-11: where a grant with other arguments is held, the same ask puts the question; once. */
static void
other_arguments_become_a_question(void **state)
{
	(void)state;
	assert_int_equal(take(ASKING), MCP_CALL);
	assert_string_equal(at(body, "$.anew"), "0");
	row_make("UPDATE call SET state = 'refused', finished_at = now_ms(), code = 'grant.args',"
		 " why = 'other' WHERE state = 'sent';");
	assert_int_equal(asks, 2);
	assert_string_equal(at(body, "$.anew"), "1");
	assert_string_equal(said, "");
	row_make("UPDATE call SET state = 'refused', finished_at = now_ms(), code = 'grant.args',"
		 " why = 'other' WHERE state = 'sent';");
	assert_int_equal(asks, 2);
	assert_int_equal(ended, 1);
}

/* MP-12: only what the agent itself asked, under that very id, can it take back; then nothing is
 * answered. Before the ask has its row it is forgotten, after that cancelled. */
static void
a_call_is_taken_back(void **state)
{
	static const char cancel[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
				     "\"params\":{\"requestId\":7}}";
	struct mcp_session *other = mcp_session_new(mcp, NULL), *own = session;

	(void)state;
	assert_int_equal(take(ASKING), MCP_CALL);
	take("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
	     "\"requestId\":\"7\"}}");
	take("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{}}");
	take("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}");
	session = other;
	take(cancel);
	session = own;
	assert_int_equal(mcp_session_calls(session), 1);
	assert_int_equal(take(cancel), MCP_NOTHING);
	assert_int_equal(forgotten, 1);
	assert_int_equal(take(ASKING), MCP_CALL);
	row_make("");
	take(cancel);
	assert_int_equal(cancelled, 1);
	assert_int_equal(ended, 2);
	assert_string_equal(said, "");
	take(cancel);
	mcp_wake(mcp);
	/* The end of a session takes back what it waits for. */
	session = other;
	take(HELLO);
	assert_int_equal(take(ASKING), MCP_CALL);
	row_make("");
	mcp_session_free(other);
	session = own;
	assert_int_equal(cancelled, 2);
}

/* MP-13: an agent has so many calls open and no more, each under an id of its own. */
static void
calls_are_bounded(void **state)
{
	struct mcp_session *own = session;
	char text[256];
	int i;

	(void)state;
	sql("UPDATE setting SET value = 3 WHERE name = 'mcp.calls'");
	for (i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), LOOK("%d", "{\"path\":\"/usr\"}"), i);
		assert_int_equal(take(text), i < 3 ? MCP_CALL : MCP_ANSWER);
	}
	assert_string_equal(at(answer, "$.error.code"), "-32600");
	sql("UPDATE setting SET value = 10 WHERE name = 'mcp.calls'");
	fails(LOOK("1", "{\"path\":\"/usr\"}"), "-32600");
	assert_int_equal(mcp_session_calls(session), 3);
	/* And all of them together, so that persons have room. */
	sql("UPDATE setting SET value = 4 WHERE name = 'mcp.calls_all'");
	session = mcp_session_new(mcp, NULL);
	take(HELLO);
	assert_int_equal(take(LOOK("1", "{\"path\":\"/usr\"}")), MCP_CALL);
	fails(LOOK("2", "{\"path\":\"/usr\"}"), "-32600");
	mcp_session_free(session);
	session = own;
}

/* MP-14: the text of an answer is bounded, and what was cut is said. */
static void
a_long_text_is_cut(void **state)
{
	(void)state;
	sql("UPDATE setting SET value = 4096 WHERE name = 'mcp.answer'");
	assert_int_equal(take(ASKING), MCP_CALL);
	row_make("INSERT INTO call_output SELECT max(id), 1, json_object('o', printf('%.*c', 9000,"
		 " 'x')) FROM call;" FRAME(2, "{\"r\":{}}") DONE(0));
	assert_int_equal(strlen(at(said, "$.result.content[0].text")),
	    4096 + strlen("\n[cut: 4904 more characters]"));
	assert_non_null(strstr(said, "[cut: 4904 more characters]"));
}

/* MP-15: agents are told when there are other tools, and only then. */
static void
new_tools_are_told(void **state)
{
	(void)state;
	mcp_wake(mcp);
	assert_string_equal(said, "");
	box_add("b");
	mcp_wake(mcp);
	mcp_wake(mcp);
	assert_string_equal(
	    said, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n");
	said[0] = '\0';
	sql("UPDATE host_box SET state = 'gone', gone_at = now_ms() WHERE name = 'b'");
	mcp_wake(mcp);
	assert_non_null(strstr(said, "list_changed"));
}

/*
 * Ops that were added at a box.
 */

/* The box vm beats, and tells that its list of added ops is ${lines}, SQL of a text. */
static void
beat(const char *lines)
{
	char text[16384];

	snprintf(text, sizeof(text),
	    "INSERT INTO host_beat (box_id, beat, at) VALUES (1, json_object('name', 'vm', 'version',"
	    " '1', 'platform', 'l', 'state', 'active', 'enforcing', json('{}'),"
	    " 'endpoint_save_pending', json('false'), 'orders', json('[]'), 'catalog',"
	    " lower(hex(sha256(%s)))), now_ms())",
	    lines);
	sql(text);
}

/* The Host has asked for it, and the box answers with ${lines}, SQL of texts, as if they were of
 * the digest of ${all}. */
static void
list_answers(const char *lines, const char *all)
{
	char text[32768];

	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM call WHERE state = 'asked'"
					   " AND op = 'op:list' AND args = '[]' AND NOT anew"),
	    1);
	snprintf(text, sizeof(text),
	    "UPDATE call SET state = 'sent', sent_at = now_ms() WHERE state = 'asked';"
	    "WITH l (seq, text) AS (SELECT row_number() OVER (), column1 FROM (VALUES %s))"
	    " INSERT INTO call_output SELECT (SELECT max(id) FROM call), seq,"
	    "   json_object('o', text) FROM l;"
	    "INSERT INTO call_output SELECT id, last_seq + 1, json_object('r', json_object('ops',"
	    "   last_seq, 'digest', lower(hex(sha256(%s))))) FROM call WHERE state = 'sent';" DONE(
		0),
	    lines, all);
	sql(text);
}

#define PARAM(more) \
	"{\"name\":\"a\",\"type\":\"string\",\"needed\":true,\"low\":1,\"high\":9" more "}"
#define SITE                                                                                   \
	"'{\"op\":\"run:site\",\"summary\":\"build \\\"it\",\"params\":[{\"name\":\"branch\"," \
	"\"type\":\"string\",\"needed\":true,\"low\":1,\"high\":8,\"in\":[\"one\",\"two\"],"   \
	"\"doc\":\"what\"},{\"name\":\"notes\",\"type\":\"string\",\"needed\":true,\"low\":1," \
	"\"high\":99,\"like\":\"/**\",\"doc\":\"from where\"},{\"name\":\"times\",\"type\":"   \
	"\"integer\",\"needed\":false,\"low\":1,\"high\":5,\"doc\":\"how often\"}]}'||char(10)"
#define PLAIN "'{\"op\":\"run:plain\",\"summary\":\"do it\",\"params\":[]}'||char(10)"

static const char *
tool_of(const char *path)
{
	char where[96];
	int n;

	take(RPC("1", "tools/list", "{}"));
	for (n = 0;; n++) {
		snprintf(where, sizeof(where), "$.result.tools[%d].name", n);
		if (at(answer, where)[0] == '\0')
			return "";
		if (strcmp(at(answer, where), "vm.run_site") == 0)
			break;
	}
	snprintf(where, sizeof(where), "$.result.tools[%d].%s", n, path);
	return at(answer, where);
}

/* MP-19: an op that was added at a box is a tool: its schema is what its manifest says, its words
 * are asked in order, and agents are told when it comes and goes.  What runs then is answered. */
static void
added_ops_are_tools(void **state)
{
	(void)state;
	assert_string_equal(tool_of("name"), "");
	beat(SITE);
	list_answers("(" SITE ")", SITE);
	mcp_wake(mcp);
	assert_non_null(strstr(said, "list_changed"));
	assert_string_equal(tool_of("inputSchema.required"), "[\"branch\",\"notes\"]");
	assert_string_equal(tool_of("inputSchema.additionalProperties"), "0");
	assert_string_equal(tool_of("inputSchema.properties.branch.enum"), "[\"one\",\"two\"]");
	assert_string_equal(tool_of("inputSchema.properties.branch.maxLength"), "8");
	assert_string_equal(
	    tool_of("inputSchema.properties.notes.description"), "from where (like /**)");
	assert_string_equal(tool_of("inputSchema.properties.times.type"), "integer");
	assert_string_equal(tool_of("inputSchema.properties.times.maximum"), "5");
	assert_string_equal(tool_of("annotations.readOnlyHint"), "0");
	assert_string_equal(tool_of("annotations.destructiveHint"), "1");
	assert_non_null(strstr(tool_of("description"), "describes it as \"build 'it\""));

	take(RPC("2", "tools/call",
	    "{\"name\":\"vm.run_site\",\"arguments\":{\"branch\":\"no\",\"notes\":\"/n\"}}"));
	assert_non_null(strstr(at(answer, "$.result.content[0].text"), "branch is one of"));
	assert_int_equal(asks, 0);
	assert_int_equal(
	    take(RPC("3", "tools/call",
		"{\"name\":\"vm.run_site\",\"arguments\":{\"times\":2,\"notes\":\"/n\","
		"\"branch\":\"two\"}}")),
	    MCP_CALL);
	assert_string_equal(at(body, "$.op"), "run:site");
	assert_string_equal(at(body, "$.args"), "[\"two\",\"/n\",\"2\"]");

	/* It goes while it runs. */
	row_make("");
	said[0] = '\0';
	beat("''");
	mcp_wake(mcp);
	assert_non_null(strstr(said, "list_changed"));
	assert_string_equal(tool_of("name"), "");
	fails(RPC("4", "tools/call",
		  "{\"name\":\"vm.run_site\",\"arguments\":{\"branch\":\"one\",\"notes\":\"/n\"}}"),
	    "-32602");
	sql(FRAME(1, "{\"r\":{\"applied\":1}}") DONE(0));
	mcp_wake(mcp);
	assert_non_null(strstr(said, "\"structuredContent\":{\"applied\":1}"));
	assert_int_equal(ended, 1);
}

/* MP-20: a list of added ops is the word of a box that may be hostile: what is not in the form is
 * left out, hides no other op, and reaches no model; what has another digest than was said, or is
 * too much, is not taken at all; and a box cannot have itself asked all the time. */
static void
a_hostile_catalog_is_held(void **state)
{
#define ODD(op, summary, params) \
	"('{\"op\":\"" op "\",\"summary\":\"" summary "\",\"params\":[" params "]}'||char(10)),"
#define WITH(more) ODD("run:odd", "x", PARAM(more))
	static const char odd[] = ODD("observe:folders", "x", "") ODD("run:../x", "x", "") ODD(
	    "run:odd", "", "") ODD("run:odd", "a\\u001b[2J", "") ODD("run:odd", "a\\u202eb",
	    "") ODD("run:odd", "a\\u200bb", "") ODD("run:odd", "a\\u0000b", "") ODD("run:odd",
	    "a\\u009bb",
	    "") ODD("run:odd", "a\\udb40\\udc41b", "") ODD("run:odd", "a\\nb", "") ODD("run:odd",
	    "x", "7") ODD("run:odd", "x", "\"x\"") ODD("run:odd", "x", "null,{}") ODD("run:odd",
	    "x", PARAM("")) WITH(",\"doc\":\"\\u2028\"") WITH(",\"doc\":\"d\",\"like\":\"[\"")
	    WITH(",\"doc\":\"d\",\"in\":[]") WITH(",\"doc\":\"d\",\"in\":[7]") WITH(
		",\"doc\":\"d\"},{\"name\":\"a\",\"type\":\"string\","
		"\"needed\":true,\"low\":1,\"high\":9,\"doc\":\"d\"") "('no JSON'),('[1]'),(" PLAIN
								      "),(" PLAIN ")";
	static char all[16384];

	(void)state;
	/* The digest is of all that was said. */
	snprintf(all, sizeof(all), "(SELECT group_concat(column1, '') FROM (VALUES %s))", odd);
	beat(all);
	list_answers(odd, all);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM box_op"), 1);
	assert_int_equal(scratch_value(&s, "SELECT left_out FROM box_catalog"), 22);
	take(RPC("1", "tools/list", "{}"));
	assert_non_null(strstr(answer, "vm.run_plain"));
	assert_null(strstr(answer, "run_odd"));

	/* Not all the time, whatever it beats. */
	sql("UPDATE box_catalog SET due_at = now_ms() + 60000");
	beat(SITE);
	beat(PLAIN);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM call"), 1);
	sql("UPDATE box_catalog SET due_at = 0");
	/* Another digest than it said: what was there before stays, and it is asked seldom. */
	beat(SITE);
	assert_int_equal(
	    scratch_value(&s, "SELECT now_ms() - due_at BETWEEN 9 * 5000 - 5000 AND 9 * 5000"
			      " FROM box_catalog"),
	    1);
	list_answers("(" SITE ")", PLAIN);
	assert_int_equal(
	    scratch_value(&s, "SELECT count(*) FROM box_op WHERE op = 'run:plain'"), 1);
	assert_int_equal(scratch_value(&s, "SELECT why GLOB '*digest*' FROM box_catalog"), 1);
	beat(SITE);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM call"), 2);
	/* Too many. */
	sql("UPDATE setting SET value = 1 WHERE name = 'catalog.ops';"
	    "UPDATE box_catalog SET due_at = 0");
	beat("'x'");
	sql("UPDATE call SET state = 'sent', sent_at = now_ms() WHERE state = 'asked'");
	sql(FRAME(1, "{\"o\":\"x\"}") FRAME(2, "{\"o\":\"x\"}"));
	scratch_refused(&s, "catalog.size",
	    "INSERT INTO call_output SELECT max(id), 3, '{\"o\":\"x\"}'"
	    " FROM call");
	sql("UPDATE call SET state = 'failed', finished_at = now_ms(), code = 'catalog.size',"
	    " why = 'too much' WHERE state = 'sent'");
	assert_int_equal(scratch_value(&s, "SELECT why = 'too much' FROM box_catalog"), 1);
	/* What a beat says of it is a digest, or is not heard. */
	sql("INSERT INTO host_beat (box_id, beat, at) SELECT box_id, json_set(beat, '$.catalog', 7),"
	    " now_ms() FROM host_beat");
	/* A box that is gone has none. */
	sql("UPDATE host_box SET state = 'gone', gone_at = now_ms()");
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM box_op, box_catalog"), 0);
}

/*
 * Resources.
 */

/* MP-16: every resource that is listed reads as JSON; what is not one is missing, however it is
 * spelt; no secret column is shown. */
static void
resources_are_read(void **state)
{
	static const char *const none[] = {"", "bastion://", "bastion://grants", "bastion://Boxes",
	    "bastion://calls/", "bastion://calls/0", "bastion://calls/2", "bastion://calls/1 ",
	    "bastion://calls/01", "bastion://calls/../boxes", "file:///etc/passwd",
	    "bastion://calls/1\\u001b"};
	char path[64], uri[128], text[512];
	size_t i;
	int n;

	(void)state;
	sql("INSERT INTO mcp_token (label, digest, created_at) VALUES ('x',"
	    " x'e1e2e3e4e5e6e7e8e1e2e3e4e5e6e7e8e1e2e3e4e5e6e7e8e1e2e3e4e5e6e7e8', now_ms())");
	assert_int_equal(take(ASKING), MCP_CALL);
	row_make(FRAME(1, "{\"r\":{\"a\":1}}") DONE(0));
	for (n = 0;; n++) {
		take(RPC("1", "resources/list", "{}"));
		snprintf(path, sizeof(path), "$.result.resources[%d].uri", n);
		snprintf(uri, sizeof(uri), "%s", at(answer, path));
		if (uri[0] == '\0')
			break;
		snprintf(text, sizeof(text), RPC("1", "resources/read", "{\"uri\":\"%s\"}"), uri);
		take(text);
		assert_string_equal(at(answer, "$.result.contents[0].uri"), uri);
		assert_true(strchr("[{", at(answer, "$.result.contents[0].text")[0]) != NULL);
		assert_null(strcasestr(answer, "e1e2e3e4"));
	}
	assert_int_equal(n, 6);
	take(RPC("1", "resources/templates/list", "{}"));
	assert_string_equal(
	    at(answer, "$.result.resourceTemplates[0].uriTemplate"), "bastion://calls/{id}");
	take(RPC("1", "resources/read", "{\"uri\":\"bastion://calls/1\"}"));
	assert_non_null(
	    strstr(at(answer, "$.result.contents[0].text"), "\"frames\":[{\"r\":{\"a\":1}}]"));
	for (i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		snprintf(
		    text, sizeof(text), RPC("1", "resources/read", "{\"uri\":\"%s\"}"), none[i]);
		fails(text, "-32002");
	}
	fails(RPC("1", "resources/read", "{}"), "-32602");
	fails(RPC("1", "resources/read", "{\"uri\":7}"), "-32602");
}

/* MP-17: a machine that is no Host offers its own views, and no tool. */
static void
a_machine_offers_views(void **state)
{
	(void)state;
	take(HELLO);
	assert_string_equal(at(answer, "$.result.capabilities.tools"), "");
	take(RPC("1", "tools/list", "{}"));
	assert_string_equal(at(answer, "$.result.tools"), "[]");
	take(RPC("1", "resources/read", "{\"uri\":\"bastion://grants\"}"));
	assert_string_equal(at(answer, "$.result.contents[0].text"), "[]");
	take(RPC("1", "resources/templates/list", "{}"));
	assert_string_equal(at(answer, "$.result.resourceTemplates"), "[]");
	fails(RPC("1", "resources/read", "{\"uri\":\"bastion://boxes\"}"), "-32002");
}

/*
 * Tokens.
 */

/* MP-18: a token's digest is kept and never the token; a label is plain and live once; what was
 * dropped stays dropped. */
static void
tokens_are_kept_as_digests(void **state)
{
	static const char *const labels[] = {"''", "'a b'", "'a' || char(10)", "char(27)", "'ä'",
	    "printf('%.*c', 65, 'a')", "'a' || char(0)"};
	char text[512];
	size_t i;

	(void)state;
	sql("INSERT INTO mcp_token (label, digest, created_at) VALUES ('a', randomblob(32), 1)");
	scratch_refused(&s, "mcp.label",
	    "INSERT INTO mcp_token (label, digest, created_at) VALUES ('a', randomblob(32), 1)");
	for (i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		snprintf(text, sizeof(text),
		    "INSERT INTO mcp_token (label, digest, created_at)"
		    " VALUES (%s, randomblob(32), 1)",
		    labels[i]);
		scratch_refused(&s, "mcp.label", text);
	}
	scratch_refused(&s, "mcp.fixed",
	    "UPDATE mcp_token SET digest = randomblob(32),"
	    " state = 'dropped', dropped_at = 2");
	scratch_refused(&s, "mcp.kept", "DELETE FROM mcp_token");
	sql("UPDATE mcp_token SET state = 'dropped', dropped_at = 2");
	scratch_refused(
	    &s, "mcp.final", "UPDATE mcp_token SET state = 'active', dropped_at = NULL");
	scratch_refused(&s, "mcp.final", "UPDATE mcp_token SET label = 'b'");
	sql("INSERT INTO mcp_token (label, digest, created_at) VALUES ('a', randomblob(32), 3)");
}

int
main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, setup, teardown)
#define BEGUN(name) cmocka_unit_test_setup_teardown(name, setup_begun, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(a_session_begins_once),
	    BEGUN(ids_are_texts_and_whole_numbers),
	    BEGUN(what_is_no_message_is_refused),
	    BEGUN(tools_come_in_pages),
	    BEGUN(parameters_are_those_of_the_ops),
	    BEGUN(arguments_that_do_not_fit_ask_nothing),
	    BEGUN(words_are_asked_as_they_are),
	    BEGUN(a_result_is_text_and_an_object),
	    BEGUN(failures_say_what_to_do),
	    BEGUN(a_wait_is_told_as_progress),
	    BEGUN(other_arguments_become_a_question),
	    BEGUN(a_call_is_taken_back),
	    BEGUN(calls_are_bounded),
	    BEGUN(a_long_text_is_cut),
	    BEGUN(new_tools_are_told),
	    BEGUN(added_ops_are_tools),
	    BEGUN(a_hostile_catalog_is_held),
	    BEGUN(resources_are_read),
	    cmocka_unit_test_setup_teardown(a_machine_offers_views, setup_machine, teardown),
	    TEST(tokens_are_kept_as_digests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
