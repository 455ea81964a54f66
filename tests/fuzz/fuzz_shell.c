/* fuzz_shell.c: any bytes as a script: bounds hold, quotes hide, what follows is seen. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy/command.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct shell_limits limits = {1 << 17, 60, 5000};

/* Everything that the script refers to is there. */
static void
check(const struct shell *s, size_t size)
{
	size_t i;

	if (s->failed_at > size || s->state > SHELL_COMPLEX)
		abort();
	for (i = 0; i < s->word_count; i++)
		if ((size_t)s->words[i].text + s->words[i].len >= s->text_len ||
		    s->text[s->words[i].text + s->words[i].len] != '\0')
			abort();
	for (i = 0; i < s->command_count; i++)
		if ((size_t)s->commands[i].first + s->commands[i].count > s->word_count ||
		    s->commands[i].assigned > s->commands[i].count ||
		    s->commands[i].node >= s->node_count)
			abort();
	for (i = 0; i < s->node_count; i++)
		if ((s->nodes[i].parent != SHELL_NONE && s->nodes[i].parent >= s->node_count) ||
		    (s->nodes[i].command != SHELL_NONE && s->nodes[i].command >= s->command_count))
			abort();
	for (i = 0; i < s->redirect_count; i++)
		if (s->redirects[i].command != SHELL_NONE &&
		    s->redirects[i].command >= s->command_count)
			abort();
}

/* 'text', with each ' in it as '\''. */
static size_t
quote(char *out, const char *text, size_t size)
{
	size_t i, n = 0;

	memcpy(out, "echo '", 6);
	n = 6;
	for (i = 0; i < size; i++) {
		if (text[i] == '\'') {
			memcpy(out + n, "'\\'", 3);
			n += 3;
		}
		out[n++] = text[i];
	}
	out[n++] = '\'';
	return n;
}

/* In quotes nothing runs. */
static void
check_quoted(const char *text, size_t size)
{
	struct command_report r;
	char *quoted;

	if (size > 4096 || memchr(text, '\0', size) != NULL ||
	    (quoted = malloc(4 * size + 8)) == NULL)
		return;
	if (command_look(quoted, quote(quoted, text, size), &limits, &r) != 0 || r.interactive ||
	    (r.categories & ~(unsigned)RISK_UNSEEN_SCRIPT) != 0)
		abort();
	free(quoted);
}

/* Behind a whole script another command is seen. */
static void
check_behind(const char *text, size_t size)
{
	static const char more[] = "\nrm -rf /\n";
	struct command_report r;
	char *both;

	if (memmem(text, size, "<<", 2) != NULL || (size > 0 && text[size - 1] == '\\') ||
	    (both = malloc(size + sizeof(more))) == NULL)
		return;
	memcpy(both, text, size);
	memcpy(both + size, more, sizeof(more));
	if (command_look(both, size + sizeof(more) - 1, &limits, &r) != 0 ||
	    (r.categories & (RISK_DESTRUCTIVE | RISK_UNPARSEABLE)) == 0)
		abort();
	free(both);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum shell_dialect dialect;
	struct command_report r;
	struct shell *s;
	char *text;
	bool good;

	/* A copy without a NUL behind it, so that a read past its end is seen. */
	if ((text = malloc(size > 0 ? size : 1)) == NULL)
		return 0;
	memcpy(text, data, size);
	for (dialect = SHELL_BASH; dialect <= SHELL_POSIX; dialect++) {
		if ((s = shell_parse(text, size, dialect, &limits)) == NULL)
			continue;
		check(s, size);
		good = s->state == SHELL_GOOD;
		shell_free(s);
		if (good && dialect == SHELL_BASH)
			check_behind(text, size);
	}
	if (command_look(text, size, &limits, &r) != 0)
		abort();
	check_quoted(text, size);
	free(text);
	return 0;
}
