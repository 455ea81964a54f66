/* upgrade.h: a connection that is dialled, put under TLS, and becomes something else (RFC 9110
 * §7.8). */
#ifndef NET_HTTP_UPGRADE_H
#define NET_HTTP_UPGRADE_H

#include "net/http/client.h"
#include "net/http/tls_pump.h"

struct upgrade; /* one connection, from its dialling to its end */

struct upgrade_config {
	struct http_client *client; /* both outlive it */
	struct tls_pump *pump;
	struct tls_end *tls;           /* a client's; outlives it */
	const char *address;           /* "host:port"; copied */
	const char *name;              /* whom the server's certificate must name; outlives it */
	const char *path, *protocol;   /* what is asked for; outlive it */
	int64_t connect_ms, answer_ms; /* to reach the server; for its 101 */

	/*
	 * Write further lines of the request's head, each with its CRLF, into ${head} of ${size},
	 * and return their length; or -1 with ${r}, to give up.  NULL: none.
	 */
	int (*head)(void *ctx, char *head, size_t size, struct refusal *r);

	/*
	 * The server has said 101.  The callee owns ${plain} from now on, a non-blocking socket in
	 * no loop, and ${peer}, for tls_peer_free; not a byte behind the 101 was read.  Return 0;
	 * or -1 with ${r} and both given up, to end the connection.
	 */
	int (*taken)(void *ctx, int plain, struct tls_peer *peer, struct refusal *r);

	/*
	 * The connection is gone and its handle with it, called once and last, but not by
	 * upgrade_drop.  ${why} is NULL where an orderly end came after the 101; else as from
	 * http_start and tls_connect, reverse.refused where the server did not upgrade,
	 * http.timeout, or what a hook said.
	 */
	void (*gone)(void *ctx, const struct refusal *why);
	void *ctx;
};

/**
 * upgrade_start(loop, config, r):
 * Begin to dial.  Hooks come from the loop, never from inside this call; taken is no place for
 * upgrade_drop.  Return a handle, or NULL with ${r} http.memory.
 */
struct upgrade *upgrade_start(
    struct loop *loop, const struct upgrade_config *config, struct refusal *r);

/**
 * upgrade_drop(upgrade):
 * End it at once, without its gone; what was taken is the callee's still, and finds its other end
 * closed.  Before its client and pump are freed.  May be NULL.
 */
void upgrade_drop(struct upgrade *upgrade);

#endif
