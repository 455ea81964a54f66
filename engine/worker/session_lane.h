/* session_lane.h: the way out of a session's network: the internet lane, for as long as it runs. */
#ifndef ENGINE_WORKER_SESSION_LANE_H
#define ENGINE_WORKER_SESSION_LANE_H

#include "engine/actor/loop.h"
#include "engine/worker/program_lane.h"

/* Zeros with fd -1 and sockets -1, or session_lane_none, begin one. */
struct session_lane {
	struct loop *loop;
	const struct home *home;
	int64_t run;               /* the row of the sandbox */
	int fd;                    /* to the lane, which has the sockets; -1: not now */
	int sockets[LANE_SOCKETS]; /* ours, to be handed over again */
	uint64_t again;            /* a timer */
};

/**
 * session_lane_none(l):
 * There is nothing in ${l}.
 */
void session_lane_none(struct session_lane *l);

/**
 * session_lane_take(l, listeners, r):
 * Take the ${listeners} of a sandbox that is in place.  Return 0, or -1 with ${r} op.lane: the
 * kernel had no such network.
 */
int session_lane_take(struct session_lane *l, int listeners[SANDBOX_LISTENERS], struct refusal *r);

/**
 * session_lane_begin(l, loop, home, run):
 * The row ${run} says that its sandbox runs: hand the sockets that were taken to the lane of
 * ${home}, and again whenever the lane was gone.  Until then connections wait.
 */
void session_lane_begin(
    struct session_lane *l, struct loop *loop, const struct home *home, int64_t run);

/**
 * session_lane_end(l):
 * Close everything: the lane lets go of what it carried.
 */
void session_lane_end(struct session_lane *l);

#endif
