/* kin.h: all that a program started, wherever it went: known by a mark in its environment. */
#ifndef ENGINE_WORKER_KIN_H
#define ENGINE_WORKER_KIN_H

#include <stdbool.h>
#include <stdint.h>

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

/**
 * kin_end(ours, ctx):
 * Look at every process that may be looked at; end with SIGKILL each that is marked as kin of one
 * for whom ${ours}(${ctx}, kin) says yes, again until none is left.  A fork is no way out: who was
 * killed starts nothing more.  A program that empties its environment and leaves its group is not
 * found; a sandbox holds that one.  Return how many were ended; zombies do not count.
 */
int kin_end(bool (*ours)(void *ctx, const struct kin *kin), void *ctx);

#endif
