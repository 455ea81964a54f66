/* identity.h: which process is meant, for good: a pid is reused, (boot, pid, start time) is not. */
#ifndef ENGINE_ACTOR_IDENTITY_H
#define ENGINE_ACTOR_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define IDENTITY_BOOT 37 /* a UUID and a NUL */

/**
 * identity_boot(out):
 * Store the id of this boot in ${out}.  Return 0 or -1.
 */
int identity_boot(char out[IDENTITY_BOOT]);

/**
 * identity_start(pid, ticks):
 * Store when ${pid} started, in clock ticks since boot (/proc/PID/stat field 22), in ${*ticks}.
 * Return 0, or -1 where there is no such process or only its zombie is left.
 */
int identity_start(pid_t pid, uint64_t *ticks);

/**
 * identity_alive(boot, pid, ticks):
 * Return whether the process of that identity still runs.
 */
bool identity_alive(const char *boot, pid_t pid, uint64_t ticks);

#endif
