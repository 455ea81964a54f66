/* sessions.c: from requests to rows of sessions, and from their rows to answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/session.h"
#include "net/host/change.h"
#include "net/host/remote_port.h"
#include "net/host/sessions.h"
#include "net/host/watch.h"
#include "net/http/json.h"

/* Whether the body is an ask. */
static const char FORM[] =
    "SELECT json_type(:body) = 'object' AND json_type(:body, '$.argv') IS 'array'"
    " AND json_type(:body, '$.cwd') IS 'text' AND (:body ->> '$.cwd') GLOB '/*'"
    " AND coalesce(json_type(:body, '$.name'), 'text') = 'text' AND coalesce(:body ->> '$.name', 'x') <> ''"
    " AND coalesce(json_type(:body, '$.worker'), 'text') = 'text'"
    " AND coalesce(json_type(:body, '$.terminal'), 'true') IN ('true', 'false')"
    " AND coalesce(json_type(:body, '$.input'), 'true') IN ('true', 'false')"
    " AND coalesce(json_type(:body, '$.attempts'), 'integer') = 'integer'"
    " AND coalesce(:body ->> '$.attempts', 1) BETWEEN 1 AND 100"
    " AND NOT EXISTS (SELECT 1 FROM json_each(:body)"
    "  WHERE key NOT IN ('name', 'worker', 'argv', 'cwd', 'terminal', 'input', 'attempts'))"
    " AND NOT EXISTS (SELECT 1 FROM json_each(:body, '$.argv') WHERE type <> 'text')"
    " AND (coalesce(:body ->> '$.worker', '') <> '' OR json_array_length(:body, '$.argv') > 0)"
    " AND json_array_length(:body, '$.argv') <= 256 AND length(:body -> '$.argv') <= 131072"
    " AND length(CAST(:body ->> '$.cwd' AS BLOB)) <= 4095";

static const char ASKED[] =
    "SELECT coalesce(:body ->> '$.name', ''), coalesce(:body ->> '$.worker', ''),"
    "  (SELECT json_group_array(value) FROM json_each(:body, '$.argv')), :body ->> '$.cwd',"
    "  coalesce(:body ->> '$.terminal', 0), coalesce(:body ->> '$.input', 0),"
    "  coalesce(:body ->> '$.attempts', 0)";

static const char MADE[] = "SELECT json_object('id', id, 'name', name) FROM session WHERE id = :id";
static const char NAMED[] = "SELECT id FROM session WHERE name = :name";

static const char LIST[] =
    "SELECT coalesce(json_group_array(json_object('id', id, 'name', name, 'worker', worker, 'state', state,"
    " 'queued_at', queued_at, 'started_at', started_at, 'finished_at', finished_at, 'exit', exit_code,"
    " 'reason', end_reason, 'attempts', attempts, 'lines', lines, 'bytes', bytes)), '[]')"
    " FROM (SELECT * FROM sessions WHERE :remote = 0 OR id IN (SELECT session_id FROM remote_reach"
    "   WHERE credential_id = :remote AND verb = 'list') ORDER BY id)";

static const char SHOW[] =
    "SELECT json_object('id', s.id, 'name', s.name, 'worker', s.worker, 'argv', json(s.argv), 'cwd', s.cwd,"
    " 'uid', s.by_uid, 'terminal', json(iif(s.terminal, 'true', 'false')),"
    " 'input', json(iif(s.input, 'true', 'false')), 'state', s.state, 'queued_at', s.queued_at,"
    " 'started_at', s.started_at, 'finished_at', s.finished_at, 'again_at', v.again_at,"
    " 'exit', s.exit_code, 'reason', s.end_reason, 'attempts', s.attempts,"
    " 'max_attempts', s.max_attempts, 'pid', v.pid, 'lines', s.lines, 'bytes', s.bytes,"
    " 'first_seq', s.first_seq, 'last_seq', s.last_seq)"
    " FROM session AS s JOIN sessions AS v ON v.id = s.id WHERE s.id = :id";

static const char FRAMES[] =
    "SELECT seq, iif(text IS NULL, json_object('id', session_id, 'seq', seq, 'kind', kind,"
    "   'line', line, 'lines', lines, 'more', more, 'at', at, 'base64', base64(data)),"
    "  json_object('id', session_id, 'seq', seq, 'kind', kind, 'line', line, 'lines', lines,"
    "   'more', more, 'at', at, 'text', text))"
    " FROM (SELECT *, utf8(data) AS text FROM session_output WHERE session_id = :id AND seq > :seq"
    "        ORDER BY seq)";

static const char ENDED[] =
    "SELECT last_seq, json_object('x', iif(state = 'done', 0, coalesce(nullif(exit_code, 0), 1)),"
    " 'state', state, 'reason', end_reason, 'id', id)"
    " FROM session WHERE id = :id AND finished_at IS NOT NULL"
    " UNION ALL SELECT 0, NULL WHERE NOT EXISTS (SELECT 1 FROM session WHERE id = :id)";

static const struct watch_rows OUTPUT = {FRAMES, ENDED};

int64_t
sessions_named(struct net *net, struct http_exchange *x, const char *verb)
{
	struct stmt *q;
	int64_t id = 0;

	if ((q = store_sql(net->env->db, NAMED)) != NULL) {
		stmt_text(q, ":name", http_param(x, "name"));
		id = stmt_value(q, 0);
	}
	if (id <= 0)
		change_refuse(net, x, "session.unknown", "there is no session of this name");
	return id <= 0 || remote_may(net, x, id, verb) != 0 ? 0 : id;
}

/* In the committer's thread. */
static int
new_run(struct store *db, struct commit_job *job)
{
	struct change *c = (struct change *)job;
	struct session_ask ask = {.base = "session", .uid = c->who.uid, .rows = 24, .cols = 80};
	char *texts[4] = {NULL};
	struct stmt *q;
	int i, rc = -1;

	calls_act_as(db, c->net, &c->who);
	if ((q = store_sql(db, ASKED)) == NULL)
		return -1;
	stmt_text_n(q, ":body", c->body, c->len);
	if (stmt_step(q) != 1)
		return -1;
	for (i = 0; i < 4; i++)
		texts[i] = strdup(stmt_get_text(q, i));
	ask.terminal = stmt_get_int(q, 4) == 1;
	ask.input = stmt_get_int(q, 5) == 1;
	ask.attempts = stmt_get_int(q, 6);
	stmt_done(q);
	ask.name = texts[0];
	ask.worker = texts[1];
	ask.argv = texts[2];
	ask.cwd = texts[3];
	if (texts[0] == NULL || texts[1] == NULL || texts[2] == NULL || texts[3] == NULL)
		refusal_set(store_refusal(db), "store.failed", "out of memory");
	else
		rc = (c->id = session_new(db, &ask)) == -1 ? -1 : 0;
	for (i = 0; i < 4; i++)
		free(texts[i]);
	return rc;
}

static void
new_answer(struct change *c)
{
	struct stmt *q;

	if ((q = store_sql(c->net->env->db, MADE)) != NULL)
		stmt_int(q, ":id", c->id);
	net_answer(c->net, c->x, q);
}

int
sessions_new(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct refusal r;
	struct change *c;
	struct stmt *q;
	size_t len;
	const char *body = http_body(x, &len);

	if (net->env->home->role == HOME_HOST)
		return change_refuse(
		    net, x, "session.offline", "a Host runs no sessions: ask its boxes");
	if (http_json_check(body, len, (unsigned)store_setting(net->env->db, "http.depth"), &r) !=
	    0) {
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	if ((q = store_sql(net->env->db, FORM)) == NULL) {
		net_refuse(net, x, store_refusal(net->env->db), NULL);
		return 0;
	}
	stmt_text_n(q, ":body", body, len);
	if (stmt_value(q, 0) != 1)
		return change_refuse(net, x, "op.args",
		    "an ask is {\"name\":text,\"worker\":text,\"argv\":[text…],\"cwd\":\"/…\","
		    "\"terminal\":bool,\"input\":bool,\"attempts\":n}");
	if ((c = change_new(net, x, body, len)) == NULL)
		return 0;
	c->answer = new_answer;
	return change_submit(c, new_run);
}

int
sessions_list(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct calls_who who;
	struct stmt *q;

	if (remote_asks(net, x, &who) != 0)
		return 0;
	if ((q = store_sql(net->env->db, LIST)) != NULL)
		stmt_int(q, ":remote", who.remote);
	return net_answer(net, x, q);
}

int
sessions_show(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct stmt *q;
	int64_t id;

	if ((id = sessions_named(net, x, "list")) == 0)
		return 0;
	if ((q = store_sql(net->env->db, SHOW)) != NULL)
		stmt_int(q, ":id", id);
	return net_answer(net, x, q);
}

/* The number ${name} of the query, ${none} where it is not said, or -1. */
static int64_t
number(const struct http_exchange *x, const char *name, int64_t none)
{
	const char *text = http_query(x, name);

	return text == NULL ? none : http_digits(text);
}

/* Whether whoever asks does so for another state than this one. */
static bool
asks_elsewhere(const struct net *net, const struct http_exchange *x)
{
	const char *state = http_query(x, "state");
	char ours[HOME_TOKEN_SIZE];

	return state != NULL && (home_token(net->env->home, ours) != 0 || strcmp(state, ours) != 0);
}

int
sessions_output(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	int64_t id, seq = number(x, "after", 0), most = number(x, "most", 0);
	int64_t known = number(x, "id", 0);

	if (seq < 0 || most < 0 || known < 0)
		return change_refuse(net, x, "usage.wrong", "after, most and id are digits");
	if (asks_elsewhere(net, x))
		return change_refuse(net, x, "session.unknown", "this daemon serves another state");
	if ((id = sessions_named(net, x, "attach")) == 0)
		return 0;
	if (known != 0 && known != id)
		return change_refuse(net, x, "session.unknown",
		    "the session that had this name is gone, and another has it");
	if (most > 0)
		watch_some(net, x, &OUTPUT, id, seq, most);
	else
		watch_begin(net, x, &OUTPUT, id, seq, NULL);
	return 0;
}

static int
input_run(struct store *db, struct commit_job *job)
{
	struct change *c = (struct change *)job;

	calls_act_as(db, c->net, &c->who);
	if (c->len > 0 && session_send(db, c->id, "data", c->body, c->len) != 0)
		return -1;
	return c->kind != NULL ? session_send(db, c->id, c->kind, "", 0) : 0;
}

static int
cancel_run(struct store *db, struct commit_job *job)
{
	struct change *c = (struct change *)job;

	calls_act_as(db, c->net, &c->who);
	return session_cancel(db, c->id);
}

int
sessions_input(struct http_exchange *x, void *ctx)
{
	const char *end = http_query(x, "end");
	struct net *net = ctx;
	struct change *c;
	size_t len;
	const char *body = http_body(x, &len);
	int64_t id;

	if (end != NULL && strcmp(end, "1") != 0)
		return change_refuse(net, x, "usage.wrong", "?end=1, or nothing");
	if ((id = sessions_named(net, x, "send")) == 0 ||
	    (c = change_new(net, x, body, len)) == NULL)
		return 0;
	c->id = id;
	c->kind = end == NULL ? NULL : "end";
	return change_submit(c, input_run);
}

int
sessions_cancel(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct change *c;
	int64_t id;

	if ((id = sessions_named(net, x, "cancel")) == 0 ||
	    (c = change_new(net, x, NULL, 0)) == NULL)
		return 0;
	c->id = id;
	return change_submit(c, cancel_run);
}
