/* rows.h: rows that stand in no database, listed as those of one. */
#ifndef SHELL_ROWS_H
#define SHELL_ROWS_H

#include "shell/cli.h"

/**
 * rows_list(cli, sql, json, none):
 * List the rows that ${sql} makes of ?1, the JSON text ${json}, in cli->mode on standard output, as
 * cli_list does; where there are none, a table says the sentence ${none} instead.  No store is
 * needed.  Return the exit code of a verb that lists: 0, or what cli_refuse returns.
 */
int rows_list(struct cli *cli, const char *sql, const char *json, const char *none);

#endif
