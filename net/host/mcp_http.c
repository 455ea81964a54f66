/* mcp_http.c: who may speak MCP here, and which session a message belongs to. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/clock.h"
#include "net/host/calls.h"
#include "net/host/mcp.h"
#include "net/host/mcp_feed.h"
#include "net/host/mcp_http.h"

static const char BEARER[] =
    "SELECT id, label FROM mcp_token WHERE digest = :digest AND state = 'active'";
static const char DROPPED[] = "SELECT count(*) FROM mcp_token WHERE state = 'dropped'";
static const char LIVE[] = "SELECT count(*) FROM mcp_token WHERE id = :id AND state = 'active'";

/* RFC 6750 §3: a refused bearer is told which scheme is wanted. */
static const char NO_TOKEN[] =
    "SELECT json_object('error', json_object('code', code, 'why', :why, 'retry_at', NULL,"
    "  'exit', exit_code, 'advice', advice)) FROM refusal WHERE code = 'mcp.token'";

/* Who asks: a token, or with 0 the user at the other end of the socket. */
struct agent {
	int64_t token;
	struct calls_who who;
};

/* A session, and what it is sent. */
struct web {
	struct web *next, **self;
	struct mcp_http *http;
	char id[33];
	struct agent agent;
	struct mcp_session *session;
	struct feed *feed;
	int64_t heard; /* on loop_now's clock */
};

struct mcp_http {
	struct net *net;
	struct mcp *mcp;
	struct web *sessions; /* the one that was heard last comes first */
	int64_t n, dropped;
	uint64_t timer;
};

/* A call on its way: where its answer goes, and its ask until that has a row. */
struct web_call {
	struct feed_stream *stream;
	struct call *asked;
	struct mcp_call *call;
};

/*
 * Sessions.
 */

static void
web_unlink(struct web *w)
{
	*w->self = w->next;
	if (w->next != NULL)
		w->next->self = w->self;
}

static void
web_link(struct web *w)
{
	w->self = &w->http->sessions;
	if ((w->next = w->http->sessions) != NULL)
		w->next->self = &w->next;
	w->http->sessions = w;
}

static void
web_free(struct web *w)
{
	w->http->n--;
	web_unlink(w);
	mcp_session_free(w->session);
	feed_free(w->feed);
	free(w);
}

static struct web *
web_new(struct mcp_http *http, const struct agent *agent)
{
	struct store *db = http->net->env->db;
	struct web *w;

	if ((w = calloc(1, sizeof(*w))) == NULL)
		return NULL;
	w->http = http;
	w->agent = *agent;
	w->heard = loop_now();
	random_hex(w->id);
	w->feed = feed_new((size_t)store_setting(db, "mcp.events"),
	    (size_t)store_setting(db, "mcp.ring"), http->net->stream_bytes);
	if (w->feed == NULL || (w->session = mcp_session_new(http->mcp, w)) == NULL) {
		feed_free(w->feed);
		free(w);
		return NULL;
	}
	web_link(w);
	http->n++;
	return w;
}

static struct web *
web_find(const struct mcp_http *http, const char *id)
{
	struct web *w;

	for (w = http->sessions; w != NULL && strcmp(w->id, id) != 0; w = w->next)
		;
	return w;
}

/*
 * Make room for one more: of those that wait for nothing, the one that was silent longest goes, of
 * the same agent where it has one.  Return 0, or -1 where all are at work.
 */
static int
web_make_room(struct mcp_http *http, const struct web *keep)
{
	struct web *w, *own = NULL, *any = NULL;

	if (http->n <= store_setting(http->net->env->db, "mcp.sessions"))
		return 0;
	for (w = http->sessions; w != NULL; w = w->next) {
		if (w == keep || mcp_session_calls(w->session) > 0)
			continue;
		any = w;
		if (w->agent.token == keep->agent.token)
			own = w;
	}
	if (any == NULL)
		return -1;
	web_free(own != NULL ? own : any);
	return 0;
}

static void on_beat(void *ctx);

static void
beat_later(struct mcp_http *http)
{
	if (http->timer == 0 && http->sessions != NULL)
		http->timer = loop_after(http->net->env->loop,
		    store_setting(http->net->env->db, "mcp.beat_ms"), on_beat, http);
}

/* Readers that have gone are noticed, and sessions that were left end. */
static void
on_beat(void *ctx)
{
	struct mcp_http *http = ctx;
	int64_t idle_ms = store_setting(http->net->env->db, "mcp.idle_ms"), now = loop_now();
	struct web *w, *next;

	http->timer = 0;
	for (w = http->sessions; w != NULL; w = next) {
		next = w->next;
		if (feed_is_read(w->feed) || mcp_session_calls(w->session) > 0)
			w->heard = now;
		if (now - w->heard > idle_ms)
			web_free(w);
		else
			feed_beat(w->feed);
	}
	beat_later(http);
}

/* A token that was dropped ends the sessions that it began. */
static void
drop_tokens(struct mcp_http *http)
{
	struct store *db = http->net->env->db;
	int64_t dropped = stmt_value(store_sql(db, DROPPED), http->dropped);
	struct web *w, *next;
	struct stmt *q;

	if (dropped == http->dropped)
		return;
	http->dropped = dropped;
	for (w = http->sessions; w != NULL; w = next) {
		next = w->next;
		if (w->agent.token == 0 || (q = store_sql(db, LIVE)) == NULL)
			continue;
		stmt_int(q, ":id", w->agent.token);
		if (stmt_value(q, 1) == 0)
			web_free(w);
	}
}

/*
 * What the protocol wants done.
 */

static void
on_made(void *ctx, int64_t id, const struct refusal *refusal)
{
	struct web_call *c = ctx;

	c->asked = NULL;
	mcp_asked(c->call, id, refusal);
}

static void
on_ask(void *ctx, struct mcp_call *call, const char *body, size_t len)
{
	struct mcp_http *http = ctx;
	const struct web *w = mcp_session_ctx(mcp_call_session(call));
	struct web_call *c = mcp_call_ctx(call);
	struct refusal r = {.code = ""};

	c->asked = calls_make(http->net, &w->agent.who, body, len, on_made, c, &r);
	if (c->asked == NULL)
		mcp_asked(call, 0, &r);
}

static void
on_forget(void *ctx, struct mcp_call *call)
{
	struct web_call *c = mcp_call_ctx(call);

	(void)ctx;
	if (c->asked != NULL)
		calls_revoke(c->asked);
}

static void
on_cancel(void *ctx, struct mcp_session *session, int64_t id)
{
	struct mcp_http *http = ctx;
	const struct web *w = mcp_session_ctx(session);

	calls_cancel(http->net, &w->agent.who, id);
}

static void
on_send(void *ctx, struct mcp_session *session, struct mcp_call *call, const char *text, size_t len,
    bool last)
{
	const struct web *w = mcp_session_ctx(session);
	struct web_call *c = call == NULL ? NULL : mcp_call_ctx(call);

	(void)ctx;
	feed_put(w->feed, c == NULL ? NULL : c->stream, text, len, last);
	if (last)
		free(c);
}

static const struct mcp_hooks hooks = {on_ask, on_forget, on_cancel, on_send};

/*
 * Who may speak.
 */

/* Whether ${host}, as in the header Host, is this machine by a name that no DNS can give to a web
 * page: localhost, 127.0.0.1 or [::1], with any port. */
static bool
is_here(const char *host)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	size_t i, n;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		n = strlen(names[i]);
		if (strncasecmp(host, names[i], n) != 0)
			continue;
		if (host[n] == '\0' ||
		    (host[n] == ':' && host[n + 1] != '\0' &&
			host[n + 1 + strspn(host + n + 1, "0123456789")] == '\0'))
			return true;
	}
	return false;
}

/* RFC 6454 §7: of a page that this machine itself serves. */
static bool
is_origin_here(const char *origin)
{
	if (strncasecmp(origin, "http://", 7) == 0)
		return is_here(origin + 7);
	return strncasecmp(origin, "https://", 8) == 0 && is_here(origin + 8);
}

static int
bearer_find(struct net *net, const char *value, struct agent *agent)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	struct stmt *q;

	if (value == NULL || strncasecmp(value, "Bearer ", 7) != 0 ||
	    (q = store_sql(net->env->db, BEARER)) == NULL)
		return -1;
	value += 7 + strspn(value + 7, " ");
	crypto_hash_sha256(digest, (const unsigned char *)value, strlen(value));
	stmt_blob(q, ":digest", digest, sizeof(digest));
	if (stmt_step(q) != 1)
		return -1;
	agent->token = stmt_get_int(q, 0);
	snprintf(agent->who.agent, sizeof(agent->who.agent), "%s", stmt_get_text(q, 1));
	stmt_done(q);
	return 0;
}

static void
refuse(struct net *net, struct http_exchange *x, const char *code, const char *why)
{
	struct refusal r;

	refusal_set(&r, code, "%s", why);
	net_refuse(net, x, &r, NULL);
}

static void
refuse_bearer(struct net *net, struct http_exchange *x, const char *why)
{
	static const struct http_field headers[] = {{"X-Bastion-Refused", "mcp.token"},
	    {"WWW-Authenticate", "Bearer realm=\"bastion\""}, {NULL, NULL}};
	struct stmt *q;
	const char *body;

	if ((q = store_sql(net->env->db, NO_TOKEN)) == NULL) {
		net_refuse(net, x, store_refusal(net->env->db), NULL);
		return;
	}
	stmt_text(q, ":why", why);
	if (stmt_step(q) != 1)
		return;
	body = stmt_get_text(q, 0);
	http_reply(x, 401, "application/json", headers, body, strlen(body));
	stmt_done(q);
}

/* Return 0 with who asks; or -1 with ${x} answered. */
static int
agent_find(struct net *net, struct http_exchange *x, struct agent *agent)
{
	const char *host = http_header(x, "Host"), *origin = http_header(x, "Origin");
	bool port = http_surface(x) == SURFACE_MCP;

	*agent = (struct agent){.who.uid = http_peer(x)->uid};
	if (net->mcp == NULL) {
		refuse(net, x, "http.busy", "the daemon is stopping");
		return -1;
	}
	if (port && (host == NULL || !is_here(host))) {
		refuse(net, x, "mcp.host", "the request is for another host than this machine");
		return -1;
	}
	if (origin != NULL && !is_origin_here(origin)) {
		refuse(net, x, "mcp.origin", "the request comes from a web page elsewhere");
		return -1;
	}
	if (!port || bearer_find(net, http_header(x, "Authorization"), agent) == 0)
		return 0;
	refuse_bearer(net, x, "no live token came with the request");
	return -1;
}

/*
 * Requests.
 */

/* Whether the list of media types ${value} has ${type}, without looking at weights. */
static bool
accepts(const char *value, const char *type)
{
	const char *at;
	size_t n = strlen(type);

	if (value == NULL)
		return false;
	for (at = strcasestr(value, type); at != NULL; at = strcasestr(at + 1, type))
		if ((at == value || strchr(" \t,", at[-1]) != NULL) &&
		    (at[n] == '\0' || strchr(" \t,;", at[n]) != NULL))
			return true;
	return strcmp(type, "*/*") != 0 && accepts(value, "*/*");
}

/* 2025-03-26 is what a client speaks that says nothing (MCP 2025-11-25, transports). */
static bool
version_is_known(const char *version)
{
	return version == NULL || strcmp(version, MCP_LATEST) == 0 ||
	       strcmp(version, "2025-06-18") == 0 || strcmp(version, "2025-03-26") == 0;
}

/* The session that ${x} names and ${agent} began, or NULL with ${x} answered. */
static struct web *
session_find(struct mcp_http *http, struct http_exchange *x, const struct agent *agent)
{
	const char *id = http_header(x, "Mcp-Session-Id");
	struct web *w;

	if (id == NULL) {
		refuse(http->net, x, "mcp.session_missing", "the request names no session");
		return NULL;
	}
	w = web_find(http, id);
	if (w == NULL || w->agent.token != agent->token || w->agent.who.uid != agent->who.uid) {
		refuse(http->net, x, "mcp.session", "there is no such session");
		return NULL;
	}
	if (!version_is_known(http_header(x, "MCP-Protocol-Version"))) {
		refuse(http->net, x, "mcp.version",
		    "this revision of the protocol is not spoken here");
		return NULL;
	}
	web_unlink(w);
	web_link(w);
	w->heard = loop_now();
	return w;
}

static void
reply(struct http_exchange *x, unsigned status, const char *answer, const char *session)
{
	const struct http_field headers[] = {
	    {session == NULL ? NULL : "Mcp-Session-Id", session}, {NULL, NULL}};

	http_reply(x, status, "application/json", headers, answer, strlen(answer));
}

/* The first message: with it a session begins, or nothing. */
static void
take_first(struct mcp_http *http, struct http_exchange *x, const struct agent *agent)
{
	struct mcp_call *call;
	enum mcp_taken taken;
	const char *body;
	char *answer;
	size_t len;
	struct web *w;

	body = http_body(x, &len);
	if ((w = web_new(http, agent)) == NULL) {
		refuse(http->net, x, "http.memory", "no memory for a session");
		return;
	}
	taken = mcp_take(w->session, body, len, &answer, &call);
	if (mcp_session_version(w->session) == NULL) {
		web_free(w);
		if (taken == MCP_NOTHING || answer == NULL)
			refuse(http->net, x, "mcp.session_missing", "the request names no session");
		else
			reply(x, 400, answer, NULL);
	} else if (web_make_room(http, w) != 0) {
		web_free(w);
		refuse(http->net, x, "mcp.busy", "too many sessions are at work");
	} else {
		reply(x, 200, answer, w->id);
		beat_later(http);
	}
	free(answer);
}

/* A tool: its answer is a stream. */
static void
begin_call(struct web *w, struct http_exchange *x, struct mcp_call *call)
{
	const char *version = mcp_session_version(w->session);
	struct web_call *c;

	if ((c = calloc(1, sizeof(*c))) != NULL)
		c->stream = feed_begin(w->feed, x, strcmp(version, MCP_LATEST) == 0);
	if (c == NULL || c->stream == NULL) {
		free(c);
		refuse(w->http->net, x, "http.memory", "no memory for a call");
		mcp_drop(call);
		return;
	}
	c->call = call;
	mcp_call_set(call, c);
	mcp_begin(call);
}

static void
take(struct web *w, struct http_exchange *x)
{
	struct mcp_call *call;
	enum mcp_taken taken;
	const char *body;
	char *answer;
	size_t len;

	body = http_body(x, &len);
	taken = mcp_take(w->session, body, len, &answer, &call);
	if (taken == MCP_CALL)
		begin_call(w, x, call);
	else if (taken == MCP_NOTHING)
		http_reply(x, 202, NULL, NULL, NULL, 0);
	else if (answer == NULL)
		refuse(w->http->net, x, "http.memory", "no memory for an answer");
	else
		reply(x, taken == MCP_WRONG ? 400 : 200, answer, NULL);
	free(answer);
}

int
mcp_post(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	const char *accept = http_header(x, "Accept");
	struct agent agent;
	struct web *w;

	if (agent_find(net, x, &agent) != 0)
		return 0;
	if (!accepts(http_header(x, "Content-Type"), "application/json"))
		refuse(net, x, "mcp.type", "a message is application/json");
	else if (!accepts(accept, "application/json") || !accepts(accept, "text/event-stream"))
		refuse(net, x, "mcp.accept",
		    "an answer is application/json or text/event-stream, and both must be accepted");
	else if (http_header(x, "Mcp-Session-Id") == NULL)
		take_first(net->mcp, x, &agent);
	else if ((w = session_find(net->mcp, x, &agent)) != NULL)
		take(w, x);
	return 0;
}

int
mcp_get(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	const char *last = http_header(x, "Last-Event-ID");
	struct agent agent;
	struct web *w;

	if (agent_find(net, x, &agent) != 0)
		return 0;
	if (!accepts(http_header(x, "Accept"), "text/event-stream")) {
		refuse(net, x, "mcp.accept", "what is read here is text/event-stream");
		return 0;
	}
	if ((w = session_find(net->mcp, x, &agent)) == NULL)
		return 0;
	if (last != NULL && feed_resume(w->feed, x, last) != 0)
		refuse(net, x, "mcp.resume", "what follows that event is not kept here");
	else if (last == NULL && feed_listen(w->feed, x) != 0)
		refuse(net, x, "http.memory", "no memory for a stream");
	return 0;
}

int
mcp_delete(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct agent agent;
	struct web *w;

	if (agent_find(net, x, &agent) != 0 || (w = session_find(net->mcp, x, &agent)) == NULL)
		return 0;
	web_free(w);
	http_reply(x, 204, NULL, NULL, NULL, 0);
	return 0;
}

/*
 * Beginning and end.
 */

static int
port_listen(struct net *net, uint16_t port, struct refusal *r)
{
	const struct sockaddr_in name = {.sin_family = AF_INET,
	    .sin_port = htons(port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd, one = 1;

	if ((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) == -1)
		return refusal_errno(r, "socket.bind", "the port for MCP");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	    bind(fd, (const struct sockaddr *)&name, sizeof(name)) == 0 &&
	    listen(fd, SOMAXCONN) == 0)
		return http_listen_fd(net->server, fd, SURFACE_MCP, r);
	refusal_errno(r, "socket.bind", "the port for MCP");
	close(fd);
	return -1;
}

int
mcp_http_start(struct net *net, struct refusal *r)
{
	struct store *db = net->env->db;
	int64_t port = store_setting(db, "mcp.port");
	struct mcp_http *http;
	struct refusal no;

	if ((http = calloc(1, sizeof(*http))) == NULL ||
	    (http->mcp = mcp_new(db, net->env->loop, &hooks, http)) == NULL) {
		free(http);
		return refusal_set(r, "http.memory", "no memory for MCP");
	}
	http->net = net;
	http->dropped = stmt_value(store_sql(db, DROPPED), 0);
	net->mcp = http;
	if (port != 0 && port_listen(net, (uint16_t)port, &no) != 0)
		fprintf(stderr, "bastion: net: %s (mcp.port %d)\n", no.why, (int)port);
	return 0;
}

void
mcp_http_end(struct net *net)
{
	struct mcp_http *http = net->mcp;

	if (http == NULL)
		return;
	while (http->sessions != NULL)
		web_free(http->sessions);
	loop_cancel(net->env->loop, http->timer);
	mcp_free(http->mcp);
	free(http);
	net->mcp = NULL;
}

void
mcp_http_wake(struct net *net)
{
	if (net->mcp == NULL || net->mcp->sessions == NULL)
		return;
	drop_tokens(net->mcp);
	mcp_wake(net->mcp->mcp);
}
