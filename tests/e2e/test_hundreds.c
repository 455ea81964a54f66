/* test_hundreds.c: hundreds of boxes at one Host: they come, beat, answer all at once, and come
 * back.  BOXES=500 says how many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fleet.h"
#include "tests/slower.h"

#define BOXES   (SLOWER > 1 ? 60 : 100)
#define BEAT_MS 5000
#define PACE_MS 50    /* between two beats of all: both ends shake hands on what may be one core */
#define LIMIT   60000 /* ms, on a slow machine too */

static struct driver d;
static int boxes;
static const volatile struct fleet_counts *counts;

static int
begin(void **state)
{
	const char *given = getenv("BOXES");
	int64_t from;

	(void)state;
	boxes = given != NULL ? atoi(given) : BOXES;
	fleet_host(&d, boxes);
	from = driver_now();
	fleet_pair(&d, boxes);
	printf("%d boxes paired in %" PRId64 " ms\n", boxes, driver_now() - from);
	counts = fleet_begin(boxes * PACE_MS > BEAT_MS ? boxes * PACE_MS : BEAT_MS);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	fleet_end();
	driver_drop(&d);
	return 0;
}

/* All of them dial in, each with a certificate of its own. */
static void
hundreds_connect(void **state)
{
	int64_t took = fleet_connected(&d);

	(void)state;
	printf("all connected in %" PRId64 " ms; the Host has %" PRId64 " MiB, and used %" PRId64
	       " ms of a processor\n",
	    took, fleet_memory(&d) / 1024, fleet_cpu(&d));
	assert_in_range(took, 0, LIMIT);
	assert_int_equal(
	    driver_value(&d, DRIVER_HOST, "SELECT count(DISTINCT fp) FROM box_certificate"), boxes);
	/* A box more is less than a quarter of a MiB more. */
	assert_true(fleet_memory(&d) < SLOWER * (131072 + 256 * boxes));
}

/* HB: each is heard, in its own name, and again while the others are. */
static void
hundreds_beat(void **state)
{
	int64_t cpu = fleet_cpu(&d), from = driver_now();
	unsigned before;

	(void)state;
	driver_until(&d, DRIVER_HOST, boxes,
	    "SELECT count(*) FROM host_beat AS h JOIN host_box AS b ON b.id = h.box_id"
	    " WHERE h.beat ->> '$.name' = b.name");
	assert_true(counts->beats + counts->beats_lost >= (unsigned)boxes);
	before = counts->beats;
	while (counts->beats < before + (unsigned)boxes && driver_now() - from < LIMIT)
		driver_pause();
	assert_true(counts->beats >= before + (unsigned)boxes);
	printf("%u beats were heard, %u were not; the Host used %" PRId64
	       " ms of a processor in %" PRId64 " ms\n",
	    counts->beats, counts->beats_lost, fleet_cpu(&d) - cpu, driver_now() - from);
}

/* One ask for each at once: each answers, in its own name, and shows its audit. */
static void
hundreds_are_asked_at_once(void **state)
{
	int64_t took;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		took = fleet_ask(&d);
		printf("%d asks at once: %" PRId64 " ms, %" PRId64 " asks/s\n", boxes, took,
		    boxes * 1000 / (took + 1));
		assert_in_range(took, 0, LIMIT);
	}
	assert_int_equal(counts->wrong, 0);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM call WHERE state = 'done' AND exit_code = 0"),
	    2 * boxes);
	assert_int_equal(driver_value(&d, DRIVER_HOST,
			     "SELECT count(*) FROM box_witness WHERE state = 'followed'"
			     " AND size = 1"),
	    boxes);
}

/* The actor that holds every line dies: all come back to the next one, and answer. */
static void
hundreds_come_back(void **state)
{
	pid_t pid = driver_actor(&d, DRIVER_HOST, "net");
	int64_t from = driver_now(), took;

	(void)state;
	driver_kill(&d, DRIVER_HOST, "net");
	while (driver_actor(&d, DRIVER_HOST, "net") == pid ||
	       driver_actor(&d, DRIVER_HOST, "net") == 0)
		driver_pause();
	driver_until(&d, DRIVER_HOST, boxes, "SELECT count(*) FROM box_lines WHERE up > 0");
	while (counts->up != (unsigned)boxes && driver_now() - from < LIMIT)
		driver_pause();
	took = driver_now() - from;
	printf("all back in %" PRId64 " ms\n", took);
	assert_in_range(took, 0, LIMIT);
	assert_in_range(fleet_ask(&d), 0, LIMIT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hundreds_connect),
	    cmocka_unit_test(hundreds_beat),
	    cmocka_unit_test(hundreds_are_asked_at_once),
	    cmocka_unit_test(hundreds_come_back),
	};

	setlinebuf(stdout);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, begin, end);
}
