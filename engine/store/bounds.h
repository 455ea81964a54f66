/* bounds.h: what schema/bound.sql asks for that SQL has no words for. */
#ifndef ENGINE_STORE_BOUNDS_H
#define ENGINE_STORE_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite3;

/**
 * bounds_register(handle):
 * Register on ${handle}: bound_holds(rule, bound, value), glob_valid(pattern), window_opens(days,
 * from, to, zone, at), which is NULL for what is no window or never opens, bounds_words(bounds), a
 * line for each bound, and refuse(code, why, retry_at), which ends the statement with that refusal:
 * RAISE takes no text that is made.  Return 0 or -1.
 */
int bounds_register(struct sqlite3 *handle);

/**
 * bounds_hold(rule, bound, value, len):
 * Does ${value}, of ${len} bytes, keep the rule: is, min, max, prefix, like or beneath with
 * ${bound}?  min and max are for plain decimal integers; beneath is for absolute paths without
 * empty parts, "." and "..", which are ${bound} itself or below it.  An unknown rule is not kept.
 */
bool bounds_hold(const char *rule, const char *bound, const char *value, size_t len);

#endif
