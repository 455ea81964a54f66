/* runner_wire.h: what the worker and its runner say to each other; both are the same program. */
#ifndef ENGINE_WORKER_RUNNER_WIRE_H
#define ENGINE_WORKER_RUNNER_WIRE_H

#include <stdint.h>

#include "engine/worker/observe.h"

#define WIRE_FD     3
#define WIRE_OP_MAX 64

enum wire_ask {
	WIRE_RUN = 1, /* comes with the descriptor for the answer */
	WIRE_KILL,
};

enum wire_say {
	WIRE_READY = 1,
	WIRE_EXITED,
	WIRE_LEFT,
	WIRE_REFUSED,
};

struct wire_request {
	uint32_t kind;
	uint32_t padding;
	uint64_t id;
	char op[WIRE_OP_MAX];
	struct observe_args args;
	struct observe_limits limits;
	struct observe_env env;
};

struct wire_event {
	uint32_t kind;
	int32_t status;
	uint64_t id;
};

#endif
