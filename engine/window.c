/* window.c: when a window is open, and when it opens. */
#include <ctype.h>
#include <string.h>

#include "engine/window.h"

#define DAY   86400
#define AHEAD 15 /* days: a week, and a day that a zone left out */
#define TURNS 256

static const char *const names[] = {
    "\"mon\"", "\"tue\"", "\"wed\"", "\"thu\"", "\"fri\"", "\"sat\"", "\"sun\""};

/* HH:MM in minutes, or -1. */
static int
minutes(const char *text)
{
	int h, m;

	if (strlen(text) != 5 || text[2] != ':' || !isdigit((unsigned char)text[0]) ||
	    !isdigit((unsigned char)text[1]) || !isdigit((unsigned char)text[3]) ||
	    !isdigit((unsigned char)text[4]))
		return -1;
	h = (text[0] - '0') * 10 + text[1] - '0';
	m = (text[3] - '0') * 10 + text[4] - '0';
	return m < 60 && h * 60 + m <= WINDOW_DAY_MINUTES ? h * 60 + m : -1;
}

int
window_read(const char *days, const char *from, const char *to, const char *zone, struct window *w)
{
	int i;

	*w = (struct window){.from = minutes(from), .to = minutes(to)};
	for (i = 0; i < 7; i++)
		w->days |= strstr(days, names[i]) != NULL ? 1u << i : 0;
	if (w->days == 0 || w->from == -1 || w->to == -1 || w->from == w->to ||
	    w->from == WINDOW_DAY_MINUTES)
		return -1;
	return zone_find(zone, &w->zone);
}

static int64_t
day_of(int64_t seconds)
{
	return seconds / DAY - (seconds % DAY < 0);
}

static int
opens_on(const struct window *w, int64_t day)
{
	return (w->days >> civil_weekday(day)) & 1;
}

/* Is it open at ${at}, in seconds UTC? */
static int
is_open(const struct window *w, int64_t at)
{
	int64_t wall = at + zone_offset(&w->zone, at), day = day_of(wall);
	int64_t minute = (wall - day * DAY) / 60;

	if (w->from < w->to)
		return opens_on(w, day) && minute >= w->from && minute < w->to;
	return (opens_on(w, day) && minute >= w->from) || (opens_on(w, day - 1) && minute < w->to);
}

/* The earlier of ${best} and ${t}, where ${t} is later than ${at} and it is open then. */
static int64_t
earlier(const struct window *w, int64_t at, int64_t t, int64_t best)
{
	return t > at && (best == -1 || t < best) && is_open(w, t) ? t : best;
}

/*
 * It opens where the wall clock comes to ${from}, or where a change of the clocks sets it into the
 * window.
 */
static int64_t
next_opening(const struct window *w, int64_t at)
{
	int64_t turns[TURNS], best = -1, day, wall, end = at + AHEAD * DAY;
	int i, side, n = zone_turns(&w->zone, at, end, turns, TURNS);

	for (i = 0; i < n; i++)
		best = earlier(w, at, turns[i], best);
	for (day = day_of(at) - 1; day <= day_of(end); day++) {
		wall = day * DAY + w->from * 60;
		/* Clocks differ by less than a day, so one of these is the offset there. */
		for (side = -1; side <= 1; side++)
			best =
			    earlier(w, at, wall - zone_offset(&w->zone, wall + side * DAY), best);
	}
	return best;
}

int64_t
window_next(const struct window *w, int64_t at_ms)
{
	int64_t at = at_ms / 1000 - (at_ms % 1000 < 0), next;

	if (is_open(w, at))
		return at_ms;
	next = next_opening(w, at);
	return next == -1 ? -1 : next * 1000;
}
