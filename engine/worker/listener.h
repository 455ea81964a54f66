/* listener.h: which local sockets listen on a port, as ss lists them, and where that may be
 * dialled. */
#ifndef ENGINE_WORKER_LISTENER_H
#define ENGINE_WORKER_LISTENER_H

#include <sys/socket.h>

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#define LISTENER_DIALS_MAX 32

/* An address of this machine that may be dialled. */
struct listener_dial {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to;
	socklen_t len;
	int loopback;
};

/* What listens on one port. */
struct listener {
	uint16_t port;
	int found;  /* sockets that listen on it */
	int ndials; /* of those, what may be dialled; loopback first */
	struct listener_dial dials[LISTENER_DIALS_MAX];
};

/**
 * listener_line(l, line, len):
 * Take one line of "ss -Hltn" into account.  A socket bound to every address or to a loopback
 * address may be dialled on loopback; one bound to another address there, and only if an interface
 * of this machine holds it.
 */
void listener_line(struct listener *l, const char *line, size_t len);

/**
 * listener_sort(l):
 * Put loopback first.
 */
void listener_sort(struct listener *l);

#endif
