/* day.h: a machine's first day in rows: the transactions that the actors make, in their roles. */
#ifndef TESTS_DAY_H
#define TESTS_DAY_H

#include <stdbool.h>

#include "engine/store/store.h"

#define DAY_STATEMENTS 4

/* One transaction.  ${whole} answers 1 where all of it is there, 0 where nothing is. */
struct day_step {
	const char *name;
	enum store_role role;
	bool soft;
	const char *sql[DAY_STATEMENTS + 1];
	const char *whole;
};

extern const struct day_step day_steps[]; /* in order; ends with a NULL name */

/**
 * day_take(db, step):
 * Take ${step} on ${db}, opened in its role with keys.  Return 0, or -1 with ${db}'s refusal.
 */
int day_take(struct store *db, const struct day_step *step);

#endif
