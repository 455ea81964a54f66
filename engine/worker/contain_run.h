/* contain_run.h: carry out what a Host ordered to contain, where a person allowed it. */
#ifndef ENGINE_WORKER_CONTAIN_RUN_H
#define ENGINE_WORKER_CONTAIN_RUN_H

#include "engine/store/store.h"

/* An order that was carried out, or refused. */
struct contain_order;

/**
 * contain_run(db, order):
 * In ROLE_WORKER: take the oldest order to contain that waits, make durable that it is carried out
 * now, which the triggers decide, and do it.  Return 1 with ${*order}: what became of it is for the
 * caller to write (contain_write); 0 where none waits; -1 on failure.
 */
int contain_run(struct store *db, struct contain_order **order);

/**
 * contain_write(db, order):
 * Commit what became of ${order}.  One that was refused, or found no such process, ends as refused.
 * Return 0 or -1: try again.
 */
int contain_write(struct store *db, const struct contain_order *order);

/**
 * contain_order_free(order):
 * Free ${order}, which may be NULL.
 */
void contain_order_free(struct contain_order *order);

#endif
