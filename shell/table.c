/* table.c: lay rows out. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shell/table_row.h"
#include "shell/text.h"

#define NARROWEST   3    /* below this a cut text says nothing */
#define STUMP       8    /* below this it says little */
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
	if ((t->columns = calloc((size_t)t->count + 1, sizeof(*t->columns))) == NULL)
		goto fail;
	for (i = 0; i < t->count; i++) {
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
	return (t->style.mode == CLI_MARKDOWN ? markdown_text : text_show)(
	    t->text, s, (size_t)sqlite3_column_bytes(t->stmt, i));
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
	const struct frame *f = frame_of(t);
	int room = t->style.width - f->edges - f->gap * (t->count - 1);
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
	t->stumps = cap < STUMP;
}

/* How many columns there is room for at all: on a very narrow terminal the last are left out. */
static int
columns_shown(const struct table *t)
{
	const struct frame *f = frame_of(t);
	int i, used = f->edges;

	if (t->style.width == 0)
		return t->count;
	for (i = 0; i < t->count; i++) {
		used += t->columns[i].width + (i == 0 ? 0 : f->gap);
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

static bool
to_the_right(const struct column *c)
{
	return c->numbers && !c->texts && !c->time;
}

/* ${look} is what a terminal is told before the text, NULL for nothing. */
static void
write_cell(struct table *t, int i, const char *s, size_t len, int width, const char *look)
{
	const struct column *c = &t->columns[i];
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
		name = t->columns[i].name;
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
		for (j = 0; j < t->columns[i].width + 2; j++)
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
		for (j = 0; j < t->columns[i].width + 1; j++)
			putc('-', t->out);
		fputs(to_the_right(&t->columns[i]) ? ":|" : "-|", t->out);
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

static void
write_row(struct table *t, size_t first)
{
	const struct cell *c;
	size_t end, len;
	int i;

	fputs(frame_of(t)->left, t->out);
	for (i = 0; i < t->shown; i++) {
		c = &t->cells[first + (size_t)i];
		end = first + (size_t)i + 1 < t->used ? c[1].start : t->len;
		len = end - c->start;
		write_cell(t, i, t->bytes + c->start, len, c->width, cell_look(t, i, c, len));
	}
	fprintf(t->out, "%s\n", frame_of(t)->right);
}

/* Write the rows that are kept.  The first block sets the widths.  Memory stays bounded however
 * many rows there are. */
static int
write_block(struct table *t)
{
	size_t first;

	if (fflush(t->text) != 0)
		return -1;
	if (t->shown == -1) {
		fit_columns(t);
		t->shown = columns_shown(t);
		write_rule(t, "┌", "┬", "┐");
		write_head(t);
		write_rule(t, "├", "┼", "┤");
		write_sides(t);
	}
	for (first = 0; first < t->used; first += (size_t)t->count)
		write_row(t, first);
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
	char loss[64];

	if (t->shown < t->count) {
		snprintf(loss, sizeof(loss), "… columns left out: %d", t->count - t->shown);
		text_clip(t->out, loss, strlen(loss), t->style.width);
		putc('\n', t->out);
	}
	if (t->style.hint != NULL && (t->stumps || t->shown < t->count)) {
		text_clip(t->out, t->style.hint, strlen(t->style.hint), t->style.width);
		putc('\n', t->out);
	}
}

static void
write_table(struct table *t)
{
	if (t->count == 0 || (t->rows == 0 && t->style.quiet))
		return;
	if (write_block(t) == -1)
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
	}
	return t->used < (size_t)t->count * BLOCK && start < BLOCK_BYTES ? 0 : write_block(t);
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
	if (t->text != NULL)
		fclose(t->text);
	free(t->bytes);
	free(t->cells);
	sqlite3_finalize(t->json_text);
	sqlite3_close(t->json);
	free(t);
}
