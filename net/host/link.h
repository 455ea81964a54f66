/* link.h: the actor that calls out: a Host's asks on their way to its boxes. */
#ifndef NET_HOST_LINK_H
#define NET_HOST_LINK_H

#include "engine/actor/actor.h"

extern const struct actor actor_link;

#endif
