/* worker.h: the actor that runs what was authorised. */
#ifndef ENGINE_WORKER_WORKER_H
#define ENGINE_WORKER_WORKER_H

#include "engine/actor/actor.h"

extern const struct actor actor_worker;

#endif
