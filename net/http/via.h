/* via.h: one request and its answer on a connected socket that somebody else made. */
#ifndef NET_HTTP_VIA_H
#define NET_HTTP_VIA_H

#include "engine/actor/loop.h"
#include "net/http/reply.h"

/*
 * libcurl could be given such a socket, but that of Debian 12 (7.88) calls connect on it all the
 * same, which fails: CURL_SOCKOPT_ALREADY_CONNECTED is broken there.  Copying between two sockets
 * instead would cost more than an HTTP client that knows only what our own server says.
 */
struct via;

struct via_hooks {
	/* A piece of the body; the head is known.  Return 0, or -1 to give up. */
	int (*body)(void *ctx, const char *data, size_t len);

	/*
	 * The end, called once, not from inside via_start, and last: ${why} is NULL if the answer
	 * is whole, has an empty code if body gave up.  via_free may be called from inside.
	 */
	void (*over)(void *ctx, const struct refusal *why);
	void *ctx;
};

/**
 * via_start(loop, fd, text, len, to_head, hooks):
 * Send ${text}[0..${len}), a whole request, on ${fd}, which is non-blocking and closed at the end,
 * and read the answer.  ${text} comes from malloc; both are owned from now on, also when this
 * fails. Return a handle, or NULL if memory ran out.
 */
struct via *via_start(
    struct loop *loop, int fd, char *text, size_t len, bool to_head, const struct via_hooks *hooks);

/**
 * via_free(via):
 * Close the socket and free ${via}; not from inside body.  May be NULL.
 */
void via_free(struct via *via);

/**
 * via_pause(via, on):
 * Read nothing more of the answer until it is called with false; whoever sends it is held up in the
 * end.  From inside body too.  Return 0, or -1 where the loop refuses.
 */
int via_pause(struct via *via, bool on);

/**
 * via_reply(via):
 * Return what is known of the answer.
 */
const struct reply *via_reply(const struct via *via);

#endif
