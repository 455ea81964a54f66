/* destination.h: where somebody wants to reach out to, as it is declared. */
#ifndef ENGINE_DESTINATION_H
#define ENGINE_DESTINATION_H

#include "engine/address.h"

#define DESTINATION_PORT 443 /* where none is said */

struct destination {
	struct host host;
	uint16_t port;
};

/**
 * destination_read(text, len, d):
 * Read the ${len} bytes at ${text} up to the first "/" as HOST[:PORT]: a name or an IPv4 address,
 * an IPv6 address in brackets.  Return 0, or -1 where it is none.
 */
int destination_read(const char *text, size_t len, struct destination *d);

#endif
