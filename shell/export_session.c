/* export_session.c: a session's rows as text, JSON lines or a cast. */
#include <inttypes.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/export_session.h"
#include "shell/text.h"

static const char ROWS[] =
    "SELECT o.kind, o.line, o.lines, o.attempt, o.at, o.data, o.more, o.at - s.started_at, s.cols,"
    "  s.rows, s.started_at / 1000, s.name"
    "  FROM session AS s JOIN session_output AS o ON o.session_id = s.id"
    " WHERE s.id = :id ORDER BY o.seq";

/* A character may be cut by the end of a row: its beginning waits here for the rest. */
struct cast {
	char held[4 + 131072];
	size_t nheld;
	int begun;
};

static int
is_utf8(const char *data, size_t len)
{
	const char *end = data + len;
	int32_t rune;

	while (data < end) {
		data += text_next(data, end, &rune);
		if (rune < 0)
			return 0;
	}
	return 1;
}

static int
base64(const char *data, size_t len)
{
	size_t size = sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL);
	char *text = malloc(size);

	if (text == NULL)
		return -1;
	sodium_bin2base64(
	    text, size, (const unsigned char *)data, len, sodium_base64_VARIANT_ORIGINAL);
	printf("\"base64\":\"%s\"", text);
	free(text);
	return 0;
}

static int
jsonl(struct stmt *q, const char *data, size_t len)
{
	char at[TEXT_TIME_MAX];
	int rc = 0;

	text_time(stmt_get_int(q, 4), true, at);
	printf("{\"line\":%" PRId64 ",\"lines\":%" PRId64 ",\"more\":%s,\"kind\":\"%s\","
	       "\"attempt\":%" PRId64 ",\"at\":\"%s\",",
	    stmt_get_int(q, 1), stmt_get_int(q, 2), stmt_get_int(q, 6) == 1 ? "true" : "false",
	    stmt_get_text(q, 0), stmt_get_int(q, 3), at);
	if (is_utf8(data, len)) {
		fputs("\"text\":", stdout);
		text_json(stdout, data, len);
	} else {
		rc = base64(data, len);
	}
	puts("}");
	return rc;
}

/* How many bytes at the end of ${s} begin a character that is not whole. */
static size_t
cut(const char *s, size_t len)
{
	size_t back, need;
	unsigned char c;

	for (back = 1; back <= 3 && back <= len; back++) {
		c = (unsigned char)s[len - back];
		if ((c & 0xc0) == 0x80)
			continue;
		need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
		return need > back ? back : 0;
	}
	return 0;
}

static void
cast_begin(struct cast *c, struct stmt *q)
{
	const char *name = stmt_get_text(q, 11);

	printf("{\"version\":2,\"width\":%" PRId64 ",\"height\":%" PRId64 ",\"timestamp\":%" PRId64
	       ",\"title\":",
	    stmt_get_int(q, 8), stmt_get_int(q, 9), stmt_get_int(q, 10));
	text_json(stdout, name, strlen(name));
	puts("}");
	c->begun = 1;
}

/* Without a terminal a line's end is what a terminal would have made of it. */
static void
cast_lines(const char *s, size_t len)
{
	char *wide = malloc(2 * len + 1);
	size_t i, n = 0;

	if (wide == NULL)
		return;
	for (i = 0; i < len; i++) {
		if (s[i] == '\n')
			wide[n++] = '\r';
		wide[n++] = s[i];
	}
	text_json(stdout, wide, n);
	free(wide);
}

static void
cast_row(struct cast *c, struct stmt *q, const char *data, size_t len)
{
	int lines = strcmp(stmt_get_text(q, 0), "tty") != 0;
	int64_t ms = stmt_get_int(q, 7);
	size_t rest;

	if (!c->begun)
		cast_begin(c, q);
	memcpy(c->held + c->nheld, data, len);
	len += c->nheld;
	rest = cut(c->held, len);
	printf("[%" PRId64 ".%03" PRId64 ",\"o\",", ms / 1000, ms % 1000);
	if (lines)
		cast_lines(c->held, len - rest);
	else
		text_json(stdout, c->held, len - rest);
	puts("]");
	memmove(c->held, c->held + len - rest, rest);
	c->nheld = rest;
}

int
session_export(struct cli *cli, int64_t id, enum session_form form)
{
	static struct cast cast;
	struct stmt *q;
	const char *data;
	size_t len;
	int n, rc = 0;

	if ((q = store_sql(cli->db, ROWS)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	cast.begun = 0;
	cast.nheld = 0;
	while (rc == 0 && (n = stmt_step(q)) == 1) {
		len = (size_t)sqlite3_column_bytes(stmt_handle(q), 5);
		data = sqlite3_column_blob(stmt_handle(q), 5);
		if (form == SESSION_JSONL)
			rc = jsonl(q, data, len);
		else if (form == SESSION_CAST)
			cast_row(&cast, q, data, len);
		else if (strcmp(stmt_get_text(q, 0), "out") == 0 ||
			 strcmp(stmt_get_text(q, 0), "tty") == 0)
			fwrite(data, 1, len, stdout);
	}
	if (rc != 0) {
		stmt_done(q);
		return refusal_set(store_refusal(cli->db), "store.failed", "out of memory");
	}
	return n;
}
