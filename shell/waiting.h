/* waiting.h: one line on a terminal that says whom an ask waits for, and Ctrl-C that ends the wait.
 */
#ifndef SHELL_WAITING_H
#define SHELL_WAITING_H

#include "shell/progress.h"

struct waiting {
	bool on;    /* between waiting_begin and waiting_end */
	bool quiet; /* the answer has begun: there is no line any more */
	struct progress line;
	const char *box;
	int64_t question;     /* at the box, which a person has to answer; 0: none is known yet */
	int64_t since, until; /* on clock_now's clock */
};

/**
 * waiting_begin(w, cli, box, ms):
 * From now on the answer of ${box} is waited for, for ${ms}, and SIGINT is held for waiting_for.
 * The line is shown where progress_begin shows one.
 */
void waiting_begin(struct waiting *w, const struct cli *cli, const char *box, int64_t ms);

/**
 * waiting_frame(w, frame):
 * Look at a frame of the answer: {"q":question} says what is waited for; with any other the answer
 * has begun, and the line is taken away.
 */
void waiting_frame(struct waiting *w, const char *frame);

/**
 * waiting_for(w, fd, ms):
 * Write the line each second until ${fd} is readable or ${ms} are over.  Return 0, or -1 where
 * Ctrl-C (SIGINT) came.  Nothing is waited for outside of waiting_begin and waiting_end.
 */
int waiting_for(struct waiting *w, int fd, int64_t ms);

/**
 * waiting_end(w):
 * Take the line away, and let SIGINT do what it did.  Twice is no error.
 */
void waiting_end(struct waiting *w);

#endif
