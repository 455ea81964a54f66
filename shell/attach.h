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

#endif
