/* answer.c: frames of an answer as a person reads them. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "shell/answer.h"
#include "shell/table.h"
#include "shell/text.h"

static const char OUTPUT[] = "SELECT :frame ->> '$.o'";

/* A run that ended by a rule says so as an error, or in its result. */
static const char ERROR[] =
    "SELECT (e ->> '$.why') || ' [' || (e ->> '$.code') || ']'"
    "  FROM (SELECT coalesce(:frame -> '$.e', :frame -> '$.r.refused') AS e)";

/* The scalars of a result, then its lists. */
static const char MEMBERS[] =
    "SELECT key, type, CASE WHEN type IN ('true', 'false') THEN type ELSE value END"
    "  FROM json_each(:frame, '$.r')"
    " WHERE type NOT IN ('null') ORDER BY type IN ('array', 'object'), id";

/*
 * The columns that the elements of a list have between them, in order. Names come from the other
 * machine: as a value each is a literal (%Q), as a column a quoted name (%w), so that none is ever
 * read as SQL.
 */
static const char COLUMNS[] =
    "SELECT group_concat(c, ', ') FROM (SELECT printf('(SELECT f.value FROM json_each(e.value) AS f"
    " WHERE f.key = %Q) AS \"%w\"', f.key, f.key) AS c"
    "  FROM json_each(:list) AS e, json_each(e.value) AS f WHERE e.type = 'object'"
    " GROUP BY f.key ORDER BY min(e.id * 1000 + f.id))";

static int
output_show(const char *text)
{
	const char *end;

	for (; (end = strchr(text, '\n')) != NULL; text = end + 1) {
		text_show(stdout, text, (size_t)(end - text));
		putchar('\n');
	}
	if (*text != '\0') {
		text_show(stdout, text, strlen(text));
		putchar('\n');
	}
	return 0;
}

/* A list of objects is a table; a list of anything else is a line an element. */
static int
list_show(struct cli *cli, const char *name, const char *list)
{
	struct table_style style;
	char columns[2048], sql[2304];
	sqlite3_stmt *rows;
	struct table *t;
	struct stmt *q;
	int rc;

	if ((q = store_sql(cli->db, COLUMNS)) == NULL)
		return -1;
	stmt_text(q, ":list", list);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(columns, sizeof(columns), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	snprintf(sql, sizeof(sql), "SELECT %s FROM json_each(?1) AS e",
	    columns[0] == '\0' ? "value" : columns);
	if (sqlite3_prepare_v2(store_handle(cli->db), sql, -1, &rows, NULL) != SQLITE_OK)
		return refusal_set(store_refusal(cli->db), "call.failed",
		    "the answer's list %s cannot be shown", name);
	sqlite3_bind_text(rows, 1, list, -1, SQLITE_STATIC);
	table_style(cli->mode, &style);
	style.quiet = true;
	printf("%s:\n", name);
	if ((t = table_begin(stdout, rows, &style)) != NULL) {
		while ((rc = sqlite3_step(rows)) == SQLITE_ROW)
			table_row(t);
		if (table_end(t) == 0)
			printf("  (none)\n");
	}
	sqlite3_finalize(rows);
	return 0;
}

static int
result_show(struct cli *cli, const char *frame)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, MEMBERS)) == NULL)
		return -1;
	stmt_text(q, ":frame", frame);
	while ((n = stmt_step(q)) == 1) {
		const char *name = stmt_get_text(q, 0), *value = stmt_get_text(q, 2);

		if (strcmp(stmt_get_text(q, 1), "array") == 0) {
			if (list_show(cli, name, value) != 0) {
				stmt_done(q);
				return -1;
			}
			continue;
		}
		printf("%s: ", name);
		text_show(stdout, value, strlen(value));
		putchar('\n');
	}
	return n;
}

static int
text_of(struct cli *cli, const char *sql, const char *frame, int (*show)(const char *))
{
	struct stmt *q;
	int n;

	if ((q = store_sql(cli->db, sql)) == NULL)
		return -1;
	stmt_text(q, ":frame", frame);
	if ((n = stmt_step(q)) != 1)
		return n;
	n = show(stmt_get_text(q, 0));
	stmt_done(q);
	return n;
}

static int
error_show(const char *text)
{
	fputs("bastion: ", stderr);
	text_show(stderr, text, strlen(text));
	fputc('\n', stderr);
	return 0;
}

int
answer_show(struct cli *cli, const char *frame)
{
	if (strncmp(frame, "{\"o\":", 5) == 0)
		return text_of(cli, OUTPUT, frame, output_show);
	if (strncmp(frame, "{\"e\":", 5) == 0 || strncmp(frame, "{\"r\":{\"refused\":", 17) == 0)
		return text_of(cli, ERROR, frame, error_show);
	return result_show(cli, frame);
}
