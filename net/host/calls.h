/* calls.h: a person at this Host asks its boxes. */
#ifndef NET_HOST_CALLS_H
#define NET_HOST_CALLS_H

#include "net/host/net.h"

/**
 * calls_start(net):
 * On a Host: learn the names of those who may ask, for the audit, while nobody waits for the loop
 * yet: a user directory may take PERSON_WAIT_MS.  Where it says nothing they are "uid 1000".
 */
void calls_start(struct net *net);

/**
 * calls_ask(x, net):
 * POST /v1/calls: make the row of an ask, as the user at the other end of the socket, and stream
 * its answer: first {"c":number}, then each frame of the box as it is committed, and last
 * {"x":exit}, with "e" and the refusal where the box refused, or failed, or was lost. No frame of a
 * box has a member x.  An ask goes on when whoever made it has gone.
 */
int calls_ask(struct http_exchange *x, void *net);

/**
 * calls_follow(x, net):
 * GET /v1/calls/{id}?after=N: stream the answer to an earlier ask, behind its frame number N.
 */
int calls_follow(struct http_exchange *x, void *net);

#endif
