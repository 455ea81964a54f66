/* calls.c: asks of boxes: the row that makes one, and its answer as it comes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/clock.h"
#include "net/host/calls.h"
#include "net/host/watch.h"
#include "net/http/json.h"

/* Why the body is no ask, or no row. */
static const char FORM[] =
    "SELECT CASE"
    "  WHEN json_type(:body) <> 'object' OR json_type(:body, '$.box') IS NOT 'text'"
    "    OR json_type(:body, '$.op') IS NOT 'text' OR json_type(:body, '$.args') IS NOT 'array'"
    "    OR coalesce(json_type(:body, '$.uses'), 'integer') <> 'integer'"
    "    OR coalesce(:body ->> '$.uses', 1) < 1 OR typeof(:body ->> '$.uses') = 'real'"
    "    OR coalesce(json_type(:body, '$.ttl_ms'), 'integer') <> 'integer'"
    "    OR coalesce(:body ->> '$.ttl_ms', 1000) < 1000 OR typeof(:body ->> '$.ttl_ms') = 'real'"
    "    OR coalesce(json_type(:body, '$.wait_ms'), 'integer') <> 'integer'"
    "    OR coalesce(:body ->> '$.wait_ms', 0) NOT BETWEEN 0 AND 86400000"
    "    OR coalesce(json_type(:body, '$.anew'), 'true') NOT IN ('true', 'false')"
    "    OR coalesce(json_type(:body, '$.bounds'), 'object') <> 'object'"
    "    OR coalesce(json_type(:body, '$.dry'), 'true') NOT IN ('true', 'false')"
    "    OR EXISTS (SELECT 1 FROM json_each(:body)"
    "      WHERE key NOT IN ('box', 'op', 'args', 'bounds', 'dry', 'uses', 'ttl_ms', 'anew', 'wait_ms'))"
    "    OR EXISTS (SELECT 1 FROM json_each(:body, '$.args') WHERE type <> 'text')"
    "   THEN 'op.args|an ask is {\"box\":text,\"op\":text,\"args\":[text…],\"bounds\":object,\"dry\":bool,"
    "\"uses\":n,\"ttl_ms\":n,\"anew\":bool,\"wait_ms\":n}'"
    "  WHEN length(:body ->> '$.op') NOT BETWEEN 1 AND 64"
    "   THEN 'op.unknown|there is no op of this name'"
    "  WHEN length(:body -> '$.args') > 16384 THEN 'op.args|the arguments are too long'"
    "  WHEN length(CAST(:body -> '$.bounds' AS BLOB)) > 4096"
    "   THEN 'grant.bounds|the bounds are too long'"
    " END";

static const char CALL[] =
    "INSERT INTO call (box_id, op, args, bounds, dry, uses, ttl_ms, anew, wait_ms, nonce, asked_at)"
    " SELECT coalesce((SELECT id FROM host_box WHERE name = :body ->> '$.box' AND state = 'active'), 0),"
    "   :body ->> '$.op', (SELECT json_group_array(value) FROM json_each(:body, '$.args')),"
    "   :body -> '$.bounds', coalesce(:body ->> '$.dry', 0),"
    "   :body ->> '$.uses', :body ->> '$.ttl_ms', coalesce(:body ->> '$.anew', 0),"
    "   :body ->> '$.wait_ms', :nonce, now_ms()";

/* What is answered, or was taken back, stays as it is. */
static const char CANCEL[] =
    "UPDATE call SET state = 'failed', finished_at = now_ms(), exit_code = 1,"
    "  code = 'call.cancelled', why = 'whoever asked took it back'"
    " WHERE id = :id AND finished_at IS NULL";

static const char KNOWN[] = "SELECT count(*) FROM call WHERE id = :id";

static const char FRAMES[] =
    "SELECT seq, frame FROM call_output WHERE call_id = :id AND seq > :seq ORDER BY seq";

/* What is refused has the exit code and the advice of this Host's table, as on every surface. */
static const char ENDED[] =
    "SELECT last_seq, iif(state = 'done', json_object('x', c.exit_code),"
    "   json_object('x', coalesce(r.exit_code, c.exit_code, 1), 'e', json_object('code', c.code,"
    "     'why', coalesce(c.why, 'the ask was open when the Host stopped'),"
    "     'exit', coalesce(r.exit_code, c.exit_code, 1),"
    "     'advice', coalesce(r.advice, c.advice, ''), 'retry_at', retry_at,"
    "     'approval', approval)))"
    "  FROM (SELECT last_seq, state, exit_code, iif(state = 'lost', 'call.lost', code) AS code, why,"
    "          advice, retry_at, approval"
    "          FROM call WHERE id = :id AND finished_at IS NOT NULL) AS c"
    "  LEFT JOIN refusal AS r ON r.code = c.code"
    " UNION ALL SELECT 0, NULL WHERE NOT EXISTS (SELECT 1 FROM call WHERE id = :id)";

static const struct watch_rows ANSWER = {FRAMES, ENDED};

/* An ask on its way into its row, or out of it. */
struct call {
	struct commit_job job; /* first */
	struct net *net;
	void (*made)(void *ctx, int64_t id, const struct refusal *refusal); /* NULL: forgotten */
	void *ctx;
	struct calls_who who;
	bool revoked; /* its row is to be cancelled once it is there */
	char nonce[33];
	int64_t id;
	size_t len;
	char body[];
};

void
calls_start(struct net *net)
{
	struct refusal unknown;
	size_t i;

	net->people[0].uid = geteuid();
	net->people[1].uid = 0;
	for (i = 0; i < NET_PEOPLE; i++)
		(void)person_name(net->people[i].uid, net->people[i].name, &unknown);
}

void
calls_act_as(struct store *db, const struct net *net, const struct calls_who *who)
{
	size_t i;

	if (who->remote != 0) {
		store_acting(db, "remote:%s(%lld)", who->agent, (long long)who->remote);
		return;
	}
	if (who->agent[0] != '\0') {
		store_acting(db, "agent:%s", who->agent);
		return;
	}
	for (i = 0; i < NET_PEOPLE; i++)
		if (net->people[i].uid == who->uid && net->people[i].name[0] != '\0') {
			store_acting(db, "person:%s(%u)", net->people[i].name, (unsigned)who->uid);
			return;
		}
	store_acting(db, "person:uid %u(%u)", (unsigned)who->uid, (unsigned)who->uid);
}

/* In the committer's thread. */
static int
call_run(struct store *db, struct commit_job *job)
{
	struct call *call = (struct call *)job;
	struct stmt *q;

	calls_act_as(db, call->net, &call->who);
	if ((q = store_sql(db, CALL)) == NULL)
		return -1;
	stmt_text_n(q, ":body", call->body, call->len);
	stmt_text(q, ":nonce", call->nonce);
	if (stmt_run_one(q) != 0)
		return -1;
	call->id = store_last_id(db);
	return 0;
}

static int
cancel_run(struct store *db, struct commit_job *job)
{
	struct call *call = (struct call *)job;
	struct stmt *q;

	calls_act_as(db, call->net, &call->who);
	if ((q = store_sql(db, CANCEL)) == NULL)
		return -1;
	stmt_int(q, ":id", call->id);
	return stmt_run(q);
}

static void
call_done(struct commit_job *job)
{
	struct call *call = (struct call *)job;

	if (call->revoked && job->result == 0) {
		call->revoked = false;
		job->run = cancel_run;
		committer_submit(call->net->committer, job);
		return;
	}
	if (call->made != NULL)
		call->made(call->ctx, call->id, job->result != 0 ? &job->refusal : NULL);
	free(call);
}

static int
form_check(struct store *db, const char *body, size_t len, struct refusal *r)
{
	char why[REFUSAL_CODE_MAX + REFUSAL_WHY_MAX];
	struct stmt *q;
	const char *bar;

	if (http_json_check(body, len, (unsigned)store_setting(db, "http.depth"), r) != 0)
		return -1;
	if ((q = store_sql(db, FORM)) != NULL) {
		stmt_text_n(q, ":body", body, len);
		if (stmt_step(q) == 1) {
			snprintf(why, sizeof(why), "%s", stmt_get_text(q, 0));
			stmt_done(q);
			if ((bar = strchr(why, '|')) == NULL)
				return 0;
			why[bar - why] = '\0';
			return refusal_set(r, why, "%s", bar + 1);
		}
	}
	*r = *store_refusal(db);
	return -1;
}

static struct call *
call_new(struct net *net, const struct calls_who *who, size_t len)
{
	struct call *call;

	if ((call = malloc(sizeof(*call) + len)) != NULL)
		*call =
		    (struct call){.job = {.done = call_done}, .net = net, .who = *who, .len = len};
	return call;
}

struct call *
calls_make(struct net *net, const struct calls_who *who, const char *body, size_t len,
    void (*made)(void *ctx, int64_t id, const struct refusal *refusal), void *ctx,
    struct refusal *r)
{
	struct call *call;

	if (form_check(net->env->db, body, len, r) != 0)
		return NULL;
	if ((call = call_new(net, who, len)) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	call->job.run = call_run;
	call->made = made;
	call->ctx = ctx;
	memcpy(call->body, body, len);
	nonce_hex(call->nonce);
	committer_submit(net->committer, &call->job);
	return call;
}

void
calls_forget(struct call *call)
{
	call->made = NULL;
}

void
calls_revoke(struct call *call)
{
	call->made = NULL;
	call->revoked = true;
}

void
calls_cancel(struct net *net, const struct calls_who *who, int64_t id)
{
	struct call *call;

	if ((call = call_new(net, who, 0)) == NULL)
		return;
	call->job.run = cancel_run;
	call->id = id;
	committer_submit(net->committer, &call->job);
}

/* A person's ask, until its row is there. */
struct person_ask {
	struct net *net;
	struct http_exchange *x;
	struct call *call;
};

static void
ask_gone(void *ctx)
{
	struct person_ask *ask = ctx;

	calls_forget(ask->call);
	free(ask);
}

static void
ask_made(void *ctx, int64_t id, const struct refusal *refusal)
{
	struct person_ask *ask = ctx;
	char first[40];

	snprintf(first, sizeof(first), "{\"c\":%" PRId64 "}\n", id);
	if (refusal != NULL)
		net_refuse(ask->net, ask->x, refusal, NULL);
	else
		watch_begin(ask->net, ask->x, &ANSWER, id, 0, first);
	free(ask);
}

int
calls_ask(struct http_exchange *x, void *ctx)
{
	const struct calls_who who = {.uid = http_peer(x)->uid};
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	struct net *net = ctx;
	struct person_ask *ask;
	size_t len;
	const char *body = http_body(x, &len);

	if ((ask = malloc(sizeof(*ask))) != NULL) {
		*ask = (struct person_ask){.net = net, .x = x};
		ask->call = calls_make(net, &who, body, len, ask_made, ask, &r);
	}
	if (ask == NULL || ask->call == NULL) {
		free(ask);
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	http_on_close(x, ask_gone, ask);
	return 0;
}

/* Return the number of the ask that ${x} names; or -1, with ${x} answered. */
static int64_t
call_named(struct net *net, struct http_exchange *x)
{
	struct refusal r;
	struct stmt *q;
	int64_t id;

	if ((id = http_digits(http_param(x, "id"))) == -1) {
		refusal_set(&r, "usage.wrong", "the number of an ask, and of a frame, are digits");
		net_refuse(net, x, &r, NULL);
		return -1;
	}
	if ((q = store_sql(net->env->db, KNOWN)) != NULL) {
		stmt_int(q, ":id", id);
		if (stmt_value(q, 0) == 1)
			return id;
	}
	refusal_set(&r, "http.route", "there is no ask of this number");
	net_refuse(net, x, &r, NULL);
	return -1;
}

int
calls_follow(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	const char *after = http_query(x, "after");
	struct refusal r;
	int64_t id, seq;

	if ((seq = http_digits(after != NULL ? after : "0")) == -1) {
		refusal_set(&r, "usage.wrong", "the number of an ask, and of a frame, are digits");
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	if ((id = call_named(net, x)) != -1)
		watch_begin(net, x, &ANSWER, id, seq, NULL);
	return 0;
}

int
calls_drop(struct http_exchange *x, void *ctx)
{
	const struct calls_who who = {.uid = http_peer(x)->uid};
	struct net *net = ctx;
	int64_t id;

	if ((id = call_named(net, x)) == -1)
		return 0;
	calls_cancel(net, &who, id);
	http_reply(x, 202, NULL, NULL, NULL, 0);
	return 0;
}
