/* table.c: lay rows out. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shell/table.h"
#include "shell/text.h"

#define GAP       2    /* blanks between the columns of a table */
#define BOX_GAP   3    /* " │ " */
#define NARROWEST 3    /* below this a cut text says nothing */
#define BLOCK     5000 /* rows that set the widths; later ones are shown in blocks of as many */

struct column {
	char *name;
	int width;    /* of the widest cell or the name */
	bool time;    /* its integers are times */
	bool json;    /* its texts are JSON */
	bool texts;   /* it has values that can be cut; cutting a number or a time would lie */
	bool numbers; /* it has numbers */
};

struct cell {
	size_t start; /* in the text of all cells; it ends where the next one starts */
	int width;
};

struct table {
	FILE *out;
	sqlite3_stmt *stmt;
	struct table_style style;
	struct column *columns;
	int count;
	int shown; /* how many columns there is room for; -1 before that is known */
	int64_t rows;
	FILE *text; /* of all cells, for tables */
	char *bytes;
	size_t len;
	struct cell *cells;
	size_t used, size;
	sqlite3 *json; /* checks JSON */
	sqlite3_stmt *json_text;
};

void
table_style(enum cli_mode mode, struct table_style *style)
{
	const char *plain = getenv("NO_COLOR");
	struct winsize w = {0};

	memset(style, 0, sizeof(*style));
	style->mode = mode;
	style->null = "";
	if (!isatty(STDOUT_FILENO))
		return;
	style->shown = true;
	style->colour = plain == NULL || *plain == '\0';
	style->width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

static bool
ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), m = strlen(tail);

	return n >= m && strcmp(s + n - m, tail) == 0;
}

/* Names are shown as well, so they are made safe like any other text. */
static char *
shown_name(const char *name)
{
	char *bytes = NULL;
	size_t len;
	FILE *f;

	if ((f = open_memstream(&bytes, &len)) == NULL)
		return NULL;
	text_show(f, name, strlen(name));
	return fclose(f) == 0 ? bytes : NULL;
}

static int
begin_column(struct table *t, int i)
{
	struct column *c = &t->columns[i];
	const char *name = sqlite3_column_name(t->stmt, i);

	if (name == NULL)
		return -1;
	c->time = strcmp(name, "at") == 0 || ends_with(name, "_at");
	c->json = strcmp(name, "args") == 0 || strcmp(name, "body") == 0;
	c->name = t->style.mode == CLI_TABLE || t->style.mode == CLI_BOX ? shown_name(name)
									 : strdup(name);
	if (c->name == NULL)
		return -1;
	c->width = text_width(c->name, strlen(c->name));
	return 0;
}

static int
begin_text(struct table *t)
{
	if (t->style.mode != CLI_TABLE && t->style.mode != CLI_BOX)
		return 0;
	return (t->text = open_memstream(&t->bytes, &t->len)) == NULL ? -1 : 0;
}

static void
csv_head(struct table *t)
{
	int i;

	for (i = 0; i < t->count; i++) {
		if (i > 0)
			putc(',', t->out);
		text_csv(t->out, t->columns[i].name, strlen(t->columns[i].name));
	}
	fputs("\r\n", t->out);
}

struct table *
table_begin(FILE *out, sqlite3_stmt *stmt, const struct table_style *style)
{
	struct table *t;
	int i;

	if ((t = calloc(1, sizeof(*t))) == NULL)
		return NULL;
	t->out = out;
	t->stmt = stmt;
	t->style = *style;
	t->count = sqlite3_column_count(stmt);
	t->shown = -1;
	if ((t->columns = calloc((size_t)t->count + 1, sizeof(*t->columns))) == NULL)
		goto fail;
	for (i = 0; i < t->count; i++) {
		if (begin_column(t, i) == -1)
			goto fail;
	}
	if (begin_text(t) == -1)
		goto fail;
	if (style->mode == CLI_CSV)
		csv_head(t);
	return t;

fail:
	table_drop(t);
	return NULL;
}

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

static void
write_hex(FILE *out, const unsigned char *blob, int len)
{
	int i;

	for (i = 0; i < len; i++)
		fprintf(out, "%02x", blob[i]);
}

/* An integer as it is, or as the time that it means; true if it was a time. */
static bool
write_time(struct table *t, int i, char out[TEXT_TIME_MAX])
{
	bool people = t->style.mode == CLI_TABLE || t->style.mode == CLI_BOX;

	if (!t->columns[i].time || (t->style.raw && !people))
		return false;
	return text_time(sqlite3_column_int64(t->stmt, i), !people, out);
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
		if (write_time(t, i, when))
			text_json(t->out, when, strlen(when));
		else
			fputs((const char *)sqlite3_column_text(t->stmt, i), t->out);
		return;
	case SQLITE_FLOAT:
		json_real(t, i);
		return;
	case SQLITE_BLOB:
		putc('"', t->out);
		write_hex(
		    t->out, sqlite3_column_blob(t->stmt, i), sqlite3_column_bytes(t->stmt, i));
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

	fputs(t->rows == 0 ? "[{" : ",\n{", t->out);
	for (i = 0; i < t->count; i++) {
		if (i > 0)
			putc(',', t->out);
		text_json(t->out, t->columns[i].name, strlen(t->columns[i].name));
		putc(':', t->out);
		json_value(t, i);
	}
	putc('}', t->out);
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
		write_hex(
		    t->out, sqlite3_column_blob(t->stmt, i), sqlite3_column_bytes(t->stmt, i));
		return 0;
	case SQLITE_INTEGER:
		if (!write_time(t, i, when))
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

static int
add_cell(struct table *t, size_t start, int width)
{
	struct cell *cells;

	if (t->used == t->size) {
		t->size = t->size == 0 ? 256 : t->size * 2;
		if ((cells = reallocarray(t->cells, t->size, sizeof(*cells))) == NULL)
			return -1;
		t->cells = cells;
	}
	t->cells[t->used].start = start;
	t->cells[t->used++].width = width;
	return 0;
}

static int
cell_text(struct table *t, int i)
{
	struct column *c = &t->columns[i];
	char when[TEXT_TIME_MAX];
	int type = sqlite3_column_type(t->stmt, i), len;
	const char *s;

	if (type == SQLITE_NULL)
		return text_show(t->text, t->style.null, strlen(t->style.null));
	if (type == SQLITE_INTEGER && write_time(t, i, when))
		return text_show(t->text, when, strlen(when));
	if (type == SQLITE_INTEGER || type == SQLITE_FLOAT)
		c->numbers = true;
	else
		c->texts = true;
	if (type == SQLITE_BLOB) {
		len = sqlite3_column_bytes(t->stmt, i);
		write_hex(t->text, sqlite3_column_blob(t->stmt, i), len);
		return len * 2;
	}
	s = (const char *)sqlite3_column_text(t->stmt, i);
	return text_show(t->text, s, (size_t)sqlite3_column_bytes(t->stmt, i));
}

/* What the columns take if none that may be cut is wider than cap. */
static int
width_under(const struct table *t, int cap, bool all)
{
	int i, width, sum = 0;

	for (i = 0; i < t->count; i++) {
		width = t->columns[i].width;
		sum += width > cap && (all || t->columns[i].texts) ? cap : width;
	}
	return sum;
}

/* Cut the widest columns, and only as far as they must be. */
static void
fit_columns(struct table *t)
{
	bool box = t->style.mode == CLI_BOX;
	int room = t->style.width - (box ? 4 + BOX_GAP * (t->count - 1) : GAP * (t->count - 1));
	int i, cap = t->style.width;
	bool all;

	if (t->style.width == 0 || width_under(t, cap, true) <= room)
		return;
	all = width_under(t, NARROWEST, false) > room;
	while (cap > 1 && width_under(t, cap, all) > room)
		cap--;
	for (i = 0; i < t->count; i++) {
		if (t->columns[i].width > cap && (all || t->columns[i].texts))
			t->columns[i].width = cap;
	}
}

/* How many columns there is room for at all: on a very narrow terminal the last are left out. */
static int
columns_shown(const struct table *t)
{
	bool box = t->style.mode == CLI_BOX;
	int i, used = box ? 4 : 0;

	if (t->style.width == 0)
		return t->count;
	for (i = 0; i < t->count; i++) {
		used += t->columns[i].width + (i == 0 ? 0 : box ? BOX_GAP : GAP);
		if (used > t->style.width)
			return i == 0 ? 1 : i;
	}
	return t->count;
}

static void
blanks(FILE *out, int n)
{
	if (n > 0)
		fprintf(out, "%*s", n, "");
}

static void
write_cell(struct table *t, int i, int shown, const char *s, size_t len, int width)
{
	const struct column *c = &t->columns[i];
	bool last = i == shown - 1 && t->style.mode == CLI_TABLE;
	bool right = c->numbers && !c->texts && !c->time;
	int pad = width < c->width ? c->width - width : 0;

	if (right)
		blanks(t->out, pad);
	if (t->style.width == 0)
		fwrite(s, 1, len, t->out);
	else
		text_clip(t->out, s, len, c->width);
	if (!right && !last)
		blanks(t->out, pad);
	if (i < shown - 1)
		fputs(t->style.mode == CLI_BOX ? " │ " : "  ", t->out);
}

static void
write_head(struct table *t, int shown)
{
	int i;

	fputs(t->style.mode == CLI_BOX ? "│ " : "", t->out);
	for (i = 0; i < shown; i++) {
		fputs(t->style.colour ? "\033[1m" : "", t->out);
		write_cell(t, i, shown, t->columns[i].name, strlen(t->columns[i].name),
		    text_width(t->columns[i].name, strlen(t->columns[i].name)));
		fputs(t->style.colour ? "\033[0m" : "", t->out);
	}
	fputs(t->style.mode == CLI_BOX ? " │\n" : "\n", t->out);
}

static void
write_rule(struct table *t, int shown, const char *left, const char *cross, const char *right)
{
	int i, j;

	if (t->style.mode != CLI_BOX)
		return;
	fputs(left, t->out);
	for (i = 0; i < shown; i++) {
		for (j = 0; j < t->columns[i].width + 2; j++)
			fputs("─", t->out);
		fputs(i < shown - 1 ? cross : right, t->out);
	}
	putc('\n', t->out);
}

static void
write_row(struct table *t, size_t first, int shown)
{
	const struct cell *c;
	size_t end;
	int i;

	fputs(t->style.mode == CLI_BOX ? "│ " : "", t->out);
	for (i = 0; i < shown; i++) {
		c = &t->cells[first + (size_t)i];
		end = first + (size_t)i + 1 < t->used ? c[1].start : t->len;
		write_cell(t, i, shown, t->bytes + c->start, end - c->start, c->width);
	}
	fputs(t->style.mode == CLI_BOX ? " │\n" : "\n", t->out);
}

/* The first block sets the widths.  Memory stays bounded however many rows there are. */
static int
write_block(struct table *t)
{
	size_t first;

	if (fflush(t->text) != 0)
		return -1;
	if (t->shown == -1) {
		fit_columns(t);
		t->shown = columns_shown(t);
		write_rule(t, t->shown, "┌", "┬", "┐");
		write_head(t, t->shown);
		write_rule(t, t->shown, "├", "┼", "┤");
	}
	for (first = 0; first < t->used; first += (size_t)t->count)
		write_row(t, first, t->shown);
	t->used = 0;
	fclose(t->text);
	free(t->bytes);
	t->bytes = NULL;
	return begin_text(t);
}

static void
write_table(struct table *t)
{
	if (t->count == 0 || (t->rows == 0 && t->style.quiet))
		return;
	if (write_block(t) == 0)
		write_rule(t, t->shown, "└", "┴", "┘");
}

static int
keep_row(struct table *t)
{
	long start;
	int i, width;

	for (i = 0; i < t->count; i++) {
		if ((start = ftell(t->text)) == -1)
			return -1;
		width = cell_text(t, i);
		if (add_cell(t, (size_t)start, width) == -1)
			return -1;
		if (t->shown == -1 && width > t->columns[i].width)
			t->columns[i].width = width;
	}
	return t->used < (size_t)t->count * BLOCK ? 0 : write_block(t);
}

int
table_row(struct table *t)
{
	int done = 0;

	if (t->style.mode == CLI_JSON)
		json_row(t);
	else if (t->style.mode == CLI_CSV)
		done = csv_row(t);
	else
		done = keep_row(t);
	t->rows++;
	return done;
}

int64_t
table_end(struct table *t)
{
	int64_t rows = t->rows;

	if (t->style.mode == CLI_JSON)
		fputs(rows == 0 ? "[]\n" : "]\n", t->out);
	else if (t->style.mode != CLI_CSV)
		write_table(t);
	table_drop(t);
	return rows;
}

void
table_drop(struct table *t)
{
	int i;

	if (t == NULL)
		return;
	for (i = 0; t->columns != NULL && i < t->count; i++)
		free(t->columns[i].name);
	free(t->columns);
	if (t->text != NULL)
		fclose(t->text);
	free(t->bytes);
	free(t->cells);
	sqlite3_finalize(t->json_text);
	sqlite3_close(t->json);
	free(t);
}
