/* lanes.h: programs of added ops, whose networks the lane is the way out of. */
#ifndef NET_EGRESS_LANES_H
#define NET_EGRESS_LANES_H

#include "engine/store/store.h"
#include "net/egress/proxy.h"

struct lanes;

struct lanes_config {
	const struct home *home;
	struct loop *loop;
	struct store *db; /* for reading, in ROLE_EGRESS */
	struct proxy *proxy;
};

/**
 * lanes_new(config, r):
 * Take runs (engine/worker/program_lane.h) of whoever is root or this process's user, on a socket
 * beside the others.  Only a run whose rows say that it reaches something is carried (inside.h), as
 * long as whoever handed it over stays connected; there are as many as the setting sandbox.live
 * allows.  Return it, or NULL with ${r}: socket.*.
 */
struct lanes *lanes_new(const struct lanes_config *config, struct refusal *r);

/**
 * lanes_free(lanes):
 * Close all.  NULL is none.
 */
void lanes_free(struct lanes *lanes);

#endif
