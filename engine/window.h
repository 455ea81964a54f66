/* window.h: the hours of the week in which something may happen. */
#ifndef ENGINE_WINDOW_H
#define ENGINE_WINDOW_H

#include "engine/zone.h"

#define WINDOW_DAY_MINUTES 1440

struct window {
	unsigned days; /* bit 0: Monday; the days on which it opens */
	int from, to;  /* minutes after midnight; to <= from: it closes on the next day */
	struct zone zone;
};

/**
 * window_read(days, from, to, zone, w):
 * Read a window into ${w}: ${days} is a JSON array of mon, tue, wed, thu, fri, sat, sun, which
 * whoever calls has checked to be one; ${from} and ${to} are HH:MM, of which the latter may be
 * 24:00; ${zone} is a name that zone_find knows.  Return 0, or -1 where it has no day, no length or
 * no such zone.
 */
int window_read(
    const char *days, const char *from, const char *to, const char *zone, struct window *w);

/**
 * window_next(w, at_ms):
 * Return the first instant from ${at_ms} on, in ms UTC, at which ${w} is open: ${at_ms} itself
 * where it is open then.  It is open while a clock on the wall in its zone shows ${from} or later
 * and not yet ${to}, so an hour that clocks show twice counts twice, and one that they skip not at
 * all.  Return -1 where it does not open within 15 days.
 */
int64_t window_next(const struct window *w, int64_t at_ms);

#endif
