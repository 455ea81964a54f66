/* wire.h: for tests: HTTP by hand over a unix socket, so that nothing in between tidies it up. */
#ifndef TESTS_WIRE_H
#define TESTS_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#define WIRE_BODY_MAX 4194304

struct wire_answer {
	int status;       /* 0: none came */
	bool whole;       /* its body came to its end */
	char refused[64]; /* X-Bastion-Refused, or "" */
	char head[8192];
	size_t len;
	char body[WIRE_BODY_MAX]; /* a NUL follows its last byte */
};

/**
 * wire_dial(path):
 * Return a socket that is connected to ${path}.  Fails the test where nobody listens.
 */
int wire_dial(const char *path);

/**
 * wire_send(fd, bytes, len):
 * Write all of it.  Return 0, or -1 where the other end has gone.
 */
int wire_send(int fd, const void *bytes, size_t len);

/**
 * wire_request(fd, method, target, headers, body, len):
 * Write a request with the further ${headers} ("Name: value\r\n"…) and its Content-Length.
 */
int wire_request(int fd, const char *method, const char *target, const char *headers,
    const void *body, size_t len);

/**
 * wire_take(fd, answer):
 * Read one answer, taking its chunks apart; at most a minute.
 */
void wire_take(int fd, struct wire_answer *answer);

/**
 * wire_ask(path, method, target, headers, body, len, answer):
 * All of that on a connection of its own.  Return the status.
 */
int wire_ask(const char *path, const char *method, const char *target, const char *headers,
    const void *body, size_t len, struct wire_answer *answer);

#endif
