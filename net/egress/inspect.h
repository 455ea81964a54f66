/* inspect.h: what goes through a tunnel, request by request: TLS ends here and begins here anew. */
#ifndef NET_EGRESS_INSPECT_H
#define NET_EGRESS_INSPECT_H

#include "net/egress/conn.h"

/* A lane's authority and its TLS; a tunnel that is looked into. */
struct inspector;
struct inspect;

/**
 * inspector_look(proxy):
 * Where the lane looks into tunnels, have an authority that lasts; where it goes by the setting,
 * with its row.  What fails is said on standard error, and again to whom it concerns.
 */
void inspector_look(struct proxy *proxy);

/**
 * inspector_free(inspector):
 * Close what is left and wipe the authority.  NULL is none.
 */
void inspector_free(struct inspector *inspector);

/**
 * inspect_read(db, conn):
 * In the committer's thread, where the row of ${conn} is about to be open: read what the rules and
 * the setting say of its tunnel, for inspect_wanted.  What cannot be read is said there.
 */
void inspect_read(struct store *db, struct conn *conn);

/**
 * inspect_wanted(conn, r):
 * Is the tunnel of ${conn}, whose row is open, to be looked into?  Of what is caught, which may
 * speak anything, PROXY_INSPECT_ALL means port 443 alone.  By the setting no run is looked into:
 * its programs do not trust the lane.  Return 1, 0, or -1 with ${r}: egress.uninspected where the
 * rule that allows it wants that and the lane does not.
 */
int inspect_wanted(struct conn *conn, struct refusal *r);

/**
 * inspect_begin(conn, r):
 * Tell the client that the tunnel stands, be its server, and the client of the server once a
 * request is allowed.  The client sees a certificate for the host that it asked the tunnel for,
 * whatever it names in its handshake; the server's has to be good for that host.  Return 0, or -1
 * with ${r} and nothing said: egress.early, egress.busy, or as leaf_take.
 */
int inspect_begin(struct conn *conn, struct refusal *r);

/**
 * inspect_dialled(inspect, fd):
 * The server is connected; ${fd} is the inspector's.
 */
void inspect_dialled(struct inspect *inspect, int fd);

/**
 * inspect_refuse(inspect, refusal):
 * Say why within TLS, where an answer can still be given, and end the connection.
 */
void inspect_refuse(struct inspect *inspect, const struct refusal *refusal);

/**
 * inspect_end(inspect):
 * Its connection ends.  NULL is none.
 */
void inspect_end(struct inspect *inspect);

#endif
