/* child.h: what a process that was just made sets right before it becomes a program. */
#ifndef ENGINE_WORKER_CHILD_H
#define ENGINE_WORKER_CHILD_H

#include <sys/resource.h>

/**
 * child_limit(which, value):
 * Have the resource ${which} (RLIMIT_…) end at ${value}, or where it ends already, for good.
 * Return 0 or -1.  Only system calls.
 */
int child_limit(int which, rlim_t value);

/**
 * child_signals():
 * Have every signal do what it does by itself, and block none.  Only system calls.
 */
void child_signals(void);

#endif
