/* peers.h: connections under TLS end with what allowed them. */
#ifndef NET_HOST_PEERS_H
#define NET_HOST_PEERS_H

#include "net/host/net.h"

/**
 * peers_wake(net):
 * Cut the connections of boxes, or Hosts, that are not paired any more, or whose pairing is not
 * served: what is asked on them ends there.
 */
void peers_wake(struct net *net);

#endif
