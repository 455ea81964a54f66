/* run_publish.h: ports of 127.0.0.1 that lead to a program of bastion run. */
#ifndef SHELL_RUN_PUBLISH_H
#define SHELL_RUN_PUBLISH_H

#include <sys/types.h>

#include <stdbool.h>

#include "engine/actor/loop.h"
#include "engine/refusal.h"
#include "engine/state/run.h"
#include "engine/worker/sandbox_door.h"
#include "net/egress/accept.h"
#include "net/egress/relay.h"

#define PUBLISH_MAX 16

struct publish;
struct published;

/* Where connections come in. */
struct publish_way {
	struct publish *of;
	struct acceptor acceptor;
};

struct publish {
	struct run_port ports[PUBLISH_MAX];
	int fds[PUBLISH_MAX];
	struct publish_way ways[PUBLISH_MAX];
	size_t count;
	struct loop *loop;
	struct sandbox_door door;
	int diag; /* of who_tcp */
	uid_t uid;
	struct relay_pool *pool;
	struct published *first; /* connections */
	size_t open, most;
};

/**
 * publish_add(p, text, refusal):
 * Read "PORT", or "OUTSIDE:INSIDE", and listen at 127.0.0.1; 0 outside is any port that is free.
 * Return 0 or -1: run.port.
 */
int publish_add(struct publish *p, const char *text, struct refusal *refusal);

/**
 * publish_begin(p, loop, listener, most, refusal):
 * Carry connections of this user, and of root, into the network of the socket ${listener}, at most
 * ${most} at once; others are closed.  Call with one thread alone.  Return 0 or -1.
 */
int publish_begin(
    struct publish *p, struct loop *loop, int listener, size_t most, struct refusal *refusal);

/**
 * publish_end(p):
 * Close everything, and listen no more.
 */
void publish_end(struct publish *p);

#endif
