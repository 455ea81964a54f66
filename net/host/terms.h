/* terms.h: what a Host has carried to its boxes as their anchor: signed terms, and looks. */
#ifndef NET_HOST_TERMS_H
#define NET_HOST_TERMS_H

struct actor_env;
struct ways;

/**
 * terms_carry(env, ways):
 * For the actor link, whenever it keeps up: end the rows of host_terms whose time is over, and
 * start on ${ways} what waits.  A box that cannot be reached is tried again after terms.retry_ms; a
 * look at it is not, since a person waits.  What a box answers, or that it did not, is kept in the
 * row. Both ${env} and ${ways} live as long as the actor; with NULL for ${ways}, once it
 * drains, nothing more is started.
 */
void terms_carry(struct actor_env *env, struct ways *ways);

#endif
