/* sql_states.c: the state machines, as tables, as pictures, for Graphviz. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shell/near.h"
#include "shell/sql_dot.h"
#include "shell/text.h"

#define STATES     64  /* of one entity; more would be no picture */
#define PREFIX_MAX 512 /* of what stands left of a state */

static const char MACHINES[] =
    "SELECT entity,"
    " (SELECT group_concat(to_state, ', ') FROM state_rule AS b"
    "   WHERE b.entity = r.entity AND from_state = '') AS begins_as,"
    " count(*) AS moves,"
    " coalesce((SELECT group_concat(to_state, ', ') FROM (SELECT DISTINCT to_state"
    "   FROM state_rule AS f WHERE f.entity = r.entity AND NOT EXISTS (SELECT 1"
    "   FROM state_rule AS o WHERE o.entity = f.entity AND o.from_state = f.to_state)"
    "   ORDER BY to_state)), 'none') AS final"
    " FROM state_rule AS r GROUP BY entity ORDER BY entity";
static const char MOVES[] =
    "SELECT from_state, to_state, iif(EXISTS (SELECT 1 FROM state_rule AS o"
    " WHERE o.entity = r.entity AND o.from_state = r.to_state), '', 'final') AS then_it_is"
    " FROM state_rule AS r WHERE entity = ?1 ORDER BY from_state, to_state";
static const char EDGES[] = "SELECT from_state, to_state FROM state_rule WHERE entity = :entity";
static const char ENTITIES[] = "SELECT DISTINCT entity FROM state_rule";

struct state {
	char name[64];
	int depth; /* moves from birth; -1: not known yet */
	bool drawn;
	bool to[STATES];
	int moves;
};

/* State 0 is birth, "". */
struct machine {
	struct state states[STATES];
	int count;
};

static int
state_number(struct machine *m, const char *name)
{
	int i;

	for (i = 0; i < m->count; i++) {
		if (strcmp(m->states[i].name, name) == 0)
			return i;
	}
	if (m->count == STATES)
		return -1;
	snprintf(m->states[i].name, sizeof(m->states[i].name), "%s", name);
	m->states[i].depth = -1;
	return m->count++;
}

/* The least number of moves that leads to each state. */
static void
measure(struct machine *m)
{
	int i, j, depth, found = 1;

	m->states[0].depth = 0;
	for (depth = 0; found > 0; depth++) {
		found = 0;
		for (i = 0; i < m->count; i++) {
			for (j = 0; m->states[i].depth == depth && j < m->count; j++) {
				if (!m->states[i].to[j] || m->states[j].depth != -1)
					continue;
				m->states[j].depth = depth + 1;
				found++;
			}
		}
	}
}

/* Return 0, or -1 with the refusal: no such entity. */
static int
read_machine(struct sql *s, const char *entity, struct machine *m)
{
	struct stmt *q = store_sql(s->db, EDGES);
	int from, to, n = -1;

	memset(m, 0, sizeof(*m));
	state_number(m, "");
	if (q != NULL)
		stmt_text(q, ":entity", entity);
	while (q != NULL && (n = stmt_step(q)) == 1) {
		from = state_number(m, stmt_get_text(q, 0));
		to = state_number(m, stmt_get_text(q, 1));
		if (from == -1 || to == -1)
			continue;
		m->states[from].to[to] = true;
		m->states[from].moves++;
	}
	measure(m);
	return n == 0 ? 0
		      : refusal_set(s->refusal, "store.failed", "%s", store_refusal(s->db)->why);
}

static void draw(FILE *out, struct machine *m, int i, int depth, const char *prefix);

/* The moves of a state stand one below the other, to its right. */
static void
draw_moves(FILE *out, struct machine *m, int i, const char *prefix, int width)
{
	const struct state *from = &m->states[i];
	char deeper[PREFIX_MAX];
	int j, drawn = 0;
	bool last;

	for (j = 0; j < m->count; j++) {
		if (!from->to[j])
			continue;
		last = ++drawn == from->moves;
		if (drawn == 1)
			fputs(last ? " ──→ " : " ─┬→ ", out);
		else
			fprintf(out, "\n%s%*s%s", prefix, width, "", last ? "  └→ " : "  ├→ ");
		if (snprintf(deeper, sizeof(deeper), "%s%*s%s", prefix, width, "",
			last ? "     " : "  │  ") < PREFIX_MAX)
			draw(out, m, j, from->depth + 1, deeper);
	}
}

/* A state that lies on several ways is drawn with its moves once, where it is nearest to birth. */
static void
draw(FILE *out, struct machine *m, int i, int depth, const char *prefix)
{
	struct state *state = &m->states[i];
	const char *name = i == 0 ? "●" : state->name;

	fputs(name, out);
	if (state->moves == 0) {
		fputs(" ■", out);
		return;
	}
	if (state->drawn || state->depth != depth) {
		fputs(" …", out);
		return;
	}
	state->drawn = true;
	draw_moves(out, m, i, prefix, text_width(name, strlen(name)));
}

static void
draw_machine(FILE *out, struct machine *m, const char *entity)
{
	fprintf(out, "%s\n", entity);
	draw(out, m, 0, 0, "");
	fputs("\n\n● birth   ■ final   … see its moves elsewhere\n", out);
}

static void
dot_name(FILE *out, const char *name)
{
	putc('"', out);
	for (; *name != '\0'; name++)
		fprintf(out, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
	putc('"', out);
}

static void
write_graphviz(FILE *out, const struct machine *m, const char *entity)
{
	int i, j;

	fputs("digraph ", out);
	dot_name(out, entity);
	fputs(
	    " {\n\trankdir=LR;\n\tnode [shape=box, style=rounded];\n\t\"\" [shape=point];\n", out);
	for (i = 1; i < m->count; i++) {
		if (m->states[i].moves > 0)
			continue;
		putc('\t', out);
		dot_name(out, m->states[i].name);
		fputs(" [peripheries=2];\n", out);
	}
	for (i = 0; i < m->count; i++) {
		for (j = 0; j < m->count; j++) {
			if (!m->states[i].to[j])
				continue;
			putc('\t', out);
			dot_name(out, m->states[i].name);
			fputs(" -> ", out);
			dot_name(out, m->states[j].name);
			fputs(";\n", out);
		}
	}
	fputs("}\n", out);
}

static int
no_such_entity(struct sql *s, const char *entity)
{
	struct stmt *q = store_sql(s->db, ENTITIES);
	char near[NEAR_MAX] = "";

	while (q != NULL && stmt_step(q) == 1)
		near_add(near, stmt_get_text(q, 0), entity);
	return refusal_set(s->refusal, "sql.error", "no entity %s has states%s", entity,
	    *near == '\0' ? "; .states lists them" : near);
}

int
dot_states(struct sql *s, const struct dot_line *line)
{
	const char *entity = line->word[0], *form = line->word[1];
	struct machine *m;
	int rc;

	if (entity == NULL)
		return sql_show(s, MACHINES, NULL, NULL);
	if (form == NULL)
		form = !s->to_file && isatty(STDOUT_FILENO) && table_for_people(s->mode) ? "picture"
											 : "table";
	if ((m = malloc(sizeof(*m))) == NULL)
		return refusal_set(s->refusal, "store.failed", "out of memory");
	rc = read_machine(s, entity, m);
	if (rc == 0 && m->count == 1)
		rc = no_such_entity(s, entity);
	else if (rc == 0 && strcmp(form, "table") == 0)
		rc = sql_show(s, MOVES, entity, NULL);
	else if (rc == 0 && strcmp(form, "dot") == 0)
		write_graphviz(s->out, m, entity);
	else if (rc == 0 && strcmp(form, "picture") == 0)
		draw_machine(s->out, m, entity);
	else if (rc == 0)
		rc = refusal_set(s->refusal, "sql.error", "a form is picture, table or dot");
	free(m);
	return rc;
}
