/* test_verbs.c: from words to verbs: help, dispatch, the manual and completions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf.h>
#include <errno.h>
#include <glob.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "shell/verb.h"
#include "tests/program.h"
#include "tests/slower.h"

#define RUN(p, s, ...) program_run(p, s, NULL, (const char *const[]){__VA_ARGS__, NULL})

static int
setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	scratch_make(s, HOME_BOX);
	*state = s;
	return 0;
}

static int
teardown(void **state)
{
	scratch_drop(*state);
	free(*state);
	return 0;
}

static size_t
count_verbs(void)
{
	size_t n;

	for (n = 0; verbs[n].name != NULL; n++)
		;
	return n;
}

/* A usage that goes on is indented; and nothing else of a help ends long before its line does. */
static void
is_laid_out(const struct verb *v)
{
	const char *text = strstr(v->help, "\n\n"), *line, *next;
	size_t len, word;

	for (line = strchr(v->help, '\n') + 1; line < text; line = strchr(line, '\n') + 1)
		if (*line != ' ' && strncmp(line, "usage: ", 7) != 0)
			fail_msg("%s: %.60s", v->name, line);
	for (line = text + 2; *line != '\0'; line = next) {
		len = strcspn(line, "\n");
		next = line + len + (line[len] == '\n');
		word = strcspn(next, " \n");
		/* The next word had room here; what is indented is laid out by hand. */
		if (len > 0 && *line != ' ' && word > 0 && len + 1 + word < 56)
			fail_msg("%s: a line ends early: %.*s", v->name, (int)len, line);
	}
}

/* A verb without usage, or whose file has no comment, would be a verb that nobody finds. */
static void
every_verb_has_help(void **state)
{
	const struct verb *v;
	glob_t files;

	(void)state;
	for (v = verbs; v->name != NULL; v++) {
		assert_int_equal(strncmp(v->help, "usage: bastion ", 15), 0);
		assert_int_equal(strncmp(v->help + 15, v->name, strlen(v->name)), 0);
		assert_in_range(strlen(v->summary), 10, 120);
		assert_non_null(strstr(v->help, "\n\n"));
		assert_ptr_equal(verb_named(v->name), v);
		is_laid_out(v);
	}
	if (glob("shell/verb_*.c", 0, NULL, &files) != 0) {
		print_message("skipped: the sources are not here to compare with\n");
		skip();
	}
	assert_int_equal(files.gl_pathc, count_verbs());
	globfree(&files);
}

/* AW-01, RF-11: help lists every verb, and each takes no option that it does not have. */
static void
every_verb_is_listed_and_strict(void **state)
{
	struct scratch *s = *state;
	const char *words[4];
	char first[32], *second, line[64];
	struct program help, p;
	const struct verb *v;
	int n;

	RUN(&help, s, "help");
	assert_int_equal(help.code, 0);
	for (v = verbs; v->name != NULL; v++) {
		snprintf(line, sizeof(line), "\n  %s ", v->name);
		if (strstr(help.out, line) == NULL)
			fail_msg("%s is not listed", v->name);
		if ((v - verbs) % SLOWER != 0)
			continue;
		snprintf(first, sizeof(first), "%s", v->name);
		words[n = 0] = first;
		if ((second = strchr(first, ' ')) != NULL) {
			*second = '\0';
			words[++n] = second + 1;
		}
		words[++n] = "--no-such-option";
		words[++n] = NULL;
		program_run(&p, s, NULL, words);
		if (p.code != 2 || p.len != 0 || strstr(p.err, "--no-such-option") == NULL)
			fail_msg("%s: %d: %s%s", v->name, p.code, p.out, p.err);
		program_free(&p);
	}
	program_free(&help);
}

/* A list of nothing says so to a person, and is an empty array for programs. */
static void
no_list_is_silent(void **state)
{
	static const char *const lists[][2] = {{"approvals"}, {"contain"}, {"context"}, {"egress"},
	    {"egress", "tail"}, {"factor"}, {"grants"}, {"lock"}, {"op"}, {"ops", "dials"},
	    {"ops", "flows"}, {"pairings"}, {"quarantine"}, {"remote"}, {"sandbox", "grants"},
	    {"schedule"}, {"session"}, {"session", "asks"}, {"token"}, {"worker"}};
	struct scratch *s = *state;
	struct program p;
	size_t i;

	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const char *words[] = {lists[i][0], lists[i][1], NULL, NULL};

		program_run(&p, s, NULL, words);
		if (p.code != 0 || p.len < 10)
			fail_msg("%s: %d: %s%s", words[0], p.code, p.out, p.err);
		program_free(&p);
		words[words[1] == NULL ? 1 : 2] = "--json";
		program_run(&p, s, NULL, words);
		if (p.code != 0 || strcmp(p.out, "[]\n") != 0)
			fail_msg("%s --json: %d: %s%s", words[0], p.code, p.out, p.err);
		program_free(&p);
	}
}

/* Whether ${text} is JSON, or each line of it. */
static bool
is_json(sqlite3 *memory, const char *text)
{
	sqlite3_stmt *q;
	bool whole;

	assert_int_equal(
	    sqlite3_prepare_v2(memory,
		"WITH line (line, rest) AS (SELECT '', ?1 UNION ALL"
		"  SELECT substr(rest, 1, instr(rest, char(10)) - 1),"
		"    substr(rest, instr(rest, char(10)) + 1) FROM line WHERE rest <> '')"
		" SELECT json_valid(?1) OR (?1 LIKE '{%' AND NOT EXISTS"
		"  (SELECT 1 FROM line WHERE line <> '' AND NOT json_valid(line)))",
		-1, &q, NULL),
	    SQLITE_OK);
	sqlite3_bind_text(q, 1, text, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(q), SQLITE_ROW);
	whole = sqlite3_column_int(q, 0) != 0;
	sqlite3_finalize(q);
	return whole;
}

/* One call that takes --json: what it prints is JSON, and so is what refuses it. */
static void
prints_json(struct scratch *s, sqlite3 *memory, const char *call)
{
	const char *words[12];
	char copy[128], *word, *rest = copy;
	struct program p;
	size_t n = 0;

	snprintf(copy, sizeof(copy), "%s", call);
	while ((word = strsep(&rest, " ")) != NULL && n < 10)
		if (*word != '\0')
			words[n++] = word;
	words[n++] = "--json";
	words[n] = NULL;
	program_run(&p, s, NULL, words);
	if (p.len == 0 ? p.code == 0 || p.err[0] != '{' : !is_json(memory, p.out))
		fail_msg("%s --json: %d: %s%s", call, p.code, p.out, p.err);
	program_free(&p);
}

/* Take the first "[…]" out of ${line}, with those in it.  Return whether there was one. */
static bool
cut_option(char *line)
{
	char *from = strchr(line, '['), *to = from;
	int deep = 0;

	if (from == NULL)
		return false;
	do {
		deep += (*to == '[') - (*to == ']');
		to++;
	} while (deep > 0 && *to != '\0');
	memmove(from, to, strlen(to) + 1);
	return true;
}

/* The calls of one ${line} of usage that are words alone: "a b | c" is a b, and a c. */
static int
line_prints_json(struct scratch *s, sqlite3 *memory, const char *verb, const char *line)
{
	char text[160], call[128], *rest = text, *way;
	int n = 0;

	if (strstr(line, "--json") == NULL)
		return 0;
	snprintf(text, sizeof(text), "%s", line + strlen(verb));
	while (cut_option(text))
		;
	if (strpbrk(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != NULL)
		return 0;
	while ((way = strsep(&rest, "|")) != NULL) {
		snprintf(call, sizeof(call), "%s %s", verb, way);
		prints_json(s, memory, call);
		n++;
	}
	return n;
}

/* Whatever verb takes --json prints JSON, and nothing else: every call that is words alone. */
static void
what_takes_json_prints_it(void **state)
{
	struct scratch *box = *state, host;
	char help[8192], *rest, *line;
	const struct verb *v;
	sqlite3 *memory;
	int n = 0;

	assert_int_equal(sqlite3_open(":memory:", &memory), SQLITE_OK);
	scratch_make(&host, HOME_HOST);
	for (v = verbs; v->name != NULL; v++) {
		if ((v - verbs) % SLOWER != 0 || strcmp(v->name, "sql") == 0) /* as many as asked */
			continue;
		snprintf(help, sizeof(help), "%s", v->help);
		*strstr(help, "\n\n") = '\0';
		rest = help;
		while ((line = strsep(&rest, "\n")) != NULL)
			if ((line = strstr(line, "bastion ")) != NULL)
				n += line_prints_json(
				    strncmp(v->name, "host ", 5) == 0 ? &host : box, memory,
				    v->name, line + 8);
	}
	assert_true(n >= 50 / SLOWER);
	sqlite3_close(memory);
	scratch_drop(&host);
}

/* A command in an advice, up to where the sentence goes on. */
struct command {
	const char *words[16];
	int n;
};

static bool
one_of(const char *word, const char *const *list)
{
	for (; *list != NULL; list++)
		if (strcmp(word, *list) == 0)
			return true;
	return false;
}

static bool
is_lower(const char *word)
{
	return *word != '\0' && word[strspn(word, "abcdefghijklmnopqrstuvwxyz-")] == '\0' &&
	       *word != '-';
}

/* Cut the words that follow "bastion" out of ${text}, which is changed. */
static void
command_cut(struct command *c, char *text)
{
	static const char *const prose[] = {"again", "and", "for", "has", "it", "lists", "made",
	    "on", "once", "or", "prints", "reads", "runs", "says", "showed", "shows", "there",
	    NULL};
	char *word, *rest = text;

	c->n = 0;
	text[strcspn(text, ";,()")] = '\0';
	while ((word = strsep(&rest, " ")) != NULL && c->n < 15) {
		size_t len = strlen(word);
		bool last = len > 0 && word[len - 1] == ':';

		if (*word == '\'' && word[len - 1] != '\'' && rest != NULL)
			(void)strsep(&rest, "'"); /* one word, whatever is in it */
		if (last)
			word[len - 1] = '\0';
		if (c->n > 0 && one_of(word, prose) &&
		    (c->n > 1 || strcmp(c->words[0], "help") != 0))
			break;
		if (*word != '\0')
			c->words[c->n++] = word;
		if (last)
			break;
	}
	c->words[c->n] = NULL;
}

/* Whether ${word} stands in ${line} as a word of its own. */
static bool
has_word(const char *line, const char *word)
{
	size_t len = strlen(word);
	const char *at = line;

	for (; (at = strstr(at, word)) != NULL; at += len)
		if (strchr(" [|", at[-1]) != NULL && strchr(" ]|=\n", at[len]) != NULL)
			return true;
	return false;
}

/* Whether the words from ${i} on are a call as ${line} of the usage has it. */
static bool
line_takes(const struct command *c, int i, const char *verb, const char *line)
{
	const char *after = line + strlen(verb), *at;
	int values = 0, given = 0, literals = 0;
	char first[32] = "";

	for (at = after; *at != '\0'; at++)
		values += *at >= 'A' && *at <= 'Z' && strchr(" [=|", at[-1]) != NULL;
	for (; i < c->n; i++) {
		if (is_lower(c->words[i]) && !has_word(line, c->words[i]))
			return false;
		literals += is_lower(c->words[i]);
		given += !is_lower(c->words[i]) && c->words[i][0] != '-';
	}
	(void)sscanf(after, " %31s", first);
	return given <= values && (!is_lower(first) || literals > 0);
}

/* Return what is wrong with the command, or NULL. */
static const char *
command_fault(const struct command *c)
{
	static const char *const common[] = {"--help", "--json", NULL};
	char *argv[16], help[8192], *rest = help, *line;
	const struct verb *v;
	int words, i;

	for (i = 0; i < c->n; i++)
		argv[i] = (char *)(uintptr_t)c->words[i];
	argv[i] = NULL;
	if ((v = verb_find(c->n, argv, &words)) == NULL)
		return "there is no such verb";
	for (i = words; i < c->n; i++)
		if (c->words[i][0] == '-' && c->words[i][1] != '\0' &&
		    strcmp(c->words[i], "--") != 0 && !one_of(c->words[i], common) &&
		    !has_word(v->help, c->words[i]))
			return "there is no such option";
	if (strcmp(v->name, "help") == 0)
		return c->n == 1 || strcmp(c->words[1], "VERB") == 0 ||
			       verb_find(c->n - 1, argv + 1, &words) != NULL
			   ? NULL
			   : "there is no help on it";
	snprintf(help, sizeof(help), "%s", v->help);
	*strstr(help, "\n\n") = '\0';
	while ((line = strsep(&rest, "\n")) != NULL)
		if ((line = strstr(line, "bastion ")) != NULL &&
		    line_takes(c, words, v->name, line + 8))
			return NULL;
	return "it is not called so";
}

/* Every command that a refusal advises can be typed as it stands. */
static void
advice_can_be_typed(void **state)
{
	/* Where bastion is a name in a sentence, and no command. */
	static const char *const name[] = {
	    "and", "answers", "keeps", "may", "runs", "than", "that", NULL};
	static const char *const wrong[] = {"settings sandbox.unconfined 1", "setings",
	    "on BOX OP --dry", "grants keep 1", "help nothing", "factor --drop"};
	struct scratch *s = *state;
	struct command c;
	struct stmt *q;
	size_t i;
	int seen = 0;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s", wrong[i]);
		command_cut(&c, text);
		if (command_fault(&c) == NULL)
			fail_msg("passes: bastion %s", wrong[i]);
	}
	assert_non_null(q = store_sql(s->db, "SELECT code, advice FROM refusal"));
	while (stmt_step(q) == 1) {
		const char *at = stmt_get_text(q, 1);

		while ((at = strstr(at, "bastion ")) != NULL) {
			char text[REFUSAL_WHY_MAX];

			at += strlen("bastion ");
			snprintf(text, sizeof(text), "%s", at);
			command_cut(&c, text);
			if (one_of(c.words[0], name))
				continue;
			if (command_fault(&c) != NULL)
				fail_msg("%s: bastion %s: %s", stmt_get_text(q, 0), at,
				    command_fault(&c));
			seen++;
		}
	}
	assert_true(seen > 150);
}

/* What bastion remote login keeps of a machine. */
static void
keep_login(const struct scratch *s, const char *name, const char *address)
{
	char path[PATH_MAX + 64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/remotes", s->home.state);
	assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/remotes/%s", s->home.state, name);
	assert_non_null(f = fopen(path, "we"));
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	fprintf(f, "bastion-remote 1\naddress %s\npin %064d\ntoken %085d\n", address, 0, 0);
	assert_int_equal(fclose(f), 0);
}

/* A list that stands in no database is one as all others are; what is no list takes no form. */
static void
forms_are_served_or_refused(void **state)
{
	static const char *const said[][4] = {{"session", "logs", "x", NULL},
	    {"session", "attach", "x", NULL}, {"session", "export", "x", NULL}};
	struct scratch *s = *state;
	const char *words[5];
	struct program p;
	size_t i;

	RUN(&p, s, "remote", "login");
	assert_non_null(strstr(p.out, "No secret of another machine"));
	program_free(&p);
	RUN(&p, s, "remote", "login", "ls", "--json");
	assert_string_equal(p.out, "[]\n");
	program_free(&p);
	keep_login(s, "vm", "vm.example:7444");
	keep_login(s, "build", "[2001:db8::1]:7444");
	RUN(&p, s, "remote", "login", "ls", "--json");
	assert_string_equal(p.out, "[{\"name\":\"build\",\"address\":\"[2001:db8::1]:7444\"},\n"
				   "{\"name\":\"vm\",\"address\":\"vm.example:7444\"}]\n");
	program_free(&p);
	RUN(&p, s, "remote", "login", "--csv");
	assert_string_equal(
	    p.out, "name,address\r\nbuild,[2001:db8::1]:7444\r\nvm,vm.example:7444\r\n");
	program_free(&p);
	RUN(&p, s, "doctor", "--csv");
	assert_int_equal(strncmp(p.out, "check,level,what,advice\r\nbuilt in,ok,", 37), 0);
	assert_non_null(strstr(p.out, "\r\ndisk,ok,"));
	program_free(&p);
	for (i = 0; i < 2 * sizeof(said) / sizeof(said[0]); i++) {
		memcpy(words, said[i / 2], sizeof(said[0]));
		words[3] = i % 2 == 0 ? "--json" : "--csv";
		words[4] = NULL;
		program_run(&p, s, NULL, words);
		if (p.code != 2 || p.len != 0 || strstr(p.err, "--jsonl writes it") == NULL)
			fail_msg("%s %s: %d: %s%s", words[1], words[3], p.code, p.out, p.err);
		program_free(&p);
	}
}

/* AW-03: a state that cannot be made is said, by whatever would make one, and nothing is left. */
static void
a_state_that_cannot_be_made(void **state)
{
	static const char *const verbs_that_make[][3] = {
	    {"serve", NULL}, {"start", NULL}, {"host", "init", NULL}};
	struct scratch odd = *(struct scratch *)*state;
	char place[128];
	struct program p;
	struct stat st;
	size_t i;
	FILE *f;

	snprintf(place, sizeof(place), "%s/plain-file", odd.dir);
	assert_non_null(f = fopen(place, "we"));
	assert_int_equal(fclose(f), 0);
	snprintf(odd.home.state, sizeof(odd.home.state), "%s/state", place);
	for (i = 0; i < sizeof(verbs_that_make) / sizeof(verbs_that_make[0]); i++) {
		program_run(&p, &odd, NULL, verbs_that_make[i]);
		if (p.code == 0 || strstr(p.err, "Not a directory") == NULL)
			fail_msg("%s: %d: %s%s", verbs_that_make[i][0], p.code, p.out, p.err);
		program_free(&p);
	}
	assert_int_equal(stat(place, &st), 0);
	assert_int_equal(st.st_size, 0);
}

/* A state that is named by half is no other one: not the machine's, and none is made here. */
static void
a_relative_state_is_refused(void **state)
{
	static const char *const words[][4] = {{"factor", NULL}, {"status", NULL},
	    {"remote", "login", NULL}, {"serve", NULL}, {"host", "init", "h", NULL}};
	struct scratch odd = *(struct scratch *)*state;
	struct program p;
	struct stat st;
	size_t i;

	snprintf(odd.home.state, sizeof(odd.home.state), "mystate");
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		program_run(&p, &odd, NULL, words[i]);
		if (p.code != 3 || p.len != 0 ||
		    strstr(p.err, "STATE is no absolute path: \"mystate\" [store.place]\n") == NULL)
			fail_msg("%s: %d: %s%s", words[i][0], p.code, p.out, p.err);
		program_free(&p);
	}
	assert_int_equal(stat("mystate", &st), -1);
}

static void
two_words_go_before_one(void **state)
{
	char host[] = "host", status[] = "status", other[] = "other";
	char *two[] = {host, status, NULL}, *none[] = {host, other, NULL}, *one[] = {status, NULL};
	int count;

	(void)state;
	assert_string_equal(verb_find(2, two, &count)->name, "host status");
	assert_int_equal(count, 2);
	assert_null(verb_find(2, none, &count));
	assert_null(verb_find(1, two, &count));
	assert_string_equal(verb_find(1, one, &count)->name, "status");
	assert_int_equal(count, 1);
}

/* Help goes to standard output and ends with 0, however it is asked for, and opens no store. */
static void
help_is_no_error(void **state)
{
	static const char *const ways[][3] = {{NULL}, {"-h", NULL}, {"--help", NULL},
	    {"help", NULL}, {"help", "sql", NULL}, {"sql", "--help", NULL}, {"status", "-h", NULL},
	    {"host", "--help", NULL}, {"help", "host", NULL}};
	struct scratch *s = *state;
	struct program p;
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		program_run(&p, s, NULL, ways[i]);
		assert_int_equal(p.code, 0);
		assert_true(p.len > 40);
		assert_string_equal(p.err, "");
		program_free(&p);
	}
	RUN(&p, s, "settings", "set", "--help");
	assert_int_equal(p.code, 0);
	assert_int_equal(strncmp(p.out, "usage: bastion settings", 23), 0);
	program_free(&p);
}

static void
help_in_json(void **state)
{
	struct scratch *s = *state;
	struct program p, q;
	char path[PATH_MAX + 64];
	FILE *f;

	RUN(&p, s, "help", "--json");
	assert_int_equal(p.code, 0);
	snprintf(path, sizeof(path), "%s/help.sql", s->dir);
	assert_non_null(f = fopen(path, "we"));
	fputs("SELECT count(*) AS n FROM json_each('", f);
	for (const char *c = p.out; *c != '\0'; c++)
		fputs(*c == '\'' ? "''" : (char[]){*c, '\0'}, f);
	fputs("') WHERE value->>'help' LIKE 'usage: bastion ' || (value->>'name') || '%'", f);
	assert_int_equal(fclose(f), 0);
	RUN(&q, s, "sql", "--json", "-f", path);
	snprintf(path, sizeof(path), "[{\"n\":%zu}]\n", count_verbs());
	assert_string_equal(q.out, path);
	program_free(&p);
	program_free(&q);
}

/* RF-01: an unknown verb, word or option is one loud line, and exit 2. */
static void
wrong_words_are_loud(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "statsu");
	assert_int_equal(p.code, 2);
	assert_string_equal(p.out, "");
	assert_string_equal(p.err, "bastion: there is no verb statsu; near it: status "
				   "[usage.wrong]\n");
	program_free(&p);
	RUN(&p, s, "zzzzzz\033[2J");
	assert_int_equal(p.code, 2);
	assert_string_equal(p.err, "bastion: there is no verb zzzzzz\\x1b[2J; bastion help lists "
				   "them [usage.wrong]\n");
	program_free(&p);
	RUN(&p, s, "host", "statu");
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "near it: host status"));
	program_free(&p);
	RUN(&p, s, "host");
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "host needs a second word"));
	assert_non_null(strstr(p.err, "host init"));
	program_free(&p);
	RUN(&p, s, "status", "please");
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "bastion: status: unexpected word: please [usage.wrong]\n"
				      "usage: bastion status"));
	program_free(&p);
	RUN(&p, s, "version", "--jsno");
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "there is no option --jsno"));
	program_free(&p);
}

/* A line that is typed, and what is said of it. */
struct wrong {
	const char *line, *says;
};

static void
are_wrong(struct scratch *s, const struct wrong *wrong, size_t count)
{
	const char *words[10];
	char copy[128], *rest;
	struct program p;
	size_t i, n;

	for (i = 0; i < count; i += SLOWER) {
		rest = copy;
		snprintf(copy, sizeof(copy), "%s", wrong[i].line);
		for (n = 0; (words[n] = strsep(&rest, " ")) != NULL; n++)
			continue;
		program_run(&p, s, NULL, words);
		if (p.code != 2 || p.len != 0 || strstr(p.err, wrong[i].says) == NULL)
			fail_msg("%s: %d: %s", wrong[i].line, p.code, p.err);
		program_free(&p);
	}
}

/* A mistake is said of the word that was typed, with what the verb takes there. */
static void
mistakes_are_named(void **state)
{
	static const struct wrong wrong[] = {
	    {"egress tail -n x", "-n does not take \"x\": it takes a number from 1 on ["},
	    {"audit -n x", "-n does not take \"x\": it takes a number of rows ["},
	    {"sql -p x", "-p does not take \"x\": it takes NAME=VALUE ["},
	    {"egress allow x --user nobody2",
		"--user does not take \"nobody2\": there is no such user ["},
	    {"remote add x --root /nope",
		"--root does not take \"/nope\": No such file or directory ["},
	    {"on x y --for 3parsecs",
		"--for does not take \"3parsecs\": it takes 30s, 10m, 2h or 3d ["},
	    {"schedule add x --missed no -- true",
		"--missed does not take \"no\": it takes run|skip ["},
	    {"worker add x --net yes -- true",
		"--net does not take \"yes\": it takes none | lane | host ["},
	    {"run --allow -- true", "--allow needs a value ["},
	    {"run --deny --ask -- true", "--deny needs a value ["},
	    {"egress check", "check takes HOST[:PORT] ["},
	    {"egress allow", "allow takes WHAT[:PORT] ["},
	    {"egress tail x", "tail takes no further word ["},
	    {"egress chek x", "unexpected word: chek; near it: check ["},
	    {"schedule foo", "unexpected word: foo ["},
	    {"schedule show", "show takes NAME ["},
	    {"lock check x", "check takes NAME FENCE ["},
	    {"factor drop", "drop takes ID ["},
	    {"audit nonsense", "unexpected word: nonsense ["},
	    {"stop now", "unexpected word: now ["},
	};
	struct scratch *s = *state;
	struct program p;

	are_wrong(s, wrong, sizeof(wrong) / sizeof(wrong[0]));
	RUN(&p, s, "egress", "check", "--json");
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "\"advice\":\"see bastion help egress\""));
	program_free(&p);
}

/* The same mistake ends with the same code, whatever it is about. */
static void
families_end_alike(void **state)
{
	static const char *const families[][2] = {{"'%.exists'", "3"}, {"'%.unknown%'", "2"},
	    {"'%\\_unknown'", "2"}, {"'%.invalid'", "2"}};
	static const char reasons[] =
	    "("
	    "'act.exists',"     /* of an op: what it was to make is there, on another's machine */
	    "'egress.unknown'," /* no rule speaks of it: that is a rule's no */
	    "'egress.own_unknown'," /* the kernel did not say; nothing was named wrong */
	    "'invitation.unknown'," /* who tries codes is not told more than no */
	    "'pairing.invalid'"     /* a state of it */
	    ")";
	struct scratch *s = *state;
	char sql[1024];
	size_t i;

	for (i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		snprintf(sql, sizeof(sql),
		    "SELECT count(*) FROM refusal WHERE code LIKE %s ESCAPE '\\'", families[i][0]);
		assert_true(scratch_value(s, sql) > 0);
		snprintf(sql, sizeof(sql),
		    "SELECT count(*) FROM refusal WHERE code LIKE %s ESCAPE '\\' AND exit_code <> %s"
		    " AND code NOT IN %s",
		    families[i][0], families[i][1], reasons);
		if (scratch_value(s, sql) != 0)
			fail_msg("%s: one of them ends with another code", families[i][0]);
		snprintf(sql, sizeof(sql),
		    "SELECT count(*) FROM refusal WHERE code LIKE %s ESCAPE '\\' AND exit_code = %s"
		    " AND code IN %s AND code <> 'act.exists'",
		    families[i][0], families[i][1], reasons);
		assert_int_equal(scratch_value(s, sql), 0);
	}
}

/* What is JSON in a list stays JSON. */
static void
lists_keep_their_json(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "worker", "add", "w", "--read", "/usr", "--", "true", "x");
	assert_int_equal(p.code, 0);
	program_free(&p);
	RUN(&p, s, "worker", "--json");
	assert_non_null(strstr(p.out, "\"args\":[\"true\",\"x\"],"));
	assert_non_null(strstr(p.out, "\"paths\":[{\"kind\":\"read\",\"path\":\"/usr\"}],"));
	program_free(&p);
}

/* What is to be done next is said of what is wrong, not of something near it. */
static void
advice_fits_the_mistake(void **state)
{
	static const struct wrong wrong[] = {
	    {"audit verify /nope", "/nope: No such file or directory [file.missing]"},
	    {"audit verify --checkpoint /nope", "[file.missing]"},
	    {"run --ro /nope -- true", "/nope: No such file or directory [file.missing]"},
	    {"sandbox try --read /nope -- true", "/nope: No such file or directory [file.missing]"},
	    {"worker add w --read /nope -- true",
		"/nope: No such file or directory [file.missing]"},
	    {"sql -f /nope", "/nope: No such file or directory [file.missing]"},
	    {"schedule add x --daily 02:00 --cwd /nope -- true", "[file.missing]"},
	    {"session run --cwd /nope -- true", "[file.missing]"},
	    {"remote login x host.example:1 --ca /nope", "[file.missing]"},
	    {"audit export /nope/x", "[file.write]"},
	    {"audit search (", "NOT before one to leave it out"},
	    {"audit verify --key x", "see bastion help audit"},
	    {"host egress nobody --off", "[box.gone]"},
	};
	struct scratch *s = *state;

	are_wrong(s, wrong, sizeof(wrong) / sizeof(wrong[0]));
}

static void
versions(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "--version");
	assert_int_equal(p.code, 0);
	assert_int_equal(strncmp(p.out, "bastion " BASTION_VERSION ", schema ", 16), 0);
	program_free(&p);
	RUN(&p, s, "version", "--json");
	assert_non_null(strstr(p.out, "\"bastion\":\"" BASTION_VERSION "\""));
	program_free(&p);
}

static int
shell(struct scratch *s, const char *format)
{
	char command[PATH_MAX + 256];
	int status;

	setenv("BASTION_STATE", s->home.state, 1);
	setenv("BASTION_RUN", s->home.run, 1);
	setenv("PROGRAM", program_path(), 1);
	snprintf(command, sizeof(command), "exec 2>/dev/null; %s", format);
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Output that went nowhere is not success. */
static void
lost_output_is_noticed(void **state)
{
	struct scratch *s = *state;

	assert_int_equal(shell(s, "\"$PROGRAM\" version >/dev/full"), 1);
	assert_int_equal(shell(s, "\"$PROGRAM\" version >&-"), 1);
	assert_int_equal(shell(s, "\"$PROGRAM\" settings --json >/dev/full"), 1);
	assert_int_equal(shell(s, "\"$PROGRAM\" version >/dev/null <&- 2>&-"), 0);
	/* Whoever reads may leave at any time: the query ends with it. */
	assert_int_equal(shell(s, "{ \"$PROGRAM\" sql --csv --timeout 60s \"WITH RECURSIVE c(x) AS"
				  " (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c\";"
				  " echo $? >\"$BASTION_STATE/../code\"; } | head -1 >/dev/null;"
				  " exit $(cat \"$BASTION_STATE/../code\")"),
	    1);
}

/* With descriptors closed, no message ends up in the database. */
static void
closed_descriptors_hold_nothing(void **state)
{
	struct scratch *s = *state;

	assert_int_equal(shell(s, "\"$PROGRAM\" settings set op.live 63 <&- >&- 2>&-"), 0);
	assert_int_equal(scratch_value(s, "SELECT value FROM setting WHERE name = 'op.live'"), 63);
	assert_int_equal(scratch_value(s, "SELECT count(*) FROM pragma_integrity_check"
					  " WHERE integrity_check = 'ok'"),
	    1);
}

static const char *
built(char path[PATH_MAX], const char *name)
{
	snprintf(path, PATH_MAX, "%s", program_path());
	strcpy(strrchr(path, '/') + 1, name);
	return access(path, R_OK) == 0 ? path : NULL;
}

/* The manual has every verb and renders without a warning. */
static void
the_manual_renders(void **state)
{
	char path[PATH_MAX], command[2 * PATH_MAX];
	const struct verb *v;

	(void)state;
	if (built(path, "bastion.1") == NULL || system("man --version >/dev/null 2>&1") != 0) {
		print_message("skipped: no manual was built, or there is no man\n");
		skip();
	}
	snprintf(command, sizeof(command),
	    "LC_ALL=C.UTF-8 man --warnings -l %s 2>&1 >/dev/null | grep -q . && exit 1; exit 0",
	    path);
	assert_int_equal(system(command), 0);
	for (v = verbs; v->name != NULL; v++) {
		/* A dash of a name is a minus there, so that it can be copied. */
		snprintf(command, sizeof(command), "sed 's/\\\\-/-/g' %s | grep -qxF '.SS %s'",
		    path, v->name);
		assert_int_equal(system(command), 0);
	}
}

/* Settings change within their bounds, as a person, and nothing else of them does. */
static void
settings_change_within_bounds(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "settings", "set", "audit.seal_ms", "2m");
	assert_int_equal(p.code, 0);
	program_free(&p);
	assert_int_equal(
	    scratch_value(s, "SELECT value FROM setting WHERE name = 'audit.seal_ms'"), 120000);
	RUN(&p, s, "settings", "set", "audit.seal_ms", "99999d");
	assert_non_null(strstr(p.err, "[setting.range]"));
	program_free(&p);
	RUN(&p, s, "settings", "set", "audit.seal_ms", "soon");
	assert_int_equal(p.code, 2);
	program_free(&p);
	RUN(&p, s, "settings", "set", "no.such", "1");
	assert_non_null(strstr(p.err, "[setting.unknown]"));
	program_free(&p);
	RUN(&p, s, "settings", "audit.seal_m");
	assert_int_equal(p.code, 2);
	assert_non_null(strstr(p.err, "of this name; near it: audit.seal_ms [setting.unknown]"));
	program_free(&p);
	RUN(&p, s, "settings", "set", "audit.sael_ms", "1");
	assert_non_null(strstr(p.err, "near it: audit.seal_ms"));
	program_free(&p);
	RUN(&p, s, "settings", "--csv");
	assert_int_equal(strncmp(p.out, "name,value,unit,low,high,doc\r\n", 30), 0);
	assert_non_null(strstr(p.out, "audit.seal_ms,120000,ms,100,86400000,"));
	program_free(&p);
}

/* A daemon that runs: this very process, or one of its pid that started at another time. */
static void
set_running(struct scratch *s, bool alive)
{
	struct identity self;
	char sql[1024];

	assert_int_equal(identity_of(getpid(), &self), 0);
	snprintf(sql, sizeof(sql),
	    "INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
	    " SELECT '%s', %d, %lld, 0, 'test', now_ms();"
	    "INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (7, 'box', 1, '0.1.0', '/run/bastion', now_ms());"
	    "UPDATE instance SET state = 'ready', ready_at = now_ms();"
	    "INSERT INTO actor_run (instance_id, actor, attempt, started_at)"
	    " VALUES (1, 'keeper', 3, now_ms());"
	    "UPDATE actor_run SET state = 'running', process_id = 1;",
	    self.boot_id, (int)getpid(), (long long)self.start_ticks + (alive ? 0 : 1));
	assert_int_equal(scratch_sql(s, sql), 0);
}

/* Status says whether anything runs, for people and for programs, and by its exit code. */
static void
status_says_what_runs(void **state)
{
	struct scratch *s = *state;
	struct program p;

	RUN(&p, s, "status");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.out, "not running, and never was"));
	assert_non_null(strstr(p.out, "nobody can approve"));
	program_free(&p);
	set_running(s, true);
	RUN(&p, s, "status");
	assert_int_equal(p.code, 0);
	assert_non_null(strstr(p.out, "ready, pid "));
	assert_non_null(strstr(p.out, "keeper  running"));
	program_free(&p);
	RUN(&p, s, "status", "--json");
	assert_int_equal(p.code, 0);
	assert_non_null(strstr(p.out, "\"running\":true"));
	assert_non_null(strstr(p.out, "\"epoch\":7"));
	assert_non_null(strstr(p.out, "\"restarts\":2"));
	assert_null(strstr(p.out, "\"rss_bytes\":null"));
	program_free(&p);
	assert_int_equal(scratch_sql(s, "UPDATE instance SET state = 'draining', draining_at = "
					"now_ms(); UPDATE instance SET state = 'ended', ended_at = "
					"now_ms(), end_reason = 'signal TERM'"),
	    0);
	RUN(&p, s, "status", "--json");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.out, "\"running\":false,\"state\":\"ended\""));
	assert_non_null(strstr(p.out, "\"end_reason\":\"signal TERM\""));
	program_free(&p);
}

/* An instance whose process is gone did not end: it is lost, and is not said to run. */
static void
status_sees_a_dead_daemon(void **state)
{
	struct scratch *s = *state;
	struct program p;

	set_running(s, false);
	RUN(&p, s, "status");
	assert_int_equal(p.code, 1);
	assert_non_null(strstr(p.out, "died without a word"));
	program_free(&p);
	RUN(&p, s, "status", "--json");
	assert_non_null(strstr(p.out, "\"running\":false,\"state\":\"lost\""));
	program_free(&p);
}

/* Each write is one message of the socket. */
static void
a_line_is_one_write(void **state)
{
	char line[512];
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
	if ((pid = fork()) == 0) {
		dup2(ends[1], STDERR_FILENO);
		execl(program_path(), "bastion", "stauts", (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 2);
	n = recv(ends[0], line, sizeof(line) - 1, MSG_DONTWAIT);
	assert_true(n > 0);
	line[n] = '\0';
	assert_ptr_equal(strchr(line, '\n'), line + n - 1);
	close(ends[0]);
	close(ends[1]);
}

/*
 * What every thread has of its own is set to zero at the start of every verb and of every thread:
 * buffers that were kept there cost a third of the time of both.
 */
static void
threads_keep_little(void **state)
{
	Elf64_Ehdr head;
	Elf64_Phdr p;
	size_t kept = 0;
	FILE *f = fopen(program_path(), "re");
	int i;

	(void)state;
	assert_non_null(f);
	assert_int_equal(fread(&head, sizeof(head), 1, f), 1);
	assert_memory_equal(head.e_ident, ELFMAG, SELFMAG);
	for (i = 0; i < head.e_phnum; i++) {
		assert_int_equal(
		    fseek(f, (long)(head.e_phoff + (size_t)i * sizeof(p)), SEEK_SET), 0);
		assert_int_equal(fread(&p, sizeof(p), 1, f), 1);
		if (p.p_type == PT_TLS)
			kept += p.p_memsz;
	}
	fclose(f);
	assert_true(kept < 4096);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_verb_has_help),
	    cmocka_unit_test_setup_teardown(every_verb_is_listed_and_strict, setup, teardown),
	    cmocka_unit_test_setup_teardown(no_list_is_silent, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_takes_json_prints_it, setup, teardown),
	    cmocka_unit_test_setup_teardown(forms_are_served_or_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(advice_can_be_typed, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_relative_state_is_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_state_that_cannot_be_made, setup, teardown),
	    cmocka_unit_test(two_words_go_before_one),
	    cmocka_unit_test_setup_teardown(help_is_no_error, setup, teardown),
	    cmocka_unit_test_setup_teardown(help_in_json, setup, teardown),
	    cmocka_unit_test_setup_teardown(wrong_words_are_loud, setup, teardown),
	    cmocka_unit_test_setup_teardown(mistakes_are_named, setup, teardown),
	    cmocka_unit_test_setup_teardown(families_end_alike, setup, teardown),
	    cmocka_unit_test_setup_teardown(lists_keep_their_json, setup, teardown),
	    cmocka_unit_test_setup_teardown(advice_fits_the_mistake, setup, teardown),
	    cmocka_unit_test_setup_teardown(versions, setup, teardown),
	    cmocka_unit_test(a_line_is_one_write),
	    cmocka_unit_test(threads_keep_little),
	    cmocka_unit_test_setup_teardown(lost_output_is_noticed, setup, teardown),
	    cmocka_unit_test_setup_teardown(closed_descriptors_hold_nothing, setup, teardown),
	    cmocka_unit_test(the_manual_renders),
	    cmocka_unit_test_setup_teardown(settings_change_within_bounds, setup, teardown),
	    cmocka_unit_test_setup_teardown(status_says_what_runs, setup, teardown),
	    cmocka_unit_test_setup_teardown(status_sees_a_dead_daemon, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
