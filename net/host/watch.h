/* watch.h: answers that are streamed as their rows are committed. */
#ifndef NET_HOST_WATCH_H
#define NET_HOST_WATCH_H

#include "net/host/net.h"

/*
 * Where the frames of an answer stand. ${frames} selects (seq, frame) of :id behind :seq, in order;
 * ${ended} selects nothing while the answer goes on, then (last seq, the text of the end), and
 * (0, NULL) where there is nothing of this number any more.
 */
struct watch_rows {
	const char *frames, *ended;
};

/**
 * watch_begin(net, x, rows, id, after, first):
 * Answer ${x} with the frames of ${id} behind the number ${after}, each a line, as they are
 * committed, and then its end.  ${first} is NULL or a line to begin with.  Whoever reads slowly is
 * waited for, and nothing is kept for him: where rows go before he has read them he sees a gap, and
 * where the one goes of which he has a part, or all there is of the answer, the stream ends without
 * its end.  ${rows} outlives it.
 */
void watch_begin(struct net *net, struct http_exchange *x, const struct watch_rows *rows,
    int64_t id, int64_t after, const char *first);

/**
 * watch_some(net, x, rows, id, after, most):
 * As watch_begin, but of those that are there now, ${most} at most: nothing is waited for.  The end
 * comes where it is known and no frame is left before it.
 */
void watch_some(struct net *net, struct http_exchange *x, const struct watch_rows *rows, int64_t id,
    int64_t after, int64_t most);

/**
 * watch_go_on(net, x, rows, id):
 * As watch_begin from the first frame on, for an answer that was begun already.
 */
void watch_go_on(
    struct net *net, struct http_exchange *x, const struct watch_rows *rows, int64_t id);

/**
 * watch_wake(net):
 * Send on what was committed since.
 */
void watch_wake(struct net *net);

#endif
