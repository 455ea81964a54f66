/* reply.h: the answer to one HTTP/1.1 request, taken apart as its bytes come. */
#ifndef NET_HTTP_REPLY_H
#define NET_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"

#define REPLY_HEAD_MAX    16384
#define REPLY_HEADERS_MAX 64

enum reply_stage {
	REPLY_HEAD,
	REPLY_BODY,       /* ${left} bytes of a body of known length */
	REPLY_CHUNK_SIZE, /* a line */
	REPLY_CHUNK,      /* ${left} bytes */
	REPLY_CHUNK_END,  /* the line end behind them */
	REPLY_END,        /* the line end behind the last chunk */
	REPLY_COMPLETE,
};

/* Stricter than RFC 9112: lines end with CRLF, and there is one way only to give a length. */
struct reply {
	enum reply_stage stage;
	bool to_head; /* the answer to a HEAD has no body */
	int status;   /* 0: not known yet */
	bool close;   /* the connection ends with it */
	uint64_t left;
	char line[24]; /* of a chunk's size */
	size_t line_len;
	char head[REPLY_HEAD_MAX + 1];
	size_t head_len;
	unsigned nheaders, interim;
	struct {
		const char *name, *value;
	} headers[REPLY_HEADERS_MAX];
};

/**
 * reply_init(reply, to_head):
 * Begin to read the answer to a request, a HEAD if ${to_head}.
 */
void reply_init(struct reply *reply, bool to_head);

/**
 * reply_feed(reply, data, len, body, ctx, r):
 * Take the next ${len} bytes.  ${body} is called with each piece of the body, and returns 0, or -1
 * to give up.  Return 0; or -1 with ${r} http.protocol for what is no answer (bytes behind its end
 * included), or unchanged where ${body} gave up.  At reply->stage REPLY_COMPLETE it is whole.
 */
int reply_feed(struct reply *reply, const char *data, size_t len,
    int (*body)(void *ctx, const char *data, size_t len), void *ctx, struct refusal *r);

/**
 * reply_header(reply, name):
 * Return the last header ${name}, whatever its case; or NULL.  It lives as long as ${reply}.
 */
const char *reply_header(const struct reply *reply, const char *name);

#endif
