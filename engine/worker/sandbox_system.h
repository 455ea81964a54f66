/* sandbox_system.h: what every sandbox sees of the machine: its programs, read-only. */
#ifndef ENGINE_WORKER_SANDBOX_SYSTEM_H
#define ENGINE_WORKER_SANDBOX_SYSTEM_H

#include "engine/worker/sandbox.h"

#define SANDBOX_SYSTEM_MAX 48

struct sandbox_system {
	struct sandbox_path paths[SANDBOX_SYSTEM_MAX];
	size_t count;
	char links[SANDBOX_SYSTEM_MAX][64];
};

/**
 * sandbox_system(s):
 * Fill ${s} with the folders of programs and libraries that this machine has, and /etc, in which
 * what only some users may read is hidden.  ${s} holds the texts: it must outlive the plan.
 */
void sandbox_system(struct sandbox_system *s);

/**
 * sandbox_secrets(home, i, out, size):
 * Store the ${i}-th path below the folder ${home} that programs keep keys, tokens and passwords in
 * in ${out}.  Return 0, or -1 past the last.
 */
int sandbox_secrets(const char *home, size_t i, char *out, size_t size);

#endif
