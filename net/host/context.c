/* context.c: users ask to share a folder: who they are, what they ask, and what became of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/host/context.h"

#define OVERFLOW_UID 65534 /* kernel.overflowuid */

/* The ask, taken apart and held to its form by SQLite. */
static const char READ[] =
    "SELECT :body ->> '$.root', :body ->> '$.name', :body ->> '$.host',"
    "  json_type(:body) = 'object' AND json_type(:body, '$.root') IS 'text'"
    "  AND coalesce(json_type(:body, '$.name'), 'text') = 'text'"
    "  AND coalesce(json_type(:body, '$.host'), 'text') = 'text'"
    "  AND NOT EXISTS (SELECT 1 FROM json_each(:body) WHERE key NOT IN ('root', 'name', 'host'))";

/* What a user is told of their own asks. */
#define TOLD                                                                               \
	"json_object('id', id, 'uid', uid, 'host', host_name, 'root', root, 'name', name," \
	" 'state', iif(state = 'pending' AND expires_at <= now_ms(), 'expired', state),"   \
	" 'asked_at', asked_at, 'expires_at', expires_at, 'decided_at', decided_at,"       \
	" 'ended_at', ended_at)"

static const char ONE[] = "SELECT " TOLD " FROM context_ask WHERE id = :id AND uid = :uid";

/* What is open first, then the newest. */
static const char ALL[] =
    "SELECT json_object('asks', json_group_array(json(told))) FROM (SELECT " TOLD
    " AS told FROM context_ask WHERE uid = :uid"
    " ORDER BY state IN ('pending', 'allowed') DESC, id DESC"
    " LIMIT (SELECT value FROM setting WHERE name = 'context.listed'))";

/* Something that a user wants, on its way to a decision in the committer's thread. */
struct wish {
	struct commit_job job; /* first */
	struct net *net;
	struct http_exchange *x; /* NULL once the user has gone */
	bool withdraw;           /* the ask ${id}; else put ${request} */
	struct context_request request;
	int64_t id;
};

/* ${text} is what column ${i} says, cut by nobody; return whether it fits. */
static bool
text_take(struct stmt *q, int i, char *text, size_t size)
{
	const char *given = stmt_get_text(q, i);

	snprintf(text, size, "%s", given);
	return strlen(given) < size;
}

int
context_read(struct store *db, const char *body, size_t len, struct context_request *request,
    struct refusal *refusal)
{
	struct stmt *q;
	int rc = 0;

	if ((q = store_sql(db, READ)) != NULL)
		stmt_text_n(q, ":body", body, len);
	if (q == NULL || stmt_step(q) != 1) {
		*refusal = *store_refusal(db);
		return -1;
	}
	if (stmt_get_int(q, 3) == 0)
		rc = refusal_set(refusal, "context.form",
		    "an ask is {\"root\":path,\"name\":text,\"host\":text}, where only root is needed");
	else if (!text_take(q, 0, request->root, sizeof(request->root)))
		rc = refusal_set(refusal, "context.path", "the path is longer than any");
	else if (!text_take(q, 1, request->name, sizeof(request->name)))
		rc = refusal_set(refusal, "context.name", "a name has 1 to 64 characters");
	else if (!text_take(q, 2, request->host, sizeof(request->host)))
		rc = refusal_set(refusal, "context.host", "no Host has a name of that length");
	stmt_done(q);
	return rc;
}

static void
wish_gone(void *ctx)
{
	((struct wish *)ctx)->x = NULL;
}

/* In the committer's thread. */
static int
wish_run(struct store *db, struct commit_job *job)
{
	struct wish *wish = (struct wish *)job;

	store_acting(db, "user:%" PRId64, wish->request.uid);
	return wish->withdraw ? context_withdraw(db, wish->request.uid, wish->id)
			      : context_ask(db, &wish->request, &wish->id);
}

static int
show(struct net *net, struct http_exchange *x, int64_t uid, int64_t id)
{
	struct refusal r = {.code = ""};
	struct stmt *q;
	int n = -1;

	if ((q = store_sql(net->env->db, ONE)) != NULL) {
		stmt_int(q, ":id", id);
		stmt_int(q, ":uid", uid);
		n = stmt_step(q);
	}
	if (n == 1) {
		http_reply(x, 200, "application/json", NULL, stmt_get_text(q, 0),
		    strlen(stmt_get_text(q, 0)));
		stmt_done(q);
		return 0;
	}
	if (n == 0)
		refusal_set(&r, "context.unknown", "you made no ask of this number");
	net_refuse(net, x, n == 0 ? &r : store_refusal(net->env->db), NULL);
	return 0;
}

static void
wish_done(struct commit_job *job)
{
	struct wish *wish = (struct wish *)job;

	if (wish->x != NULL && job->result != 0)
		net_refuse(wish->net, wish->x, &job->refusal, NULL);
	else if (wish->x != NULL)
		show(wish->net, wish->x, wish->request.uid, wish->id);
	free(wish);
}

static struct wish *
wish_new(struct net *net, struct http_exchange *x)
{
	struct wish *wish;

	if ((wish = calloc(1, sizeof(*wish))) == NULL)
		return NULL;
	wish->job = (struct commit_job){.run = wish_run, .done = wish_done};
	wish->net = net;
	wish->x = x;
	wish->request.uid = http_peer(x)->uid;
	return wish;
}

static int
wish_submit(struct wish *wish)
{
	http_on_close(wish->x, wish_gone, wish);
	committer_submit(wish->net->committer, &wish->job);
	return 0;
}

int
context_post(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct refusal r = {.code = ""};
	struct wish *wish;
	const char *body;
	size_t len;

	if ((body = http_body_json(x, &len)) == NULL)
		return 0;
	if ((wish = wish_new(net, x)) == NULL)
		return -1;
	if (context_read(net->env->db, body, len, &wish->request, &r) == 0)
		return wish_submit(wish);
	net_refuse(net, x, &r, NULL);
	free(wish);
	return 0;
}

int
context_list(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct stmt *q;

	if ((q = store_sql(net->env->db, ALL)) != NULL)
		stmt_int(q, ":uid", http_peer(x)->uid);
	return net_answer(net, x, q);
}

/* The number in the path, 1 or more; or 0 with ${x} refused. */
static int64_t
number_of(struct net *net, struct http_exchange *x)
{
	int64_t id = http_digits(http_param(x, "id"));
	struct refusal r;

	if (id > 0)
		return id;
	refusal_set(&r, "context.number", "this is no number of an ask");
	net_refuse(net, x, &r, NULL);
	return 0;
}

int
context_show(struct http_exchange *x, void *ctx)
{
	int64_t id = number_of(ctx, x);

	return id == 0 ? 0 : show(ctx, x, http_peer(x)->uid, id);
}

int
context_delete(struct http_exchange *x, void *ctx)
{
	int64_t id = number_of(ctx, x);
	struct wish *wish;

	if (id == 0)
		return 0;
	if ((wish = wish_new(ctx, x)) == NULL)
		return -1;
	wish->withdraw = true;
	wish->id = id;
	return wish_submit(wish);
}

/*
 * Any user of this machine, but nobody whom the kernel does not vouch for.  In a container all
 * users that it cannot name there have one number, and so have their folders.
 */
static int
authorise(void *ctx, struct http_peer *peer)
{
	(void)ctx;
	return peer->uid == HTTP_NOBODY || peer->uid == OVERFLOW_UID ? -1 : 0;
}

int
context_serve(struct net *net, struct refusal *refusal)
{
	struct store *db = net->env->db;
	struct http_server_config config = {
	    .routes = net_routes, .once = true, .authorise = authorise, .ctx = net};
	char directory[HOME_ASK_MAX + 1], path[HOME_ASK_MAX + sizeof(CONTEXT_SOCKET) + 1];

	net_limits(db, &config.limits);
	config.limits.connections = (unsigned)store_setting(db, "context.connections");
	config.limits.uid_connections = (unsigned)store_setting(db, "context.per_uid");
	config.limits.body = (size_t)store_setting(db, "context.body");
	config.limits.idle_ms = store_setting(db, "context.time_ms");
	if (home_ask(net->env->home, directory, refusal) != 0 ||
	    (net->asks = http_server_new(net->env->loop, &config, refusal)) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/%s", directory, CONTEXT_SOCKET);
	return http_listen_unix(net->asks, path, SURFACE_CONTEXT, 0666, refusal);
}
