/* net.h: the actor that serves sockets. */
#ifndef NET_HOST_NET_H
#define NET_HOST_NET_H

#include <stdbool.h>

#include "engine/actor/actor.h"
#include "engine/state/person.h"
#include "engine/store/committer.h"
#include "net/host/sign.h"
#include "net/http/server.h"

/* Where a request came in: each is a socket of its own in the directory for sockets. */
#define SURFACE_CONTROL 1u   /* control.sock: the person at the machine */
#define SURFACE_LANE    2u   /* lane.sock: Hosts ask the box */
#define SURFACE_ENROLL  4u   /* enroll.sock: boxes redeem an invitation of this Host */
#define SURFACE_CONTEXT 8u   /* ask.sock: any user asks to share a folder */
#define SURFACE_MCP     16u  /* a port of the loopback address: agents with a token */
#define SURFACE_GUEST   32u  /* the port under TLS, without a certificate */
#define SURFACE_PEER    64u  /* the same, with that of a machine that is paired */
#define SURFACE_LINES   128u /* lines.sock: this Host's own actor link asks boxes that dialled in */
#define SURFACE_KNOCK   256u /* the port for other machines, without a right secret: nothing */
#define SURFACE_REMOTE  512u /* the same, with one: sessions, as far as its credential goes */

/* Who may speak to control.sock: the user of the daemon, and root. */
#define NET_PEOPLE 2

struct net_person {
	uid_t uid;
	char name[PERSON_NAME_MAX + 1]; /* "": not looked up */
};

/* What the actor holds; handlers get it as their context. */
struct net {
	struct actor_env *env;
	struct http_server *server;
	struct http_server *asks; /* of users (context.c); NULL on a Host */
	unsigned serving;         /* servers that are not drained */
	struct committer *committer;
	size_t stream_bytes;   /* of an answer that may wait for its reader, as the server has it */
	struct watch *watches; /* answers that are being streamed (watch.c) */
	struct ask *held;      /* asks that wait for a person (lane.c) */
	int64_t nheld;
	struct lines *lines;      /* that boxes made (line_host.c); NULL on a box */
	struct dials *dials;      /* that this box makes (line_box.c); NULL on a Host */
	struct parks *parks;      /* what this box parks with Hosts (park_box.c); NULL on a Host */
	struct berths *berths;    /* what boxes parked here (park_host.c); NULL on a box */
	struct renewal *renewals; /* boxes that wait for a certificate (renew_host.c) */
	char *paired;             /* whose connections under TLS may stay (peers.c) */
	struct mcp_http *mcp;     /* agents (mcp_http.c); NULL: not yet, or no more */
	struct guest *guests;     /* boxes that wait for a signature (enroll.c) */
	struct remote *remote;    /* other machines (remote_port.c); NULL: not yet, or a Host */
	struct port *port;        /* under TLS (port.c); NULL: not yet, or no more */
	bool drained;             /* there will be none */
	uint64_t opening;         /* the timer of net_open, or 0 */
	struct net_person
	    people[NET_PEOPLE]; /* their names do not change once it serves (calls.c) */
};

extern const struct actor actor_net;
extern const struct http_route net_routes[];

/**
 * net_limits(db, limits):
 * Fill ${limits} from the settings http.*.
 */
void net_limits(struct store *db, struct http_limits *limits);

/**
 * net_words(net, code, more):
 * Store what the table refusal says of ${code}, as further members of an error, in ${more}; ""
 * where it says nothing.  Return the HTTP status.
 */
#define NET_WORDS_MAX 1024
unsigned net_words(struct net *net, const char *code, char more[NET_WORDS_MAX]);

/**
 * net_refuse(net, x, refusal, extra):
 * Refuse ${x} as ${refusal} says, with the status, exit code and advice of the table refusal.
 * ${extra} is NULL or one more JSON member ("\"approval\":3").
 */
void net_refuse(
    struct net *net, struct http_exchange *x, const struct refusal *refusal, const char *extra);

/**
 * net_answer(net, x, q):
 * Answer ${x} with the one JSON text that the statement ${q} selects; q may be NULL after a
 * failure.
 */
int net_answer(struct net *net, struct http_exchange *x, struct stmt *q);

/**
 * lane_who(net, x, path, pairing, nonce, r):
 * Find whose key signed this very request for ${path}, not long ago, from the user that it paired
 * as, or on a connection under TLS that is its own.  Return 0 with ${pairing} and the request's
 * ${nonce}; or -1 with ${r}: lane.host, lane.signature, lane.time, lane.peer, lane.line; ${pairing}
 * is filled then where the key is known.
 */
struct pairing;
int lane_who(struct net *net, struct http_exchange *x, const char *path, struct pairing *pairing,
    char nonce[SIGN_NONCE_HEX], struct refusal *r);

/**
 * lane_ask(x, net), lane_ops(x, net):
 * The box's lane (lane.c): an ask; the op catalog.
 */
int lane_ask(struct http_exchange *x, void *net);
int lane_ops(struct http_exchange *x, void *net);

/**
 * lane_wake(net), lane_drain(net):
 * Go on with asks whose question was answered; end those that still wait.
 */
void lane_wake(struct net *net);
void lane_drain(struct net *net);

/**
 * enroll_redeem(x, net), enroll_wake(net):
 * The Host's end of a pairing (enroll.c): a box redeems an invitation; it is answered once link has
 * signed.
 */
void enroll_wake(struct net *net);
int enroll_redeem(struct http_exchange *x, void *net);

#endif
