/*
 * fuzz_cron.c: calendars from any bytes, in any zone, at any time.
 *
 * Eight bytes of time, one for the zone, the rest is the calendar.  What is taken has a time or
 * none; the next one is later, and is the same when it is looked for from closer by.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(int holds)
{
	if (!holds)
		abort();
}

static void
try_times(const struct cron *cron, const struct zone *zone, int64_t at)
{
	int64_t next = cron_next(cron, zone, at);

	if (next == -1)
		return;
	must(at >= 0 && next > at && next % 1000 == 0);
	must(cron_next(cron, zone, next - 1) == next);
	must(cron_next(cron, zone, at + (next - at) / 2) == next);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[CRON_TEXT_MAX + 8] = "", why[64] = "";
	struct zone zone;
	struct cron cron;
	int64_t at;
	size_t len;

	if (size < 9)
		return 0;
	memcpy(&at, data, sizeof(at));
	must(zone_find(zone_table[data[8] * 2 % zone_rows].name, &zone) == 0);
	len = size - 9 < sizeof(text) - 1 ? size - 9 : sizeof(text) - 1;
	memcpy(text, data + 9, len);
	if (cron_read(text, &cron, why, sizeof(why)) != 0) {
		must(why[0] != '\0');
		return 0;
	}
	must(cron.minutes != 0 && cron.minutes >> 60 == 0 && cron.hours != 0 &&
	     cron.hours >> 24 == 0);
	must(cron.days != 0 && (cron.days & 1) == 0 && cron.months != 0 && cron.months >> 13 == 0);
	must(cron.weekdays != 0 && cron.weekdays >> 7 == 0);
	try_times(&cron, &zone, at);
	/* Most numbers are no time of ours: these are. */
	try_times(&cron, &zone, (int64_t)((uint64_t)at % UINT64_C(4102444800000)));
	return 0;
}
