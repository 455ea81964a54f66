/* unixsock.h: a listening unix socket that appears at its path whole, private and provably ours. */
#ifndef NET_HTTP_UNIXSOCK_H
#define NET_HTTP_UNIXSOCK_H

#include <sys/types.h>

#include "engine/refusal.h"

#define UNIXSOCK_PATH_MAX 103 /* bytes: what every platform's sun_path takes */

struct unixsock {
	int fd;  /* the socket, non-blocking */
	int dir; /* its directory: all names below are looked up beneath it */
	char name[UNIXSOCK_PATH_MAX + 1];
	char hidden[32]; /* where it is bound until it is published; empty afterwards */
	dev_t dev;
	ino_t ino;
};

/**
 * unixsock_bind(s, path, mode, refusal):
 * Bind a new socket under a hidden name in the directory of ${path} and remember its inode in
 * ${s}.  The directory must be ours and no symbolic link; for ${mode} 0600 nobody else may enter
 * it, for a wider one nobody else may write in it.  The socket never has more than 0600 until
 * ${mode} is set.  Return 0; or -1 with ${refusal} socket.path, socket.directory or socket.bind.
 */
int unixsock_bind(struct unixsock *s, const char *path, mode_t mode, struct refusal *refusal);

/**
 * unixsock_publish(s, backlog, refusal):
 * Listen and give the socket its name, so that whoever finds it can connect.  A socket in that
 * place on which nobody listens is removed first; one that answers, or anything else, is not
 * touched: socket.taken.  If what then stands there is not the inode that was bound: take back
 * what is ours and refuse with socket.replaced.  Return 0 or -1; after -1 ${s} is closed.
 */
int unixsock_publish(struct unixsock *s, int backlog, struct refusal *refusal);

/**
 * unixsock_close(s):
 * Remove the name if it is still our inode, and close.  Closing twice is no error.
 */
void unixsock_close(struct unixsock *s);

#endif
