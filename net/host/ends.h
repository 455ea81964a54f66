/* ends.h: ends of TLS for what the database says of this machine and of those it is paired with. */
#ifndef NET_HOST_ENDS_H
#define NET_HOST_ENDS_H

#include "engine/state/tls_identity.h"
#include "net/http/tls.h"

struct tls_limits; /* net/http/tls_pump.h */

/**
 * ends_client(identity, r):
 * Return an end of TLS that dials as ${identity} says, for tls_end_free; ${identity} may be freed.
 * Or NULL with ${r}, as tls_client_end.  Whoever dials a Host insists on TLS_HOST_NAME, whoever
 * dials a box on TLS_BOX_NAME: the name of the URL, with the endpoint in http_request.dial.
 */
struct tls_end *ends_client(const struct tls_identity *identity, struct refusal *r);

/**
 * ends_of_pairing(db, wire, pairing, r), ends_of_box(db, wire, box_id, r):
 * Return the end with which this box dials the Host of ${pairing}, or this Host the listener of
 * ${box_id} (transport 'tls'), for tls_end_free.  Both prove themselves and believe the pinned
 * authority alone.  NULL with ${r}.
 */
struct tls_end *ends_of_pairing(
    struct store *db, const struct key *wire, int64_t pairing, struct refusal *r);
struct tls_end *ends_of_box(
    struct store *db, const struct key *wire, int64_t box_id, struct refusal *r);

/**
 * ends_limits(db, limits):
 * Fill ${limits} from the settings port.*.
 */
void ends_limits(struct store *db, struct tls_limits *limits);

#endif
