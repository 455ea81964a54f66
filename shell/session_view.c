/* session_view.c: the rows of a session on a terminal, or in a pipe. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/write.h"
#include "shell/session_view.h"
#include "shell/text.h"

void
session_view_remark(const struct session_view *v, const char *text, size_t len)
{
	while (len > 0 && text[len - 1] == '\n')
		len--;
	fprintf(stderr, "%sbastion: %s%s%s: ", v->raw ? "\r\n" : "", v->name,
	    v->machine != NULL ? " on " : "", v->machine != NULL ? v->machine : "");
	text_show(stderr, text, len);
	fprintf(stderr, "%s\n", v->raw ? "\r" : "");
}

/* What belongs to lines before the one that was asked for. */
static size_t
bytes_before(int64_t from, const struct session_row *row)
{
	const char *at = row->data, *end = row->data + row->len, *newline;
	int64_t line;

	for (line = row->line; line < from; line++) {
		if ((newline = memchr(at, '\n', (size_t)(end - at))) == NULL)
			return row->len;
		at = newline + 1;
	}
	return (size_t)(at - row->data);
}

int
session_view_row(struct session_view *v, const struct session_row *row)
{
	char gap[96];
	size_t skip;
	int n;

	if (row->seq != v->seq + 1) {
		n = snprintf(gap, sizeof(gap),
		    "lines %" PRId64 " to %" PRId64 " are not kept any more", v->lines + 1,
		    row->line - 1);
		session_view_remark(v, gap, (size_t)n);
	}
	v->seq = row->seq;
	v->lines = row->line + row->lines - 1;
	if (strcmp(row->kind, "note") == 0) {
		session_view_remark(v, row->data, row->len);
		return 0;
	}
	skip = bytes_before(v->from, row);
	return write_all(strcmp(row->kind, "err") == 0 ? STDERR_FILENO : STDOUT_FILENO,
	    row->data + skip, row->len - skip);
}
