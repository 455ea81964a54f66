/* context.h: the socket on which any user may ask to share a folder with a Host. */
#ifndef NET_HOST_CONTEXT_H
#define NET_HOST_CONTEXT_H

#include "engine/state/context.h"
#include "net/host/net.h"

#define CONTEXT_SOCKET "ask.sock" /* in the directory of home_ask */

/**
 * context_serve(net, refusal):
 * Serve the socket: mode 0666, a server of its own, so that no number of users takes a connection
 * from the person or the Hosts.  It knows who asks from the kernel alone, takes one request a
 * connection and as many connections, bytes and milliseconds as the settings context.* say.  Return
 * 0 or -1.
 */
int context_serve(struct net *net, struct refusal *refusal);

/**
 * context_read(db, body, len, request, refusal):
 * Take the ask ${body} apart, which passed http_json_check; the uid is left to the caller.  Return
 * 0 with ${request} filled, or -1 with ${refusal}: context.form, context.path, context.name,
 * context.host.
 */
int context_read(struct store *db, const char *body, size_t len, struct context_request *request,
    struct refusal *refusal);

/**
 * context_post(x, net), context_list(x, net), context_show(x, net), context_delete(x, net):
 * A user asks; sees what they asked, one or all; takes one back.
 */
int context_post(struct http_exchange *x, void *net);
int context_list(struct http_exchange *x, void *net);
int context_show(struct http_exchange *x, void *net);
int context_delete(struct http_exchange *x, void *net);

#endif
