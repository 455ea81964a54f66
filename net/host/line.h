/* line.h: connections that boxes make: kept up by the box, asked on by the Host. */
#ifndef NET_HOST_LINE_H
#define NET_HOST_LINE_H

#include "net/host/net.h"

/*
 * On a Host the actor net holds what boxes dialled, and no key; the actor link signs, and asks on
 * RUN/lines.sock, where each box has the paths of its lane.  What goes through is not looked into.
 * Either may die at any instant: what was under way is cut off, and its row says so.
 */
struct lines; /* of a Host */

/**
 * line_start(net, r), line_end(net), line_free(net):
 * Begin without a line, and with none in the database; say no more of them there, before net's
 * server is freed; say there that none is left, and free them, after its committer.  line_start
 * returns 0 or -1.
 */
int line_start(struct net *net, struct refusal *r);
void line_end(struct net *net);
void line_free(struct net *net);

/**
 * line_drain(net, done):
 * Call ${done}(${net}) once when link asks nothing any more on a line: now, or from the loop.  Only
 * then may net's server be drained, which cuts what is asked.
 */
void line_drain(struct net *net, void (*done)(struct net *net));

/**
 * line_take(x, net):
 * GET /v1/line: a box that is paired over a network, by its certificate, gives this connection to
 * be asked on.
 */
int line_take(struct http_exchange *x, void *net);

/**
 * line_relay(x, net):
 * GET, POST /v1/boxes/{box}/{what}: pass the request on to the path /v1/{what} of the box with that
 * number, and its answer back.
 */
int line_relay(struct http_exchange *x, void *net);

struct dials; /* of a box */

/**
 * dials_start(net, r), dials_drain(net), dials_end(net), dials_free(net):
 * Begin with the lines that this box makes; make no further ones; close them, before net's server
 * is freed; free what is left, after its committer.  dials_start returns 0 or -1.
 */
int dials_start(struct net *net, struct refusal *r);
void dials_drain(struct net *net);
void dials_end(struct net *net);
void dials_free(struct net *net);

/**
 * dials_wake(net):
 * Dial the Hosts of new pairings, close what belongs to pairings that are not served any more, and
 * dial anew where a pairing has other endpoints or another certificate.
 */
void dials_wake(struct net *net);

#endif
