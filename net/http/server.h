/* server.h: HTTP/1.1 on our loop: a table of routes, bounds on everything, answers now or later. */
#ifndef NET_HTTP_SERVER_H
#define NET_HTTP_SERVER_H

#include <sys/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/actor/loop.h"
#include "engine/refusal.h"

struct http_server;
struct http_exchange; /* one request and its answer */

struct tls_config; /* net/http/tls.h */
struct tls_peer;
struct tls_limits; /* net/http/tls_pump.h */

#define HTTP_NOBODY      ((uid_t)-1) /* the uid of a peer that is not on this machine */
#define HTTP_ADDRESS_MAX 46          /* INET6_ADDRSTRLEN */
#define HTTP_BEAT        (SIZE_MAX - 1)

/* Who is at the other end.  ${tag} is for the authorise hook: a pairing's id, for example. */
struct http_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	unsigned surface; /* the listener's bit */
	int64_t tag;
	struct tls_peer *tls;           /* the certificate that it showed and proved; NULL: none */
	char address[HTTP_ADDRESS_MAX]; /* of a TLS peer, as text; else "" */
};

struct http_field {
	const char *name, *value;
};

/*
 * One thing that may be asked.  ${handle} is called when the whole body is there.  It answers
 * before it returns 0, or sets http_on_close and answers later from the loop; if it returns -1,
 * or does neither, the answer is a 500.
 */
struct http_route {
	const char *method; /* a GET route answers HEAD too */
	const char *path;   /* "/v1/ops/{id}": see net/http/route.h */
	unsigned surface;   /* bits of the listeners that offer it; elsewhere it does not exist */
	/* Bytes; the lower of this and the server's limit holds.  HTTP_BEAT: its limit for beats.
	 */
	size_t body_max;
	int (*handle)(struct http_exchange *x, void *ctx);
	const char *summary; /* one line for the description that is served */
};

/*
 * All must be set, but stall_ms may be 0: a client that stops reading is waited for; and
 * peer_connections.  A peer of this machine for whom there is no place takes that of the one that
 * waits longest without a whole request: of the same user, or of any of this machine where all
 * places are taken; http.busy where there is none, and where a connection has one request (once).
 */
struct http_limits {
	unsigned connections;      /* of this machine; and as many on each port without TLS */
	unsigned uid_connections;  /* of one user of it */
	unsigned peer_connections; /* of one peer under TLS that has a tag; 0: no bound */
	size_t body, header_bytes;
	size_t beat;
	unsigned headers;
	int64_t idle_ms;    /* from connecting or the last answer to the end of the next headers */
	int64_t request_ms; /* from there to the end of the body */
	int64_t stall_ms;   /* without a byte taken while there is something to send */
	unsigned json_depth;
	size_t stream_bytes; /* queued in a stream before its producer is told to pause */
};

struct http_server_config {
	const struct http_route *routes; /* ends with a NULL method; outlives the server */
	struct http_limits limits;
	bool once; /* a connection has one request, and idle_ms from connecting to its last byte */
	/* Before any byte is read: return 0, or -1 to close the connection.  May set tag and
	 * surface.
	 */
	int (*authorise)(void *ctx, struct http_peer *peer);

	/*
	 * On connections of the surfaces ${guarded} (bits) each request is put to ${guard} once its
	 * head is there: before its path is looked at, and before a byte of its body is taken.  It
	 * says http_pass or http_turn_away, at once or, with http_on_close set, later from the
	 * loop.  guard_ms is the time from connecting to the first pass.
	 */
	unsigned guarded;
	int64_t guard_ms;
	void (*guard)(void *ctx, struct http_exchange *x);
	void *ctx; /* for authorise, guard and every handler */
};

/**
 * http_server_new(loop, config, refusal):
 * Return a server on ${loop}, with no listener yet; or NULL with ${refusal} library.missing or
 * http.memory.  ${config} is copied.
 */
struct http_server *http_server_new(
    struct loop *loop, const struct http_server_config *config, struct refusal *refusal);

/**
 * http_server_free(server):
 * Close listeners and connections; exchanges that are not answered get their on_close.  Not from
 * inside a handler.  ${server} may be NULL.
 */
void http_server_free(struct http_server *server);

/**
 * http_server_drain(server, done, ctx):
 * Accept nothing more, close idle connections, let what was asked be answered, and call
 * ${done}(${ctx}) from the loop when the last connection is closed.  Streams without an end are for
 * their producers to end; http_server_free cuts off what is left.
 */
void http_server_drain(struct http_server *server, void (*done)(void *ctx), void *ctx);

/**
 * http_server_listeners(server):
 * Return how many listeners there are; of those that accept nothing more only such that still have
 * a connection.
 */
unsigned http_server_listeners(const struct http_server *server);

/**
 * http_server_connections(server):
 * Return how many connections are open.
 */
unsigned http_server_connections(const struct http_server *server);

/**
 * http_server_connections_of(server, surface):
 * Return how many of them are on ${surface}.
 */
unsigned http_server_connections_of(const struct http_server *server, unsigned surface);

/**
 * http_close_unless(server, surface, keep, ctx):
 * Cut every connection of ${surface} for whose peer ${keep}(${ctx}, peer) says false, whatever is
 * asked on it.  Not from inside a handler.
 */
void http_close_unless(struct http_server *server, unsigned surface,
    bool (*keep)(void *ctx, const struct http_peer *peer), void *ctx);

/**
 * http_server_idle_ms(server):
 * Return how long a connection of ${server} may say nothing.
 */
int64_t http_server_idle_ms(const struct http_server *server);

/**
 * http_server_make_room(server, surface):
 * Cut off the connection of ${surface} that is the longest without a whole request; it counts no
 * more for http_server_connections_of.  Return whether there was one.
 */
bool http_server_make_room(struct http_server *server, unsigned surface);

/**
 * http_listen_unix(server, path, surface, mode, refusal):
 * Serve the routes of ${surface} (one bit) on a unix socket at ${path}.  What ${path} must be and
 * how it is refused: unixsock_bind and unixsock_publish.  Return 0 or -1.
 */
int http_listen_unix(struct http_server *server, const char *path, unsigned surface, mode_t mode,
    struct refusal *refusal);

/**
 * http_listen_fd(server, fd, surface, refusal):
 * Serve ${surface} on the listening socket ${fd}, which the server owns from now on and which is
 * made non-blocking.  Peers of other families than AF_UNIX have pid 0 and uid HTTP_NOBODY.
 * Return 0 or -1 with socket.bind.
 */
int http_listen_fd(struct http_server *server, int fd, unsigned surface, struct refusal *refusal);

/**
 * http_listen_tls(server, fd, surface, config, limits, refusal):
 * Serve ${surface} under TLS on the listening TCP socket ${fd}, which the server owns from now on.
 * The authorise hook is asked after the handshake, with the peer's certificate and address.  Both
 * ${config} and ${limits} are copied.  Return 0, or -1 with socket.bind or as tls_server_end.
 */
int http_listen_tls(struct http_server *server, int fd, unsigned surface,
    const struct tls_config *config, const struct tls_limits *limits, struct refusal *refusal);

/**
 * http_listen_end(server, surface):
 * Accept nothing more on the listeners of ${surface}.  Connections that are open stay; with the
 * last of them a listener is freed, and its private key wiped.
 */
void http_listen_end(struct http_server *server, unsigned surface);

/**
 * http_serve_fd(server, fd, peer):
 * Serve ${peer}->surface on the connected socket ${fd}, accepted or dialled by the caller, who
 * has checked ${peer}; the authorise hook is not asked.  The server owns ${fd} and ${peer}->tls
 * from now on, also when this fails.  Return 0 or -1.
 */
int http_serve_fd(struct http_server *server, int fd, const struct http_peer *peer);

/*
 * Asking.  Everything returned lives until the exchange is answered or closed, except that the
 * answering calls may be given pieces of it.
 */

/**
 * http_param(x, name):
 * Return the value of the path parameter ${name}, unescaped; or NULL.
 */
const char *http_param(const struct http_exchange *x, const char *name);

/**
 * http_query(x, name):
 * Return the value of the query argument ${name}, unescaped; or NULL.
 */
const char *http_query(const struct http_exchange *x, const char *name);

/**
 * http_digits(text):
 * Return the number that ${text} is, written in decimal digits alone and at most 2^63 - 1; or -1
 * where it is anything else, or NULL.
 */
int64_t http_digits(const char *text);

/**
 * http_header(x, name):
 * Return the value of the first header ${name}, whatever its case; or NULL.
 */
const char *http_header(const struct http_exchange *x, const char *name);

/**
 * http_body(x, len):
 * Return the body, with a NUL behind its last byte, and its length in ${*len} (may be NULL).
 */
const char *http_body(const struct http_exchange *x, size_t *len);

/**
 * http_body_json(x, len):
 * As http_body, if the body passes http_json_check with the server's depth.  If not, answer 400
 * (500 for http.memory) with the check's refusal and return NULL.
 */
const char *http_body_json(struct http_exchange *x, size_t *len);

/**
 * http_peer(x):
 * Return who asks.
 */
const struct http_peer *http_peer(const struct http_exchange *x);

/**
 * http_surface(x):
 * Return the bit of the listener that was asked.
 */
unsigned http_surface(const struct http_exchange *x);

/**
 * http_method(x):
 * Return the request's method, HEAD for a HEAD.
 */
const char *http_method(const struct http_exchange *x);

/**
 * http_on_close(x, fn, ctx):
 * Call ${fn}(${ctx}) once if the client goes away, or the server ends, before the answer is
 * complete: before http_reply or http_refuse, or before http_stream_end; also when a HEAD has all
 * of a stream that it wants.  Nothing may be done with ${x} from then on.  Clients on plain TCP
 * that close without a reset are noticed at the next write, those under TLS at once.
 */
void http_on_close(struct http_exchange *x, void (*fn)(void *ctx), void *ctx);

/**
 * http_pass(x, surface, tag), http_turn_away(x, status, refusal, extra):
 * From a guard: the request goes on, and its peer has this ${surface} and ${tag} from now on; or it
 * is refused as by http_refuse, and the connection ends.  An on_close that the guard set is
 * forgotten.
 */
void http_pass(struct http_exchange *x, unsigned surface, int64_t tag);
void http_turn_away(
    struct http_exchange *x, unsigned status, const struct refusal *refusal, const char *extra);

/*
 * Answering: exactly one of http_reply, http_refuse, or http_stream_begin up to http_stream_end.
 * ${x} is not to be used after http_reply, http_refuse or http_stream_end.
 */

/**
 * http_reply(x, status, type, headers, body, len):
 * Answer with ${status}, a body of ${len} bytes (copied) of the content type ${type} (NULL: no
 * such header), and ${headers}, a list that ends with a NULL name (may be NULL).  If memory runs
 * out or a header has a line break, the connection is closed instead.
 */
void http_reply(struct http_exchange *x, unsigned status, const char *type,
    const struct http_field *headers, const void *body, size_t len);

/**
 * http_refuse(x, status, refusal, extra):
 * Answer with ${status}, the header X-Bastion-Refused: code, and the body
 * {"error":{"code":...,"why":...,"retry_at":...,${extra}}}; retry_at is null where waiting does
 * not help.  ${extra} is NULL or further members, as "\"rule\":{\"max\":2}".
 */
void http_refuse(
    struct http_exchange *x, unsigned status, const struct refusal *refusal, const char *extra);

/**
 * http_stream_begin(x, status, type):
 * Start an answer of unknown length.  http_on_close must have been set.  Return 0, or -1 when
 * memory ran out (then the connection is closed, with its on_close).
 */
int http_stream_begin(struct http_exchange *x, unsigned status, const char *type);

/**
 * http_stream_write(x, data, len):
 * Queue ${len} bytes.  Return how many are queued now: above the limit stream_bytes the producer
 * pauses until on_drain.  Return -1 with nothing queued if that would make more than twice
 * stream_bytes, or memory ran out.
 */
ssize_t http_stream_write(struct http_exchange *x, const void *data, size_t len);

/**
 * http_stream_on_drain(x, fn, ctx):
 * Call ${fn}(${ctx}) from the loop whenever the queue was above half of stream_bytes and has
 * fallen to that or less.  It may write and end.
 */
void http_stream_on_drain(struct http_exchange *x, void (*fn)(void *ctx), void *ctx);

/**
 * http_stream_end(x):
 * The answer is complete once the queue is sent.
 */
void http_stream_end(struct http_exchange *x);

/*
 * A connection that became something else: its socket is the holder's to read and write until
 * http_upgraded_close, but not to close.
 */
struct http_upgraded;

/**
 * http_asks_upgrade(x, protocol):
 * Return whether the request's Connection and Upgrade ask for ${protocol}.
 */
bool http_asks_upgrade(const struct http_exchange *x, const char *protocol);

/**
 * http_upgrade(x, protocol, taken, ended, ctx):
 * Answer 101 (RFC 9110 §7.8) and end HTTP on the connection, on which ${protocol} is spoken from
 * then on.  ${taken}(${ctx}, upgraded) is called from the loop once the answer is sent; from then
 * on its holder notices by reading that the client went.  If the client goes before, or does not
 * wait for the 101, ${ended}(${ctx}) is called instead; if the server drains or ends before
 * http_upgraded_close, it is called as well, and the socket is gone when it returns.  That the
 * request's Connection and Upgrade ask for this, the caller has seen to.
 */
void http_upgrade(struct http_exchange *x, const char *protocol,
    void (*taken)(void *ctx, struct http_upgraded *upgraded), void (*ended)(void *ctx), void *ctx);

/**
 * http_upgraded_fd(upgraded):
 * Return the socket, non-blocking and in no loop.
 */
int http_upgraded_fd(const struct http_upgraded *upgraded);

/**
 * http_upgraded_close(upgraded):
 * Close it, taken out of every loop by its holder before.  ${ended} will not be called.
 */
void http_upgraded_close(struct http_upgraded *upgraded);

#endif
