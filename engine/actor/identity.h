/* identity.h: which process this is, for good: a pid is used again, (boot, pid, start time) is not.
 */
#ifndef ENGINE_ACTOR_IDENTITY_H
#define ENGINE_ACTOR_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#define IDENTITY_BOOT_LEN     36
#define IDENTITY_PROGRAM_SIZE 16 /* what the kernel keeps of a name, with its NUL */

struct identity {
	char boot_id[IDENTITY_BOOT_LEN + 1]; /* /proc/sys/kernel/random/boot_id */
	int64_t pid;
	int64_t start_ticks;                 /* /proc/PID/stat, field 22 */
	char program[IDENTITY_PROGRAM_SIZE]; /* /proc/PID/stat, field 2 */
	char state;                          /* /proc/PID/stat, field 3 */
};

/**
 * identity_of(pid, id):
 * Store the identity of the process ${pid} of this boot in ${*id}.  Return 0, or -1 where there is
 * no such process or it cannot be seen.
 */
int identity_of(int64_t pid, struct identity *id);

/**
 * identity_parse(stat, id):
 * Read pid, program, state and start time from ${stat}, the text of /proc/PID/stat; ${*id} is
 * written only where all are there.  The name may hold spaces and parentheses: it ends at the last
 * ')'.  Return 0 or -1.
 */
int identity_parse(const char *stat, struct identity *id);

/**
 * identity_alive(boot_id, pid, start_ticks):
 * Return whether exactly that process runs now.  One of another boot does not, nor does a later one
 * that got its pid, nor a zombie.  One that exists but may not be looked at (hidepid) counts as
 * alive: a wrong yes costs a wait, a wrong no would give its leases away.
 */
bool identity_alive(const char *boot_id, int64_t pid, int64_t start_ticks);

#endif
