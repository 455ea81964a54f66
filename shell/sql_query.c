/* sql_query.c: find a named query, take its head apart, run it. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/near.h"
#include "shell/sql_dot.h"
#include "shell/sql_query.h"
#include "shell/text.h"

#define PARAMETER_MAX 64 /* bytes of a name and its default */

static const char LIST[] = "SELECT '@' || (value ->> 'name') AS query, value ->> 'parameters' AS"
			   " parameters, value ->> 'answers' AS answers FROM json_each(?1)"
			   " WHERE ?2 IS NULL OR instr(value ->> 'name', ltrim(?2, '@')) > 0";

/* A line "-- :name=value meaning" of a head. */
struct parameter {
	char given[PARAMETER_MAX]; /* "name=value", or "name" where it has no default */
	size_t name_len;
};

/* Take the parameter at the head's line ${*line} and go on to the next one.  Return false where
 * there is none any more. */
static bool
parameter_next(const char **line, struct parameter *p)
{
	const char *word;
	size_t n;

	for (; strncmp(*line, "-- ", 3) == 0; *line += strcspn(*line, "\n") + 1) {
		if ((*line)[3] != ':')
			continue;
		word = *line + 4;
		n = strcspn(word, " \n");
		snprintf(p->given, sizeof(p->given), "%.*s", (int)n, word);
		p->name_len = strcspn(p->given, "=");
		*line += strcspn(*line, "\n") + 1;
		return true;
	}
	return false;
}

/* ${given} is a "name=value" of the person, or "name:=value". */
static bool
names_it(const struct parameter *p, const char *given)
{
	return strncmp(given, p->given, p->name_len) == 0 && strcspn(given, ":=") == p->name_len;
}

static bool
is_given(const struct sql *s, const struct parameter *p)
{
	size_t i;

	for (i = 0; i < s->param_count; i++)
		if (names_it(p, s->params[i]))
			return true;
	return false;
}

static const struct sql_query *
query_named(const char *name)
{
	const struct sql_query *q;

	for (q = sql_queries; q->name != NULL; q++)
		if (strcmp(q->name, name) == 0)
			return q;
	return NULL;
}

static int
refuse_unknown(struct sql *s, const char *name)
{
	char list[NEAR_MAX] = "";
	const struct sql_query *q;

	for (q = sql_queries; q->name != NULL; q++)
		near_add(list, q->name, name);
	return refusal_set(s->refusal, "sql.query", "there is no query @%s%s", name, list);
}

/* What was given must be a parameter of the query: a slip would widen the answer. */
static int
given_known(struct sql *s, const struct sql_query *q)
{
	struct parameter p;
	const char *line;
	size_t i;
	bool known;

	for (i = 0; i < s->param_count; i++) {
		known = false;
		for (line = q->text; !known && parameter_next(&line, &p);)
			known = names_it(&p, s->params[i]);
		if (!known)
			return refusal_set(s->refusal, "sql.query", "@%s has no parameter %.*s",
			    q->name, (int)strcspn(s->params[i], ":="), s->params[i]);
	}
	return 0;
}

/* The defaults, kept in ${kept}, for what was not given; they live until ${s} is done. */
static int
defaults_add(struct sql *s, const struct sql_query *q)
{
	static struct parameter kept[16];
	const char *line = q->text;
	size_t n = 0;

	while (n < sizeof(kept) / sizeof(kept[0]) && parameter_next(&line, &kept[n])) {
		if (is_given(s, &kept[n]))
			continue;
		if (kept[n].given[kept[n].name_len] == '\0')
			return refusal_set(s->refusal, "sql.query", "@%s needs -p %s=VALUE",
			    q->name, kept[n].given);
		if (sql_param(s, kept[n++].given) != 0)
			return -1;
	}
	return 0;
}

static int
query_run(struct sql *s, const char *name)
{
	const struct sql_query *q = query_named(name);

	if (q == NULL)
		return refuse_unknown(s, name);
	if (given_known(s, q) != 0 || defaults_add(s, q) != 0)
		return -1;
	return sql_run(s, q->text);
}

int
sql_query_line(struct sql *s, char *line)
{
	size_t before = s->param_count;
	char *at = line + 1, *name, *word;
	int rc = 0;

	name = sql_word(&at);
	while (rc == 0 && (word = sql_word(&at)) != NULL)
		rc = sql_param(s, word);
	if (rc == 0)
		rc = query_run(s, name == NULL ? "" : name);
	s->param_count = before; /* they were for this query */
	return rc;
}

static void
query_json(FILE *f, const struct sql_query *q)
{
	const char *line = q->text, *answers = q->text + strlen("-- ");
	size_t len = strcspn(answers, "\n");
	struct parameter p;
	char all[512] = "";
	size_t n = 0;

	while (parameter_next(&line, &p) && n < sizeof(all))
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", n == 0 ? "" : " ", p.given);
	fputs("{\"name\":", f);
	text_json(f, q->name, strlen(q->name));
	fputs(",\"parameters\":", f);
	text_json(f, all, strlen(all));
	fputs(",\"answers\":", f);
	text_json(f, answers, len - (answers[len - 1] == '.'));
	fputs("}", f);
}

int
dot_queries(struct sql *s, const struct dot_line *line)
{
	const struct sql_query *q;
	char *json = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&json, &len);
	int rc = -1;

	if (f != NULL) {
		for (q = sql_queries; q->name != NULL; q++) {
			putc(q == sql_queries ? '[' : ',', f);
			query_json(f, q);
		}
		putc(']', f);
		rc = fclose(f);
	}
	rc = rc == 0 ? sql_show(s, LIST, json, line->word[0])
		     : refusal_set(s->refusal, "store.failed", "out of memory");
	free(json);
	return rc;
}
