/* actors.c: the actors of this program, in the order in which they are started. */
#include "engine/actor/actor.h"
#include "engine/state/keeper.h"
#include "engine/worker/worker.h"
#include "net/egress/egress.h"
#include "net/host/link.h"
#include "net/host/net.h"

const struct actor *const actors[] = {
    &actor_keeper, &actor_worker, &actor_link, &actor_net, &actor_egress, NULL};
