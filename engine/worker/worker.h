/* worker.h: the actor that runs what was authorised. */
#ifndef ENGINE_WORKER_WORKER_H
#define ENGINE_WORKER_WORKER_H

#include "engine/actor/actor.h"
#include "engine/worker/observe.h"

extern const struct actor actor_worker;

/**
 * worker_limits(of, limits, env):
 * Fill ${limits} from the settings, and ${env} with where tools are and what bastion keeps for
 * itself.
 */
void worker_limits(
    const struct actor_env *of, struct observe_limits *limits, struct observe_env *env);

#endif
