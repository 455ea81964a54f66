/* bench_fleet.c: one Host with hundreds of boxes; there is no peer, so the target is a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fleet.h"

#define BOXES    500
#define BEAT_MS  25000
#define LIMIT_MS 60000
#define LIMIT_MB 256 /* of memory, over all processes of the Host */

int
main(void)
{
	const char *given = getenv("BOXES");
	int boxes = given != NULL ? atoi(given) : BOXES;
	int64_t connected, asked, again;
	int64_t mib;
	struct driver d;

	fleet_host(&d, boxes);
	fleet_pair(&d, boxes);
	fleet_begin(BEAT_MS);
	connected = fleet_connected(&d);
	asked = fleet_ask(&d);
	again = fleet_ask(&d);
	mib = fleet_memory(&d) / 1024;
	fleet_end();
	driver_drop(&d);
	printf(
	    "%d boxes dial in | %" PRId64 " ms | | | < %d s\n", boxes, connected, LIMIT_MS / 1000);
	printf("%d boxes answer at once | %" PRId64 " ms | | | < %d s\n", boxes,
	    again < asked ? again : asked, LIMIT_MS / 1000);
	printf("memory of a Host with %d boxes | %" PRId64 " MiB | | | < %d MiB\n", boxes, mib,
	    LIMIT_MB);
	return connected < LIMIT_MS && again < LIMIT_MS && mib < LIMIT_MB ? 0 : 1;
}
