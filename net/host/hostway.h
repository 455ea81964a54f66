/* hostway.h: how a box reaches the Host of a pairing, and its signed requests on that way. */
#ifndef NET_HOST_HOSTWAY_H
#define NET_HOST_HOSTWAY_H

#include "engine/actor/actor.h"
#include "net/host/send.h"

/* Whatever is asked on it has a context that begins with this. */
struct hostway {
	struct send_to to; /* first */
	struct actor_env *env;
	struct http_client *client;
	int64_t pairing;
	char **endpoints; /* over a network: in the order to try */
	unsigned nendpoints, at;
};

/* A request as the Host sees it. */
struct hostway_request {
	const char *path; /* of a POST */
	const char *body;
	int64_t total_ms;
	size_t reply_max;
	int (*chunk)(void *way, struct http_call *call, const char *data, size_t len);
	void (*done)(void *way, struct http_call *call, const struct refusal *refusal);
};

/**
 * hostway_open(env, client, pairing, way, r):
 * Store in ${way} how the Host of ${pairing}, which is active, is reached: as the view
 * pairing_beats says.  The other arguments outlive it.  Return 0, for hostway_close; or -1 with
 * ${r} and nothing to close.
 */
int hostway_open(struct actor_env *env, struct http_client *client, int64_t pairing,
    struct hostway *way, struct refusal *r);
void hostway_close(struct hostway *way);

/**
 * hostway_send(way, request, r):
 * Sign ${request} with this machine's key and start it on the present endpoint; its callbacks get
 * ${way}.  As http_start else, with store.failed where it cannot be signed.
 */
struct http_call *hostway_send(
    struct hostway *way, const struct hostway_request *request, struct refusal *r);

/**
 * hostway_next(way):
 * Go over to the next endpoint, behind the last to the first.
 */
void hostway_next(struct hostway *way);

#endif
