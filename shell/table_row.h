/* table_row.h: what table.c and table_row.c share: the table, and rows that are written at once. */
#ifndef SHELL_TABLE_ROW_H
#define SHELL_TABLE_ROW_H

#include <sqlite3.h>

#include "shell/table.h"
#include "shell/text.h"

struct column {
	char *name;
	int width;    /* of the widest cell or the name */
	bool time;    /* its integers are times */
	bool json;    /* its texts are JSON */
	bool texts;   /* it has values that can be cut; cutting a number or a time would lie */
	bool numbers; /* it has numbers */
	bool prose;   /* its texts are sentences or JSON: they give way before names do */
	bool filled;  /* a cell has something in it */
};

struct cell {
	size_t start; /* in the text of all cells; it ends where the next one starts */
	int width;
	bool null;
};

struct table {
	FILE *out;
	sqlite3_stmt *stmt;
	struct table_style style;
	struct column *columns;
	int count;
	int *at;     /* the columns that are not left out for being empty */
	int live;    /* how many those are */
	int shown;   /* how many of them there is room for; -1 before that is known */
	bool cut;    /* not every text is whole */
	bool stumps; /* some were cut to less than a word */
	bool lines;  /* there was no room for columns */
	int64_t rows, written;
	FILE *text; /* of all cells, for tables */
	char *bytes;
	size_t len;
	struct cell *cells;
	size_t used, size;
	sqlite3 *json; /* checks JSON */
	sqlite3_stmt *json_text;
};

/**
 * row_head(t):
 * Write what stands before the first row, in the modes of table_row.c: csv, quote.
 */
void row_head(struct table *t);

/**
 * row_name(t, i, widest):
 * Write what stands before the value of column ${i} where a row is read downwards, to the right of
 * ${widest} columns.
 */
void row_name(struct table *t, int i, int widest);

/**
 * row_write(t):
 * Write the row that the statement stands on, in the modes json, jsonl, csv, quote and line.
 * Return 0, or -1 without memory.
 */
int row_write(struct table *t);

/**
 * row_time(t, i, out):
 * Return whether column ${i}, an integer, is shown as a time here; ${out} is that time.
 */
bool row_time(struct table *t, int i, char out[TEXT_TIME_MAX]);

/**
 * row_hex(out, blob, len):
 * Write the ${len} bytes of ${blob} in small hexadecimal digits.
 */
void row_hex(FILE *out, const unsigned char *blob, int len);

#endif
