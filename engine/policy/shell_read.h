/* shell_read.h: between the two halves of the reader of scripts: the grammar and the words. */
#ifndef ENGINE_POLICY_SHELL_READ_H
#define ENGINE_POLICY_SHELL_READ_H

#include "engine/policy/shell.h"

/* A here-document whose body has not come yet. */
struct shell_pending {
	uint32_t delimiter, len; /* in shell.text */
	size_t redirect;
	bool strip, quoted;
};

struct shell_reader {
	struct shell *out;
	const struct shell_limits *limits;
	enum shell_dialect dialect;
	const char *s;
	size_t len, at;
	unsigned depth;
	size_t budget;    /* bytes that may be read a second time */
	uint32_t node;    /* in which we stand */
	uint32_t command; /* whose words are read, or SHELL_NONE */
	/* Stacks: a substitution pushes its words above those that its command has so far. */
	char *buf;
	size_t buf_len, buf_cap;
	struct shell_word *stack;
	size_t stack_len, stack_cap;
	struct shell_pending *docs;
	size_t doc_count, doc_from, doc_cap;
	size_t text_cap, node_cap, command_cap, word_cap, redirect_cap;
	struct copy {
		struct copy *next;
	} * copies; /* of what stood in backquotes */
};

/* How a word is read. */
enum shell_word_mode {
	MODE_PLAIN = 0,
	MODE_ASSIGN = 1,   /* NAME=, NAME[i]=, NAME=( ) mean something here */
	MODE_PATTERN = 2,  /* @(a|b) is one word */
	MODE_REGEX = 4,    /* so are ( ) and | */
	MODE_DELIMITER = 8 /* nothing is expanded */
};

/* Kept in the flags while a command is read. */
#define WORD_ASSIGNS 64

/* Of a character: what ends a run of plain ones in a word. */
enum { CHAR_BLANK = 1, CHAR_META = 2, CHAR_SPECIAL = 4 };
extern const unsigned char shell_char[256];

/**
 * shell_fail(r, state):
 * The script is not good: for the first reason that is found.  Return -1.
 */
int shell_fail(struct shell_reader *r, enum shell_state state);

/**
 * shell_room(r, p, cap, count, size):
 * Make room for one more item of ${size} bytes behind ${count} at ${*p}.  Return 0 or -1.
 */
int shell_room(struct shell_reader *r, void *p, size_t *cap, size_t count, size_t size);

/**
 * shell_keep(r, base, text, len):
 * Move what stands in the stack of text from ${base} on to the script, with a NUL.  Return 0 or -1.
 */
int shell_keep(struct shell_reader *r, size_t base, uint32_t *text, uint32_t *len);

/**
 * shell_spend(r, bytes):
 * ${bytes} will be read again.  Return 0, or -1 where that would be no linear time.
 */
int shell_spend(struct shell_reader *r, size_t bytes);

/**
 * shell_read_word(r, mode, word):
 * Read the word that begins here.  Return 0 or -1.
 */
int shell_read_word(struct shell_reader *r, unsigned mode, struct shell_word *word);

/**
 * shell_read_arithmetic(r):
 * Read behind "((" to the "))" that ends it.  Return 0; 1, where it is no arithmetic; or -1.
 */
int shell_read_arithmetic(struct shell_reader *r);

/**
 * shell_read_live(r, end, flags):
 * Read text in which only $, ` and \ mean something, up to the character ${end}, or with -1 to
 * r->len.  Return 0 or -1.
 */
int shell_read_live(struct shell_reader *r, int end, uint32_t *flags);

/**
 * shell_skip(r):
 * Skip blanks, continued lines and a comment.
 */
void shell_skip(struct shell_reader *r);

/**
 * shell_read_until(r, close):
 * Read commands up to the character ${close} and past it; with '\0' up to r->len.  Return 0 or -1.
 */
int shell_read_until(struct shell_reader *r, char close);

/**
 * shell_enter(r, kind), shell_leave(r, node):
 * Go into a node, one level deeper, and back to the node that shell_enter returned in ${*from}.
 */
int shell_enter(struct shell_reader *r, enum shell_kind kind, uint32_t *from);
void shell_leave(struct shell_reader *r, uint32_t from);

#endif
