/* sql_clock.c: the time of a query, and its end: by the clock, by Ctrl-C, and by force. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "shell/sql_clock.h"

#define PROGRESS_STEPS 1000   /* of SQLite's machine between two looks at the clock */
#define LOOK_US        500000 /* how often the watchdog looks */

static struct sql *running; /* what a signal is about */

static int64_t
steady_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Whether SQLite had more than ${grace} ms more than it may have. */
static bool
is_late(const struct sql *s, int64_t grace)
{
	return s->limit_ms > 0 &&
	       (s->spent_us + steady_us() - s->began_us) / 1000 > s->limit_ms + grace;
}

static int
look_at_clock(void *ctx)
{
	struct sql *s = ctx;

	s->expired = is_late(s, 0);
	return s->expired || s->interrupted;
}

/* Some functions, as instr() of long texts, take minutes without a look at anything.  There is
 * nothing to lose: the connection only reads. */
static void
leave(const char *why, int code)
{
	if (running->leaving != NULL)
		running->leaving();
	(void)!write(STDERR_FILENO, why, strlen(why));
	_exit(code);
}

static void
interrupt(int sig)
{
	static const char again[] =
	    "\nthe query does not end yet; Ctrl-C once more leaves the shell\n";

	/* SQLite forgets an interrupt that comes between two statements; the flag is kept. */
	running->interrupted++;
	sqlite3_interrupt(store_handle(running->db));
	if (!running->steps)
		running->interrupted = 1; /* a pager, or whoever watches, minds it */
	if (running->interrupted == 2)
		(void)!write(STDERR_FILENO, again, sizeof(again) - 1);
	if (running->interrupted > 2)
		leave("\n", 128 + sig);
}

/* The query has passed its limit and does not know it. */
static void
watchdog(int sig)
{
	(void)sig;
	if (running->steps && is_late(running, LOOK_US / 1000))
		leave("bastion: sql: the query took longer than it may, and did not end by itself"
		      " [sql.timeout]\n",
		    1);
}

void
sql_watchdog(struct sql *s, bool on)
{
	static const struct itimerval off = {0}, each = {{0, LOOK_US}, {0, LOOK_US}};
	struct sigaction looking = {.sa_handler = watchdog, .sa_flags = SA_RESTART};

	if (s->limit_ms == 0)
		return;
	running = s;
	sigemptyset(&looking.sa_mask);
	sigaction(SIGALRM, &looking, NULL);
	setitimer(ITIMER_REAL, on ? &each : &off, NULL);
}

void
sql_catch(struct sql *s, struct sigaction *before)
{
	struct sigaction catching = {.sa_handler = interrupt};

	sigemptyset(&catching.sa_mask);
	running = s;
	s->interrupted = 0;
	sigaction(SIGINT, &catching, before);
}

void
sql_release(const struct sigaction *before)
{
	sigaction(SIGINT, before, NULL);
	/* What the terminal did not take as Ctrl-C came was not wanted: no output is lost. */
	if (running->interrupted)
		clearerr(stdout);
}

void
sql_clock(struct sql *s, bool on)
{
	s->began_us = steady_us();
	sqlite3_progress_handler(
	    store_handle(s->db), on ? PROGRESS_STEPS : 0, on ? look_at_clock : NULL, s);
}

int
sql_step(struct sql *s, sqlite3_stmt *stmt)
{
	int rc;

	s->began_us = steady_us();
	s->steps = 1;
	rc = sqlite3_step(stmt);
	s->steps = 0;
	s->spent_us += steady_us() - s->began_us;
	return rc;
}
