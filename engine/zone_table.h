/* zone_table.h: the time zones that travel with the program. */
#ifndef ENGINE_ZONE_TABLE_H
#define ENGINE_ZONE_TABLE_H

#include <stdint.h>

/* From ${at} on, in seconds UTC, clocks there are ${offset} seconds ahead of UTC. */
struct zone_change {
	int64_t at;
	int32_t offset;
};

/* ${rule} is POSIX's TZ (IEEE 1003.1 §8.3, hours as in RFC 8536 §3.3.1); before the end of the list
 * ${changes}, which a row of zeros ends, that list holds.  NULL: there is none. */
struct zone_row {
	const char *name, *rule;
	const struct zone_change *changes;
};

extern const struct zone_row zone_table[]; /* by name, as bytes */
extern const unsigned zone_rows;
extern const char zone_version[]; /* of tzdata */

#endif
