/* pump.c: lines out of a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/redact.h"
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

/*
 * Output of a program.
 */

#define TEXT_HEAD "{\"o\":\""
#define TEXT_TAIL "\"}"
#define TEXT_ONE  6 /* bytes that one character comes to at most */

int
pump_init_text(
    struct pump *p, int fd, int64_t frame_max, int64_t total_max, pump_frame *frame, void *ctx)
{
	if (frame_max < 64 || pump_init(p, fd, frame_max, total_max, frame, ctx) == -1)
		return -1;
	p->text = 1;
	return 0;
}

/* Return the length of the character at ${s}: 0 if its end has not come, -1 if it is none. */
static int
character(const unsigned char *s, size_t len)
{
	static const unsigned char least[] = {0, 0, 0, 0xa0, 0x90};
	int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : 4;
	int i;

	if (n == 4 && (s[0] < 0xf0 || s[0] > 0xf4))
		return -1;
	for (i = 1; i < n; i++) {
		if ((size_t)i == len)
			return 0;
		if ((s[i] & 0xc0) != 0x80)
			return -1;
		/* Longer than it need be, half of a pair, or past the last (RFC 3629 §3). */
		if (i == 1 && (((s[0] & 0x0f) == 0 && n > 2 && s[1] < least[n]) ||
				  (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f)))
			return -1;
	}
	return n;
}

/* Write the character of ${n} bytes at ${s} as part of a JSON string.  Return its length there. */
static size_t
escape(char *out, const char *s, int n)
{
	if (n == -1) {
		memcpy(out, "\xef\xbf\xbd", 3);
		return 3;
	}
	if (n > 1) {
		memcpy(out, s, (size_t)n);
		return (size_t)n;
	}
	if (*s == '"' || *s == '\\') {
		out[0] = '\\';
		out[1] = *s;
		return 2;
	}
	if (*s == '\n') {
		memcpy(out, "\\n", 2);
		return 2;
	}
	if ((unsigned char)*s < 0x20 || *s == 0x7f)
		return (size_t)snprintf(out, TEXT_ONE + 1, "\\u%04x", (unsigned)*s);
	out[0] = *s;
	return 1;
}

void
pump_string(FILE *out, const char *text, size_t len)
{
	char one[TEXT_ONE + 1] = "";
	size_t k;
	int n;

	for (; len > 0; text += n, len -= (size_t)n) {
		/* One whose end does not come is none. */
		n = character((const unsigned char *)text, len);
		n = n == 0 ? -1 : n;
		k = escape(one, text, n);
		fwrite(one, 1, k, out);
		n = n == -1 ? 1 : n;
	}
}

/* Hand out what was gathered for a frame. */
static int
flush_text(struct pump *p)
{
	if (p->used <= sizeof(TEXT_HEAD) - 1)
		return 0;
	memcpy(p->buf + p->used, TEXT_TAIL, sizeof(TEXT_TAIL) - 1);
	p->used += sizeof(TEXT_TAIL) - 1;
	return finish(p);
}

static int
room_for_text(struct pump *p)
{
	if (p->buf != NULL)
		return 0;
	p->cap = p->frame_max + TEXT_ONE + 1;
	return (p->buf = malloc(p->cap)) != NULL ? 0 : -1;
}

static int
put_character(struct pump *p, const char *s, int n)
{
	if (p->used == 0) {
		memcpy(p->buf, TEXT_HEAD, sizeof(TEXT_HEAD) - 1);
		p->used = sizeof(TEXT_HEAD) - 1;
	}
	p->used += escape(p->buf + p->used, s, n);
	if (p->used + TEXT_ONE + sizeof(TEXT_TAIL) <= p->frame_max)
		return 0;
	return flush_text(p);
}

/* Take what was kept of a character, with what has come since. */
static int
take_tail(struct pump *p, const char **data, size_t *len)
{
	int n;

	while (p->tail_len > 0 && *len > 0) {
		p->tail[p->tail_len++] = *(*data)++;
		--*len;
		if ((n = character((const unsigned char *)p->tail, p->tail_len)) == 0)
			continue;
		if (n != -1) {
			p->tail_len = 0;
			return put_character(p, p->tail, n);
		}
		/* What was kept is none; what came is looked at again. */
		p->tail_len = 0;
		--*data;
		++*len;
		return put_character(p, p->tail, -1);
	}
	return 0;
}

static int
take_text(struct pump *p, const char *data, size_t len)
{
	int n;

	if (room_for_text(p) == -1 || take_tail(p, &data, &len) == -1)
		return -1;
	while (len > 0 && !p->full) {
		if ((n = character((const unsigned char *)data, len)) == 0) {
			memcpy(p->tail, data, len);
			p->tail_len = len;
			len = 0;
			break;
		}
		if (put_character(p, data, n) == -1)
			return -1;
		n = n > 0 ? n : 1;
		data += n;
		len -= (size_t)n;
	}
	p->dropped += (int64_t)len;
	return flush_text(p);
}

/* A character whose end never came. */
static int
end_text(struct pump *p)
{
	if (p->tail_len == 0 || p->full)
		return 0;
	p->tail_len = 0;
	return put_character(p, p->tail, -1) == -1 ? -1 : flush_text(p);
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

/* Take what came, or, where nothing more does (${data} is NULL), what was held back, without what
 * is to be struck out. */
static int
take_struck(struct pump *p, const char *data, size_t len)
{
	char *clean = malloc(len + redact_held(p->redact) + 1);
	int rc;

	if (clean == NULL)
		return -1;
	len =
	    data != NULL ? redact_feed(p->redact, data, len, clean) : redact_end(p->redact, clean);
	rc = take_text(p, clean, len);
	free(clean);
	return rc;
}

static int
take_any(struct pump *p, const char *data, size_t len)
{
	if (!p->text)
		return take(p, data, len);
	return p->redact != NULL ? take_struck(p, data, len) : take_text(p, data, len);
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
		if (n == 0) {
			if (p->redact != NULL && take_struck(p, NULL, 0) == -1)
				return -1;
			return p->text && end_text(p) == -1 ? -1 : at_end(p);
		}
		if (take_any(p, buf, (size_t)n) == -1)
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
