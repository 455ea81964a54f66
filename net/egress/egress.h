/* egress.h: the actor that serves the internet lane. */
#ifndef NET_EGRESS_EGRESS_H
#define NET_EGRESS_EGRESS_H

#include "engine/actor/actor.h"

#define EGRESS_SOCKET "egress.sock"

extern const struct actor actor_egress;

#endif
