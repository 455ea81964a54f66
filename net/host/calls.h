/* calls.h: a person at this Host asks its boxes. */
#ifndef NET_HOST_CALLS_H
#define NET_HOST_CALLS_H

#include "net/host/net.h"

/**
 * calls_start(net):
 * Learn the names of those who may ask, for the audit, while nobody waits for the loop
 * yet: a user directory may take PERSON_WAIT_MS.  Where it says nothing they are "uid 1000".
 */
void calls_start(struct net *net);

/* Who asks, for the audit. */
struct calls_who {
	uid_t uid;
	char agent[65]; /* the label of its token; "": the person ${uid} */
	int64_t remote; /* not 0: the credential of another machine, called ${agent} */
};

/**
 * calls_act_as(db, net, who):
 * From now on ${who} acts on ${db}, for the audit.
 */
void calls_act_as(struct store *db, const struct net *net, const struct calls_who *who);

struct call; /* an ask on its way into its row */

/**
 * calls_make(net, who, body, len, made, ctx, r):
 * Make the row of the ask ${body}, {"box","op","args",…}, as ${who}.  ${made}(${ctx}, id, refusal)
 * is called once from the loop; ${refusal} is NULL when the row is durable.  Return what
 * calls_forget takes until then; or NULL with ${r}, where ${body} is no ask.
 */
struct call *calls_make(struct net *net, const struct calls_who *who, const char *body, size_t len,
    void (*made)(void *ctx, int64_t id, const struct refusal *refusal), void *ctx,
    struct refusal *r);

/**
 * calls_forget(call), calls_revoke(call):
 * Have nobody told of ${call}, whose row is made all the same; with the second, the ask is taken
 * back as soon as it has one.
 */
void calls_forget(struct call *call);
void calls_revoke(struct call *call);

/**
 * calls_cancel(net, who, id):
 * Take the ask ${id} back, where it is open: it ends as failed, call.cancelled, and link no longer
 * listens to the box.  An ask that waits there for a person is over with that; the box is told, and
 * ends a run that has begun.
 */
void calls_cancel(struct net *net, const struct calls_who *who, int64_t id);

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

/**
 * calls_drop(x, net):
 * DELETE /v1/calls/{id}: calls_cancel.  Answered at once.
 */
int calls_drop(struct http_exchange *x, void *net);

#endif
