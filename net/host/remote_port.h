/* remote_port.h: where this box listens for sessions of other machines, and who is heard there. */
#ifndef NET_HOST_REMOTE_PORT_H
#define NET_HOST_REMOTE_PORT_H

#include "net/host/calls.h"

/*
 * A connection comes as SURFACE_KNOCK, which offers nothing.  The first request with the secret of
 * a live credential, as Authorization: Bearer, has it become SURFACE_REMOTE, whose tag is the
 * credential; each later request has to show the same.  Both are looked at in the head alone.
 */

/**
 * remote_wake(net):
 * Listen as the table remote_listen says; cut the connections of credentials that are over.  What
 * fails is said once, in the log, and tried again at the next wake.
 */
void remote_wake(struct net *net);

/**
 * remote_drain(net, done):
 * Accept nothing more, let what was asked be answered, and call ${done}(${net}).  Return whether
 * there is anything to wait for.
 */
bool remote_drain(struct net *net, void (*done)(void *net));

/**
 * remote_end(net):
 * Close everything.
 */
void remote_end(struct net *net);

/**
 * remote_asks(net, x, who):
 * Fill ${who}: who asks ${x}, the user at the other end of a socket or a credential.  Return 0; or
 * -1 with ${x} refused, where the credential is over.
 */
int remote_asks(struct net *net, struct http_exchange *x, struct calls_who *who);

/**
 * remote_may(net, x, session, verb):
 * Whether whoever asks ${x} may do ${verb} ("list", "attach", "send", "cancel") with ${session}, a
 * row.  Return 0; or -1 with ${x} refused.
 */
int remote_may(struct net *net, struct http_exchange *x, int64_t session, const char *verb);

#endif
