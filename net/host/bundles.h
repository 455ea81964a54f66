/* bundles.h: repositories that another machine copies here, over the one protocol. */
#ifndef NET_HOST_BUNDLES_H
#define NET_HOST_BUNDLES_H

#include "net/host/net.h"

#define BUNDLES_BODY_MAX 16384
#define BUNDLES_PIECE    65536

/**
 * bundles_new(x, net):
 * POST /v1/bundles: begin to copy {"name","cwd","size","sha256"}, or go on with it.  Answered as
 * bundles_show.
 */
int bundles_new(struct http_exchange *x, void *net);

/**
 * bundles_show(x, net):
 * GET /v1/bundles/{id}: {"id","state","received","size","path","generation","session","message"};
 * state is open, live (it is in place), replaced, or failed (message says why).
 */
int bundles_show(struct http_exchange *x, void *net);

/**
 * bundles_take(x, net):
 * POST /v1/bundles/{id}/data?at=N: its bytes from N on, of which ${received} says where they begin.
 */
int bundles_take(struct http_exchange *x, void *net);

#endif
