/* run_plan.h: what a program of bastion run sees: its folder, an empty home that is kept, the
 * system. */
#ifndef SHELL_RUN_PLAN_H
#define SHELL_RUN_PLAN_H

#include <limits.h>

#include "engine/state/sandbox_run.h"
#include "engine/store/home.h"
#include "engine/worker/sandbox_system.h"

#define RUN_HTTP   3128 /* the lane's ports inside */
#define RUN_SOCKS  1080
#define RUN_DNS    53
#define RUN_CAUGHT 1081

struct run_plan {
	struct sandbox_plan plan;
	struct sandbox_path paths[SANDBOX_PATHS_MAX];
	size_t named; /* of the paths: those that the person named, and the folder */
	struct sandbox_system system;
	char here[PATH_MAX]; /* where the person is */
	char home[PATH_MAX]; /* of the person; inside it is ${kept} */
	char kept[PATH_MAX];
	char state[PATH_MAX], run[PATH_MAX];
	const char *forbidden[2];
	char **env; /* ended by NULL */
	size_t env_count;
	struct sandbox_listener listeners[SANDBOX_LISTENERS];
};

/**
 * run_plan_path(p, kind, path, refusal):
 * Show the real ${path} as SANDBOX_READ or SANDBOX_WRITE.  Return 0 or -1.
 */
int run_plan_path(
    struct run_plan *p, enum sandbox_kind kind, const char *path, struct refusal *refusal);

/**
 * run_plan_env(p, text, refusal):
 * Pass NAME=VALUE, or NAME as it is in this environment; what comes later wins.  Return 0 or -1.
 */
int run_plan_env(struct run_plan *p, const char *text, struct refusal *refusal);

/**
 * run_plan_make(p, home, argv, lane, refusal):
 * Complete the plan of ${argv}: the folder that the person is in, what of the home is seen, the
 * system, and with ${lane} a network with the lane's ports.  Return 0 or -1.
 */
int run_plan_make(
    struct run_plan *p, const struct home *home, char **argv, bool lane, struct refusal *refusal);

/**
 * run_plan_environment(p, nonce, lane, refusal):
 * Complete its environment.  Return 0 or -1.
 */
int run_plan_environment(struct run_plan *p, const char *nonce, bool lane, struct refusal *refusal);

void run_plan_free(struct run_plan *p);

#endif
