/* pump.c: lines out of a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/pump.h"

int
pump_init(
    struct pump *p, int fd, int64_t frame_max, int64_t total_max, pump_frame *frame, void *ctx)
{
	int flags;

	memset(p, 0, sizeof(*p));
	p->fd = fd;
	p->frame_max = (size_t)frame_max;
	p->total_left = total_max;
	p->frame = frame;
	p->ctx = ctx;
	if (frame_max <= 0 || total_max <= 0 || (flags = fcntl(fd, F_GETFL)) == -1)
		return -1;
	return fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int
say_cut(struct pump *p, const char *what, int64_t bytes)
{
	char frame[96];
	int n;

	n = snprintf(frame, sizeof(frame), "{\"cut\":{\"what\":\"%s\",\"bytes\":%lld}}", what,
	    (long long)bytes);
	return p->frame(p->ctx, frame, (size_t)n) != 0 ? -1 : 0;
}

/* Keep ${len} more bytes of the frame that is coming. */
static int
keep(struct pump *p, const char *data, size_t len)
{
	size_t cap = p->cap != 0 ? p->cap : 4096;
	char *bigger;

	if (p->skipped > 0 || p->used + len > p->frame_max) {
		p->skipped += (int64_t)(len + p->used);
		p->used = 0;
		return 0;
	}
	while (cap < p->used + len)
		cap *= 2;
	if (cap != p->cap) {
		if ((bigger = realloc(p->buf, cap)) == NULL)
			return -1;
		p->buf = bigger;
		p->cap = cap;
	}
	if (len > 0)
		memcpy(p->buf + p->used, data, len);
	p->used += len;
	return 0;
}

/* A newline came: hand the frame out. */
static int
finish(struct pump *p)
{
	int64_t skipped = p->skipped;
	size_t used = p->used;

	p->skipped = 0;
	p->used = 0;
	if (skipped > 0)
		return say_cut(p, "frame", skipped);
	if (used == 0)
		return 0;
	if ((int64_t)used > p->total_left) {
		p->full = 1;
		p->dropped += (int64_t)used;
		return 0;
	}
	p->total_left -= (int64_t)used;
	return p->frame(p->ctx, p->buf, used) != 0 ? -1 : 0;
}

static int
take(struct pump *p, const char *data, size_t len)
{
	const char *end;
	size_t n;

	while (len > 0) {
		if (p->full) {
			p->dropped += (int64_t)len;
			return 0;
		}
		end = memchr(data, '\n', len);
		n = end != NULL ? (size_t)(end - data) : len;
		if (keep(p, data, n) == -1)
			return -1;
		if (end == NULL)
			return 0;
		if (finish(p) == -1)
			return -1;
		data += n + 1;
		len -= n + 1;
	}
	return 0;
}

static int
at_end(struct pump *p)
{
	int64_t rest = p->skipped + (int64_t)p->used, dropped = p->dropped;

	p->skipped = 0;
	p->used = 0;
	p->dropped = 0;
	if (rest > 0 && say_cut(p, "end", rest) == -1)
		return -1;
	return dropped > 0 ? say_cut(p, "answer", dropped) : 0;
}

int
pump_read(struct pump *p)
{
	char buf[65536];
	ssize_t n;

	for (;;) {
		if ((n = read(p->fd, buf, sizeof(buf))) == -1) {
			if (errno == EINTR)
				continue;
			return errno == EAGAIN ? 1 : -1;
		}
		if (n == 0)
			return at_end(p);
		if (take(p, buf, (size_t)n) == -1)
			return -1;
		/* Others wait for their turn too. */
		if ((size_t)n < sizeof(buf))
			return 1;
	}
}

void
pump_free(struct pump *p)
{
	free(p->buf);
	p->buf = NULL;
}
