/* bench_start.c: how long a daemon takes to serve a large database, and what memory it holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/store/embed.h"
#include "tests/driver.h"

#define ROUNDS   11
#define TARGET   100.0 /* ms */
#define FRAME    65000
#define FRAMES   16500 /* a gigabyte of them */
#define PER_STEP 500

static struct driver d;
static char cache[64]; /* where the large database is kept; its name has the digest of its schema */

static void
cache_name(void)
{
	const unsigned char *digest = embedded_digest[embedded_versions - 1];

	snprintf(cache, sizeof(cache), "build/bench/gigabyte-%02x%02x%02x%02x", digest[0],
	    digest[1], digest[2], digest[3]);
}

static const char RUN_BEGINS[] =
    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
    " SELECT pairing_id, op, args, lower(hex(zeroblob(16))), grant_id, now_ms() FROM op_run"
    "  WHERE id = 1;"
    "UPDATE op_run SET state = 'running', started_at = now_ms() WHERE state = 'queued'";
static const char RUN_ENDS[] =
    "UPDATE op_run SET state = 'done', exit_code = 0, finished_at = now_ms()"
    " WHERE state = 'running'";
static const char RUN_SAYS[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
    " INSERT INTO op_output SELECT r.id, r.last_seq + i, json_object('o', hex(randomblob(%d)))"
    "  FROM (SELECT id, last_seq FROM op_run WHERE state = 'running') AS r, n ORDER BY i";

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int
by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void
sql_run(struct store *db, const char *sql)
{
	char *error = NULL;

	if (sqlite3_exec(store_handle(db), sql, NULL, NULL, &error) != SQLITE_OK)
		fail_msg("%s: %s", sql, error);
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void
shell(const char *format, ...)
{
	char command[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

static void
keys_read(struct store_keys *keys)
{
	struct refusal r = {0};
	char path[128];
	struct key *key;

	snprintf(path, sizeof(path), "%s/bastion.key", d.state[DRIVER_BOX]);
	assert_non_null(key = key_load(path, &r));
	key_public(key, KEY_IDENTITY, keys->identity);
	key_public(key, KEY_GRANT, keys->grant);
	keys->secret = NULL;
	keys->present = true;
	key_free(key);
}

/* One run whose answer is a gigabyte: what makes a database large is its answers. */
static void
answers_fill(void)
{
	static struct said said;
	struct store_keys keys;
	struct store *db;
	char tree[128], sql[512];
	int i, steps = FRAMES / PER_STEP;

	snprintf(tree, sizeof(tree), "%s/tree", d.dir);
	assert_int_equal(mkdir(tree, 0700), 0);
	driver_grant(&d, "observe:folders", tree, "1", "2", "1h");
	driver_does(&said, NULL, "on", d.box, "observe:folders", tree, "1", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_end(&d, DRIVER_HOST, SIGTERM);
	keys_read(&keys);
	db = driver_open(&d, DRIVER_BOX, ROLE_MIGRATE, &keys);
	snprintf(sql, sizeof(sql), RUN_SAYS, PER_STEP, FRAME / 2);
	for (i = 0; i < steps; i++) {
		assert_int_equal(store_begin_soft(db), 0);
		if (i == 0)
			sql_run(db, RUN_BEGINS);
		sql_run(db, sql);
		if (i + 1 == steps)
			sql_run(db, RUN_ENDS);
		assert_int_equal(store_commit(db), 0);
	}
	sql_run(db, "PRAGMA wal_checkpoint(TRUNCATE)");
	store_close(db);
}

static void
cache_make(void)
{
	driver_first_day(&d);
	answers_fill();
	shell("rm -rf build/bench && mkdir -p %s", cache);
	shell(
	    "mv %s/bastion.db %s/bastion.key %s", d.state[DRIVER_BOX], d.state[DRIVER_BOX], cache);
	driver_make(&d);
}

/* Proportional memory of ${pid} and what it started, in KiB. */
static long
memory_of(pid_t pid)
{
	char path[64], line[256];
	long kib = 0, one;
	int child;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	if ((f = fopen(path, "re")) != NULL) {
		while (fgets(line, sizeof(line), f) != NULL)
			if (sscanf(line, "Pss: %ld", &one) == 1)
				kib += one;
		fclose(f);
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	if ((f = fopen(path, "re")) != NULL) {
		while (fscanf(f, "%d", &child) == 1)
			kib += memory_of(child);
		fclose(f);
	}
	return kib;
}

/* The median of ${times}, which are sorted. */
static double
median(double times[ROUNDS])
{
	qsort(times, ROUNDS, sizeof(times[0]), by_size);
	return times[ROUNDS / 2];
}

/* What a start takes until it is ready, and until what nobody waits for runs too; its memory. */
struct start {
	double ready, all; /* ms, medians */
	long kib;          /* of all processes, with all actors there */
};

static void
starts(struct start *start)
{
	double ready[ROUNDS], all[ROUNDS], began;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		began = now();
		driver_serve(&d, DRIVER_BOX);
		ready[i] = now() - began;
		driver_settle(&d, DRIVER_BOX);
		all[i] = now() - began;
		start->kib = memory_of(d.serving[DRIVER_BOX]);
		driver_end(&d, DRIVER_BOX, SIGTERM);
	}
	start->ready = median(ready);
	start->all = median(all);
}

static void
measure(void **state)
{
	char path[96];
	struct start small, large;
	struct stat st;

	(void)state;
	cache_name();
	snprintf(path, sizeof(path), "%s/bastion.db", cache);
	if (stat(path, &st) != 0)
		cache_make();
	driver_make(&d);
	driver_serve(&d, DRIVER_BOX);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	starts(&small);
	driver_drop(&d);
	driver_make(&d);
	shell("mkdir -m 0700 %s && cp -p %s/* %s", d.state[DRIVER_BOX], cache, d.state[DRIVER_BOX]);
	starts(&large);
	assert_int_equal(stat(path, &st), 0);
	printf(
	    "start to ready, %.2f GiB (ms; peer: an empty database) | %.1f | %.1f | %.2f | < %.0f\n",
	    (double)st.st_size / 1073741824.0, large.ready, small.ready, large.ready / small.ready,
	    TARGET);
	printf("start to all actors (ms) | %.1f | %.1f | %.2f | -\n", large.all, small.all,
	    large.all / small.all);
	printf("memory of all processes, PSS (MiB) | %.1f | %.1f | %.2f | -\n",
	    (double)large.kib / 1024, (double)small.kib / 1024,
	    (double)large.kib / (double)small.kib);
	shell("rm -rf %s", d.dir);
	assert_true(large.ready < TARGET);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(measure)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
