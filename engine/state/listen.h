/* listen.h: where this machine listens on a network, and where it says that it is reached. */
#ifndef ENGINE_STATE_LISTEN_H
#define ENGINE_STATE_LISTEN_H

#include "engine/endpoint.h"
#include "engine/store/store.h"

#define LISTEN_ADDRESS_MAX 47

struct listen_place {
	char address[LISTEN_ADDRESS_MAX + 1]; /* "*", four numbers, or IPv6 in brackets */
	uint16_t port;
};

/**
 * listen_parse(text, place, r):
 * Read ${text}, "*:PORT" or "IP:PORT" as endpoint_parse takes it.  Return 0, or -1 with ${r}
 * listen.invalid.
 */
int listen_parse(const char *text, struct listen_place *place, struct refusal *r);

/**
 * listen_host(db, place, addresses, n):
 * Have this Host listen at ${place} (NULL: as it is) and name the ${n} endpoints ${addresses} in
 * its codes (0: those that it names already).  Return 0, or -1 with the refusal of ${db} and
 * nothing changed: listen.role, listen.none (it would name none), endpoint.invalid, endpoint.many.
 */
int listen_host(
    struct store *db, const struct listen_place *place, const char *const addresses[], unsigned n);

/**
 * listen_box(db, port):
 * Have this box listen for its Hosts on ${port} of every address.  Return 1, 0 where it does
 * already, or -1 with the refusal of ${db}: listen.role, listen.fixed (it listens on another).
 */
int listen_box(struct store *db, uint16_t port);

/**
 * listen_off(db):
 * Listen no more, and name no endpoints.  Return 0 or -1.
 */
int listen_off(struct store *db);

#endif
