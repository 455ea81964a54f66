/* answer.h: a frame of an op's answer, for people. */
#ifndef SHELL_ANSWER_H
#define SHELL_ANSWER_H

#include "shell/cli.h"

struct sqlite3;
struct sqlite3_stmt;

/* What every result is taken apart with: its members, and the columns of a list. */
enum answer_part { ANSWER_MEMBERS, ANSWER_COLUMNS, ANSWER_PARTS };

/*
 * Whoever shows an answer. It takes frames apart with SQLite's JSON functions, on a connection
 * without a database, which is opened when it is first needed. Zeros and a mode begin one.
 */
struct answer_view {
	enum cli_mode mode;
	struct sqlite3 *json;
	struct sqlite3_stmt *parts[ANSWER_PARTS]; /* NULL: not yet */
};

/* How an ask ended that was not done, as the Host's daemon says it. */
struct answer_end {
	struct refusal refusal;
	int exit_code; /* 0: not said, nor any advice, so that our own table is asked */
	char advice[REFUSAL_WHY_MAX];
};

/**
 * answer_begin(view):
 * Have all that takes a result apart in memory, which costs as much as the showing.  To be called
 * while there is nothing to do but wait for the answer.
 */
void answer_begin(struct answer_view *view);

/**
 * answer_show(view, frame, r):
 * Show the frame ${frame}: output as it is (control characters escaped), a result as "name: value"
 * lines and a table for each list, an error as one line.  Return 0, or -1 with ${r} call.failed.
 */
int answer_show(struct answer_view *view, const char *frame, struct refusal *r);

/**
 * answer_dry(view, frame, box, r):
 * Say in words what ${box} would do, from the result of a dry ask (openapi.json): that it would
 * run, and on which grant; that a person would be asked; or that it would be refused, by which
 * rule.  What is no such result is shown as by answer_show.  Return as that.
 */
int answer_dry(struct answer_view *view, const char *frame, const char *box, struct refusal *r);

/**
 * answer_refusal(view, error, end):
 * Take the error object at "$.e" or "$.error" of the JSON ${error} apart into ${end}.  Return 0, or
 * -1 where there is none.
 */
int answer_refusal(struct answer_view *view, const char *error, struct answer_end *end);

/**
 * answer_numbers(view, sql, text, values, count):
 * Store the ${count} integers that ${sql} selects with the JSON ${text} as its one parameter in
 * ${values}.  Return 0, or -1 where there is no such row.
 */
int answer_numbers(
    struct answer_view *view, const char *sql, const char *text, int64_t *values, size_t count);

/**
 * answer_drop(view):
 * Free what ${view} holds.
 */
void answer_drop(struct answer_view *view);

#endif
