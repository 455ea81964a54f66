/* sql.h: a person's statements, run in turn on a connection that only reads. */
#ifndef SHELL_SQL_H
#define SHELL_SQL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "shell/cli.h"

struct sql {
	struct store *db;
	struct refusal *refusal; /* of the last call that failed */
	enum cli_mode mode;
	const char **params; /* "name=value" each: sql_param */
	size_t param_count;
	int64_t limit_ms;           /* time for the queries of one run, without that of whoever */
				    /* takes the output; 0: no limit */
	int64_t spent_ms, began_ms; /* sql.c's own */
	bool expired;
	volatile sig_atomic_t interrupted; /* set by whoever wants the run to end */
};

/**
 * sql_run(s, text):
 * Run the statements of ${text} one after the other and show their rows on standard output, until
 * one fails.  A first word that begins with a dot is a command of the shell, which takes the whole
 * of ${text}.  Return 0; 1 after .quit; or -1 with *s->refusal: sql.refused for what would write,
 * sql.timeout, sql.interrupted, sql.error with the place of the fault, or what the store refuses.
 */
int sql_run(struct sql *s, const char *text);

/**
 * sql_param(s, given):
 * Keep "name=value" or "name:=value" for the parameter :name (@name, $name) of every statement.
 * A value that is written as SQLite would write a number is that number; any other, and every one
 * behind :=, is text.  ${given} is borrowed.  Return 0, or -1 with *s->refusal.
 */
int sql_param(struct sql *s, const char *given);

/**
 * sql_bind(s, stmt):
 * Bind the parameters of ${stmt}.  Return 0, or -1 with *s->refusal, which names one without value.
 */
struct sqlite3_stmt;
int sql_bind(struct sql *s, struct sqlite3_stmt *stmt);

/**
 * sql_failed(s, rc, sql):
 * Set *s->refusal for what SQLite returned for ${sql}.  Return -1.
 */
int sql_failed(struct sql *s, int rc, const char *sql);

/**
 * sql_converse(cli, s):
 * Read statements from the terminal with line editing and a history, run each when it is complete,
 * and say what is refused, until .quit or the end of input.  Ctrl-C ends a running query or empties
 * the line.  Return the exit code.
 */
int sql_converse(struct cli *cli, struct sql *s);

#endif
