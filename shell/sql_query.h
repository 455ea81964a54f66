/* sql_query.h: the library of named queries: bastion sql @name. */
#ifndef SHELL_SQL_QUERY_H
#define SHELL_SQL_QUERY_H

#include "shell/sql.h"

/* A file of shell/queries/: its head says what it answers and what parameters it takes. */
struct sql_query {
	const char *name;
	const char *text;
};

/* In the order of the alphabet, ended by a NULL name; made at build time by queries.sh. */
extern const struct sql_query sql_queries[];

/**
 * sql_query_line(s, line):
 * Run the query of a line "@NAME [PARAMETER=VALUE ...]", which is taken apart, as sql_run does:
 * with the parameters of the line, those that were given to ${s} and, for the others, those of its
 * head. Return what sql_run returns; or -1 with *s->refusal: sql.query where there is no query of
 * that name, with those near it, or no such parameter, or one has no value.
 */
int sql_query_line(struct sql *s, char *line);

#endif
