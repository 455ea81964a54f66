/* sql_file.h: where statements come from and where rows go: files, and the pager. */
#ifndef SHELL_SQL_FILE_H
#define SHELL_SQL_FILE_H

#include "shell/sql.h"

/**
 * sql_file_read(path, r):
 * Return the text of the file ${path} ("-": standard input), to be freed; or NULL with ${r}.
 */
char *sql_file_read(const char *path, struct refusal *r);

/**
 * sql_file_write(s, path, once):
 * Send what follows (${once}: what the next statement shows) to the file ${path}, made or
 * overwritten; NULL: to the terminal again.  Return 0, or -1 with *s->refusal.
 */
int sql_file_write(struct sql *s, const char *path, bool once);

/**
 * sql_out_begin(s), sql_out_end(s, statement):
 * Around each ${statement} or command: choose s->out; finish it.  Return 0, or -1 with *s->refusal
 * where not everything could be written to a file.  A pager that was left early is no failure.
 */
void sql_out_begin(struct sql *s);
int sql_out_end(struct sql *s, bool statement);

/**
 * sql_page():
 * Return a stream whose text appears on the terminal when it is closed, or, as soon as it is longer
 * than the terminal, goes to $PAGER (without one: less -FRX).  Writing fails once the pager is
 * left.  NULL without memory.
 */
FILE *sql_page(void);

#endif
