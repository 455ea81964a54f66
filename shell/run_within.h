/* run_within.h: bastion run, called in a sandbox that bastion made. */
#ifndef SHELL_RUN_WITHIN_H
#define SHELL_RUN_WITHIN_H

#include <stdbool.h>

#include "engine/refusal.h"

/**
 * run_within(argv, env, narrower, quiet, refusal):
 * Where this process is in a sandbox of ours (sandbox_inside), which lets no other be made within
 * it, become the program ${argv}, with the variables ${env} (ended by NULL, or NULL) beside those
 * that are there: what holds this process holds it.  That is said on standard error, but for
 * ${quiet}.  What would have to hold it closer cannot be done: ${narrower} names such an option, or
 * is NULL.  Return 0 where this is no sandbox and nothing was done; or -1 with ${refusal}
 * run.within or sandbox.program.
 */
int run_within(char **argv, char **env, const char *narrower, bool quiet, struct refusal *refusal);

#endif
