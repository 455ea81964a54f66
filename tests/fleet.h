/* fleet.h: for tests: hundreds of boxes at one Host, simulated in one process by our own code. */
#ifndef TESTS_FLEET_H
#define TESTS_FLEET_H

#include "tests/driver.h"

#define FLEET_MAX 1000

/* What the process of the boxes counts. */
struct fleet_counts {
	unsigned up;          /* boxes with a line */
	unsigned beats;       /* that the Host answered well */
	unsigned beats_lost;  /* that it did not */
	unsigned asks, wrong; /* that were answered; that were not signed by the Host */
};

/**
 * fleet_host(d, boxes):
 * Make a Host that serves ${boxes} boxes of one address under TLS, and all of its person's asks at
 * once.  d->port is its port.
 */
void fleet_host(struct driver *d, int boxes);

/**
 * fleet_pair(d, boxes):
 * Pair the boxes "box-0"… over POST /v1/enroll, each with a key and a certificate of its own.
 */
void fleet_pair(struct driver *d, int boxes);

/**
 * fleet_begin(beat_ms):
 * Start the process of the boxes: each keeps a line, serves asks on it, and beats each ${beat_ms}.
 * Return what it counts, which lives until fleet_end.
 */
const volatile struct fleet_counts *fleet_begin(int64_t beat_ms);
void fleet_end(void);

/**
 * fleet_connected(d):
 * Wait until the Host has a line of each box.  Return how long that took, in milliseconds.
 */
int64_t fleet_connected(struct driver *d);

/**
 * fleet_ask(d):
 * Ask every box at once on the Host's control socket; each has to answer in its own name.  Return
 * how long it took until the last one had, in milliseconds.
 */
int64_t fleet_ask(struct driver *d);

/**
 * fleet_memory(d), fleet_cpu(d):
 * The Host's share of memory over all of its processes, in KiB (PSS); and what they used of a
 * processor, in milliseconds, those that are gone not counted.
 */
int64_t fleet_memory(struct driver *d);
int64_t fleet_cpu(struct driver *d);

#endif
