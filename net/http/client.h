/* client.h: HTTP requests from our loop, to unix sockets and https URLs. */
#ifndef NET_HTTP_CLIENT_H
#define NET_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/actor/loop.h"
#include "engine/refusal.h"
#include "net/http/server.h"

struct http_client;
struct http_call; /* one request on its way */
struct tls_end;   /* net/http/tls.h */

/* A connection that somebody else keeps. */
struct http_via {
	/* Return a connected, non-blocking socket for the call to ask on and to close; or -1. */
	int (*take)(void *ctx);

	/*
	 * The call is over and its socket closed, called once, also where http_start fails or take
	 * was never called.  ${clean}: it has carried one whole request and answer, and (another
	 * descriptor of) the connection may carry the next.
	 */
	void (*over)(void *ctx, bool clean);
	void *ctx;
};

struct http_request {
	const char *socket_path;    /* NULL: dial what the URL says */
	const struct http_via *via; /* instead of dialling; copied */
	const char *dial;           /* "address:port" to dial instead; the URL names whom we mean */
	struct tls_end *tls;        /* for https: whom to trust, and who we are; outlives the call.
				     * NULL: the system's authorities, and nobody */
	bool keep; /* under TLS: on the connection of an earlier call with keep, if it is there
		    * still.  All of a client's calls with keep have one dial and one tls. */
	const char *method;               /* NULL: connect, and no more: see http_call_socket */
	const char *url;                  /* "http://bastion/v1/ops" for a socket */
	const struct http_field *headers; /* ends with a NULL name; may be NULL */
	const void *body;
	size_t body_len;
	int64_t connect_ms, idle_ms, total_ms; /* 0: no limit (connecting: 300 s) */
	int64_t head_ms;  /* to the head of the answer, connecting included; 0: no limit */
	size_t reply_max; /* bytes of the answer's body; 0: no limit, for streams */

	/*
	 * With a socket_path, who listens there; with tls, whose certificate was shown and found
	 * good: before a byte is sent.  Return 0, or -1 with ${refusal} to give up.  May be NULL.
	 */
	int (*verify)(void *ctx, const struct http_peer *peer, struct refusal *refusal);

	/* A piece of the answer's body; http_call_status is known.  Return 0, or -1 to give up. */
	int (*chunk)(void *ctx, struct http_call *call, const char *data, size_t len);

	/*
	 * The end, once: ${refusal} is NULL when the answer is complete, whatever its status.
	 * ${call} is gone afterwards.
	 */
	void (*done)(void *ctx, struct http_call *call, const struct refusal *refusal);
	void *ctx;
};

/* An answer that was collected. */
struct http_answer {
	int status;
	char *body; /* a NUL follows its last byte; free it */
	size_t len;
};

/**
 * http_client_new(loop, refusal):
 * Return a client on ${loop}; or NULL with ${refusal} http.memory.
 */
struct http_client *http_client_new(struct loop *loop, struct refusal *refusal);

/**
 * http_client_free(client):
 * Abort every call and free ${client}.  Not from inside a callback of its.  May be NULL.
 */
void http_client_free(struct http_client *client);

/**
 * http_start(client, request, refusal):
 * Start ${request}, which is copied, its body too (wiped afterwards).  No proxy, redirect, cookie
 * or file of the user is heeded.  Callbacks come from the loop, never from inside this call.
 * Failures are http.unreachable, http.timeout (connecting includes the handshake), tls.handshake,
 * tls.untrusted, http.too_large, http.aborted (chunk gave up), http.protocol, or what verify set.
 * Under TLS each call without keep has a connection and a handshake of its own.  Return the call,
 * or NULL with ${refusal} library.missing or http.memory.
 */
struct http_call *http_start(
    struct http_client *client, const struct http_request *request, struct refusal *refusal);

/**
 * http_abort(call):
 * End ${call} at once without its done.  Not from inside done or after it; from inside chunk or
 * verify it is allowed, and they return afterwards as they like.
 */
void http_abort(struct http_call *call);

/**
 * http_pause(call, on):
 * Take no more of the answer of ${call}, which is on a connection that somebody else keeps, until
 * it is called with false.  From inside chunk too.  Return 0, or -1 where it cannot go on.
 */
int http_pause(struct http_call *call, bool on);

/**
 * http_call_status(call):
 * Return the status of the answer, 0 before there is one.
 */
int http_call_status(const struct http_call *call);

/**
 * http_call_header(call, name):
 * Return the last header ${name} of the answer, or NULL; it lives as long as the call.
 */
const char *http_call_header(const struct http_call *call, const char *name);

/**
 * http_call_socket(call):
 * From inside done of a call without a method: return the connected TCP socket, the caller's from
 * now on; or -1.
 */
int http_call_socket(const struct http_call *call);

/**
 * http_ask(request, answer, refusal):
 * For verbs: make ${request} on a loop of its own and wait for the answer.  With a chunk in
 * ${request} the body goes there, else into ${answer}, at most reply_max bytes of it; done is not
 * called.  Return 0, or -1 with ${refusal} as for http_start.
 */
int http_ask(
    const struct http_request *request, struct http_answer *answer, struct refusal *refusal);

#endif
