/* endpoint.h: where a Host can be reached: one address or name, one port, one spelling. */
#ifndef ENGINE_ENDPOINT_H
#define ENGINE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"

#define ENDPOINT_HOST_MAX  253 /* bytes: a name's limit (RFC 1035 §2.3.4, without the last dot) */
#define ENDPOINT_LABEL_MAX 63  /* of one label of it */
#define ENDPOINT_TEXT_MAX  (ENDPOINT_HOST_MAX + 8) /* brackets, colon, five digits */

enum endpoint_kind { ENDPOINT_NAME, ENDPOINT_IPV4, ENDPOINT_IPV6 };

struct endpoint {
	enum endpoint_kind kind;
	char host[ENDPOINT_HOST_MAX + 1]; /* without brackets, in lower case */
	uint16_t port;                    /* 1 to 65535 */
	char text[ENDPOINT_TEXT_MAX + 1]; /* the one spelling: what is stored, compared and shown */
};

/**
 * endpoint_parse(text, len, endpoint, refusal):
 * Read the ${len} bytes at ${text}, which need not end with a NUL, as "HOST:PORT".  HOST is an IPv4
 * address in four decimal numbers, an IPv6 address (RFC 4291 §2.2) in brackets and without a zone,
 * or a name: labels of 1 to 63 letters, digits, "-" and "_" that neither begin nor end with "-",
 * the last one no number.  Refused are addresses that no peer has (unspecified, multicast,
 * broadcast, link-local IPv6, which needs a zone) and IPv4 addresses spelt as IPv6.  PORT is
 * digits alone.  Return 0 with ${endpoint} filled, or -1 with ${refusal} (may be NULL)
 * endpoint.missing for no bytes at all, else endpoint.invalid; it never repeats the text.
 */
int endpoint_parse(
    const char *text, size_t len, struct endpoint *endpoint, struct refusal *refusal);

/**
 * endpoint_host_is_number(host):
 * Return whether resolvers take ${host} for an address: its last label is a number, decimal or
 * hexadecimal, as in 127.1, 0x7f.1 and 2130706433.
 */
bool endpoint_host_is_number(const char *host);

#endif
