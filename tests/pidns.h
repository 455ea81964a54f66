/* pidns.h: a process to which ours have no number, or another one. */
#ifndef TESTS_PIDNS_H
#define TESTS_PIDNS_H

#include <sys/types.h>

/**
 * pidns_fork():
 * As fork, but for that the child is the first process of a pid namespace with its own /proc, and
 * ends with its parent.  The number returned is that of a process that ends with the child, and as
 * it does.  Skips the test where this machine makes no such namespace.
 */
pid_t pidns_fork(void);

#endif
