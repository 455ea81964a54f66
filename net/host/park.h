/* park.h: connections that a box dials to its Hosts and parks there, each for one connection of the
 * Host's to the internet. */
#ifndef NET_HOST_PARK_H
#define NET_HOST_PARK_H

#include "net/host/net.h"

/*
 * The box asks GET /v1/egress, Upgrade: bastion-egress.  From its 101 on nothing is said until the
 * Host has a client for it: then the Host passes on what that says (HTTP, CONNECT or SOCKS5) as it
 * is, and the box has its own lane serve it, in the name of the pairing.  Either side's end goes
 * on as an end; what is parked carries one connection and is dialled anew.
 */
#define PARK_PROTOCOL "bastion-egress"
#define PARK_PATH     "/v1/egress"
#define PARK_SLOTS    64 /* for one Host, whatever parked.slots says */

struct parks; /* of a box */

/**
 * parks_start(net, r), parks_end(net), parks_free(net):
 * Begin with nothing parked, nor in the database; close what is, and park no more; free what is
 * left, after net's committer.  parks_start returns 0 or -1.
 */
int parks_start(struct net *net, struct refusal *r);
void parks_end(struct net *net);
void parks_free(struct net *net);

/**
 * parks_wake(net):
 * Park with the Hosts that may use the lane now (view pairing_parks), and close at once what is
 * parked or serves with others.
 */
void parks_wake(struct net *net);

struct berths; /* of a Host */

/**
 * berths_start(net, r), berths_end(net), berths_free(net):
 * The same for the Host's end.
 */
int berths_start(struct net *net, struct refusal *r);
void berths_end(struct net *net);
void berths_free(struct net *net);

/**
 * berths_wake(net):
 * Listen on 127.0.0.1 as the table egress_port says.  A port that cannot be had is said once.
 */
void berths_wake(struct net *net);

/**
 * berths_take(x, net):
 * GET /v1/egress: a box that is paired over a network, by its certificate, parks this connection.
 */
int berths_take(struct http_exchange *x, void *net);

#endif
