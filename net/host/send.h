/* send.h: a signed request on its way to another machine, over a socket or under TLS. */
#ifndef NET_HOST_SEND_H
#define NET_HOST_SEND_H

#include "engine/actor/actor.h"
#include "net/http/client.h"

#define SEND_SOCKET_MAX 103

/* Where it goes.  What is asked on it has a context that begins with this, in a way of its own. */
struct send_to {
	char socket[SEND_SOCKET_MAX + 1]; /* "": under TLS */
	int64_t uid;                      /* who must serve the socket: as when it was paired */
	struct tls_end *end;              /* under TLS */
	const char *code;                 /* of the refusal where another does, */
	const char *whose;                /* and whose socket that is: "the Host's" */
};

/* A request as the other side sees it. */
struct send_request {
	const char *method, *path; /* what is signed */
	const char *nonce;         /* NULL: a new one */
	const char *body;          /* text; NULL: none */
	const char *url;           /* where that path is */
	const char *dial;          /* HOST:PORT, under TLS */
	int64_t connect_ms, total_ms;
	size_t reply_max;
	int (*chunk)(void *way, struct http_call *call, const char *data, size_t len);
	void (*done)(void *way, struct http_call *call, const struct refusal *refusal);
};

/**
 * send_signed(env, client, to, request, r):
 * Sign ${request} with the machine's key and start it; its callbacks get ${to}.  As http_start
 * else, with store.failed where it cannot be signed.
 */
struct http_call *send_signed(struct actor_env *env, struct http_client *client, struct send_to *to,
    const struct send_request *request, struct refusal *r);

#endif
