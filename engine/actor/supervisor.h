/* supervisor.h: the parent of the actors: bastion serve. */
#ifndef ENGINE_ACTOR_SUPERVISOR_H
#define ENGINE_ACTOR_SUPERVISOR_H

#include "engine/refusal.h"
#include "engine/store/home.h"

struct supervisor_options {
	const char *user; /* NULL: the user "bastion" where there is one and we are root */
	bool migrate;     /* bring an older database up to date */
};

/**
 * supervisor_run(home, options, r):
 * Take the kernel-held lock and the instance row, close what a lost instance left open, start the
 * actors of home->role, start again those that end, drain at SIGTERM or SIGINT, report to systemd.
 * Print nothing but problems and one line when ready.  Return 0 after a clean stop, or -1 with ${r}
 * set.
 */
int supervisor_run(
    const struct home *home, const struct supervisor_options *options, struct refusal *r);

#endif
