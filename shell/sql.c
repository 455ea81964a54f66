/* sql.c: run, time, and show a person's statements. */
#include <ctype.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shell/sql.h"
#include "shell/table.h"
#include "shell/text.h"

#define PROGRESS_STEPS 1000 /* of SQLite's machine between two looks at the clock */
#define BLANKS         " \t\r\n\f\v"

static const char TABLES[] = "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view')"
			     " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name";
static const char SCHEMA[] =
    "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND"
    " (?1 = '' OR name = ?1 COLLATE NOCASE OR tbl_name = ?1 COLLATE NOCASE)"
    " ORDER BY tbl_name, type NOT IN ('table', 'view'), name";

static int64_t
steady_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int
look_at_clock(void *ctx)
{
	struct sql *s = ctx;

	s->expired = s->limit_ms > 0 && s->spent_ms + steady_ms() - s->began_ms > s->limit_ms;
	return s->expired || s->interrupted;
}

/* A step on the clock: only SQLite's time counts, not that of a pager that takes the output. */
static int
step(struct sql *s, sqlite3_stmt *stmt)
{
	int rc;

	s->began_ms = steady_ms();
	rc = sqlite3_step(stmt);
	s->spent_ms += steady_ms() - s->began_ms;
	return rc;
}

/* Past blanks, semicolons and comments: to where a statement begins. */
static const char *
statement_start(const char *p)
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
	const char *p = statement_start(statement);
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
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return refusal_set(s->refusal, "store.busy", "the database answered: %s", message);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return refusal_set(
		    s->refusal, "store.corrupt", "the database answered: %s", message);
	case SQLITE_NOMEM:
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

/* Return the last code of SQLite; SQLITE_DONE also when nobody takes the output any more. */
static int
show_rows(struct sql *s, sqlite3_stmt *stmt)
{
	struct table_style style;
	struct table *t;
	int rc;

	table_style(s->mode, &style);
	style.raw = true;
	style.null = "NULL";
	if ((t = table_begin(stdout, stmt, &style)) == NULL)
		return SQLITE_NOMEM;
	while ((rc = step(s, stmt)) == SQLITE_ROW) {
		if (table_row(t) == -1)
			rc = SQLITE_NOMEM;
		if (rc != SQLITE_ROW || ferror(stdout))
			break;
	}
	if (rc != SQLITE_DONE && rc != SQLITE_ROW) {
		table_drop(t);
		return rc;
	}
	table_end(t);
	return SQLITE_DONE;
}

/* Run the statement at ${at} of ${text} and store where the next one is in ${*next}. */
static int
run_one(struct sql *s, const char *text, const char *at, const char **next)
{
	sqlite3_stmt *stmt;
	int rc;

	if (store_shows(s->db, at) != 0)
		return refusal_set(s->refusal, "sql.refused", "%s", store_refusal(s->db)->why);
	rc = sqlite3_prepare_v2(store_handle(s->db), at, -1, &stmt, next);
	if (rc != SQLITE_OK)
		return failed(s, rc, text, at);
	if (stmt == NULL)
		return 0;
	if (sql_bind(s, stmt) != 0) {
		sqlite3_finalize(stmt);
		return -1;
	}
	rc = sqlite3_column_count(stmt) > 0 ? show_rows(s, stmt) : step(s, stmt);
	if (rc != SQLITE_DONE)
		failed(s, rc, text, at);
	sqlite3_finalize(stmt);
	return rc == SQLITE_DONE ? 0 : -1;
}

static int
run_all(struct sql *s, const char *text)
{
	const char *at = text, *next;
	int rc = 0;

	s->spent_ms = 0;
	s->expired = false;
	sqlite3_progress_handler(store_handle(s->db), PROGRESS_STEPS, look_at_clock, s);
	while (rc == 0 && *at != '\0') {
		rc = run_one(s, text, at, &next);
		at = next;
	}
	sqlite3_progress_handler(store_handle(s->db), 0, NULL, NULL);
	return rc;
}

static int
dot_schema(struct sql *s, const char *name)
{
	sqlite3_stmt *stmt;
	int rc;

	rc = sqlite3_prepare_v2(store_handle(s->db), SCHEMA, -1, &stmt, NULL);
	if (rc != SQLITE_OK)
		return failed(s, rc, SCHEMA, SCHEMA);
	sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
	while ((rc = step(s, stmt)) == SQLITE_ROW)
		printf("%s;\n", (const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	return rc == SQLITE_DONE ? 0 : failed(s, rc, SCHEMA, SCHEMA);
}

static int
dot_tables(struct sql *s, const char *word)
{
	(void)word;
	return run_all(s, TABLES);
}

static int
dot_mode(struct sql *s, const char *word)
{
	static const struct {
		const char *name;
		enum cli_mode mode;
	} modes[] = {{"table", CLI_TABLE}, {"box", CLI_BOX}, {"json", CLI_JSON}, {"csv", CLI_CSV}};
	size_t i;

	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(word, modes[i].name) == 0) {
			s->mode = modes[i].mode;
			return 0;
		}
	}
	return refusal_set(s->refusal, "sql.error", "a mode is table, box, json or csv");
}

static int
dot_quit(struct sql *s, const char *word)
{
	(void)s;
	(void)word;
	return 1;
}

static int
dot_help(struct sql *s, const char *word)
{
	(void)s;
	(void)word;
	fputs(".tables          tables and views\n"
	      ".schema [NAME]   what they are made of, with their rules\n"
	      ".mode MODE       show rows as table, box, json or csv\n"
	      ".help            this\n"
	      ".quit            leave, as does Ctrl-D\n"
	      "A statement ends with a semicolon. Ctrl-C ends a running query.\n",
	    stdout);
	return 0;
}

/* Take the first word of a command off its line; what is left is its argument. */
static const char *
dot_split(const char *text, char word[64], char argument[128])
{
	size_t n = strcspn(text, BLANKS), m;

	snprintf(word, 64, "%.*s", (int)n, text);
	text += n;
	text += strspn(text, BLANKS);
	m = strcspn(text, BLANKS);
	snprintf(argument, 128, "%.*s", (int)m, text);
	text += m;
	return text + strspn(text, BLANKS);
}

static int
run_dot(struct sql *s, const char *text)
{
	static const struct {
		const char *name;
		bool argument;
		int (*run)(struct sql *s, const char *argument);
	} dots[] = {{".exit", false, dot_quit}, {".help", false, dot_help},
	    {".mode", true, dot_mode}, {".quit", false, dot_quit}, {".schema", true, dot_schema},
	    {".tables", false, dot_tables}};
	char word[64], argument[128];
	const char *rest = dot_split(text, word, argument);
	size_t i;

	for (i = 0; i < sizeof(dots) / sizeof(dots[0]); i++) {
		if (strcmp(word, dots[i].name) != 0)
			continue;
		if (*rest != '\0' || (*argument != '\0' && !dots[i].argument))
			return refusal_set(s->refusal, "sql.error", "too many words for %s", word);
		return dots[i].run(s, argument);
	}
	return refusal_set(s->refusal, "sql.error", "there is no command %s; .help has them", word);
}

int
sql_run(struct sql *s, const char *text)
{
	const char *first = text + strspn(text, BLANKS);

	return *first == '.' ? run_dot(s, first) : run_all(s, text);
}
