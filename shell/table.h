/* table.h: the rows of a query as a table for people, or as JSON, CSV or SQL for programs. */
#ifndef SHELL_TABLE_H
#define SHELL_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shell/cli.h"

struct sqlite3_stmt;
struct table;

/* How people see a column of times. */
enum table_times { TIMES_LOCAL, TIMES_UTC, TIMES_RAW };

struct table_style {
	enum cli_mode mode;
	enum table_times times;
	int width;        /* of the terminal; 0: no limit */
	bool colour;      /* a bold head */
	bool quiet;       /* no head where there are no rows */
	bool raw;         /* modes for programs keep times as the integers that they are */
	bool shown;       /* CSV goes to a person's eyes: escape what a terminal obeys */
	const char *null; /* for NULL where people read */
	const char *hint; /* said below a table that had to be cut to stumps; NULL: nothing */
	bool sparse;      /* one too wide leaves out the columns that are empty in every row */
	bool downwards;   /* one that would be stumps is shown a value a line; any cut is said */
	/* Asked of each cell that is written, in order; true to show it in reverse.  NULL: none. */
	bool (*mark)(void *ctx, int column, const char *s, size_t len);
	void *mark_ctx;
};

/**
 * table_mode(name, mode), table_mode_name(i):
 * Store the mode called ${name} in ${*mode}; return 0, or -1 where there is none.  The name of
 * number ${i}, from 0; NULL past the last.
 */
int table_mode(const char *name, enum cli_mode *mode);
const char *table_mode_name(size_t i);

/**
 * table_for_people(mode):
 * Return whether people read ${mode}: then times are dates, NULL is visible, and what a terminal
 * would obey is escaped.  The others are exact.
 */
bool table_for_people(enum cli_mode mode);

/**
 * table_style(mode, style):
 * Fill ${style} for ${mode} and the standard output of this process: its width and colour where it
 * is a terminal (no colour with NO_COLOR set), no limits where it is none.
 */
void table_style(enum cli_mode mode, struct table_style *style);

/**
 * table_list(mode, style):
 * As table_style, for what a verb lists: sparse, downwards, quiet, and with a hint at how to see
 * all of it.
 */
void table_list(enum cli_mode mode, struct table_style *style);

/**
 * table_begin(out, stmt, style):
 * Begin to show the rows of ${stmt} on ${out}.  ${stmt} need not have been stepped.  Return NULL
 * without memory.
 */
struct table *table_begin(FILE *out, struct sqlite3_stmt *stmt, const struct table_style *style);

/**
 * table_row(t):
 * Take the row that the statement stands on.  Tables are written at the end or in large
 * blocks: their columns are as wide as their widest cell, and where the terminal is too narrow the
 * widest texts are cut with an ellipsis: sentences and JSON first, names when these have little
 * left, times and numbers last (nothing in Markdown, which is made to be pasted).  The other modes
 * are written at once, whole.  Return 0, or -1 without memory.
 */
int table_row(struct table *t);

/**
 * table_end(t):
 * Write what is left and free ${t}.  The statement may be gone.  Return the number of rows.
 */
int64_t table_end(struct table *t);

/**
 * table_drop(t):
 * Free ${t}, whose query failed.  JSON stays without its closing bracket, so nobody takes a part
 * for the whole.
 */
void table_drop(struct table *t);

#endif
