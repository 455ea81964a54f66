/* netns.h: for tests: this machine and an internet of its own, in network namespaces. */
#ifndef TESTS_NETNS_H
#define TESTS_NETNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the internet is: addresses that nobody else has there. */
#define NETNS_SITE   "198.51.100.8"
#define NETNS_OTHER  "198.51.100.9"
#define NETNS_SIX    "2001:db8::8"
#define NETNS_BOX    "10.9.0.1" /* of this machine, on the link between the two */
#define NETNS_ROUTER "10.9.0.2"

/**
 * netns_enter(void):
 * Put this process into a network namespace of its own, as root or as an ordinary user, with a
 * default route to another one that has NETNS_SITE, NETNS_OTHER and NETNS_SIX.  Return false where
 * this machine does not let it.  What is made goes with the process.
 */
bool netns_enter(void);

/**
 * netns_listen(address, port):
 * Return a socket that listens in the other namespace, at any free port where ${*port} is 0, and
 * store the port.  Fails the test where it cannot.
 */
int netns_listen(const char *address, uint16_t *port);

/**
 * netns_run(words):
 * Run a program in the other namespace, to its end.  Return its exit code.
 */
int netns_run(const char *const *words);

/**
 * netns_fork(void):
 * As fork, with the child in the other namespace; it dies with this process.
 */
pid_t netns_fork(void);

/**
 * netns_terminal(fd, rows, cols):
 * The same, with the child on a terminal of its own, whose other end is ${*fd}.
 */
pid_t netns_terminal(int *fd, unsigned short rows, unsigned short cols);

/**
 * netns_hold(void):
 * For networks of more places than two.  Return the pid of a process that keeps a new, empty
 * network namespace until it is killed or this process ends; or -1 where this machine has none for
 * us.
 */
pid_t netns_hold(void);

/**
 * netns_at(holder), netns_shell(holder, command):
 * Move this process into the namespace of ${holder}, which has to work; or run ${command}, without
 * single quotes, there, by sh -e, as root alone can.  The latter returns whether it ended well.
 */
void netns_at(pid_t holder);
bool netns_shell(pid_t holder, const char *command);

#endif
