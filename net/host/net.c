/* net.c: the actor that serves sockets: which there are, what each offers, and how it says no. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/host/anchor.h"
#include "net/host/beats.h"
#include "net/host/bundles.h"
#include "net/host/calls.h"
#include "net/host/cancel.h"
#include "net/host/context.h"
#include "net/host/enroll_client.h"
#include "net/host/line.h"
#include "net/host/mcp_http.h"
#include "net/host/net.h"
#include "net/host/openapi.h"
#include "net/host/park.h"
#include "net/host/peers.h"
#include "net/host/port.h"
#include "net/host/remote_port.h"
#include "net/host/renew.h"
#include "net/host/runs.h"
#include "net/host/sessions.h"
#include "net/host/typing.h"
#include "net/host/watch.h"

static int control_status(struct http_exchange *x, void *ctx);
static int control_approvals(struct http_exchange *x, void *ctx);
static int serve_openapi(struct http_exchange *x, void *ctx);

/* The whole surface. */
const struct http_route net_routes[] = {
    {"GET", "/v1/openapi.json",
	SURFACE_CONTROL | SURFACE_LANE | SURFACE_ENROLL | SURFACE_CONTEXT | SURFACE_PEER |
	    SURFACE_LINES | SURFACE_REMOTE,
	0, serve_openapi, "this description"},
    {"GET", "/v1/status", SURFACE_CONTROL, 0, control_status, "what runs, and what waits"},
    {"GET", "/v1/approvals", SURFACE_CONTROL, 0, control_approvals,
	"questions that wait for a person"},
    {"GET", "/v1/ops", SURFACE_LANE | SURFACE_PEER, 0, lane_ops, "the op catalog"},
    {"POST", "/v1/ops", SURFACE_LANE | SURFACE_PEER, 65536, lane_ask,
	"ask for an op; the answer is streamed"},
    {"POST", "/v1/cancels", SURFACE_LANE | SURFACE_PEER, 1024, lane_cancel,
	"take an ask back, also once it runs"},
    {"GET", "/v1/pairings", SURFACE_LANE | SURFACE_PEER, 0, anchor_list,
	"pairings here, as far as they are told"},
    {"POST", "/v1/pairings", SURFACE_LANE | SURFACE_PEER, ANCHOR_BODY_MAX, anchor_sync,
	"terms that the anchor signed"},
    {"POST", "/v1/beats", SURFACE_ENROLL | SURFACE_PEER, HTTP_BEAT, beats_take,
	"a box says how it is, and is told what is wanted of it"},
    {"POST", "/v1/certificates", SURFACE_PEER, 8192, renew_take,
	"a box asks for its next certificate"},
    {"GET", "/v1/line", SURFACE_PEER, 0, line_take,
	"a box that dials in gives this connection to be asked on"},
    {"GET", PARK_PATH, SURFACE_PEER, 0, berths_take,
	"a box parks this connection, for one of the Host's to the internet"},
    {"GET", "/v1/boxes/{box}/{what}", SURFACE_LINES, 0, line_relay,
	"ask a box that dialled in, as on its lane"},
    {"POST", "/v1/boxes/{box}/{what}", SURFACE_LINES, 65536, line_relay,
	"ask a box that dialled in, as on its lane"},
    {"GET", "/v1/folders", SURFACE_CONTEXT, 0, context_list, "what this user asked to share"},
    {"POST", "/v1/folders", SURFACE_CONTEXT, 65536, context_post,
	"ask to share a folder with a Host"},
    {"GET", "/v1/folders/{id}", SURFACE_CONTEXT, 0, context_show, "one ask of this user"},
    {"DELETE", "/v1/folders/{id}", SURFACE_CONTEXT, 0, context_delete,
	"take an ask back, or what it was allowed"},
    {"POST", "/v1/calls", SURFACE_CONTROL, 65536, calls_ask, "ask a box; the answer is streamed"},
    {"GET", "/v1/calls/{id}", SURFACE_CONTROL, 0, calls_follow,
	"the answer to an ask, from the beginning or behind a frame"},
    {"DELETE", "/v1/calls/{id}", SURFACE_CONTROL, 0, calls_drop, "take an ask back"},
    {"GET", "/v1/sessions", SURFACE_CONTROL | SURFACE_REMOTE, 0, sessions_list,
	"what runs, waits, and ended"},
    {"POST", "/v1/sessions", SURFACE_CONTROL | SURFACE_REMOTE, SESSIONS_BODY_MAX, sessions_new,
	"begin a session"},
    {"GET", "/v1/sessions/{name}", SURFACE_CONTROL | SURFACE_REMOTE, 0, sessions_show,
	"one session"},
    {"DELETE", "/v1/sessions/{name}", SURFACE_CONTROL | SURFACE_REMOTE, 0, sessions_cancel,
	"end a session"},
    {"GET", "/v1/sessions/{name}/output", SURFACE_CONTROL | SURFACE_REMOTE, 0, sessions_output,
	"what it said and says, from the beginning or behind a row"},
    {"POST", "/v1/sessions/{name}/input", SURFACE_CONTROL | SURFACE_REMOTE, SESSIONS_INPUT,
	sessions_input, "send to a session"},
    {"POST", "/v1/sessions/{name}/keys", SURFACE_CONTROL | SURFACE_REMOTE, SESSIONS_INPUT,
	typing_keys, "type to a session, one at a time"},
    {"POST", "/v1/runs", SURFACE_CONTROL, RUNS_BODY_MAX, runs_new,
	"begin a run in a sandbox, whose process asks"},
    {"POST", "/v1/runs/{id}", SURFACE_CONTROL, RUNS_BODY_MAX, runs_told,
	"what became of a run, by the process that began it"},
    {"POST", "/v1/bundles", SURFACE_REMOTE, BUNDLES_BODY_MAX, bundles_new,
	"begin to copy a repository here, or go on with it"},
    {"GET", "/v1/bundles/{id}", SURFACE_REMOTE, 0, bundles_show,
	"how far the copy of a repository is"},
    {"POST", "/v1/bundles/{id}/data", SURFACE_REMOTE, BUNDLES_PIECE, bundles_take,
	"a piece of a repository"},
    {"POST", "/mcp", SURFACE_CONTROL | SURFACE_MCP, 65536, mcp_post, "a message of an agent (MCP)"},
    {"GET", "/mcp", SURFACE_CONTROL | SURFACE_MCP, 0, mcp_get,
	"what an agent is told unasked, or a stream taken up again"},
    {"DELETE", "/mcp", SURFACE_CONTROL | SURFACE_MCP, 0, mcp_delete,
	"the end of an agent's session"},
    {"POST", "/v1/enroll", SURFACE_ENROLL | SURFACE_GUEST, ENROLL_BODY_MAX, enroll_redeem,
	"redeem an invitation"},
    {NULL, NULL, 0, 0, NULL, NULL},
};

static const struct {
	const char *name;
	unsigned surface;
	bool box, host;
} listeners[] = {
    {"control.sock", SURFACE_CONTROL, true, true},
    {"lane.sock", SURFACE_LANE, true, false},
    {"enroll.sock", SURFACE_ENROLL, false, true},
    {"lines.sock", SURFACE_LINES, false, true},
};

/* What the table says of a code, as the members of an error that follow the code and the reason. */
static const char REFUSED[] =
    "SELECT http_status, substr(j, 2, length(j) - 2) FROM (SELECT http_status,"
    " json_object('exit', exit_code, 'advice', advice) AS j"
    " FROM refusal WHERE code = :code)";

static const char STATUS[] =
    "SELECT json_object("
    " 'name', (SELECT name FROM box), 'role', (SELECT role FROM box), 'mode', (SELECT mode FROM box),"
    " 'version', (SELECT version FROM live_instance), 'state', (SELECT state FROM live_instance),"
    " 'pid', (SELECT pid FROM live_instance), 'started_at', (SELECT started_at FROM live_instance),"
    " 'open_approvals', (SELECT count(*) FROM open_approvals),"
    " 'live_grants', (SELECT count(*) FROM live_grants), 'live_runs', (SELECT count(*) FROM live_runs),"
    " 'pairings', (SELECT json_group_array(json_object('host', host, 'state', state, 'since', since,"
    "   'reason', reason)) FROM pairing_status), 'audit', (SELECT max(seq) FROM audit))";

static const char APPROVALS[] =
    "SELECT coalesce(json_group_array(json_object('id', id, 'host', host, 'op', op, 'args', json(args),"
    " 'uses', uses, 'ttl_ms', ttl_ms, 'asked_at', asked_at, 'expires_at', expires_at, 'digest', digest)),"
    " '[]') FROM open_approvals";

unsigned
net_words(struct net *net, const char *code, char more[NET_WORDS_MAX])
{
	unsigned status = 500;
	struct stmt *q;

	more[0] = '\0';
	if ((q = store_sql(net->env->db, REFUSED)) == NULL)
		return status;
	stmt_text(q, ":code", code);
	if (stmt_step(q) == 1) {
		status = (unsigned)stmt_get_int(q, 0);
		snprintf(more, NET_WORDS_MAX, "%s", stmt_get_text(q, 1));
		stmt_done(q);
	}
	return status;
}

void
net_refuse(
    struct net *net, struct http_exchange *x, const struct refusal *refusal, const char *extra)
{
	char more[NET_WORDS_MAX];
	unsigned status = net_words(net, refusal->code, more);
	size_t n = strlen(more);

	if (n > 0 && extra != NULL)
		snprintf(more + n, sizeof(more) - n, ",%s", extra);
	http_refuse(x, status, refusal, n == 0 ? extra : more);
}

int
net_answer(struct net *net, struct http_exchange *x, struct stmt *q)
{
	if (q == NULL || stmt_step(q) != 1) {
		net_refuse(net, x, store_refusal(net->env->db), NULL);
		return 0;
	}
	http_reply(
	    x, 200, "application/json", NULL, stmt_get_text(q, 0), strlen(stmt_get_text(q, 0)));
	stmt_done(q);
	return 0;
}

static int
control_status(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;

	return net_answer(net, x, store_sql(net->env->db, STATUS));
}

static int
control_approvals(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;

	return net_answer(net, x, store_sql(net->env->db, APPROVALS));
}

static int
serve_openapi(struct http_exchange *x, void *ctx)
{
	(void)ctx;
	http_reply(x, 200, "application/json", NULL, openapi, strlen(openapi));
	return 0;
}

/*
 * Before a byte is read: only we and root may speak to a socket of ours (PT-11).  Whether a Host is
 * the one that was paired is decided by its signature.  Anybody on the machine may connect to the
 * port for MCP, but no more of them than leave room for the others; who they are, a token says.
 */
static int
authorise(void *ctx, struct http_peer *peer)
{
	struct net *net = ctx;

	if (peer->surface == SURFACE_MCP)
		return http_server_connections_of(net->server, SURFACE_MCP) <
			       store_setting(net->env->db, "mcp.connections")
			   ? 0
			   : -1;
	if (peer->surface == SURFACE_GUEST)
		return port_authorise(net, peer);
	return peer->uid == geteuid() || peer->uid == 0 ? 0 : -1;
}

void
net_limits(struct store *db, struct http_limits *limits)
{
	*limits = (struct http_limits){
	    .connections = (unsigned)store_setting(db, "http.connections"),
	    .uid_connections = (unsigned)store_setting(db, "http.per_uid"),
	    .body = (size_t)store_setting(db, "http.body"),
	    .beat = (size_t)store_setting(db, "beat.bytes"),
	    .header_bytes = (size_t)store_setting(db, "http.header"),
	    .headers = (unsigned)store_setting(db, "http.headers"),
	    .idle_ms = store_setting(db, "http.idle_ms"),
	    .request_ms = store_setting(db, "http.request_ms"),
	    .stall_ms = store_setting(db, "http.stall_ms"),
	    .json_depth = (unsigned)store_setting(db, "http.depth"),
	    .stream_bytes = (size_t)store_setting(db, "http.stream"),
	};
}

static int
net_listen(struct net *net, struct refusal *r)
{
	const struct home *home = net->env->home;
	char path[HOME_RUN_MAX + 16];
	size_t i;

	if (home_run(home, r) != 0)
		return -1;
	for (i = 0; i < sizeof(listeners) / sizeof(listeners[0]); i++) {
		if (!(home->role == HOME_HOST ? listeners[i].host : listeners[i].box))
			continue;
		snprintf(path, sizeof(path), "%s/%s", home->run, listeners[i].name);
		if (http_listen_unix(net->server, path, listeners[i].surface, 0600, r) != 0)
			return -1;
	}
	return 0;
}

static void
net_stop(struct actor_env *env)
{
	struct net *net = env->ctx;

	if (net == NULL)
		return;
	loop_cancel(env->loop, net->opening);
	mcp_http_end(net);
	dials_end(net);
	parks_end(net);
	line_end(net);
	berths_end(net);
	port_end(net);
	http_server_free(net->server);
	http_server_free(net->asks);
	remote_end(net);
	committer_stop(net->committer);
	dials_free(net);
	parks_free(net);
	line_free(net);
	berths_free(net);
	free(net->paired);
	free(net);
	env->ctx = NULL;
}

static int
net_start(struct actor_env *env, struct refusal *r)
{
	struct http_server_config config = {.routes = net_routes, .authorise = authorise};
	struct net *net;

	if ((net = calloc(1, sizeof(*net))) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	env->ctx = config.ctx = net;
	net->env = env;
	net_limits(env->db, &config.limits);
	config.limits.peer_connections = (unsigned)store_setting(env->db, "port.per_address");
	net->stream_bytes = config.limits.stream_bytes;
	calls_start(net);
	net->committer =
	    committer_start(env->home, ROLE_NET, &env->keys, "actor:net", env->loop, r);
	if (net->committer != NULL &&
	    (net->server = http_server_new(env->loop, &config, r)) != NULL &&
	    (env->home->role == HOME_HOST ? line_start(net, r) : dials_start(net, r)) == 0 &&
	    (env->home->role == HOME_HOST ? berths_start(net, r) : parks_start(net, r)) == 0 &&
	    net_listen(net, r) == 0 && mcp_http_start(net, r) == 0) {
		/* Without a place for their socket users cannot ask; the box serves all the same.
		 */
		if (env->home->role == HOME_BOX && context_serve(net, r) != 0)
			fprintf(
			    stderr, "net: users cannot ask for folders: %s: %s\n", r->code, r->why);
		return 0;
	}
	net_stop(env);
	return -1;
}

/* What is open and listens, as the rows have it now. */
static void
net_open(void *ctx)
{
	struct net *net = ctx;

	net->opening = 0;
	peers_wake(net);
	dials_wake(net);
	parks_wake(net);
	berths_wake(net);
	port_wake(net);
	remote_wake(net);
}

/* Those who wait for an answer; the rest once what they are told has left. */
static void
net_wake(struct actor_env *env)
{
	struct net *net = env->ctx;

	watch_wake(net);
	lane_wake(net);
	mcp_http_wake(net);
	enroll_wake(net);
	renew_wake(net);
	if (net->opening == 0 && (net->opening = loop_after(env->loop, 0, net_open, net)) == 0)
		net_open(net);
}

static void
drained(void *ctx)
{
	struct net *net = ctx;

	if (--net->serving == 0)
		loop_stop(net->env->loop);
}

static void
server_drain(struct net *net)
{
	http_server_drain(net->server, drained, net);
}

static void
net_drain(struct actor_env *env)
{
	struct net *net = env->ctx;

	lane_drain(net);
	mcp_http_end(net);
	dials_drain(net);
	parks_end(net);
	berths_end(net);
	port_end(net);
	net->serving = 1 + (net->asks != NULL);
	if (net->asks != NULL)
		http_server_drain(net->asks, drained, net);
	net->serving += remote_drain(net, drained);
	line_drain(net, server_drain);
}

const struct actor actor_net = {
    .name = "net",
    .role = ROLE_NET,
    .secret = SECRET_WIRE,
    .box = true,
    .host = true,
    .filtered = true,
    .serves = true,
    .start = net_start,
    .wake = net_wake,
    .drain = net_drain,
    .stop = net_stop,
};
