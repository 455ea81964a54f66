/* address.h: hosts as people write them, and addresses as sixteen bytes. */
#ifndef ENGINE_ADDRESS_H
#define ENGINE_ADDRESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "engine/endpoint.h"
#include "engine/refusal.h"

#define ADDRESS_TEXT_MAX 45 /* characters of an IPv6 address */

/* An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d (RFC 4291 §2.5.5.2). */
struct address {
	uint8_t b[16];
};

/* A name, or an address in its one spelling. */
struct host {
	enum endpoint_kind kind;
	char text[ENDPOINT_HOST_MAX + 1];
	struct address address; /* where ${kind} is not ENDPOINT_NAME */
};

/**
 * address_parse(text, address):
 * Read an IPv4 address in four decimal numbers or an IPv6 address without a zone.  Return 0 or -1.
 */
int address_parse(const char *text, struct address *address);

/**
 * address_text(address, out):
 * Write ${address} in its one spelling (RFC 5952), IPv4 also where it was written as IPv6.
 */
void address_text(const struct address *address, char out[ADDRESS_TEXT_MAX + 1]);

/**
 * address_is_ipv4(address):
 * Whether it stands for an IPv4 address.
 */
int address_is_ipv4(const struct address *address);

/**
 * address_sockaddr(address, port, out):
 * Store ${address} and ${port} (host order) for connect(2) and bind(2) in ${out}.  Return its
 * length.
 */
socklen_t address_sockaddr(
    const struct address *address, uint16_t port, struct sockaddr_storage *out);

/**
 * host_read(text, len, host, refusal):
 * Read ${len} bytes as a host without brackets: an address, or a name of letters, digits, "-", "_"
 * and dots, with one dot at its end at most, which goes, in lower case.  What a resolver would take
 * for an address (a last label that is a number, also a hexadecimal one) is one in four decimal
 * numbers or none.  Return 0, or -1 with ${refusal} (may be NULL) egress.authority.
 */
int host_read(const char *text, size_t len, struct host *host, struct refusal *refusal);

#endif
