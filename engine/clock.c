/* clock.c: time and randomness. */
#include <endian.h>
#include <sodium.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "engine/clock.h"

static _Atomic int64_t fixed_ms = -1;
static void (*fixed_random)(void *, size_t);

int64_t
clock_now(void)
{
	struct timespec ts;
	int64_t ms;

	if ((ms = atomic_load(&fixed_ms)) >= 0)
		return ms;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void
clock_fix(int64_t ms)
{
	atomic_store(&fixed_ms, ms);
}

void
random_fill(void *buf, size_t len)
{
	if (fixed_random != NULL) {
		fixed_random(buf, len);
		return;
	}
	randombytes_buf(buf, len);
}

void
random_fix(void (*source)(void *buf, size_t len))
{
	fixed_random = source;
}

void
random_hex(char out[33])
{
	unsigned char raw[16];

	random_fill(raw, sizeof(raw));
	sodium_bin2hex(out, 33, raw, sizeof(raw));
}

void
nonce_hex(char out[33])
{
	unsigned char raw[16];
	uint64_t time = htobe64((uint64_t)clock_now() << 16);

	memcpy(raw, &time, 6);
	random_fill(raw + 6, sizeof(raw) - 6);
	sodium_bin2hex(out, 33, raw, sizeof(raw));
}
