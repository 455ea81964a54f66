/* lines.c: cut a stream into rows. */
#include <stdlib.h>
#include <string.h>

#include "engine/worker/lines.h"

unsigned char *
lines_room(struct lines *l, size_t want)
{
	unsigned char *more;
	size_t size = l->size;

	while (size - l->used < want)
		size = size == 0 ? LINES_ROW : size * 2;
	if (size != l->size) {
		if ((more = realloc(l->buf, size)) == NULL)
			return NULL;
		l->buf = more;
		l->size = size;
	}
	return l->buf + l->used;
}

void
lines_add(struct lines *l, size_t n)
{
	l->used += n;
}

static int64_t
count(const unsigned char *data, size_t len)
{
	const unsigned char *at = data, *end = data + len;
	int64_t n = 0;

	while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		n++;
		at++;
	}
	return n;
}

/*
 * The next row of ${data}[0..${len}): its length, 0 where none is due; the lines that end in it;
 * whether its line goes on behind it.
 */
static size_t
next_row(const unsigned char *data, size_t len, bool open, bool all, bool over, int64_t *lines,
    bool *more)
{
	size_t most = len < LINES_ROW ? len : LINES_ROW;
	const unsigned char *end = open ? memchr(data, '\n', most) : memrchr(data, '\n', most);

	*more = false;
	if (end != NULL) {
		most = (size_t)(end - data) + 1;
		*lines = count(data, most);
		return most;
	}
	if (len < LINES_ROW && !all && !over)
		return 0;
	*more = !over || most < len;
	*lines = *more ? 0 : 1;
	return most;
}

int
lines_take(const struct lines *l, int64_t next, bool all, bool over, struct lines_mark *mark,
    lines_row *row, void *ctx)
{
	int64_t line, lines;
	size_t n;
	bool more;
	int rc;

	*mark = (struct lines_mark){.done = 0, .open_line = l->open_line, .next = next};
	while (mark->done < l->used && (n = next_row(l->buf + mark->done, l->used - mark->done,
					    mark->open_line != 0, all, over, &lines, &more)) > 0) {
		line = mark->open_line != 0 ? mark->open_line : mark->next;
		if ((rc = row(ctx, line, lines, more, l->buf + mark->done, n)) != 0)
			return rc;
		if (mark->open_line == 0)
			mark->next += more ? 1 : lines;
		mark->open_line = more ? line : 0;
		mark->done += n;
	}
	if (!over || mark->open_line == 0)
		return 0;
	/* All of its last line was shown already: it ends with nothing more. */
	line = mark->open_line;
	mark->open_line = 0;
	return row(ctx, line, 1, false, (const unsigned char *)"", 0);
}

void
lines_done(struct lines *l, const struct lines_mark *mark)
{
	l->used -= mark->done;
	if (l->used > 0 && mark->done > 0)
		memmove(l->buf, l->buf + mark->done, l->used);
	l->open_line = mark->open_line;
}

int64_t
lines_count(const char *text, size_t len)
{
	int64_t n = 0;
	size_t i;

	for (i = 0; i < len; i++)
		n += text[i] == '\n';
	return n + (len > 0 && text[len - 1] != '\n');
}

void
lines_free(struct lines *l)
{
	free(l->buf);
	*l = (struct lines){.buf = NULL};
}
