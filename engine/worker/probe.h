/* probe.h: what this machine can run: each op's programs are there, or not. */
#ifndef ENGINE_WORKER_PROBE_H
#define ENGINE_WORKER_PROBE_H

#include "engine/store/store.h"
#include "engine/worker/observe.h"

/**
 * probe_lacks(op, env):
 * Return the path of the first program that ${op} needs and that is not there, or NULL.
 */
const char *probe_lacks(const char *op, const struct observe_env *env);

/**
 * probe_write(db, env):
 * In ROLE_WORKER: keep for each op that this program has whether it can run, in verb_probe.  Return
 * 0 or -1.
 */
int probe_write(struct store *db, const struct observe_env *env);

#endif
