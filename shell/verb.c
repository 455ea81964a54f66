/* verb.c: find a verb, list them all, guess what was meant. */
#include <stdbool.h>
#include <string.h>

#include "shell/near.h"
#include "shell/text.h"
#include "shell/verb.h"

#define WORD_MAX 32 /* of a verb's name */

const struct verb *
verb_named(const char *name)
{
	const struct verb *v;

	for (v = verbs; v->name != NULL; v++) {
		if (strcmp(v->name, name) == 0)
			return v;
	}
	return NULL;
}

/* The second word of a name of two, where the first is this one; else NULL. */
static const char *
second_word(const char *name, const char *first)
{
	size_t n = strlen(first);

	return strncmp(name, first, n) == 0 && name[n] == ' ' ? name + n + 1 : NULL;
}

const struct verb *
verb_find(int argc, char **argv, int *words)
{
	const struct verb *v;
	const char *second;

	for (v = verbs; argc > 1 && v->name != NULL; v++) {
		second = second_word(v->name, argv[0]);
		if (second != NULL && strcmp(second, argv[1]) == 0) {
			*words = 2;
			return v;
		}
	}
	*words = 1;
	return argc > 0 ? verb_named(argv[0]) : NULL;
}

void
verb_usage(const struct verb *verb, FILE *out)
{
	const char *end = strstr(verb->help, "\n\n");

	if (end == NULL)
		fputs(verb->help, out);
	else
		fprintf(out, "%.*s\n", (int)(end - verb->help), verb->help);
}

/*
 * Reading a usage: "bastion egress allow | deny WHAT[:PORT] [--user USER]".
 */

/* What stands behind the verb's name in the usage's line at ${*at}, which moves to the next; NULL
 * past the last.  Lines that go on with the one before them are passed over. */
static const char *
usage_line(const struct verb *v, const char **at)
{
	size_t n = strlen(v->name);
	const char *line = *at;

	while (*line != '\0' && *line != '\n') {
		*at = line + strcspn(line, "\n");
		*at += **at == '\n';
		line += strcspn(line, " \n");
		line += strspn(line, " ");
		if (strncmp(line, "bastion ", 8) == 0 && strncmp(line + 8, v->name, n) == 0 &&
		    line[8 + n] == ' ')
			return line + 9 + n;
		line = *at;
	}
	return NULL;
}

/* The word at ${*at}, one of several with bars between them, into ${word}; ${*at} moves behind it.
 * Return false where what comes next is none. */
static bool
usage_word(const char **at, char word[WORD_MAX])
{
	const char *p = *at;
	size_t n;

	p += strspn(p, " |[");
	n = strspn(p, "abcdefghijklmnopqrstuvwxyz-");
	if (n == 0 || n >= WORD_MAX || strchr(" |]\n", p[n]) == NULL || p[0] == '-')
		return false;
	memcpy(word, p, n);
	word[n] = '\0';
	*at = p + n + (p[n] == ']');
	return true;
}

/* Whether another word follows that stands for the same place. */
static bool
usage_or(const char *at)
{
	at += strspn(at, " ");
	return *at == '|';
}

/* Copy from ${at} up to where one of ${ends} is, or the line ends. */
static void
usage_copy(const char *at, const char *const *ends, char out[VERB_TAKES_MAX])
{
	size_t n = strcspn(at, "\n"), i;
	const char *end;

	for (i = 0; ends[i] != NULL; i++)
		if ((end = strstr(at, ends[i])) != NULL && (size_t)(end - at) < n)
			n = (size_t)(end - at);
	while (n > 0 && at[n - 1] == ' ')
		n--;
	snprintf(out, VERB_TAKES_MAX, "%.*s", (int)n, at);
}

bool
verb_takes(const struct verb *v, const char *word, char out[VERB_TAKES_MAX])
{
	static const char *const ends[] = {" [-", "[-", NULL};
	const char *line, *at = v->help;
	char one[WORD_MAX];
	bool found = false;

	while (!found && (line = usage_line(v, &at)) != NULL) {
		while (usage_word(&line, one)) {
			found = found || strcmp(one, word) == 0;
			if (!usage_or(line))
				break;
		}
		if (found)
			usage_copy(line + strspn(line, " "), ends, out);
	}
	return found;
}

void
verb_near(const struct verb *v, const char *word, char list[NEAR_MAX])
{
	const char *line, *at = v->help;
	char one[WORD_MAX];

	while ((line = usage_line(v, &at)) != NULL) {
		while (usage_word(&line, one)) {
			if (strstr(list, one) == NULL)
				near_add(list, one, word);
			if (!usage_or(line))
				break;
		}
	}
}

void
verb_value(const struct verb *v, const char *option, char out[VERB_TAKES_MAX])
{
	static const char *const ends[] = {"]", " [", " | -", " -", " ...", NULL};
	const char *at = v->help, *end = strstr(v->help, "\n\n");
	size_t n = strlen(option);

	out[0] = '\0';
	for (; (at = strstr(at, option)) != NULL && (end == NULL || at < end); at += n) {
		if (at[-1] == '-' || (at[n] != ' ' && at[n] != '='))
			continue;
		usage_copy(at + n + 1, ends, out);
		return;
	}
}

static bool
is_listed(const struct verb *v, const char *first, bool host)
{
	bool hosts = second_word(v->name, "host") != NULL || strcmp(v->name, "on") == 0;

	return first != NULL ? second_word(v->name, first) != NULL : hosts == host;
}

static int
list_part(FILE *out, int width, const char *first, bool host)
{
	const struct verb *v;
	int n = 0;

	for (v = verbs; v->name != NULL; v++) {
		if (!is_listed(v, first, host))
			continue;
		fprintf(out, "  %-14s ", v->name);
		if (width > 17)
			text_clip(out, v->summary, strlen(v->summary), width - 17);
		else
			fputs(v->summary, out);
		putc('\n', out);
		n++;
	}
	return n;
}

int
verb_list(FILE *out, int width, const char *first)
{
	int n;

	if (first != NULL)
		return list_part(out, width, first, true);
	fputs("usage: bastion VERB [WORD ...] [--json | --csv | --box]\n\n"
	      "One daemon and one SQLite file between this machine and the AI agents that work on "
	      "it.\n\n"
	      "On the machine:\n",
	    out);
	n = list_part(out, width, NULL, false);
	fputs("\nAs a Host, which drives machines:\n", out);
	n += list_part(out, width, NULL, true);
	fputs("\nbastion help VERB says how a verb is used; man bastion has it all.\n", out);
	return n;
}

static bool
is_near(const char *name, const char *typed)
{
	const char *second = strchr(name, ' ');

	return near_to(name, typed) || (second != NULL && strcmp(second + 1, typed) == 0);
}

static bool
has_second(const char *first)
{
	const struct verb *v;

	for (v = verbs; v->name != NULL; v++) {
		if (second_word(v->name, first) != NULL)
			return true;
	}
	return false;
}

int
verb_unknown(int argc, char **argv)
{
	const struct verb *v;
	char typed[2 * WORD_MAX + 2];
	bool two = argc > 1 && has_second(argv[0]);
	int n = 0;

	if (argc == 1 && has_second(argv[0])) {
		fprintf(stderr, "bastion: %s needs a second word [usage.wrong]\n", argv[0]);
		verb_list(stderr, 0, argv[0]);
		return 2;
	}
	snprintf(typed, sizeof(typed), "%s%s%s", argv[0], two ? " " : "", two ? argv[1] : "");
	fputs("bastion: there is no verb ", stderr);
	text_show(stderr, typed, strlen(typed));
	for (v = verbs; v->name != NULL; v++) {
		if (is_near(v->name, typed))
			fprintf(stderr, "%s%s", n++ == 0 ? "; near it: " : ", ", v->name);
	}
	fputs(n == 0 ? "; bastion help lists them [usage.wrong]\n" : " [usage.wrong]\n", stderr);
	return 2;
}
