/* relay.c: little is copied through a buffer, much is spliced. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/egress/relay.h"

#define BUFFER     65536
#define TURN       (16 * BUFFER) /* bytes of one half before others have their turn */
#define PIPE_SIZE  (4 * BUFFER)
#define FULL_READS 2 /* then it is much */

struct relay_pool {
	size_t n, keep;
	int pipes[][2];
};

struct relay_pool *
relay_pool_new(size_t keep)
{
	struct relay_pool *pool = calloc(1, sizeof(*pool) + keep * sizeof(pool->pipes[0]));

	if (pool != NULL)
		pool->keep = keep;
	return pool;
}

void
relay_pool_free(struct relay_pool *pool)
{
	if (pool == NULL)
		return;
	while (pool->n-- > 0) {
		close(pool->pipes[pool->n][0]);
		close(pool->pipes[pool->n][1]);
	}
	free(pool);
}

static int
pipe_take(struct relay_pool *pool, int fds[2])
{
	if (pool->n > 0) {
		memcpy(fds, pool->pipes[--pool->n], sizeof(pool->pipes[0]));
		return 0;
	}
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
		fds[0] = fds[1] = -1;
		return -1;
	}
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE); /* a smaller one does as well */
	return 0;
}

/* An empty pipe may serve again; one that has something in it is of one half alone. */
static void
pipe_give(struct relay_pool *pool, int fds[2], bool empty)
{
	if (fds[0] == -1)
		return;
	if (empty && pool->n < pool->keep) {
		memcpy(pool->pipes[pool->n++], fds, sizeof(pool->pipes[0]));
	} else {
		close(fds[0]);
		close(fds[1]);
	}
	fds[0] = fds[1] = -1;
}

void
half_begin(struct half *h, int from, int to, enum half_kind kind)
{
	memset(h, 0, sizeof(*h));
	h->from = from;
	h->to = to;
	h->kind = kind;
	h->readable = h->writable = true;
	h->pipe[0] = h->pipe[1] = -1;
}

void
half_end(struct half *h, struct relay_pool *pool)
{
	pipe_give(pool, h->pipe, h->piped == 0);
	free(h->buf);
	h->buf = NULL;
	h->off = h->len = 0;
}

int
half_put(struct half *h, const char *bytes, size_t len)
{
	char *grown;

	if (len == 0)
		return 0;
	if ((grown = realloc(h->buf, h->off + h->len + len)) == NULL)
		return -1;
	memcpy(grown + h->off + h->len, bytes, len);
	h->buf = grown;
	h->len += len;
	return 0;
}

/* Return 1 when all of it is gone, 0 where ${to} has no more room, -1 where it is gone. */
static int
buffer_flush(struct half *h)
{
	ssize_t n;

	while (h->len > 0 && h->writable) {
		if ((n = send(h->to, h->buf + h->off, h->len, MSG_NOSIGNAL)) == -1) {
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN)
				return -1;
			h->writable = false;
			break;
		}
		h->off += (size_t)n;
		h->len -= (size_t)n;
	}
	if (h->len > 0)
		return 0;
	free(h->buf);
	h->buf = NULL;
	h->off = 0;
	return 1;
}

static int
pipe_flush(struct half *h)
{
	ssize_t n;

	while (h->piped > 0 && h->writable) {
		n = splice(
		    h->pipe[0], NULL, h->to, NULL, h->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno != EAGAIN)
			return -1;
		if (n <= 0) {
			h->writable = false;
			break;
		}
		h->piped -= (size_t)n;
	}
	return h->piped == 0;
}

static int
send_or_keep(struct half *h, const char *bytes, size_t len)
{
	ssize_t n = 0;

	if (h->gone)
		return 0;
	/* Whose end is known to follow is sent with it, in one packet: the end pushes it. */
	if (h->len == 0 && h->writable && len > 0 &&
	    (n = send(h->to, bytes, len, MSG_NOSIGNAL | (h->last ? MSG_MORE : 0))) == -1) {
		if (errno != EAGAIN && errno != EINTR) {
			h->gone = true;
			return 0;
		}
		h->writable = errno == EINTR;
		n = 0;
	}
	return half_put(h, bytes + n, len - (size_t)n);
}

static int
pass_chunked(struct half *h, const char *bytes, size_t len)
{
	char written[BUFFER + CHUNK_GROWTH];
	size_t out;
	long used;

	if (h->chunk->state == CHUNK_DONE) {
		h->surplus = true;
		return 0;
	}
	if ((used = chunk_feed(h->chunk, bytes, len, written, &out)) == -1)
		return -1;
	h->surplus = (size_t)used < len;
	return send_or_keep(h, written, out);
}

/* What of ${len} bytes, at most BUFFER, belongs to the body goes on. */
static int
pass(struct half *h, const char *bytes, size_t len)
{
	size_t out = len;

	h->moved += len;
	if (h->kind == HALF_ALL)
		return send_or_keep(h, bytes, len);
	if (h->kind != HALF_SIZED)
		return pass_chunked(h, bytes, len);
	if (len > h->left) {
		h->surplus = true;
		out = (size_t)h->left;
	}
	h->left -= out;
	return send_or_keep(h, bytes, out);
}

int
half_feed(struct half *h, const char *bytes, size_t len)
{
	size_t at, n;

	for (at = 0; at < len; at += n) {
		n = len - at < BUFFER ? len - at : BUFFER;
		if (pass(h, bytes + at, n) != 0)
			return -1;
	}
	return 0;
}

/* Return 1 where something was read, 0 where there is nothing (or the end), -1 on failure. */
static int
copy_some(struct half *h)
{
	char bytes[BUFFER];
	ssize_t n = recv(h->from, bytes, sizeof(bytes), 0);

	if (n == -1) {
		if (errno == EINTR)
			return 1;
		h->readable = false;
		return errno == EAGAIN ? 0 : -1;
	}
	if (n == 0) {
		h->eof = true;
		return 0;
	}
	h->full = n == BUFFER ? h->full + 1 : 0;
	/* Less than there was room for: the next read would find nothing, and an edge will tell. */
	if (n < BUFFER && !h->last)
		h->readable = false;
	return pass(h, bytes, (size_t)n) == 0 ? 1 : -1;
}

static int
splice_some(struct half *h, struct relay_pool *pool)
{
	ssize_t n;

	if (h->pipe[0] == -1 && pipe_take(pool, h->pipe) != 0) {
		h->full = 0;
		return 1;
	}
	n = splice(h->from, NULL, h->pipe[1], NULL, PIPE_SIZE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0) {
		h->piped += (size_t)n;
		h->moved += (size_t)n;
		h->gone = pipe_flush(h) == -1;
		return 1;
	}
	if (n == 0) {
		h->eof = true;
	} else if (errno == EAGAIN) {
		h->readable = false;
		h->full = 0;
	} else if (errno != EINTR) {
		return -1;
	}
	pipe_give(pool, h->pipe, true);
	return n == -1 && errno == EINTR;
}

/* Whether the body is whole: of an answer nothing more is read then, of a request the surplus is.
 */
static bool
is_whole(const struct half *h)
{
	return h->kind == HALF_SIZED && h->left == 0 && h->keep;
}

static enum half_state
half_over(struct half *h)
{
	if (h->surplus)
		return HALF_SURPLUS;
	if (h->kind == HALF_CHUNKED && h->chunk->state != CHUNK_DONE)
		return HALF_BROKEN;
	if (h->eof && !h->shut && !h->keep)
		shutdown(h->to, SHUT_WR);
	h->shut = true;
	return HALF_ENDED;
}

enum half_state
half_pump(struct half *h, struct relay_pool *pool)
{
	uint64_t until = h->moved + TURN;
	int rc;

	for (;;) {
		if (h->shut)
			return HALF_ENDED;
		if ((rc = buffer_flush(h)) == 1)
			rc = pipe_flush(h);
		if (rc != 1 || h->gone)
			return rc == -1 || h->gone ? HALF_GONE : HALF_WAITS;
		if (h->eof || h->surplus || is_whole(h))
			return half_over(h);
		if (!h->readable)
			return HALF_WAITS;
		if (h->moved >= until)
			return HALF_GOES_ON;
		rc = h->kind == HALF_ALL && h->full >= FULL_READS ? splice_some(h, pool)
								  : copy_some(h);
		if (rc == -1)
			return HALF_BROKEN;
	}
}

void
half_edges(struct half *from, struct half *to, uint32_t events)
{
	if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
		from->readable = true;
	if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
		from->last = true;
	if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0)
		to->writable = true;
}

static bool
failed(enum half_state state)
{
	return state == HALF_BROKEN || state == HALF_GONE;
}

enum half_state
halves_pump(struct half *one, struct half *other, struct relay_pool *pool)
{
	enum half_state a, b;

	/* Whom the other half has left needs not be told of an end: it is closed. */
	one->keep = other->shut;
	a = half_pump(one, pool);
	other->keep = one->shut;
	b = half_pump(other, pool);
	if (failed(a) || failed(b) || (a == HALF_ENDED && b == HALF_ENDED))
		return HALF_ENDED;
	return a == HALF_GOES_ON || b == HALF_GOES_ON ? HALF_GOES_ON : HALF_WAITS;
}
