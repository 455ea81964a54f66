/* carry.h: asks of a Host on their way to its boxes, and the answers home, as rows. */
#ifndef NET_HOST_CARRY_H
#define NET_HOST_CARRY_H

#include "net/host/way.h"

struct carry; /* the asks that are on their way */

/**
 * carry_new(env, ways, r):
 * Return a carrier without asks, or NULL with ${r} store.failed.  Both arguments outlive it.
 */
struct carry *carry_new(struct actor_env *env, struct ways *ways, struct refusal *r);

/**
 * carry_free(carry):
 * Free ${carry} after its client, with which every call ended.  What was under way stays a row that
 * was sent, and is lost when the instance ends.  May be NULL.
 */
void carry_free(struct carry *carry);

/**
 * carry_wake(carry):
 * Let go of the asks that were taken back; send those that wait and whose box can take one more,
 * oldest first.
 */
void carry_wake(struct carry *carry);

/**
 * carry_keep(carry):
 * End the asks that waited too long for a box that dials in, now and when the next will have.
 */
void carry_keep(struct carry *carry);

/**
 * carry_drain(carry, done, ctx):
 * Send nothing more, and call ${done}(${ctx}) once when nothing is under way: now, or from the
 * loop.
 */
void carry_drain(struct carry *carry, void (*done)(void *ctx), void *ctx);

#endif
