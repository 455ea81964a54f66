/* handed.h: connections of Hosts, which another actor of this machine dialled and hands over. */
#ifndef NET_EGRESS_HANDED_H
#define NET_EGRESS_HANDED_H

#include "net/egress/proxy.h"

#define HANDED_SOCKET "handed.sock" /* in the directory for sockets, 0600 */

struct handed;

/**
 * handed_listen(proxy, loop, home, r):
 * Take connections for ${proxy} from processes of our own user.  Return a handle, or NULL with
 * ${r}.
 */
struct handed *handed_listen(
    struct proxy *proxy, struct loop *loop, const struct home *home, struct refusal *r);

/**
 * handed_free(handed):
 * Take no more.  May be NULL.
 */
void handed_free(struct handed *handed);

/**
 * handed_give(home, fd, pairing, r):
 * From another actor: give a duplicate of ${fd} to the lane, which is to serve the Host of
 * ${pairing} there.  Return a non-blocking socket, on which PROXY_TAKEN comes where its destination
 * was reached, and which is closed at the other end when it is over; or -1 with ${r} parked.lane.
 */
int handed_give(const struct home *home, int fd, int64_t pairing, struct refusal *r);

#endif
