/* way.h: how a Host reaches a box, and its signed requests on that way. */
#ifndef NET_HOST_WAY_H
#define NET_HOST_WAY_H

#include "engine/actor/actor.h"
#include "net/host/send.h"

#define WAY_ENDPOINT_MAX 300

struct ways; /* what the actor that signs keeps for all of them */

/* The way to one box.  Whatever is asked on it has a context that begins with this. */
struct way {
	struct send_to to; /* first; its end of TLS is of the ways */
	struct ways *ways;
	int64_t box;
	char endpoint[WAY_ENDPOINT_MAX + 1]; /* where the box listens under TLS; "": a socket */
	bool line;                           /* over a line that the box made: the socket is ours */
};

/* A request as the box sees it. */
struct way_request {
	const char *method, *path; /* what is signed */
	const char *nonce;         /* SIGN_NONCE_HEX, never used before */
	const char *body;          /* text; NULL: none */
	int64_t total_ms;
	size_t reply_max;
	int (*chunk)(void *way, struct http_call *call, const char *data, size_t len);
	void (*done)(void *way, struct http_call *call, const struct refusal *refusal);
};

/**
 * ways_new(env, client, r):
 * Return what way_find needs, for ways_free; or NULL with ${r} store.failed.  Both outlive it.
 */
struct ways *ways_new(struct actor_env *env, struct http_client *client, struct refusal *r);
void ways_free(struct ways *ways);

/**
 * way_find(ways, box, way):
 * Store in ${way} how the box with the number ${box} is reached: its socket (transport 'unix'), its
 * port under TLS ('tls'), or a line that it made ('reverse', net/host/line.h).  Return 0, or -1
 * with
 * ${r}: box.gone, or as ends_of_box.
 */
int way_find(struct ways *ways, int64_t box, struct way *way, struct refusal *r);

/**
 * ways_wake(ways):
 * Take a new certificate of ours from its row.
 */
void ways_wake(struct ways *ways);

/**
 * way_start(way, request, r):
 * Sign ${request} with this Host's key and start it; the callbacks of ${request} get ${way}.  As
 * send_signed else.
 */
struct http_call *way_start(struct way *way, const struct way_request *request, struct refusal *r);

#endif
