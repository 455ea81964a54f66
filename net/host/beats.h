/* beats.h: how what a box says of itself gets to its Host, and the answer back. */
#ifndef NET_HOST_BEATS_H
#define NET_HOST_BEATS_H

#include "net/host/net.h"

/**
 * beats_take(x, net):
 * On a Host, POST /v1/beats: a box that is paired tells how it is, signed with its key, and on a
 * connection under TLS that is its own or from the user that served its socket.  Answered with
 * directives (engine/state/beat.h).  Refused: box.unpaired, beat.stale, lane.signature, lane.time,
 * lane.peer, or as beat_take.
 */
int beats_take(struct http_exchange *x, void *net);

struct http_client;
struct beats; /* of a box: one loop for each Host */

/**
 * beats_new(env, client, r), beats_free(beats):
 * Begin to beat for each pairing that is active and has a way to its Host.  Both arguments outlive
 * it; it is freed before ${client}.  NULL with ${r} store.failed.
 */
struct beats *beats_new(struct actor_env *env, struct http_client *client, struct refusal *r);
void beats_free(struct beats *beats);

/**
 * beats_wake(beats):
 * Take up new pairings, let go of those that are over, and beat at once where beat_request says so:
 * once, however many changes there were, and once more for one that comes during a beat.
 */
void beats_wake(struct beats *beats);

/**
 * beats_drain(beats):
 * Begin no further beat.
 */
void beats_drain(struct beats *beats);

#endif
