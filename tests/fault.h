/* fault.h: a disk that fails when it is told to, below SQLite. */
#ifndef TESTS_FAULT_H
#define TESTS_FAULT_H

#include <stdbool.h>

/* Operations on the files of the database: SQLite's, and ours on their names. */
enum fault_op {
	FAULT_READ = 1,
	FAULT_WRITE = 2,
	FAULT_SYNC = 4,
	FAULT_TRUNCATE = 8,
	FAULT_OPEN = 16,
	FAULT_DELETE = 32,
	FAULT_LOCK = 64,
	FAULT_SHM = 128,
	FAULT_NAME = 256 /* ours, on the directory: rename, link, unlink */
};

#define FAULT_EXIT 99 /* of the process whose power went */

/* What happens: ${nth} of the ${ops} (a set of fault_op), from 1, fails; 0: none does. */
struct fault_plan {
	unsigned ops;
	int nth;
	bool sticky;   /* and every later one of them */
	bool full;     /* as a full disk does, else as a broken one */
	bool power;    /* the power goes instead, before the operation */
	unsigned seed; /* what of the unsynced writes is on the disk then: 0 nothing, 1 all */
};

/**
 * fault_install(plan):
 * Stand between SQLite and its default VFS from now on, in this process, with ${plan}.  No file of
 * SQLite may be open.  Syncs are not passed on: only what this VFS loses is lost.  A name that was
 * changed stays changed.
 */
void fault_install(const struct fault_plan *plan);

/**
 * fault_count(void), fault_hits(void):
 * Return how many operations of the plan there were, and how many failed.
 */
int fault_count(void);
int fault_hits(void);

/**
 * fault_power_off(void):
 * Lose what was not synced, in sectors of 512 bytes, any part of it by the plan's seed, and end the
 * process with FAULT_EXIT.
 */
void fault_power_off(void) __attribute__((noreturn));

#endif
