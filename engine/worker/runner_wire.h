/* runner_wire.h: what the worker and its runner say to each other; both are the same program. */
#ifndef ENGINE_WORKER_RUNNER_WIRE_H
#define ENGINE_WORKER_RUNNER_WIRE_H

#include <stdint.h>

#include "engine/worker/observe.h"
#include "engine/worker/sandbox.h"

#define WIRE_FD     3
#define WIRE_OP_MAX 64
/* A sandbox comes with its plan, what it has as 0, 1 and 2, and what is passed in. */
#define WIRE_FDS_MAX (1 + 3 + SANDBOX_FDS_MAX)

enum runner_wire_ask {
	WIRE_RUN = 1, /* comes with the descriptor for the answer */
	WIRE_KILL,
	WIRE_SANDBOX, /* comes with descriptors: the plan, its standard three, the others */
};

enum runner_wire_say {
	WIRE_READY = 1,
	WIRE_EXITED,
	WIRE_LEFT,
	WIRE_REFUSED,
	/* A sandbox is in place; comes with the layers of its changes, then its listeners: a bit of
	 * ${status} for each of the plan's that could be had. */
	WIRE_STARTED,
};

struct runner_wire_request {
	uint32_t kind;
	uint32_t padding;
	uint64_t id;
	char op[WIRE_OP_MAX];
	struct observe_args args;
	struct observe_limits limits;
	struct observe_env env;
};

struct runner_wire_event {
	uint32_t kind;
	int32_t status;
	uint64_t id;
	struct refusal refusal;       /* of a sandbox that was refused */
	struct sandbox_report report; /* of one that started */
};

/**
 * runner_wire_send(fd, request, pass):
 * Send ${request} over the socket ${fd} without waiting, with the descriptor ${pass} unless that is
 * -1.  Return 0, or -1 with errno.
 */
int runner_wire_send(int fd, const struct runner_wire_request *request, int pass);

/**
 * runner_wire_receive(fd, request, passed, flags):
 * Receive one message from ${fd} with recvmsg's ${flags}.  Store the descriptor that came with it,
 * or -1, in ${*passed}; further ones are closed.  Return 1; 0 for a message of another length,
 * which is to be ignored, or if there is none; -1 if the other end is gone.
 */
int runner_wire_receive(int fd, struct runner_wire_request *request, int *passed, int flags);

/**
 * runner_wire_send_all(fd, message, len, pass, n):
 * Send ${len} bytes of ${message} over the socket ${fd} without waiting, with the ${n} descriptors
 * ${pass}, at most WIRE_FDS_MAX.  Return 0, or -1 with errno.
 */
int runner_wire_send_all(int fd, const void *message, size_t len, const int *pass, size_t n);

/**
 * runner_wire_receive_all(fd, message, len, passed, n, flags):
 * As runner_wire_receive, for a message of ${len} bytes and as many as WIRE_FDS_MAX descriptors,
 * which are stored in ${passed} and counted in ${*n}.
 */
int runner_wire_receive_all(
    int fd, void *message, size_t len, int passed[WIRE_FDS_MAX], size_t *n, int flags);

#endif
