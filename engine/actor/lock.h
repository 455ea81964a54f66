/* lock.h: file locks that the kernel holds: they die with their holder, so nothing goes stale. */
#ifndef ENGINE_ACTOR_LOCK_H
#define ENGINE_ACTOR_LOCK_H

#include <stdint.h>

#include "engine/refusal.h"

#define LOCK_BUSY (-2)

/**
 * lock_open(dirfd, name, r):
 * Open the permanent lock file ${name} of the directory ${dirfd}, making it where it is missing.
 * It must be a regular file with one link and mode 0600, owned by us or by the owner of the
 * directory; a symbolic link is not followed.  Nothing is locked yet.  Return a close-on-exec
 * descriptor, or -1 with ${r}: store.lock, store.readonly, store.full.
 */
int lock_open(int dirfd, const char *name, struct refusal *r);

/**
 * lock_take(dirfd, name, holder, r):
 * Lock ${name} in the directory ${dirfd} without waiting and write our pid into it, for people to
 * read.  Nothing is ever inferred from that content, and the file is never removed: a lock that was
 * put in its place while we locked is noticed, and the present file is tried instead.  Return a
 * descriptor that holds the lock until it is closed; LOCK_BUSY, with the holder's pid, or 0 if it
 * cannot be read, in ${*holder}; or -1 with ${r}: store.lock, store.readonly, store.full.
 */
int lock_take(int dirfd, const char *name, int64_t *holder, struct refusal *r);

/**
 * lock_is_held(dirfd, name, r):
 * Say whether anybody holds the lock, without taking it: a look is in nobody's way.  Return 1, 0,
 * or -1 with ${r} store.lock where the kernel does not tell.
 */
int lock_is_held(int dirfd, const char *name, struct refusal *r);

/**
 * lock_use(fd):
 * Hold the open directory ${fd} as one in use, until the last of its descriptors is closed.  Who
 * sweeps asks the kernel and no number: a process of another pid namespace has none here, or
 * another's.  Return 0, LOCK_BUSY where somebody is removing it, or -1 with errno.
 */
int lock_use(int fd);

/**
 * lock_unused(fd):
 * Take the open directory ${fd}, to remove it, unless anybody uses it.  Return 0, LOCK_BUSY, or -1
 * with errno.
 */
int lock_unused(int fd);

#endif
