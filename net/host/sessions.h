/* sessions.h: long work over the one protocol: for machines what bastion session is for a person.
 */
#ifndef NET_HOST_SESSIONS_H
#define NET_HOST_SESSIONS_H

#include "net/host/net.h"

#define SESSIONS_BODY_MAX 196608 /* of an ask; the words of a command are 131072 bytes at most */
#define SESSIONS_INPUT    65536  /* of one piece of input */

/**
 * sessions_named(net, x, verb):
 * Return the id of the session that ${x} names in its path, where whoever asks may do ${verb} with
 * it; or 0, with ${x} answered.
 */
int64_t sessions_named(struct net *net, struct http_exchange *x, const char *verb);

/**
 * sessions_new(x, net):
 * POST /v1/sessions: queue {"name","worker","argv":[…],"cwd","terminal","input","attempts"}, as the
 * user at the other end of the socket.  Answered with {"id","name"} when the row is durable.
 */
int sessions_new(struct http_exchange *x, void *net);

/**
 * sessions_list(x, net), sessions_show(x, net):
 * GET /v1/sessions and /v1/sessions/{name}: as the view sessions has them.
 */
int sessions_list(struct http_exchange *x, void *net);
int sessions_show(struct http_exchange *x, void *net);

/**
 * sessions_output(x, net):
 * GET /v1/sessions/{name}/output?after=SEQ: its rows behind SEQ as they are committed, each a line
 * {"id","seq","kind","line","lines","more","at","text"} ("base64" instead where the bytes are no
 * UTF-8), and at its end {"x":code,"state":…,"id"}.  A gap in seq is what is not kept any more.
 * With most=N N rows at most of those that are there now.  With id=ID refused where that name is
 * another session's by now; with state=TOKEN, where the state is another than that of home_token.
 */
int sessions_output(struct http_exchange *x, void *net);

/**
 * sessions_input(x, net):
 * POST /v1/sessions/{name}/input: the body, as it is; with ?end=1 it is the last.
 */
int sessions_input(struct http_exchange *x, void *net);

/**
 * sessions_cancel(x, net):
 * DELETE /v1/sessions/{name}: ask for its end.
 */
int sessions_cancel(struct http_exchange *x, void *net);

#endif
