/* mcp_feed.h: what one MCP session is sent over HTTP: server-sent events that can be read again. */
#ifndef NET_HOST_MCP_FEED_H
#define NET_HOST_MCP_FEED_H

#include <stdbool.h>
#include <stddef.h>

#include "net/http/server.h"

/*
 * The newest messages of a session, each with the stream that it belongs to (MCP 2025-11-25,
 * transports: resumability).  The id of an event is STREAM-NUMBER; numbers grow over the session. A
 * reader takes them at its own pace and nothing is queued for it beyond that: one that falls behind
 * what is kept is cut off.  A reader that has gone may come back with the last id that it saw.
 */
struct feed;
struct feed_stream;

/**
 * feed_new(events, bytes, chunk):
 * Keep at most ${events} messages of ${bytes} together, but the newest in any case; write at most
 * ${chunk} bytes at once.  Return NULL without memory.
 */
struct feed *feed_new(size_t events, size_t bytes, size_t chunk);

/**
 * feed_free(feed):
 * End every stream.  ${feed} may be NULL.
 */
void feed_free(struct feed *feed);

/**
 * feed_begin(feed, x, prime):
 * Answer ${x} with a new stream; with ${prime} its first event is empty, so that the reader has an
 * id to come back with.  Return the stream, which lives until its last message was put, whether
 * anybody reads it or not; or NULL without memory, with ${x} not answered.
 */
struct feed_stream *feed_begin(struct feed *feed, struct http_exchange *x, bool prime);

/**
 * feed_listen(feed, x):
 * Answer ${x} with the stream of messages that no request asked for; whoever read it before is cut
 * off.  Return 0, or -1 without memory.
 */
int feed_listen(struct feed *feed, struct http_exchange *x);

/**
 * feed_resume(feed, x, last):
 * Answer ${x} with what follows the event ${last} in its stream.  Return 0; or -1 with ${x} not
 * answered, where ${last} is no id of ours or what follows it is not kept any more.
 */
int feed_resume(struct feed *feed, struct http_exchange *x, const char *last);

/**
 * feed_put(feed, stream, text, len, last):
 * Put a message into ${stream}, or NULL for that of feed_listen; ${text} is NULL for none.
 * ${last}: ${stream} ends behind it and is not to be used any more.
 */
void feed_put(
    struct feed *feed, struct feed_stream *stream, const char *text, size_t len, bool last);

/**
 * feed_beat(feed):
 * Send a comment to whoever reads, so that one who has gone is noticed.
 */
void feed_beat(struct feed *feed);

/**
 * feed_is_read(feed):
 * Return whether anybody reads a stream now.
 */
bool feed_is_read(const struct feed *feed);

#endif
