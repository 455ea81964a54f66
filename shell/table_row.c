/* table_row.c: rows for programs, and rows of one value a line: written as they come. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "shell/table_row.h"
#include "shell/text.h"

/* Whether column i is JSON in fact; if so its smallest form is the row of json_text. */
static bool
json_fits(struct table *t, int i)
{
	if (t->json == NULL && (sqlite3_open(":memory:", &t->json) != SQLITE_OK ||
				   sqlite3_prepare_v2(t->json, "SELECT json(?1)", -1, &t->json_text,
				       NULL) != SQLITE_OK))
		return false;
	if (t->json_text == NULL)
		return false;
	sqlite3_reset(t->json_text);
	sqlite3_bind_text(t->json_text, 1, (const char *)sqlite3_column_text(t->stmt, i),
	    sqlite3_column_bytes(t->stmt, i), SQLITE_TRANSIENT);
	return sqlite3_step(t->json_text) == SQLITE_ROW &&
	       sqlite3_column_type(t->json_text, 0) == SQLITE_TEXT;
}

void
row_hex(FILE *out, const unsigned char *blob, int len)
{
	int i;

	for (i = 0; i < len; i++)
		fprintf(out, "%02x", blob[i]);
}

bool
row_time(struct table *t, int i, char out[TEXT_TIME_MAX])
{
	bool people = table_for_people(t->style.mode);

	if (!t->columns[i].time || (people ? t->style.times == TIMES_RAW : t->style.raw))
		return false;
	return text_time(
	    sqlite3_column_int64(t->stmt, i), !people || t->style.times == TIMES_UTC, out);
}

/* SQLite writes an infinity as Inf, which is no JSON; a number past the range of doubles is. */
static void
json_real(struct table *t, int i)
{
	const char *s = (const char *)sqlite3_column_text(t->stmt, i);

	if (strcmp(s, "Inf") == 0)
		s = "9e999";
	if (strcmp(s, "-Inf") == 0)
		s = "-9e999";
	fputs(s, t->out);
}

static void
json_value(struct table *t, int i)
{
	char when[TEXT_TIME_MAX];
	const char *s;

	switch (sqlite3_column_type(t->stmt, i)) {
	case SQLITE_NULL:
		fputs("null", t->out);
		return;
	case SQLITE_INTEGER:
		if (row_time(t, i, when))
			text_json(t->out, when, strlen(when));
		else
			fputs((const char *)sqlite3_column_text(t->stmt, i), t->out);
		return;
	case SQLITE_FLOAT:
		json_real(t, i);
		return;
	case SQLITE_BLOB:
		putc('"', t->out);
		row_hex(t->out, sqlite3_column_blob(t->stmt, i), sqlite3_column_bytes(t->stmt, i));
		putc('"', t->out);
		return;
	default:
		break;
	}
	if (t->columns[i].json && json_fits(t, i)) {
		fputs((const char *)sqlite3_column_text(t->json_text, 0), t->out);
		return;
	}
	s = (const char *)sqlite3_column_text(t->stmt, i);
	text_json(t->out, s, (size_t)sqlite3_column_bytes(t->stmt, i));
}

static void
json_row(struct table *t)
{
	int i;

	if (t->style.mode == CLI_JSON)
		fputs(t->rows == 0 ? "[" : ",\n", t->out);
	putc('{', t->out);
	for (i = 0; i < t->count; i++) {
		if (i > 0)
			putc(',', t->out);
		text_json(t->out, t->columns[i].name, strlen(t->columns[i].name));
		putc(':', t->out);
		json_value(t, i);
	}
	fputs(t->style.mode == CLI_JSON ? "}" : "}\n", t->out);
}

/* A field for a person's eyes is first made safe, then quoted. */
static int
csv_text(struct table *t, const char *s, size_t len)
{
	char *bytes = NULL;
	size_t shown;
	FILE *f;

	if (!t->style.shown) {
		text_csv(t->out, s, len);
		return 0;
	}
	if ((f = open_memstream(&bytes, &shown)) == NULL)
		return -1;
	text_show(f, s, len);
	if (fclose(f) == 0)
		text_csv(t->out, bytes, shown);
	free(bytes);
	return 0;
}

static int
csv_value(struct table *t, int i)
{
	char when[TEXT_TIME_MAX];

	switch (sqlite3_column_type(t->stmt, i)) {
	case SQLITE_NULL: /* an empty text is "", NULL is nothing at all */
		return 0;
	case SQLITE_BLOB:
		row_hex(t->out, sqlite3_column_blob(t->stmt, i), sqlite3_column_bytes(t->stmt, i));
		return 0;
	case SQLITE_INTEGER:
		if (!row_time(t, i, when))
			break;
		fputs(when, t->out);
		return 0;
	default:
		break;
	}
	return csv_text(t, (const char *)sqlite3_column_text(t->stmt, i),
	    (size_t)sqlite3_column_bytes(t->stmt, i));
}

static int
csv_row(struct table *t)
{
	int i;

	for (i = 0; i < t->count; i++) {
		if (i > 0)
			putc(',', t->out);
		if (csv_value(t, i) == -1)
			return -1;
	}
	fputs("\r\n", t->out);
	return 0;
}

static void
quote_value(struct table *t, int i)
{
	switch (sqlite3_column_type(t->stmt, i)) {
	case SQLITE_NULL:
		fputs("NULL", t->out);
		return;
	case SQLITE_BLOB:
		fputs("X'", t->out);
		row_hex(t->out, sqlite3_column_blob(t->stmt, i), sqlite3_column_bytes(t->stmt, i));
		putc('\'', t->out);
		return;
	case SQLITE_INTEGER:
		fputs((const char *)sqlite3_column_text(t->stmt, i), t->out);
		return;
	case SQLITE_FLOAT:
		json_real(t, i);
		return;
	default:
		text_sql(t->out, (const char *)sqlite3_column_text(t->stmt, i),
		    (size_t)sqlite3_column_bytes(t->stmt, i));
	}
}

static void
quote_row(struct table *t)
{
	int i;

	for (i = 0; i < t->count; i++) {
		if (i > 0)
			putc(',', t->out);
		quote_value(t, i);
	}
	putc('\n', t->out);
}

static void
line_value(struct table *t, int i)
{
	char when[TEXT_TIME_MAX];
	int type = sqlite3_column_type(t->stmt, i);
	const char *s;

	if (type == SQLITE_NULL) {
		fputs(t->style.null, t->out);
		return;
	}
	if (type == SQLITE_BLOB) {
		row_hex(t->out, sqlite3_column_blob(t->stmt, i), sqlite3_column_bytes(t->stmt, i));
		return;
	}
	if (type == SQLITE_INTEGER && row_time(t, i, when)) {
		fputs(when, t->out);
		return;
	}
	s = (const char *)sqlite3_column_text(t->stmt, i);
	text_show(t->out, s, (size_t)sqlite3_column_bytes(t->stmt, i));
}

void
row_name(struct table *t, int i, int widest)
{
	fprintf(t->out,
	    "%*s%s%s%s = ", widest - text_width(t->columns[i].name, strlen(t->columns[i].name)), "",
	    t->style.colour ? "\033[1m" : "", t->columns[i].name, t->style.colour ? "\033[0m" : "");
}

/* Nothing is cut here: this is how a person sees all of a wide row. */
static void
line_row(struct table *t)
{
	int i, widest = 0;

	for (i = 0; i < t->count; i++)
		widest = t->columns[i].width > widest ? t->columns[i].width : widest;
	if (t->rows > 0)
		putc('\n', t->out);
	for (i = 0; i < t->count; i++) {
		row_name(t, i, widest);
		line_value(t, i);
		putc('\n', t->out);
	}
}

void
row_head(struct table *t)
{
	bool csv = t->style.mode == CLI_CSV;
	int i;

	if (!csv && t->style.mode != CLI_QUOTE)
		return;
	for (i = 0; i < t->count; i++) {
		if (i > 0)
			putc(',', t->out);
		(csv ? text_csv : text_sql)(t->out, t->columns[i].name, strlen(t->columns[i].name));
	}
	fputs(csv ? "\r\n" : "\n", t->out);
}

int
row_write(struct table *t)
{
	switch (t->style.mode) {
	case CLI_CSV:
		return csv_row(t);
	case CLI_QUOTE:
		quote_row(t);
		return 0;
	case CLI_LINE:
		line_row(t);
		return 0;
	default:
		json_row(t);
		return 0;
	}
}
