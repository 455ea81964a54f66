/* tls_pump.h: connections under TLS on our loop, each with a plain socket for who speaks inside. */
#ifndef NET_HTTP_TLS_PUMP_H
#define NET_HTTP_TLS_PUMP_H

#include <sys/socket.h>
#include <netinet/in.h>

#include "engine/actor/loop.h"
#include "net/http/tls.h"

#define TLS_ADDRESS_MAX INET6_ADDRSTRLEN

/* Many connections on a loop, under common limits. */
struct tls_pump;
struct tls_conn;

/* All must be set. */
struct tls_limits {
	unsigned connections; /* at once; handshakes among them */
	unsigned handshakes;  /* with one more, the oldest is dropped */
	unsigned per_address; /* connections of one IPv4 address or IPv6 /64 at once */
	int64_t handshake_ms; /* from connecting to the end of the handshake */
	int64_t flush_ms;     /* without a byte taken after the plain end was closed */
	int64_t dead_ms; /* without a sign of life, or with bytes waiting that it does not take */
};

struct tls_hooks {
	/*
	 * The handshake is done.  The callee owns ${plain} from now on, a non-blocking socket that
	 * carries what TLS carries, and ${peer} (NULL: no certificate), for tls_peer_free.  Return
	 * 0; or -1, with both given up, to end the connection.
	 */
	int (*ready)(void *ctx, struct tls_conn *conn, int plain, struct tls_peer *peer);

	/*
	 * ${conn} is gone, called once and last, but not by tls_drop, tls_pump_close or
	 * tls_pump_free.  ${why} is NULL where the end was an orderly one, else tls.handshake,
	 * tls.untrusted, http.timeout, http.busy, http.unreachable or http.memory.  May be NULL.
	 */
	void (*gone)(void *ctx, const struct refusal *why);
	void *ctx;
};

/**
 * tls_pump_new(loop, limits, r):
 * Return a pump without connections, or NULL with ${r} http.memory or library.missing.
 */
struct tls_pump *tls_pump_new(
    struct loop *loop, const struct tls_limits *limits, struct refusal *r);

/**
 * tls_pump_free(pump):
 * Drop every connection, without its gone, and free ${pump}.  Not from inside a hook.  May be NULL.
 */
void tls_pump_free(struct tls_pump *pump);

/**
 * tls_pump_close(pump):
 * Drop what is still in its handshake; new connections are refused from now on.  What is open stays
 * until its plain end is closed and the last byte is sent.
 */
void tls_pump_close(struct tls_pump *pump);

/**
 * tls_pump_count(pump):
 * Return how many connections there are, handshakes included.
 */
unsigned tls_pump_count(const struct tls_pump *pump);

/**
 * tls_accept(pump, end, fd, from, hooks, r):
 * Await a handshake on ${fd}, a connected TCP socket that the pump owns from now on, also when this
 * fails.  ${from} is the peer's address.  Hooks come from the loop, never from inside this call.
 * Return a connection, or NULL with ${r} http.busy or http.memory.
 */
struct tls_conn *tls_accept(struct tls_pump *pump, struct tls_end *end, int fd,
    const struct sockaddr_storage *from, const struct tls_hooks *hooks, struct refusal *r);

/**
 * tls_connect(pump, end, fd, name, hooks, r):
 * Begin a handshake as a client on the connected socket ${fd}, owned as above.  The server must be
 * certified for ${name}, a DNS name or an address.  Return a connection or NULL as above.
 */
struct tls_conn *tls_connect(struct tls_pump *pump, struct tls_end *end, int fd, const char *name,
    const struct tls_hooks *hooks, struct refusal *r);

/**
 * tls_drop(conn):
 * End ${conn} at once, without its gone.  Not from inside ready or gone.
 */
void tls_drop(struct tls_conn *conn);

/**
 * tls_address(conn):
 * Return the address of the peer as text; it lives as long as ${conn}.
 */
const char *tls_address(const struct tls_conn *conn);

#endif
