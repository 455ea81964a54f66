/* progress.c: a bar, a part of a hundred, and the time that is left. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "shell/progress.h"

#define EVERY_MS  100
#define SURE_MS   1000 /* before that, what is left is a guess */
#define BAR       24
#define NARROW    60 /* columns under which there is no bar */
#define WIDTH_MAX 200

static int64_t
forward_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void
progress_begin(struct progress *p, const struct cli *cli)
{
	struct winsize size;

	memset(p, 0, sizeof(*p));
	p->shown = isatty(STDERR_FILENO) && cli->mode == CLI_TABLE;
	p->width = 80;
	if (p->shown && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		p->width = size.ws_col;
}

/* "[########                ] " */
static void
bar(char out[BAR + 4], int64_t done, int64_t total)
{
	int filled = (int)((double)done / (double)total * BAR);

	if (filled < 0 || filled > BAR)
		filled = filled < 0 ? 0 : BAR;
	out[0] = '[';
	memset(out + 1, '#', (size_t)filled);
	memset(out + 1 + filled, ' ', (size_t)(BAR - filled));
	strcpy(out + 1 + BAR, "] ");
}

static void
left(const struct progress *p, int64_t now, int64_t done, int64_t total, char out[32])
{
	int64_t ms = now - p->since, s;

	out[0] = '\0';
	if (ms < SURE_MS || done <= 0 || done >= total)
		return;
	s = (int64_t)((double)ms / (double)done * (double)(total - done) / 1000) + 1;
	if (s < 120)
		snprintf(out, 32, ", %" PRId64 " s left", s);
	else
		snprintf(out, 32, ", %" PRId64 " min left", s / 60 + 1);
}

static void
line(const struct progress *p, int64_t now, int64_t done, int64_t total)
{
	char text[WIDTH_MAX + 1], rest[32], drawn[BAR + 4] = "";
	int width = p->width - 1;

	if (total <= 0 && done > 0) {
		snprintf(text, sizeof(text), "%s ... %" PRId64, p->what, done);
	} else if (total <= 0) {
		snprintf(text, sizeof(text), "%s ...", p->what);
	} else {
		if (p->width >= NARROW)
			bar(drawn, done, total);
		left(p, now, done, total, rest);
		snprintf(text, sizeof(text), "%-18s %s%3d%%%s", p->what, drawn,
		    (int)((double)done / (double)total * 100), rest);
	}
	fprintf(stderr, "\r%.*s\033[K", width < WIDTH_MAX ? width : WIDTH_MAX, text);
	fflush(stderr);
}

void
progress_tell(void *progress, const char *what, int64_t done, int64_t total)
{
	struct progress *p = progress;
	int64_t now;

	if (!p->shown)
		return;
	now = forward_ms();
	if (strcmp(p->what, what) != 0) {
		snprintf(p->what, sizeof(p->what), "%s", what);
		p->since = now;
	} else if (now - p->told_at < EVERY_MS) {
		return;
	}
	p->told_at = now;
	line(p, now, done, total);
}

void
progress_end(struct progress *p)
{
	if (p->shown && p->told_at != 0) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
	p->told_at = 0;
}
