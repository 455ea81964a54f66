/* command.c: from a script to what it would do: the walk over its commands. */
#include <stdlib.h>
#include <string.h>

#include "engine/policy/command_part.h"

/* What the walk remembers of a command. */
struct seen {
	unsigned kind;
	bool bare;    /* a shell that reads its script */
	bool fed;     /* from a file, or by a redirection */
	bool piped;   /* from a pipe, its own or one around it */
	bool body;    /* from a here-document or a here-string */
	bool fetched; /* a substitution in it fetches something */
	bool says;    /* echo or printf */
	bool feeds;   /* what it writes is the script of a shell */
};

/* And of a node. */
struct place {
	uint32_t first_fetch; /* of a pipeline: the first stage that fetches, or SHELL_NONE */
	uint32_t last_shell;  /* and the last that runs what it reads, from 1; 0: none */
	uint32_t before;      /* of a stage: the node of the stage before it, or SHELL_NONE */
	uint32_t command;     /* of a stage: the simple command that it is, or SHELL_NONE */
	uint32_t newest;      /* of a pipeline: the stage seen last */
};

struct walk {
	struct look *l;
	const struct shell *script;
	struct seen *seen;
	struct place *place;
	struct args args;
};

static void
remember_program(struct command_report *report, const char *name)
{
	size_t i;

	if (report->program_count == COMMAND_PROGRAMS)
		return;
	for (i = 0; i < report->program_count; i++)
		if (strcmp(report->programs[i], name) == 0)
			return;
	strcpy(report->programs[report->program_count++], name);
}

static bool
is_number(const struct arg *arg)
{
	size_t i;

	for (i = 0; i < arg->len; i++)
		if (arg->s[i] < '0' || arg->s[i] > '9')
			return false;
	return arg->len > 0;
}

static bool
is_unknown(const struct arg *arg)
{
	return (arg->flags & (WORD_DYNAMIC | WORD_LITERAL)) == WORD_DYNAMIC;
}

static bool
is_assignment(const struct arg *arg)
{
	return arg->len > 1 && arg->s[0] != '=' && memchr(arg->s, '=', arg->len) != NULL;
}

/* How many words the option ${arg} of ${w} is: with its value, 2. */
static size_t
option_words(const struct wrapper *w, const struct arg *arg)
{
	const char *c;

	if (arg->s[1] == '-')
		return strchr(arg->s, '=') == NULL && option_long(arg, w->longs) ? 2 : 1;
	for (c = arg->s + 1; *c != '\0'; c++)
		if (strchr(w->values, *c) != NULL)
			return c[1] == '\0' ? 2 : 1;
	return 1;
}

static void
join_and_look(struct look *l, const struct arg *argv, size_t n, enum shell_dialect dialect)
{
	char *text;
	size_t len;

	if (n > 0 && args_join(l, argv, n, &text, &len) == 0)
		command_script(l, text, len, dialect);
}

/* Some words of a wrapper's own may be left out: then the program stands there already. */
static bool
is_program(const struct arg *arg)
{
	char name[COMMAND_NAME];

	program_name(arg, name);
	return program_named(name) != NULL || wrapper_named(name) != NULL;
}

/* Behind the wrapper argv[i]: the index of its command, or ${n} where there is none to look at. */
static size_t
skip_wrapper(struct look *l, const struct wrapper *w, const struct arg *argv, size_t n, size_t i)
{
	unsigned own = w->positionals;
	bool options = true;

	for (i++; i < n; i++) {
		if (options && arg_is(&argv[i], "--")) {
			options = false;
		} else if (options && argv[i].len > 1 && argv[i].s[0] == '-') {
			/* command -v only looks it up. */
			if (strcmp(w->name, "command") == 0 &&
			    (arg_is(&argv[i], "-v") || arg_is(&argv[i], "-V")))
				return n;
			if (strcmp(w->name, "env") == 0 && strncmp(argv[i].s, "-S", 2) == 0) {
				join_and_look(l, &argv[i + 1], n - i - 1, l->dialect);
				if (argv[i].len > 2)
					command_script(
					    l, argv[i].s + 2, argv[i].len - 2, l->dialect);
				return n;
			}
			i += option_words(w, &argv[i]) - 1;
		} else if (own > 0 && !is_program(&argv[i])) {
			own--;
		} else if (!is_unknown(&argv[i]) && !is_number(&argv[i]) &&
			   !(w->assigns && is_assignment(&argv[i]))) {
			return i;
		}
	}
	return n;
}

/* The script behind -c of su, script, flock and runuser: -c S, -lc S, --command=S. */
static void
look_at_c(struct look *l, const struct arg *argv, size_t n)
{
	const char *is;
	size_t i;

	for (i = 1; i < n; i++) {
		if (argv[i].len < 2 || argv[i].s[0] != '-')
			continue;
		is = strchr(argv[i].s, '=');
		if (argv[i].s[1] == '-' && is != NULL && option_long(&argv[i], " --command "))
			command_script(l, is + 1, strlen(is + 1), l->dialect);
		else if (i + 1 < n && (argv[i].s[1] == '-' ? option_long(&argv[i], " --command ")
							   : argv[i].s[argv[i].len - 1] == 'c'))
			command_script(l, argv[i + 1].s, argv[i + 1].len, l->dialect);
	}
}

/* The arguments of a shell: -c SCRIPT, also -lc and -c -x; a file; or nothing. */
static void
look_at_shell(struct look *l, const char *name, const struct arg *argv, size_t n)
{
	bool bash = strcmp(name, "sh") != 0 && strcmp(name, "dash") != 0, script = false;
	const struct arg *arg;
	size_t i;

	for (i = 1; i < n; i++) {
		arg = &argv[i];
		if (arg->len < 2 || (arg->s[0] != '-' && arg->s[0] != '+') || arg_is(arg, "--"))
			break;
		if (arg_is(arg, "--rcfile") || arg_is(arg, "--init-file") ||
		    (arg->s[1] != '-' &&
			(arg->s[arg->len - 1] == 'o' || arg->s[arg->len - 1] == 'O')))
			i++;
		script =
		    script || (arg->s[0] == '-' && arg->s[1] != '-' && strchr(arg->s, 'c') != NULL);
		if (arg->s[0] == '-' && arg->s[1] != '-' && strchr(arg->s, 's') != NULL)
			l->bare = true;
	}
	i += i < n && arg_is(&argv[i], "--");
	if (i >= n) {
		l->bare = l->bare || !script;
	} else if (script) {
		if (is_unknown(&argv[i]))
			l->report->categories |= RISK_UNSEEN_SCRIPT;
		command_script(l, argv[i].s, argv[i].len, bash ? SHELL_BASH : l->dialect);
	} else {
		l->bare = l->bare || arg_is(&argv[i], "-") || arg_is(&argv[i], "/dev/stdin");
	}
}

/* Programs that take a script as one of their words, and are no shells. */
static void
look_at_scripts(struct look *l, const char *name, const struct arg *argv, size_t n)
{
	const char *is;
	size_t i;

	if (strcmp(name, "eval") == 0) {
		for (i = 1; i < n; i++)
			if (is_unknown(&argv[i]))
				l->report->categories |= RISK_UNSEEN_SCRIPT;
		join_and_look(l, argv + 1, n - 1, l->dialect);
	} else if (strcmp(name, ".") == 0 || strcmp(name, "source") == 0) {
		if (n > 1 && (argv[1].flags & WORD_DYNAMIC) != 0)
			l->report->categories |= RISK_UNSEEN_SCRIPT;
	} else if (strcmp(name, "trap") == 0) {
		if (n > 2)
			command_script(l, argv[1].s, argv[1].len, l->dialect);
	} else if (strcmp(name, "alias") == 0) {
		for (i = 1; i < n; i++)
			if ((is = memchr(argv[i].s, '=', argv[i].len)) != NULL)
				command_script(l, is + 1,
				    argv[i].len - (size_t)(is + 1 - argv[i].s), l->dialect);
	} else if (strcmp(name, "su") == 0 || strcmp(name, "script") == 0) {
		look_at_c(l, argv, n);
	}
}

/* The program argv[0], behind all wrappers. */
static void
look_at_program(struct look *l, const char *name, const struct arg *argv, size_t n)
{
	const struct program *program = program_named(name);
	size_t i;

	remember_program(l->report, name);
	look_at_scripts(l, name, argv, n);
	/* The subscript of an array is evaluated, whatever its quotes say. */
	for (i = 1; i < n; i++)
		if (strstr(argv[i].s, "[$(") != NULL || strstr(argv[i].s, "[`") != NULL)
			l->report->categories |= RISK_UNSEEN_SCRIPT;
	if (program == NULL)
		return;
	l->kind = program->kind;
	if ((program->kind & PROGRAM_NETWORK) != 0)
		l->report->categories |= RISK_NETWORK;
	if ((program->kind & PROGRAM_DESTRUCTIVE) != 0)
		l->report->categories |= RISK_DESTRUCTIVE;
	if ((program->kind & PROGRAM_SHELL) != 0)
		look_at_shell(l, name, argv, n);
	if ((program->kind & PROGRAM_RULE) != 0)
		command_rule(l, name, argv, n);
	if (strcmp(name, "dd") == 0)
		for (i = 1; i < n; i++)
			if (strncmp(argv[i].s, "of=", 3) == 0)
				command_target(l, argv[i].s + 3);
	command_talks(l, program, name, argv, n);
}

static void
look_through(struct look *l, const struct arg *argv, size_t n)
{
	const struct wrapper *w;
	char name[COMMAND_NAME];
	size_t i = 0;

	if (is_unknown(&argv[0])) {
		l->report->categories |= RISK_UNKNOWN_PROGRAM;
		return;
	}
	while (i < n) {
		if ((argv[i].flags & WORD_DYNAMIC) != 0) {
			l->report->categories |= RISK_UNKNOWN_PROGRAM;
			return;
		}
		program_name(&argv[i], name);
		if ((w = wrapper_named(name)) == NULL) {
			look_at_program(l, name, argv + i, n - i);
			return;
		}
		remember_program(l->report, name);
		if (strcmp(name, "flock") == 0 || strcmp(name, "runuser") == 0)
			look_at_c(l, argv + i, n - i);
		if (strcmp(name, "watch") == 0)
			look_at_program(l, name, argv + i, n - i);
		i = skip_wrapper(l, w, argv, n, i);
		if (strcmp(name, "watch") == 0 || strcmp(name, "parallel") == 0) {
			join_and_look(l, argv + i, n - i, l->dialect);
			return;
		}
	}
}

void
command_argv(struct look *l, const struct arg *argv, size_t n)
{
	if (n == 0)
		return;
	if (l->inner >= COMMAND_DEEP) {
		l->report->categories |= RISK_UNSEEN_SCRIPT;
		return;
	}
	l->inner++;
	look_through(l, argv, n);
	l->inner--;
}

/* A function that starts itself beside itself. */
static void
look_for_bomb(struct walk *w, const struct shell_command *command, const char *name)
{
	const struct shell_node *node;
	bool forks = false;
	uint32_t i;

	for (i = command->node; i != SHELL_NONE; i = node->parent) {
		node = &w->script->nodes[i];
		forks = forks || node->kind == NODE_PIPELINE || node->kind == NODE_BACKGROUND ||
			node->kind == NODE_SUBSTITUTION;
		if (node->kind == NODE_FUNCTION && forks &&
		    strcmp(w->script->text + node->name, name) == 0)
			w->l->report->categories |= RISK_DESTRUCTIVE;
	}
}

/* What ${kind} of program stands in the pipelines and substitutions around ${command}. */
static void
mark_places(struct walk *w, const struct shell_command *command, unsigned kind)
{
	const struct shell_node *node;
	struct place *pipe;
	uint32_t i;

	for (i = command->node; i != SHELL_NONE; i = node->parent) {
		node = &w->script->nodes[i];
		if (node->kind == NODE_SUBSTITUTION && node->command != SHELL_NONE &&
		    (kind & PROGRAM_FETCH) != 0)
			w->seen[node->command].fetched = true;
		if (node->kind != NODE_STAGE || node->parent == SHELL_NONE ||
		    w->script->nodes[node->parent].kind != NODE_PIPELINE)
			continue;
		pipe = &w->place[node->parent];
		if ((kind & PROGRAM_FETCH) != 0 && node->number < pipe->first_fetch)
			pipe->first_fetch = node->number;
		if ((kind & (PROGRAM_SHELL | PROGRAM_INTERPRETER | PROGRAM_SOURCE)) != 0 &&
		    node->number + 1 > pipe->last_shell)
			pipe->last_shell = node->number + 1;
	}
}

/* Whether the command's input is a pipe, from here or from around. */
static bool
piped(const struct walk *w, const struct shell_command *command)
{
	const struct shell_node *node;
	uint32_t i;

	for (i = command->node; i != SHELL_NONE; i = node->parent) {
		node = &w->script->nodes[i];
		if (node->kind == NODE_STAGE && node->number > 0)
			return true;
	}
	return false;
}

static void
walk_command(struct walk *w, size_t i)
{
	const struct shell_command *command = &w->script->commands[i];
	struct seen *seen = &w->seen[i];
	struct look *l = w->l;

	if (args_build(l, w->script, command, &w->args) != 0 || w->args.count == 0)
		return;
	l->kind = 0;
	l->bare = false;
	seen->piped = piped(w, command);
	l->fed = seen->fed || seen->piped;
	command_argv(l, w->args.at, w->args.count);
	seen->kind = l->kind;
	seen->bare = l->bare || ((l->kind & PROGRAM_INTERPRETER) != 0 && w->args.count == 1);
	seen->says = arg_is(&w->args.at[0], "echo") || arg_is(&w->args.at[0], "printf");
	if (l->kind != 0)
		mark_places(w, command, l->kind);
	look_for_bomb(w, command, w->args.at[0].s);
}

/* Which stage stands before which, and which of them are simple commands. */
static void
walk_places(struct walk *w)
{
	const struct shell_node *node;
	size_t i;

	for (i = 0; i < w->script->node_count; i++)
		w->place[i] = (struct place){SHELL_NONE, 0, SHELL_NONE, SHELL_NONE, SHELL_NONE};
	for (i = 0; i < w->script->node_count; i++) {
		node = &w->script->nodes[i];
		if (node->kind != NODE_STAGE || node->parent == SHELL_NONE)
			continue;
		w->place[i].before = w->place[node->parent].newest;
		w->place[node->parent].newest = (uint32_t)i;
	}
	for (i = w->script->command_count; i-- > 0;)
		if (w->script->commands[i].node != SHELL_NONE)
			w->place[w->script->commands[i].node].command = (uint32_t)i;
}

static void
walk_redirects(struct walk *w)
{
	const struct shell_redirect *r;
	const char *target;
	size_t i;

	for (i = 0; i < w->script->redirect_count; i++) {
		r = &w->script->redirects[i];
		target = shell_text(w->script, &r->word);
		if (r->kind == REDIRECT_OUT ||
		    (r->kind == REDIRECT_IN && strncmp(target, "/dev/tcp/", 9) == 0))
			command_target(w->l, target);
		if (r->kind == REDIRECT_OUT || r->command == SHELL_NONE)
			continue;
		w->seen[r->command].fed = true;
		w->seen[r->command].body = r->kind != REDIRECT_IN;
	}
}

/* What a shell without a script reads: the words of echo, or what nobody sees. */
static void
look_at_source(struct walk *w, size_t i)
{
	const struct shell_command *command = &w->script->commands[i], *from;
	const struct shell_node *stage = &w->script->nodes[command->node];
	uint32_t before = SHELL_NONE, feeder = SHELL_NONE;

	if (stage->kind == NODE_STAGE && stage->number > 0)
		before = w->place[command->node].before;
	if (before != SHELL_NONE)
		feeder = w->place[before].command;
	if (feeder == SHELL_NONE) {
		w->l->report->categories |= RISK_UNSEEN_SCRIPT;
		return;
	}
	from = &w->script->commands[feeder];
	w->seen[feeder].feeds = true;
	if (!w->seen[feeder].says) {
		if (!w->seen[feeder].body)
			w->l->report->categories |= RISK_UNSEEN_SCRIPT;
		return;
	}
	if (args_build(w->l, w->script, from, &w->args) == 0 && w->args.count > 1)
		join_and_look(w->l, w->args.at + 1, w->args.count - 1, w->l->dialect);
}

/* Here-documents and here-strings that a shell runs. */
static void
walk_bodies(struct walk *w)
{
	const struct shell_redirect *r;
	size_t i;

	for (i = 0; i < w->script->redirect_count; i++) {
		r = &w->script->redirects[i];
		if ((r->kind != REDIRECT_BODY && r->kind != REDIRECT_STRING) ||
		    r->command == SHELL_NONE)
			continue;
		if (w->seen[r->command].feeds ||
		    (w->seen[r->command].bare && (w->seen[r->command].kind & PROGRAM_SHELL) != 0))
			command_script(
			    w->l, shell_text(w->script, &r->word), r->word.len, w->l->dialect);
	}
}

static void
walk_sources(struct walk *w)
{
	const struct seen *seen;
	size_t i;

	for (i = 0; i < w->script->command_count; i++) {
		seen = &w->seen[i];
		if (seen->fetched &&
		    (seen->kind & (PROGRAM_SHELL | PROGRAM_INTERPRETER | PROGRAM_SOURCE)) != 0)
			w->l->report->categories |= RISK_PIPED_INSTALLER;
		if (seen->bare && (seen->kind & PROGRAM_SHELL) != 0 && !seen->body &&
		    (seen->fed || seen->piped))
			look_at_source(w, i);
	}
	for (i = 0; i < w->script->node_count; i++)
		if (w->place[i].first_fetch != SHELL_NONE &&
		    w->place[i].first_fetch + 1 < w->place[i].last_shell)
			w->l->report->categories |= RISK_PIPED_INSTALLER;
	walk_bodies(w);
}

static void
walk_script(struct look *l, const struct shell *script)
{
	struct walk w = {.l = l, .script = script};
	size_t i;

	w.seen = calloc(script->command_count + 1, sizeof(*w.seen));
	w.place = calloc(script->node_count + 1, sizeof(*w.place));
	if (w.seen == NULL || w.place == NULL) {
		l->failed = true;
	} else {
		walk_places(&w);
		walk_redirects(&w);
		for (i = 0; i < script->command_count && !l->failed; i++)
			walk_command(&w, i);
		walk_sources(&w);
	}
	free(w.seen);
	free(w.place);
	free(w.args.at);
}

void
command_script(struct look *l, const char *text, size_t len, enum shell_dialect dialect)
{
	enum shell_dialect outer = l->dialect;
	unsigned kind = l->kind;
	bool bare = l->bare, fed = l->fed;
	struct shell *script;

	if (l->deep > COMMAND_DEEP) {
		l->report->categories |= RISK_UNSEEN_SCRIPT;
		return;
	}
	if (len > l->script) {
		l->report->categories |= RISK_UNPARSEABLE;
		return;
	}
	l->script -= len;
	if ((script = shell_parse(text, len, dialect, l->limits)) == NULL) {
		l->failed = true;
		return;
	}
	l->deep++;
	l->dialect = dialect;
	/* What one dialect does not take, the other may: but what neither takes is bash's no. */
	if (script->state != SHELL_GOOD && dialect == SHELL_BASH) {
		l->report->categories |= RISK_UNPARSEABLE;
		command_text(l, text, len);
	}
	walk_script(l, script);
	l->dialect = outer;
	l->deep--;
	l->kind = kind;
	l->bare = bare;
	l->fed = fed;
	shell_free(script);
}

int
command_look(
    const char *text, size_t len, const struct shell_limits *limits, struct command_report *report)
{
	static const enum shell_dialect dialects[] = {SHELL_BASH, SHELL_POSIX};
	struct look l;
	struct held *h;
	size_t i;
	bool failed = false;

	memset(report, 0, sizeof(*report));
	for (i = 0; i < 2; i++) {
		memset(&l, 0, sizeof(l));
		l.report = report;
		l.limits = limits;
		l.dialect = dialects[i];
		l.budget = 8 * len + (1 << 20);
		l.script = 2 * len + 65536;
		command_script(&l, text, len, dialects[i]);
		while ((h = l.held) != NULL) {
			l.held = h->next;
			free(h);
		}
		failed = failed || l.failed;
	}
	return failed ? -1 : 0;
}
