/* remote_port.c: the listener for other machines: opened as the rows say, guarded by secrets. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/remote.h"
#include "engine/state/tls_identity.h"
#include "net/host/ends.h"
#include "net/host/port.h"
#include "net/host/remote_port.h"
#include "net/http/tls_pump.h"

#define PLACE_MAX 64
#define WHAT      "the port for other machines"
#define BEARER    "Bearer "

/* Where to listen, and with which certificate: another text is another listener. */
static const char WANTED[] =
    "SELECT l.address, l.port, l.address || ' ' || l.port || ' ' || i.id"
    "  FROM remote_listen AS l JOIN tls_identity AS i ON i.use = 'server' AND i.pairing_id IS NULL"
    "   AND i.state = 'current'";
static const char LIVE[] = "SELECT coalesce(group_concat(id), '') FROM remote_credential"
			   " WHERE state = 'active'";
static const char IS_LIVE[] = "SELECT count(*) FROM remote_credential"
			      " WHERE id = :id AND state = 'active' AND expires_at > now_ms()";

struct remote {
	struct http_server *server;
	bool listens;
	char place[PLACE_MAX];
	char *live;          /* whose connections may stay */
	struct refusal said; /* what was wrong last, so that it is said once */
};

/* A secret on its way into its row. */
struct knock {
	struct commit_job job; /* first */
	struct net *net;
	struct http_exchange *x; /* NULL: whoever knocked has gone */
	int64_t id;
	bool right;
	uint64_t timer; /* of a wrong one, before it is told; 0: not yet */
	char origin[REMOTE_ORIGIN_MAX + 1];
};

/*
 * The guard.
 */

static void
turn_away(struct net *net, struct http_exchange *x, const struct refusal *r)
{
	char more[NET_WORDS_MAX];
	unsigned status = net_words(net, r->code, more);

	http_turn_away(x, status, r, more);
}

static void
turn_away_as(struct net *net, struct http_exchange *x, const char *code, const char *why)
{
	struct refusal r = {.code = ""};

	refusal_set(&r, code, "%s", why);
	turn_away(net, x, &r);
}

static void
not_right(struct net *net, struct http_exchange *x)
{
	turn_away_as(net, x, "remote.token", "no live credential has this secret");
}

static void
knock_gone(void *ctx)
{
	struct knock *k = ctx;

	k->x = NULL;
	if (k->timer == 0)
		return;
	loop_cancel(k->net->env->loop, k->timer);
	free(k);
}

/* A wrong secret has waited long enough. */
static void
knock_late(void *ctx)
{
	struct knock *k = ctx;

	not_right(k->net, k->x);
	free(k);
}

/* In the committer's thread. */
static int
knock_run(struct store *db, struct commit_job *job)
{
	struct knock *k = (struct knock *)job;

	store_acting(db, "actor:net");
	return remote_tried(db, k->origin, k->id, k->right);
}

static void
knock_done(struct commit_job *job)
{
	struct knock *k = (struct knock *)job;
	struct net *net = k->net;

	if (k->x != NULL && job->result != 0)
		turn_away(net, k->x, &job->refusal);
	else if (k->x != NULL && k->right)
		http_pass(k->x, SURFACE_REMOTE, k->id);
	else if (k->x != NULL) {
		k->timer = loop_after(
		    net->env->loop, store_setting(net->env->db, "remote.delay_ms"), knock_late, k);
		if (k->timer != 0)
			return;
		not_right(net, k->x);
	}
	free(k);
}

/* The first request on a connection: its secret becomes a row before it is heard. */
static void
knock(struct net *net, struct http_exchange *x, const char *token)
{
	struct store *db = net->env->db;
	struct refusal r = {.code = ""};
	struct knock *k;

	if ((k = calloc(1, sizeof(*k))) == NULL) {
		turn_away_as(net, x, "http.memory", "out of memory");
		return;
	}
	*k = (struct knock){.job = {.run = knock_run, .done = knock_done}, .net = net, .x = x};
	remote_origin(http_peer(x)->address, k->origin);
	if (remote_held(db, k->origin, &r) == 0 &&
	    http_server_connections_of(net->remote->server, SURFACE_REMOTE) >=
		store_setting(db, "remote.connections"))
		refusal_set(&r, "remote.busy", "busy: too many connections are open");
	if (r.code[0] != '\0') {
		turn_away(net, x, &r);
		free(k);
		return;
	}
	k->right = remote_right(db, net->env->wire, token, &k->id);
	http_on_close(x, knock_gone, k);
	committer_submit(net->committer, &k->job);
}

static void
guard(void *ctx, struct http_exchange *x)
{
	const char *header = http_header(x, "Authorization");
	const struct http_peer *peer = http_peer(x);
	struct net *net = ctx;
	int64_t id;

	/* What shows no secret is no try: a scanner, or a browser. */
	if (header == NULL || strncmp(header, BEARER, strlen(BEARER)) != 0) {
		turn_away_as(net, x, "remote.token", "a request shows its secret first");
		return;
	}
	header += strlen(BEARER);
	if (peer->surface == SURFACE_KNOCK)
		knock(net, x, header);
	else if (remote_right(net->env->db, net->env->wire, header, &id) && id == peer->tag)
		http_pass(x, SURFACE_REMOTE, id);
	else
		not_right(net, x);
}

/* Who came first and says nothing makes room. */
static int
authorise(void *ctx, struct http_peer *peer)
{
	struct net *net = ctx;

	(void)peer;
	return http_server_connections_of(net->remote->server, SURFACE_KNOCK) <
			   store_setting(net->env->db, "remote.guests") ||
		       http_server_make_room(net->remote->server, SURFACE_KNOCK)
		   ? 0
		   : -1;
}

/*
 * The listener.
 */

static int
server_make(struct net *net, struct refusal *r)
{
	struct store *db = net->env->db;
	struct http_server_config config = {.routes = net_routes,
	    .authorise = authorise,
	    .guarded = SURFACE_KNOCK | SURFACE_REMOTE,
	    .guard_ms = store_setting(db, "remote.guest_ms"),
	    .guard = guard,
	    .ctx = net};

	if (net->remote->server != NULL)
		return 0;
	net_limits(db, &config.limits);
	config.limits.connections = (unsigned)(store_setting(db, "remote.connections") +
					       store_setting(db, "remote.guests"));
	net->remote->server = http_server_new(net->env->loop, &config, r);
	return net->remote->server != NULL ? 0 : -1;
}

static void
limits_of(struct store *db, struct tls_limits *limits)
{
	ends_limits(db, limits);
	limits->handshakes = (unsigned)store_setting(db, "remote.handshakes");
	limits->connections =
	    limits->handshakes + (unsigned)(store_setting(db, "remote.connections") +
					    store_setting(db, "remote.guests"));
	limits->per_address = (unsigned)store_setting(db, "remote.per_address");
	limits->handshake_ms = store_setting(db, "remote.handshake_ms");
}

static int
serve(struct net *net, const char *address, uint16_t port, struct refusal *r)
{
	struct store *db = net->env->db;
	struct tls_identity identity;
	struct tls_config config = {.cert = &identity.cert,
	    .key = &identity.key,
	    .issuer = &identity.issuer,
	    .ask = TLS_ASK_NOTHING};
	struct tls_limits limits;
	int fd, rc;

	if (server_make(net, r) != 0)
		return -1;
	if (tls_server(db, net->env->wire, &identity) != 0) {
		*r = *store_refusal(db);
		return -1;
	}
	limits_of(db, &limits);
	http_listen_end(net->remote->server, SURFACE_KNOCK);
	rc = (fd = port_bind(address, port, WHAT, r)) == -1
		 ? -1
		 : http_listen_tls(net->remote->server, fd, SURFACE_KNOCK, &config, &limits, r);
	tls_identity_free(&identity);
	return rc;
}

static bool
nobody(void *ctx, const struct http_peer *peer)
{
	(void)ctx;
	(void)peer;
	return false;
}

/* There is nowhere to listen any more: whoever came that way goes. */
static void
leave(struct remote *remote)
{
	if (!remote->listens)
		return;
	http_listen_end(remote->server, SURFACE_KNOCK);
	http_close_unless(remote->server, SURFACE_KNOCK, nobody, NULL);
	http_close_unless(remote->server, SURFACE_REMOTE, nobody, NULL);
	remote->listens = false;
	remote->place[0] = '\0';
}

static void
take(struct net *net, const char *address, uint16_t port, const char *place)
{
	struct remote *remote = net->remote;
	struct refusal r = {.code = ""};

	if (remote->listens && strcmp(remote->place, place) == 0)
		return;
	if (serve(net, address, port, &r) == 0) {
		remote->listens = true;
		snprintf(remote->place, sizeof(remote->place), "%s", place);
		remote->said.why[0] = '\0';
		return;
	}
	if (strcmp(remote->said.why, r.why) != 0)
		fprintf(stderr, "bastion: net: %s: %s [%s]\n", WHAT, r.why, r.code);
	remote->said = r;
}

static bool
is_live(void *ctx, const struct http_peer *peer)
{
	struct net *net = ctx;
	struct stmt *q;

	if ((q = store_sql(net->env->db, IS_LIVE)) == NULL)
		return false;
	stmt_int(q, ":id", peer->tag);
	return stmt_value(q, 0) == 1;
}

/* A credential that is over takes its connections with it. */
static void
cut(struct net *net)
{
	struct remote *remote = net->remote;
	struct stmt *q;
	char *now;

	if ((q = store_sql(net->env->db, LIVE)) == NULL || stmt_step(q) != 1)
		return;
	now = strdup(stmt_get_text(q, 0));
	stmt_done(q);
	if (now == NULL || remote->live == NULL || strcmp(now, remote->live) != 0)
		http_close_unless(remote->server, SURFACE_REMOTE, is_live, net);
	free(remote->live);
	remote->live = now;
}

void
remote_wake(struct net *net)
{
	char address[LISTEN_ADDRESS_MAX + 1], place[PLACE_MAX];
	uint16_t port;
	struct stmt *q;
	int rc;

	if (net->drained || net->env->home->role != HOME_BOX ||
	    (net->remote == NULL && (net->remote = calloc(1, sizeof(*net->remote))) == NULL) ||
	    (q = store_sql(net->env->db, WANTED)) == NULL)
		return;
	if ((rc = stmt_step(q)) == 1) {
		snprintf(address, sizeof(address), "%s", stmt_get_text(q, 0));
		port = (uint16_t)stmt_get_int(q, 1);
		snprintf(place, sizeof(place), "%s", stmt_get_text(q, 2));
		stmt_done(q);
		take(net, address, port, place);
	} else if (rc == 0) {
		leave(net->remote);
	}
	if (net->remote->server != NULL)
		cut(net);
}

bool
remote_drain(struct net *net, void (*done)(void *net))
{
	if (net->remote == NULL || net->remote->server == NULL)
		return false;
	http_server_drain(net->remote->server, done, net);
	return true;
}

void
remote_end(struct net *net)
{
	if (net->remote == NULL)
		return;
	http_server_free(net->remote->server);
	free(net->remote->live);
	free(net->remote);
	net->remote = NULL;
}

/*
 * Who asks.
 */

int
remote_asks(struct net *net, struct http_exchange *x, struct calls_who *who)
{
	const struct http_peer *peer = http_peer(x);

	*who = (struct calls_who){.uid = peer->uid};
	if (peer->surface != SURFACE_REMOTE)
		return 0;
	who->remote = peer->tag;
	if (remote_who(net->env->db, who->remote, who->agent, &who->uid) == 0)
		return 0;
	net_refuse(net, x, store_refusal(net->env->db), NULL);
	return -1;
}

int
remote_may(struct net *net, struct http_exchange *x, int64_t session, const char *verb)
{
	const struct http_peer *peer = http_peer(x);

	if (peer->surface != SURFACE_REMOTE ||
	    remote_reaches(net->env->db, peer->tag, session, verb) == 0)
		return 0;
	net_refuse(net, x, store_refusal(net->env->db), NULL);
	return -1;
}
