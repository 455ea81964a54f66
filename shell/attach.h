/* attach.h: what a session says, from its rows: replayed, followed, and typed to. */
#ifndef SHELL_ATTACH_H
#define SHELL_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "shell/cli.h"
#include "shell/session_view.h"

struct attach {
	struct cli *cli; /* open: ROLE_PERSON where it may be typed to */
	int64_t id;
	struct session_view view; /* name, from */
	bool follow;              /* until it is over; else what is there now */
	bool typing;              /* it has a terminal or input, and we are at one */
	bool left;                /* out: the person went away; it goes on */
};

/**
 * attach_run(a):
 * Write what the session says to standard output, its errors to standard error, and what bastion
 * says about it there as well.  Rows are read once and in order, replay and following by the same
 * query, so there is no seam; rows that are gone already are named.  With ${typing} a terminal is
 * made raw, what is typed is sent, and so is its size; one at a time types, the others look on.
 * Ctrl-] leaves it, and Ctrl-C where nothing is typed.  Return 0, or -1 with the store's refusal.
 */
int attach_run(struct attach *a);

/**
 * attach_first(cli, name, view, id):
 * Show the first row of the session ${name} in ${view}, as the daemon of our database has it at
 * hand: to open that takes longer than a person waits for a line.  Store the number of the session
 * in ${*id}, whose rows go on behind ${view}->seq; 0 where no daemon answers at once, and nothing
 * was shown.  ${cli} is left as it was, with nothing open.  Return 0, or -1 with ${cli}'s refusal
 * where standard output cannot be written.
 */
int attach_first(struct cli *cli, const char *name, struct session_view *view, int64_t *id);

#endif
