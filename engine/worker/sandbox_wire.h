/* sandbox_wire.h: a plan on its way to the process that starts it: bytes in a sealed file in
 * memory. */
#ifndef ENGINE_WORKER_SANDBOX_WIRE_H
#define ENGINE_WORKER_SANDBOX_WIRE_H

#include "engine/worker/sandbox.h"

#define SANDBOX_WIRE_MAX (4 << 20) /* bytes of one plan */

/* A plan and what its pointers point to. */
struct sandbox_wire {
	struct sandbox_plan plan;
	char *bytes;
	char **words;
	struct sandbox_path *paths;
	const char **forbidden;
	struct sandbox_listener listeners[SANDBOX_LISTENERS];
	int fds[SANDBOX_FDS_MAX];
};

/**
 * sandbox_wire_write(plan, refusal):
 * Return a descriptor of a sealed file in memory with all of ${plan} but its descriptors, or -1
 * with
 * ${refusal} sandbox.plan.
 */
int sandbox_wire_write(const struct sandbox_plan *plan, struct refusal *refusal);

/**
 * sandbox_wire_parse(bytes, len, w):
 * Read the plan in ${bytes}, which nobody vouches for, into ${w}; its descriptors are -1.  Return
 * 0, or -1 if it is none.  sandbox_wire_free in both cases.
 */
int sandbox_wire_parse(const void *bytes, size_t len, struct sandbox_wire *w);

/**
 * sandbox_wire_read(fd, w):
 * As sandbox_wire_parse, for what sandbox_wire_write made: anything that is not sealed is refused.
 */
int sandbox_wire_read(int fd, struct sandbox_wire *w);

/**
 * sandbox_wire_free(w):
 * Free what ${w} holds.
 */
void sandbox_wire_free(struct sandbox_wire *w);

#endif
