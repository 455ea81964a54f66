/* command.h: what a shell script would do, as far as its text says it. */
#ifndef ENGINE_POLICY_COMMAND_H
#define ENGINE_POLICY_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/policy/shell.h"

/* Kinds of what it does; the first are of scripts, the others of requests (risk.h). */
enum risk_category {
	RISK_NETWORK = 1,
	RISK_DESTRUCTIVE = 2,
	RISK_PIPED_INSTALLER = 4,  /* runs what it fetches */
	RISK_UNPARSEABLE = 8,      /* no shell grammar of ours takes it */
	RISK_UNSEEN_SCRIPT = 16,   /* runs a script that is not in the text */
	RISK_UNKNOWN_PROGRAM = 32, /* the name of a program is known only when it runs */
	RISK_READ = 64,
	RISK_WRITE = 128,
	RISK_SHELL = 256,
	RISK_OUT_OF_WORKSPACE = 512,
	RISK_ABSOLUTE_PATH = 1024,
	RISK_PATH_ESCAPE = 2048,
	RISK_SYMLINK_TRAVERSAL = 4096
};

#define COMMAND_PROGRAMS 32
#define COMMAND_NAME     32

struct command_report {
	unsigned categories;
	bool interactive;             /* it would wait for a person at a terminal */
	char opens[2 * COMMAND_NAME]; /* which program, "vim" or "git rebase -i" */
	const char *why, *instead;    /* of what is interactive; static */
	/* Distinct programs, for the person who reads it; the first of them where there are more.
	 */
	char programs[COMMAND_PROGRAMS][COMMAND_NAME];
	size_t program_count;
};

/**
 * command_look(text, len, limits, report):
 * Say in ${report} what the script of ${len} bytes at ${text} would do under bash or sh, whichever
 * is worse: wrappers (sudo, xargs, find -exec, sh -c and their like) are looked through, at most
 * four deep.  Where the text cannot be read as a script, every word of it counts as a program.
 * Nothing is run.  Linear in ${len}.  Return 0, or -1 without memory.
 */
int command_look(
    const char *text, size_t len, const struct shell_limits *limits, struct command_report *report);

#endif
