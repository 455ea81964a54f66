/* sql_dot.h: the commands of the shell: one table, from which help, completion and manual are made.
 */
#ifndef SHELL_SQL_DOT_H
#define SHELL_SQL_DOT_H

#include "shell/sql.h"

#define DOT_WORDS 3

/* What stands behind a command: its words, without quotes; and all of it as it was typed. */
struct dot_line {
	int count;
	char *word[DOT_WORDS]; /* NULL past the last */
	const char *rest;
};

/*
 * ${args} says what follows: [ENTITY [ID]].  What stands in brackets may be left out; SQL is the
 * rest of the line; a word in small letters stands for itself.
 */
struct dot {
	const char *name, *args, *about;
	int (*run)(struct sql *s, const struct dot_line *line);
};

extern const struct dot dots[]; /* ended by a NULL name */

/**
 * sql_dot(s, line):
 * Run the command that ${line}, which has no line end, begins with.  Return 0, 1 to leave the
 * shell, or -1 with *s->refusal.
 */
int sql_dot(struct sql *s, const char *line);

/**
 * sql_word(at):
 * Take the first word off ${*at}, with its quotes off, and end it with a NUL.  Return it, or NULL
 * without one.
 */
char *sql_word(char **at);

/* The handlers, by the file that they stand in: sql_look.c, */
int dot_tables(struct sql *s, const struct dot_line *line);
int dot_views(struct sql *s, const struct dot_line *line);
int dot_schema(struct sql *s, const struct dot_line *line);
int dot_indexes(struct sql *s, const struct dot_line *line);
int dot_triggers(struct sql *s, const struct dot_line *line);
int dot_refusals(struct sql *s, const struct dot_line *line);
int dot_settings(struct sql *s, const struct dot_line *line);
int dot_timeline(struct sql *s, const struct dot_line *line);
/* sql_query.c, */
int dot_queries(struct sql *s, const struct dot_line *line);
/* sql_states.c, */
int dot_states(struct sql *s, const struct dot_line *line);
/* sql_rules.c, */
int dot_rules(struct sql *s, const struct dot_line *line);
/* sql_who.c, */
int dot_who(struct sql *s, const struct dot_line *line);
/* sql_plan.c, */
int dot_plan(struct sql *s, const struct dot_line *line);
int dot_explain(struct sql *s, const struct dot_line *line);
/* sql_watch.c. */
int dot_watch(struct sql *s, const struct dot_line *line);

/**
 * dot_statement(s, line):
 * The SQL behind a command, or else the last statement; NULL with *s->refusal where there is
 * neither.
 */
const char *dot_statement(struct sql *s, const struct dot_line *line);

#endif
