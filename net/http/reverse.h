/* reverse.h: a box that cannot be dialled dials the Host, and serves on the connections it made. */
#ifndef NET_HTTP_REVERSE_H
#define NET_HTTP_REVERSE_H

#include "net/http/client.h"
#include "net/http/server.h"
#include "net/http/tls_pump.h"

#define REVERSE_PROTOCOL      "bastion-serve"
#define REVERSE_PROOF         "X-Bastion-Proof"
#define REVERSE_PROOF_MAX     1024
#define REVERSE_ADDRESSES_MAX 256
#define REVERSE_IDLE          "X-Bastion-Idle" /* ms: how long the box hears nothing before it gives up */
#define REVERSE_IDLE_MIN      300 /* so that a sign of life in a third of it is no storm */

/*
 * When to dial.  Connections that are lost after a while are made anew soon, spread over first_ms;
 * what fails, or is lost before steady_ms, is tried one at a time and ever more slowly.  Times are
 * the caller's, milliseconds of any clock that only grows.
 */
struct reverse_plan {
	unsigned wanted;          /* connections */
	int64_t first_ms, cap_ms; /* waits after the first failure, and after many */
	int64_t steady_ms;        /* a connection that lived that long was a good one */
	unsigned dialling, up;    /* the rest is the plan's own; zero at first */
	int failures;
	int64_t not_before;
};

/**
 * reverse_plan_next(plan, now):
 * Return in how many milliseconds the next dial is due, 0 for now; or -1 while none is.
 */
int64_t reverse_plan_next(const struct reverse_plan *plan, int64_t now);

/**
 * reverse_plan_dial(plan), reverse_plan_up(plan), reverse_plan_down(plan, now, lived_ms),
 * reverse_plan_aside(plan):
 * A dial has begun; has become a connection; has failed (${lived_ms} below 0), or its connection
 * was lost after ${lived_ms}; has failed where another place is to be tried before that counts.
 * Waits are spread by random_fill.
 */
void reverse_plan_dial(struct reverse_plan *plan);
void reverse_plan_aside(struct reverse_plan *plan);
void reverse_plan_up(struct reverse_plan *plan);
void reverse_plan_down(struct reverse_plan *plan, int64_t now, int64_t lived_ms);

/* The box's end. */

struct reverse; /* connections to one Host, kept up */

struct reverse_config {
	/* "host:port", at most REVERSE_ADDRESSES_MAX, ended by NULL: where one fails, the next. */
	const char *const *addresses;
	const char *name;    /* whom the Host's certificate must name */
	const char *path;    /* of the request that asks for the upgrade */
	struct tls_end *tls; /* a client's; outlives us */
	const struct tls_limits *limits;

	/* What is served, and as whose: surface and tag count, the rest is filled in. */
	struct http_server *server;
	struct http_peer peer;

	/*
	 * Store what proves to the Host which box this is, one line of printable ASCII, made anew
	 * for each connection.  Return 0, or -1 with ${r} to try again later.  NULL: the
	 * certificate is proof enough.
	 */
	int (*prove)(void *ctx, char proof[REVERSE_PROOF_MAX + 1], struct refusal *r);

	/*
	 * ${up} connections are there now; ${why} one was lost or not made, NULL for a new one.
	 * From the loop; not the place for reverse_stop.  May be NULL.
	 */
	void (*changed)(void *ctx, unsigned up, const struct refusal *why);
	void *ctx;

	unsigned connections;                /* to keep up */
	int64_t connect_ms, answer_ms;       /* to reach the Host; for its 101 */
	int64_t first_ms, cap_ms, steady_ms; /* see struct reverse_plan */
};

/**
 * reverse_start(loop, config, r):
 * Begin to keep up connections; strings of ${config} are copied.  A Host that has gone silent is
 * noticed by the server's idle_ms, which the Host is told and gives a sign of life three times in.
 * Failures on the way are http.unreachable, http.timeout, tls.untrusted, tls.handshake and
 * reverse.refused, for changed.  Return a handle for reverse_stop; or NULL with ${r} http.memory or
 * library.missing.
 */
struct reverse *reverse_start(
    struct loop *loop, const struct reverse_config *config, struct refusal *r);

/**
 * reverse_look(reverse):
 * Dial what is due, should a timer have been lost for want of memory.
 */
void reverse_look(struct reverse *reverse);

/**
 * reverse_drain(reverse):
 * Dial no more.  What is there stays until its server or the Host ends it.
 */
void reverse_drain(struct reverse *reverse);

/**
 * reverse_where(reverse):
 * Return the address that is dialled, or was reached last; it lives as long as ${reverse}.
 */
const char *reverse_where(const struct reverse *reverse);

/**
 * reverse_stop(reverse):
 * Close every connection, and free ${reverse}.  Before http_server_free.  May be NULL.
 */
void reverse_stop(struct reverse *reverse);

/* The Host's end. */

struct reverse_hub; /* the connections that boxes made */

struct reverse_hub_config {
	struct http_client *client;
	unsigned per_box; /* connections of one box; with one more, the oldest idle one goes */
	int64_t ping_ms;  /* how long one may be idle before it is asked for a sign of life; less,
			   * where the box says that it gives up sooner than in three of them */
	int64_t ping_wait_ms; /* for the sign */

	/*
	 * Of ${box}, ${up} connections are there now, ${idle} of which can be asked on.  From the
	 * loop, also when one has become idle: whoever has something to ask looks then.
	 * May be NULL.
	 */
	void (*changed)(void *ctx, int64_t box, unsigned up, unsigned idle);
	void *ctx;
};

/**
 * reverse_hub_new(loop, config, r):
 * Return a hub without connections, or NULL with ${r} http.memory.
 */
struct reverse_hub *reverse_hub_new(
    struct loop *loop, const struct reverse_hub_config *config, struct refusal *r);

/**
 * reverse_hub_free(hub):
 * Free ${hub}, after its server and its client, with which every connection ended.  May be NULL.
 */
void reverse_hub_free(struct reverse_hub *hub);

/**
 * reverse_hub_take(hub, box, x):
 * Answer ${x}, by which ${box} asks for an upgrade and whose proof the caller has checked: with
 * 101, and keep the connection; or refuse, with 426 reverse.upgrade where it asks for something
 * else or does not say how long it waits.
 */
void reverse_hub_take(struct reverse_hub *hub, int64_t box, struct http_exchange *x);

/**
 * reverse_hub_ask(hub, box, request, r):
 * As http_start, on a connection of ${box}, which is idle again after a whole answer.  The URL's
 * host is only a name.  Return the call; or NULL with ${r} reverse.offline (no connection),
 * reverse.busy (all are in use: see changed) or http.memory.
 */
struct http_call *reverse_hub_ask(
    struct reverse_hub *hub, int64_t box, const struct http_request *request, struct refusal *r);

/**
 * reverse_hub_drop(hub, box):
 * Close every connection of ${box}; what is asked on them fails.
 */
void reverse_hub_drop(struct reverse_hub *hub, int64_t box);

#endif
