/* waiting.c: how long already, until when, and a way out. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/clock.h"
#include "shell/waiting.h"

static volatile sig_atomic_t interrupted;
static struct sigaction before;
static sigset_t mask_before;

static void
interrupt(int signo)
{
	(void)signo;
	interrupted = 1;
}

/* SIGINT is let in while we sleep alone, so that none is missed in between. */
void
waiting_begin(struct waiting *w, const struct cli *cli, const char *box, int64_t ms)
{
	struct sigaction act = {.sa_handler = interrupt};
	sigset_t mask;

	*w = (struct waiting){.on = true, .box = box, .since = clock_now()};
	w->until = w->since + ms;
	progress_begin(&w->line, cli);
	interrupted = 0;
	sigemptyset(&act.sa_mask);
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigprocmask(SIG_BLOCK, &mask, &mask_before);
	sigaction(SIGINT, &act, &before);
}

void
waiting_frame(struct waiting *w, const char *frame)
{
	if (!w->on || w->quiet || sscanf(frame, "{\"q\":%" SCNd64 "}", &w->question) == 1)
		return;
	progress_end(&w->line);
	w->quiet = true;
}

static void
line_write(struct waiting *w)
{
	int64_t s = (clock_now() - w->since) / 1000;
	time_t at = (time_t)(w->until / 1000);
	char what[sizeof(w->line.what)], until[16] = "";
	struct tm tm;

	if (localtime_r(&at, &tm) != NULL)
		strftime(until, sizeof(until), "%H:%M:%S", &tm);
	if (w->question > 0)
		snprintf(what, sizeof(what),
		    "question %" PRId64 " at %s waits for a person, since %" PRId64 ":%02" PRId64
		    ", until %s",
		    w->question, w->box, s / 60, s % 60, until);
	else
		snprintf(what, sizeof(what),
		    "%s is asked, since %" PRId64 ":%02" PRId64 ", until %s", w->box, s / 60,
		    s % 60, until);
	progress_tell(&w->line, what, 0, 0);
}

int
waiting_for(struct waiting *w, int fd, int64_t ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec rest;
	int n = 0;

	while (w->on && n == 0 && ms > 0) {
		if (interrupted)
			return -1;
		if (!w->quiet)
			line_write(w);
		rest = (struct timespec){
		    .tv_sec = ms >= 1000, .tv_nsec = ms >= 1000 ? 0 : (long)ms * 1000000};
		if ((n = ppoll(&p, 1, &rest, &mask_before)) == -1 && errno == EINTR)
			n = 0;
		ms -= 1000;
	}
	return interrupted && w->on ? -1 : 0;
}

void
waiting_end(struct waiting *w)
{
	if (!w->on)
		return;
	if (!w->quiet)
		progress_end(&w->line);
	sigaction(SIGINT, &before, NULL);
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
	w->on = false;
}
