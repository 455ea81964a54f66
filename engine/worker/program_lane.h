/* program_lane.h: the sockets of a run's network on their way to the internet lane. */
#ifndef ENGINE_WORKER_PROGRAM_LANE_H
#define ENGINE_WORKER_PROGRAM_LANE_H

#include <stdint.h>

#include "engine/store/home.h"
#include "engine/worker/sandbox.h"

#define LANE_SOCKET "runs.sock" /* in the directory for sockets: 0600 */
#define LANE_PORT   1081        /* inside: where all that is caught comes */
#define LANE_DNS    53

/*
 * Who makes a sandbox is not who carries what comes out of it.  A row (program_reach) says what
 * may, and is durable first; what no row can carry are two sockets: that for questions for names,
 * and that for connections.  The lane has them as long as the connection that they came by is open.
 */
enum lane_socket { LANE_NAMES, LANE_CAUGHT, LANE_SOCKETS };

/**
 * lane_plan(plan):
 * Have the sandbox of ${plan} a network whose only way out are these two sockets.
 */
void lane_plan(struct sandbox_plan *plan);

/**
 * lane_call(home, r):
 * Connect to the lane of ${home}.  Return the descriptor, or -1 with ${r} op.lane.
 */
int lane_call(const struct home *home, struct refusal *r);

/**
 * lane_hand(fd, run, sockets, r):
 * Hand the ${sockets} of the network of the run (sandbox_run) ${run} over; they stay the caller's
 * to close.  Return 0, or -1 with ${r} op.lane.
 */
int lane_hand(int fd, int64_t run, const int sockets[LANE_SOCKETS], struct refusal *r);

/**
 * lane_take(fd, run, sockets):
 * The lane's end: take the next run without waiting.  Return 1 with its number in ${*run} and its
 * ${sockets}, which are the caller's from then on; 0 if there is none yet; -1 if it is none, or the
 * other end is gone.
 */
int lane_take(int fd, int64_t *run, int sockets[LANE_SOCKETS]);

#endif
