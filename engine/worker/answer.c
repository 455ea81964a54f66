/* answer.c: rows in memory to JSON frames on a pipe. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "engine/worker/answer.h"
#include "engine/write.h"

/* A piece of output: escaped it grows sixfold at most, which stays below the smallest frame limit
 * that makes sense (op.frame's default is 1 MiB). */
#define PIECE_MAX 32768

static const char *const TEXT_FRAME = "SELECT json_object('o', ?1)";
static const char *const UNREADABLE = "SELECT json_object('unreadable', ?1)";
static const char *const REFUSED =
    "SELECT json_object('refused', json_object('code', ?1, 'why', ?2))";
static const char TOO_LONG[] = "{\"r\":{\"refused\":{\"code\":\"observe.answer\","
			       "\"why\":\"the answer is longer than a frame may be\"}}}\n";

struct answer {
	sqlite3 *db;
	sqlite3_stmt *rows;   /* what answer_rows ran last, or NULL */
	sqlite3_stmt *result; /* what answer_ready prepared, or NULL */
	int fd;
	size_t frame_max;
};

void
answer_limit(struct answer *a, int64_t frame_max)
{
	a->frame_max = frame_max > 0 ? (size_t)frame_max : 0;
}

struct answer *
answer_new(int fd, int64_t frame_max)
{
	struct answer *a;

	if ((a = calloc(1, sizeof(*a))) == NULL)
		return NULL;
	a->fd = fd;
	answer_limit(a, frame_max);
	if (sqlite3_open_v2(":memory:", &a->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
		NULL) != SQLITE_OK ||
	    answer_rows(a, "PRAGMA temp_store = MEMORY", "") == -1) {
		answer_free(a);
		return NULL;
	}
	return a;
}

void
answer_free(struct answer *a)
{
	if (a == NULL)
		return;
	sqlite3_finalize(a->rows);
	sqlite3_finalize(a->result);
	sqlite3_close(a->db);
	free(a);
}

/* Length of the UTF-8 sequence at ${s}, or 0 if there is none (RFC 3629). */
static size_t
utf8_len(const unsigned char *s, size_t left)
{
	size_t len, i;

	if (s[0] < 0x80)
		return s[0] != 0;
	len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4 || len > left)
		return 0;
	for (i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	/* No second spelling of a character, no surrogates, nothing behind U+10FFFF. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

ssize_t
answer_asked(struct answer *a, char *text, size_t most)
{
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < most - 1)
		if ((n = read(a->fd, text + len, most - 1 - len)) > 0)
			len += (size_t)n;
	text[len] = '\0';
	return n == 0 ? (ssize_t)len : -1;
}

int
answer_is_text(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t len = strlen(text), i, n;

	for (i = 0; i < len; i += n) {
		if ((n = utf8_len(s + i, len - i)) == 0)
			return 0;
	}
	return 1;
}

/* Copy ${len} bytes with everything that is not text replaced by U+FFFD; the caller frees it. */
static char *
clean_copy(const char *text, size_t len, size_t *outlen)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t i, n, o = 0;
	char *out;

	if ((out = malloc(len * 3 + 1)) == NULL)
		return NULL;
	for (i = 0; i < len; i += n != 0 ? n : 1) {
		n = utf8_len(s + i, len - i);
		memcpy(out + o, n != 0 ? text + i : "\xef\xbf\xbd", n != 0 ? n : 3);
		o += n != 0 ? n : 3;
	}
	out[o] = '\0';
	*outlen = o;
	return out;
}

static int
bind_text(sqlite3_stmt *q, int at, const char *text, size_t len)
{
	size_t outlen;
	char *copy;

	if ((copy = clean_copy(text, len, &outlen)) == NULL)
		return -1;
	return sqlite3_bind_text64(q, at, copy, outlen, free, SQLITE_UTF8) == SQLITE_OK ? 0 : -1;
}

/* Give ${q} its values, one for each letter of ${types}.  Return 0 or -1. */
static int
bind(sqlite3_stmt *q, const char *types, va_list ap)
{
	const char *text;
	int i, rc = 0;

	for (i = 0; types[i] != '\0' && rc == 0; i++) {
		if (types[i] == 'i')
			rc =
			    sqlite3_bind_int64(q, i + 1, va_arg(ap, int64_t)) == SQLITE_OK ? 0 : -1;
		else if ((text = va_arg(ap, const char *)) != NULL)
			rc = bind_text(q, i + 1, text, strlen(text));
	}
	return rc;
}

static sqlite3_stmt *
prepare(struct answer *a, const char *sql, const char *types, va_list ap)
{
	sqlite3_stmt *q = a->result;

	a->result = NULL;
	if (q == NULL || strcmp(sqlite3_sql(q), sql) != 0) {
		sqlite3_finalize(q);
		if (sqlite3_prepare_v2(a->db, sql, -1, &q, NULL) != SQLITE_OK)
			return NULL;
	}
	if (bind(q, types, ap) == 0)
		return q;
	sqlite3_finalize(q);
	return NULL;
}

/* Many rows in turn are one statement.  Return it, or NULL. */
static sqlite3_stmt *
rows_of(struct answer *a, const char *sql)
{
	if (a->rows != NULL && strcmp(sqlite3_sql(a->rows), sql) == 0) {
		sqlite3_clear_bindings(a->rows);
		return a->rows;
	}
	sqlite3_finalize(a->rows);
	a->rows = NULL;
	return sqlite3_prepare_v2(a->db, sql, -1, &a->rows, NULL) == SQLITE_OK ? a->rows : NULL;
}

int
answer_rows(struct answer *a, const char *sql, const char *types, ...)
{
	sqlite3_stmt *q = rows_of(a, sql);
	va_list ap;
	int rc;

	va_start(ap, types);
	rc = q != NULL ? bind(q, types, ap) : -1;
	va_end(ap);
	while (rc == 0 && sqlite3_step(q) == SQLITE_ROW)
		continue;
	return sqlite3_reset(q) == SQLITE_OK ? rc : -1;
}

int
answer_value(struct answer *a, char *out, size_t most, const char *sql, const char *types, ...)
{
	const char *text = NULL;
	sqlite3_stmt *q;
	va_list ap;

	va_start(ap, types);
	q = prepare(a, sql, types, ap);
	va_end(ap);
	if (q == NULL)
		return -1;
	if (sqlite3_step(q) == SQLITE_ROW)
		text = (const char *)sqlite3_column_text(q, 0);
	snprintf(out, most, "%s", text != NULL ? text : "");
	return sqlite3_finalize(q) == SQLITE_OK ? 0 : -1;
}

int
answer_ready(struct answer *a, const char *sql)
{
	int i;

	if (sqlite3_prepare_v2(a->db, sql, -1, &a->result, NULL) != SQLITE_OK)
		return -1;
	for (i = sqlite3_bind_parameter_count(a->result); i > 0; i--)
		sqlite3_bind_int(a->result, i, 1);
	while (sqlite3_step(a->result) == SQLITE_ROW)
		continue;
	sqlite3_clear_bindings(a->result);
	return sqlite3_reset(a->result) == SQLITE_OK ? 0 : -1;
}

/* One frame is one write where the pipe has room: open, body, close. */
static int
write_frame(struct answer *a, const char *open, const char *body, size_t len, const char *close_)
{
	size_t olen = strlen(open), clen = strlen(close_);
	char *frame;
	int rc;

	if ((frame = malloc(olen + len + clen)) == NULL)
		return -1;
	memcpy(frame, open, olen);
	memcpy(frame + olen, body, len);
	memcpy(frame + olen + len, close_, clen);
	rc = write_all(a->fd, frame, olen + len + clen);
	free(frame);
	return rc;
}

int
answer_text(struct answer *a, const char *text, size_t len)
{
	sqlite3_stmt *q;
	size_t n;
	int rc = 0;

	if (sqlite3_prepare_v2(a->db, TEXT_FRAME, -1, &q, NULL) != SQLITE_OK)
		return -1;
	for (; len > 0 && rc == 0; text += n, len -= n) {
		n = len < PIECE_MAX ? len : PIECE_MAX;
		/* Do not cut within a character. */
		while (n < len && n > PIECE_MAX - 4 && ((unsigned char)text[n] & 0xc0) == 0x80)
			n--;
		rc = bind_text(q, 1, text, n);
		if (rc == 0 && sqlite3_step(q) == SQLITE_ROW)
			rc = write_frame(a, "", (const char *)sqlite3_column_text(q, 0),
			    (size_t)sqlite3_column_bytes(q, 0), "\n");
		sqlite3_reset(q);
	}
	return sqlite3_finalize(q) == SQLITE_OK ? rc : -1;
}

/* Write what ${q} selects as the result, and finalize it.  Return 0, -1, or 1: it is too long. */
static int
send_result(struct answer *a, sqlite3_stmt *q)
{
	size_t len;
	int rc = -1;

	if (q != NULL && sqlite3_step(q) == SQLITE_ROW && sqlite3_column_text(q, 0) != NULL) {
		len = (size_t)sqlite3_column_bytes(q, 0);
		if (len + 8 <= a->frame_max)
			rc = write_frame(
			    a, "{\"r\":", (const char *)sqlite3_column_text(q, 0), len, "}\n");
		else
			rc = 1;
	}
	sqlite3_finalize(q);
	return rc;
}

int
answer_result(struct answer *a, const char *sql, const char *types, ...)
{
	va_list ap;
	int rc;

	va_start(ap, types);
	rc = send_result(a, prepare(a, sql, types, ap));
	va_end(ap);
	if (rc == 1) {
		write_all(a->fd, TOO_LONG, sizeof(TOO_LONG) - 1);
		return -1;
	}
	return rc;
}

int
answer_unreadable(struct answer *a, const char *why, int exit_code)
{
	answer_result(a, UNREADABLE, "t", why);
	return exit_code;
}

int
answer_refused(struct answer *a, const struct refusal *refusal, int exit_code)
{
	answer_result(a, REFUSED, "tt", refusal->code, refusal->why);
	return exit_code;
}
