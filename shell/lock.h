/* lock.h: a program that runs while we hold a lease, and no longer. */
#ifndef SHELL_LOCK_H
#define SHELL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/store/store.h"

/* A lease that is held, and for whom. */
struct lock {
	struct store *db;
	const char *lease; /* its name in the database */
	const char *name;  /* as the person says it: BASTION_LOCK of the program */
	int64_t fence; /* BASTION_FENCE, but where it is shared: those do not come in an order */
	bool shared;
	int64_t ttl_ms; /* each renewal holds it that long */
};

/**
 * lock_run(lock, argv, status):
 * Run the program ${argv} with what is said above in its environment, and renew the lease
 * until it ends: three times in each ttl_ms.  Signals that we are sent go on to the program; it is
 * killed where we are, and ended (SIGTERM, after five seconds SIGKILL) where the lease was lost all
 * the same, since another may hold it then.  Store its wait status in ${*status}.  Return 0, or -1
 * with the refusal of the store: lock.program (it cannot be started), lease.fence (the lease was
 * lost).
 */
int lock_run(struct lock *lock, char *const *argv, int *status);

#endif
