/* zone.c: time zones by their rules. */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "engine/zone.h"

#define DAY  86400
#define HOUR 3600

/*
 * The calendar.
 */

/* Rounded down, below 0 too. */
static int64_t
floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* A year that begins in March ends with the leap day; 400 of them are 146097 days. */
int64_t
civil_days(int64_t year, int month, int day)
{
	int64_t y = year - (month <= 2), era = floor_div(y, 400), of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void
civil_date(int64_t days, int64_t *year, int *month, int *day)
{
	int64_t z = days + 719468, era = floor_div(z, 146097), of_era = z - era * 146097;
	int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;

	*day = (int)(of_year - (153 * m + 2) / 5 + 1);
	*month = (int)(m < 10 ? m + 3 : m - 9);
	*year = y + era * 400 + (*month <= 2);
}

int
civil_weekday(int64_t days)
{
	return (int)(days + 3 - 7 * floor_div(days + 3, 7));
}

/*
 * The rule.
 */

static int
read_number(const char **at, int most, int *value)
{
	int n = 0;

	if (!isdigit((unsigned char)**at))
		return -1;
	for (; isdigit((unsigned char)**at); ++*at)
		if ((n = n * 10 + (**at - '0')) > most)
			return -1;
	*value = n;
	return 0;
}

/* [+-]h[h[h]][:mm[:ss]] as seconds. */
static int
read_time(const char **at, int32_t *seconds)
{
	int h, m = 0, s = 0, sign = **at == '-' ? -1 : 1;

	*at += **at == '-' || **at == '+';
	if (read_number(at, 167, &h) != 0)
		return -1;
	if (**at == ':' && (++*at, read_number(at, 59, &m)) != 0)
		return -1;
	if (**at == ':' && (++*at, read_number(at, 59, &s)) != 0)
		return -1;
	*seconds = sign * (h * HOUR + m * 60 + s);
	return 0;
}

/* The name of a time: nothing is made of it. */
static int
skip_name(const char **at)
{
	const char *from = *at;

	if (**at == '<') {
		*at += strcspn(*at, ">");
		return *(*at)++ == '>' ? 0 : -1;
	}
	while (isalpha((unsigned char)**at))
		++*at;
	return *at - from >= 3 ? 0 : -1;
}

static int
read_turn(const char **at, struct zone_turn *turn)
{
	if (*(*at)++ != ',')
		return -1;
	*turn = (struct zone_turn){.kind = 'N', .at = 2 * HOUR};
	if (**at == 'M' || **at == 'J')
		turn->kind = *(*at)++;
	if (turn->kind == 'M') {
		if (read_number(at, 12, &turn->month) != 0 || turn->month < 1 || *(*at)++ != '.' ||
		    read_number(at, 5, &turn->week) != 0 || turn->week < 1 || *(*at)++ != '.' ||
		    read_number(at, 6, &turn->day) != 0)
			return -1;
	} else if (read_number(at, 365, &turn->day) != 0 || (turn->kind == 'J' && turn->day < 1)) {
		return -1;
	}
	return **at == '/' ? (++*at, read_time(at, &turn->at)) : 0;
}

int
zone_rule(const char *text, struct zone *zone)
{
	*zone = (struct zone){.turns = 0};
	if (skip_name(&text) != 0 || read_time(&text, &zone->standard) != 0)
		return -1;
	zone->standard = -zone->standard; /* POSIX counts westwards */
	zone->summer = zone->standard;
	if (*text == '\0')
		return 0;
	if (skip_name(&text) != 0)
		return -1;
	zone->summer = zone->standard + HOUR;
	if (*text != ',') {
		if (read_time(&text, &zone->summer) != 0)
			return -1;
		zone->summer = -zone->summer;
	}
	zone->turns = 2;
	if (read_turn(&text, &zone->begin) != 0 || read_turn(&text, &zone->end) != 0)
		return -1;
	return *text == '\0' ? 0 : -1;
}

/* +hh:mm, of at most 14 hours. */
static int
fixed(const char *name, struct zone *zone)
{
	int h, m;

	if (strlen(name) != 6 || name[3] != ':' || !isdigit((unsigned char)name[1]) ||
	    !isdigit((unsigned char)name[2]) || !isdigit((unsigned char)name[4]) ||
	    !isdigit((unsigned char)name[5]))
		return -1;
	h = (name[1] - '0') * 10 + name[2] - '0';
	m = (name[4] - '0') * 10 + name[5] - '0';
	if (m > 59 || h * 60 + m > 14 * 60)
		return -1;
	*zone = (struct zone){.standard = (name[0] == '-' ? -60 : 60) * (h * 60 + m)};
	zone->summer = zone->standard;
	return 0;
}

int
zone_find(const char *name, struct zone *zone)
{
	unsigned low = 0, high = zone_rows, middle;
	int order;

	if (name[0] == '+' || name[0] == '-')
		return fixed(name, zone);
	while (low < high) {
		middle = low + (high - low) / 2;
		if ((order = strcmp(name, zone_table[middle].name)) == 0) {
			if (zone_rule(zone_table[middle].rule, zone) != 0)
				return -1;
			zone->changes = zone_table[middle].changes;
			return 0;
		}
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return -1;
}

/*
 * The clock.
 */

/* The day of ${turn} in ${year}, from 1970-01-01 on. */
static int64_t
turn_day(const struct zone_turn *turn, int64_t year)
{
	int64_t first = civil_days(year, turn->kind == 'M' ? turn->month : 1, 1), day, next;
	int leap = civil_days(year + 1, 1, 1) - civil_days(year, 1, 1) == 366;

	if (turn->kind == 'N')
		return first + turn->day;
	if (turn->kind == 'J') /* 29 February is never counted */
		return first + turn->day - 1 + (leap && turn->day >= 60);
	/* POSIX begins the week on Sunday, civil_weekday on Monday. */
	day = first + (turn->day + 6 - civil_weekday(first)) % 7 + (turn->week - 1) * 7;
	next =
	    turn->month == 12 ? civil_days(year + 1, 1, 1) : civil_days(year, turn->month + 1, 1);
	return day < next ? day : day - 7;
}

static int64_t
turn_instant(const struct zone_turn *turn, int64_t year, int32_t offset)
{
	return turn_day(turn, year) * DAY + turn->at - offset;
}

static int64_t
year_of(int64_t at)
{
	int64_t year;
	int month, day;

	civil_date(floor_div(at, DAY), &year, &month, &day);
	return year;
}

/* The newest turn up to ${at} says what holds; a turn may lie in the year before or after its own.
 */
static int32_t
rule_offset(const struct zone *zone, int64_t at)
{
	int64_t newest = INT64_MIN, year = year_of(at), y, t;
	int32_t offset = zone->standard;

	for (y = year - 1; zone->turns != 0 && y <= year + 1; y++) {
		t = turn_instant(&zone->end, y, zone->summer);
		if (t <= at && t > newest) {
			newest = t;
			offset = zone->standard;
		}
		t = turn_instant(&zone->begin, y, zone->standard);
		if (t <= at && t >= newest) {
			newest = t;
			offset = zone->summer;
		}
	}
	return offset;
}

int32_t
zone_offset(const struct zone *zone, int64_t at)
{
	const struct zone_change *c = zone->changes;

	if (c != NULL) {
		while (c[1].at != 0 && c[1].at <= at)
			c++;
		if (c[1].at != 0)
			return c->offset;
	}
	return rule_offset(zone, at);
}

static int
turn_add(int64_t t, int64_t from, int64_t to, int64_t *turns, int n, int max)
{
	if (t >= from && t <= to && n < max)
		turns[n++] = t;
	return n;
}

int
zone_turns(const struct zone *zone, int64_t from, int64_t to, int64_t *turns, int max)
{
	const struct zone_change *c;
	int64_t y;
	int n = 0;

	for (c = zone->changes; c != NULL && c->at != 0; c++)
		n = turn_add(c->at, from, to, turns, n, max);
	for (y = year_of(from) - 1; zone->turns != 0 && y <= year_of(to) + 1; y++) {
		n = turn_add(
		    turn_instant(&zone->begin, y, zone->standard), from, to, turns, n, max);
		n = turn_add(turn_instant(&zone->end, y, zone->summer), from, to, turns, n, max);
	}
	return n;
}
