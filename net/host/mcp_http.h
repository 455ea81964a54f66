/* mcp_http.h: MCP over HTTP: /mcp on control.sock, and on a port of the loopback address. */
#ifndef NET_HOST_MCP_HTTP_H
#define NET_HOST_MCP_HTTP_H

#include "net/host/net.h"

/*
 * Streamable HTTP (MCP 2025-11-25, transports).  On control.sock an agent is the user whom the
 * kernel names; on the port it shows a token of mcp_token with every request, and the headers Host
 * and Origin must be those of this machine, so that no web page speaks here.  A session belongs to
 * whoever began it.  It outlives connections, not the daemon: an agent then begins anew.
 */
struct mcp_http;

/**
 * mcp_http_start(net, r):
 * Serve MCP, and listen on the setting mcp.port, where there is one: what keeps that from working
 * is said on standard error, since another user may hold the port, and is no reason not to serve.
 * Return 0, or -1 with ${r}.
 */
int mcp_http_start(struct net *net, struct refusal *r);

/**
 * mcp_http_end(net):
 * End every session, taking back what it waits for, and every stream.
 */
void mcp_http_end(struct net *net);

/**
 * mcp_http_wake(net):
 * The database may have changed.
 */
void mcp_http_wake(struct net *net);

/**
 * mcp_post(x, net), mcp_get(x, net), mcp_delete(x, net):
 * A message of an agent; the stream of what it is told; the end of its session.
 */
int mcp_post(struct http_exchange *x, void *net);
int mcp_get(struct http_exchange *x, void *net);
int mcp_delete(struct http_exchange *x, void *net);

#endif
