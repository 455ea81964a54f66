/* watch.c: from rows to a stream, no faster than it is read. */
#include <stdlib.h>
#include <string.h>

#include "net/host/watch.h"

/* An answer that is being streamed. */
struct watch {
	struct watch *next, **self;
	struct net *net;
	struct http_exchange *x;
	const struct watch_rows *rows;
	int64_t id, seq; /* the last frame that was sent whole */
	int64_t begun;   /* the one that is being sent; not over ${seq}: the end */
	int64_t left;    /* frames that may be sent yet */
	size_t sent;     /* bytes of what is being sent */
	bool some, paused;
};

static void
watch_free(struct watch *w)
{
	*w->self = w->next;
	if (w->next != NULL)
		w->next->self = w->self;
	free(w);
}

static void
watch_gone(void *ctx)
{
	watch_free(ctx);
}

/* Queue ${text} and a line's end, from byte w->sent on; the latter waits for nobody, so that a
 * frame of one piece is never half there.  Return whether all of it is queued. */
static bool
watch_line(struct watch *w, const char *text)
{
	size_t len = strlen(text), n;
	ssize_t queued;

	while (w->sent == len || (!w->paused && w->sent < len)) {
		n = w->sent == len ? 1 : len - w->sent;
		n = n < w->net->stream_bytes ? n : w->net->stream_bytes;
		queued = http_stream_write(w->x, w->sent == len ? "\n" : text + w->sent, n);
		if (queued == -1)
			return false;
		w->sent += n;
		w->paused = (size_t)queued > w->net->stream_bytes;
	}
	return w->sent > len;
}

/*
 * Read the end before the frames: then none can come between them.  Without rows any more, there is
 * none: ${*gone}.
 */
static bool
watch_ended(struct watch *w, int64_t *last, char **end, bool *gone)
{
	struct stmt *q;

	if ((q = store_sql(w->net->env->db, w->rows->ended)) == NULL)
		return false;
	stmt_int(q, ":id", w->id);
	if (stmt_step(q) != 1)
		return false;
	*last = stmt_get_int(q, 0);
	*gone = stmt_is_null(q, 1);
	*end = *gone ? NULL : strdup(stmt_get_text(q, 1));
	stmt_done(q);
	return *end != NULL;
}

/*
 * Return whether all that is there, or may be sent, was sent.  Rows may go while one is half sent,
 * the oldest first, where a reader is slow: another's bytes must not stand behind that half.
 * ${*gone}: that is so.
 */
static bool
watch_frames(struct watch *w, bool *gone)
{
	bool half = w->begun > w->seq && w->sent > 0;
	struct stmt *q;
	int n = 1;

	if (w->left == 0)
		return true;
	if ((q = store_sql(w->net->env->db, w->rows->frames)) == NULL)
		return false;
	stmt_int(q, ":id", w->id);
	stmt_int(q, ":seq", w->seq);
	while (w->left > 0 && (n = stmt_step(q)) == 1) {
		if (half && stmt_get_int(q, 0) != w->begun)
			break;
		half = false;
		w->begun = stmt_get_int(q, 0);
		if (!watch_line(w, stmt_get_text(q, 1)))
			break;
		w->seq = w->begun;
		w->sent = 0;
		w->left--;
	}
	if (n == 1)
		stmt_done(q);
	*gone |= half && n != -1;
	return n == 0 || w->left == 0;
}

static void
watch_send(struct watch *w)
{
	int64_t last = 0;
	char *end = NULL;
	bool over, gone = false;
	bool ended = watch_ended(w, &last, &end, &gone), all = watch_frames(w, &gone);

	/* Without an exit: whoever reads asks again behind the last line that he has whole. */
	over = ended && (w->seq >= last || (all && w->left > 0));
	if (gone || (over ? watch_line(w, end) : w->some && all)) {
		http_stream_end(w->x);
		watch_free(w);
	}
	free(end);
}

static void
watch_drained(void *ctx)
{
	struct watch *w = ctx;

	w->paused = false;
	watch_send(w);
}

static struct watch *
watch_new(struct net *net, struct http_exchange *x, const struct watch_rows *rows, int64_t id,
    int64_t after)
{
	struct watch *w;

	if ((w = calloc(1, sizeof(*w))) == NULL)
		return NULL;
	*w = (struct watch){.net = net,
	    .x = x,
	    .rows = rows,
	    .id = id,
	    .seq = after,
	    .left = INT64_MAX,
	    .next = net->watches};
	w->self = &net->watches;
	if (w->next != NULL)
		w->next->self = &w->next;
	net->watches = w;
	http_on_close(x, watch_gone, w);
	http_stream_on_drain(x, watch_drained, w);
	return w;
}

void
watch_begin(struct net *net, struct http_exchange *x, const struct watch_rows *rows, int64_t id,
    int64_t after, const char *first)
{
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	struct watch *w;

	if ((w = watch_new(net, x, rows, id, after)) == NULL) {
		net_refuse(net, x, &r, NULL);
		return;
	}
	if (http_stream_begin(x, 200, "application/x-ndjson") != 0)
		return;
	if (first != NULL)
		http_stream_write(x, first, strlen(first));
	watch_send(w);
}

void
watch_some(struct net *net, struct http_exchange *x, const struct watch_rows *rows, int64_t id,
    int64_t after, int64_t most)
{
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	struct watch *w;

	if ((w = watch_new(net, x, rows, id, after)) == NULL) {
		net_refuse(net, x, &r, NULL);
		return;
	}
	w->some = true;
	w->left = most;
	if (http_stream_begin(x, 200, "application/x-ndjson") == 0)
		watch_send(w);
}

void
watch_go_on(struct net *net, struct http_exchange *x, const struct watch_rows *rows, int64_t id)
{
	struct watch *w;

	if ((w = watch_new(net, x, rows, id, 0)) == NULL)
		http_stream_end(x);
	else
		watch_send(w);
}

void
watch_wake(struct net *net)
{
	struct watch *w, *next;

	for (w = net->watches; w != NULL; w = next) {
		next = w->next;
		if (!w->paused)
			watch_send(w);
	}
}
