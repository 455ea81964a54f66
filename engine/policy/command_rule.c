/* command_rule.c: programs whose arguments decide what they do. */
#include <stdio.h>
#include <string.h>

#include "engine/policy/command_part.h"

/* Subcommands that use the network; each word is one of the first that are no options. */
static const struct {
	const char *program, *first, *second;
} networked[] = {
    {"apt", "install", NULL},
    {"apt", "update", NULL},
    {"apt", "upgrade", NULL},
    {"apt-get", "install", NULL},
    {"apt-get", "update", NULL},
    {"apt-get", "upgrade", NULL},
    {"bun", "add", NULL},
    {"bun", "install", NULL},
    {"bun", "publish", NULL},
    {"cargo", "install", NULL},
    {"cargo", "publish", NULL},
    {"dnf", "install", NULL},
    {"dnf", "upgrade", NULL},
    {"docker", "pull", NULL},
    {"docker", "push", NULL},
    {"docker", "login", NULL},
    {"gem", "install", NULL},
    {"gh", "api", NULL},
    {"gh", "release", "download"},
    {"gh", "repo", "clone"},
    {"git", "clone", NULL},
    {"git", "fetch", NULL},
    {"git", "ls-remote", NULL},
    {"git", "pull", NULL},
    {"git", "push", NULL},
    {"go", "get", NULL},
    {"npm", "add", NULL},
    {"npm", "ci", NULL},
    {"npm", "i", NULL},
    {"npm", "install", NULL},
    {"npm", "login", NULL},
    {"npm", "publish", NULL},
    {"openssl", "s_client", NULL},
    {"openssl", "s_server", NULL},
    {"pip", "download", NULL},
    {"pip", "install", NULL},
    {"pip3", "download", NULL},
    {"pip3", "install", NULL},
    {"pnpm", "add", NULL},
    {"pnpm", "install", NULL},
    {"pnpm", "publish", NULL},
    {"yarn", "add", NULL},
    {"yarn", "publish", NULL},
    {"yum", "install", NULL},
    {"yum", "update", NULL},
};

/* Commands of more words that want a person at a terminal. */
static const struct {
	const char *program, *sub; /* "": none */
	const char *letters, *longs;
	const char *opens, *instead;
} openers[] = {
    {"git", "rebase", "i", " --interactive ", "git rebase -i",
	"write the todo list by GIT_SEQUENCE_EDITOR, or rebase without -i"},
    {"git", "add", "i", " --interactive ", "git add -i", "name the files to add"},
    {"git", "add", "p", " --patch ", "git add -p", "name the files to add, or git apply --cached"},
    {"git", "commit", "p", " --patch ", "git commit -p", "git add the files, then commit with -m"},
    {"tail", "", "fF", " --follow ", "tail -f", "tail -n 100, and again later"},
    {"journalctl", "", "f", " --follow ", "journalctl -f", "journalctl -n 100 --no-pager"},
    {"kubectl", "logs", "f", " --follow ", "kubectl logs -f", "kubectl logs --tail 100"},
    {"docker", "logs", "f", " --follow ", "docker logs -f", "docker logs --tail 100"},
    {"docker", "attach", NULL, NULL, "docker attach", "docker logs --tail 100"},
};

/* Whether ${arg} is an option: a long one of ${longs}, or a cluster with one of ${letters}. */
static bool
option_is(const struct arg *arg, const char *letters, const char *longs)
{
	size_t i;

	if (arg->len < 2 || arg->s[0] != '-')
		return false;
	if (arg->s[1] == '-')
		return option_long(arg, longs);
	for (i = 1; i < arg->len; i++)
		if (arg->s[i] != '\0' && strchr(letters, arg->s[i]) != NULL)
			return true;
	return false;
}

/* The word number ${nth} of the arguments that is no option, or NULL. */
static const struct arg *
positional(const struct arg *argv, size_t n, const char *values, unsigned nth)
{
	bool options = true;
	size_t i, last;

	for (i = 1; i < n; i++) {
		if (options && arg_is(&argv[i], "--")) {
			options = false;
		} else if (options && argv[i].len > 1 && argv[i].s[0] == '-') {
			/* -p 22: the value is no word of its own; -p22 brings it along. */
			last = argv[i].len - 1;
			if (argv[i].s[1] != '-' && argv[i].s[last] != '\0' &&
			    strchr(values, argv[i].s[last]) != NULL)
				i++;
		} else if (nth-- == 0) {
			return &argv[i];
		}
	}
	return NULL;
}

/* A path without its doubled slashes and dots: "//", "/./", "/../" are "/". */
static bool
is_root(const char *s)
{
	if (*s != '/')
		return false;
	s += strspn(s, "/.");
	return strcmp(s, "") == 0 || strcmp(s, "*") == 0;
}

/* What nobody removes by mistake twice: the root, a home, everything that is here. */
static bool
is_everything(const struct arg *arg)
{
	static const char *const homes[] = {"~", "$HOME"};
	const char *rest;
	size_t i;

	if (is_root(arg->s) || strcmp(arg->s, "*") == 0)
		return true;
	for (i = 0; i < 2; i++) {
		if (strncmp(arg->s, homes[i], strlen(homes[i])) != 0)
			continue;
		rest = arg->s + strlen(homes[i]);
		if (strcmp(rest, "") == 0 || strcmp(rest, "/") == 0 || strcmp(rest, "/*") == 0)
			return true;
	}
	return false;
}

static bool
is_system(const char *s)
{
	static const char *const trees[] = {"etc", "usr", "bin", "sbin", "lib", "lib64", "var",
	    "boot", "opt", "root", "sys", "proc", "dev"};
	size_t i, n;

	if (is_root(s))
		return true;
	if (*s != '/')
		return false;
	s += strspn(s, "/");
	for (i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		n = strlen(trees[i]);
		if (strncmp(s, trees[i], n) == 0 && (s[n] == '\0' || s[n] == '/'))
			return true;
	}
	return false;
}

static void
rule_rm(struct look *l, const struct arg *argv, size_t n)
{
	bool recursive = false, force = false, flag = false, everything = false, options = true;
	size_t i;

	for (i = 1; i < n; i++) {
		if (options && arg_is(&argv[i], "--")) {
			options = false;
		} else if (options && argv[i].len > 1 && argv[i].s[0] == '-') {
			flag = true;
			recursive = recursive || option_is(&argv[i], "rR", " --recursive ");
			force = force || option_is(&argv[i], "f", " --force ");
		} else {
			everything = everything || is_everything(&argv[i]);
		}
	}
	if ((recursive && force) || (flag && everything))
		l->report->categories |= RISK_DESTRUCTIVE;
}

static void
rule_chmod(struct look *l, const struct arg *argv, size_t n)
{
	bool recursive = false, open = false, system = false;
	size_t i;

	for (i = 1; i < n; i++) {
		recursive = recursive || option_is(&argv[i], "rR", " --recursive ");
		open = open || arg_is(&argv[i], "777") || arg_is(&argv[i], "0777") ||
		       arg_is(&argv[i], "a+rwx") || arg_is(&argv[i], "ugo+rwx");
		system = system || is_system(argv[i].s);
	}
	if (open && (recursive || system))
		l->report->categories |= RISK_DESTRUCTIVE;
}

static void
rule_chown(struct look *l, const struct arg *argv, size_t n)
{
	size_t i;

	for (i = 1; i < n; i++)
		if (option_is(&argv[i], "R", " --recursive "))
			l->report->categories |= RISK_DESTRUCTIVE;
}

/* find -exec CMD ; and -delete from the root or a home on. */
static void
rule_find(struct look *l, const struct arg *argv, size_t n)
{
	bool everything = false;
	size_t i, end;

	for (i = 1; i < n; i++) {
		everything = everything || is_everything(&argv[i]);
		if (arg_is(&argv[i], "-delete") && everything)
			l->report->categories |= RISK_DESTRUCTIVE;
		if (!arg_is(&argv[i], "-exec") && !arg_is(&argv[i], "-execdir") &&
		    !arg_is(&argv[i], "-ok") && !arg_is(&argv[i], "-okdir"))
			continue;
		for (end = i + 1; end < n && !arg_is(&argv[end], ";") && !arg_is(&argv[end], "+");
		     end++)
			;
		if (end > i + 1)
			command_argv(l, argv + i + 1, end - i - 1);
		i = end;
	}
}

/* python -m http.server and python -m pip. */
static void
rule_python(struct look *l, const struct arg *argv, size_t n)
{
	size_t i;

	for (i = 1; i + 1 < n; i++) {
		if (!arg_is(&argv[i], "-m"))
			continue;
		if (arg_is(&argv[i + 1], "http.server"))
			l->report->categories |= RISK_NETWORK;
		else if (arg_is(&argv[i + 1], "pip"))
			command_rule(l, "pip", argv + i + 1, n - i - 1);
		return;
	}
}

static void
rule_networked(struct look *l, const char *name, const struct arg *argv, size_t n)
{
	const struct program *program = program_named(name);
	const struct arg *first, *second;
	size_t i;

	if ((first = positional(argv, n, program == NULL ? "" : program->values, 0)) == NULL)
		return;
	second = positional(argv, n, program == NULL ? "" : program->values, 1);
	for (i = 0; i < sizeof(networked) / sizeof(networked[0]); i++)
		if (strcmp(networked[i].program, name) == 0 && arg_is(first, networked[i].first) &&
		    (networked[i].second == NULL ||
			(second != NULL && arg_is(second, networked[i].second))))
			l->report->categories |= RISK_NETWORK;
}

void
command_target(struct look *l, const char *path)
{
	static const char *const disks[] = {
	    "/dev/sd", "/dev/nvme", "/dev/hd", "/dev/xvd", "/dev/vd", "/dev/mmcblk"};
	size_t i, n;

	for (i = 0; i < sizeof(disks) / sizeof(disks[0]); i++) {
		n = strlen(disks[i]);
		if (strncmp(path, disks[i], n) == 0 &&
		    ((path[n] >= 'a' && path[n] <= 'z') || (path[n] >= '0' && path[n] <= '9')))
			l->report->categories |= RISK_DESTRUCTIVE;
	}
	if (strncmp(path, "/dev/tcp/", 9) == 0 || strncmp(path, "/dev/udp/", 9) == 0)
		l->report->categories |= RISK_NETWORK;
}

void
command_rule(struct look *l, const char *name, const struct arg *argv, size_t n)
{
	size_t i;

	if (strcmp(name, "rm") == 0)
		rule_rm(l, argv, n);
	else if (strcmp(name, "chmod") == 0)
		rule_chmod(l, argv, n);
	else if (strcmp(name, "chown") == 0)
		rule_chown(l, argv, n);
	else if (strcmp(name, "find") == 0)
		rule_find(l, argv, n);
	else if (strncmp(name, "python", 6) == 0)
		rule_python(l, argv, n);
	else if (strcmp(name, "tee") == 0 || strcmp(name, "cp") == 0)
		for (i = 1; i < n; i++)
			command_target(l, argv[i].s);
	else
		rule_networked(l, name, argv, n);
}

static void
talks(struct look *l, const char *opens, const char *why, const char *instead)
{
	struct command_report *report = l->report;

	if (report->interactive)
		return;
	report->interactive = true;
	snprintf(report->opens, sizeof(report->opens), "%s", opens);
	report->why = why;
	report->instead = instead;
}

static void
talks_by_words(struct look *l, const struct program *program, const char *name,
    const struct arg *argv, size_t n)
{
	const struct arg *sub = positional(argv, n, program->values, 0);
	size_t i, j;

	for (i = 0; i < sizeof(openers) / sizeof(openers[0]); i++) {
		if (strcmp(openers[i].program, name) != 0 ||
		    (openers[i].sub[0] != '\0' && (sub == NULL || !arg_is(sub, openers[i].sub))))
			continue;
		for (j = 1; openers[i].letters != NULL && j < n; j++)
			if (option_is(&argv[j], openers[i].letters, openers[i].longs))
				break;
		if (openers[i].letters == NULL || j < n) {
			talks(l, openers[i].opens, "it waits for a person", openers[i].instead);
			return;
		}
	}
}

/* Whether one of the words ${inlines} ("-c -m") is an option here. */
static bool
has_inline(const struct arg *argv, size_t n, const char *inlines)
{
	size_t i, len;
	const char *at;

	for (i = 1; i < n; i++)
		for (at = inlines; *at != '\0'; at += len + (at[len] == ' ')) {
			len = strcspn(at, " ");
			if (argv[i].len >= len && memcmp(argv[i].s, at, len) == 0 &&
			    (argv[i].len == len || argv[i].s[len] == '=' || at[1] != '-'))
				return true;
		}
	return false;
}

void
command_talks(struct look *l, const struct program *program, const char *name,
    const struct arg *argv, size_t n)
{
	size_t i;

	for (i = 1; i < n; i++)
		if (arg_is(&argv[i], "--version") || arg_is(&argv[i], "--help"))
			return;
	if ((program->kind & PROGRAM_SCREEN) != 0) {
		talks(l, name, "it draws on a terminal and waits for keys",
		    "use a program that writes its answer and ends: cat, sed -n, ps, head");
		return;
	}
	if ((program->kind & PROGRAM_RULE) != 0)
		talks_by_words(l, program, name, argv, n);
	if ((program->kind & PROGRAM_REPL) == 0 || l->fed ||
	    has_inline(argv, n, program->inlines) ||
	    positional(argv, n, program->values, program->positionals - 1) != NULL)
		return;
	talks(l, name, "without a script it reads what a person types",
	    "give it its input: a file, an option such as -c, or a pipe");
}
