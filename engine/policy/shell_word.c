/* shell_word.c: the words of a script: quotes, expansions, substitutions. */
#include <stdlib.h>
#include <string.h>

#include "engine/policy/shell_read.h"

const unsigned char shell_char[256] = {
    [' '] = CHAR_BLANK,
    ['\t'] = CHAR_BLANK,
    ['\n'] = CHAR_META,
    [';'] = CHAR_META,
    ['&'] = CHAR_META,
    ['|'] = CHAR_META,
    ['<'] = CHAR_META,
    ['>'] = CHAR_META,
    ['('] = CHAR_META,
    [')'] = CHAR_META,
    ['\\'] = CHAR_SPECIAL,
    ['\''] = CHAR_SPECIAL,
    ['"'] = CHAR_SPECIAL,
    ['$'] = CHAR_SPECIAL,
    ['`'] = CHAR_SPECIAL,
    ['{'] = CHAR_SPECIAL,
};

static int read_dollar(struct shell_reader *r, bool quoted, uint32_t *flags);
static int read_backquote(struct shell_reader *r, bool quoted, uint32_t *flags);

static int
peek(const struct shell_reader *r, size_t ahead)
{
	return r->at + ahead < r->len ? (unsigned char)r->s[r->at + ahead] : -1;
}

static int
put(struct shell_reader *r, const char *s, size_t n)
{
	char *more;
	size_t cap = r->buf_cap;

	while (cap - r->buf_len < n)
		cap = cap == 0 ? 256 : cap * 2;
	if (cap != r->buf_cap) {
		if ((more = realloc(r->buf, cap)) == NULL)
			return shell_fail(r, SHELL_COMPLEX);
		r->buf = more;
		r->buf_cap = cap;
	}
	if (n > 0)
		memcpy(r->buf + r->buf_len, s, n);
	r->buf_len += n;
	return 0;
}

static int
put_char(struct shell_reader *r, int c)
{
	char byte = (char)c;

	return put(r, &byte, 1);
}

static void
skip_continued(struct shell_reader *r)
{
	while (peek(r, 0) == '\\' && peek(r, 1) == '\n')
		r->at += 2;
}

/* Read from here to ${end}, which becomes the end of the text for as long; stand there then. */
static int
read_live_to(struct shell_reader *r, size_t end, uint32_t *flags)
{
	size_t len = r->len;
	int rc;

	r->len = end;
	rc = shell_read_live(r, -1, flags);
	r->len = len;
	return rc;
}

/*
 * A pair of ' where the shell finds the end by them, and expands what is between all the same:
 * $(( '$(x)' )) and "${a:-'$(x)'}" run x.
 */
static int
read_quotes_that_run(struct shell_reader *r, uint32_t *flags)
{
	const char *end = memchr(r->s + r->at, '\'', r->len - r->at);

	if (end == NULL)
		return shell_fail(r, SHELL_BROKEN);
	if (read_live_to(r, (size_t)(end - r->s), flags) != 0)
		return -1;
	r->at = (size_t)(end - r->s) + 1;
	return 0;
}

/* The substitution that begins here, behind its parenthesis. */
static int
read_substitution(struct shell_reader *r, uint32_t *flags)
{
	uint32_t from, command = r->command;
	size_t docs = r->doc_from;

	r->doc_from = r->doc_count;
	if (shell_enter(r, NODE_SUBSTITUTION, &from) != 0)
		return -1;
	r->out->nodes[r->node].command = command;
	r->command = SHELL_NONE;
	if (shell_read_until(r, ')') != 0)
		return -1;
	/* Shells differ about a here-document that its substitution does not hold. */
	if (r->doc_count > r->doc_from)
		return shell_fail(r, SHELL_BROKEN);
	r->doc_from = docs;
	r->command = command;
	shell_leave(r, from);
	*flags |= WORD_DYNAMIC;
	return put(r, "$()", 3);
}

struct mark {
	size_t at, text, nodes, commands, words, redirects, buf, stack, docs;
};

static struct mark
mark_here(const struct shell_reader *r)
{
	return (struct mark){r->at, r->out->text_len, r->out->node_count, r->out->command_count,
	    r->out->word_count, r->out->redirect_count, r->buf_len, r->stack_len, r->doc_count};
}

static void
mark_return(struct shell_reader *r, const struct mark *m)
{
	r->at = m->at;
	r->out->text_len = m->text;
	r->out->node_count = m->nodes;
	r->out->command_count = m->commands;
	r->out->word_count = m->words;
	r->out->redirect_count = m->redirects;
	r->buf_len = m->buf;
	r->stack_len = m->stack;
	r->doc_count = m->docs;
}

/* Read to the ${close} that belongs to the ${open} before this place; what is in it is not kept. */
static int
read_matched(struct shell_reader *r, char open, char close, uint32_t *flags)
{
	size_t base = r->buf_len;
	unsigned level = 1;
	int c, rc = 0;

	while (rc == 0 && level > 0) {
		if ((c = peek(r, 0)) == -1)
			return shell_fail(r, SHELL_BROKEN);
		r->at++;
		if (c == '\\')
			r->at += r->at < r->len;
		else if (c == '\'')
			rc = read_quotes_that_run(r, flags);
		else if (c == '"')
			rc = shell_read_live(r, '"', flags);
		else if (c == '$')
			rc = read_dollar(r, false, flags);
		else if (c == '`')
			rc = read_backquote(r, false, flags);
		else
			level += (unsigned)(c == open) - (unsigned)(c == close);
	}
	r->buf_len = base;
	*flags |= WORD_DYNAMIC;
	return rc;
}

int
shell_read_arithmetic(struct shell_reader *r)
{
	struct mark begin = mark_here(r);
	size_t base = r->buf_len;
	unsigned level = 0;
	uint32_t flags = 0;
	int c, rc = 0;

	while (rc == 0 && (c = peek(r, 0)) != -1) {
		r->at++;
		if (c == '\\')
			r->at += r->at < r->len;
		else if (c == '\'' && memchr(r->s + r->at, '\'', r->len - r->at) == NULL)
			break;
		else if (c == '\'')
			rc = read_quotes_that_run(r, &flags);
		else if (c == '"')
			rc = shell_read_live(r, '"', &flags);
		else if (c == '$')
			rc = read_dollar(r, true, &flags);
		else if (c == '`')
			rc = read_backquote(r, true, &flags);
		else if (c == '(')
			level++;
		else if (c == ')' && level > 0)
			level--;
		else if (c == ')' && peek(r, 0) == ')') {
			r->at++;
			r->buf_len = base;
			return 0;
		} else if (c == ')')
			break;
	}
	if (rc != 0 || shell_spend(r, r->at - begin.at) != 0)
		return -1;
	mark_return(r, &begin);
	return 1;
}

/* Behind "$(": arithmetic where it is some, else commands. */
static int
read_parenthesis(struct shell_reader *r, uint32_t *flags)
{
	int rc;

	if (peek(r, 0) != '(')
		return read_substitution(r, flags);
	r->at++;
	if (++r->depth > r->limits->depth)
		return shell_fail(r, SHELL_COMPLEX);
	rc = shell_read_arithmetic(r);
	r->depth--;
	if (rc == 1) {
		r->at--;
		return read_substitution(r, flags);
	}
	*flags |= WORD_DYNAMIC;
	return rc != 0 ? -1 : put(r, "$(())", 5);
}

static bool
name_char(int c, bool first)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (!first && c >= '0' && c <= '9');
}

static size_t
name_length(const struct shell_reader *r)
{
	size_t n = 0;

	while (name_char(peek(r, n), n == 0))
		n++;
	return n;
}

/* Put $NAME, or for an unquoted IFS the place where the word falls apart. */
static int
put_name(struct shell_reader *r, size_t n, bool quoted, uint32_t *flags)
{
	const char *name = r->s + r->at;

	r->at += n;
	if (!quoted && n == 3 && memcmp(name, "IFS", 3) == 0) {
		*flags |= WORD_FIELDS;
		return put_char(r, '\x1f');
	}
	*flags |= WORD_DYNAMIC | (quoted ? 0 : WORD_UNQUOTED);
	return put_char(r, '$') != 0 ? -1 : put(r, name, n);
}

/* One piece of what stands in ${ } behind its name. */
static int
read_brace_piece(struct shell_reader *r, int c, bool quoted, uint32_t *flags)
{
	if (c == '\\') {
		r->at += r->at < r->len;
		return 0;
	}
	if (c == '\'' && !(quoted && r->dialect == SHELL_POSIX))
		return read_quotes_that_run(r, flags);
	if (c == '"')
		return shell_read_live(r, '"', flags);
	if (c == '$')
		return read_dollar(r, quoted, flags);
	if (c == '`')
		return read_backquote(r, quoted, flags);
	if ((c == '<' || c == '>') && !quoted && r->dialect == SHELL_BASH && peek(r, 0) == '(') {
		r->at++;
		return read_substitution(r, flags);
	}
	return 0;
}

/* Behind "${". */
static int
read_brace(struct shell_reader *r, bool quoted, uint32_t *flags)
{
	size_t base, n;
	int c;

	/* ${ commands; } of later shells: not ours to guess at. */
	if (peek(r, 0) == ' ' || peek(r, 0) == '\t' || peek(r, 0) == '\n' || peek(r, 0) == '|')
		return shell_fail(r, SHELL_BROKEN);
	if (++r->depth > r->limits->depth)
		return shell_fail(r, SHELL_COMPLEX);
	if ((n = name_length(r)) > 0) {
		if (put_name(r, n, quoted, flags) != 0)
			return -1;
	} else {
		*flags |= WORD_DYNAMIC | (quoted ? 0 : WORD_UNQUOTED);
		if (put(r, "${}", 3) != 0)
			return -1;
	}
	/* ${#} and ${'} have their sign as a name. */
	base = r->buf_len;
	while ((c = peek(r, 0)) != '}') {
		if (c == -1)
			return shell_fail(r, SHELL_BROKEN);
		r->at++;
		if (read_brace_piece(r, c, quoted, flags) != 0)
			return -1;
	}
	r->at++;
	r->buf_len = base;
	r->depth--;
	return 0;
}

static int
hex_digit(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* At most ${most} digits of the base 8 or 16; -1 where there is none. */
static int32_t
read_number(struct shell_reader *r, int most, int base)
{
	int32_t value = 0;
	int n, digit;

	for (n = 0; n < most; n++) {
		digit = hex_digit(peek(r, 0));
		if (digit == -1 || digit >= base)
			break;
		value =
		    (int32_t)(((uint32_t)value * (uint32_t)base + (uint32_t)digit) & 0x7fffffff);
		r->at++;
	}
	return n > 0 ? value : -1;
}

static int
put_rune(struct shell_reader *r, int32_t c)
{
	char out[4];

	if (c < 0x80)
		return put_char(r, c);
	if (c < 0x800) {
		out[0] = (char)(0xc0 | (c >> 6));
		out[1] = (char)(0x80 | (c & 0x3f));
		return put(r, out, 2);
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | (c >> 12));
		out[1] = (char)(0x80 | ((c >> 6) & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return put(r, out, 3);
	}
	out[0] = (char)(0xf0 | ((c >> 18) & 7));
	out[1] = (char)(0x80 | ((c >> 12) & 0x3f));
	out[2] = (char)(0x80 | ((c >> 6) & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return put(r, out, 4);
}

/* The character behind a backslash in $''; 0 where the text ends by it, -1 for none. */
static int32_t
read_escape(struct shell_reader *r, int *literal)
{
	static const char from[] = "abeEfnrtv", to[] = "\a\b\033\033\f\n\r\t\v";
	const char *found;
	int32_t value;
	int c = peek(r, 0);

	*literal = c;
	r->at++;
	if ((found = c > 0 ? strchr(from, c) : NULL) != NULL)
		return to[found - from];
	if (c >= '0' && c <= '7') {
		r->at--;
		return read_number(r, 3, 8) & 0xff;
	}
	if (c == 'x')
		return read_number(r, 2, 16);
	if (c == 'u' || c == 'U') {
		value = read_number(r, c == 'u' ? 4 : 8, 16);
		return value > 0x10ffff ? 0xfffd : value;
	}
	if (c == 'c') {
		value = peek(r, 0);
		r->at += value != -1;
		return value == -1 ? -1 : value & 0x1f;
	}
	return c == '\\' || c == '\'' || c == '"' || c == '?' ? c : -1;
}

/* Behind $'. */
static int
read_ansi(struct shell_reader *r, uint32_t *flags)
{
	bool over = false;
	int c, literal;
	int32_t value;
	size_t base;

	*flags |= WORD_QUOTED | WORD_LITERAL;
	while ((c = peek(r, 0)) != '\'') {
		if (c == -1)
			return shell_fail(r, SHELL_BROKEN);
		r->at++;
		base = r->buf_len;
		if (c != '\\') {
			if (put_char(r, c) != 0)
				return -1;
		} else {
			if (peek(r, 0) == -1)
				return shell_fail(r, SHELL_BROKEN);
			value = read_escape(r, &literal);
			over = over || value == 0;
			if (value == -1 ? put_char(r, '\\') != 0 || put_char(r, literal) != 0
					: value > 0 && put_rune(r, value) != 0)
				return -1;
		}
		if (over)
			r->buf_len = base;
	}
	r->at++;
	return 0;
}

/* Behind a dollar. */
static int
read_dollar(struct shell_reader *r, bool quoted, uint32_t *flags)
{
	size_t n;
	int c;

	skip_continued(r);
	c = peek(r, 0);
	if (c == '(') {
		r->at++;
		*flags |= quoted ? 0 : WORD_UNQUOTED;
		return read_parenthesis(r, flags);
	}
	if (c == '{') {
		r->at++;
		return read_brace(r, quoted, flags);
	}
	if (c == '[' && r->dialect == SHELL_BASH) {
		r->at++;
		if (++r->depth > r->limits->depth)
			return shell_fail(r, SHELL_COMPLEX);
		if (read_matched(r, '[', ']', flags) != 0)
			return -1;
		r->depth--;
		return put(r, "$[]", 3);
	}
	if (c == '\'' && !quoted && r->dialect == SHELL_BASH) {
		r->at++;
		return read_ansi(r, flags);
	}
	if (c == '"' && !quoted && r->dialect == SHELL_BASH) {
		r->at++;
		*flags |= WORD_QUOTED;
		return shell_read_live(r, '"', flags);
	}
	if ((n = name_length(r)) > 0)
		return put_name(r, n, quoted, flags);
	if (c != -1 && c != 0 && strchr("0123456789@*#?-$!", c) != NULL)
		return put_name(r, 1, quoted, flags);
	*flags |= WORD_LITERAL;
	return put_char(r, '$');
}

/* Take the backslashes away that stand before what they protect in backquotes. */
static size_t
unescape(char *out, const char *s, size_t len, bool quoted)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++) {
		if (s[i] == '\\' && i + 1 < len &&
		    (s[i + 1] == '\\' || s[i + 1] == '$' || s[i + 1] == '`' ||
			(quoted && s[i + 1] == '"')))
			i++;
		out[n++] = s[i];
	}
	return n;
}

/* The end of the backquotes that began before this place; SIZE_MAX for none. */
static size_t
backquote_end(const struct shell_reader *r)
{
	size_t i;

	for (i = r->at; i < r->len && r->s[i] != '`'; i++)
		if (r->s[i] == '\\')
			i++;
	return i < r->len ? i : SIZE_MAX;
}

/* Read the ${len} bytes at ${s} as commands of a text of their own. */
static int
read_inside(struct shell_reader *r, const char *s, size_t len, uint32_t *flags)
{
	const char *outer = r->s;
	size_t at = r->at, end = r->len, docs = r->doc_from;
	uint32_t from, command = r->command;

	r->doc_from = r->doc_count;
	if (shell_enter(r, NODE_SUBSTITUTION, &from) != 0)
		return -1;
	r->out->nodes[r->node].command = command;
	r->command = SHELL_NONE;
	r->s = s;
	r->at = 0;
	r->len = len;
	if (shell_read_until(r, '\0') != 0) {
		r->out->failed_at = at;
		r->s = outer;
		return -1;
	}
	r->s = outer;
	r->at = at;
	r->len = end;
	r->doc_count = r->doc_from;
	r->doc_from = docs;
	r->command = command;
	shell_leave(r, from);
	*flags |= WORD_DYNAMIC;
	return put(r, "$()", 3);
}

/* Behind a backquote. */
static int
read_backquote(struct shell_reader *r, bool quoted, uint32_t *flags)
{
	size_t end = backquote_end(r), len;
	struct copy *copy;

	if (end == SIZE_MAX)
		return shell_fail(r, SHELL_BROKEN);
	if (shell_spend(r, end - r->at) != 0)
		return -1;
	if ((copy = malloc(sizeof(*copy) + (end - r->at) + 1)) == NULL)
		return shell_fail(r, SHELL_COMPLEX);
	copy->next = r->copies;
	r->copies = copy;
	len = unescape((char *)(copy + 1), r->s + r->at, end - r->at, quoted);
	r->at = end + 1;
	*flags |= quoted ? 0 : WORD_UNQUOTED;
	if (read_inside(r, (char *)(copy + 1), len, flags) != 0)
		return -1;
	/* Whatever it held is in the script by now. */
	r->copies = copy->next;
	free(copy);
	return 0;
}

int
shell_read_live(struct shell_reader *r, int end, uint32_t *flags)
{
	size_t begin;
	int c, rc = 0;

	*flags |= end == '"' ? WORD_QUOTED : 0;
	while (rc == 0) {
		begin = r->at;
		while ((c = peek(r, 0)) != -1 && c != end && c != '\\' && c != '$' && c != '`')
			r->at++;
		if (r->at > begin) {
			*flags |= WORD_LITERAL;
			if (put(r, r->s + begin, r->at - begin) != 0)
				return -1;
		}
		if (c == -1)
			return end == -1 ? 0 : shell_fail(r, SHELL_BROKEN);
		r->at++;
		if (c == end)
			return 0;
		if (c == '$') {
			rc = read_dollar(r, true, flags);
		} else if (c == '`') {
			rc = read_backquote(r, true, flags);
		} else if ((c = peek(r, 0)) == '\n') {
			r->at++;
		} else {
			if (c == -1 || strchr("$`\"\\", c) == NULL || c == 0)
				rc = put_char(r, '\\');
			if (c != -1 && rc == 0)
				rc = put_char(r, c);
			r->at += c != -1;
			*flags |= WORD_LITERAL;
		}
	}
	return rc;
}

/* Behind NAME=, where a parenthesis opens the values of an array. */
static int
read_array(struct shell_reader *r, uint32_t *flags)
{
	struct shell_word word;
	size_t base = r->buf_len;

	if (++r->depth > r->limits->depth)
		return shell_fail(r, SHELL_COMPLEX);
	for (;;) {
		shell_skip(r);
		if (peek(r, 0) == '\n') {
			r->at++;
			continue;
		}
		if (peek(r, 0) == ')')
			break;
		if (peek(r, 0) == -1)
			return shell_fail(r, SHELL_BROKEN);
		if (shell_read_word(r, MODE_PLAIN, &word) != 0)
			return -1;
	}
	r->at++;
	r->depth--;
	r->buf_len = base;
	*flags |= WORD_DYNAMIC;
	return put(r, "()", 2);
}

/* NAME=, NAME+=, NAME[i]= and the values of an array, where they stand at the start of a word. */
static int
read_assignment(struct shell_reader *r, uint32_t *flags)
{
	size_t n = name_length(r);
	int c;

	if (n == 0)
		return 0;
	if (put(r, r->s + r->at, n) != 0)
		return -1;
	*flags |= WORD_LITERAL;
	r->at += n;
	skip_continued(r);
	if (peek(r, 0) == '[' && r->dialect == SHELL_BASH) {
		r->at++;
		if (read_matched(r, '[', ']', flags) != 0 || put(r, "[]", 2) != 0)
			return -1;
	}
	c = peek(r, 0);
	if (c != '=' && !(c == '+' && peek(r, 1) == '=' && r->dialect == SHELL_BASH))
		return 0;
	r->at += c == '+' ? 2 : 1;
	*flags |= WORD_ASSIGNS;
	if (put_char(r, '=') != 0)
		return -1;
	if (peek(r, 0) != '(' || r->dialect != SHELL_BASH)
		return 0;
	r->at++;
	return read_array(r, flags);
}

/* Whether the operator here is a part of the word: a process substitution or a pattern. */
static bool
word_goes_on(const struct shell_reader *r, unsigned mode, size_t begin, int c)
{
	if (r->dialect != SHELL_BASH)
		return false;
	if ((c == '<' || c == '>') && peek(r, 1) == '(' && (mode & MODE_DELIMITER) == 0)
		return true;
	if ((mode & MODE_REGEX) != 0 && (c == '(' || c == '|' || c == '<' || c == '>'))
		return true;
	return (mode & MODE_PATTERN) != 0 && c == '(' && r->at > begin &&
	       strchr("?*+@!", r->s[r->at - 1]) != NULL;
}

static int
read_operator(struct shell_reader *r, int c, uint32_t *flags)
{
	r->at++;
	*flags |= WORD_LITERAL;
	if ((c == '<' || c == '>') && peek(r, 0) == '(') {
		r->at++;
		return read_substitution(r, flags);
	}
	if (c == '(') {
		if (++r->depth > r->limits->depth)
			return shell_fail(r, SHELL_COMPLEX);
		if (read_matched(r, '(', ')', flags) != 0)
			return -1;
		r->depth--;
		return put(r, "()", 2);
	}
	return put_char(r, c);
}

static int
read_single(struct shell_reader *r, uint32_t *flags)
{
	const char *begin = r->s + r->at;
	const char *end = memchr(begin, '\'', r->len - r->at);

	if (end == NULL)
		return shell_fail(r, SHELL_BROKEN);
	*flags |= WORD_QUOTED | WORD_LITERAL;
	r->at += (size_t)(end - begin) + 1;
	return put(r, begin, (size_t)(end - begin));
}

static int
read_backslash(struct shell_reader *r, uint32_t *flags)
{
	int c = peek(r, 0);

	if (c == '\n') {
		r->at++;
		return 0;
	}
	*flags |= WORD_QUOTED | WORD_LITERAL;
	if (c == -1)
		return put_char(r, '\\');
	r->at++;
	return put_char(r, c);
}

/* A character of a word that is more than itself. */
static int
read_special(struct shell_reader *r, int c, unsigned mode, uint32_t *flags)
{
	r->at++;
	switch (c) {
	case '\\':
		return read_backslash(r, flags);
	case '\'':
		return read_single(r, flags);
	case '"':
		return shell_read_live(r, '"', flags);
	case '$':
		if ((mode & MODE_DELIMITER) == 0)
			return read_dollar(r, false, flags);
		/* $'', $"" and $() in a delimiter: shells differ. */
		if (peek(r, 0) != -1 && strchr("'\"({[", peek(r, 0)) != NULL)
			return shell_fail(r, SHELL_BROKEN);
		return put_char(r, c);
	case '`':
		if ((mode & MODE_DELIMITER) != 0)
			return shell_fail(r, SHELL_BROKEN);
		return read_backquote(r, false, flags);
	default:
		*flags |= WORD_LITERAL | (r->dialect == SHELL_BASH ? WORD_BRACE : 0);
		return put_char(r, c);
	}
}

int
shell_read_word(struct shell_reader *r, unsigned mode, struct shell_word *word)
{
	size_t base = r->buf_len, begin = r->at, run;
	uint32_t flags = 0;
	int c, rc = 0;

	if ((mode & MODE_ASSIGN) != 0)
		rc = read_assignment(r, &flags);
	while (rc == 0) {
		run = r->at;
		while (r->at < r->len && shell_char[(unsigned char)r->s[r->at]] == 0)
			r->at++;
		if (r->at > run) {
			flags |= WORD_LITERAL;
			rc = put(r, r->s + run, r->at - run);
		}
		if (rc != 0 || (c = peek(r, 0)) == -1)
			break;
		if (shell_char[c] == CHAR_SPECIAL)
			rc = read_special(r, c, mode, &flags);
		else if (word_goes_on(r, mode, begin, c))
			rc = read_operator(r, c, &flags);
		else
			break;
	}
	if (rc == 0 && r->at == begin)
		return shell_fail(r, SHELL_BROKEN);
	word->flags = flags;
	return rc != 0 ? -1 : shell_keep(r, base, &word->text, &word->len);
}
