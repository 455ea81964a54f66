/* rows.c: lists of what no database holds. */
#include <sqlite3.h>
#include <stdio.h>

#include "shell/rows.h"
#include "shell/table.h"

/* Return the number of rows, or -1. */
static int64_t
show(enum cli_mode mode, sqlite3_stmt *q)
{
	struct table_style style;
	struct table *t;
	int n;

	table_style(mode, &style);
	style.quiet = true;
	if ((t = table_begin(stdout, q, &style)) == NULL)
		return -1;
	while ((n = sqlite3_step(q)) == SQLITE_ROW)
		if (table_row(t) != 0)
			break;
	if (n == SQLITE_DONE)
		return table_end(t);
	table_drop(t);
	return -1;
}

int
rows_list(struct cli *cli, const char *sql, const char *json, const char *none)
{
	sqlite3 *memory = NULL;
	sqlite3_stmt *q = NULL;
	int64_t rows = -1;

	if (sqlite3_open(":memory:", &memory) == SQLITE_OK &&
	    sqlite3_prepare_v2(memory, sql, -1, &q, NULL) == SQLITE_OK &&
	    sqlite3_bind_text(q, 1, json, -1, SQLITE_STATIC) == SQLITE_OK)
		rows = show(cli->mode, q);
	if (rows == -1)
		refusal_set(&cli->refusal, "store.failed", "%s", sqlite3_errmsg(memory));
	sqlite3_finalize(q);
	sqlite3_close(memory);
	if (rows == -1)
		return cli_refuse(cli);
	if (rows == 0 && cli->mode == CLI_TABLE)
		puts(none);
	return 0;
}
