/* cancel.h: a Host takes back what it asked, also once it runs. */
#ifndef NET_HOST_CANCEL_H
#define NET_HOST_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/actor/actor.h"
#include "net/http/server.h"

struct ways;

/* What a Host has on its way to boxes. */
struct cancels;

/**
 * cancels_new(env, ways, told, ctx):
 * Make what cancels_send needs, or return NULL without memory.  ${told}(${ctx}) is called from the
 * loop whenever a box has been told, or was not reached.  ${env} and ${ways} outlive it.
 */
struct cancels *cancels_new(
    struct actor_env *env, struct ways *ways, void (*told)(void *ctx), void *ctx);

/**
 * cancels_free(cancels):
 * Free ${cancels} after its client, with which every call ended.  May be NULL.
 */
void cancels_free(struct cancels *cancels);

/**
 * cancels_any(cancels):
 * Return whether a box is being told.
 */
bool cancels_any(const struct cancels *cancels);

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
