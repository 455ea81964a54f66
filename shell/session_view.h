/* session_view.h: the rows of a session as a person sees them, wherever they come from. */
#ifndef SHELL_SESSION_VIEW_H
#define SHELL_SESSION_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session_view {
	const char *name, *machine; /* of the session; and where it is, NULL: here */
	bool raw;                   /* the terminal does not turn a line's end into its start */
	int64_t from;               /* the number of the first line to show */
	int64_t seq, lines;         /* out: the last row and the last whole line that were shown */
};

/* A row of session_output. */
struct session_row {
	int64_t seq, line, lines;
	char kind[5];
	const char *data;
	size_t len;
};

/**
 * session_view_row(view, row):
 * Write what ${row}, which comes behind the row ${view}->seq, says from the line ${view}->from on
 * to standard output, or to standard error if it is of kind err; name rows that are missing before
 * it. Return 0, or -1 with errno.
 */
int session_view_row(struct session_view *view, const struct session_row *row);

/**
 * session_view_remark(view, text, len):
 * Say on standard error what bastion itself has to say about the session: not to be mistaken for
 * the program's own words.
 */
void session_view_remark(const struct session_view *view, const char *text, size_t len);

#endif
