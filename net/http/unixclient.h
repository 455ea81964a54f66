/* unixclient.h: ask a daemon of this machine over its unix socket, and wait for the answer. */
#ifndef NET_HTTP_UNIXCLIENT_H
#define NET_HTTP_UNIXCLIENT_H

#include <sys/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"

/*
 * For a verb that asks one thing and ends. It blocks, and speaks HTTP/1.0 (RFC 1945), in which the
 * end of the connection ends the body, so there is nothing to take apart. client.h is for daemons:
 * loading libcurl takes longer than all that this does. Whether a body came to its end is for its
 * form to say: here a connection that broke looks the same.
 */
#define UNIXCLIENT_HEAD_MAX 8192     /* bytes of the answer's status line and headers together */
#define UNIXCLIENT_LINE_MAX 16842752 /* bytes: the longest frame there may be, and 64 KiB */

struct unixclient {
	int fd;           /* -1: closed */
	int64_t deadline; /* ms, on unixclient_now's clock: nothing is waited for beyond it */
	char *buf;        /* what came: used up to ${at}, there up to ${len} */
	size_t at, len, size;
	size_t line_max; /* bytes: longest line that is taken now */
};

/**
 * unixclient_now(void):
 * Return the milliseconds of CLOCK_MONOTONIC.
 */
int64_t unixclient_now(void);

/**
 * unixclient_dial(c, path, owner, deadline, r):
 * Connect ${c} to the socket at ${path}, where a process of ${owner} or of root must listen: the
 * kernel says who does (SO_PEERCRED, unix(7)).  Return 0; or -1 with ${c} closed and ${r}:
 * http.unreachable with errno, socket.taken where another user listens, http.timeout.
 */
int unixclient_dial(
    struct unixclient *c, const char *path, uid_t owner, int64_t deadline, struct refusal *r);

/**
 * unixclient_ask(c, method, target, body, len, r):
 * Send a request with ${len} bytes of JSON, without a NUL (0: none), and read the head of the
 * answer.  Return its status; or -1 with ${r}: http.aborted where the connection ended,
 * http.timeout, http.protocol.
 */
int unixclient_ask(struct unixclient *c, const char *method, const char *target, const char *body,
    size_t len, struct refusal *r);

/**
 * unixclient_send(c, method, target, body, len, r), unixclient_status(c, r):
 * The two halves of unixclient_ask, for who has something to do in between.  Return 0, or the
 * status; or -1 with ${r}, as that.
 */
int unixclient_send(struct unixclient *c, const char *method, const char *target, const char *body,
    size_t len, struct refusal *r);
int unixclient_status(struct unixclient *c, struct refusal *r);

/**
 * unixclient_line(c, line, r):
 * Point ${*line} to the next line of the body, its end replaced by a NUL; it lives until the next
 * call.  Return 1; 0 at the end of the connection, where a line that was not ended is dropped; or
 * -1 with ${r}: http.timeout, http.protocol for a line over UNIXCLIENT_LINE_MAX or with a NUL,
 * http.memory.
 */
int unixclient_line(struct unixclient *c, char **line, struct refusal *r);

/**
 * unixclient_waits(c):
 * Return whether the next unixclient_line would have to wait.
 */
bool unixclient_waits(const struct unixclient *c);

/**
 * unixclient_close(c):
 * Close and free.  Closing twice is no error.
 */
void unixclient_close(struct unixclient *c);

#endif
