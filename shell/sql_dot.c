/* sql_dot.c: the table of the shell's commands, and those about the shell itself. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shell/near.h"
#include "shell/sql_dot.h"
#include "shell/sql_file.h"

#define BLANKS " \t\r\n\f\v"

static int dot_help(struct sql *s, const struct dot_line *line);
static int dot_mode(struct sql *s, const struct dot_line *line);
static int dot_once(struct sql *s, const struct dot_line *line);
static int dot_output(struct sql *s, const struct dot_line *line);
static int dot_quit(struct sql *s, const struct dot_line *line);
static int dot_read(struct sql *s, const struct dot_line *line);
static int dot_timer(struct sql *s, const struct dot_line *line);
static int dot_times(struct sql *s, const struct dot_line *line);

/* The manual is made from these lines by dots.awk. */
const struct dot dots[] = {
    {".tables", "[PATTERN]", "tables and views, and what each is for", dot_tables},
    {".views", "[PATTERN]", "the views: questions that are answered already", dot_views},
    {".schema", "[NAME]", "what tables are made of, with their rules", dot_schema},
    {".indexes", "[TABLE]", "indexes, and over what", dot_indexes},
    {".triggers", "[TABLE]", "triggers, and when each fires", dot_triggers},
    {".states", "[ENTITY [FORM]]", "state machines; of one, as picture, table or dot", dot_states},
    {".rules", "[ENTITY]", "what must hold, and what is said when it does not", dot_rules},
    {".refusals", "[CODE]", "every code that callers are shown, with its advice", dot_refusals},
    {".queries", "[WORD]", "questions that are kept under a name: type @NAME", dot_queries},
    {".settings", "[SETTING]", "every limit, with its bounds", dot_settings},
    {".timeline", "[ENTITY [ID]]", "what happened of late, or to one row: the audit", dot_timeline},
    {".who", "", "who runs here, and who holds leases and locks", dot_who},
    {".watch", "[SQL]", "show a query anew at each commit; q leaves", dot_watch},
    {".plan", "[SQL]", "how SQLite goes about a query, or the last one", dot_plan},
    {".explain", "[SQL]", "the program that SQLite makes of it", dot_explain},
    {".mode", "[MODE]", "table, box, line, markdown, csv, json, jsonl or quote", dot_mode},
    {".times", "[local|utc|raw]", "how times are shown to people", dot_times},
    {".timer", "[on|off]", "say how long each statement took", dot_timer},
    {".output", "[FILE]", "write what follows to FILE, or show it again", dot_output},
    {".once", "FILE", "write the next result alone to FILE", dot_once},
    {".read", "FILE", "run the statements of a file", dot_read},
    {".help", "[COMMAND]", "this list, or one line of it", dot_help},
    {".quit", "", "leave, as do Ctrl-D and exit", dot_quit},
    {NULL, NULL, NULL, NULL},
};

/* What fingers bring along from psql and sqlite3, and what it is here. */
static const struct {
	const char *typed, *here;
} habits[] = {
    {"\\d", ".schema NAME, or .tables for all of them"},
    {"\\dt", ".tables"},
    {"\\dv", ".views"},
    {"\\di", ".indexes"},
    {"\\l", ".who: there is one database"},
    {"\\x", ".mode line"},
    {"\\o", ".output FILE"},
    {"\\i", ".read FILE"},
    {"\\timing", ".timer on"},
    {"\\watch", ".watch"},
    {"\\?", ".help"},
    {"\\h", ".help"},
    {".databases", ".who: there is one database"},
    {".describe", ".schema NAME"},
    {".dump", "bastion backup FILE, outside of this shell"},
    {".backup", "bastion backup FILE, outside of this shell"},
    {".fullschema", ".schema"},
    {".headers", ".mode: all of them but json and line have a head"},
    {".show", ".mode, .times and .timer without a word"},
    {".width", "not needed: columns fit the terminal"},
};

static int
wrong(struct sql *s, const char *name, const char *args)
{
	return refusal_set(
	    s->refusal, "sql.error", "it is used so: %s%s%s", name, *args == '\0' ? "" : " ", args);
}

static const struct dot *
dot_named(const char *name)
{
	const struct dot *d;

	for (d = dots; d->name != NULL; d++) {
		if (strcmp(d->name, name) == 0)
			return d;
	}
	return NULL;
}

static int
unknown(struct sql *s, const char *name)
{
	const struct dot *d;
	char near[NEAR_MAX] = "";
	size_t i;

	for (i = 0; i < sizeof(habits) / sizeof(habits[0]); i++) {
		if (strcmp(habits[i].typed, name) == 0)
			return refusal_set(
			    s->refusal, "sql.error", "%s is here %s", name, habits[i].here);
	}
	for (d = dots; d->name != NULL; d++)
		near_add(near, d->name, name);
	return refusal_set(s->refusal, "sql.error", "there is no command %s%s", name,
	    *near == '\0' ? "; .help has them" : near);
}

char *
sql_word(char **at)
{
	char *word = *at + strspn(*at, BLANKS), *end;

	if (*word == '\0')
		return NULL;
	if ((*word == '\'' || *word == '"') && (end = strchr(word + 1, *word)) != NULL)
		word++;
	else
		end = word + strcspn(word, BLANKS);
	*at = *end == '\0' ? end : end + 1;
	*end = '\0';
	return word;
}

/* How many words ${args} has room for; and how many there must be. */
static void
words_taken(const char *args, int *least, int *most)
{
	*least = *most = 0;
	while (*(args += strspn(args, BLANKS)) != '\0') {
		*least += *args != '[';
		*most += 1;
		args += strcspn(args, BLANKS);
	}
}

static bool
names_file(const struct dot *d)
{
	return strstr(d->args, "FILE") != NULL;
}

/* Fingers end every line with one. */
static void
forgive_semicolon(char *line)
{
	size_t n = strlen(line);

	while (n > 0 && strchr(BLANKS ";", line[n - 1]) != NULL)
		line[--n] = '\0';
}

static int
run_dot(struct sql *s, const struct dot *d, char *behind)
{
	struct dot_line line = {.rest = behind + strspn(behind, BLANKS)};
	char *at, *copy, *word = NULL;
	int least, most, rc;

	if (names_file(d) && !s->talks)
		return refusal_set(s->refusal, "sql.refused",
		    "%s names a file, which only a person does who types it", d->name);
	words_taken(d->args, &least, &most);
	if (strcmp(d->args, "[SQL]") != 0)
		forgive_semicolon(behind);
	if ((at = copy = strdup(behind)) == NULL)
		return refusal_set(s->refusal, "store.failed", "out of memory");
	while (line.count < DOT_WORDS && (word = sql_word(&at)) != NULL)
		line.word[line.count++] = word;
	if (strcmp(d->args, "[SQL]") != 0 && (line.count < least || line.count > most))
		rc = wrong(s, d->name, d->args);
	else
		rc = d->run(s, &line);
	free(copy);
	return rc;
}

int
sql_dot(struct sql *s, const char *text)
{
	size_t n = strcspn(text, BLANKS ";");
	const struct dot *d;
	char *name, *behind;
	int rc;

	name = strndup(text, n);
	behind = strdup(text + n + (text[n] == ';'));
	if (name == NULL || behind == NULL)
		rc = refusal_set(s->refusal, "store.failed", "out of memory");
	else if (strcmp(name, ".exit") == 0 || strcmp(name, "\\q") == 0)
		rc = 1;
	else if ((d = dot_named(name)) == NULL)
		rc = unknown(s, name);
	else
		rc = run_dot(s, d, behind);
	free(name);
	free(behind);
	return rc;
}

const char *
dot_statement(struct sql *s, const struct dot_line *line)
{
	if (*line->rest != '\0')
		return line->rest;
	if (s->last == NULL)
		refusal_set(
		    s->refusal, "sql.error", "there was no statement yet: put one behind it");
	return s->last;
}

static int
dot_quit(struct sql *s, const struct dot_line *line)
{
	(void)s;
	(void)line;
	return 1;
}

static int
dot_help(struct sql *s, const struct dot_line *line)
{
	const char *name = line->word[0];
	const struct dot *d;
	int n = 0;

	for (d = dots; d->name != NULL; d++) {
		if (name != NULL && strcmp(d->name + (*name != '.'), name) != 0)
			continue;
		fprintf(s->out, "%-9s %-15s %s\n", d->name, d->args, d->about);
		n++;
	}
	if (n == 0)
		return unknown(s, name);
	if (name == NULL)
		fputs(
		    "\nSQL ends with a semicolon and may take several lines; it only reads. Files are\n"
		    "overwritten. Tab completes, Ctrl-R looks back, Ctrl-C ends a running query.\n",
		    s->out);
	return 0;
}

static int
dot_mode(struct sql *s, const struct dot_line *line)
{
	enum cli_mode mode;
	const char *name;
	size_t i;

	if (line->count == 1)
		return table_mode(line->word[0], &s->mode) == 0
			   ? 0
			   : refusal_set(s->refusal, "sql.error",
				 "a mode is table, box, line, markdown, csv, json, jsonl or quote");
	for (i = 0; (name = table_mode_name(i)) != NULL; i++) {
		if (table_mode(name, &mode) == 0 && mode == s->mode)
			fprintf(s->out, "%s\n", name);
	}
	return 0;
}

static int
dot_times(struct sql *s, const struct dot_line *line)
{
	static const char *const names[] = {"local", "utc", "raw"};
	size_t i;

	if (line->count == 0) {
		fprintf(s->out, "%s\n", names[s->times]);
		return 0;
	}
	for (i = 0; i < 3; i++) {
		if (strcmp(names[i], line->word[0]) == 0) {
			s->times = (enum table_times)i;
			return 0;
		}
	}
	return wrong(s, ".times", "[local|utc|raw]");
}

static int
dot_timer(struct sql *s, const struct dot_line *line)
{
	if (line->count == 0) {
		fputs(s->timer ? "on\n" : "off\n", s->out);
		return 0;
	}
	if (strcmp(line->word[0], "on") != 0 && strcmp(line->word[0], "off") != 0)
		return wrong(s, ".timer", "[on|off]");
	s->timer = strcmp(line->word[0], "on") == 0;
	return 0;
}

static int
write_to(struct sql *s, const char *path, bool once)
{
	bool there = path != NULL && access(path, F_OK) == 0;

	if (sql_file_write(s, path, once) == -1)
		return -1;
	if (there)
		fprintf(stderr, "%s is overwritten\n", path);
	return 0;
}

static int
dot_output(struct sql *s, const struct dot_line *line)
{
	return write_to(s, line->word[0], false);
}

static int
dot_once(struct sql *s, const struct dot_line *line)
{
	return write_to(s, line->word[0], true);
}

/* A file names no further ones: talks is off while it is read. */
static int
dot_read(struct sql *s, const struct dot_line *line)
{
	FILE *out = s->out;
	char *text;
	int rc;

	if ((text = sql_file_read(line->word[0], s->refusal)) == NULL)
		return -1;
	s->talks = false;
	rc = sql_run(s, text);
	s->talks = true;
	s->out = out;
	free(text);
	return rc;
}
