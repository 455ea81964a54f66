/* shell.h: a shell script as what it would run: a tree, its simple commands, their words. */
#ifndef ENGINE_POLICY_SHELL_H
#define ENGINE_POLICY_SHELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which grammar.  The same text can run different things: $'\'; rm x #' is one string for bash and
 * a command for sh (dash), ((rm x)) is a sum for bash and a subshell for sh.  Who does not know
 * the shell looks at both.
 */
enum shell_dialect { SHELL_BASH, SHELL_POSIX };

enum shell_state {
	SHELL_GOOD,
	SHELL_BROKEN, /* no shell of the dialect takes it, or we do not know its grammar */
	SHELL_COMPLEX /* past a limit, or out of memory */
};

/* Sizes in bytes, levels, rows: from the settings policy.shell_*. */
struct shell_limits {
	size_t text;
	unsigned depth;
	size_t commands;
};

/* What is known of a word.  Its text has quotes taken away; an expansion stands in it as $NAME. */
enum shell_flags {
	WORD_DYNAMIC = 1,  /* an expansion or substitution is in it */
	WORD_LITERAL = 2,  /* and something that is known */
	WORD_QUOTED = 4,   /* a quote or backslash was in it */
	WORD_BRACE = 8,    /* an unquoted { that may be a brace expansion */
	WORD_FIELDS = 16,  /* \x1f in the text: an unquoted $IFS, so here it falls into two */
	WORD_UNQUOTED = 32 /* an unquoted expansion: it may become several words, or none */
};

struct shell_word {
	uint32_t text, len; /* in shell.text, ended by NUL */
	uint32_t flags;
};

/* What the simple commands stand in. */
enum shell_kind {
	NODE_LIST,
	NODE_PIPELINE,
	NODE_STAGE, /* one side of a pipe */
	NODE_SUBSHELL,
	NODE_GROUP,
	NODE_IF,
	NODE_LOOP, /* for, select, while, until */
	NODE_CASE,
	NODE_FUNCTION,
	NODE_SUBSTITUTION, /* $(), ``, <(), >() */
	NODE_TEST,         /* [[ ]], (( )) */
	NODE_BACKGROUND    /* ended by & */
};

#define SHELL_NONE UINT32_MAX

struct shell_node {
	enum shell_kind kind;
	uint32_t parent;  /* SHELL_NONE: the script */
	uint32_t command; /* of a substitution: the command whose word it is in, or SHELL_NONE */
	uint32_t number;  /* of a stage: from 0; of a pipeline: how many stages */
	uint32_t name;    /* of a function: its name, in shell.text */
};

enum shell_redirect_kind { REDIRECT_IN, REDIRECT_OUT, REDIRECT_BODY, REDIRECT_STRING };

struct shell_redirect {
	enum shell_redirect_kind kind;
	uint32_t command;       /* SHELL_NONE: of a compound command */
	uint32_t node;          /* in which it stands */
	struct shell_word word; /* the target; of REDIRECT_BODY the lines of the here-document */
};

struct shell_command {
	uint32_t node;
	uint32_t first, count; /* in shell.words, assignments before the others */
	uint32_t assigned;     /* how many are assignments */
};

struct shell {
	enum shell_state state;
	size_t failed_at; /* where reading ended, in bytes, unless it is good */
	char *text;
	size_t text_len;
	struct shell_node *nodes;
	size_t node_count;
	struct shell_command *commands; /* in the order in which they begin */
	size_t command_count;
	struct shell_word *words;
	size_t word_count;
	struct shell_redirect *redirects;
	size_t redirect_count;
};

/**
 * shell_parse(text, len, dialect, limits):
 * Read the ${len} bytes at ${text} as a script (POSIX.1-2017 XCU 2, bash 5.2).  Nothing is run,
 * opened or looked up.  The time is linear in ${len} and the C stack bounded by limits->depth.
 * What was read before a fault is in the result as well, since a shell may have run it before it
 * came to the fault.  Return the script, to be freed with shell_free, or NULL without memory.
 */
struct shell *shell_parse(
    const char *text, size_t len, enum shell_dialect dialect, const struct shell_limits *limits);

/**
 * shell_free(script):
 * Free ${script}, which may be NULL.
 */
void shell_free(struct shell *script);

/**
 * shell_text(script, word):
 * Return the text of ${word}; it lives as long as ${script}.
 */
const char *shell_text(const struct shell *script, const struct shell_word *word);

#endif
