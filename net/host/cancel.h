/* cancel.h: a Host takes back what it asked, also once it runs. */
#ifndef NET_HOST_CANCEL_H
#define NET_HOST_CANCEL_H

#include <stdint.h>

#include "engine/actor/actor.h"
#include "net/http/server.h"

struct ways;

/* What a Host has on its way to boxes. */
struct cancels;

/**
 * cancels_new(env, ways), cancels_free(cancels):
 * Make what cancels_send needs, or return NULL without memory; end what is under way.  ${env} and
 * ${ways} outlive it.
 */
struct cancels *cancels_new(struct actor_env *env, struct ways *ways);
void cancels_free(struct cancels *cancels);

/**
 * cancels_send(cancels, box, nonce):
 * Tell the box with the number ${box}, once, that the ask made with ${nonce} was taken back.  A box
 * that is not reached is not told again: the run ends by itself, unheard.
 */
void cancels_send(struct cancels *cancels, int64_t box, const char *nonce);

/**
 * lane_cancel(x, net):
 * POST /v1/cancels {"nonce"}: the Host that made an ask takes it back.  One that waits never runs;
 * one that runs is ended by the worker.  Answered with {"cancelled":bool} once that is durable;
 * again, or for what has ended, false.
 */
int lane_cancel(struct http_exchange *x, void *net);

#endif
