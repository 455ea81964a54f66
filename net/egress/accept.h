/* accept.h: listeners in a loop, which wait where there is nothing to accept a connection with. */
#ifndef NET_EGRESS_ACCEPT_H
#define NET_EGRESS_ACCEPT_H

#include <netinet/in.h>
#include <stddef.h>

#include "engine/actor/loop.h"

/* One listener; zeroed before accept_begin.  It is the caller's, and stays where it is. */
struct acceptor {
	struct loop *loop;
	int fd;
	size_t most; /* connections before others have their turn */
	void (*fn)(void *ctx, int fd, const struct sockaddr_in *from);
	void *ctx;
	uint64_t pause;
};

/**
 * accept_begin(acceptor, loop, fd, most, fn, ctx):
 * Call ${fn} for each connection to the non-blocking ${fd}, which stays the caller's, with a
 * non-blocking, close-on-exec descriptor that is ${fn}'s; ${from} is where it came from, of a
 * listener of IPv4.  While descriptors or memory are wanting (EMFILE, ENFILE, ENOBUFS, ENOMEM)
 * nothing is accepted for a tenth of a second, instead of being told of it again and again.  Return
 * 0, or -1 with errno.
 */
int accept_begin(struct acceptor *acceptor, struct loop *loop, int fd, size_t most,
    void (*fn)(void *ctx, int fd, const struct sockaddr_in *from), void *ctx);

/**
 * accept_end(acceptor):
 * Accept nothing more; its descriptor stays open.  One that never began, or ended, is no error.
 */
void accept_end(struct acceptor *acceptor);

#endif
