/* who.h: which user of this machine is at the other end of a connection. */
#ifndef NET_EGRESS_WHO_H
#define NET_EGRESS_WHO_H

#include <netinet/in.h>
#include <sys/types.h>

/**
 * who_unix(fd, uid):
 * Store in ${*uid} who connected, on the kernel's word (SO_PEERCRED, unix(7)).  Return 0 or -1.
 */
int who_unix(int fd, uid_t *uid);

/**
 * who_open(void):
 * Return a socket for who_tcp (sock_diag(7)), or -1.
 */
int who_open(void);

/**
 * who_tcp(diag, at, from, uid):
 * Store in ${*uid} the user whose socket at ${from} is connected to ${at}, both of this machine.  A
 * socket that its process has given up has no user any more.  Return 0, or -1 where the kernel
 * names none.
 */
int who_tcp(int diag, const struct sockaddr_in *at, const struct sockaddr_in *from, uid_t *uid);

#endif
