/* progress.h: one line on a terminal that says how far something long has come; silent elsewhere.
 */
#ifndef SHELL_PROGRESS_H
#define SHELL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "shell/cli.h"

struct progress {
	bool shown;      /* there is a terminal, and somebody who reads it */
	int width;       /* of it, in columns */
	char what[160];  /* is being done now */
	int64_t since;   /* it began, in ms of a clock that only goes forward */
	int64_t told_at; /* something was written last */
};

/**
 * progress_begin(p, cli):
 * Prepare ${p}: it shows something where standard error is a terminal and ${cli} speaks to people.
 */
void progress_begin(struct progress *p, const struct cli *cli);

/**
 * progress_tell(p, what, done, total):
 * Say on the line that ${what} is being done, that ${done} of ${total} are, and how long the rest
 * may take; ${total} is 0 where nobody knows.  Written ten times a second at most.  Of the form
 * that struct backup_watch has.
 */
void progress_tell(void *p, const char *what, int64_t done, int64_t total);

/**
 * progress_end(p):
 * Take the line away.  Nothing happens where there is none.
 */
void progress_end(struct progress *p);

#endif
