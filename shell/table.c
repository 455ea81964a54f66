/* table.c: lay rows out. */
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shell/table_row.h"
#include "shell/text.h"

#define NARROWEST   3    /* below this a cut text says nothing */
#define STUMP       8    /* below this it says little */
#define PROSE       12   /* sentences are not cut below this while a name could be */
#define NAME        16   /* names are not cut below this where rows can be read downwards */
#define BLOCK       5000 /* rows that set the widths; later ones are shown in blocks of as many */
#define BLOCK_BYTES (16L * 1024 * 1024) /* of text end a block as well */

/* What stands around the cells of a row, and how many columns that takes. */
struct frame {
	const char *left, *between, *right;
	int edges, gap;
};

static const struct {
	const char *name;
	enum cli_mode mode;
} modes[] = {{"table", CLI_TABLE}, {"box", CLI_BOX}, {"line", CLI_LINE}, {"markdown", CLI_MARKDOWN},
    {"csv", CLI_CSV}, {"json", CLI_JSON}, {"jsonl", CLI_JSONL}, {"quote", CLI_QUOTE}};

#define MODES (sizeof(modes) / sizeof(modes[0]))

const char *
table_mode_name(size_t i)
{
	return i < MODES ? modes[i].name : NULL;
}

int
table_mode(const char *name, enum cli_mode *mode)
{
	size_t i;

	for (i = 0; i < MODES; i++) {
		if (strcmp(modes[i].name, name) == 0) {
			*mode = modes[i].mode;
			return 0;
		}
	}
	return -1;
}

/* In these a row waits until the widths of the columns are known. */
static bool
aligns(enum cli_mode mode)
{
	return mode == CLI_TABLE || mode == CLI_BOX || mode == CLI_MARKDOWN;
}

bool
table_for_people(enum cli_mode mode)
{
	return aligns(mode) || mode == CLI_LINE;
}

static const struct frame *
frame_of(const struct table *t)
{
	static const struct frame table = {"", "  ", "", 0, 2}, box = {"│ ", " │ ", " │", 4, 3},
				  markdown = {"| ", " | ", " |", 4, 3};

	return t->style.mode == CLI_BOX ? &box : t->style.mode == CLI_MARKDOWN ? &markdown : &table;
}

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

void
table_list(enum cli_mode mode, struct table_style *style)
{
	table_style(mode, style);
	style->quiet = style->sparse = style->downwards = true;
	style->hint = "all of it: --json, or a wider terminal";
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
	c->json = strcmp(name, "args") == 0 || strcmp(name, "body") == 0 ||
		  (t->style.sparse && (strcmp(name, "paths") == 0 || strcmp(name, "bounds") == 0));
	c->name = table_for_people(t->style.mode) ? shown_name(name) : strdup(name);
	if (c->name == NULL)
		return -1;
	c->width = text_width(c->name, strlen(c->name));
	return 0;
}

static int
begin_text(struct table *t)
{
	if (!aligns(t->style.mode))
		return 0;
	return (t->text = open_memstream(&t->bytes, &t->len)) == NULL ? -1 : 0;
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
	if (style->mode == CLI_MARKDOWN)
		t->style.width = 0; /* it is made to be pasted, whole */
	t->count = sqlite3_column_count(stmt);
	t->shown = -1;
	t->live = t->count;
	t->columns = calloc((size_t)t->count + 1, sizeof(*t->columns));
	t->at = calloc((size_t)t->count + 1, sizeof(*t->at));
	if (t->columns == NULL || t->at == NULL)
		goto fail;
	for (i = 0; i < t->count; i++) {
		t->at[i] = i;
		if (begin_column(t, i) == -1)
			goto fail;
	}
	if (begin_text(t) == -1)
		goto fail;
	row_head(t);
	return t;

fail:
	table_drop(t);
	return NULL;
}

static int
add_cell(struct table *t, size_t start, int width, bool null)
{
	struct cell *cells;

	if (t->used == t->size) {
		t->size = t->size == 0 ? 256 : t->size * 2;
		if ((cells = reallocarray(t->cells, t->size, sizeof(*cells))) == NULL)
			return -1;
		t->cells = cells;
	}
	t->cells[t->used++] = (struct cell){start, width, null};
	return 0;
}

/* A bar would end the cell. */
static int
markdown_text(FILE *out, const char *s, size_t len)
{
	const char *end = s + len, *bar;
	int width = 0;

	while ((bar = memchr(s, '|', (size_t)(end - s))) != NULL) {
		width += text_show(out, s, (size_t)(bar - s)) + 2;
		fputs("\\|", out);
		s = bar + 1;
	}
	return width + text_show(out, s, (size_t)(end - s));
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
	if (type == SQLITE_INTEGER && row_time(t, i, when))
		return text_show(t->text, when, strlen(when));
	if (type == SQLITE_INTEGER || type == SQLITE_FLOAT)
		c->numbers = true;
	else
		c->texts = true;
	if (type == SQLITE_BLOB) {
		len = sqlite3_column_bytes(t->stmt, i);
		row_hex(t->text, sqlite3_column_blob(t->stmt, i), len);
		return len * 2;
	}
	s = (const char *)sqlite3_column_text(t->stmt, i);
	len = sqlite3_column_bytes(t->stmt, i);
	c->prose = c->prose || *s == '[' || *s == '{' || memchr(s, ' ', (size_t)len) != NULL;
	return (t->style.mode == CLI_MARKDOWN ? markdown_text : text_show)(t->text, s, (size_t)len);
}

/*
 * Fitting columns to the terminal.
 */

/* What may be cut. */
enum cutting { CUT_PROSE, CUT_TEXTS, CUT_ALL };

static bool
gives_way(const struct column *c, enum cutting what)
{
	return what == CUT_ALL || (c->texts && (what == CUT_TEXTS || c->prose));
}

/* What the columns take, with their gaps, if none that may be cut is wider than cap. */
static int
width_under(const struct table *t, int cap, enum cutting what)
{
	const struct frame *f = frame_of(t);
	int i, sum = f->edges + f->gap * (t->live - 1);
	const struct column *c;

	for (i = 0; i < t->live; i++) {
		c = &t->columns[t->at[i]];
		sum += c->width > cap && gives_way(c, what) ? cap : c->width;
	}
	return sum;
}

static bool
fits(const struct table *t)
{
	return t->style.width == 0 || width_under(t, INT_MAX, CUT_ALL) <= t->style.width;
}

/* Cut the widest, only as far as they must be and never below least.  Return whether that did. */
static bool
cut(struct table *t, enum cutting what, int least)
{
	int i, cap = t->style.width;
	struct column *c;

	while (cap > least && width_under(t, cap, what) > t->style.width)
		cap--;
	for (i = 0; i < t->live; i++) {
		c = &t->columns[t->at[i]];
		if (c->width <= cap || !gives_way(c, what))
			continue;
		c->width = cap;
		t->cut = true;
		t->stumps = cap < STUMP;
	}
	return fits(t);
}

/* Where nothing is in any of them, nothing is lost. */
static void
leave_out_empty(struct table *t)
{
	int i, live = 0;

	for (i = 0; i < t->count; i++) {
		if (t->columns[i].filled)
			t->at[live++] = i;
	}
	if (live > 0)
		t->live = live;
}

/* ${whole}: no row comes behind those that are kept. */
static void
fit_columns(struct table *t, bool whole)
{
	if (!fits(t) && t->style.sparse && whole)
		leave_out_empty(t);
	if (fits(t) || cut(t, CUT_PROSE, PROSE) || cut(t, CUT_TEXTS, NAME))
		return;
	if (t->style.downwards && t->style.mode == CLI_TABLE && t->used > 0)
		t->lines = true;
	else if (!cut(t, CUT_TEXTS, NARROWEST))
		cut(t, CUT_ALL, 1);
}

/* How many columns there is room for at all: on a very narrow terminal the last are left out. */
static int
columns_shown(const struct table *t)
{
	const struct frame *f = frame_of(t);
	int i, used = f->edges;

	if (t->style.width == 0 || t->lines)
		return t->live;
	for (i = 0; i < t->live; i++) {
		used += t->columns[t->at[i]].width + (i == 0 ? 0 : f->gap);
		if (used > t->style.width)
			return i == 0 ? 1 : i;
	}
	return t->live;
}

static void
blanks(FILE *out, int n)
{
	if (n > 0)
		fprintf(out, "%*s", n, "");
}

static bool
to_the_right(const struct column *c)
{
	return c->numbers && !c->texts && !c->time;
}

/* Cell ${i} of those that are shown.  ${look} is what a terminal is told before the text, NULL for
 * nothing. */
static void
write_cell(struct table *t, int i, const char *s, size_t len, int width, const char *look)
{
	const struct column *c = &t->columns[t->at[i]];
	bool last = i == t->shown - 1 && t->style.mode == CLI_TABLE;
	int pad = width < c->width ? c->width - width : 0;

	if (to_the_right(c))
		blanks(t->out, pad);
	if (look != NULL)
		fputs(look, t->out);
	if (t->style.width == 0)
		fwrite(s, 1, len, t->out);
	else
		text_clip(t->out, s, len, c->width);
	if (look != NULL)
		fputs("\033[0m", t->out);
	if (!to_the_right(c) && !last)
		blanks(t->out, pad);
	if (i < t->shown - 1)
		fputs(frame_of(t)->between, t->out);
}

static void
write_head(struct table *t)
{
	const char *name;
	int i;

	fputs(frame_of(t)->left, t->out);
	for (i = 0; i < t->shown; i++) {
		name = t->columns[t->at[i]].name;
		write_cell(t, i, name, strlen(name), text_width(name, strlen(name)),
		    t->style.colour ? "\033[1m" : NULL);
	}
	fprintf(t->out, "%s\n", frame_of(t)->right);
}

static void
write_rule(struct table *t, const char *left, const char *cross, const char *right)
{
	int i, j;

	if (t->style.mode != CLI_BOX)
		return;
	fputs(left, t->out);
	for (i = 0; i < t->shown; i++) {
		for (j = 0; j < t->columns[t->at[i]].width + 2; j++)
			fputs("─", t->out);
		fputs(i < t->shown - 1 ? cross : right, t->out);
	}
	putc('\n', t->out);
}

/* The second line of a Markdown table: which columns stand to the right. */
static void
write_sides(struct table *t)
{
	int i, j;

	if (t->style.mode != CLI_MARKDOWN)
		return;
	putc('|', t->out);
	for (i = 0; i < t->shown; i++) {
		for (j = 0; j < t->columns[t->at[i]].width + 1; j++)
			putc('-', t->out);
		fputs(to_the_right(&t->columns[t->at[i]]) ? ":|" : "-|", t->out);
	}
	putc('\n', t->out);
}

static const char *
cell_look(struct table *t, int i, const struct cell *c, size_t len)
{
	bool marked =
	    t->style.mark != NULL && t->style.mark(t->style.mark_ctx, i, t->bytes + c->start, len);

	if (marked)
		return "\033[7m";
	return c->null && t->style.colour ? "\033[2m" : NULL;
}

/* Cell ${i} of the row whose cells begin with number ${first}, and its text. */
static const struct cell *
cell_at(const struct table *t, size_t first, int i, size_t *len)
{
	size_t n = first + (size_t)i;

	*len = (n + 1 < t->used ? t->cells[n + 1].start : t->len) - t->cells[n].start;
	return &t->cells[n];
}

static void
write_row(struct table *t, size_t first)
{
	const struct cell *c;
	size_t len;
	int i;

	fputs(frame_of(t)->left, t->out);
	for (i = 0; i < t->shown; i++) {
		c = cell_at(t, first, t->at[i], &len);
		write_cell(
		    t, i, t->bytes + c->start, len, c->width, cell_look(t, t->at[i], c, len));
	}
	fprintf(t->out, "%s\n", frame_of(t)->right);
}

/* A value a line, whole. */
static void
write_downwards(struct table *t, size_t first)
{
	const struct cell *c;
	int i, width, widest = 0;
	size_t len;

	for (i = 0; i < t->live; i++) {
		width = text_width(t->columns[t->at[i]].name, strlen(t->columns[t->at[i]].name));
		widest = width > widest ? width : widest;
	}
	if (t->written > 0)
		putc('\n', t->out);
	for (i = 0; i < t->live; i++) {
		c = cell_at(t, first, t->at[i], &len);
		row_name(t, t->at[i], widest);
		fwrite(t->bytes + c->start, 1, len, t->out);
		putc('\n', t->out);
	}
}

/* The first block sets the widths; ${whole}: it is the last as well. */
static void
begin_columns(struct table *t, bool whole)
{
	fit_columns(t, whole);
	t->shown = columns_shown(t);
	if (t->lines)
		return;
	write_rule(t, "┌", "┬", "┐");
	write_head(t);
	write_rule(t, "├", "┼", "┤");
	write_sides(t);
}

/* Write the rows that are kept; ${whole}: no more come.  Memory stays bounded however many rows
 * there are. */
static int
write_block(struct table *t, bool whole)
{
	size_t first;

	if (fflush(t->text) != 0)
		return -1;
	if (t->shown == -1)
		begin_columns(t, whole);
	for (first = 0; first < t->used; first += (size_t)t->count) {
		(t->lines ? write_downwards : write_row)(t, first);
		t->written++;
	}
	t->used = 0;
	fclose(t->text);
	free(t->bytes);
	t->bytes = NULL;
	return begin_text(t);
}

/* What the reader does not see. */
static void
write_loss(struct table *t)
{
	bool said = t->stumps || t->lines || (t->cut && t->style.downwards);
	char loss[64];

	if (t->shown < t->live) {
		snprintf(loss, sizeof(loss), "… columns left out: %d", t->live - t->shown);
		text_clip(t->out, loss, strlen(loss), t->style.width);
		putc('\n', t->out);
	}
	if (t->style.hint != NULL && (said || t->shown < t->live)) {
		text_clip(t->out, t->style.hint, strlen(t->style.hint), t->style.width);
		putc('\n', t->out);
	}
}

static void
write_table(struct table *t)
{
	if (t->count == 0 || (t->rows == 0 && t->style.quiet))
		return;
	if (write_block(t, true) == -1)
		return;
	write_rule(t, "└", "┴", "┘");
	write_loss(t);
}

static int
keep_row(struct table *t)
{
	long start = 0;
	int i, width;

	for (i = 0; i < t->count; i++) {
		if ((start = ftell(t->text)) == -1)
			return -1;
		width = cell_text(t, i);
		if (add_cell(t, (size_t)start, width,
			sqlite3_column_type(t->stmt, i) == SQLITE_NULL) == -1)
			return -1;
		if (t->shown == -1 && width > t->columns[i].width)
			t->columns[i].width = width;
		t->columns[i].filled = t->columns[i].filled || width > 0;
	}
	return t->used < (size_t)t->count * BLOCK && start < BLOCK_BYTES ? 0
									 : write_block(t, false);
}

int
table_row(struct table *t)
{
	int done = aligns(t->style.mode) ? keep_row(t) : row_write(t);

	t->rows++;
	return done;
}

int64_t
table_end(struct table *t)
{
	int64_t rows = t->rows;

	if (t->style.mode == CLI_JSON)
		fputs(rows == 0 ? "[]\n" : "]\n", t->out);
	if (aligns(t->style.mode))
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
	free(t->at);
	if (t->text != NULL)
		fclose(t->text);
	free(t->bytes);
	free(t->cells);
	sqlite3_finalize(t->json_text);
	sqlite3_close(t->json);
	free(t);
}
