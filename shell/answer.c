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

static const char *const PARTS[] = {
    /* The scalars of a result, then its lists. */
    [ANSWER_MEMBERS] =
	"SELECT key, type, CASE WHEN type IN ('true', 'false') THEN type ELSE value END"
	"  FROM json_each(:frame, '$.r')"
	" WHERE type NOT IN ('null') ORDER BY type IN ('array', 'object'), id",
    /*
     * The columns that the elements of a list have between them, in order. Names come from the
     * other machine: as a value each is a literal (%Q), as a column a quoted name (%w), so that
     * none is ever read as SQL.
     */
    [ANSWER_COLUMNS] =
	"SELECT group_concat(c, ', ') FROM (SELECT printf('(SELECT f.value FROM json_each(e.value)"
	" AS f WHERE f.key = %Q) AS \"%w\"', f.key, f.key) AS c"
	"  FROM json_each(:list) AS e, json_each(e.value) AS f WHERE e.type = 'object'"
	" GROUP BY f.key ORDER BY min(e.id * 1000 + f.id))",
};

/* What a dry ask came to, in words; times are the reader's. */
static const char DRY[] =
    "SELECT CASE f.r ->> '$.dry'"
    "  WHEN 'allowed' THEN printf('It would run: grant %d holds it, %d %s left, until %s.',"
    "    f.r ->> '$.grant', f.r ->> '$.left', iif(f.r ->> '$.left' = 1, 'use', 'uses'),"
    "    datetime((f.r ->> '$.expires_at') / 1000, 'unixepoch', 'localtime'))"
    "  WHEN 'approval' THEN 'It would wait: ' || (f.r ->> '$.why') || ' [' || (f.r ->> '$.code') || ']'"
    "  WHEN 'refused' THEN 'It would be refused: ' || (f.r ->> '$.why') || ' ['"
    "    || (f.r ->> '$.code') || ']' || coalesce(char(10) || 'by the rule '"
    "    || (f.r ->> '$.rule'), '') || coalesce(char(10) || (f.r ->> '$.advice'), '')"
    " END FROM (SELECT :frame -> '$.r' AS r) AS f";

static const char REFUSAL[] =
    "SELECT e ->> '$.code', e ->> '$.why', coalesce(e ->> '$.retry_at', 0),"
    "  iif(e ->> '$.exit' BETWEEN 1 AND 255, e ->> '$.exit', 0), coalesce(e ->> '$.advice', '')"
    "  FROM (SELECT coalesce(:frame -> '$.e', :frame -> '$.error') AS e)"
    " WHERE json_type(e, '$.code') = 'text' AND json_type(e, '$.why') = 'text'";

/* ${sql} with ${text} as its one parameter; NULL where it cannot be. */
static sqlite3_stmt *
query(struct answer_view *view, const char *sql, const char *text)
{
	sqlite3_stmt *q;

	if (view->json == NULL && sqlite3_open(":memory:", &view->json) != SQLITE_OK) {
		answer_drop(view);
		return NULL;
	}
	/* Queries are made of names from the other machine: there is no file that one could reach.
	 */
	sqlite3_limit(view->json, SQLITE_LIMIT_ATTACHED, 0);
	if (sqlite3_prepare_v2(view->json, sql, -1, &q, NULL) != SQLITE_OK)
		return NULL;
	sqlite3_bind_text(q, 1, text, -1, SQLITE_STATIC);
	return q;
}

/* The statement that takes ${part} out of ${text}, kept for the next; NULL where it cannot be. */
static sqlite3_stmt *
part_of(struct answer_view *view, enum answer_part part, const char *text)
{
	sqlite3_stmt **q = &view->parts[part];

	if (*q == NULL)
		return *q = query(view, PARTS[part], text);
	sqlite3_reset(*q);
	sqlite3_bind_text(*q, 1, text, -1, SQLITE_STATIC);
	return *q;
}

void
answer_begin(struct answer_view *view)
{
	static const char small[] = "{\"r\":{\"a\":[{\"b\":1}]}}";
	sqlite3_stmt *q;
	int i;

	for (i = 0; i < ANSWER_PARTS; i++)
		if ((q = part_of(view, i, small)) != NULL)
			sqlite3_step(q);
}

static const char *
column(sqlite3_stmt *q, int i)
{
	const unsigned char *text = sqlite3_column_text(q, i);

	return text == NULL ? "" : (const char *)text;
}

/* Finish ${q} after the step that answered ${rc}. */
static int
over(sqlite3_stmt *q, int rc)
{
	sqlite3_finalize(q);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
}

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
list_show(struct answer_view *view, const char *name, const char *list)
{
	char columns[2048], sql[2304];
	struct table_style style;
	sqlite3_stmt *q;
	struct table *t;
	int rc;

	if ((q = part_of(view, ANSWER_COLUMNS, list)) == NULL || sqlite3_step(q) != SQLITE_ROW)
		return -1;
	snprintf(columns, sizeof(columns), "%s", column(q, 0));
	snprintf(sql, sizeof(sql), "SELECT %s FROM json_each(?1) AS e",
	    columns[0] == '\0' ? "value" : columns);
	if ((q = query(view, sql, list)) == NULL)
		return -1;
	table_list(view->mode, &style);
	text_show(stdout, name, strlen(name));
	puts(":");
	if ((t = table_begin(stdout, q, &style)) == NULL)
		return over(q, SQLITE_NOMEM);
	while ((rc = sqlite3_step(q)) == SQLITE_ROW)
		table_row(t);
	if (table_end(t) == 0)
		printf("  (none)\n");
	return over(q, rc);
}

static int
result_show(struct answer_view *view, const char *frame)
{
	sqlite3_stmt *q;
	int rc;

	if ((q = part_of(view, ANSWER_MEMBERS, frame)) == NULL)
		return -1;
	while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
		const char *name = column(q, 0), *value = column(q, 2);

		if (strcmp(column(q, 1), "array") == 0) {
			if (list_show(view, name, value) != 0)
				return -1;
			continue;
		}
		text_show(stdout, name, strlen(name));
		fputs(": ", stdout);
		text_show(stdout, value, strlen(value));
		putchar('\n');
	}
	return rc == SQLITE_DONE ? 0 : -1;
}

static int
text_of(struct answer_view *view, const char *sql, const char *frame, int (*show)(const char *))
{
	sqlite3_stmt *q;
	int rc;

	if ((q = query(view, sql, frame)) == NULL)
		return -1;
	if ((rc = sqlite3_step(q)) == SQLITE_ROW)
		show(column(q, 0));
	return over(q, rc);
}

static int
error_show(const char *text)
{
	fputs("bastion: ", stderr);
	text_show(stderr, text, strlen(text));
	fputc('\n', stderr);
	return 0;
}

static int
frame_show(struct answer_view *view, const char *frame)
{
	if (strncmp(frame, "{\"o\":", 5) == 0)
		return text_of(view, OUTPUT, frame, output_show);
	if (strncmp(frame, "{\"e\":", 5) == 0 || strncmp(frame, "{\"r\":{\"refused\":", 17) == 0)
		return text_of(view, ERROR, frame, error_show);
	return result_show(view, frame);
}

int
answer_show(struct answer_view *view, const char *frame, struct refusal *r)
{
	if (frame_show(view, frame) == 0)
		return 0;
	return refusal_set(
	    r, "call.failed", "the answer cannot be shown; --json shows it as it is");
}

int
answer_dry(struct answer_view *view, const char *frame, const char *box, struct refusal *r)
{
	sqlite3_stmt *q = query(view, DRY, frame);
	int rc;

	if (q == NULL || sqlite3_step(q) != SQLITE_ROW || column(q, 0)[0] == '\0') {
		sqlite3_finalize(q);
		return answer_show(view, frame, r);
	}
	printf("%s: nothing was done.\n", box);
	rc = output_show(column(q, 0));
	sqlite3_finalize(q);
	return rc;
}

int
answer_refusal(struct answer_view *view, const char *error, struct answer_end *end)
{
	sqlite3_stmt *q;
	bool found;

	if ((q = query(view, REFUSAL, error)) == NULL)
		return -1;
	if ((found = sqlite3_step(q) == SQLITE_ROW)) {
		refusal_set(&end->refusal, column(q, 0), "%s", column(q, 1));
		end->refusal.retry_at = sqlite3_column_int64(q, 2);
		end->exit_code = sqlite3_column_int(q, 3);
		snprintf(end->advice, sizeof(end->advice), "%s", column(q, 4));
	}
	sqlite3_finalize(q);
	return found ? 0 : -1;
}

int
answer_numbers(
    struct answer_view *view, const char *sql, const char *text, int64_t *values, size_t count)
{
	sqlite3_stmt *q;
	size_t i;
	bool found;

	if ((q = query(view, sql, text)) == NULL)
		return -1;
	found = sqlite3_step(q) == SQLITE_ROW && (size_t)sqlite3_column_count(q) == count;
	for (i = 0; found && i < count; i++) {
		found = sqlite3_column_type(q, (int)i) == SQLITE_INTEGER;
		values[i] = sqlite3_column_int64(q, (int)i);
	}
	sqlite3_finalize(q);
	return found ? 0 : -1;
}

void
answer_drop(struct answer_view *view)
{
	int i;

	for (i = 0; i < ANSWER_PARTS; i++) {
		sqlite3_finalize(view->parts[i]);
		view->parts[i] = NULL;
	}
	sqlite3_close(view->json);
	view->json = NULL;
}
