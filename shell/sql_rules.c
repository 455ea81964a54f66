/* sql_rules.c: what must hold, read from the triggers and tables themselves. */
#include <ctype.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "shell/sql_dot.h"
#include "shell/text.h"

static const char OBJECTS[] = "SELECT tbl_name, name, sql FROM sqlite_schema"
			      " WHERE type IN ('trigger', 'table') AND sql IS NOT NULL"
			      " ORDER BY tbl_name, type = 'trigger', rowid";
static const char RULES[] =
    "SELECT value ->> 0 AS \"table\", value ->> 1 AS rule, value ->> 2 AS code,"
    " value ->> 3 AS sentence FROM json_each(?1)"
    " WHERE ?2 IS NULL OR value ->> 0 = ?2 OR value ->> 2 LIKE ?2 || '.%'";

static void
add_rule(FILE *out, const char *table, const char *rule, const char *code, const char *sentence)
{
	const char *texts[] = {table, rule, code, sentence};
	size_t i;

	fputs(ftello(out) > 1 ? ",[" : "[", out);
	for (i = 0; i < 4; i++) {
		fputs(i > 0 ? "," : "", out);
		text_json(out, texts[i], strlen(texts[i]));
	}
	putc(']', out);
}

/* The literal 'code|why' at ${p}, behind its quote, becomes two texts in ${code} of ${size}. */
static char *
take_literal(const char *p, char *code, size_t size)
{
	char *bar;
	size_t n;

	for (n = 0; *p != '\0' && n + 1 < size; p++) {
		if (*p == '\'' && *++p != '\'')
			break;
		code[n++] = *p;
	}
	code[n] = '\0';
	if ((bar = strchr(code, '|')) == NULL)
		return NULL;
	*bar = '\0';
	return bar + 1;
}

/* A trigger may say the same in several places: it is shown once. */
static void
rules_of_trigger(FILE *out, const char *table, const char *name, const char *sql)
{
	static const char raise[] = "RAISE(ABORT, '";
	char literal[REFUSAL_WHY_MAX], before[REFUSAL_WHY_MAX] = "", *why;
	const char *p = sql;

	while ((p = strstr(p, raise)) != NULL) {
		p += sizeof(raise) - 1;
		why = take_literal(p, literal, sizeof(literal));
		if (why == NULL || strcmp(why, before) == 0)
			continue;
		add_rule(out, table, name, literal, why);
		snprintf(before, sizeof(before), "%s", why);
	}
}

/* The end of the parenthesis that begins at ${p}; texts may hold more of them. */
static const char *
closing(const char *p)
{
	bool quoted = false;
	int depth = 0;

	for (; *p != '\0'; p++) {
		quoted ^= *p == '\'';
		depth += quoted ? 0 : (*p == '(') - (*p == ')');
		if (depth == 0)
			return p;
	}
	return p;
}

static const char *
line_start(const char *sql, const char *p)
{
	while (p > sql && p[-1] != '\n')
		p--;
	return p;
}

static void
write_check(FILE *out, const char *check, const char *end)
{
	const char *p;

	for (p = check + strcspn(check, "(") + 1; p < end; p++) {
		if (!isspace((unsigned char)*p))
			putc(*p, out);
		else if (!isspace((unsigned char)p[1]))
			putc(' ', out);
	}
}

static void
rule_of_check(FILE *out, const char *table, const char *sql, const char *check, const char *end)
{
	const char *line = line_start(sql, check), *comment = end + strcspn(end, "\n-");
	char *sentence = NULL;
	char column[64];
	size_t len;
	FILE *text;

	if (strncmp(comment, "--", 2) != 0 || (text = open_memstream(&sentence, &len)) == NULL)
		return;
	comment += strspn(comment, "- ");
	fprintf(text, "%.*s: ", (int)strcspn(comment, "\n"), comment);
	write_check(text, check, end);
	line += strspn(line, " \t");
	snprintf(column, sizeof(column), "%.*s", (int)strcspn(line, " ("), line);
	if (fclose(text) == 0)
		add_rule(out, table, strcmp(column, "CHECK") == 0 ? "(row)" : column, "", sentence);
	free(sentence);
}

/* CHECKs that a comment on their line says in words. */
static void
rules_of_table(FILE *out, const char *table, const char *sql)
{
	const char *p = sql, *end;

	while ((p = strstr(p, "CHECK (")) != NULL) {
		end = closing(p + 6);
		rule_of_check(out, table, sql, p, end);
		p = end;
	}
}

static int
read_rules(struct sql *s, FILE *out)
{
	struct stmt *q = store_sql(s->db, OBJECTS);
	const char *table, *name, *sql;
	int n;

	if (q == NULL)
		return refusal_set(s->refusal, "store.failed", "%s", store_refusal(s->db)->why);
	putc('[', out);
	while ((n = stmt_step(q)) == 1) {
		table = stmt_get_text(q, 0);
		name = stmt_get_text(q, 1);
		sql = stmt_get_text(q, 2);
		if (strncmp(sql, "CREATE TRIGGER", 14) == 0)
			rules_of_trigger(out, table, name, sql);
		else
			rules_of_table(out, table, sql);
	}
	putc(']', out);
	return n;
}

int
dot_rules(struct sql *s, const struct dot_line *line)
{
	char *json = NULL;
	size_t len;
	FILE *out;
	int rc;

	if ((out = open_memstream(&json, &len)) == NULL)
		return refusal_set(s->refusal, "store.failed", "out of memory");
	rc = read_rules(s, out);
	if (fclose(out) != 0)
		rc = refusal_set(s->refusal, "store.failed", "out of memory");
	if (rc == 0)
		rc = sql_show(s, RULES, json, line->word[0]);
	free(json);
	return rc;
}
