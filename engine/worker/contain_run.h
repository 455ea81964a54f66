/* contain_run.h: carry out what a Host ordered to contain, where a person allowed it. */
#ifndef ENGINE_WORKER_CONTAIN_RUN_H
#define ENGINE_WORKER_CONTAIN_RUN_H

#include "engine/store/store.h"

/**
 * contain_run(db):
 * In ROLE_WORKER: take the oldest order to contain that waits, make durable that it is carried out
 * now, which the triggers decide, do it, and keep what became of it.  One that they refuse, or that
 * finds no such process, ends as refused.  Return 1 where there was one, 0 where none waits, -1 on
 * failure.
 */
int contain_run(struct store *db);

#endif
