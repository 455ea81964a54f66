/* backoff.h: how long to wait before something that crashed is started again. */
#ifndef ENGINE_ACTOR_BACKOFF_H
#define ENGINE_ACTOR_BACKOFF_H

#include <stdint.h>

/**
 * backoff_base(n, first_ms, cap_ms):
 * Return ${first_ms} doubled ${n} times, but at most ${cap_ms}; ${n} below 0 counts as 0.
 */
int64_t backoff_base(int n, int64_t first_ms, int64_t cap_ms);

/**
 * backoff_jitter(base_ms):
 * Return a random wait from half of ${base_ms} to less than one and a half of it, so that what
 * failed together does not come back together; at least 1.
 */
int64_t backoff_jitter(int64_t base_ms);

#endif
