/* lane.h: for tests: the internet lane in this process, with names of the test's own. */
#ifndef TESTS_LANE_H
#define TESTS_LANE_H

#include <stddef.h>
#include <stdint.h>

#include "tests/scratch.h"

#define LANE_TEXT_MAX 262144

/**
 * lane_start(s), lane_stop(s):
 * Serve the lane over the state of ${s} in a thread, with rules that allow all that is public
 * unless the test made others; and drain it.  Names are those of lane_name.
 */
void lane_start(struct scratch *s);
void lane_stop(struct scratch *s);

/**
 * lane_awaken(): tell it that the database changed, as its actor does.
 */
void lane_awaken(void);

/* Where it listens, after lane_start. */
extern int lane_http, lane_socks;
extern char lane_unix[108];

/**
 * lane_name(name, addresses, ttl, times):
 * Answer ${name} with ${addresses} ("A B …", "" for none) the next ${times} times it is looked up
 * (0: for ever), after what was said of it before.  lane_asked: how many questions came.
 */
void lane_name(const char *name, const char *addresses, int ttl, int times);
int lane_asked(void);
void lane_names_forget(void);

/**
 * lane_dial(port):
 * Return a connection to ${port} of 127.0.0.1 (0: to the unix socket) that waits no longer than 20
 * s.
 */
int lane_dial(int port);

/**
 * lane_say(fd, text), lane_send(fd, bytes, len):
 * Send; the other end may have gone.
 */
void lane_say(int fd, const char *text);
void lane_send(int fd, const void *bytes, size_t len);

/**
 * lane_hear(fd, out, size):
 * Read to the end, with a NUL behind.  Return the length; a reset counts as an end.
 */
size_t lane_hear(int fd, char *out, size_t size);

/**
 * lane_hear_until(fd, end, out, size):
 * Read until ${end} has come, byte by byte, with a NUL behind.  Return 0, or -1 at the end before.
 */
int lane_hear_until(int fd, const char *end, char *out, size_t size);

/**
 * lane_accept(listener):
 * Return the next connection, waiting no longer than 20 s for it and for what it says.
 */
int lane_accept(int listener);

/**
 * lane_contacted(listener):
 * Whether anybody waits to be accepted.
 */
int lane_contacted(int listener);

/**
 * lane_ask(port, text, out, size):
 * Dial, say and hear to the end.  Return the length.
 */
size_t lane_ask(int port, const char *text, char *out, size_t size);

/**
 * lane_until(s, value, sql):
 * Wait until the database says ${value}.
 */
void lane_until(struct scratch *s, int64_t value, const char *sql);

#endif
