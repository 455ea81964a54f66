/* sql_write.h: bastion sql -w: a person's own change, shown, proved and made. */
#ifndef SHELL_SQL_WRITE_H
#define SHELL_SQL_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "shell/cli.h"

/* How it was called; zero and NULL for what was not given. */
struct sql_write {
	bool on;               /* -w */
	bool yes;              /* do not ask whether to */
	bool bytes;            /* only put it down, and print what is to be signed */
	const char *reason;    /* -m */
	const char *signature; /* file with an SSH signature, "-" for standard input */
	int64_t id;            /* of an amendment that was put down before */
};

/**
 * sql_write(cli, w, word, file):
 * Amend the database by the SQL ${word} or that of ${file}, one of them NULL, as ${w} says: show
 * what was asked and what it would do, ask, have it proved, and make it.  Return the exit code.
 */
int sql_write(struct cli *cli, const struct sql_write *w, const char *word, const char *file);

#endif
