/* vet.h: may these addresses be dialled? */
#ifndef NET_EGRESS_VET_H
#define NET_EGRESS_VET_H

#include "net/egress/class.h"
#include "net/egress/own.h"

/* What an address is held against.  Borrowed. */
struct vet {
	const struct classes *classes;
	const struct own *own;
	bool anchored; /* a Host's lane on a machine that answers to an anchor */
};

/**
 * vet_host(host, r):
 * Refuse names that mean this machine wherever they are looked up.  Return 0, or -1 with ${r}
 * egress.this_machine.
 */
int vet_host(const struct host *host, struct refusal *r);

/**
 * vet_addresses(vet, addresses, n, r):
 * Judge all ${n} addresses of one name: a bad one refuses all.  Return 0, or -1 with ${r}:
 * egress.resolve (there is none), egress.this_machine, egress.link, egress.unreadable,
 * egress.obsolete, egress.own_unknown, egress.own, egress.network.
 */
int vet_addresses(
    const struct vet *vet, const struct address *addresses, size_t n, struct refusal *r);

#endif
