/* filter.h: which system calls an actor that faces a network may make. */
#ifndef ENGINE_ACTOR_FILTER_H
#define ENGINE_ACTOR_FILTER_H

#include "engine/refusal.h"

/**
 * filter_install(r):
 * Allow the calling process, all its threads, only what serving sockets and the database takes: no
 * other programs, processes, namespaces, mounts, kernel interfaces or changes of ids.  A call that
 * only an attacker makes (ptrace, execve, mount, ...) ends the process; any other that is not on
 * the list fails with EPERM.  For good.  Return 0, or -1 with ${r}: actor.start.
 */
int filter_install(struct refusal *r);

#endif
