/* peers.h: other programs of the same kind, that a bench measures beside ours. */
#ifndef TESTS_PEERS_H
#define TESTS_PEERS_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * peer_file(path, text):
 * Write the configuration of one.
 */
void peer_file(const char *path, const char *text);

/**
 * peer_start(words):
 * Start one in a session of its own, as a daemon is in (the kernel may share processors out among
 * sessions), silent, that ends with us.  Return its number.
 */
pid_t peer_start(const char *const *words);

/**
 * peer_comes_up(port, ms):
 * Wait until something listens on ${port} of 127.0.0.1, for ${ms} at most.  Return whether it does.
 */
bool peer_comes_up(int port, int ms);

/**
 * peer_sum(pid, depth, of):
 * Return what ${of}("/proc/PID") says of ${pid} and of those who come from it, ${depth} births
 * deep.
 */
long peer_sum(pid_t pid, int depth, long (*of)(const char *proc));

/**
 * peer_memory(proc):
 * For peer_sum: resident memory, in kB.
 */
long peer_memory(const char *proc);

#endif
