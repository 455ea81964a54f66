/* scan.h: what a box that observes looks at between its beats: agents, and their tool servers. */
#ifndef ENGINE_WORKER_SCAN_H
#define ENGINE_WORKER_SCAN_H

#include <stdbool.h>

#include "engine/actor/actor.h"
#include "engine/worker/observe.h"
#include "engine/worker/runner.h"

/*
 * Beats do not wait for it: they tell what the rows of agent_scan say (schema/scan.sql).  The
 * worker has each look made by a process behind the seal of questions, ends it when its time is
 * over, and begins no second one while the first is not gone.
 */

#define SCAN_TEXT (1u << 17) /* bytes of what processes are compared with, at most */

/**
 * scan_find(name):
 * Return the look ${name}, "scan:declared" or "scan:processes", or NULL.  They are no ops: no Host
 * can ask them.
 */
const struct observe_op *scan_find(const char *name);

struct scans;

/**
 * scans_new(env, runner, root):
 * Return a set without looks.  Below ${root} there are the machine's /proc, /etc and homes; "" for
 * this machine.  NULL without memory.
 */
struct scans *scans_new(struct actor_env *env, struct runner *runner, const char *root);

/**
 * scans_wake(s):
 * Begin what is due, and come back by itself for what is due next.
 */
void scans_wake(struct scans *s);

/**
 * scans_event(s, event):
 * Take what the runner says.  Return whether it was of a look here.
 */
bool scans_event(struct scans *s, const struct runner_event *event);

/**
 * scans_drain(s):
 * Begin no further look.
 */
void scans_drain(struct scans *s);

/**
 * scans_free(s):
 * Forget the looks, which end with the runner.  ${s} may be NULL.
 */
void scans_free(struct scans *s);

#endif
