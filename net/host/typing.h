/* typing.h: a session is typed to over the one protocol. */
#ifndef NET_HOST_TYPING_H
#define NET_HOST_TYPING_H

#include "net/host/net.h"

/**
 * typing_keys(x, net):
 * POST /v1/sessions/{name}/keys?typist=HEX&n=N: whoever calls itself HEX, 32 hex digits, has the
 * keyboard, and types the body as its piece N; or, with &size=80x24 and no body, says how large its
 * terminal is.  With neither it keeps the keyboard.  A piece that was taken before is not taken
 * again.  Answered with {"terminal","n","ms"} when it is durable: without a word for that long the
 * keyboard is free again.  With &leave=1 it is given back.
 */
int typing_keys(struct http_exchange *x, void *net);

#endif
