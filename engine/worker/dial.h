/* dial.h: where a verb reaches out to: found out first, judged by the database, then dialled as
 * judged. */
#ifndef ENGINE_WORKER_DIAL_H
#define ENGINE_WORKER_DIAL_H

#include "engine/destination.h"
#include "engine/worker/work.h"

/*
 * A verb that reaches out (observe_op.dials) runs twice.  The first time args->pin is "": it finds
 * out where to, changes and dials nothing, and ends with dial_look.  Whoever started it has the
 * database judge that, and keeps the row; then it runs again with args->pin, and reaches nothing
 * else.
 */

/**
 * dial_look(w, d):
 * Look up all addresses of ${d} and answer {"destination":{"host","port","addresses"}}.  Return 0,
 * or -1 with ${w}->refusal egress.resolve.
 */
int dial_look(struct work *w, const struct destination *d);

/**
 * dial_holds(w, d):
 * Whether what was judged is still ${d}.  Return 0, or -1 with ${w}->refusal act.changed.
 */
int dial_holds(struct work *w, const struct destination *d);

#endif
