/* probe.h: what this machine can run: each op's programs are there, or not. */
#ifndef ENGINE_WORKER_PROBE_H
#define ENGINE_WORKER_PROBE_H

#include "engine/store/store.h"
#include "engine/worker/observe.h"

/* A program that an op needs.  An op that starts none has no row. */
struct probe_need {
	const char *op;
	const char *tool; /* as it is called */
	size_t path;      /* where struct observe_env says where it is */
};

/**
 * probe_need_at(i):
 * Return the need number ${i} from 0 on, or NULL behind the last.  A row of the table verb has the
 * same tool.
 */
const struct probe_need *probe_need_at(size_t i);

/**
 * probe_lacks(op, env):
 * Return the first program that ${op} needs and that is not where ${env} says, as it is called; or
 * NULL.
 */
const char *probe_lacks(const char *op, const struct observe_env *env);

/**
 * probe_write(db, env):
 * In ROLE_WORKER: keep for each op that this program has whether it can run, in op_probe.  Return 0
 * or -1.
 */
int probe_write(struct store *db, const struct observe_env *env);

#endif
