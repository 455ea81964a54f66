/* zone.h: what a clock on the wall shows in a time zone, the same on every machine. */
#ifndef ENGINE_ZONE_H
#define ENGINE_ZONE_H

#include <stdint.h>

#include "engine/zone_table.h"

/* When clocks change, in a year: POSIX's Mm.w.d, Jn or n, and a time of day. */
struct zone_turn {
	char kind; /* 'M', 'J', or 'N' for n */
	int month, week, day;
	int32_t
	    at; /* seconds after midnight, by the clock that ends; may be below 0 or past a day */
};

struct zone {
	int32_t standard, summer; /* seconds ahead of UTC */
	int turns;                /* 0: the clocks never change */
	struct zone_turn begin, end;
	const struct zone_change *changes;
};

/**
 * zone_find(name, zone):
 * Store in ${zone} what the table that travels with the program says of ${name}: an IANA name
 * (Europe/Berlin, UTC), or a fixed difference to UTC from -14:00 to +14:00 (+05:30).  Nothing is
 * read from the machine.  Return 0, or -1 where there is no such zone.
 */
int zone_find(const char *name, struct zone *zone);

/**
 * zone_rule(text, zone):
 * Read ${text}, a POSIX TZ with both turns of the year where clocks change at all, into ${zone}.
 * Return 0, or -1 where it is none.
 */
int zone_rule(const char *text, struct zone *zone);

/**
 * zone_offset(zone, at):
 * Return by how many seconds clocks in ${zone} are ahead of UTC at ${at}, in seconds UTC.
 */
int32_t zone_offset(const struct zone *zone, int64_t at);

/**
 * zone_turns(zone, from, to, turns, max):
 * Store in ${turns} the instants within ${from}..${to}, in seconds UTC, at which clocks in ${zone}
 * may change, in no order, at most ${max}.  Return how many those are.
 */
int zone_turns(const struct zone *zone, int64_t from, int64_t to, int64_t *turns, int max);

/**
 * civil_days(year, month, day), civil_date(days, year, month, day):
 * Days since 1970-01-01 of a date of the Gregorian calendar (month 1..12), and the other way.
 */
int64_t civil_days(int64_t year, int month, int day);
void civil_date(int64_t days, int64_t *year, int *month, int *day);

/**
 * civil_weekday(days):
 * Return the weekday of the day ${days} after 1970-01-01: 0 for Monday to 6 for Sunday.
 */
int civil_weekday(int64_t days);

#endif
