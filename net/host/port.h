/* port.h: where a machine listens under TLS: a Host for its boxes, a box for its Hosts. */
#ifndef NET_HOST_PORT_H
#define NET_HOST_PORT_H

#include "net/host/net.h"

/*
 * One port for two kinds of peers, told apart before a byte of theirs is read:
 *
 *   SURFACE_GUEST  no certificate: may redeem an invitation, and nothing else is there
 *   SURFACE_PEER   the certificate of a box that is paired (on a Host; http_peer.tag is its
 *                  host_box), or of a Host that is paired (on a box; the tag is its pairing)
 *
 * A certificate that is good but of nobody here any more is turned away.
 */

/**
 * port_bind(address, port, what, r):
 * Return a socket that listens on ${address} ("*", four numbers, IPv6 in brackets) and ${port},
 * without blocking; or -1 with ${r} socket.bind, which names it as ${what}.
 */
int port_bind(const char *address, uint16_t port, const char *what, struct refusal *r);

/**
 * port_wake(net):
 * Open the port where the table listen says so and it is not open yet, with the newest certificate;
 * open it anew where either changed.  Connections that are open stay.  What fails is said once, in
 * the log, and tried again at the next wake.
 */
void port_wake(struct net *net);

/**
 * port_end(net):
 * Accept nothing more; port_wake does nothing from now on.
 */
void port_end(struct net *net);

/**
 * port_authorise(net, peer):
 * For the authorise hook: whether ${peer} of the port (its surface is SURFACE_GUEST) is let in.
 * Sets its surface and tag.  Return 0, or -1 to close the connection.
 */
int port_authorise(struct net *net, struct http_peer *peer);

#endif
