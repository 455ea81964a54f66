/* authority.h: HOST:PORT as requests name it. */
#ifndef NET_EGRESS_AUTHORITY_H
#define NET_EGRESS_AUTHORITY_H

#include "engine/address.h"

struct authority {
	struct host host;
	uint16_t port;
};

/**
 * authority_parse(text, len, port, authority, refusal):
 * Read ${len} bytes as HOST, HOST:PORT or [IPV6]:PORT, with ${port} where none is given.  White
 * space around it goes.  User and password, zones, IPv6 without brackets and IPv4 within them are
 * refused.  Return 0, or -1 with ${refusal} (may be NULL) egress.authority.
 */
int authority_parse(const char *text, size_t len, uint16_t port, struct authority *authority,
    struct refusal *refusal);

/**
 * authority_text(authority, otherwise, out, size):
 * Write it in its one spelling, without the port where that is ${otherwise}.
 */
void authority_text(const struct authority *authority, uint16_t otherwise, char *out, size_t size);

/**
 * authority_pattern(text, authority, refusal):
 * Read what a rule is for: "github.com", "*.github.com", "github.com:443", "2001:db8::8",
 * "[2001:db8::8]:443", "*", "*:443"; the port is 0 where none is given.  Return 0, or -1 with
 * ${refusal} egress.authority.
 */
int authority_pattern(const char *text, struct authority *authority, struct refusal *refusal);

#define AUTHORITY_TEXT_MAX ENDPOINT_TEXT_MAX

#endif
