/* sql.c: run, time, and show a person's statements. */
#include <ctype.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/sql.h"
#include "shell/sql_clock.h"
#include "shell/sql_dot.h"
#include "shell/sql_file.h"
#include "shell/sql_query.h"
#include "shell/table.h"
#include "shell/text.h"

#define BLANKS " \t\r\n\f\v"

/* What a query may take: room for the longest frame in hexadecimal, and for sorting many of them.
 */
#define VALUE_BYTES (64 * 1024 * 1024)
#define HEAP_BYTES  (512 * 1024 * 1024)

const char *
sql_start(const char *p)
{
	const char *end;

	for (;;) {
		p += strspn(p, BLANKS ";");
		if (strncmp(p, "--", 2) == 0) {
			p += strcspn(p, "\n");
		} else if (strncmp(p, "/*", 2) == 0) {
			end = strstr(p + 2, "*/");
			p = end == NULL ? p + strlen(p) : end + 2;
		} else {
			return p;
		}
	}
}

/* What is refused, by its first word where that says it. */
static int
refuse_write(struct sql *s, const char *statement)
{
	const char *message = sqlite3_errmsg(store_handle(s->db));
	const char *p = sql_start(statement);
	char word[16];
	size_t n;

	for (n = 0; n + 1 < sizeof(word) && isalpha((unsigned char)p[n]); n++)
		word[n] = (char)toupper((unsigned char)p[n]);
	word[n] = '\0';
	if (strcmp(word, "SELECT") == 0 || strcmp(word, "WITH") == 0)
		return refusal_set(s->refusal, "sql.refused",
		    "this connection only reads, and the statement does more: %s", message);
	return refusal_set(
	    s->refusal, "sql.refused", "this connection only reads, and %s is not for it", word);
}

/* Where in the text an offset is, as a person counts: lines and characters from 1. */
static void
place(const char *text, size_t offset, int *line, int *column)
{
	const char *p = text, *end = text + offset;
	int32_t rune;

	*line = *column = 1;
	while (p < end) {
		(*column)++;
		if (*p == '\n') {
			(*line)++;
			*column = 1;
		}
		p += text_next(p, end, &rune);
	}
}

static int
refuse_error(struct sql *s, const char *text, const char *statement)
{
	sqlite3 *handle = store_handle(s->db);
	int offset = sqlite3_error_offset(handle), line, column;

	if (offset < 0)
		return refusal_set(s->refusal, "sql.error", "%s", sqlite3_errmsg(handle));
	place(text, (size_t)(statement - text) + (size_t)offset, &line, &column);
	return refusal_set(s->refusal, "sql.error", "%s (line %d, column %d)",
	    sqlite3_errmsg(handle), line, column);
}

static int
refuse_size(struct sql *s, const char *what)
{
	return refusal_set(s->refusal, "sql.interrupted", "the query made %s", what);
}

/* ${text} is all that was given, for the place of a fault in it. */
static int
failed(struct sql *s, int rc, const char *text, const char *statement)
{
	const char *message = sqlite3_errmsg(store_handle(s->db));

	switch (rc & 0xff) {
	case SQLITE_AUTH:
	case SQLITE_READONLY:
		return refuse_write(s, statement);
	case SQLITE_INTERRUPT:
		if (!s->expired)
			return refusal_set(
			    s->refusal, "sql.interrupted", "the query was interrupted");
		return refusal_set(s->refusal, "sql.timeout", "the query took longer than %.1f s",
		    (double)s->limit_ms / 1000);
	case SQLITE_TOOBIG:
		return refuse_size(s, "a value of more than 64 MB");
	case SQLITE_NOMEM:
		return refuse_size(s, "more than 512 MB of memory necessary");
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return refusal_set(s->refusal, "store.busy", "the database answered: %s", message);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return refusal_set(
		    s->refusal, "store.corrupt", "the database answered: %s", message);
	case SQLITE_IOERR:
		return refusal_set(
		    s->refusal, "store.failed", "the database answered: %s", message);
	default:
		/* Some of what is held comes as a plain error, and only its words tell. */
		if (strncmp(message, "not authorized", 14) == 0 ||
		    strstr(message, "may not be modified") != NULL)
			return refuse_write(s, statement);
		return refuse_error(s, text, statement);
	}
}

int
sql_failed(struct sql *s, int rc, const char *sql)
{
	return failed(s, rc, sql, sql);
}

/* What is refused is the statement, not what stands behind it in the same script. */
static int
prepare(struct sql *s, const char *text, const char *at, const char **tail, sqlite3_stmt **stmt)
{
	int rc = sqlite3_prepare_v2(store_handle(s->db), at, -1, stmt, tail);

	if (rc != SQLITE_OK)
		return failed(s, rc, text, at);
	if (*stmt == NULL)
		return 0;
	if (store_shows(s->db, sqlite3_sql(*stmt)) != 0)
		refusal_set(s->refusal, "sql.refused", "%s", store_refusal(s->db)->why);
	else if (sql_bind(s, *stmt) == 0)
		return 0;
	sqlite3_finalize(*stmt);
	*stmt = NULL;
	return -1;
}

int
sql_prepare(struct sql *s, const char *sql, const char **tail, sqlite3_stmt **stmt)
{
	return prepare(s, sql, sql, tail, stmt);
}

void
sql_style(const struct sql *s, struct table_style *style)
{
	table_style(s->mode, style);
	style->times = s->times;
	style->raw = true;
	style->null = "NULL";
	style->quiet = s->talks && table_for_people(s->mode);
	style->downwards = !s->talks;
	style->hint =
	    s->talks ? ".mode line shows all of a row" : "all of it: --json, or a wider terminal";
	if (!s->to_file)
		return;
	style->width = 0;
	style->colour = style->shown = false;
}

/* Return the last code of SQLite; SQLITE_DONE also when nobody takes the output any more. */
static int
show_rows(struct sql *s, sqlite3_stmt *stmt)
{
	struct table_style style;
	struct table *t;
	int rc;

	sql_style(s, &style);
	if ((t = table_begin(s->out, stmt, &style)) == NULL)
		return SQLITE_NOMEM;
	while ((rc = sql_step(s, stmt)) == SQLITE_ROW) {
		if (table_row(t) == -1)
			rc = SQLITE_NOMEM;
		if (rc != SQLITE_ROW || ferror(s->out))
			break;
	}
	if (rc == SQLITE_ROW && s->interrupted)
		rc = SQLITE_INTERRUPT;
	if (rc != SQLITE_DONE && rc != SQLITE_ROW) {
		table_drop(t);
		return rc;
	}
	s->rows = table_end(t);
	if (s->rows == 0 && style.quiet)
		fputs("no rows\n", s->out);
	return SQLITE_DONE;
}

/* Rows in their thousands are written while the query runs: that is not its time. */
static void
say_time(const struct sql *s, bool rows, int64_t us)
{
	if (rows)
		fprintf(stderr, "%" PRId64 " row%s, ", s->rows, s->rows == 1 ? "" : "s");
	fprintf(stderr, "%.1f ms\n", (double)us / 1000);
}

/* Keep the statement for .plan and .watch. */
static void
remember(struct sql *s, const char *at, const char *end)
{
	char *copy = strndup(at, (size_t)(end - at));

	if (copy == NULL)
		return;
	free(s->last);
	s->last = copy;
}

/* Run the statement at ${at} of ${text} and store where the next one is in ${*next}. */
static int
run_statement(struct sql *s, const char *text, const char *at, const char **next)
{
	int64_t before = s->spent_us;
	sqlite3_stmt *stmt;
	bool rows;
	int rc;

	if (prepare(s, text, at, next, &stmt) == -1)
		return -1;
	if (stmt == NULL)
		return 0;
	remember(s, at, *next);
	rows = sqlite3_column_count(stmt) > 0;
	rc = rows ? show_rows(s, stmt) : sql_step(s, stmt);
	if (rc != SQLITE_DONE)
		failed(s, rc, text, at);
	sqlite3_finalize(stmt);
	if (rc == SQLITE_DONE && s->timer)
		say_time(s, rows, s->spent_us - before);
	return rc == SQLITE_DONE ? 0 : -1;
}

int
sql_show(struct sql *s, const char *sql, const char *a, const char *b)
{
	sqlite3_stmt *stmt;
	int rc;

	rc = sqlite3_prepare_v2(store_handle(s->db), sql, -1, &stmt, NULL);
	if (rc != SQLITE_OK)
		return sql_failed(s, rc, sql);
	sqlite3_bind_text(stmt, 1, a, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, b, -1, SQLITE_STATIC); /* a query may do without */
	if ((rc = show_rows(s, stmt)) != SQLITE_DONE)
		sql_failed(s, rc, sql);
	sqlite3_finalize(stmt);
	return rc == SQLITE_DONE ? 0 : -1;
}

/* A command of the shell ends with its line, and so does a query of the library. */
static int
run_line(struct sql *s, const char *at, const char **next)
{
	size_t n = strcspn(at, "\r\n");
	char *line = strndup(at, n);
	int rc;

	*next = at + n;
	if (line == NULL)
		return refusal_set(s->refusal, "store.failed", "out of memory");
	rc = *line == '@' ? sql_query_line(s, line) : sql_dot(s, line);
	free(line);
	return rc;
}

/* What is behind the last statement, but for blanks, is what SQLite makes of it. */
static int
run_one(struct sql *s, const char *text, const char *at, const char **next)
{
	const char *first = sql_start(at);
	bool is_dot = *first == '.' || *first == '\\';
	int rc;

	sql_out_begin(s);
	sql_clock(s, true);
	rc = is_dot ? run_line(s, first, next) : run_statement(s, text, first, next);
	sql_clock(s, false);
	return sql_out_end(s, !is_dot) == -1 && rc == 0 ? -1 : rc;
}

int
sql_run(struct sql *s, const char *text)
{
	const char *at = text, *next = text;
	int rc = 0;

	s->spent_us = 0;
	s->expired = false;
	while (rc == 0 && *sql_start(at) != '\0') {
		if (*sql_start(at) == '@') {
			rc = run_line(s, sql_start(at), &next); /* which comes back here */
		} else {
			sql_watchdog(s, true);
			rc = run_one(s, text, at, &next);
			sql_watchdog(s, false);
		}
		at = next;
	}
	return rc;
}

void
sql_open(struct sql *s)
{
	sqlite3_limit(store_handle(s->db), SQLITE_LIMIT_LENGTH, VALUE_BYTES);
	sqlite3_hard_heap_limit64(HEAP_BYTES);
	s->out = stdout;
}

void
sql_close(struct sql *s)
{
	free(s->last);
	free(s->params);
	if (s->kept != NULL)
		fclose(s->kept);
	if (s->once != NULL)
		fclose(s->once);
}
