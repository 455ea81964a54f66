/* runs.h: the rows of programs of bastion run, for the process that runs one and opens no database.
 */
#ifndef NET_HOST_RUNS_H
#define NET_HOST_RUNS_H

#include "net/host/net.h"

#define RUNS_BODY_MAX 65536

/**
 * runs_new(x, net):
 * POST /v1/runs: {"state","nonce","program","words","lane","ports":[{"port","inside"}…]}: begin a
 * run of the process at the other end of the socket, as its user.  "state" is home_token of its
 * state directory: with another than this daemon's the answer is 421, and nothing is begun.
 * Answered with {"id","settings":{…}} when the row is durable.
 */
int runs_new(struct http_exchange *x, void *net);

/**
 * runs_told(x, net):
 * POST /v1/runs/{id}: what became of a run, by the process that began it:
 * {"state":"running","user_ns","pid_ns","capped","notes":[…]}, {"state":"ended","exit"} or
 * {"state":"failed"}.  Answered with 202 when the row is durable.
 */
int runs_told(struct http_exchange *x, void *net);

#endif
