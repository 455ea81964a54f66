/* sql.h: a person's statements, run in turn on a connection that only reads. */
#ifndef SHELL_SQL_H
#define SHELL_SQL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shell/cli.h"
#include "shell/table.h"

struct sqlite3_stmt;

/* Set db, refusal, mode and what else is known, zero the rest; sql_close at the end. */
struct sql {
	struct store *db;
	struct refusal *refusal; /* of the last call that failed */
	enum cli_mode mode;
	enum table_times times;
	bool talks; /* a person types: files may be named, and no rows is said in words */
	bool pages; /* what is longer than the terminal goes to a pager */
	bool timer; /* say after each statement how long it took */
	/* For the queries of one run, without the time of whoever takes the output; 0: no limit. */
	int64_t limit_ms;
	const char **params; /* "name=value" each: sql_param */
	size_t param_count;
	volatile sig_atomic_t interrupted; /* set by whoever wants the run to end */

	/* The shell's own. */
	FILE *out;         /* of the statement that runs */
	FILE *kept, *once; /* files for all, and for the next statement; NULL: none */
	FILE *taken;       /* what once was, while that statement runs */
	bool to_file;      /* out is a file */
	char *last;        /* the last statement, for .plan and .watch; NULL: none */
	int64_t spent_us, began_us;
	int64_t rows; /* of the last statement */
	bool expired;
	volatile sig_atomic_t steps; /* SQLite has the say */
	void (*leaving)(void);       /* called before a signal ends the program; NULL: nothing */
};

/**
 * sql_open(s):
 * Bound what a query on s->db may take: a value 64 MB, all of SQLite's memory 512 MB.
 */
void sql_open(struct sql *s);

/**
 * sql_close(s):
 * Free what ${s} holds.  The store stays open.
 */
void sql_close(struct sql *s);

/**
 * sql_run(s, text):
 * Run the statements of ${text} one after the other and show their rows on standard output, until
 * one fails.  A line that begins with a dot where a statement may begin is a command of the shell.
 * Return 0; 1 after .quit; or -1 with *s->refusal: sql.refused for what would write, sql.timeout,
 * sql.interrupted also for what takes too much memory, sql.error with the place of the fault, or
 * what the store refuses.
 */
int sql_run(struct sql *s, const char *text);

/**
 * sql_show(s, sql, a, b):
 * Run the shell's own query ${sql}, with ?1 and ?2 bound to the texts ${a} and ${b} (NULL: NULL),
 * and show its rows on s->out.  Return 0 with s->rows set, or -1 with *s->refusal.
 */
int sql_show(struct sql *s, const char *sql, const char *a, const char *b);

/**
 * sql_prepare(s, sql, tail, stmt):
 * Prepare the first statement of ${sql} with every parameter bound, and store it in ${*stmt}, NULL
 * where there is none, and what is behind it in ${*tail}, which may be NULL.  Return 0, or -1 with
 * *s->refusal.
 */
int sql_prepare(struct sql *s, const char *sql, const char **tail, struct sqlite3_stmt **stmt);

/**
 * sql_failed(s, rc, sql):
 * Set *s->refusal for the code ${rc} that SQLite returned for ${sql}.  Return -1.
 */
int sql_failed(struct sql *s, int rc, const char *sql);

/**
 * sql_style(s, style):
 * Fill ${style} for where the rows of ${s} go and how the person wants to see them.
 */
void sql_style(const struct sql *s, struct table_style *style);

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
int sql_bind(struct sql *s, struct sqlite3_stmt *stmt);

/**
 * sql_start(text):
 * Return where the first statement of ${text} begins, past blanks, semicolons and comments.
 */
const char *sql_start(const char *text);

/**
 * sql_converse(cli, s):
 * Read statements from the terminal with line editing and a history, run each when it is complete,
 * and say what is refused, until .quit or the end of input.  Ctrl-C ends a running query or empties
 * the line.  Return the exit code.
 */
int sql_converse(struct cli *cli, struct sql *s);

#endif
