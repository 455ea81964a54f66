/* cron.c: read a calendar strictly; find its next minute from one turn of the clocks to another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/ascii.h"
#include "engine/cron.h"

#define MINUTE 60
#define DAY    86400
#define BEHIND 2   /* days before a time that may still have a say in it: clocks differ by less */
#define TURNS  320 /* of a zone in CRON_YEARS: two a year, or its list of changes */
#define LATEST INT64_C(253402300799000) /* of the year 9999 */

/*
 * Reading.
 */

struct field {
	const char *name, *names; /* names: of three letters each, from the value ${first} on */
	unsigned low, high, first;
};

static const struct field fields[] = {
    {"minute", "", 0, 59, 0},
    {"hour", "", 0, 23, 0},
    {"day of the month", "", 1, 31, 1},
    {"month", "janfebmaraprmayjunjulaugsepoctnovdec", 1, 12, 1},
    {"weekday", "sunmontuewedthufrisat", 0, 7, 0},
};

static const struct {
	const char *name, *means;
} macros[] = {
    {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
    {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},
    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
};

/* At most two digits. */
static int
number(const char **at, unsigned *value)
{
	unsigned n = 0, digits = 0;

	for (; ascii_is_digit(**at) && digits < 3; ++*at, digits++)
		n = n * 10 + (unsigned)(**at - '0');
	*value = n;
	return digits >= 1 && digits <= 2 ? 0 : -1;
}

static int
value(const struct field *f, const char **at, unsigned *v)
{
	size_t i;

	if (ascii_is_digit(**at))
		return number(at, v) == 0 && *v >= f->low && *v <= f->high ? 0 : -1;
	for (i = 0; f->names[i] != '\0'; i += 3)
		if (strncasecmp(*at, f->names + i, 3) == 0) {
			*at += 3;
			*v = f->first + (unsigned)(i / 3);
			return 0;
		}
	return -1;
}

/* What stands between two commas: its values go into ${set}. */
static int
item(const struct field *f, const char **at, uint64_t *set)
{
	unsigned from = f->low, to = f->high, step = 1, v;
	bool many = **at == '*';

	if (many) {
		++*at;
		to = to == 7 ? 6 : to; /* Sunday once */
	} else {
		if (value(f, at, &from) != 0)
			return -1;
		to = from;
		if (**at == '-') {
			++*at;
			many = true;
			if (value(f, at, &to) != 0)
				return -1;
			if (to < from && to == 0 && f->high == 7) /* a week may end with Sunday */
				to = 7;
		}
	}
	if (from > to)
		return -1;
	if (**at == '/') {
		++*at;
		if (!many || number(at, &step) != 0 || step < 1 || step > to - from + 1)
			return -1;
	}
	for (v = from; v <= to; v += step)
		*set |= UINT64_C(1) << v;
	return 0;
}

static int
field(const struct field *f, const char *text, size_t len, uint64_t *set)
{
	const char *at = text;

	for (*set = 0;; at++) {
		if (item(f, &at, set) != 0)
			return -1;
		if (at == text + len)
			return 0;
		if (*at != ',')
			return -1;
	}
}

static int
read_fields(const char *text, struct cron *cron, char *why, size_t size)
{
	uint64_t sets[5];
	bool any[5];
	size_t len, i;

	for (i = 0; i < 5; i++) {
		text += strspn(text, " \t");
		if ((len = strcspn(text, " \t")) == 0) {
			snprintf(why, size,
			    "a calendar has five fields (minute hour day month weekday), and this one %zu",
			    i);
			return -1;
		}
		any[i] = *text == '*';
		if (field(&fields[i], text, len, &sets[i]) != 0) {
			snprintf(why, size,
			    "the %s takes *, %u-%u, lists, ranges and steps of these%s",
			    fields[i].name, fields[i].low, fields[i].high,
			    fields[i].names[0] != '\0' ? ", or names of three letters" : "");
			return -1;
		}
		text += len;
	}
	if (text[strspn(text, " \t")] != '\0') {
		snprintf(why, size, "a calendar has five fields, and this one more");
		return -1;
	}
	*cron = (struct cron){.minutes = sets[0],
	    .hours = (uint32_t)sets[1],
	    .days = (uint32_t)sets[2],
	    .months = (uint32_t)sets[3],
	    .weekdays = (uint32_t)((sets[4] | sets[4] >> 7) & 0x7f),
	    .either = !any[2] && !any[4],
	    .elapsed = any[1]};
	return 0;
}

int
cron_read(const char *text, struct cron *cron, char *why, size_t size)
{
	size_t i;

	if (strlen(text) > CRON_TEXT_MAX) {
		snprintf(why, size, "a calendar has at most %d bytes", CRON_TEXT_MAX);
		return -1;
	}
	for (i = 0; i < sizeof(macros) / sizeof(macros[0]); i++)
		if (strcmp(text, macros[i].name) == 0)
			return read_fields(macros[i].means, cron, why, size);
	if (*text == '@') {
		snprintf(why, size,
		    "what begins with @ is @hourly, @daily, @weekly, @monthly or @yearly");
		return -1;
	}
	return read_fields(text, cron, why, size);
}

/*
 * The wall clock, in seconds since 1970 as it shows them.
 */

static int64_t
floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static bool
on_day(const struct cron *c, int64_t days, int day)
{
	bool of_month = (c->days >> day & 1) != 0;
	bool of_week = (c->weekdays >> (civil_weekday(days) + 1) % 7 & 1) != 0;

	return c->either ? of_month || of_week : of_month && of_week;
}

/* The first minute of the day from ${minute} on, or -1. */
static int64_t
in_day(const struct cron *c, int64_t minute)
{
	int64_t hour = minute / 60, rest = minute % 60;

	for (; hour < 24; hour++, rest = 0) {
		if ((c->hours >> hour & 1) == 0)
			continue;
		for (; rest < 60; rest++)
			if ((c->minutes >> rest & 1) != 0)
				return hour * 60 + rest;
	}
	return -1;
}

/* The first time in ${from}..${to}, without ${to}, or -1. */
static int64_t
on_wall(const struct cron *c, int64_t from, int64_t to)
{
	int64_t minutes = floor_div(from + MINUTE - 1, MINUTE), day = floor_div(minutes, 1440);
	int64_t minute = minutes - day * 1440, year, found;
	int month, of_month;

	for (; day * DAY < to; day++, minute = 0) {
		civil_date(day, &year, &month, &of_month);
		if ((c->months >> month & 1) == 0) {
			/* On to the day before the next month begins. */
			day = civil_days(month == 12 ? year + 1 : year, month % 12 + 1, 1) - 1;
			continue;
		}
		if (!on_day(c, day, of_month) || (found = in_day(c, minute)) == -1)
			continue;
		found = day * DAY + found * MINUTE;
		return found < to ? found : -1;
	}
	return -1;
}

/*
 * From one turn of the clocks to the next.
 */

static int
by_time(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Store in ${turns} when clocks change, in order, between two bounds that stand at its ends. */
static int
turns_of(const struct zone *zone, int64_t from, int64_t to, int64_t turns[TURNS + 2])
{
	int n = zone_turns(zone, from + 1, to - 1, turns + 1, TURNS);

	turns[0] = from;
	qsort(turns + 1, (size_t)n, sizeof(turns[0]), by_time);
	turns[n + 1] = to;
	return n + 1;
}

/*
 * The first time after ${at} while clocks are ${offset} ahead, from ${begin} to ${end}; before that
 * they were ${was} ahead.
 */
static int64_t
between(const struct cron *c, int64_t at, int64_t begin, int64_t end, int32_t was, int32_t offset)
{
	int64_t from = begin + offset, found;

	if (!c->elapsed && offset > was && begin > at &&
	    on_wall(c, begin + was, begin + offset) != -1)
		return begin;
	if (!c->elapsed && offset < was)
		from = begin + was;
	if (from <= at + offset)
		from = at + 1 + offset;
	found = on_wall(c, from, end + offset);
	return found == -1 ? -1 : found - offset;
}

int64_t
cron_next(const struct cron *cron, const struct zone *zone, int64_t at_ms)
{
	int64_t turns[TURNS + 2], at = floor_div(at_ms, 1000), found;
	int64_t begin = at - BEHIND * DAY, end = at + CRON_YEARS * INT64_C(366) * DAY;
	int32_t was, offset;
	int i, n;

	if (at_ms < 0 || at_ms > LATEST)
		return -1;
	n = turns_of(zone, begin, end, turns);
	was = zone_offset(zone, begin);
	for (i = 0; i < n; i++, was = offset) {
		offset = zone_offset(zone, turns[i]);
		if (turns[i + 1] <= at)
			continue;
		found = between(cron, at, turns[i], turns[i + 1], was, offset);
		if (found != -1)
			return found * 1000 <= LATEST ? found * 1000 : -1;
	}
	return -1;
}
