/* kill.h: end a process with everything that it started, politely first. */
#ifndef ENGINE_WORKER_KILL_H
#define ENGINE_WORKER_KILL_H

#include <stdint.h>
#include <sys/types.h>

#include "engine/refusal.h"

/* Something to end. */
struct kill_target {
	pid_t pid;
	pid_t group; /* its process group as remembered from its start; 0: look it up */
	int gone;    /* out: nothing of it lives any more; zombies do not live */
};

/* How patient to be. */
struct kill_grace {
	int64_t term_ms; /* between SIGTERM and SIGKILL */
	int64_t kill_ms; /* after SIGKILL */
	int64_t poll_ms; /* between two looks at a group */
};

/**
 * kill_defaults():
 * Return three seconds, three seconds and 50 ms.
 */
struct kill_grace kill_defaults(void);

/**
 * kill_process(pid, signo), kill_group(group, signo):
 * As kill(2), of one process or one process group and never of more: a number of 1 or less, which
 * kill(2) may take for everything that the caller may signal, names nobody (ESRCH).  Return 0 or
 * -1 with errno.
 */
int kill_process(pid_t pid, int signo);
int kill_group(pid_t group, int signo);

/**
 * kill_lives(pid, group):
 * Return 1 if ${pid}, or a member of the process group ${group} if that is not 0, lives and is not
 * a zombie.
 */
int kill_lives(pid_t pid, pid_t group);

/**
 * kill_trees(targets, n, grace, refusal):
 * Send SIGTERM to all ${n} ${targets}, wait for them together, send SIGKILL to those left, wait
 * again. A target that leads its group, or has ${group} set, is signalled as a group; another one
 * alone, since its group may be ours.  Our own children are not reaped: their status stays for the
 * caller.  Return 0 if all are gone (also if they were before), or -1 with ${refusal} kill.pid (a
 * pid or group of 1 or less: nothing was signalled) or kill.alive (at least one is left; see
 * ${gone}).
 */
int kill_trees(
    struct kill_target *targets, int n, const struct kill_grace *grace, struct refusal *refusal);

/**
 * kill_tree(pid, group, refusal):
 * As kill_trees for one target with kill_defaults.
 */
int kill_tree(pid_t pid, pid_t group, struct refusal *refusal);

#endif
