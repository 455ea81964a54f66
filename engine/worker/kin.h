/* kin.h: all that a program started, wherever it went: known by a mark in its environment. */
#ifndef ENGINE_WORKER_KIN_H
#define ENGINE_WORKER_KIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KIN_NAME "BASTION_KIN"
#define KIN_SIZE 96 /* bytes of the variable with its name and NUL */

/* Of whom: the leader's identity, as engine/actor/identity.h has it. */
struct kin {
	char boot_id[37];
	int64_t pid, start_ticks;
};

/**
 * kin_mark(mark):
 * Write the variable that marks the calling process, and by inheritance all that it will start.
 * Return 0 or -1.
 */
int kin_mark(char mark[KIN_SIZE]);

/* Where to look. */
enum kin_where {
	KIN_CHILDREN, /* among what became our child (PR_SET_CHILD_SUBREAPER): fast */
	KIN_ANYWHERE  /* among all processes of the machine that may be looked at */
};

#define KIN_PATIENCE_MS 256 /* for which one call waits at most */

/**
 * kin_over(fd, pid, until_ms):
 * Wait until our child ${pid}, of which ${fd} is the pidfd, has ended, and reap it; at most until
 * ${until_ms} of loop_now().  Return whether it was reaped: one that the kernel holds ends later,
 * and one that another process traces is reaped when that lets go of it.
 */
bool kin_over(int fd, pid_t pid, int64_t until_ms);

/**
 * kin_end(where, ours, ctx, left):
 * End with SIGKILL each process in ${where} that is marked as kin of one for whom ${ours}(${ctx},
 * kin) says yes, and look again until none is left, and nobody's environment is between two
 * programs (for KIN_PATIENCE_MS at most).  Killed children are reaped, and leave theirs to
 * us.  A fork is no way out: who was killed starts nothing more.  A program that empties its
 * environment and leaves its group is not found; a sandbox holds that one.  Return how many were
 * ended, and store in ${*left} how many were killed but are not gone yet: look again later.
 */
int kin_end(
    enum kin_where where, bool (*ours)(void *ctx, const struct kin *kin), void *ctx, int *left);

/**
 * kin_reap(known, ctx):
 * Reap those of our children that have ended and for whom ${known}(${ctx}, pid) says no: they
 * became our children, and nobody waits for them.  Return how many of these have ended but cannot
 * be reaped yet, since another process traces them.
 */
int kin_reap(bool (*known)(void *ctx, int64_t pid), void *ctx);

#endif
