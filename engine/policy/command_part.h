/* command_part.h: the parts of command_look: programs, arguments, rules, the walk. */
#ifndef ENGINE_POLICY_COMMAND_PART_H
#define ENGINE_POLICY_COMMAND_PART_H

#include "engine/policy/command.h"

/* How deep a script in a script, or a command in a command, is looked at. */
#define COMMAND_DEEP 4

/* The longest value of a variable that is remembered, with its NUL. */
#define COMMAND_VALUE 256

struct arg {
	const char *s;
	uint32_t len, flags; /* WORD_... */
};

struct args {
	struct arg *at;
	size_t count, cap;
};

/* What is known of a program by its name. */
enum program_kind {
	PROGRAM_SHELL = 1,       /* runs a script in the grammar that we read */
	PROGRAM_INTERPRETER = 2, /* runs one in another language */
	PROGRAM_FETCH = 4,       /* writes what it fetched to its output */
	PROGRAM_NETWORK = 8,
	PROGRAM_DESTRUCTIVE = 16,
	PROGRAM_SCREEN = 32,  /* always wants a terminal */
	PROGRAM_REPL = 64,    /* wants one unless its arguments say otherwise */
	PROGRAM_SOURCE = 128, /* eval, source, . */
	PROGRAM_RULE = 256    /* its arguments decide: command_rule */
};

struct program {
	const char *name;
	unsigned kind;
	const char *values;   /* short options that take the next word */
	const char *inlines;  /* of a REPL: options that bring its input: "-c -m" */
	unsigned positionals; /* of a REPL: so many words mean that it does not talk; 0: never */
};

/* A program that runs its arguments as a command. */
struct wrapper {
	const char *name;
	const char *values;   /* short options that take the next word */
	const char *longs;    /* long ones: " --user --group " */
	unsigned positionals; /* words of its own before the command */
	bool assigns;         /* NAME=value may stand before the command */
};

struct look {
	struct command_report *report;
	const struct shell_limits *limits;
	enum shell_dialect dialect;
	unsigned deep, inner; /* scripts in scripts, commands in commands */
	bool failed;          /* no memory */
	size_t script;        /* bytes of scripts that may still be read: the time is linear */
	size_t budget; /* bytes that expansions may take, or the text counts as unparseable */
	/* Of the command that is looked at: */
	bool fed;      /* its input is a pipe or a file */
	unsigned kind; /* of what it runs in the end */
	bool bare;     /* a shell without a script in its arguments */
	/* NAME=literal, the newest for each name: copies, since a script inside is gone before. */
	struct known {
		char name[COMMAND_NAME], value[COMMAND_VALUE];
		uint32_t flags;
	} known[16];
	size_t known_count;
	struct held {
		struct held *next;
	} * held; /* memory of expanded words */
};

/**
 * program_named(name), wrapper_named(name):
 * Return what is known of the program ${name}, a word without a folder: what it does, or how it
 * starts another one; or NULL.
 */
const struct program *program_named(const char *name);
const struct wrapper *wrapper_named(const char *name);

/**
 * program_name(arg, out):
 * Store the name under which tables know ${arg}: without directories, in lower case; "" for none.
 */
void program_name(const struct arg *arg, char out[COMMAND_NAME]);

/**
 * args_build(l, script, command, args):
 * Fill ${args} with the arguments of ${command} as far as they are known: known variables put in,
 * braces expanded, fields split.  Its assignments are remembered.  Return 0 or -1.
 */
int args_build(struct look *l, const struct shell *script, const struct shell_command *command,
    struct args *args);

/**
 * args_join(l, argv, n, out, len):
 * The arguments with blanks between; held by ${l}.  Return 0 or -1.
 */
int args_join(struct look *l, const struct arg *argv, size_t n, char **out, size_t *len);

/**
 * arg_is(arg, text):
 * Return whether ${arg} is exactly ${text}.
 */
bool arg_is(const struct arg *arg, const char *text);

/**
 * option_long(arg, longs):
 * Return whether ${arg} is, or abbreviates, one of the options ${longs}: " --user --group ".
 */
bool option_long(const struct arg *arg, const char *longs);

/**
 * command_argv(l, argv, n):
 * Look at a command: through its wrappers, at its program and what that is told to do.
 */
void command_argv(struct look *l, const struct arg *argv, size_t n);

/**
 * command_script(l, text, len, dialect):
 * Look at a script one level deeper.
 */
void command_script(struct look *l, const char *text, size_t len, enum shell_dialect dialect);

/**
 * command_rule(l, name, argv, n):
 * What the arguments ${argv} of the program ${name} make of it; ${argv}[0] is the program.
 */
void command_rule(struct look *l, const char *name, const struct arg *argv, size_t n);

/**
 * command_talks(l, program, name, argv, n):
 * Note whether the command would wait for a person at a terminal.
 */
void command_talks(struct look *l, const struct program *program, const char *name,
    const struct arg *argv, size_t n);

/**
 * command_target(l, path):
 * Note a file that is written: a disk, or a connection of bash.
 */
void command_target(struct look *l, const char *path);

/**
 * command_text(l, text, len):
 * Look at a text that is no script: every word may be a program.
 */
void command_text(struct look *l, const char *text, size_t len);

#endif
