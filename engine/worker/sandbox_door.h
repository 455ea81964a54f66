/* sandbox_door.h: sockets in the network of a sandbox, for whoever started it. */
#ifndef ENGINE_WORKER_SANDBOX_DOOR_H
#define ENGINE_WORKER_SANDBOX_DOOR_H

#include <sys/types.h>

/* A process that is in that network and nothing else of it: no program inside sees it. */
struct sandbox_door {
	pid_t pid;
	int fd;
};

/**
 * sandbox_door_open(door, listener):
 * Make a door to the network of the socket ${listener}, which the sandbox of this process gave out.
 * Call with one thread alone.  Return 0, or -1 with errno.
 */
int sandbox_door_open(struct sandbox_door *door, int listener);

/**
 * sandbox_door_socket(door):
 * Return a new TCP socket in there: non-blocking, close-on-exec; or -1.
 */
int sandbox_door_socket(const struct sandbox_door *door);

/**
 * sandbox_door_close(door):
 * Close it; sockets that came out stay.  One that was never opened (fd -1) is none.
 */
void sandbox_door_close(struct sandbox_door *door);

#endif
