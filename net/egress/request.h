/* request.h: the rows of requests within TLS, written in the committer's thread. */
#ifndef NET_EGRESS_REQUEST_H
#define NET_EGRESS_REQUEST_H

#include "engine/state/token.h"
#include "engine/store/committer.h"
#include "net/egress/head.h"

struct proxy;

/* A request that waits for its row.  It is on its own: whoever asked may go. */
struct request {
	struct commit_job job; /* first: the committer gives it back */
	const struct key *tokens;
	int64_t flow_id, id;
	char method[HEAD_METHOD_MAX + 1];
	char host[ENDPOINT_TEXT_MAX + 1];
	uint16_t port;
	char *path;
	bool websocket;

	/*
	 * Called in the loop's thread: ${why} NULL: its row stands, durably, and ${token} goes with
	 * it, where it is not NULL: the callee's to free.
	 */
	void (*decided)(void *ctx, int64_t id, struct token *token, const struct refusal *why);
	void *ctx; /* NULL: nobody waits any more */
	struct token *token;
	struct refusal why;
	bool refused;
};

/**
 * request_ask(proxy, flow_id, head, decided, ctx):
 * Have the rules decide on ${head} within the tunnel of the row ${flow_id}.  Return the request,
 * for request_forget, which is gone when ${decided} is called; or NULL without memory.
 */
struct request *request_ask(struct proxy *proxy, int64_t flow_id, const struct head *head,
    void (*decided)(void *ctx, int64_t id, struct token *token, const struct refusal *why),
    void *ctx);

/**
 * request_forget(request):
 * Nobody waits for it any more.  NULL is none.
 */
void request_forget(struct request *request);

/**
 * request_done(proxy, id, status):
 * Write into the row ${id} how it was answered.
 */
void request_done(struct proxy *proxy, int64_t id, int status);

/**
 * request_failed(proxy, id, why):
 * Write into the row ${id} why the server's answer did not come, or not whole.
 */
void request_failed(struct proxy *proxy, int64_t id, const struct refusal *why);

/**
 * request_authority(proxy, pem, ends_at):
 * Publish the certificate of the daemon's lane.
 */
void request_authority(struct proxy *proxy, const char *pem, int64_t ends_at);

#endif
