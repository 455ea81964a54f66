/* backoff.c: doubling waits. */
#include "engine/actor/backoff.h"
#include "engine/clock.h"

int64_t
backoff_base(int n, int64_t first_ms, int64_t cap_ms)
{
	int64_t ms = first_ms;

	for (; n > 0 && ms < cap_ms; n--)
		ms = ms > cap_ms / 2 ? cap_ms : ms * 2;
	return ms < cap_ms ? ms : cap_ms;
}

int64_t
backoff_jitter(int64_t base_ms)
{
	uint32_t dice;
	int64_t ms;

	random_fill(&dice, sizeof(dice));
	ms = base_ms / 2 + (base_ms * (int64_t)(dice >> 8) >> 24);
	return ms > 0 ? ms : 1;
}
