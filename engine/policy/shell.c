/* shell.c: the grammar of scripts: lists, pipelines, compound commands, redirections. */
#include <stdlib.h>
#include <string.h>

#include "engine/policy/shell_read.h"

enum keyword {
	KEY_NONE,
	KEY_IF,
	KEY_THEN,
	KEY_ELIF,
	KEY_ELSE,
	KEY_FI,
	KEY_FOR,
	KEY_SELECT,
	KEY_WHILE,
	KEY_UNTIL,
	KEY_DO,
	KEY_DONE,
	KEY_CASE,
	KEY_ESAC,
	KEY_FUNCTION,
	KEY_TIME,
	KEY_COPROC,
	KEY_OPEN,
	KEY_CLOSE,
	KEY_NOT,
	KEY_TEST
};

static const struct {
	const char *word;
	enum keyword key;
	bool bash; /* bash alone knows it */
} keywords[] = {
    {"if", KEY_IF, false},
    {"then", KEY_THEN, false},
    {"elif", KEY_ELIF, false},
    {"else", KEY_ELSE, false},
    {"fi", KEY_FI, false},
    {"for", KEY_FOR, false},
    {"select", KEY_SELECT, true},
    {"while", KEY_WHILE, false},
    {"until", KEY_UNTIL, false},
    {"do", KEY_DO, false},
    {"done", KEY_DONE, false},
    {"case", KEY_CASE, false},
    {"esac", KEY_ESAC, false},
    {"function", KEY_FUNCTION, true},
    {"time", KEY_TIME, true},
    {"coproc", KEY_COPROC, true},
    {"{", KEY_OPEN, false},
    {"}", KEY_CLOSE, false},
    {"!", KEY_NOT, false},
    {"[[", KEY_TEST, true},
};

static int read_and_or(struct shell_reader *r);
static int read_command(struct shell_reader *r);

static int
peek(const struct shell_reader *r, size_t ahead)
{
	return r->at + ahead < r->len ? (unsigned char)r->s[r->at + ahead] : -1;
}

int
shell_fail(struct shell_reader *r, enum shell_state state)
{
	if (r->out->state == SHELL_GOOD) {
		r->out->state = state;
		r->out->failed_at = r->at;
	}
	return -1;
}

int
shell_spend(struct shell_reader *r, size_t bytes)
{
	if (bytes > r->budget)
		return shell_fail(r, SHELL_COMPLEX);
	r->budget -= bytes;
	return 0;
}

int
shell_room(struct shell_reader *r, void *p, size_t *cap, size_t count, size_t size)
{
	void *old, *more;
	size_t n = *cap == 0 ? 16 : *cap * 2;

	if (count < *cap)
		return 0;
	memcpy(&old, p, sizeof(old));
	if ((more = reallocarray(old, n, size)) == NULL)
		return shell_fail(r, SHELL_COMPLEX);
	memcpy(p, &more, sizeof(more));
	*cap = n;
	return 0;
}

int
shell_keep(struct shell_reader *r, size_t base, uint32_t *text, uint32_t *len)
{
	struct shell *out = r->out;
	size_t n = r->buf_len - base, cap = r->text_cap;
	char *more;

	while (cap - out->text_len < n + 1)
		cap = cap == 0 ? 256 : cap * 2;
	if (cap != r->text_cap) {
		if (cap > UINT32_MAX || (more = realloc(out->text, cap)) == NULL)
			return shell_fail(r, SHELL_COMPLEX);
		out->text = more;
		r->text_cap = cap;
	}
	if (n > 0)
		memcpy(out->text + out->text_len, r->buf + base, n);
	out->text[out->text_len + n] = '\0';
	*text = (uint32_t)out->text_len;
	*len = (uint32_t)n;
	out->text_len += n + 1;
	r->buf_len = base;
	return 0;
}

int
shell_enter(struct shell_reader *r, enum shell_kind kind, uint32_t *from)
{
	struct shell *out = r->out;

	*from = r->node;
	if (r->depth >= r->limits->depth || out->node_count >= SHELL_NONE)
		return shell_fail(r, SHELL_COMPLEX);
	if (shell_room(r, &out->nodes, &r->node_cap, out->node_count, sizeof(*out->nodes)) != 0)
		return -1;
	out->nodes[out->node_count] = (struct shell_node){kind, r->node, SHELL_NONE, 0, SHELL_NONE};
	r->node = (uint32_t)out->node_count++;
	r->depth++;
	return 0;
}

void
shell_leave(struct shell_reader *r, uint32_t from)
{
	r->node = from;
	r->depth--;
}

void
shell_skip(struct shell_reader *r)
{
	const char *line;
	int c;

	for (;;) {
		c = peek(r, 0);
		if (c == ' ' || c == '\t') {
			r->at++;
		} else if (c == '\\' && peek(r, 1) == '\n') {
			r->at += 2;
		} else if (c == '#') {
			line = memchr(r->s + r->at, '\n', r->len - r->at);
			r->at = line == NULL ? r->len : (size_t)(line - r->s);
		} else {
			return;
		}
	}
}

/* The end of the line at ${at}, before its newline; with ${joined} of all lines that \ continues.
 */
static size_t
line_end(const struct shell_reader *r, size_t at, bool joined)
{
	const char *found;
	size_t end, slashes;

	for (;; at = end + 1) {
		found = at < r->len ? memchr(r->s + at, '\n', r->len - at) : NULL;
		end = found == NULL ? r->len : (size_t)(found - r->s);
		for (slashes = 0; slashes < end - at && r->s[end - 1 - slashes] == '\\'; slashes++)
			;
		if (!joined || slashes % 2 == 0 || end == r->len)
			return end;
	}
}

/* Whether the line from ${at} to ${end} is the one that ends a here-document. */
static bool
doc_ends(const struct shell_reader *r, const struct shell_pending *doc, size_t at, size_t end)
{
	const char *want = r->out->text + doc->delimiter;
	size_t n = 0;

	while (doc->strip && at < end && r->s[at] == '\t')
		at++;
	for (; at < end; at++) {
		if (!doc->quoted && r->s[at] == '\\' && at + 1 < end && r->s[at + 1] == '\n') {
			at++;
			continue;
		}
		if (n == doc->len || r->s[at] != want[n++])
			return false;
	}
	return n == doc->len;
}

/* The lines from here to ${end} are the body of ${doc}: what is in it runs, unless it is quoted. */
static int
keep_body(struct shell_reader *r, const struct shell_pending *doc, size_t end)
{
	size_t base = r->buf_len, len = r->len;
	struct shell_redirect *redirect = &r->out->redirects[doc->redirect];
	uint32_t command = r->command, text, n, flags = 0;
	int rc;

	if (shell_spend(r, end - r->at) != 0)
		return -1;
	if (doc->quoted) {
		while (r->buf_cap - base < end - r->at)
			if (shell_room(r, &r->buf, &r->buf_cap, r->buf_cap, 1) != 0)
				return -1;
		if (end > r->at)
			memcpy(r->buf + base, r->s + r->at, end - r->at);
		r->buf_len = base + (end - r->at);
		flags = WORD_QUOTED | WORD_LITERAL;
		r->at = end;
	} else {
		r->command = redirect->command;
		r->len = end;
		rc = shell_read_live(r, -1, &flags);
		r->len = len;
		r->command = command;
		if (rc != 0)
			return -1;
	}
	if (shell_keep(r, base, &text, &n) != 0)
		return -1;
	r->out->redirects[doc->redirect].word = (struct shell_word){text, n, flags};
	return 0;
}

/* Behind a newline: the bodies of the here-documents that the line asked for. */
static int
read_docs(struct shell_reader *r)
{
	struct shell_pending doc;
	size_t i, at, end, from = r->doc_from, count = r->doc_count;

	for (i = from; i < count; i++) {
		doc = r->docs[i];
		for (at = r->at; at < r->len; at = end + 1) {
			end = line_end(r, at, !doc.quoted);
			if (doc_ends(r, &doc, at, end))
				break;
		}
		end = at < r->len ? line_end(r, at, !doc.quoted) : r->len;
		r->doc_from = count;
		if (keep_body(r, &doc, at < r->len ? at : r->len) != 0)
			return -1;
		r->at = end < r->len ? end + 1 : r->len;
	}
	r->doc_from = from;
	r->doc_count = from;
	return 0;
}

static int
skip_newlines(struct shell_reader *r)
{
	for (;;) {
		shell_skip(r);
		if (peek(r, 0) != '\n')
			return 0;
		r->at++;
		if (r->doc_count > r->doc_from && read_docs(r) != 0)
			return -1;
	}
}

/* The reserved word that stands here, and its length. */
static enum keyword
keyword_here(const struct shell_reader *r, size_t *n)
{
	size_t i, len = 0;
	int c;

	while (
	    (c = peek(r, len)) != -1 && len < 9 && (shell_char[c] & (CHAR_BLANK | CHAR_META)) == 0)
		len++;
	if (len == 0 || len == 9)
		return KEY_NONE;
	for (i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
		if (keywords[i].word[0] == r->s[r->at] && strlen(keywords[i].word) == len &&
		    memcmp(keywords[i].word, r->s + r->at, len) == 0 &&
		    (!keywords[i].bash || r->dialect == SHELL_BASH)) {
			*n = len;
			return keywords[i].key;
		}
	return KEY_NONE;
}

static bool
take_keyword(struct shell_reader *r, enum keyword key)
{
	size_t n;

	if (keyword_here(r, &n) != key)
		return false;
	r->at += n;
	return true;
}

static bool
ends_list(enum keyword key)
{
	return key == KEY_THEN || key == KEY_ELIF || key == KEY_ELSE || key == KEY_FI ||
	       key == KEY_DO || key == KEY_DONE || key == KEY_ESAC || key == KEY_CLOSE;
}

/* Behind a command of a list: store whether the list may go on.  0 or -1. */
static int
read_separator(struct shell_reader *r, uint32_t node, bool *more)
{
	int c;

	shell_skip(r);
	c = peek(r, 0);
	*more = c == '\n' || c == '&' || (c == ';' && peek(r, 1) != ';' && peek(r, 1) != '&');
	if (c == '&' && peek(r, 1) == '&')
		return shell_fail(r, SHELL_BROKEN);
	if (c == '&')
		r->out->nodes[node].kind = NODE_BACKGROUND;
	if (*more && c != '\n')
		r->at++;
	return 0;
}

/* Commands up to what cannot begin one; ${*count} of them. */
static int
read_list(struct shell_reader *r, size_t *count)
{
	uint32_t from, node;
	bool more = true;
	size_t n;
	int c;

	*count = 0;
	while (more) {
		if (skip_newlines(r) != 0)
			return -1;
		c = peek(r, 0);
		if (c == -1 || c == ')' || c == ';' || ends_list(keyword_here(r, &n)))
			return 0;
		if (shell_enter(r, NODE_LIST, &from) != 0 || read_and_or(r) != 0)
			return -1;
		node = r->node;
		shell_leave(r, from);
		(*count)++;
		if (read_separator(r, node, &more) != 0)
			return -1;
	}
	return 0;
}

/* A list that has to hold something, and the reserved word that ends it. */
static int
read_body(struct shell_reader *r, enum keyword end)
{
	size_t count;

	if (read_list(r, &count) != 0)
		return -1;
	return count > 0 && take_keyword(r, end) ? 0 : shell_fail(r, SHELL_BROKEN);
}

int
shell_read_until(struct shell_reader *r, char close)
{
	size_t count;

	if (read_list(r, &count) != 0)
		return -1;
	if (close == '\0')
		return r->at == r->len ? 0 : shell_fail(r, SHELL_BROKEN);
	if (peek(r, 0) != close)
		return shell_fail(r, SHELL_BROKEN);
	r->at++;
	return 0;
}

/* One side of a pipe; store its node. */
static int
read_stage(struct shell_reader *r, uint32_t *stage)
{
	uint32_t from;

	if (shell_enter(r, NODE_STAGE, &from) != 0 || read_command(r) != 0)
		return -1;
	*stage = r->node;
	shell_leave(r, from);
	return 0;
}

/* The stages behind the first of a pipeline, which had no node of its own so far. */
static int
read_stages(struct shell_reader *r, uint32_t first)
{
	uint32_t from, pipe;

	if (shell_enter(r, NODE_PIPELINE, &from) != 0)
		return -1;
	pipe = r->node;
	r->out->nodes[first].parent = pipe;
	r->out->nodes[pipe].number = 1;
	while (peek(r, 0) == '|' && peek(r, 1) != '|') {
		r->at += r->dialect == SHELL_BASH && peek(r, 1) == '&' ? 2 : 1;
		if (skip_newlines(r) != 0 || read_stage(r, &first) != 0)
			return -1;
		r->out->nodes[first].number = r->out->nodes[pipe].number++;
		shell_skip(r);
	}
	shell_leave(r, from);
	return 0;
}

/* Behind "time": its options.  Return whether nothing is timed. */
static bool
time_alone(struct shell_reader *r)
{
	size_t n;
	int c;

	shell_skip(r);
	while (peek(r, 0) == '-' && (peek(r, 1) == 'p' || peek(r, 1) == '-') &&
	       (peek(r, 2) == -1 || shell_char[peek(r, 2)] != 0)) {
		r->at += 2;
		shell_skip(r);
	}
	c = peek(r, 0);
	return c == -1 || c == '\n' || c == ';' || c == ')' || ends_list(keyword_here(r, &n));
}

static int
read_pipeline(struct shell_reader *r)
{
	uint32_t stage;
	int c;

	shell_skip(r);
	for (;;) {
		if (take_keyword(r, KEY_TIME)) {
			if (time_alone(r))
				return 0;
		} else if (take_keyword(r, KEY_NOT)) {
			shell_skip(r);
			c = peek(r, 0);
			if (r->dialect == SHELL_BASH && (c == -1 || c == '\n' || c == ';'))
				return 0;
		} else {
			break;
		}
	}
	if (read_stage(r, &stage) != 0)
		return -1;
	shell_skip(r);
	return peek(r, 0) == '|' && peek(r, 1) != '|' ? read_stages(r, stage) : 0;
}

static int
read_and_or(struct shell_reader *r)
{
	int c;

	for (;;) {
		if (read_pipeline(r) != 0)
			return -1;
		c = peek(r, 0);
		if ((c != '&' && c != '|') || peek(r, 1) != c)
			return 0;
		r->at += 2;
		if (skip_newlines(r) != 0)
			return -1;
	}
}

/* What an operator of redirection is; its length. */
static size_t
redirect_here(const struct shell_reader *r, enum shell_redirect_kind *kind)
{
	int a = peek(r, 0), b = peek(r, 1), c = peek(r, 2);
	bool bash = r->dialect == SHELL_BASH;

	*kind = a == '<' ? REDIRECT_IN : REDIRECT_OUT;
	if (a == '&' && b == '>' && bash)
		return c == '>' ? 3 : 2;
	if (a == '<' && b == '<' && c == '<' && bash) {
		*kind = REDIRECT_STRING;
		return 3;
	}
	if (a == '<' && b == '<') {
		*kind = REDIRECT_BODY;
		return c == '-' ? 3 : 2;
	}
	if ((a == '<' || a == '>') && b == '(' && bash)
		return 0;
	if (a == '<' && b == '>') {
		*kind = REDIRECT_OUT;
		return 2;
	}
	if ((a == '<' && b == '&') || (a == '>' && (b == '&' || b == '>' || b == '|')))
		return 2;
	return a == '<' || a == '>' ? 1 : 0;
}

/* The number or {name} before an operator of redirection. */
static size_t
descriptor_here(const struct shell_reader *r)
{
	size_t n = 0;
	int c = peek(r, 0);

	if (c == '{' && r->dialect == SHELL_BASH) {
		for (n = 1; (c = peek(r, n)) != -1 && n < 128 && shell_char[c] == 0 && c != '}';
		     n++)
			;
		if (c != '}' || n == 1)
			return 0;
		n++;
	} else {
		while ((c = peek(r, n)) >= '0' && c <= '9' && n < 128)
			n++;
	}
	c = peek(r, n);
	return c == '<' || c == '>' ? n : 0;
}

/* Read a redirection, where one stands here.  1, 0 or -1. */
static int
read_redirect(struct shell_reader *r)
{
	size_t skip = descriptor_here(r), n;
	enum shell_redirect_kind kind;
	struct shell_word word;
	struct shell *out = r->out;
	bool strip;

	r->at += skip;
	if ((n = redirect_here(r, &kind)) == 0) {
		r->at -= skip;
		return 0;
	}
	strip = kind == REDIRECT_BODY && n == 3;
	r->at += n;
	shell_skip(r);
	if (shell_read_word(r, kind == REDIRECT_BODY ? MODE_DELIMITER : MODE_PLAIN, &word) != 0 ||
	    shell_room(r, &out->redirects, &r->redirect_cap, out->redirect_count,
		sizeof(*out->redirects)) != 0)
		return -1;
	if (kind == REDIRECT_BODY) {
		if (shell_room(r, &r->docs, &r->doc_cap, r->doc_count, sizeof(*r->docs)) != 0)
			return -1;
		r->docs[r->doc_count++] = (struct shell_pending){word.text, word.len,
		    out->redirect_count, strip, (word.flags & WORD_QUOTED) != 0};
		word.len = 0;
	}
	out->redirects[out->redirect_count++] =
	    (struct shell_redirect){kind, r->command, r->node, word};
	return 1;
}

/* Redirections behind a compound command. */
static int
read_redirects(struct shell_reader *r)
{
	int rc;

	do {
		shell_skip(r);
		rc = read_redirect(r);
	} while (rc == 1);
	return rc;
}

/* Whether ${word} takes NAME=( ) among its arguments. */
static bool
declares(const char *word)
{
	static const char *const names[] = {
	    "declare", "export", "local", "readonly", "typeset", "eval", "let"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(word, names[i]) == 0)
			return true;
	return false;
}

static int
push_word(struct shell_reader *r, const struct shell_word *word)
{
	if (shell_room(r, &r->stack, &r->stack_cap, r->stack_len, sizeof(*r->stack)) != 0)
		return -1;
	r->stack[r->stack_len++] = *word;
	return 0;
}

/* The words from ${base} of the stack on are those of the command ${command}. */
static int
keep_command(struct shell_reader *r, uint32_t command, size_t base)
{
	struct shell *out = r->out;
	struct shell_command *c = &out->commands[command];
	size_t i;

	c->first = (uint32_t)out->word_count;
	c->count = (uint32_t)(r->stack_len - base);
	for (i = base; i < r->stack_len; i++) {
		if (shell_room(
			r, &out->words, &r->word_cap, out->word_count, sizeof(*out->words)) != 0)
			return -1;
		if ((r->stack[i].flags & WORD_ASSIGNS) != 0 && i - base == c->assigned)
			c->assigned++;
		r->stack[i].flags &= ~(uint32_t)WORD_ASSIGNS;
		out->words[out->word_count++] = r->stack[i];
	}
	r->stack_len = base;
	return 0;
}

/* Behind NAME( or "function NAME": the body.  The node has been entered. */
static int
read_function_body(struct shell_reader *r, uint32_t name)
{
	uint32_t from;

	if (shell_enter(r, NODE_FUNCTION, &from) != 0)
		return -1;
	r->out->nodes[r->node].name = name;
	if (skip_newlines(r) != 0 || read_command(r) != 0)
		return -1;
	shell_leave(r, from);
	return 0;
}

/* At the parenthesis behind the first word of a command. */
static int
read_definition(struct shell_reader *r, const struct shell_word *name)
{
	r->at++;
	shell_skip(r);
	if (peek(r, 0) != ')' || (name->flags & WORD_DYNAMIC) != 0)
		return shell_fail(r, SHELL_BROKEN);
	r->at++;
	return read_function_body(r, name->text);
}

static int
reserve_command(struct shell_reader *r, uint32_t *command)
{
	struct shell *out = r->out;

	if (out->command_count >= r->limits->commands)
		return shell_fail(r, SHELL_COMPLEX);
	if (shell_room(r, &out->commands, &r->command_cap, out->command_count,
		sizeof(*out->commands)) != 0)
		return -1;
	*command = (uint32_t)out->command_count;
	out->commands[out->command_count++] = (struct shell_command){r->node, 0, 0, 0};
	return 0;
}

/*
 * Read the words and redirections of a simple command.  Return 1 where its first word is the name
 * of a function, which stands on the stack; 0; or -1.
 */
static int
read_words(struct shell_reader *r, size_t base)
{
	unsigned mode = MODE_ASSIGN;
	struct shell_word word;
	size_t redirects = r->out->redirect_count;
	bool named = false;
	int rc, c;

	for (;;) {
		shell_skip(r);
		c = peek(r, 0);
		if (c == '(' && r->stack_len == base + 1 && r->out->redirect_count == redirects &&
		    (r->stack[base].flags & WORD_ASSIGNS) == 0)
			return 1;
		if ((rc = read_redirect(r)) == -1)
			return -1;
		if (rc == 1)
			continue;
		if (c == -1 || ((shell_char[c] & CHAR_META) != 0 &&
				   !(r->dialect == SHELL_BASH && (c == '<' || c == '>'))))
			return 0;
		if (shell_read_word(r, mode, &word) != 0 || push_word(r, &word) != 0)
			return -1;
		if (!named && (word.flags & WORD_ASSIGNS) == 0) {
			named = true;
			mode = declares(r->out->text + word.text) ? MODE_ASSIGN : MODE_PLAIN;
		}
	}
}

static int
read_simple(struct shell_reader *r)
{
	uint32_t command, outer = r->command;
	size_t base = r->stack_len, redirects = r->out->redirect_count;
	struct shell_word name;
	int rc;

	if (reserve_command(r, &command) != 0)
		return -1;
	r->command = command;
	rc = read_words(r, base);
	r->command = outer;
	if (rc == 1) {
		name = r->stack[base];
		r->stack_len = base;
		/* No word was kept, so the command is empty: it stays as that. */
		return read_definition(r, &name);
	}
	if (rc == 0 && r->stack_len == base && r->out->redirect_count == redirects)
		return shell_fail(r, SHELL_BROKEN);
	if (keep_command(r, command, base) != 0)
		return -1;
	return rc;
}

static int
read_if(struct shell_reader *r)
{
	size_t count;

	if (read_body(r, KEY_THEN) != 0)
		return -1;
	for (;;) {
		if (read_list(r, &count) != 0)
			return -1;
		if (count == 0)
			return shell_fail(r, SHELL_BROKEN);
		if (take_keyword(r, KEY_FI))
			return 0;
		if (take_keyword(r, KEY_ELSE))
			return read_body(r, KEY_FI);
		if (!take_keyword(r, KEY_ELIF))
			return shell_fail(r, SHELL_BROKEN);
		if (read_body(r, KEY_THEN) != 0)
			return -1;
	}
}

/* The body of a for or select: do … done, or in bash { … }. */
static int
read_loop_body(struct shell_reader *r)
{
	if (skip_newlines(r) != 0)
		return -1;
	if (take_keyword(r, KEY_DO))
		return read_body(r, KEY_DONE);
	if (r->dialect == SHELL_BASH && take_keyword(r, KEY_OPEN))
		return read_body(r, KEY_CLOSE);
	return shell_fail(r, SHELL_BROKEN);
}

/* "in" and the words behind it, where they stand here, up to the end of the line. */
static int
read_in(struct shell_reader *r)
{
	struct shell_word word;
	int c;

	if (!(peek(r, 0) == 'i' && peek(r, 1) == 'n' &&
		(peek(r, 2) == -1 || (shell_char[peek(r, 2)] & (CHAR_BLANK | CHAR_META)) != 0 ||
		    (peek(r, 2) == '\\' && peek(r, 3) == '\n'))))
		return 0;
	r->at += 2;
	for (;;) {
		shell_skip(r);
		c = peek(r, 0);
		if (c == '\n' || c == ';')
			return 0;
		if (shell_read_word(r, MODE_PLAIN, &word) != 0)
			return -1;
	}
}

static int
read_for(struct shell_reader *r)
{
	struct shell_word word;
	int rc;

	shell_skip(r);
	if (r->dialect == SHELL_BASH && peek(r, 0) == '(' && peek(r, 1) == '(') {
		r->at += 2;
		if ((rc = shell_read_arithmetic(r)) != 0)
			return rc == 1 ? shell_fail(r, SHELL_BROKEN) : -1;
		shell_skip(r);
	} else {
		if (shell_read_word(r, MODE_PLAIN, &word) != 0 || skip_newlines(r) != 0 ||
		    read_in(r) != 0)
			return -1;
	}
	if (peek(r, 0) == ';')
		r->at++;
	return read_loop_body(r);
}

static int
read_while(struct shell_reader *r)
{
	return read_body(r, KEY_DO) != 0 ? -1 : read_body(r, KEY_DONE);
}

/* The patterns of one branch, up to the parenthesis that closes them. */
static int
read_patterns(struct shell_reader *r)
{
	struct shell_word word;

	if (peek(r, 0) == '(')
		r->at++;
	for (;;) {
		shell_skip(r);
		if (shell_read_word(r, MODE_PATTERN, &word) != 0)
			return -1;
		shell_skip(r);
		if (peek(r, 0) == ')')
			break;
		if (peek(r, 0) != '|')
			return shell_fail(r, SHELL_BROKEN);
		r->at++;
	}
	r->at++;
	return 0;
}

static int
read_case(struct shell_reader *r)
{
	struct shell_word word;
	size_t count;

	shell_skip(r);
	if (shell_read_word(r, MODE_PLAIN, &word) != 0 || skip_newlines(r) != 0)
		return -1;
	if (!(peek(r, 0) == 'i' && peek(r, 1) == 'n' &&
		(peek(r, 2) == -1 || shell_char[peek(r, 2)] != 0)))
		return shell_fail(r, SHELL_BROKEN);
	r->at += 2;
	for (;;) {
		if (skip_newlines(r) != 0)
			return -1;
		if (take_keyword(r, KEY_ESAC))
			return 0;
		if (read_patterns(r) != 0 || read_list(r, &count) != 0)
			return -1;
		if (take_keyword(r, KEY_ESAC))
			return 0;
		/* ;; and bash's ;& and ;;& */
		if (peek(r, 0) != ';' || (peek(r, 1) != ';' && peek(r, 1) != '&'))
			return shell_fail(r, SHELL_BROKEN);
		r->at += peek(r, 1) == ';' && peek(r, 2) == '&' ? 3 : 2;
	}
}

static bool
test_ends(const struct shell_reader *r)
{
	return peek(r, 0) == ']' && peek(r, 1) == ']' &&
	       (peek(r, 2) == -1 || (shell_char[peek(r, 2)] & (CHAR_BLANK | CHAR_META)) != 0);
}

/* [[ ]]: only what expands in it matters here. */
static int
read_test(struct shell_reader *r)
{
	struct shell_word word;
	unsigned mode = MODE_PATTERN;
	int c;

	for (;;) {
		if (skip_newlines(r) != 0)
			return -1;
		if (test_ends(r)) {
			r->at += 2;
			return 0;
		}
		c = peek(r, 0);
		if (c == -1 || c == ';' || (c == '&' && peek(r, 1) != '&') ||
		    (c == '|' && peek(r, 1) != '|' && mode != MODE_REGEX))
			return shell_fail(r, SHELL_BROKEN);
		if ((c == '&' || c == '|') && peek(r, 1) == c) {
			r->at += 2;
		} else if (mode != MODE_REGEX && (shell_char[c] & CHAR_META) != 0 &&
			   !((c == '<' || c == '>') && peek(r, 1) == '(')) {
			r->at++;
		} else {
			if (shell_read_word(r, mode, &word) != 0)
				return -1;
			mode = strcmp(r->out->text + word.text, "=~") == 0 &&
				       (word.flags & WORD_QUOTED) == 0
				   ? MODE_REGEX
				   : MODE_PATTERN;
		}
	}
}

static int
read_function(struct shell_reader *r)
{
	struct shell_word name;

	shell_skip(r);
	if (shell_read_word(r, MODE_PLAIN, &name) != 0)
		return -1;
	shell_skip(r);
	if (peek(r, 0) == '(') {
		r->at++;
		shell_skip(r);
		if (peek(r, 0) != ')') {
			/* function NAME ( list ): the parenthesis is the body. */
			r->at--;
			while (r->s[r->at] != '(')
				r->at--;
		} else {
			r->at++;
		}
	}
	return read_function_body(r, name.text);
}

/* Behind coproc: a NAME may stand before a compound command. */
static int
read_coproc(struct shell_reader *r)
{
	struct shell_word name;
	size_t at, n;
	int c;

	shell_skip(r);
	at = r->at;
	c = peek(r, 0);
	if (c != -1 && c != '(' && shell_char[c] == 0 && keyword_here(r, &n) == KEY_NONE) {
		if (shell_read_word(r, MODE_PLAIN, &name) != 0)
			return -1;
		shell_skip(r);
		if (peek(r, 0) != '(' && keyword_here(r, &n) == KEY_NONE) {
			if (shell_spend(r, r->at - at) != 0)
				return -1;
			r->at = at;
		}
	}
	return read_command(r);
}

/* ( list ), or in bash (( arithmetic )). */
static int
read_parentheses(struct shell_reader *r)
{
	uint32_t from;
	int rc;
	size_t count;

	r->at++;
	if (peek(r, 0) == '(' && r->dialect == SHELL_BASH) {
		if (shell_enter(r, NODE_TEST, &from) != 0)
			return -1;
		r->at++;
		rc = shell_read_arithmetic(r);
		shell_leave(r, from);
		if (rc != 1)
			return rc;
		r->at--;
	}
	if (shell_enter(r, NODE_SUBSHELL, &from) != 0 || read_list(r, &count) != 0)
		return -1;
	shell_leave(r, from);
	if (count == 0 || peek(r, 0) != ')')
		return shell_fail(r, SHELL_BROKEN);
	r->at++;
	return 0;
}

static const struct {
	enum keyword key;
	enum shell_kind kind;
	int (*read)(struct shell_reader *r);
} compounds[] = {
    {KEY_IF, NODE_IF, read_if},
    {KEY_FOR, NODE_LOOP, read_for},
    {KEY_SELECT, NODE_LOOP, read_for},
    {KEY_WHILE, NODE_LOOP, read_while},
    {KEY_UNTIL, NODE_LOOP, read_while},
    {KEY_CASE, NODE_CASE, read_case},
    {KEY_TEST, NODE_TEST, read_test},
    {KEY_FUNCTION, NODE_GROUP, read_function},
    {KEY_COPROC, NODE_BACKGROUND, read_coproc},
};

static int
read_compound(struct shell_reader *r, enum keyword key)
{
	uint32_t from;
	size_t i;
	int rc = -1;

	if (key == KEY_OPEN) {
		if (shell_enter(r, NODE_GROUP, &from) != 0 || read_body(r, KEY_CLOSE) != 0)
			return -1;
		shell_leave(r, from);
		return 0;
	}
	for (i = 0; i < sizeof(compounds) / sizeof(compounds[0]); i++) {
		if (compounds[i].key != key)
			continue;
		if (shell_enter(r, compounds[i].kind, &from) != 0)
			return -1;
		rc = compounds[i].read(r);
		shell_leave(r, from);
		return rc;
	}
	return shell_fail(r, SHELL_BROKEN);
}

static int
read_command(struct shell_reader *r)
{
	enum keyword key;
	uint32_t command = r->command;
	size_t n = 0;
	int rc;

	shell_skip(r);
	r->command = SHELL_NONE;
	key = keyword_here(r, &n);
	if (peek(r, 0) == '(') {
		rc = read_parentheses(r);
	} else if (key != KEY_NONE) {
		r->at += n;
		rc = read_compound(r, key);
	} else {
		rc = read_simple(r);
		r->command = command;
		return rc;
	}
	if (rc == 0)
		rc = read_redirects(r);
	r->command = command;
	return rc;
}

static void
reader_end(struct shell_reader *r)
{
	struct copy *copy;

	while ((copy = r->copies) != NULL) {
		r->copies = copy->next;
		free(copy);
	}
	free(r->buf);
	free(r->stack);
	free(r->docs);
}

struct shell *
shell_parse(
    const char *text, size_t len, enum shell_dialect dialect, const struct shell_limits *limits)
{
	struct shell_reader r = {.limits = limits,
	    .dialect = dialect,
	    .s = text,
	    .len = len,
	    .node = SHELL_NONE,
	    .command = SHELL_NONE};

	if ((r.out = calloc(1, sizeof(*r.out))) == NULL)
		return NULL;
	r.budget = 8 * len + 4096;
	if (len > limits->text)
		shell_fail(&r, SHELL_COMPLEX);
	else if (len > 0 && memchr(text, '\0', len) != NULL)
		shell_fail(&r, SHELL_BROKEN);
	else
		shell_read_until(&r, '\0');
	reader_end(&r);
	return r.out;
}

void
shell_free(struct shell *script)
{
	if (script == NULL)
		return;
	free(script->text);
	free(script->nodes);
	free(script->commands);
	free(script->words);
	free(script->redirects);
	free(script);
}

const char *
shell_text(const struct shell *script, const struct shell_word *word)
{
	return script->text + word->text;
}
