/* relay.h: bytes from one socket to another, in bounded memory. */
#ifndef NET_EGRESS_RELAY_H
#define NET_EGRESS_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/egress/chunk.h"

/* Pipes that are free, for those that carry much. */
struct relay_pool;

struct relay_pool *relay_pool_new(size_t keep);
void relay_pool_free(struct relay_pool *pool);

enum half_kind {
	HALF_ALL,    /* everything, until its end */
	HALF_SIZED,  /* ${left} bytes */
	HALF_CHUNKED /* a chunked body, written anew */
};

/*
 * One direction.  Both sockets are non-blocking and watched for edges: ${readable} and ${writable}
 * say what may be tried.  What ${to} has no room for waits here, and nothing more is read.
 */
struct half {
	int from, to;
	enum half_kind kind;
	bool readable, writable;
	bool last;     /* the edge of ${from}'s end was seen: none comes any more */
	bool eof;      /* ${from} has ended */
	bool shut;     /* and ${to} was told */
	bool gone;     /* ${to} failed */
	bool surplus;  /* there was more than the body */
	bool keep;     /* ${to} is not told of the end */
	unsigned full; /* reads in a row that filled the buffer */
	uint64_t left, moved;
	struct chunk *chunk; /* of HALF_CHUNKED, the caller's */
	char *buf;           /* what waits, malloc'ed */
	size_t off, len;
	int pipe[2]; /* where ${piped} or in use; else -1 */
	size_t piped;
};

enum half_state {
	HALF_WAITS,   /* for an edge */
	HALF_GOES_ON, /* it had its turn: call again soon */
	HALF_ENDED,   /* all there was is with ${to} */
	HALF_SURPLUS, /* the body is with ${to}, and something came behind it */
	HALF_GONE,    /* ${to} takes no more */
	HALF_BROKEN   /* ${from} failed, or its body is none */
};

/**
 * half_begin(half, from, to, kind):
 * Fill a half; set left or chunk where the kind needs it.
 */
void half_begin(struct half *half, int from, int to, enum half_kind kind);

/**
 * half_put(half, bytes, len):
 * Put what was read before, or is ours to say, before the rest.  Return 0, or -1 without memory.
 */
int half_put(struct half *half, const char *bytes, size_t len);

/**
 * half_feed(half, bytes, len):
 * As half_put, for bytes of ${from} that were read before the half began: they count and are
 * filtered as others.  Return 0 or -1.
 */
int half_feed(struct half *half, const char *bytes, size_t len);

/**
 * half_pump(half, pool):
 * Carry what can be carried, a turn's worth.
 */
enum half_state half_pump(struct half *half, struct relay_pool *pool);

/**
 * half_end(half, pool):
 * Free what it holds; the sockets stay open.
 */
void half_end(struct half *half, struct relay_pool *pool);

/**
 * half_edges(from, to, events):
 * Note what epoll's ${events} of one socket mean for the half that reads it and the one that writes
 * to it.
 */
void half_edges(struct half *from, struct half *to, uint32_t events);

/**
 * halves_pump(one, other, pool):
 * Carry both ways between two sockets.  Return HALF_ENDED where both are to be closed, HALF_GOES_ON
 * or HALF_WAITS.
 */
enum half_state halves_pump(struct half *one, struct half *other, struct relay_pool *pool);

#endif
