/* dial.h: the first of several addresses that answers (RFC 8305, Happy Eyeballs). */
#ifndef NET_EGRESS_DIAL_H
#define NET_EGRESS_DIAL_H

#include <stdbool.h>

#include "engine/actor/loop.h"
#include "engine/address.h"

struct dial;

/* How an address is dialled, and who is told. */
struct dial_how {
	/* Begin to connect and return the non-blocking socket, or -1 with errno.  NULL: TCP. */
	int (*open)(void *ctx, const struct address *address, uint16_t port);
	/*
	 * Called once, from the loop: ${fd} is connected to address ${which}, is the receiver's,
	 * and stays in the loop for edges of everything (loop_pass); ${readable}: there is
	 * something to read.  Or -1, with the errno of the attempt that failed last.
	 */
	void (*done)(void *ctx, int fd, size_t which, bool readable, int error);
	void *ctx;
	int64_t stagger_ms; /* before the next address is tried beside the one that is silent */
};

/**
 * dial_start(loop, how, addresses, n, port):
 * Dial the ${n} ${addresses} in their order, the next one when one failed or was silent for the
 * stagger.  The first that answers wins, the others are closed.  Both stay the caller's, and must
 * live until the end.  Return the dial, or NULL without memory or addresses (errno).
 */
struct dial *dial_start(struct loop *loop, const struct dial_how *how,
    const struct address *addresses, size_t n, uint16_t port);

/**
 * dial_cancel(dial):
 * Close all attempts; done is not called.  NULL is none.
 */
void dial_cancel(struct dial *dial);

#endif
