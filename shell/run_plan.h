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

#define RUN_SSH_AGENT "/tmp/ssh-agent" /* its socket inside */

#define RUN_CA    "/tmp/bastion-ca.pem"    /* the authority of a lane that looks in, inside */
#define RUN_ROOTS "/tmp/bastion-roots.pem" /* it, behind those that the machine trusts */

#define RUN_ROOTS_MAX (8 << 20) /* bytes of what the machine trusts */

struct run_plan {
	struct sandbox_plan plan;
	struct sandbox_path paths[SANDBOX_PATHS_MAX];
	char *texts[2 * SANDBOX_PATHS_MAX]; /* of those that are ours */
	size_t text_count;
	bool ssh, gpg; /* agents that are shown */
	struct sandbox_system system;
	char here[PATH_MAX];   /* where the person is */
	char home[PATH_MAX];   /* of the person; inside it is ${kept} */
	char listed[PATH_MAX]; /* the one that the machine's list of users has, or "" */
	char kept[PATH_MAX];
	char ca[PATH_MAX], roots[PATH_MAX]; /* files of this run; "": none */
	char **env;                         /* ended by NULL */
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
 * run_plan_agent(p, which, refusal):
 * Show the socket of the agent "ssh" or "gpg".  Return 0 or -1: run.agent.
 */
int run_plan_agent(struct run_plan *p, const char *which, struct refusal *refusal);

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
 * run_plan_handle(p):
 * Have a socket come out of a network without a lane, by which it can be entered.
 */
void run_plan_handle(struct run_plan *p);

/**
 * run_plan_environment(p, nonce, lane, refusal):
 * Complete its environment.  Return 0 or -1.
 */
int run_plan_environment(struct run_plan *p, const char *nonce, bool lane, struct refusal *refusal);

/**
 * run_plan_trust(p, nonce, pem, refusal):
 * Have programs trust the authority ${pem} beside those of the machine: files that they may read,
 * and the variables by which they find them, behind run_plan_environment.  Return 0 or -1.
 */
int run_plan_trust(struct run_plan *p, const char *nonce, const char *pem, struct refusal *refusal);

/**
 * run_plan_placed(p):
 * What is shown inside is in place: remove the names that its files of this run had outside.
 */
void run_plan_placed(struct run_plan *p);

void run_plan_free(struct run_plan *p);

#endif
