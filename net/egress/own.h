/* own.h: which addresses are this machine, as the kernel says it now. */
#ifndef NET_EGRESS_OWN_H
#define NET_EGRESS_OWN_H

#include <stdbool.h>

#include "engine/address.h"
#include "engine/store/store.h"

#define OWN_IFNAME 16 /* IFNAMSIZ */

enum own_source { OWN_NIC, OWN_LOCAL_ROUTE, OWN_CONTAINER, OWN_BRIDGE };

struct own_range {
	struct address first, last;
	enum own_source source;
	char ifname[OWN_IFNAME];
};

/* All of them, sorted.  Where ${known} is false nobody can tell. */
struct own {
	bool known;
	struct own_range *ranges;
	size_t n;
};

/**
 * own_read(own, r):
 * Ask the kernel (rtnetlink(7)) for addresses of interfaces, local routes, and routes without a
 * gateway to veths and to bridges that have nothing but veths, taps and dummies: containers.  A
 * link that carries a default route leads outside.  Return 0 with ${own} filled in place of what it
 * had, or -1 with ${r} egress.own_unknown and ${own} unknown.
 */
int own_read(struct own *own, struct refusal *r);

/**
 * own_has(own, address):
 * Whether it is this machine, or lives on it.
 */
bool own_has(const struct own *own, const struct address *address);

/**
 * own_watch(r):
 * Return a descriptor, non-blocking, that becomes readable when any of that may have changed; or
 * -1.
 */
int own_watch(struct refusal *r);

/**
 * own_changed(fd):
 * Read ${fd} empty.  Return whether there was anything.
 */
bool own_changed(int fd);

/**
 * own_is_stored(db, own):
 * Whether the rows of own_address say that already.
 */
bool own_is_stored(struct store *db, const struct own *own);

/**
 * own_store(db, own):
 * Make the rows of own_address say what ${own} says.  A step of the caller's transaction.  Return 0
 * or -1.
 */
int own_store(struct store *db, const struct own *own);

/**
 * own_free(own):
 * Forget what it has.
 */
void own_free(struct own *own);

#endif
