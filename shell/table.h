/* table.h: the rows of a query as a table for people, or as JSON or CSV for programs. */
#ifndef SHELL_TABLE_H
#define SHELL_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shell/cli.h"

struct sqlite3_stmt;
struct table;

struct table_style {
	enum cli_mode mode;
	int width;        /* of the terminal; 0: no limit */
	bool colour;      /* a bold head */
	bool quiet;       /* no head where there are no rows */
	bool raw;         /* JSON and CSV keep times as the integers that they are */
	bool shown;       /* CSV goes to a person's eyes: escape what a terminal obeys */
	const char *null; /* for NULL in tables */
};

/**
 * table_style(mode, style):
 * Fill ${style} for ${mode} and the standard output of this process: its width and colour where it
 * is a terminal (no colour with NO_COLOR set), no limits where it is none.
 */
void table_style(enum cli_mode mode, struct table_style *style);

/**
 * table_begin(out, stmt, style):
 * Begin to show the rows of ${stmt} on ${out}.  ${stmt} need not have been stepped.  Return NULL
 * without memory.
 */
struct table *table_begin(FILE *out, struct sqlite3_stmt *stmt, const struct table_style *style);

/**
 * table_row(t):
 * Take the row that the statement stands on.  JSON and CSV are written at once, tables at the end:
 * their columns are as wide as their widest cell, and where the terminal is too narrow the widest
 * texts are cut with an ellipsis.  Return 0, or -1 without memory.
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
