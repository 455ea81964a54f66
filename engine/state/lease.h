/* lease.h: named locks that survive crashes and say who holds them. */
#ifndef ENGINE_STATE_LEASE_H
#define ENGINE_STATE_LEASE_H

#include <stdint.h>

#include "engine/store/store.h"

#define LEASE_BUSY 1

/*
 * A lease belongs to a process, not to a thread or a connection: whoever holds it holds the fencing
 * token.  It ends by lease_release, by running out, or with its process; then the next one gets a
 * higher token, and lease_check refuses what the former one still writes.
 */

/**
 * lease_take(db, name, ttl_ms, wait_ms, fence):
 * Take the lease ${name} for ${ttl_ms} milliseconds, waiting at most ${wait_ms} for its holder to
 * release it, die or run out.  Store the fencing token in ${*fence}; pass it with every write that
 * the lease protects.  A wait empties the bell of ${db}: an actor, whose loop listens to it, takes
 * with ${wait_ms} 0.  Return 0; LEASE_BUSY, with ${db}'s refusal lease.held naming the holder and
 * when it runs out; or -1 on failure.
 */
int lease_take(struct store *db, const char *name, int64_t ttl_ms, int64_t wait_ms, int64_t *fence);

/**
 * lease_renew(db, name, ttl_ms, fence):
 * Hold ${name} for another ${ttl_ms} milliseconds from now.  Return 0, or -1 with lease.fence where
 * it is not ours with ${fence} any more.
 */
int lease_renew(struct store *db, const char *name, int64_t ttl_ms, int64_t fence);

/**
 * lease_release(db, name, fence):
 * Free ${name}.  Return 0, or -1 with lease.fence where it is not ours to free.
 */
int lease_release(struct store *db, const char *name, int64_t fence);

/**
 * lease_check(db, name, fence):
 * Inside the transaction whose writes ${name} protects: return 0 where it is ours with ${fence}, or
 * -1 with lease.fence where it was lost; then roll back.
 */
int lease_check(struct store *db, const char *name, int64_t fence);

/**
 * lease_break(db, name):
 * Free ${name} where its holder is dead or it ran out.  Return 0, also where it was free;
 * LEASE_BUSY with ${db}'s refusal lease.held where a live process holds it; or -1 on failure.
 */
int lease_break(struct store *db, const char *name);

#endif
