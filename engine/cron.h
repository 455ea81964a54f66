/* cron.h: times of the calendar as cron writes them, and when they come next. */
#ifndef ENGINE_CRON_H
#define ENGINE_CRON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/zone.h"

#define CRON_TEXT_MAX 255 /* bytes of a calendar, without the NUL */

/*
 * Minutes of the wall clock.  Bit n of a set is the value n; months begin with bit 1, weekdays with
 * Sunday as bit 0.
 */
struct cron {
	uint64_t minutes;
	uint32_t hours, days, months, weekdays;
	bool either;  /* both days and weekdays are restricted: one of them is enough (POSIX) */
	bool elapsed; /* the hour begins with "*": by the time that passes, not by the wall clock */
};

/**
 * cron_read(text, cron, why, size):
 * Read ${text} into ${cron}: minute, hour, day of the month, month and weekday, in blanks (POSIX
 * crontab), each a list of "*", N, or N-M, the first and the last with /STEP or without; months and
 * weekdays also by three letters in any case, Sunday as 0 or 7; or @hourly, @daily, @midnight,
 * @weekly, @monthly, @yearly, @annually.  A day field that begins with "*" restricts nothing by
 * itself, so both have to hold then.  Return 0, or -1 with a sentence in ${why}, of at most ${size}
 * bytes with its NUL.
 */
int cron_read(const char *text, struct cron *cron, char *why, size_t size);

/**
 * cron_next(cron, zone, at_ms):
 * Return the first time of ${cron} after ${at_ms}, in milliseconds UTC, as clocks in ${zone} show
 * it; -1 where there is none within CRON_YEARS, as on 30 February, or before the year 10000.  Where
 * clocks are set forward, what was to be in the time that they skip is at the moment at which they
 * skip it, once; where they are set back, what they show twice is the first time alone.  With
 * cron->elapsed neither is so: times that no clock shows are none, those that it shows twice are
 * two.
 */
#define CRON_YEARS 50
int64_t cron_next(const struct cron *cron, const struct zone *zone, int64_t at_ms);

#endif
