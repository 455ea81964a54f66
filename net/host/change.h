/* change.h: a request that becomes a row: carried to the committer's thread, and answered after. */
#ifndef NET_HOST_CHANGE_H
#define NET_HOST_CHANGE_H

#include "engine/actor/identity.h"
#include "net/host/calls.h"

/* What is to be done, and for whom: ${run} works on it in the committer's thread. */
struct change {
	struct commit_job job; /* first */
	struct net *net;
	struct http_exchange *x; /* NULL: whoever asked has gone */
	struct calls_who who;
	void (*answer)(struct change *c); /* NULL: 202, and nothing more */
	int64_t id, at;                   /* of the row; of what is written, where it has a place */
	const char *kind;                 /* of what is written; static */
	char word[33];                    /* of whoever asks */
	struct identity process;          /* the same, where it is asked for */
	size_t len;
	char body[];
};

/**
 * change_new(net, x, body, len):
 * Return a change that ${x} asks for, with ${body}[0..${len}) copied; or NULL, with ${x} refused.
 */
struct change *change_new(struct net *net, struct http_exchange *x, const char *body, size_t len);

/**
 * change_submit(c, run):
 * Have ${run}(db, &c->job), which says who acts, called in a transaction, and ${x} answered when
 * that is durable, or refused.  ${c}, whose body may be a secret, is wiped and freed then. Return
 * 0.
 */
int change_submit(struct change *c, int (*run)(struct store *db, struct commit_job *job));

/**
 * change_refuse(net, x, code, why):
 * Refuse ${x}.  Return 0.
 */
int change_refuse(struct net *net, struct http_exchange *x, const char *code, const char *why);

#endif
