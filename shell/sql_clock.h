/* sql_clock.h: how long a query may run, and what ends it. */
#ifndef SHELL_SQL_CLOCK_H
#define SHELL_SQL_CLOCK_H

#include "shell/sql.h"

/**
 * sql_clock(s, on):
 * Have SQLite look at the clock, and at s->interrupted, while it runs; or no more.
 */
void sql_clock(struct sql *s, bool on);

/**
 * sql_watchdog(s, on):
 * With a limit, end the program, with a message and exit code 1, where a query passed the limit by
 * half a second and did not notice: some functions of SQLite take minutes without a look at
 * anything.  What they work on is undone by SQLite, as after any end.  The signal is SIGALRM.
 */
void sql_watchdog(struct sql *s, bool on);

/**
 * sql_step(s, stmt):
 * As sqlite3_step, with its time added to s->spent_us: only SQLite's time counts, not that of a
 * pager that takes the output.
 */
int sql_step(struct sql *s, struct sqlite3_stmt *stmt);

/**
 * sql_catch(s, before), sql_release(before):
 * Between the two, SIGINT ends the query that runs, and not the program; a third one, while a query
 * that does not listen goes on, does.  Output that it cut off is no failure of the program.
 */
void sql_catch(struct sql *s, struct sigaction *before);
void sql_release(const struct sigaction *before);

#endif
