/* sql_bind.c: parameters of statements, from the command line. */
#include <ctype.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "shell/sql.h"

static size_t
name_length(const char *given)
{
	size_t n = 0;

	while (isalnum((unsigned char)given[n]) || given[n] == '_')
		n++;
	return n;
}

int
sql_param(struct sql *s, const char *given)
{
	size_t n = name_length(given);
	const char **more;

	if (n == 0 || (given[n] != '=' && strncmp(given + n, ":=", 2) != 0))
		return refusal_set(
		    s->refusal, "usage.wrong", "a parameter is given as NAME=VALUE, or NAME:=TEXT");
	more = reallocarray(s->params, s->param_count + 1, sizeof(*more));
	if (more == NULL)
		return refusal_set(s->refusal, "store.failed", "out of memory");
	s->params = more;
	s->params[s->param_count++] = given;
	return 0;
}

/* The one given last, so that a later -p takes the place of an earlier one. */
static const char *
given_for(const struct sql *s, const char *name)
{
	size_t i, n = strlen(name);

	for (i = s->param_count; i-- > 0;) {
		if (name_length(s->params[i]) == n && strncmp(s->params[i], name, n) == 0)
			return s->params[i] + n;
	}
	return NULL;
}

static size_t
digits(const char *p)
{
	return strspn(p, "0123456789");
}

/* 7, -7 and 2.5 are numbers.  007, +7, 1e3 and what no integer of SQLite holds mean something else.
 */
static int
number_type(const char *value)
{
	const char *p = value + (*value == '-');
	size_t n = digits(p), m;

	if (n == 0 || (*p == '0' && n > 1))
		return SQLITE_TEXT;
	errno = 0;
	if (p[n] == '\0') {
		(void)strtoll(value, NULL, 10);
		return errno == 0 && strcmp(value, "-0") != 0 ? SQLITE_INTEGER : SQLITE_TEXT;
	}
	m = p[n] == '.' ? digits(p + n + 1) : 0;
	return m > 0 && p[n + 1 + m] == '\0' ? SQLITE_FLOAT : SQLITE_TEXT;
}

static int
bind_given(sqlite3_stmt *stmt, int i, const char *given)
{
	const char *value = given + (*given == ':' ? 2 : 1);

	switch (*given == ':' ? SQLITE_TEXT : number_type(value)) {
	case SQLITE_INTEGER:
		return sqlite3_bind_int64(stmt, i, strtoll(value, NULL, 10));
	case SQLITE_FLOAT:
		return sqlite3_bind_double(stmt, i, strtod(value, NULL));
	default:
		return sqlite3_bind_text(stmt, i, value, -1, SQLITE_STATIC);
	}
}

int
sql_bind(struct sql *s, sqlite3_stmt *stmt)
{
	int i, count = sqlite3_bind_parameter_count(stmt);
	const char *name, *given;

	for (i = 1; i <= count; i++) {
		name = sqlite3_bind_parameter_name(stmt, i);
		if (name == NULL || *name == '?')
			return refusal_set(s->refusal, "sql.error",
			    "a parameter needs a name, as in :host, to be given with -p host=VALUE");
		if ((given = given_for(s, name + 1)) == NULL)
			return refusal_set(s->refusal, "sql.error",
			    "the parameter %s has no value: give -p %s=VALUE", name, name + 1);
		if (bind_given(stmt, i, given) != SQLITE_OK)
			return sql_failed(s, sqlite3_errcode(store_handle(s->db)), "");
	}
	return 0;
}
