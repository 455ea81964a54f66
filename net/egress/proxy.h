/* proxy.h: the internet lane: who is served, on which surface, within which bounds. */
#ifndef NET_EGRESS_LANE_H
#define NET_EGRESS_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/actor/loop.h"
#include "engine/store/store.h"
#include "net/egress/authority.h"

struct proxy;

/* What is spoken on a connection; with both, its first byte tells. */
enum proxy_speaks { PROXY_HTTP = 1, PROXY_SOCKS = 2, PROXY_BOTH = 3 };

/* Who asks: a user of this machine, or a Host by its pairing. */
struct proxy_who {
	bool host;
	int64_t id;
	int64_t run; /* the run (sandbox_run) that it comes out of; 0: none */
};

/* Which tunnels are looked into (inspect.h). */
enum proxy_inspect {
	PROXY_INSPECT_SETTING, /* the daemon's: as egress.inspect says; its authority is a row */
	PROXY_INSPECT_NONE,
	PROXY_INSPECT_RULES, /* those whose rule says something of requests */
	PROXY_INSPECT_ALL    /* and those that are caught on port 443 */
};

struct proxy_config {
	const struct home *home;
	struct loop *loop;
	struct store *db; /* for reading, in ROLE_EGRESS */
	const struct store_keys *keys;
	const char *servers; /* of names, as resolver_config has them; NULL: the machine's */
	/*
	 * Called where no rule says anything about ${to}, once for each connection, which is then
	 * held until proxy_answered.  NULL: what no rule allows is refused.
	 */
	void (*unknown)(void *ctx, const struct authority *to);
	/* Called for what was refused or failed; may be NULL. */
	void (*refused)(
	    void *ctx, const struct authority *to, const struct refusal *why, const char *advice);
	void *ctx;
	enum proxy_inspect inspect;
	const struct key *tokens; /* opens what KEY_TOKEN seals; NULL: no token is sent */
	const char *roots;        /* a PEM file of authorities of servers; NULL: the machine's */
};

/**
 * proxy_new(config, r):
 * Read classes, bounds and this machine's addresses, and start a committer.  Return the lane, or
 * NULL with ${r}.
 */
struct proxy *proxy_new(const struct proxy_config *config, struct refusal *r);

/**
 * proxy_listen_tcp(proxy, port, speaks, r), proxy_listen_unix(proxy, path, speaks, r):
 * Serve users of this machine on 127.0.0.1 (port 0: any that is free), or on a unix socket that all
 * may reach.  Return the port, or 0; or -1 with ${r} socket.bind and others.
 */
int proxy_listen_tcp(
    struct proxy *proxy, uint16_t port, enum proxy_speaks speaks, struct refusal *r);
int proxy_listen_unix(
    struct proxy *proxy, const char *path, enum proxy_speaks speaks, struct refusal *r);

/**
 * proxy_listen_fd(proxy, fd, speaks, who, r):
 * Serve ${who} on ${fd}, which listens already, in whatever network, and is the lane's from now on.
 * Return 0 or -1.
 */
int proxy_listen_fd(struct proxy *proxy, int fd, enum proxy_speaks speaks,
    const struct proxy_who *who, struct refusal *r);

/**
 * proxy_take(proxy, fd, speaks, who):
 * Serve ${who} on the connected, non-blocking ${fd}, which is the lane's from now on: for whoever
 * has connections from elsewhere (a sandbox, a tunnel, a connection that was dialled).
 */
void proxy_take(struct proxy *proxy, int fd, enum proxy_speaks speaks, const struct proxy_who *who);

/**
 * proxy_take_told(proxy, fd, speaks, who, told):
 * As proxy_take; ${told}, a socket that is the lane's as well, is closed when the connection has
 * ended, after PROXY_TAKEN where its destination was reached.
 */
#define PROXY_TAKEN "t"
void proxy_take_told(
    struct proxy *proxy, int fd, enum proxy_speaks speaks, const struct proxy_who *who, int told);

/**
 * proxy_catch(proxy, fd, who, to):
 * Carry the connected, non-blocking ${fd} of ${who}, which is the lane's from now on, to ${to},
 * where it wanted to go by itself.
 */
void proxy_catch(
    struct proxy *proxy, int fd, const struct proxy_who *who, const struct authority *to);

/**
 * proxy_answered(proxy, to):
 * The rules say something about ${to} now: ask them again for what was held.
 */
void proxy_answered(struct proxy *proxy, const struct authority *to);

/**
 * proxy_connections(proxy):
 * Return how many there are.
 */
size_t proxy_connections(const struct proxy *proxy);

/**
 * proxy_authority(proxy, r):
 * Return the certificate, PEM, that programs of an inspected lane are to trust, which is made at
 * the first call and lives as long as ${proxy} or until it ends (setting egress.authority_hours);
 * or NULL with ${r}: egress.no_authority where the lane looks into nothing.
 */
const char *proxy_authority(struct proxy *proxy, struct refusal *r);

/**
 * proxy_wake(proxy):
 * Something in the database changed: end what no rule allows any more, remove rows whose time is
 * over.
 */
void proxy_wake(struct proxy *proxy);

/**
 * proxy_drain(proxy, done, ctx):
 * Accept nothing more, end all connections, and call ${done} when their rows say so.
 */
void proxy_drain(struct proxy *proxy, void (*done)(void *ctx), void *ctx);

/**
 * proxy_free(proxy):
 * Close everything.  NULL is none.
 */
void proxy_free(struct proxy *proxy);

#endif
