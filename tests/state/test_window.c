/* test_window.c: zones, windows and patterns, held against the C library and a model of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/glob.h"
#include "engine/window.h"

#define DAYS_2025 INT64_C(1735689600) /* where the table begins */
#define YEARS_60  INT64_C(1893456000)

static const char *const days[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};

/* The same numbers in every run. */
static uint64_t
next_random(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *seed >> 33;
}

/* What the C library says a clock on the wall shows, from the machine's own tzdata. */
static struct tm
wall(const char *zone, int64_t at)
{
	static char now[64];
	struct tm tm;
	time_t t = (time_t)at;

	if (strcmp(now, zone) != 0) {
		snprintf(now, sizeof(now), "%s", zone);
		setenv("TZ", zone, 1);
		tzset();
	}
	assert_non_null(localtime_r(&t, &tm));
	return tm;
}

/* Has this machine the tzdata that the table was made from?  A newer one may differ in a few zones:
 * engine/zone_table.py makes the table anew. */
static bool
same_tzdata(void)
{
	char line[64] = "";
	FILE *f = fopen("/usr/share/zoneinfo/tzdata.zi", "re");

	if (f == NULL || fgets(line, sizeof(line), f) == NULL)
		fail_msg("install tzdata: .ci/deps test");
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	return strcmp(line + strlen("# version "), zone_version) == 0;
}

static void
calendar_goes_both_ways(void **state)
{
	static const struct {
		int64_t year;
		int month, day;
		int64_t days;
		int weekday;
	} known[] = {{1970, 1, 1, 0, 3}, {2000, 2, 29, 11016, 1}, {2026, 11, 29, 20786, 6},
	    {1969, 12, 31, -1, 2}, {1600, 3, 1, -135080, 2}, {2100, 3, 1, 47541, 0}};
	int64_t d, year;
	int month, day;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(
		    civil_days(known[i].year, known[i].month, known[i].day), known[i].days);
		assert_int_equal(civil_weekday(known[i].days), known[i].weekday);
	}
	for (d = -200000; d < 200000; d += 7) {
		civil_date(d, &year, &month, &day);
		assert_int_equal(civil_days(year, month, day), d);
	}
}

/* Every zone, at the turns of its clocks and in between: as the C library has it. */
static void
zones_are_those_of_tzdata(void **state)
{
	int64_t turns[256], at;
	uint64_t seed = 1;
	struct zone z;
	unsigned i, other = 0;
	bool differs;
	int k, n, side;

	(void)state;
	assert_true(zone_rows > 500);
	for (i = 0; i < zone_rows; i++) {
		if (i > 0)
			assert_true(strcmp(zone_table[i - 1].name, zone_table[i].name) < 0);
		assert_int_equal(zone_find(zone_table[i].name, &z), 0);
		n = zone_turns(&z, DAYS_2025, DAYS_2025 + YEARS_60, turns, 200);
		for (k = n; k < n + 20; k++)
			turns[k] = DAYS_2025 + (int64_t)(next_random(&seed) % YEARS_60);
		for (differs = false, k = 0; k < n + 20; k++)
			for (side = -1; side <= 1; side++) {
				at = turns[k] + side;
				if (at < DAYS_2025)
					continue;
				differs |=
				    wall(zone_table[i].name, at).tm_gmtoff != zone_offset(&z, at);
			}
		if (differs && same_tzdata())
			fail_msg("differs: %s", zone_table[i].name);
		other += differs;
	}
	assert_true(other < 20);
}

/* GB-8: a zone is a name that the program knows, or a fixed difference; nothing else is one. */
static void
zones_have_names(void **state)
{
	static const char *const none[] = {"", "Europe", "europe/berlin", "Europe/Berlin ",
	    "CEST-2", "../UTC", "+5:30", "+05:60", "+14:01", "-15:00", "+0530", "posix/UTC",
	    "Mars/Olympus"};
	struct zone z;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(zone_find(none[i], &z), -1);
	assert_int_equal(zone_find("+05:30", &z), 0);
	assert_int_equal(zone_offset(&z, 0), 19800);
	assert_int_equal(zone_find("-14:00", &z), 0);
	assert_int_equal(zone_offset(&z, DAYS_2025), -50400);
	assert_int_equal(zone_find("UTC", &z), 0);
	assert_int_equal(zone_offset(&z, DAYS_2025), 0);
}

static void
rules_are_read_strictly(void **state)
{
	static const char *const good[] = {"UTC0", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
	    "EET-2EEST,M3.4.4/50,M10.4.4/50", "IST-1GMT0,M10.5.0,M3.5.0/1", "AAA3BBB,J60,J300",
	    "AAA3BBB2:30:15,0/167,365/-167:59:59"};
	static const char *const bad[] = {"", "UT0", "UTC", "UTC0 ", "<+01-1", "EST5EDT",
	    "EST5EDT,M3.2.0", "EST5EDT,M13.2.0,M11.1.0", "EST5EDT,M0.2.0,M11.1.0",
	    "EST5EDT,M3.6.0,M11.1.0", "EST5EDT,M3.2.7,M11.1.0", "EST5EDT,M3.2.0/168,M11.1.0",
	    "EST5EDT,J0,J3", "EST5EDT,366,3", "EST5EDT,M3.2.0,M11.1.0,", "EST168", "EST5:60"};
	struct zone z;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(zone_rule(good[i], &z), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (zone_rule(bad[i], &z) == 0)
			fail_msg("passes: %s", bad[i]);
}

static struct window
window(const char *list, const char *from, const char *to, const char *zone)
{
	struct window w;

	assert_int_equal(window_read(list, from, to, zone, &w), 0);
	return w;
}

/* GB-A4: a window that wraps midnight holds at 05:59 of the next day and not at 06:00. */
static void
windows_wrap_midnight(void **state)
{
	/* Monday 2026-11-30, 00:00 UTC. */
	const int64_t monday = INT64_C(1795996800000), minute = 60000, hour = 60 * minute;
	struct window w = window("[\"mon\"]", "22:00", "06:00", "UTC");

	(void)state;
	assert_int_equal(window_next(&w, monday), monday + 22 * hour);
	assert_int_equal(window_next(&w, monday + 22 * hour - 1), monday + 22 * hour);
	assert_int_equal(window_next(&w, monday + 22 * hour), monday + 22 * hour);
	assert_int_equal(window_next(&w, monday + 30 * hour - 1), monday + 30 * hour - 1);
	assert_int_equal(
	    window_next(&w, monday + 29 * hour + 59 * minute), monday + 29 * hour + 59 * minute);
	assert_int_equal(window_next(&w, monday + 30 * hour), monday + (7 * 24 + 22) * hour);
	/* Early on Monday belongs to Sunday's, which does not open. */
	assert_int_equal(window_next(&w, monday + 3 * hour), monday + 22 * hour);
	w = window("[\"tue\"]", "00:00", "24:00", "UTC");
	assert_int_equal(window_next(&w, monday), monday + 24 * hour);
	assert_int_equal(window_next(&w, monday + 48 * hour - 1), monday + 48 * hour - 1);
	assert_int_equal(window_next(&w, monday + 48 * hour), monday + 8 * 24 * hour);
}

/* Where clocks skip its beginning, a window opens as they go on; an hour shown twice counts twice.
 */
static void
windows_follow_the_clocks(void **state)
{
	/* Berlin: 2026-03-29 02:00 is 03:00, at 01:00 UTC; 2026-10-25 03:00 is 02:00, at 01:00 UTC.
	 */
	const int64_t spring = INT64_C(1774746000000), autumn = INT64_C(1792890000000);
	const int64_t minute = 60000;
	struct window w = window("[\"sun\"]", "02:30", "03:30", "Europe/Berlin");

	(void)state;
	assert_int_equal(window_next(&w, spring - minute), spring);
	assert_int_equal(window_next(&w, spring + 29 * minute), spring + 29 * minute);
	assert_true(window_next(&w, spring + 30 * minute) > spring + 30 * minute);
	w = window("[\"sun\"]", "02:30", "03:00", "Europe/Berlin");
	assert_int_equal(window_next(&w, spring - minute), spring + (7 * 24 * 60 - 30) * minute);
	assert_int_equal(window_next(&w, autumn - 90 * minute), autumn - 30 * minute);
	assert_int_equal(window_next(&w, autumn - 1), autumn - 1);
	assert_int_equal(window_next(&w, autumn), autumn + 30 * minute);
	/* Turned back into a window that was over. */
	w = window("[\"sun\"]", "01:00", "02:15", "Europe/Berlin");
	assert_int_equal(window_next(&w, autumn - 45 * minute), autumn);
	assert_int_equal(window_next(&w, autumn + 14 * minute), autumn + 14 * minute);
}

/* GB-1: what has no day, no length, no zone or no time of day is no window. */
static void
windows_have_a_length(void **state)
{
	static const char *const bad[][4] = {{"[]", "01:00", "02:00", "UTC"},
	    {"[\"mon\"]", "02:00", "02:00", "UTC"}, {"[\"mon\"]", "24:00", "02:00", "UTC"},
	    {"[\"mon\"]", "1:00", "02:00", "UTC"}, {"[\"mon\"]", "01:00", "24:01", "UTC"},
	    {"[\"mon\"]", "01:60", "02:00", "UTC"}, {"[\"mon\"]", "01:00", "02:00", ""},
	    {"[\"mon\"]", "01-00", "02:00", "UTC"}, {"[\"mon\"]", "", "02:00", "UTC"},
	    {"[\"Mon\"]", "01:00", "02:00", "UTC"}};
	struct window w;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(window_read(bad[i][0], bad[i][1], bad[i][2], bad[i][3], &w), -1);
}

/* A model that knows nothing of ours: is the window of ${mask} open on the C library's wall? */
static int
model_open(const char *zone, unsigned mask, int from, int to, int64_t at)
{
	struct tm tm = wall(zone, at);
	int now = tm.tm_hour * 60 + tm.tm_min, today = (tm.tm_wday + 6) % 7;
	int yesterday = (today + 6) % 7;

	if (from < to)
		return (mask >> today & 1) && from <= now && now < to;
	return ((mask >> today & 1) && from <= now) || ((mask >> yesterday & 1) && now < to);
}

/* GB-3: any window, at any time, in any zone: what the minute by minute model says. */
static void
windows_are_those_of_the_model(void **state)
{
	static const char *const steady[] = {
	    "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"};
	uint64_t seed = 20261129;
	bool same = same_tzdata();
	char list[64], from[6], to[6];
	const char *zone;
	int64_t at, ours, step, turns[64];
	struct window w;
	unsigned mask;
	int i, k, n, a, b;

	(void)state;
	for (i = 0; i < 1200; i++) {
		zone = same ? zone_table[next_random(&seed) % zone_rows].name : steady[i % 4];
		mask = 1 + (unsigned)(next_random(&seed) % 127);
		a = (int)(next_random(&seed) % 1440);
		b = (int)(next_random(&seed) % 1441);
		if (a == b)
			continue;
		for (k = n = 0; k < 7; k++)
			if (mask >> k & 1)
				n += snprintf(list + n, sizeof(list) - (size_t)n, "%s\"%s\"",
				    n == 0 ? "[" : ",", days[k]);
		snprintf(list + n, sizeof(list) - (size_t)n, "]");
		snprintf(from, sizeof(from), "%02d:%02d", a / 60, a % 60);
		snprintf(to, sizeof(to), "%02d:%02d", b / 60, b % 60);
		w = window(list, from, to, zone);
		at = DAYS_2025 + (int64_t)(next_random(&seed) % YEARS_60);
		/* Half of them near where the clocks change. */
		n = zone_turns(&w.zone, at, at + 400 * 86400, turns, 64);
		if (n > 0 && i % 2 == 0)
			at = turns[next_random(&seed) % (unsigned)n] - 7200 +
			     (int64_t)(next_random(&seed) % 14400);
		ours = window_next(&w, at * 1000) / 1000;
		if (model_open(zone, mask, a, b, at)) {
			assert_int_equal(ours, at);
			continue;
		}
		/* All zones' clocks change on full minutes. */
		for (step = at - at % 60 + 60; !model_open(zone, mask, a, b, step); step += 60)
			assert_true(step < at + 16 * 86400);
		if (ours != step)
			fail_msg("%s %s %s-%s at %lld: %lld, not %lld", zone, list, from, to,
			    (long long)at, (long long)ours, (long long)step);
	}
}

static bool
matches(const char *pattern, const char *text)
{
	return glob_matches(pattern, text, strlen(text));
}

static void
patterns_match(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool does;
	} cases[] = {{"*.log", "a.log", true}, {"*.log", "d/a.log", false},
	    {"**.log", "d/a.log", true}, {"/srv/*/x", "/srv/a/x", true},
	    {"/srv/*/x", "/srv/a/b/x", false}, {"/srv/**/x", "/srv/a/b/x", true},
	    {"a?c", "abc", true}, {"a?c", "a/c", false},
	    {"a?c",
		"a\xc3\xa4"
		"c",
		true},
	    {"a??c",
		"a\xc3\xa4"
		"c",
		false},
	    {"[a-c]x", "bx", true}, {"[!a-c]x", "bx", false}, {"[!a-c]x", "/x", false},
	    {"\\*", "*", true}, {"\\*", "x", false}, {"", "", true}, {"", "x", false},
	    {"*", "", true}, {"[]a]", "]", true}, {"[a\\-z]", "-", true}, {"[a\\-z]", "b", false},
	    {"***", "a/b", true}, {"x", "xx", false}};
	static const char *const none[] = {
	    "[", "[a", "[z-a]", "\\", "[a-", "[\\", "[!", "[\xc3\xa4]"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(glob_valid(cases[i].pattern));
		if (matches(cases[i].pattern, cases[i].text) != cases[i].does)
			fail_msg("%s and %s", cases[i].pattern, cases[i].text);
	}
	for (i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_false(glob_valid(none[i]));
		assert_false(matches(none[i], none[i]));
	}
}

/* Without ** and sets these are the patterns of fnmatch(3). */
static void
patterns_are_those_of_fnmatch(void **state)
{
	static const char letters[] = "ab/*?";
	char pattern[9], text[9];
	uint64_t seed = 7;
	int i, k, n;

	(void)state;
	for (i = 0; i < 200000; i++) {
		n = (int)(next_random(&seed) % 9);
		for (k = 0; k < n; k++)
			pattern[k] = letters[next_random(&seed) % 5];
		pattern[n] = '\0';
		if (strstr(pattern, "**") != NULL)
			continue;
		n = (int)(next_random(&seed) % 9);
		for (k = 0; k < n; k++)
			text[k] = letters[next_random(&seed) % 3];
		text[n] = '\0';
		if (matches(pattern, text) != (fnmatch(pattern, text, FNM_PATHNAME) == 0))
			fail_msg("%s and %s", pattern, text);
	}
}

/* A pattern that sends backtracking matchers into the trees takes a few steps a byte. */
static void
patterns_do_not_backtrack(void **state)
{
	static char text[65536], pattern[GLOB_MAX + 2];
	size_t i;

	(void)state;
	memset(text, 'a', sizeof(text));
	for (i = 0; i + 3 < GLOB_MAX; i += 3)
		memcpy(pattern + i, "**a", 3);
	pattern[i] = 'b';
	assert_true(glob_valid(pattern));
	assert_false(glob_matches(pattern, text, sizeof(text)));
	memset(pattern, 'a', GLOB_MAX + 1);
	assert_false(glob_valid(pattern));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(calendar_goes_both_ways),
	    cmocka_unit_test(zones_are_those_of_tzdata),
	    cmocka_unit_test(zones_have_names),
	    cmocka_unit_test(rules_are_read_strictly),
	    cmocka_unit_test(windows_wrap_midnight),
	    cmocka_unit_test(windows_follow_the_clocks),
	    cmocka_unit_test(windows_have_a_length),
	    cmocka_unit_test(windows_are_those_of_the_model),
	    cmocka_unit_test(patterns_match),
	    cmocka_unit_test(patterns_are_those_of_fnmatch),
	    cmocka_unit_test(patterns_do_not_backtrack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
