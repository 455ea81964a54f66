/* command_args.c: the words of a command as the arguments that its program would get. */
#include <stdlib.h>
#include <string.h>

#include "engine/policy/command_part.h"

/* A word that is longer, or becomes more words, is not expanded: its program counts as unknown. */
#define BRACE_LENGTH 512
#define BRACE_WORDS  64

static char *
hold(struct look *l, size_t size)
{
	struct held *h;

	if (size + sizeof(*h) > l->budget) {
		l->report->categories |= RISK_UNPARSEABLE;
		return NULL;
	}
	l->budget -= size + sizeof(*h);
	if ((h = malloc(sizeof(*h) + size)) == NULL) {
		l->failed = true;
		return NULL;
	}
	h->next = l->held;
	l->held = h;
	return (char *)(h + 1);
}

static int
args_add(struct look *l, struct args *args, const char *s, size_t len, uint32_t flags)
{
	size_t cap = args->cap == 0 ? 32 : args->cap * 2;
	struct arg *more;

	if (args->count == args->cap) {
		if ((more = reallocarray(args->at, cap, sizeof(*more))) == NULL) {
			l->failed = true;
			return -1;
		}
		args->at = more;
		args->cap = cap;
	}
	args->at[args->count++] = (struct arg){s, (uint32_t)len, flags};
	return 0;
}

bool
arg_is(const struct arg *arg, const char *text)
{
	return strlen(text) == arg->len && memcmp(arg->s, text, arg->len) == 0;
}

bool
option_long(const struct arg *arg, const char *longs)
{
	size_t n = strcspn(arg->s, "=");
	const char *at;

	/* getopt_long(3) takes any beginning: --rec is --recursive. */
	if (n < 3 || n > 40)
		return false;
	for (at = longs; (at = strstr(at, " --")) != NULL; at++)
		if (strncmp(at + 1, arg->s, n) == 0)
			return true;
	return false;
}

/* The parts of ${s} between characters of ${at}; each becomes an argument of its own. */
static int
add_fields(
    struct look *l, struct args *args, const char *s, size_t len, const char *at, uint32_t flags)
{
	size_t i, begin = 0;
	char *copy;

	for (i = 0; i <= len; i++) {
		if (i < len && strchr(at, s[i]) == NULL)
			continue;
		if (i > begin) {
			if ((copy = hold(l, i - begin + 1)) == NULL)
				return -1;
			memcpy(copy, s + begin, i - begin);
			copy[i - begin] = '\0';
			if (args_add(l, args, copy, i - begin, flags) != 0)
				return -1;
		}
		begin = i + 1;
	}
	return 0;
}

/*
 * The first { } with a comma between of ${s}; false for none.  Store where it opens and closes.
 */
static bool
brace_find(const char *s, size_t len, size_t *open, size_t *close)
{
	size_t i, level = 0;
	bool comma = false;

	for (i = 0; i < len; i++) {
		if (s[i] == '{' && level++ == 0)
			*open = i;
		comma = comma || (s[i] == ',' && level == 1);
		if (s[i] == '}' && level > 0 && --level == 0) {
			*close = i;
			if (comma)
				return true;
		}
	}
	return false;
}

/* Add what the braces of ${s} expand to, or ${s}; at most ${*left} arguments. */
static int
add_braces(struct look *l, struct args *args, const char *s, size_t len, uint32_t flags,
    unsigned deep, size_t *left)
{
	size_t open = 0, close = 0, i, begin, level = 0, n;
	char *copy;

	if (deep > COMMAND_DEEP || *left == 0) {
		l->report->categories |= RISK_UNKNOWN_PROGRAM;
		return 0;
	}
	if (!brace_find(s, len, &open, &close)) {
		(*left)--;
		return args_add(l, args, s, len, flags & ~(uint32_t)WORD_BRACE);
	}
	for (i = begin = open + 1; i <= close; i++) {
		level += s[i] == '{';
		if (i < close && (s[i] != ',' || level > 0)) {
			level -= s[i] == '}' && level > 0;
			continue;
		}
		n = open + (i - begin) + (len - close - 1);
		if ((copy = hold(l, n + 1)) == NULL)
			return -1;
		memcpy(copy, s, open);
		memcpy(copy + open, s + begin, i - begin);
		memcpy(copy + open + (i - begin), s + close + 1, len - close - 1);
		copy[n] = '\0';
		if (n > 0 && add_braces(l, args, copy, n, flags, deep + 1, left) != 0)
			return -1;
		begin = i + 1;
	}
	return 0;
}

static struct known *
known_find(struct look *l, const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < l->known_count; i++)
		if (strncmp(l->known[i].name, name, len) == 0 && l->known[i].name[len] == '\0')
			return &l->known[i];
	return NULL;
}

/* Remember NAME=literal; what is not known any more is forgotten. */
static void
know(struct look *l, const char *s, size_t len, uint32_t flags)
{
	const char *is = memchr(s, '=', len);
	size_t name = is == NULL ? 0 : (size_t)(is - s), value = len - name - 1;
	struct known *k;

	if (name == 0 || name >= COMMAND_NAME)
		return;
	k = known_find(l, s, name);
	if ((flags & WORD_DYNAMIC) != 0 || value >= COMMAND_VALUE) {
		if (k != NULL)
			*k = l->known[--l->known_count];
		return;
	}
	if (k == NULL && l->known_count == sizeof(l->known) / sizeof(l->known[0]))
		return;
	if (k == NULL)
		k = &l->known[l->known_count++];
	memcpy(k->name, s, name);
	k->name[name] = '\0';
	memcpy(k->value, is + 1, value);
	k->value[value] = '\0';
	k->flags = flags;
}

/* The value of a variable, in as many words as it becomes. */
static int
add_value(struct look *l, struct args *args, const struct known *k, uint32_t flags)
{
	size_t len = strlen(k->value);
	char *copy;

	if ((flags & WORD_UNQUOTED) != 0)
		return add_fields(l, args, k->value, len, " \t\n", k->flags);
	if ((copy = hold(l, len + 1)) == NULL)
		return -1;
	memcpy(copy, k->value, len + 1);
	return args_add(l, args, copy, len, k->flags);
}

static int
add_word(struct look *l, struct args *args, const char *s, const struct shell_word *word)
{
	const struct known *k;
	size_t left = BRACE_WORDS;

	if ((word->flags & WORD_FIELDS) != 0)
		return add_fields(l, args, s, word->len, "\x1f", word->flags);
	if ((word->flags & (WORD_DYNAMIC | WORD_LITERAL)) == WORD_DYNAMIC && word->len > 1 &&
	    word->len <= COMMAND_NAME && (k = known_find(l, s + 1, word->len - 1)) != NULL)
		return add_value(l, args, k, word->flags);
	if ((word->flags & WORD_BRACE) != 0 && word->len <= BRACE_LENGTH)
		return add_braces(l, args, s, word->len, word->flags, 0, &left);
	return args_add(l, args, s, word->len, word->flags);
}

int
args_build(struct look *l, const struct shell *script, const struct shell_command *command,
    struct args *args)
{
	const struct shell_word *word;
	uint32_t i;

	args->count = 0;
	if (command->count == 0)
		return 0;
	word = script->words + command->first;
	for (i = 0; i < command->assigned; i++)
		know(l, shell_text(script, &word[i]), word[i].len, word[i].flags);
	for (; i < command->count; i++)
		if (add_word(l, args, shell_text(script, &word[i]), &word[i]) != 0)
			return -1;
	if (args->count > 1 &&
	    (arg_is(&args->at[0], "export") || arg_is(&args->at[0], "declare") ||
		arg_is(&args->at[0], "local") || arg_is(&args->at[0], "readonly") ||
		arg_is(&args->at[0], "typeset")))
		for (i = 1; i < args->count; i++)
			know(l, args->at[i].s, args->at[i].len, args->at[i].flags);
	return 0;
}

int
args_join(struct look *l, const struct arg *argv, size_t n, char **out, size_t *len)
{
	size_t i, size = 1, at = 0;

	for (i = 0; i < n; i++)
		size += argv[i].len + 1;
	if ((*out = hold(l, size)) == NULL)
		return -1;
	for (i = 0; i < n; i++) {
		if (i > 0)
			(*out)[at++] = ' ';
		memcpy(*out + at, argv[i].s, argv[i].len);
		at += argv[i].len;
	}
	(*out)[at] = '\0';
	*len = at;
	return 0;
}
