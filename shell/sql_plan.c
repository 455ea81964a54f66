/* sql_plan.c: how SQLite goes about a query. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "shell/sql_clock.h"
#include "shell/sql_dot.h"
#include "shell/text.h"

#define PREFIX_MAX 256

struct step {
	int id, parent;
	char *detail;
};

struct plan {
	struct step *steps;
	size_t count;
};

/* ${how} before the SQL; more than one statement would be more than one answer. */
static char *
explained(struct sql *s, const struct dot_line *line, const char *how)
{
	const char *sql = dot_statement(s, line);
	char *text = NULL;

	if (sql == NULL)
		return NULL;
	if (asprintf(&text, "%s %s", how, sql) == -1) {
		refusal_set(s->refusal, "store.failed", "out of memory");
		return NULL;
	}
	return text;
}

/* Parameters have no say in a plan: they stay NULL. */
static int
prepare_plan(struct sql *s, const char *text, sqlite3_stmt **stmt)
{
	int rc;

	if (store_shows(s->db, text) != 0)
		return refusal_set(s->refusal, "sql.refused", "%s", store_refusal(s->db)->why);
	rc = sqlite3_prepare_v2(store_handle(s->db), text, -1, stmt, NULL);
	return rc == SQLITE_OK ? 0 : sql_failed(s, rc, text);
}

static int
add_step(struct plan *p, sqlite3_stmt *stmt)
{
	struct step *more = reallocarray(p->steps, p->count + 1, sizeof(*more));

	if (more == NULL)
		return -1;
	p->steps = more;
	more[p->count].id = sqlite3_column_int(stmt, 0);
	more[p->count].parent = sqlite3_column_int(stmt, 1);
	more[p->count].detail = strdup((const char *)sqlite3_column_text(stmt, 3));
	return more[p->count++].detail == NULL ? -1 : 0;
}

static bool
is_last_child(const struct plan *p, size_t i)
{
	size_t j;

	for (j = i + 1; j < p->count; j++) {
		if (p->steps[j].parent == p->steps[i].parent)
			return false;
	}
	return true;
}

static void
write_children(FILE *out, const struct plan *p, int parent, const char *prefix)
{
	char deeper[PREFIX_MAX];
	size_t i;
	bool last;

	for (i = 0; i < p->count; i++) {
		if (p->steps[i].parent != parent)
			continue;
		last = is_last_child(p, i);
		fprintf(out, "%s%s ", prefix, last ? "└─" : "├─");
		text_show(out, p->steps[i].detail, strlen(p->steps[i].detail));
		putc('\n', out);
		if (snprintf(deeper, sizeof(deeper), "%s%s", prefix, last ? "   " : "│  ") <
		    PREFIX_MAX)
			write_children(out, p, p->steps[i].id, deeper);
	}
}

int
dot_plan(struct sql *s, const struct dot_line *line)
{
	struct plan p = {NULL, 0};
	sqlite3_stmt *stmt = NULL;
	char *text = explained(s, line, "EXPLAIN QUERY PLAN");
	int rc = -1;

	if (text == NULL || prepare_plan(s, text, &stmt) == -1)
		goto done;
	while ((rc = sql_step(s, stmt)) == SQLITE_ROW) {
		if (add_step(&p, stmt) == -1)
			break;
	}
	if (rc == SQLITE_DONE)
		write_children(s->out, &p, 0, "");
	rc = rc == SQLITE_DONE ? 0 : sql_failed(s, rc == SQLITE_ROW ? SQLITE_NOMEM : rc, text);

done:
	sqlite3_finalize(stmt);
	while (p.count > 0)
		free(p.steps[--p.count].detail);
	free(p.steps);
	free(text);
	return rc;
}

int
dot_explain(struct sql *s, const struct dot_line *line)
{
	char *text = explained(s, line, "EXPLAIN");
	int rc;

	if (text == NULL)
		return -1;
	rc = store_shows(s->db, text) == 0
		 ? sql_show(s, text, NULL, NULL)
		 : refusal_set(s->refusal, "sql.refused", "%s", store_refusal(s->db)->why);
	free(text);
	return rc;
}
