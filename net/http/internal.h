/* internal.h: what server.c (connections) and exchange.c (requests on them) know of each other. */
#ifndef NET_HTTP_INTERNAL_H
#define NET_HTTP_INTERNAL_H

#include "net/http/lazy.h"
#include "net/http/route.h"
#include "net/http/server.h"

/* One connection that libmicrohttpd serves. */
struct conn {
	struct http_server *server;
	struct MHD_Connection *mhd;
	int fd;
	struct http_peer peer;
	struct http_exchange *x; /* the request at hand, or NULL */
	uint64_t timer;
	int64_t since;                  /* loop_now() when the deadline that runs was set */
	bool hung_up, leaving;          /* it made room for another */
	bool passed;                    /* the guard let a request pass, or there is none */
	struct http_upgraded *upgraded; /* NULL: it is HTTP */
	struct conn *prev, *next;
};

struct http_server {
	struct loop *loop;
	struct http_server_config config;
	const struct lazy_mhd *mhd;
	struct MHD_Daemon *daemon;
	int epoll; /* of the daemon */
	uint64_t timer;
	struct listener *listeners;
	struct conn *conns;
	unsigned nconns;
	struct leftover *leftovers;
	unsigned nleftovers;
	bool draining;
	void (*drained)(void *ctx);
	void *drained_ctx;
	uint64_t drain_timer, reap_timer;
};

/* What a connection became.  Its exchange owns it until the 101 is sent, then the connection. */
struct http_upgraded {
	struct conn *conn; /* NULL: not handed over yet */
	struct MHD_UpgradeResponseHandle *handle;
	void (*taken)(void *ctx, struct http_upgraded *upgraded);
	void (*ended)(void *ctx);
	void *ctx;
};

enum phase {
	PHASE_HEAD,   /* the request line was read */
	PHASE_GUARD,  /* the guard has it */
	PHASE_BODY,   /* headers are checked, the body is read */
	PHASE_HANDLE, /* the route's handler has it */
	PHASE_STREAM, /* http_stream_begin was called */
	PHASE_DONE    /* the handler's side is complete */
};

struct http_exchange {
	struct conn *conn;
	char *target;
	const struct http_route *route;
	struct route_params params;
	enum phase phase;
	bool is_head, suspended, gone;
	const char *method;  /* libmicrohttpd's, for when the guard has spoken */
	bool let_in;         /* the guard said so */
	struct refusal *why; /* it said no */
	char *extra;         /* further members of that, or NULL */
	char *body;
	size_t body_len, body_room;
	struct MHD_Response *response;
	unsigned status;
	void (*on_close)(void *ctx);
	void *on_close_ctx;
	void (*on_drain)(void *ctx);
	void *on_drain_ctx;
	struct http_upgraded *upgraded; /* what it becomes with its answer, or NULL */
	char *queue;                    /* of a stream: ${queue_len} bytes from ${queue_at} */
	size_t queue_at, queue_len, queue_room;
};

/* server.c */

/**
 * conn_deadline(c, ms):
 * Close ${c} in ${ms} milliseconds, with a 408 if it is reading a body; 0: no deadline.
 */
void conn_deadline(struct conn *c, int64_t ms);

/**
 * server_refuse_raw(server, fd, status, refusal, extra, allow, body):
 * Write a refusal to ${fd} past libmicrohttpd, and read and drop what the client still sends for a
 * moment, on a duplicate of ${fd}: closing over unread bytes could destroy the answer.  ${allow}
 * is the value of the header Allow, or NULL; ${extra} as for http_refuse; ${body}: send the body as
 * well.  The caller closes
 * ${fd}.
 */
void server_refuse_raw(struct http_server *server, int fd, unsigned status,
    const struct refusal *refusal, const char *extra, const char *allow, bool body);

/**
 * server_wake(server):
 * A connection was resumed: let libmicrohttpd look, from the loop.
 */
void server_wake(struct http_server *server);

/* exchange.c: what libmicrohttpd calls */

void *exchange_begin(void *server, const char *target, struct MHD_Connection *mhd);
enum MHD_Result exchange_request(void *server, struct MHD_Connection *mhd, const char *url,
    const char *method, const char *version, const char *data, size_t *len, void **request);
void exchange_end(
    void *server, struct MHD_Connection *mhd, void **request, enum MHD_RequestTerminationCode why);

/**
 * exchange_abandon(x):
 * The client is gone, or the server ends: if ${x} is suspended, resume it so that it ends.
 */
void exchange_abandon(struct http_exchange *x);

/**
 * exchange_refusal_json(refusal, extra, len):
 * Return the body of an error, its length in ${*len}; free it.  NULL if memory ran out.
 */
char *exchange_refusal_json(const struct refusal *refusal, const char *extra, size_t *len);

#endif
