/* sql_complete.c: complete tables, columns, functions, keywords, commands and what they take. */
#include <ctype.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shell/sql_complete.h"
#include "shell/sql_dot.h"
#include "shell/sql_query.h"

#define NAME_MAX_BYTES 64
#define LISTED_MAX     200

#define BEGINS " substr(name, 1, length(:typed)) = :typed COLLATE NOCASE"

static const char TABLES[] =
    "SELECT name FROM pragma_table_list WHERE schema = 'main'"
    " AND type <> 'shadow' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND" BEGINS;
static const char VIEWS[] = "SELECT name FROM sqlite_schema WHERE type = 'view' AND" BEGINS;
static const char OBJECTS[] =
    "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND" BEGINS;
static const char COLUMNS[] =
    "SELECT name FROM pragma_table_xinfo(:table) WHERE hidden <> 1 AND" BEGINS;
/* Of the tables that the statement names; where it names none yet, of all. */
static const char NAMED_COLUMNS[] =
    "WITH t(name) AS MATERIALIZED (SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')),"
    " named(name) AS MATERIALIZED (SELECT name FROM t WHERE instr(:words, ' ' || name || ' '))"
    " SELECT DISTINCT name FROM (SELECT c.name FROM t JOIN pragma_table_xinfo(t.name) AS c"
    " WHERE c.hidden <> 1 AND (t.name IN named"
    " OR (:typed <> '' AND NOT EXISTS (SELECT 1 FROM named)))) WHERE" BEGINS;
static const char FUNCTIONS[] = "SELECT DISTINCT name || '(' FROM pragma_function_list"
				" WHERE :typed <> '' AND name GLOB '[a-z]*' AND" BEGINS;

/* What stands in the table of commands in capitals, and where its words come from. */
static const struct {
	const char *kind, *sql;
} kinds[] = {
    {"PATTERN", TABLES},
    {"TABLE", TABLES},
    {"NAME", OBJECTS},
    {"VIEW", VIEWS},
    {"ENTITY", "SELECT DISTINCT entity AS name FROM state_rule WHERE"
	       " substr(entity, 1, length(:typed)) = :typed COLLATE NOCASE"},
    {"SETTING", "SELECT name FROM setting WHERE" BEGINS},
    {"CODE", "SELECT code FROM refusal WHERE"
	     " substr(code, 1, length(:typed)) = :typed COLLATE NOCASE"},
};

static bool
is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || ((unsigned char)c & 0x80) != 0;
}

static void
add(struct completion *c, const char *word)
{
	size_t size = c->size == 0 ? 64 : c->size * 2;
	char **more;

	if (strlen(word) < c->typed)
		return;
	if (c->count == c->size) {
		if ((more = reallocarray(c->word, size, sizeof(*more))) == NULL)
			return;
		c->word = more;
		c->size = size;
	}
	if ((c->word[c->count] = strdup(word)) != NULL)
		c->count++;
}

static void
add_if(struct completion *c, const char *word, const char *typed)
{
	if (strncasecmp(word, typed, c->typed) == 0)
		add(c, word);
}

/* Add what the query gives; a parameter that it does not have is not bound. */
static void
add_rows(struct sql *s, struct completion *c, const char *sql, const char *typed, const char *name,
    const char *value)
{
	struct stmt *q = store_sql(s->db, sql);

	if (q == NULL)
		return;
	stmt_text(q, ":typed", typed);
	if (name != NULL)
		stmt_text(q, name, value);
	while (stmt_step(q) == 1)
		add(c, stmt_get_text(q, 0));
}

/* Keywords take the size of the letter that was typed. */
static void
add_keywords(struct completion *c, const char *typed)
{
	bool small = islower((unsigned char)*typed) != 0;
	int i, n, count = sqlite3_keyword_count();
	char word[NAME_MAX_BYTES];
	const char *keyword;
	size_t j;

	for (i = 0; *typed != '\0' && i < count; i++) {
		if (sqlite3_keyword_name(i, &keyword, &n) != SQLITE_OK || n >= NAME_MAX_BYTES)
			continue;
		for (j = 0; j < (size_t)n; j++)
			word[j] = small ? (char)tolower((unsigned char)keyword[j]) : keyword[j];
		word[n] = '\0';
		add_if(c, word, typed);
	}
}

/* The word before ${at}, in small letters; returns where it begins. */
static const char *
word_before(const char *text, const char *at, char word[NAME_MAX_BYTES])
{
	const char *end;
	size_t i, n;

	while (at > text && !is_word(at[-1]))
		at--;
	for (end = at; at > text && is_word(at[-1]); at--)
		;
	n = (size_t)(end - at) < NAME_MAX_BYTES ? (size_t)(end - at) : NAME_MAX_BYTES - 1;
	for (i = 0; i < n; i++)
		word[i] = (char)tolower((unsigned char)at[i]);
	word[n] = '\0';
	return at;
}

/* Columns behind "g.": of the table g, and of x where "x AS g" or "x g" stands somewhere. */
static void
add_qualified(
    struct sql *s, struct completion *c, const char *text, const char *dot, const char *typed)
{
	char qualifier[NAME_MAX_BYTES], word[NAME_MAX_BYTES], table[NAME_MAX_BYTES];
	const char *at = text + strlen(text), *before;

	word_before(text, dot, qualifier);
	add_rows(s, c, COLUMNS, typed, ":table", qualifier);
	while (c->count == 0 && at > text) {
		at = word_before(text, at, word);
		if (strcmp(word, qualifier) != 0)
			continue;
		before = word_before(text, at, table);
		if (strcmp(table, "as") == 0)
			word_before(text, before, table);
		add_rows(s, c, COLUMNS, typed, ":table", table);
	}
}

/* All words in small letters, with a blank around each. */
static char *
words_of(const char *text)
{
	size_t i, n = strlen(text);
	char *words = malloc(n + 3);

	if (words == NULL)
		return NULL;
	words[0] = words[n + 1] = ' ';
	words[n + 2] = '\0';
	for (i = 0; i < n; i++)
		words[i + 1] = is_word(text[i]) ? (char)tolower((unsigned char)text[i]) : ' ';
	return words;
}

static void
complete_sql(struct sql *s, struct completion *c, const char *text, const char *typed)
{
	char before[NAME_MAX_BYTES], *words;

	if (typed > text && typed[-1] == '.') {
		add_qualified(s, c, text, typed - 1, typed);
		return;
	}
	word_before(text, typed, before);
	add_rows(s, c, TABLES, typed, NULL, NULL);
	if (strcmp(before, "from") == 0 || strcmp(before, "join") == 0)
		return;
	if ((words = words_of(text)) != NULL)
		add_rows(s, c, NAMED_COLUMNS, typed, ":words", words);
	free(words);
	add_rows(s, c, FUNCTIONS, typed, NULL, NULL);
	add_keywords(c, typed);
}

/* The words that stand themselves in the table of commands: [local|utc|raw]. */
static void
add_literals(struct completion *c, const char *args, size_t len, const char *typed)
{
	char word[NAME_MAX_BYTES];
	size_t i, n = 0;

	for (i = 0; i <= len; i++) {
		if (i < len && isalpha((unsigned char)args[i]) && n + 1 < sizeof(word)) {
			word[n++] = args[i];
			continue;
		}
		word[n] = '\0';
		if (n > 0)
			add_if(c, word, typed);
		n = 0;
	}
}

static void
complete_kind(struct sql *s, struct completion *c, const char *kind, size_t len, const char *typed)
{
	const struct dot *d;
	const char *mode;
	size_t i;

	if (islower((unsigned char)*kind))
		add_literals(c, kind, len, typed);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strlen(kinds[i].kind) == len && strncmp(kinds[i].kind, kind, len) == 0)
			add_rows(s, c, kinds[i].sql, typed, NULL, NULL);
	}
	for (i = 0; strncmp(kind, "MODE", 4) == 0 && (mode = table_mode_name(i)) != NULL; i++)
		add_if(c, mode, typed);
	for (d = dots; strncmp(kind, "COMMAND", 7) == 0 && d->name != NULL; d++)
		add_if(c, d->name + (*typed != '.'), typed);
	for (i = 0; strncmp(kind, "FORM", 4) == 0 && i < 3; i++)
		add_if(c, (const char *[]){"dot", "picture", "table"}[i], typed);
}

/* The word number ${n}, from 1, of what a command takes; NULL past the last. */
static const char *
kind_of(const char *args, int n, size_t *len)
{
	for (;;) {
		args += strspn(args, " [");
		*len = strcspn(args, " ]");
		if (*args == '\0' || --n == 0)
			return *args == '\0' ? NULL : args;
		args += *len;
		args += strspn(args, "]");
	}
}

static const struct dot *
command_of(const char *text, size_t n)
{
	const struct dot *d;

	for (d = dots; d->name != NULL; d++) {
		if (strlen(d->name) == n && strncmp(d->name, text, n) == 0)
			return d;
	}
	return NULL;
}

/* The last word behind a command: such names have full stops. */
static void
complete_word(struct sql *s, struct completion *c, const struct dot *d, const char *behind)
{
	const char *kind, *typed = behind;
	size_t len;
	int n = 0;

	while (*typed != '\0' && typed[strcspn(typed, " \t")] != '\0') {
		typed += strcspn(typed, " \t");
		typed += strspn(typed, " \t");
		n++;
	}
	c->typed = strlen(typed);
	if ((kind = kind_of(d->args, n, &len)) != NULL)
		complete_kind(s, c, kind, len, typed);
}

static void
complete_query(struct completion *c, const char *typed)
{
	const struct sql_query *q;
	char name[80];

	c->typed = strlen(typed);
	for (q = sql_queries; q->name != NULL; q++) {
		snprintf(name, sizeof(name), "@%s", q->name);
		add_if(c, name, typed);
	}
}

static void
complete_dot(struct sql *s, struct completion *c, const char *text, const char *typed)
{
	size_t n = strcspn(text, " \t");
	const struct dot *d;

	if (text[n] == '\0') {
		c->typed = n;
		for (d = dots; d->name != NULL; d++)
			add_if(c, d->name, text);
		return;
	}
	if ((d = command_of(text, n)) == NULL)
		return;
	if (strcmp(d->args, "[SQL]") == 0)
		complete_sql(s, c, text + n, typed);
	else
		complete_word(s, c, d, text + n);
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
sort(struct completion *c)
{
	size_t i, n = 0;

	if (c->count == 0)
		return;
	qsort(c->word, c->count, sizeof(*c->word), by_name);
	for (i = 1; i < c->count; i++) {
		if (strcmp(c->word[i], c->word[n]) == 0)
			free(c->word[i]);
		else
			c->word[++n] = c->word[i];
	}
	c->count = n + 1;
}

static bool
inside_text(const char *text)
{
	bool inside = false;

	for (; *text != '\0'; text++)
		inside ^= *text == '\'';
	return inside;
}

void
sql_complete(struct sql *s, const char *text, struct completion *c)
{
	const char *typed = text + strlen(text);
	const char *first = sql_start(text);

	memset(c, 0, sizeof(*c));
	while (typed > text && is_word(typed[-1]))
		typed--;
	c->typed = strlen(typed);
	if (inside_text(text))
		return;
	if (*first == '@' && first[strcspn(first, " \t")] == '\0')
		complete_query(c, first);
	else if (*first == '.' || *first == '\0')
		complete_dot(s, c, first, typed);
	else
		complete_sql(s, c, first, typed);
	sort(c);
}

void
completion_free(struct completion *c)
{
	while (c->count > 0)
		free(c->word[--c->count]);
	free(c->word);
	memset(c, 0, sizeof(*c));
}

size_t
completion_common(const struct completion *c)
{
	size_t n, i;

	for (n = 0; c->count > 0 && c->word[0][n] != '\0'; n++) {
		for (i = 1; i < c->count; i++) {
			if (tolower((unsigned char)c->word[i][n]) !=
			    tolower((unsigned char)c->word[0][n]))
				return n;
		}
	}
	return n;
}

void
completion_list(FILE *out, const struct completion *c, int width)
{
	size_t count = c->count < LISTED_MAX ? c->count : LISTED_MAX, rows, i, j;
	int widest = 1, columns;

	for (i = 0; i < count; i++)
		widest = (int)strlen(c->word[i]) > widest ? (int)strlen(c->word[i]) : widest;
	columns = width / (widest + 2) > 0 ? width / (widest + 2) : 1;
	rows = (count + (size_t)columns - 1) / (size_t)columns;
	for (i = 0; i < rows; i++) {
		for (j = i; j < count; j += rows)
			fprintf(out, "%-*s", j + rows < count ? widest + 2 : 0, c->word[j]);
		putc('\n', out);
	}
	if (count < c->count)
		fprintf(out, "… and %zu more\n", c->count - count);
}
