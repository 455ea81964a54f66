/* command_text.c: a text that no grammar takes: every word of it may be a program. */
#include <ctype.h>
#include <string.h>

#include "engine/policy/command_part.h"

/* So many words behind a program count as its arguments. */
#define AROUND 24

static bool
in_word(char c)
{
	return isalnum((unsigned char)c) || (c & 0x80) != 0 ||
	       (c != '\0' && strchr("_./$~*=+:@-%,^!?", c) != NULL);
}

static bool
ends_command(char c)
{
	return c == ';' || c == '|' || c == '&' || c == '\n';
}

/* The word at ${*at} or behind it, quotes and parentheses left out; false at the end. */
static bool
next_word(const char *text, size_t len, size_t *at, struct arg *word, bool *ended, bool *piped)
{
	size_t begin;

	for (; *at < len && !in_word(text[*at]); (*at)++) {
		*ended = *ended || ends_command(text[*at]);
		*piped = *piped || text[*at] == '|';
	}
	if ((begin = *at) == len)
		return false;
	while (*at < len && in_word(text[*at]))
		(*at)++;
	*word = (struct arg){text + begin, (uint32_t)(*at - begin), WORD_LITERAL};
	return true;
}

/* The word at ${at} and those behind it as a command. */
static void
look_around(struct look *l, const char *text, size_t len, size_t at)
{
	char words[AROUND][COMMAND_NAME], name[COMMAND_NAME];
	const struct program *program;
	struct arg argv[AROUND], word;
	bool ended = false, piped = false;
	size_t n = 0;

	while (
	    n < AROUND && next_word(text, len, &at, &word, &ended, &piped) && (!ended || n == 0)) {
		ended = false;
		if (word.len >= COMMAND_NAME)
			word.len = COMMAND_NAME - 1;
		memcpy(words[n], word.s, word.len);
		words[n][word.len] = '\0';
		argv[n] = (struct arg){words[n], word.len, WORD_LITERAL};
		n++;
	}
	if (n == 0)
		return;
	program_name(&argv[0], name);
	if ((program = program_named(name)) == NULL)
		return;
	if ((program->kind & PROGRAM_NETWORK) != 0)
		l->report->categories |= RISK_NETWORK;
	if ((program->kind & PROGRAM_DESTRUCTIVE) != 0)
		l->report->categories |= RISK_DESTRUCTIVE;
	if ((program->kind & PROGRAM_RULE) != 0 && strcmp(name, "find") != 0)
		command_rule(l, name, argv, n);
}

/* The classic bomb, with whatever blanks: a function that pipes itself into itself. */
static bool
is_bomb(const char *text, size_t len)
{
	static const char bomb[] = ":(){:|:&};:";
	size_t i, n = 0;

	for (i = 0; i < len; i++) {
		if (text[i] == ' ' || text[i] == '\t')
			continue;
		n = text[i] == bomb[n] ? n + 1 : text[i] == bomb[0];
		if (n == sizeof(bomb) - 1)
			return true;
	}
	return false;
}

/* A word behind > or of= is a file that is written; ${gap} is where the word before it ended. */
static void
look_target(struct look *l, const char *gap, const struct arg *word)
{
	bool of = word->len > 3 && memcmp(word->s, "of=", 3) == 0;
	char path[COMMAND_NAME];
	uint32_t skip = of ? 3 : 0, n = word->len - skip;

	if (!of && memchr(gap, '>', (size_t)(word->s - gap)) == NULL)
		return;
	n = n < sizeof(path) ? n : sizeof(path) - 1;
	memcpy(path, word->s + skip, n);
	path[n] = '\0';
	command_target(l, path);
}

void
command_text(struct look *l, const char *text, size_t len)
{
	const struct program *program;
	bool ended = false, piped = false, fetched = false;
	char name[COMMAND_NAME];
	struct arg word;
	size_t at = 0, begin;

	if (is_bomb(text, len))
		l->report->categories |= RISK_DESTRUCTIVE;
	for (;;) {
		begin = at;
		if (!next_word(text, len, &at, &word, &ended, &piped))
			break;
		look_target(l, text + begin, &word);
		program_name(&word, name);
		if ((program = program_named(name)) == NULL)
			continue;
		if (fetched && piped && (program->kind & PROGRAM_SHELL) != 0)
			l->report->categories |= RISK_PIPED_INSTALLER;
		if ((program->kind & PROGRAM_FETCH) != 0) {
			fetched = true;
			piped = false;
		}
		look_around(l, text, len, (size_t)(word.s - text));
	}
}
