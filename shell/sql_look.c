/* sql_look.c: commands that show what there is: each is one query. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "engine/store/embed.h"
#include "shell/near.h"
#include "shell/sql_clock.h"
#include "shell/sql_dot.h"

/* about() is of this file: the comment that stands above an object in schema/. */
#define OBJECTS                                                                                    \
	" FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'" \
	" AND (?1 IS NULL OR name LIKE '%' || ?1 || '%')"

static const char TABLES[] = "SELECT name, type, about(name) AS about" OBJECTS
			     " AND type <> 'shadow' ORDER BY type = 'view', name";
static const char VIEWS[] =
    "SELECT name, about(name) AS about" OBJECTS " AND type = 'view' ORDER BY name";
static const char NAMES[] =
    "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
static const char SCHEMA[] =
    "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND"
    " (?1 IS NULL OR name = ?1 COLLATE NOCASE OR tbl_name = ?1 COLLATE NOCASE)"
    " ORDER BY tbl_name, type NOT IN ('table', 'view'), name";
static const char INDEXES[] =
    "SELECT tbl_name AS \"table\", name AS \"index\","
    " (SELECT group_concat(coalesce(name, 'an expression'), ', ') FROM pragma_index_info(i.name))"
    " AS over, CASE WHEN sql LIKE 'CREATE UNIQUE %' OR sql IS NULL THEN 'yes' ELSE '' END AS \"unique\","
    " iif(instr(sql, 'WHERE ') > 0, substr(sql, instr(sql, 'WHERE ') + 6), '') AS only_where"
    " FROM sqlite_schema AS i WHERE type = 'index'"
    " AND (?1 IS NULL OR tbl_name LIKE '%' || ?1 || '%') ORDER BY tbl_name, name";
static const char TRIGGERS[] =
    "WITH t AS (SELECT tbl_name, name, replace(sql, char(10), ' ') AS sql FROM sqlite_schema"
    " WHERE type = 'trigger' AND (?1 IS NULL OR tbl_name LIKE '%' || ?1 || '%'))"
    " SELECT tbl_name AS \"table\", name AS \"trigger\", trim(substr(sql, 16 + length(name),"
    " instr(sql, ' ON ' || tbl_name) - 16 - length(name))) AS fires FROM t ORDER BY tbl_name, name";
static const char REFUSALS[] = "SELECT code, exit_code, http_status, advice FROM refusal"
			       " WHERE ?1 IS NULL OR code LIKE '%' || ?1 || '%' ORDER BY code";
static const char SETTINGS[] = "SELECT name, value, unit, low, high, doc FROM setting"
			       " WHERE ?1 IS NULL OR name LIKE '%' || ?1 || '%' ORDER BY name";

static const char HAPPENED[] =
    "SELECT EXISTS (SELECT 1 FROM audit WHERE entity = ?1 AND (?2 IS NULL OR entity_id = ?2))";
static const char LATELY[] =
    "SELECT * FROM (SELECT seq, at, who, entity, entity_id AS id, action, body FROM audit"
    " WHERE ?1 IS NULL OR entity = ?1 ORDER BY seq DESC LIMIT 20) ORDER BY seq";
static const char LIFE[] =
    "WITH l AS (SELECT seq, at, at - lag(at) OVER (ORDER BY seq) AS ms, who, action, body FROM audit"
    " WHERE entity = ?1 AND entity_id = ?2)"
    " SELECT seq, at, CASE WHEN ms IS NULL THEN '' WHEN ms < 1000 THEN ms || ' ms'"
    " WHEN ms < 120000 THEN round(ms / 1000.0, 1) || ' s'"
    " WHEN ms < 7200000 THEN ms / 60000 || ' min' WHEN ms < 172800000 THEN ms / 3600000 || ' h'"
    " ELSE ms / 86400000 || ' d' END AS after, who, action, body FROM l ORDER BY seq";

/* Whether a table or view of this name is made on this line.  (A trigger may have its name.) */
static bool
creates(const char *line, const char *name)
{
	static const char *const ways[] = {
	    "CREATE TABLE ", "CREATE VIEW ", "CREATE VIRTUAL TABLE "};
	size_t n = strlen(name), i, way;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		way = strlen(ways[i]);
		if (strncmp(line, ways[i], way) == 0 && strncmp(line + way, name, n) == 0 &&
		    strchr(" (\n", line[way + n]) != NULL)
			return true;
	}
	return false;
}

/* Append one line of a comment, without what begins it. */
static void
append_comment(FILE *out, const char *line, size_t n)
{
	size_t dashes = strspn(line, "- ");

	if (ftello(out) > 0)
		putc(' ', out);
	fwrite(line + dashes, 1, n - dashes, out);
}

/* The comment right above the line ${at} of ${text}. */
static void
comment_above(FILE *out, const char *text, const char *at)
{
	const char *first = at, *before;

	while (first > text) {
		for (before = first - 1; before > text && before[-1] != '\n'; before--)
			;
		if (strncmp(before, "--", 2) != 0)
			break;
		first = before;
	}
	for (; first < at; first += strcspn(first, "\n") + 1)
		append_comment(out, first, strcspn(first, "\n"));
}

/* Without one of its own, a table that a file is named after has that file's first line. */
static void
comment_of_file(FILE *out, const struct embedded *e, const char *name)
{
	const char *colon = strchr(e->text, ':');

	if (strcmp(e->name, name) == 0 && strncmp(e->text, "--", 2) == 0 && colon != NULL)
		append_comment(out, colon + 1, strcspn(colon + 1, "\n"));
}

static void
write_about(FILE *out, const char *name)
{
	const struct embedded *e;
	const char *line;

	for (e = embedded_schema; e->name != NULL; e++) {
		for (line = e->text; *line != '\0'; line += strcspn(line, "\n")) {
			line += *line == '\n';
			if (!creates(line, name))
				continue;
			comment_above(out, e->text, line);
			if (ftello(out) <= 0)
				comment_of_file(out, e, name);
			return;
		}
	}
}

/* Its length, without the full stop, or the colon before what is set apart. */
static int
first_sentence(const char *text, size_t len)
{
	const char *stop = strstr(text, ". "), *colon = strstr(text, ":  ");

	if (colon != NULL && (stop == NULL || colon < stop))
		stop = colon;
	if (stop != NULL)
		return (int)(stop - text);
	return (int)(len > 0 && text[len - 1] == '.' ? len - 1 : len);
}

static void
about(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	const char *name = (const char *)sqlite3_value_text(argv[0]);
	char *text = NULL;
	size_t len;
	FILE *out;

	(void)argc;
	if (name == NULL)
		return;
	if ((out = open_memstream(&text, &len)) == NULL) {
		sqlite3_result_error_nomem(ctx);
		return;
	}
	write_about(out, name);
	if (fclose(out) == 0)
		sqlite3_result_text(ctx, text, first_sentence(text, len), SQLITE_TRANSIENT);
	free(text);
}

static void
know_about(struct sql *s)
{
	sqlite3_create_function(store_handle(s->db), "about", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
	    NULL, about, NULL, NULL);
}

static bool
is_any(struct sql *s, const char *sql, const char *a, const char *b)
{
	struct stmt *q = store_sql(s->db, sql);
	sqlite3_stmt *stmt;

	if (q == NULL)
		return true; /* whoever asks fails by itself */
	stmt = stmt_handle(q);
	sqlite3_bind_text(stmt, 1, a, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, b, -1, SQLITE_STATIC);
	return stmt_value(q, 1) != 0;
}

int
dot_tables(struct sql *s, const struct dot_line *line)
{
	know_about(s);
	return sql_show(s, TABLES, line->word[0], NULL);
}

int
dot_views(struct sql *s, const struct dot_line *line)
{
	know_about(s);
	return sql_show(s, VIEWS, line->word[0], NULL);
}

static int
no_such_name(struct sql *s, const char *name)
{
	struct stmt *q = store_sql(s->db, NAMES);
	char near[NEAR_MAX] = "";

	while (q != NULL && stmt_step(q) == 1)
		near_add(near, stmt_get_text(q, 0), name);
	return refusal_set(s->refusal, "sql.error", "there is no %s%s", name, near);
}

int
dot_schema(struct sql *s, const struct dot_line *line)
{
	sqlite3_stmt *stmt;
	int rc, n = 0;

	rc = sqlite3_prepare_v2(store_handle(s->db), SCHEMA, -1, &stmt, NULL);
	if (rc != SQLITE_OK)
		return sql_failed(s, rc, SCHEMA);
	sqlite3_bind_text(stmt, 1, line->word[0], -1, SQLITE_STATIC);
	for (; (rc = sql_step(s, stmt)) == SQLITE_ROW && !ferror(s->out); n++)
		fprintf(s->out, "%s;\n", (const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		return sql_failed(s, rc, SCHEMA);
	return n > 0 ? 0 : no_such_name(s, line->word[0] == NULL ? "schema" : line->word[0]);
}

int
dot_indexes(struct sql *s, const struct dot_line *line)
{
	return sql_show(s, INDEXES, line->word[0], NULL);
}

int
dot_triggers(struct sql *s, const struct dot_line *line)
{
	return sql_show(s, TRIGGERS, line->word[0], NULL);
}

int
dot_refusals(struct sql *s, const struct dot_line *line)
{
	return sql_show(s, REFUSALS, line->word[0], NULL);
}

int
dot_settings(struct sql *s, const struct dot_line *line)
{
	return sql_show(s, SETTINGS, line->word[0], NULL);
}

int
dot_timeline(struct sql *s, const struct dot_line *line)
{
	const char *entity = line->word[0], *id = line->word[1];

	if (entity != NULL && !is_any(s, HAPPENED, entity, id))
		return refusal_set(s->refusal, "sql.error", "the audit knows no %s%s%s", entity,
		    id == NULL ? "" : " ", id == NULL ? "" : id);
	return id == NULL ? sql_show(s, LATELY, entity, NULL) : sql_show(s, LIFE, entity, id);
}
