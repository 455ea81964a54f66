/* mcp.c: JSON-RPC taken apart and built by SQLite; tools that are asks, resources that are views.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/host/mcp.h"
#include "net/host/mcp_view.h"
#include "net/http/json.h"

/* JSON-RPC 2.0 §5.1, and the one that MCP adds. */
#define ERROR_PARSE   (-32700)
#define ERROR_REQUEST (-32600)
#define ERROR_METHOD  (-32601)
#define ERROR_PARAMS  (-32602)
#define ERROR_INSIDE  (-32603)
#define ERROR_MISSING (-32002) /* no such resource */

/* What kind of message it is, and its parts.  An id is a text or a whole number (MCP, basic). */
static const char MESSAGE[] =
    "SELECT CASE WHEN json_type(:m) = 'array' THEN 'batches are not part of this protocol'"
    "  WHEN json_type(:m) <> 'object' THEN 'a message is an object'"
    "  WHEN :m ->> '$.jsonrpc' IS NOT '2.0' THEN 'jsonrpc is \"2.0\"'"
    "  WHEN json_type(:m, '$.id') NOT IN ('text', 'integer') OR length(:m -> '$.id') > :max"
    "    THEN 'an id is a text or a whole number, of at most ' || :max || ' characters'"
    "  WHEN json_type(:m, '$.method') IS NULL THEN iif(json_type(:m, '$.result') IS NULL"
    "    AND json_type(:m, '$.error') IS NULL, 'a message has a method or a result', NULL)"
    "  WHEN json_type(:m, '$.method') <> 'text' THEN 'a method is a text'"
    "  WHEN json_type(:m, '$.params') NOT IN ('object') THEN 'params are an object' END,"
    " :m -> '$.id', :m ->> '$.method'";

static const char FAILURE[] = "SELECT json_object('jsonrpc', '2.0', 'id', json(:id), 'error',"
			      "  json_patch(json_object('code', :code, 'message', :why),"
			      "             json_object('data', json(:data))))";

/* The revision that both speak: the agent's if we do, else our latest. */
static const char INITIALIZE[] =
    "SELECT v, json_object('protocolVersion', v,"
    "  'capabilities', json_patch('{\"resources\":{}}', iif(role = 'host',"
    "    '{\"tools\":{\"listChanged\":true}}', '{}')),"
    "  'serverInfo', json_object('name', 'bastion', 'title', 'bastion ' || role || ' ' || name,"
    "    'version', :version),"
    "  'instructions', iif(role = 'host',"
    "    'Each tool is one operation on one machine, named MACHINE.OPERATION. A person at the"
    " machine approves what is asked; a call that nobody approved yet waits for that, and says so as"
    " progress. When it was not answered in time, call again later with the same arguments. A grant"
    " is for exactly the arguments that were approved. bastion://calls has earlier answers.',"
    "    'This is a machine that Hosts ask. It offers views of what they may do and did; operations"
    " are asked at a Host.'))"
    " FROM (SELECT role, name, iif(:m ->> '$.params.protocolVersion'"
    "    IN ('2025-11-25', '2025-06-18'), :m ->> '$.params.protocolVersion', :latest) AS v FROM box)"
    " WHERE json_type(:m, '$.params.protocolVersion') = 'text'"
    "   AND json_type(:m, '$.params.capabilities') = 'object'"
    "   AND json_type(:m, '$.params.clientInfo') = 'object'";

/* One page, and the name that the next begins behind. */
static const char TOOLS[] =
    "WITH page AS (SELECT name FROM mcp_tool"
    "    WHERE name > coalesce(:m ->> '$.params.cursor', '') ORDER BY name"
    "    LIMIT 1 + (SELECT value FROM setting WHERE name = 'mcp.page')),"
    "  shown AS (SELECT name FROM page ORDER BY name"
    "    LIMIT (SELECT value FROM setting WHERE name = 'mcp.page'))"
    " SELECT json_patch(json_object('tools', (SELECT json_group_array(json(tool)) FROM"
    "      (SELECT tool FROM mcp_tool WHERE name IN (SELECT name FROM shown) ORDER BY name))),"
    "    json_object('nextCursor', iif((SELECT count(*) FROM page) > (SELECT count(*) FROM shown),"
    "      (SELECT max(name) FROM shown), NULL)))"
    " WHERE coalesce(json_type(:m, '$.params.cursor'), 'text') = 'text'"
    "   AND (json_type(:m, '$.params.cursor') IS NULL"
    "        OR EXISTS (SELECT 1 FROM mcp_tool WHERE name = :m ->> '$.params.cursor'))";

static const char TOOL[] =
    "SELECT box, op, coalesce(:m -> '$.params.arguments', '{}'),"
    "  iif(json_type(:m, '$.params._meta.progressToken') IN ('text', 'integer')"
    "      AND length(:m -> '$.params._meta.progressToken') <= :max,"
    "      :m -> '$.params._meta.progressToken', NULL), of"
    " FROM mcp_tool WHERE name = :m ->> '$.params.name'"
    "  AND coalesce(json_type(:m, '$.params.arguments'), 'object') = 'object'";

/* The first thing that is wrong with the arguments; control characters never reach the text. */
static const char WRONG_ARGS[] =
    "SELECT 'there is no argument ' || json_quote(substr(a.key, 1, 64)) FROM json_each(:args) AS a"
    "  WHERE a.key NOT IN (SELECT name FROM param_asked WHERE of = :of AND op = :op)"
    " UNION ALL SELECT p.name || ' is needed: ' || p.doc FROM param_asked AS p"
    "  WHERE p.of = :of AND p.op = :op AND p.needed"
    "    AND p.name NOT IN (SELECT key FROM json_each(:args))"
    " UNION ALL SELECT p.name || ' is ' || iif(p.type = 'string', 'a text of ', 'a whole number from ')"
    "    || p.low || ' to ' || p.high || iif(p.type = 'string', ' characters: ', ': ') || p.doc"
    "  FROM param_asked AS p JOIN json_each(:args) AS a ON a.key = p.name"
    "  WHERE p.of = :of AND p.op = :op AND CASE p.type"
    "    WHEN 'string' THEN a.type <> 'text' OR length(a.value) NOT BETWEEN p.low AND p.high"
    "    ELSE a.type <> 'integer' OR a.value NOT BETWEEN p.low AND p.high END"
    " UNION ALL SELECT p.name || ' is one of ' || p.choices || ': ' || p.doc"
    "  FROM param_asked AS p JOIN json_each(:args) AS a ON a.key = p.name"
    "  WHERE p.of = :of AND p.op = :op AND p.choices IS NOT NULL"
    "    AND a.value NOT IN (SELECT value FROM json_each(p.choices))"
    " LIMIT 1";

/* Words in order, up to the last that was given. */
static const char ASK[] =
    "SELECT json_object('box', :box, 'op', :op, 'args', (SELECT json_group_array(word) FROM"
    "    (SELECT coalesce(CAST(a.value AS TEXT), p.fallback) AS word"
    "       FROM param_asked AS p LEFT JOIN json_each(:args) AS a ON a.key = p.name"
    "      WHERE p.of = :of AND p.op = :op"
    "        AND p.position <= (SELECT max(position) FROM param_asked"
    "          WHERE of = :of AND op = :op AND name IN (SELECT key FROM json_each(:args)))"
    "      ORDER BY p.position)),"
    "  'anew', json(iif(:anew, 'true', 'false')),"
    "  'wait_ms', (SELECT value FROM setting WHERE name = 'mcp.wait_ms'))";

/* How a call stands: ended, and the question that it waits for, which is the box's first frame. */
static const char STANDS[] =
    "SELECT c.finished_at IS NOT NULL,"
    "  coalesce((SELECT frame ->> '$.q' FROM call_output WHERE call_id = c.id AND seq = 1"
    "             AND json_type(frame, '$.q') = 'integer'), 0),"
    "  c.state = 'refused' AND c.code = 'grant.args' AND NOT c.anew"
    " FROM call AS c WHERE c.id = :id";

/*
 * The answer.  What went wrong stands in the call, in a frame {"e":…}, or as "refused" in the
 * result.  A result that is no object, or none where one is promised, is not done.
 */
static const char RESULT[] =
    "WITH f AS (SELECT seq, frame FROM call_output WHERE call_id = :id),"
    " a AS (SELECT c.state, c.exit_code, c.code, c.why, c.advice, c.approval, c.retry_at,"
    "   (SELECT group_concat(text, '') FROM (SELECT frame ->> '$.o' AS text FROM f"
    "      WHERE json_type(frame, '$.o') = 'text' ORDER BY seq)) AS o,"
    "   (SELECT frame -> '$.r' FROM f WHERE json_type(frame, '$.r') = 'object'"
    "      ORDER BY seq DESC LIMIT 1) AS r,"
    "   (SELECT frame -> '$.e' FROM f WHERE json_type(frame, '$.e') = 'object'"
    "      ORDER BY seq DESC LIMIT 1) AS e,"
    "   EXISTS (SELECT 1 FROM op_result WHERE op = c.op) AS promised"
    "   FROM call AS c WHERE c.id = :id),"
    " b AS (SELECT iif(length(o) > :max, substr(o, 1, :max) || char(10)"
    "     || '[cut: ' || (length(o) - :max) || ' more characters]', nullif(o, '')) AS o, r,"
    "   state = 'done' AND exit_code = 0 AND e IS NULL AND (r IS NOT NULL OR NOT promised) AS good,"
    "   approval, retry_at,"
    "   coalesce(iif(state = 'lost', 'call.lost', code), e ->> '$.code', r ->> '$.refused.code',"
    "     'call.failed') AS code,"
    "   coalesce(why, iif(state = 'lost', 'the ask was open when the Host stopped', NULL),"
    "     e ->> '$.why', r ->> '$.refused.why', r ->> '$.unreadable', iif(exit_code = 0,"
    "       'the box answered without a result', 'the op ended with exit ' || exit_code)) AS why,"
    "   coalesce(advice, e ->> '$.advice') AS advice FROM a),"
    " d AS (SELECT b.*, coalesce(f.advice, b.advice) AS next FROM b"
    "   LEFT JOIN refusal AS f ON f.code = b.code)"
    " SELECT iif(good,"
    "   json_patch(json_object('content', (SELECT json_group_array(json_object('type', 'text',"
    "       'text', text)) FROM (SELECT o AS text WHERE o IS NOT NULL UNION ALL SELECT r"
    "       WHERE r IS NOT NULL))), json_object('structuredContent', json(r))),"
    "   json_object('content', (SELECT json_group_array(json_object('type', 'text', 'text', text))"
    "       FROM (SELECT why || ' [' || code || ']' || coalesce(char(10) || next, '') AS text"
    "             UNION ALL SELECT o WHERE o IS NOT NULL)),"
    "     'isError', json('true'),"
    "     '_meta', json_object('bastion/refusal', json_object('code', code, 'why', why,"
    "       'advice', next, 'approval', approval, 'retry_at', retry_at))))"
    " FROM d";

/* The answer of a call that has no row. */
static const char REFUSED[] =
    "SELECT json_object('content', json_array(json_object('type', 'text', 'text',"
    "    :why || ' [' || :code || ']' || coalesce(char(10) || next, ''))),"
    "  'isError', json('true'), '_meta', json_object('bastion/refusal',"
    "    json_object('code', :code, 'why', :why, 'advice', next)))"
    " FROM (SELECT (SELECT advice FROM refusal WHERE code = :code) AS next)";

static const char PROGRESS[] =
    "SELECT json_object('jsonrpc', '2.0', 'method', 'notifications/progress', 'params',"
    "  json_object('progressToken', json(:token), 'progress', :n, 'message', :message))";

static const char CANCELLED[] = "SELECT :m -> '$.params.requestId'";

static const char CHANGED[] =
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}";

/* A number that moves whenever the list of tools does. */
static const char BOXES[] =
    "SELECT coalesce(max(id), 0) * 1000000"
    " + (SELECT count(*) FROM host_box WHERE state = 'active')"
    " + (SELECT coalesce(sum(changes), 0) FROM box_catalog) * 1000000000000 FROM host_box";

static const char URI[] =
    "SELECT :m ->> '$.params.uri' WHERE json_type(:m, '$.params.uri') = 'text'";
static const char NO_URI[] = "SELECT json_object('uri', :uri)";

static const char CONTENTS[] =
    "SELECT json_object('contents', json_array(json_object('uri', :uri, 'mimeType',"
    "  'application/json', 'text', :text)))";

struct mcp {
	struct store *db;
	struct loop *loop;
	const struct mcp_hooks *hooks;
	void *ctx;
	struct mcp_session *sessions;
	int64_t ncalls; /* of all sessions */
	int64_t boxes;  /* BOXES, as agents know it */
};

struct mcp_session {
	struct mcp_session *next, **self;
	struct mcp *mcp;
	void *ctx;
	char version[sizeof(MCP_LATEST)]; /* "": not begun */
	struct mcp_call *calls;
	int64_t ncalls;
};

struct mcp_call {
	struct mcp_call *next, **self;
	struct mcp_session *session;
	void *ctx;
	char *id, *token;       /* JSON; no token: no progress is wanted */
	char *box, *op, *args;  /* what is asked; ${args} is the JSON object of the arguments */
	int64_t of;             /* whose op it is: of param_asked */
	int64_t ask;            /* its row; 0: not made yet */
	int64_t question, told; /* what it waits for; progress that was sent */
	bool anew;
	uint64_t timer;
};

/*
 * Texts.
 */

static char *text_make(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static char *
text_make(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n == -1 ? NULL : text;
}

/* The answer to ${id} with the JSON ${result}, which is freed. */
static char *
answer_make(const char *id, char *result)
{
	char *answer = NULL;

	if (result != NULL)
		answer = text_make("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, result);
	free(result);
	return answer;
}

/* An error as JSON-RPC has it; ${id} and ${data} may be NULL. */
static char *
error_make(struct mcp *mcp, const char *id, int code, const char *why, const char *data)
{
	struct stmt *q;

	if ((q = store_sql(mcp->db, FAILURE)) == NULL)
		return NULL;
	stmt_text(q, ":id", id != NULL ? id : "null");
	stmt_int(q, ":code", code);
	stmt_text(q, ":why", why);
	stmt_text(q, ":data", data != NULL ? data : "null");
	return mcp_text(q);
}

/* Our own failure: what it was stands in the log of the daemon. */
static char *
inside(struct mcp *mcp, const char *id)
{
	fprintf(stderr, "bastion: mcp: %s\n", store_refusal(mcp->db)->why);
	return error_make(
	    mcp, id, ERROR_INSIDE, "bastion could not answer; see its messages", NULL);
}

/*
 * Calls.
 */

static void
call_free(struct mcp_call *call)
{
	*call->self = call->next;
	if (call->next != NULL)
		call->next->self = call->self;
	call->session->ncalls--;
	call->session->mcp->ncalls--;
	loop_cancel(call->session->mcp->loop, call->timer);
	free(call->id);
	free(call->token);
	free(call->box);
	free(call->op);
	free(call->args);
	free(call);
}

/* The end of ${call}, with the JSON ${result}, which is freed; NULL: none could be made. */
static void
call_answer(struct mcp_call *call, char *result)
{
	struct mcp *mcp = call->session->mcp;
	char *answer = result == NULL ? inside(mcp, call->id) : answer_make(call->id, result);

	mcp->hooks->send(
	    mcp->ctx, call->session, call, answer, answer == NULL ? 0 : strlen(answer), true);
	free(answer);
	call_free(call);
}

static void
call_refuse(struct mcp_call *call, const struct refusal *r)
{
	struct stmt *q;

	if ((q = store_sql(call->session->mcp->db, REFUSED)) != NULL) {
		stmt_text(q, ":code", r->code);
		stmt_text(q, ":why", r->why);
	}
	call_answer(call, mcp_text(q));
}

/* Take ${call} back; its agent is told nothing. */
static void
call_drop(struct mcp_call *call)
{
	struct mcp *mcp = call->session->mcp;

	if (call->ask != 0)
		mcp->hooks->cancel(mcp->ctx, call->session, call->ask);
	else
		mcp->hooks->forget(mcp->ctx, call);
	mcp->hooks->send(mcp->ctx, call->session, call, NULL, 0, true);
	call_free(call);
}

static void call_beat(void *ctx);

/* Say how it stands, where the agent wants to know. */
static void
call_tell(struct mcp_call *call)
{
	struct mcp *mcp = call->session->mcp;
	char *message, *text;
	struct stmt *q;

	loop_cancel(mcp->loop, call->timer);
	call->timer = 0;
	if (call->token == NULL)
		return;
	call->timer = loop_after(mcp->loop, store_setting(mcp->db, "mcp.beat_ms"), call_beat, call);
	message = call->question == 0 ? text_make("%s is at work", call->box)
				      : text_make("a person at %s has to approve question %" PRId64
						  ": bastion approvals",
					    call->box, call->question);
	if ((q = store_sql(mcp->db, PROGRESS)) == NULL) {
		free(message);
		return;
	}
	stmt_text(q, ":token", call->token);
	stmt_int(q, ":n", ++call->told);
	stmt_text(q, ":message", message);
	if ((text = mcp_text(q)) != NULL)
		mcp->hooks->send(mcp->ctx, call->session, call, text, strlen(text), false);
	free(text);
	free(message);
}

static void
call_beat(void *ctx)
{
	struct mcp_call *call = ctx;

	call->timer = 0;
	call_tell(call);
}

static void
call_ask(struct mcp_call *call)
{
	struct mcp *mcp = call->session->mcp;
	struct stmt *q;
	char *body;

	call->ask = 0;
	if ((q = store_sql(mcp->db, ASK)) != NULL) {
		stmt_text(q, ":box", call->box);
		stmt_text(q, ":op", call->op);
		stmt_int(q, ":of", call->of);
		stmt_text(q, ":args", call->args);
		stmt_int(q, ":anew", call->anew);
	}
	if ((body = mcp_text(q)) == NULL) {
		call_answer(call, NULL);
		return;
	}
	mcp->hooks->ask(mcp->ctx, call, body, strlen(body));
	free(body);
}

/* Look at the rows of ${call}: answer it once it is over. */
static void
call_look(struct mcp_call *call)
{
	struct mcp *mcp = call->session->mcp;
	int64_t question;
	bool over, anew;
	struct stmt *q;

	if ((q = store_sql(mcp->db, STANDS)) == NULL)
		return;
	stmt_int(q, ":id", call->ask);
	if (stmt_step(q) != 1)
		return;
	over = stmt_get_int(q, 0) != 0;
	question = stmt_get_int(q, 1);
	anew = stmt_get_int(q, 2) != 0;
	stmt_done(q);
	if (over && anew) {
		/* A grant with other arguments is held: put these before a person. */
		call->anew = true;
		call_ask(call);
		return;
	}
	if (!over) {
		if (question != call->question) {
			call->question = question;
			call_tell(call);
		}
		return;
	}
	if ((q = store_sql(mcp->db, RESULT)) != NULL) {
		stmt_int(q, ":id", call->ask);
		stmt_int(q, ":max", store_setting(mcp->db, "mcp.answer"));
	}
	call_answer(call, mcp_text(q));
}

void
mcp_asked(struct mcp_call *call, int64_t id, const struct refusal *refusal)
{
	if (refusal != NULL) {
		call_refuse(call, refusal);
		return;
	}
	call->ask = id;
	if (call->timer == 0 && call->token != NULL)
		call->timer = loop_after(call->session->mcp->loop,
		    store_setting(call->session->mcp->db, "mcp.beat_ms"), call_beat, call);
	call_look(call);
}

/*
 * Methods.  Each makes the whole answer, or returns NULL where SQLite failed; tools/call may return
 * NULL with a call.
 */

struct request {
	struct mcp_session *session;
	const char *id; /* JSON */
	const char *text;
	size_t len;
	struct mcp_call *call; /* tools/call: the answer comes later */
	bool later;
};

static char *
do_initialize(struct request *r)
{
	struct mcp_session *s = r->session;
	struct stmt *q;
	char *result;

	if (s->version[0] != '\0')
		return error_make(
		    s->mcp, r->id, ERROR_REQUEST, "this session has begun already", NULL);
	if ((q = store_sql(s->mcp->db, INITIALIZE)) == NULL)
		return NULL;
	stmt_text_n(q, ":m", r->text, r->len);
	stmt_text(q, ":latest", MCP_LATEST);
	stmt_text(q, ":version", BASTION_VERSION);
	if (stmt_step(q) != 1)
		return error_make(s->mcp, r->id, ERROR_PARAMS,
		    "initialize has protocolVersion, capabilities and clientInfo", NULL);
	snprintf(s->version, sizeof(s->version), "%s", stmt_get_text(q, 0));
	result = strdup(stmt_get_text(q, 1));
	stmt_done(q);
	return answer_make(r->id, result);
}

static char *
do_ping(struct request *r)
{
	return text_make("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", r->id);
}

static char *
do_tools(struct request *r)
{
	struct mcp *mcp = r->session->mcp;
	struct stmt *q;
	char *result;

	if ((q = store_sql(mcp->db, TOOLS)) == NULL)
		return NULL;
	stmt_text_n(q, ":m", r->text, r->len);
	if ((result = mcp_text(q)) == NULL)
		return error_make(
		    mcp, r->id, ERROR_PARAMS, "this cursor is not one of this list", NULL);
	return answer_make(r->id, result);
}

static bool
is_open(const struct mcp_session *s, const char *id)
{
	const struct mcp_call *call;

	for (call = s->calls; call != NULL; call = call->next)
		if (strcmp(call->id, id) == 0)
			return true;
	return false;
}

/* The call that ${q} found the tool of; NULL without memory. */
static struct mcp_call *
call_new(const struct request *r, struct stmt *q)
{
	struct mcp_session *s = r->session;
	struct mcp_call *call;

	if ((call = calloc(1, sizeof(*call))) == NULL)
		return NULL;
	call->session = s;
	call->self = &s->calls;
	if ((call->next = s->calls) != NULL)
		call->next->self = &call->next;
	s->calls = call;
	s->ncalls++;
	s->mcp->ncalls++;
	call->id = strdup(r->id);
	call->box = strdup(stmt_get_text(q, 0));
	call->op = strdup(stmt_get_text(q, 1));
	call->args = strdup(stmt_get_text(q, 2));
	call->token = stmt_is_null(q, 3) ? NULL : strdup(stmt_get_text(q, 3));
	call->of = stmt_get_int(q, 4);
	if (call->id != NULL && call->box != NULL && call->op != NULL && call->args != NULL)
		return call;
	call_free(call);
	return NULL;
}

/* Arguments that do not fit are for the agent to mend: an answer, not an error of the protocol. */
static char *
wrong_args(struct mcp *mcp, struct mcp_call *call)
{
	struct stmt *q;
	char *why, *answer = NULL;

	if ((q = store_sql(mcp->db, WRONG_ARGS)) == NULL)
		return NULL;
	stmt_text(q, ":args", call->args);
	stmt_text(q, ":op", call->op);
	stmt_int(q, ":of", call->of);
	if ((why = mcp_text(q)) == NULL)
		return NULL;
	if ((q = store_sql(mcp->db, REFUSED)) != NULL) {
		stmt_text(q, ":code", "op.args");
		stmt_text(q, ":why", why);
		answer = answer_make(call->id, mcp_text(q));
	}
	free(why);
	return answer;
}

static char *
do_call(struct request *r)
{
	struct mcp_session *s = r->session;
	struct mcp_call *call;
	struct stmt *q;
	char *answer;

	if (is_open(s, r->id))
		return error_make(
		    s->mcp, r->id, ERROR_REQUEST, "a request with this id is open", NULL);
	if ((q = store_sql(s->mcp->db, TOOL)) == NULL)
		return NULL;
	stmt_text_n(q, ":m", r->text, r->len);
	stmt_int(q, ":max", MCP_ID_MAX);
	if (stmt_step(q) != 1)
		return error_make(s->mcp, r->id, ERROR_PARAMS,
		    "there is no tool of this name, or its arguments are no object", NULL);
	if (s->ncalls >= store_setting(s->mcp->db, "mcp.calls") ||
	    s->mcp->ncalls >= store_setting(s->mcp->db, "mcp.calls_all")) {
		stmt_done(q);
		return error_make(s->mcp, r->id, ERROR_REQUEST,
		    "too many calls are open: wait for their answers", NULL);
	}
	call = call_new(r, q);
	stmt_done(q);
	if (call == NULL)
		return NULL;
	if ((answer = wrong_args(s->mcp, call)) != NULL) {
		call_free(call);
		return answer;
	}
	r->later = true;
	r->call = call;
	return NULL;
}

static char *
do_resources(struct request *r)
{
	return answer_make(r->id, mcp_view_list(r->session->mcp->db));
}

static char *
do_templates(struct request *r)
{
	return answer_make(r->id, mcp_view_templates(r->session->mcp->db));
}

static char *
resource_missing(struct mcp *mcp, const char *id, const char *uri)
{
	struct stmt *q;
	char *data, *answer;

	if ((q = store_sql(mcp->db, NO_URI)) != NULL)
		stmt_text(q, ":uri", uri);
	data = mcp_text(q);
	answer = error_make(mcp, id, ERROR_MISSING, "there is no resource of this URI", data);
	free(data);
	return answer;
}

static char *
do_read(struct request *r)
{
	struct mcp *mcp = r->session->mcp;
	char *uri, *text, *answer = NULL;
	struct stmt *q;

	if ((q = store_sql(mcp->db, URI)) == NULL)
		return NULL;
	stmt_text_n(q, ":m", r->text, r->len);
	if ((uri = mcp_text(q)) == NULL)
		return error_make(mcp, r->id, ERROR_PARAMS, "a resource has a uri", NULL);
	if ((text = mcp_view_read(mcp->db, uri)) == NULL)
		answer = resource_missing(mcp, r->id, uri);
	else if ((q = store_sql(mcp->db, CONTENTS)) != NULL) {
		stmt_text(q, ":uri", uri);
		stmt_text(q, ":text", text);
		answer = answer_make(r->id, mcp_text(q));
	}
	free(text);
	free(uri);
	return answer;
}

/* The whole of what an agent may ask. */
static const struct method {
	const char *name;
	bool first; /* may come before initialize */
	char *(*answer)(struct request *r);
} methods[] = {
    {"initialize", true, do_initialize},
    {"ping", true, do_ping},
    {"tools/list", false, do_tools},
    {"tools/call", false, do_call},
    {"resources/list", false, do_resources},
    {"resources/templates/list", false, do_templates},
    {"resources/read", false, do_read},
};

static char *
request_answer(struct request *r, const char *method)
{
	struct mcp *mcp = r->session->mcp;
	size_t i;
	char *answer;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i].name, method) != 0)
			continue;
		if (!methods[i].first && r->session->version[0] == '\0')
			return error_make(
			    mcp, r->id, ERROR_REQUEST, "a session begins with initialize", NULL);
		answer = methods[i].answer(r);
		return answer != NULL || r->later ? answer : inside(mcp, r->id);
	}
	return error_make(mcp, r->id, ERROR_METHOD, "there is no such method here", NULL);
}

/* Only what the agent itself asked can it take back. */
static void
notice(struct mcp_session *s, const char *method, const char *text, size_t len)
{
	struct mcp_call *call, *next;
	struct stmt *q;
	char *id;

	if (strcmp(method, "notifications/cancelled") != 0 ||
	    (q = store_sql(s->mcp->db, CANCELLED)) == NULL)
		return;
	stmt_text_n(q, ":m", text, len);
	if ((id = mcp_text(q)) == NULL)
		return;
	for (call = s->calls; call != NULL; call = next) {
		next = call->next;
		if (strcmp(call->id, id) == 0)
			call_drop(call);
	}
	free(id);
}

static enum mcp_taken
wrong(struct mcp *mcp, int code, const char *why, char **answer)
{
	*answer = error_make(mcp, NULL, code, why, NULL);
	return MCP_WRONG;
}

enum mcp_taken
mcp_take(struct mcp_session *s, const char *text, size_t len, char **answer, struct mcp_call **call)
{
	struct request r = {.session = s, .text = text, .len = len};
	struct mcp *mcp = s->mcp;
	struct refusal refusal = {.code = ""};
	char *id, *method, why[REFUSAL_WHY_MAX];
	struct stmt *q;

	*answer = NULL;
	*call = NULL;
	if (http_json_check(text, len, (unsigned)store_setting(mcp->db, "http.depth"), &refusal) !=
	    0)
		return wrong(mcp, ERROR_PARSE, refusal.why, answer);
	if ((q = store_sql(mcp->db, MESSAGE)) == NULL)
		return wrong(mcp, ERROR_INSIDE, "bastion could not read the message", answer);
	stmt_text_n(q, ":m", text, len);
	stmt_int(q, ":max", MCP_ID_MAX);
	if (stmt_step(q) != 1)
		return wrong(mcp, ERROR_INSIDE, "bastion could not read the message", answer);
	snprintf(why, sizeof(why), "%s", stmt_get_text(q, 0));
	id = stmt_is_null(q, 1) ? NULL : strdup(stmt_get_text(q, 1));
	method = stmt_is_null(q, 2) ? NULL : strdup(stmt_get_text(q, 2));
	stmt_done(q);
	if (why[0] == '\0' && method != NULL && id != NULL) {
		r.id = id;
		*answer = request_answer(&r, method);
	} else if (why[0] == '\0' && method != NULL) {
		notice(s, method, text, len);
	}
	free(id);
	free(method);
	if (why[0] != '\0')
		return wrong(mcp, ERROR_REQUEST, why, answer);
	if (r.later) {
		*call = r.call;
		return MCP_CALL;
	}
	return *answer != NULL ? MCP_ANSWER : MCP_NOTHING;
}

void
mcp_begin(struct mcp_call *call)
{
	call_ask(call);
}

void
mcp_drop(struct mcp_call *call)
{
	call_free(call);
}

/*
 * Sessions.
 */

struct mcp *
mcp_new(struct store *db, struct loop *loop, const struct mcp_hooks *hooks, void *ctx)
{
	struct mcp *mcp;

	if ((mcp = calloc(1, sizeof(*mcp))) == NULL)
		return NULL;
	*mcp = (struct mcp){.db = db, .loop = loop, .hooks = hooks, .ctx = ctx};
	return mcp;
}

void
mcp_free(struct mcp *mcp)
{
	free(mcp);
}

/* Agents that have begun are told that there are other tools. */
static void
tell_changed(struct mcp *mcp)
{
	int64_t boxes = stmt_value(store_sql(mcp->db, BOXES), mcp->boxes);
	struct mcp_session *s;

	if (boxes == mcp->boxes)
		return;
	mcp->boxes = boxes;
	for (s = mcp->sessions; s != NULL; s = s->next)
		if (s->version[0] != '\0')
			mcp->hooks->send(mcp->ctx, s, NULL, CHANGED, strlen(CHANGED), false);
}

void
mcp_wake(struct mcp *mcp)
{
	struct mcp_session *s;
	struct mcp_call *call, *next;

	for (s = mcp->sessions; s != NULL; s = s->next)
		for (call = s->calls; call != NULL; call = next) {
			next = call->next;
			if (call->ask != 0)
				call_look(call);
		}
	tell_changed(mcp);
}

struct mcp_session *
mcp_session_new(struct mcp *mcp, void *ctx)
{
	struct mcp_session *s;

	if ((s = calloc(1, sizeof(*s))) == NULL)
		return NULL;
	/* Nobody wakes it without a session. */
	if (mcp->sessions == NULL)
		mcp->boxes = stmt_value(store_sql(mcp->db, BOXES), mcp->boxes);
	s->mcp = mcp;
	s->ctx = ctx;
	s->self = &mcp->sessions;
	if ((s->next = mcp->sessions) != NULL)
		s->next->self = &s->next;
	mcp->sessions = s;
	return s;
}

void
mcp_session_free(struct mcp_session *s)
{
	while (s->calls != NULL)
		call_drop(s->calls);
	*s->self = s->next;
	if (s->next != NULL)
		s->next->self = s->self;
	free(s);
}

void *
mcp_session_ctx(const struct mcp_session *session)
{
	return session->ctx;
}

const char *
mcp_session_version(const struct mcp_session *session)
{
	return session->version[0] == '\0' ? NULL : session->version;
}

int64_t
mcp_session_calls(const struct mcp_session *session)
{
	return session->ncalls;
}

void *
mcp_call_ctx(const struct mcp_call *call)
{
	return call->ctx;
}

void
mcp_call_set(struct mcp_call *call, void *ctx)
{
	call->ctx = ctx;
}

struct mcp_session *
mcp_call_session(const struct mcp_call *call)
{
	return call->session;
}
