/* inside.h: names and connections of a program that knows of no lane, in a network of its own. */
#ifndef NET_EGRESS_INSIDE_H
#define NET_EGRESS_INSIDE_H

#include "net/egress/proxy.h"

struct inside;

struct inside_config {
	struct proxy *proxy;
	struct loop *loop;
	struct proxy_who who;
	size_t names; /* that may be looked up */
	int dns;      /* a datagram socket at port 53 of every address; -1: none */
	int caught;   /* where connections to all other addresses come; -1: none */
};

/**
 * inside_new(config, r):
 * Answer each name with an address that stands for it in that network alone, without looking
 * anything up, and carry what is connected there to the name.  The sockets are its from now on.
 * Return it, or NULL with ${r}.
 */
struct inside *inside_new(const struct inside_config *config, struct refusal *r);

/**
 * inside_free(inside):
 * Close its sockets.  NULL is none.
 */
void inside_free(struct inside *inside);

/**
 * inside_address(inside, name, address):
 * Store the address that stands for ${name} in ${*address}, always the same.  Return 0, or -1 where
 * there are as many names as may be.
 */
int inside_address(struct inside *inside, const char *name, struct address *address);

/**
 * inside_name(inside, address):
 * Return the name that ${address} stands for, or NULL.
 */
const char *inside_name(const struct inside *inside, const struct address *address);

#endif
