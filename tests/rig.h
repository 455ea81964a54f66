/* rig.h: for tests: the internet lane in this process, with names of the test's own. */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/egress/proxy.h"
#include "tests/scratch.h"

#define RIG_TEXT_MAX 262144

/**
 * rig_start(s), rig_stop(s):
 * Serve the lane over the state of ${s} in a thread, with rules that allow all that is public
 * unless the test made others; and drain it.  Names are those of rig_name.
 */
void rig_start(struct scratch *s);
void rig_stop(struct scratch *s);

/**
 * rig_awaken(): tell it that the database changed, as its actor does.
 */
void rig_awaken(void);

/* How it looks into tunnels, from the next rig_start on, and what it is trusted by then. */
extern enum proxy_inspect rig_inspect;
extern char rig_roots[128]; /* a PEM file, or "" */
extern char rig_pem[16384];

/* What it calls where no rule says anything (proxy_config), from the next rig_start on; or NULL. */
extern void (*rig_unknown)(void *ctx, const struct authority *to);

/* Where it listens, after rig_start. */
extern int rig_http, rig_socks;
extern char rig_unix[108];

/**
 * rig_name(name, addresses, ttl, times):
 * Answer ${name} with ${addresses} ("A B …", "" for none) the next ${times} times it is looked up
 * (0: for ever), after what was said of it before.  rig_asked: how many questions came.
 */
void rig_name(const char *name, const char *addresses, int ttl, int times);
int rig_asked(void);

/**
 * rig_names_hold(hold):
 * From now on no question is answered, or those that came meanwhile are.
 */
void rig_names_hold(bool hold);
void rig_names_forget(void);

/**
 * rig_dial(port):
 * Return a connection to ${port} of 127.0.0.1 (0: to the unix socket) that waits no longer than 20
 * s.
 */
int rig_dial(int port);

/**
 * rig_say(fd, text), rig_send(fd, bytes, len):
 * Send; the other end may have gone.
 */
void rig_say(int fd, const char *text);
void rig_send(int fd, const void *bytes, size_t len);

/**
 * rig_hear(fd, out, size):
 * Read to the end, with a NUL behind.  Return the length; a reset counts as an end.
 */
size_t rig_hear(int fd, char *out, size_t size);

/**
 * rig_hear_until(fd, end, out, size):
 * Read until ${end} has come, byte by byte, with a NUL behind.  Return 0, or -1 at the end before.
 */
int rig_hear_until(int fd, const char *end, char *out, size_t size);

/**
 * rig_accept(listener):
 * Return the next connection, waiting no longer than 20 s for it and for what it says.
 */
int rig_accept(int listener);

/**
 * rig_contacted(listener):
 * Whether anybody waits to be accepted.
 */
int rig_contacted(int listener);

/**
 * rig_take(who), rig_catch(who, host, port):
 * Return a connection of ${who}, who speaks HTTP on it, or is carried to ${host} as one that wanted
 * to go there by itself.  It waits no longer than 20 s.
 */
int rig_take(struct proxy_who who);
int rig_catch(struct proxy_who who, const char *host, uint16_t port);

/**
 * rig_ask(port, text, out, size):
 * Dial, say and hear to the end.  Return the length.
 */
size_t rig_ask(int port, const char *text, char *out, size_t size);

/**
 * rig_until(s, value, sql):
 * Wait until the database says ${value}.
 */
void rig_until(struct scratch *s, int64_t value, const char *sql);

#endif
