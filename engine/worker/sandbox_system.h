/* sandbox_system.h: what every sandbox sees of the machine, its programs, read-only; and what none
 * shows. */
#ifndef ENGINE_WORKER_SANDBOX_SYSTEM_H
#define ENGINE_WORKER_SANDBOX_SYSTEM_H

#include <limits.h>

#include "engine/store/home.h"
#include "engine/worker/sandbox.h"

#define SANDBOX_SYSTEM_TEXTS (2 * SANDBOX_PATHS_MAX)
#define SANDBOX_FORBIDDEN    3

/* What was added to a plan: it must outlive that.  Zeroed before its first use. */
struct sandbox_system {
	char *texts[SANDBOX_SYSTEM_TEXTS];
	size_t text_count;
	char forbidden_text[SANDBOX_FORBIDDEN][PATH_MAX];
	const char *forbidden[SANDBOX_FORBIDDEN];
};

/**
 * sandbox_system(s, plan, paths, home, also, refusal):
 * Complete ${plan}, whose user, and whose paths in ${paths}, with room for SANDBOX_PATHS_MAX, are
 * set.  What the plan does not name itself is added: the folders of programs and libraries that
 * this machine has, and /etc.  Hidden, but what the plan names beneath, are in these what only some
 * users may read, for root all of /etc that others may not read; and, in whatever the plan shows,
 * what programs keep keys, tokens and passwords in below the home of its user, and below the folder
 * ${also}, unless that is NULL.  State and sockets of ${home}, unless that is NULL, are forbidden.
 * Return 0, or -1 with ${refusal} sandbox.plan; sandbox_system_free in both cases, after the plan's
 * last use.
 */
int sandbox_system(struct sandbox_system *s, struct sandbox_plan *plan, struct sandbox_path *paths,
    const struct home *home, const char *also, struct refusal *refusal);

/**
 * sandbox_system_free(s):
 * Free the texts of ${s}.
 */
void sandbox_system_free(struct sandbox_system *s);

#endif
