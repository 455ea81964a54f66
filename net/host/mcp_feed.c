/* mcp_feed.c: a ring of events, and streams over it. */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/host/mcp_feed.h"

#define ALONE 0 /* the stream of feed_listen */

struct event {
	struct event *next;
	uint64_t stream, seq;
	size_t len;
	char text[]; /* as it is sent */
};

struct feed_stream {
	struct feed_stream *next, **self;
	struct feed *feed;
	struct http_exchange *x; /* NULL: nobody reads */
	uint64_t id, seq;        /* the next event to send has at least this number */
	size_t sent;             /* bytes of it */
	bool paused, over;       /* over: nothing more will be put */
};

struct feed {
	struct event *first, **last;
	struct feed_stream *streams;
	size_t n, bytes, n_max, bytes_max, chunk;
	uint64_t seq, streams_made;
	uint64_t lost; /* the newest number that is not kept any more */
};

static void
stream_free(struct feed_stream *s)
{
	*s->self = s->next;
	if (s->next != NULL)
		s->next->self = s->self;
	free(s);
}

/* Its reader has what there was, or was cut off. */
static void
stream_hang_up(struct feed_stream *s)
{
	struct http_exchange *x = s->x;

	s->x = NULL;
	s->paused = false;
	if (s->over)
		stream_free(s);
	if (x != NULL)
		http_stream_end(x);
}

/* Its reader has gone. */
static void
stream_left(void *ctx)
{
	struct feed_stream *s = ctx;

	s->x = NULL;
	s->paused = false;
	if (s->over)
		stream_free(s);
}

static struct event *
event_after(const struct feed_stream *s)
{
	struct event *e;

	for (e = s->feed->first; e != NULL; e = e->next)
		if (e->stream == s->id && e->seq >= s->seq)
			return e;
	return NULL;
}

/* Send on, no faster than it is read. */
static void
stream_send(struct feed_stream *s)
{
	struct event *e;
	ssize_t queued;
	size_t n;

	while (s->x != NULL && !s->paused && (e = event_after(s)) != NULL) {
		n = e->len - s->sent < s->feed->chunk ? e->len - s->sent : s->feed->chunk;
		if ((queued = http_stream_write(s->x, e->text + s->sent, n)) == -1)
			return;
		s->paused = (size_t)queued > s->feed->chunk;
		if ((s->sent += n) < e->len)
			continue;
		s->seq = e->seq + 1;
		s->sent = 0;
	}
	if (s->over && (s->x == NULL || event_after(s) == NULL))
		stream_hang_up(s);
}

static void
stream_drained(void *ctx)
{
	struct feed_stream *s = ctx;

	s->paused = false;
	stream_send(s);
}

static struct feed_stream *
stream_new(struct feed *feed, uint64_t id)
{
	struct feed_stream *s;

	if ((s = calloc(1, sizeof(*s))) == NULL)
		return NULL;
	s->feed = feed;
	s->id = id;
	s->seq = feed->seq + 1;
	s->self = &feed->streams;
	if ((s->next = feed->streams) != NULL)
		s->next->self = &s->next;
	feed->streams = s;
	return s;
}

static struct feed_stream *
stream_find(const struct feed *feed, uint64_t id)
{
	struct feed_stream *s;

	for (s = feed->streams; s != NULL && s->id != id; s = s->next)
		;
	return s;
}

/* Have ${x} read ${s} from number ${seq} on, in the place of whoever did. */
static void
stream_read(struct feed_stream *s, struct http_exchange *x, uint64_t seq)
{
	if (s->x != NULL)
		http_stream_end(s->x);
	s->x = x;
	s->seq = seq;
	s->sent = 0;
	s->paused = false;
	http_on_close(x, stream_left, s);
	http_stream_on_drain(x, stream_drained, s);
	if (http_stream_begin(x, 200, "text/event-stream") == 0)
		stream_send(s);
}

/* The oldest event goes; whoever had not read it yet cannot go on. */
static void
event_drop(struct feed *feed)
{
	struct event *e = feed->first;
	struct feed_stream *s, *next;

	if ((feed->first = e->next) == NULL)
		feed->last = &feed->first;
	feed->n--;
	feed->bytes -= e->len;
	feed->lost = e->seq;
	for (s = feed->streams; s != NULL; s = next) {
		next = s->next;
		if (s->x != NULL && s->id == e->stream && s->seq <= e->seq)
			stream_hang_up(s);
	}
	free(e);
}

static void
event_add(struct feed *feed, uint64_t stream, const char *text, size_t len)
{
	struct event *e;
	int n;

	if ((e = malloc(sizeof(*e) + len + 64)) == NULL)
		return;
	*e = (struct event){.stream = stream, .seq = ++feed->seq};
	n = sprintf(e->text, "id: %" PRIu64 "-%" PRIu64 "\ndata: ", stream, e->seq);
	memcpy(e->text + n, text, len);
	memcpy(e->text + n + len, "\n\n", 2);
	e->len = (size_t)n + len + 2;
	*feed->last = e;
	feed->last = &e->next;
	feed->n++;
	feed->bytes += e->len;
	while (feed->first != e && (feed->n > feed->n_max || feed->bytes > feed->bytes_max))
		event_drop(feed);
}

struct feed *
feed_new(size_t events, size_t bytes, size_t chunk)
{
	struct feed *feed;

	if ((feed = calloc(1, sizeof(*feed))) == NULL)
		return NULL;
	feed->last = &feed->first;
	feed->n_max = events;
	feed->bytes_max = bytes;
	feed->chunk = chunk;
	return feed;
}

void
feed_free(struct feed *feed)
{
	struct event *e;

	if (feed == NULL)
		return;
	while (feed->streams != NULL) {
		feed->streams->over = true;
		stream_hang_up(feed->streams);
	}
	while ((e = feed->first) != NULL) {
		feed->first = e->next;
		free(e);
	}
	free(feed);
}

struct feed_stream *
feed_begin(struct feed *feed, struct http_exchange *x, bool prime)
{
	struct feed_stream *s;

	if ((s = stream_new(feed, ++feed->streams_made)) == NULL)
		return NULL;
	if (prime)
		event_add(feed, s->id, "", 0);
	stream_read(s, x, s->seq);
	return s;
}

int
feed_listen(struct feed *feed, struct http_exchange *x)
{
	struct feed_stream *s = stream_find(feed, ALONE);

	if (s == NULL && (s = stream_new(feed, ALONE)) == NULL)
		return -1;
	stream_read(s, x, s->seq);
	return 0;
}

/* "3-17": the stream and the number.  Return 0 or -1. */
static int
id_read(const char *text, uint64_t *stream, uint64_t *seq)
{
	char *end;

	if (text[0] == '\0' || text[strspn(text, "0123456789-")] != '\0' || text[0] == '-')
		return -1;
	errno = 0;
	*stream = strtoull(text, &end, 10);
	if (*end != '-' || end[1] < '0' || end[1] > '9')
		return -1;
	*seq = strtoull(end + 1, &end, 10);
	return *end == '\0' && errno == 0 ? 0 : -1;
}

int
feed_resume(struct feed *feed, struct http_exchange *x, const char *last)
{
	struct feed_stream *s;
	uint64_t id, seq;

	if (id_read(last, &id, &seq) != 0 || id > feed->streams_made || seq > feed->seq ||
	    feed->lost > seq)
		return -1;
	if ((s = stream_find(feed, id)) == NULL) {
		if ((s = stream_new(feed, id)) == NULL)
			return -1;
		s->over = id != ALONE;
	}
	stream_read(s, x, seq + 1);
	return 0;
}

void
feed_put(struct feed *feed, struct feed_stream *s, const char *text, size_t len, bool last)
{
	if (text != NULL)
		event_add(feed, s == NULL ? ALONE : s->id, text, len);
	if (s == NULL && (s = stream_find(feed, ALONE)) == NULL)
		return;
	s->over = s->over || last;
	stream_send(s);
}

void
feed_beat(struct feed *feed)
{
	struct feed_stream *s;

	for (s = feed->streams; s != NULL; s = s->next)
		if (s->x != NULL && !s->paused && s->sent == 0)
			(void)http_stream_write(s->x, ": \n\n", 4);
}

bool
feed_is_read(const struct feed *feed)
{
	const struct feed_stream *s;

	for (s = feed->streams; s != NULL; s = s->next)
		if (s->x != NULL)
			return true;
	return false;
}
