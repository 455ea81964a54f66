/* spawn.h: an actor's process, from fork to its first instruction. */
#ifndef ENGINE_ACTOR_SPAWN_H
#define ENGINE_ACTOR_SPAWN_H

#include <sys/types.h>

#include "engine/actor/control.h"

struct spawned {
	pid_t pid;
	int pidfd;   /* readable once it has ended */
	int control; /* our end */
};

/**
 * spawn_actor(name, order, child, r):
 * Start this program again as "bastion actor ${name}" in a session of its own, with ${order}
 * waiting at CONTROL_FD, standard input from /dev/null, no other descriptor of ours but standard
 * output and error, and an environment of a few harmless variables.  Return 0 with ${*child}, whose
 * descriptors are the caller's; or -1 with ${r}: actor.start.
 */
int spawn_actor(
    const char *name, struct control_order *order, struct spawned *child, struct refusal *r);

/**
 * spawn_signal(child, signo):
 * Send ${signo} to exactly that process.  One that has ended is no error.
 */
void spawn_signal(const struct spawned *child, int signo);

/**
 * spawn_kill(child):
 * Kill ${child}, wait for its end and close its descriptors; nothing where it is not there.
 */
void spawn_kill(struct spawned *child);

/**
 * spawn_reap(child, status):
 * Where ${child} has ended, store its wait status, close its descriptors and return 0; else -1.
 */
int spawn_reap(struct spawned *child, int *status);

#endif
