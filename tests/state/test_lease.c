/* test_lease.c: named locks in the database, held by real processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/identity.h"
#include "engine/actor/loop.h"
#include "engine/clock.h"
#include "engine/state/lease.h"
#include "tests/scratch.h"

#define PATIENCE_MS 60000
#define LONG_MS     3600000
#define RACERS      32
#define ROUNDS      3
#define DAY_MS      INT64_C(86400000)

/*
 * Peers: this program again, since a connection must not be carried over fork (RF-99).
 * "peer STATE RUN WHAT NAME TTL": each says a line and then does as its standard input says.
 */

static int
peer_hold(struct store *db, const char *name, int64_t ttl_ms)
{
	int64_t fence = -1;
	char byte;
	int rc;

	rc = lease_take(db, name, ttl_ms, 0, &fence);
	printf("%d %" PRId64 "\n", rc, fence);
	fflush(stdout);
	return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}

/* Hold; when told, write what the lease protects, and say how that went. */
static int
peer_write(struct store *db, const char *name, int64_t ttl_ms)
{
	int64_t fence = -1;
	struct stmt *q;
	char byte;
	int rc;

	rc = lease_take(db, name, ttl_ms, 0, &fence);
	printf("%d %" PRId64 "\n", rc, fence);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) == 1) {
		if (store_begin(db) != 0)
			return 1;
		rc = lease_check(db, name, fence);
		if (rc == 0) {
			q = store_sql(db, "UPDATE setting SET value = value + 1"
					  " WHERE name = 'op.live'");
			rc = stmt_run_one(q) == 0 ? store_commit(db) : -1;
		} else
			store_rollback(db);
		printf("%d %s\n", rc, rc == 0 ? "written" : store_refusal(db)->code);
		fflush(stdout);
	}
	return 0;
}

/* Under the lease: read a number, and write it back one higher in another transaction. */
static int
race_once(struct store *db, const char *name)
{
	int64_t fence, value;
	struct stmt *q;

	if (lease_take(db, name, LONG_MS, PATIENCE_MS, &fence) != 0)
		return -1;
	value = stmt_value(store_sql(db, "SELECT value FROM setting WHERE name = 'op.live'"), -1);
	if (store_begin(db) != 0 || lease_check(db, name, fence) != 0)
		return -1;
	q = store_sql(db, "UPDATE setting SET value = :value WHERE name = 'op.live'");
	stmt_int(q, ":value", value + 1);
	if (stmt_run_one(q) != 0 || store_commit(db) != 0)
		return -1;
	return lease_release(db, name, fence);
}

static int
peer_race(struct store *db, const char *name)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		if (race_once(db, name) != 0) {
			fprintf(
			    stderr, "%s: %s\n", store_refusal(db)->code, store_refusal(db)->why);
			return 1;
		}
	return 0;
}

static int
peer_main(char **argv)
{
	const char *what = argv[4], *name = argv[5];
	int64_t ttl_ms = strtoll(argv[6], NULL, 10);
	struct refusal r = {0};
	struct store *db;
	struct home home;
	int rc;

	if (home_at(&home, argv[2], argv[3], HOME_BOX, false, &r) != 0 ||
	    (db = store_open(&home, ROLE_PERSON, NULL, &r)) == NULL) {
		fprintf(stderr, "%s: %s\n", r.code, r.why);
		return 1;
	}
	store_acting(db, "test:peer");
	if (strcmp(what, "hold") == 0)
		rc = peer_hold(db, name, ttl_ms);
	else if (strcmp(what, "write") == 0)
		rc = peer_write(db, name, ttl_ms);
	else
		rc = peer_race(db, name);
	store_close(db);
	home_close(&home);
	return rc;
}

struct peer {
	pid_t pid;
	int in, out;
	char line[128];
};

static void
peer_start(struct peer *p, const struct scratch *s, const char *what, int64_t ttl_ms)
{
	int in[2], out[2];
	char ttl[32];

	snprintf(ttl, sizeof(ttl), "%" PRId64, ttl_ms);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	if ((p->pid = fork()) == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl("/proc/self/exe", "peer", "peer", s->home.state, s->home.run, what, "toy",
		    ttl, NULL);
		_exit(99);
	}
	close(in[0]);
	close(out[1]);
	p->in = in[1];
	p->out = out[0];
}

static const char *
peer_says(struct peer *p)
{
	struct pollfd fd = {.fd = p->out, .events = POLLIN};
	size_t len = 0;

	while (len < sizeof(p->line) - 1) {
		if (poll(&fd, 1, PATIENCE_MS) != 1 || read(p->out, p->line + len, 1) != 1)
			fail_msg("the peer says nothing");
		if (p->line[len] == '\n')
			break;
		len++;
	}
	p->line[len] = '\0';
	return p->line;
}

static int
peer_ends(struct peer *p)
{
	int status;

	close(p->in);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	close(p->out);
	return status;
}

static void
peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	peer_ends(p);
}

static int64_t
fence_of(struct scratch *s)
{
	return scratch_value(s, "SELECT fence FROM lease WHERE name = 'toy'");
}

/* Taken, it is ours with fence 1; renewed with the same; freed, its fence lives on. */
static void
life_of_a_lease(void **state)
{
	struct scratch s;
	int64_t fence, now;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_WORKER);
	now = clock_now();
	clock_fix(now);
	assert_int_equal(lease_take(s.db, "toy", 1000, 0, &fence), 0);
	assert_int_equal(fence, 1);
	assert_int_equal(scratch_value(&s, "SELECT expires_at FROM lease"), now + 1000);
	clock_fix(now + 500);
	assert_int_equal(lease_renew(s.db, "toy", 1000, fence), 0);
	assert_int_equal(scratch_value(&s, "SELECT expires_at FROM lease"), now + 1500);
	assert_int_equal(fence_of(&s), 1);
	assert_int_equal(lease_release(s.db, "toy", fence), 0);
	assert_int_equal(scratch_value(&s, "SELECT process_id IS NULL FROM lease"), 1);
	assert_int_equal(lease_take(s.db, "toy", 1000, 0, &fence), 0);
	assert_int_equal(fence, 2);
	scratch_drop(&s);
}

/* LU-19: held by a living process of this boot: busy, with its name and its end. */
static void
busy_names_the_holder(void **state)
{
	struct scratch s;
	struct peer p;
	int64_t fence = -1;
	char who[64];

	(void)state;
	scratch_make(&s, HOME_BOX);
	peer_start(&p, &s, "hold", LONG_MS);
	assert_string_equal(peer_says(&p), "0 1");
	scratch_open(&s, ROLE_WORKER);
	assert_int_equal(lease_take(s.db, "toy", 1000, 0, &fence), LEASE_BUSY);
	snprintf(who, sizeof(who), "toy is held by the process %ld (", (long)p.pid);
	assert_string_equal(store_refusal(s.db)->code, "lease.held");
	assert_non_null(strstr(store_refusal(s.db)->why, who));
	assert_true(store_refusal(s.db)->retry_at > clock_now());
	assert_int_equal(fence, -1);
	peer_kill(&p);
	scratch_drop(&s);
}

/* The same process is no exception: two of its parts must not both believe that they hold it. */
static void
not_twice_by_one_process(void **state)
{
	struct scratch s;
	int64_t fence, second;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_WORKER);
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, 0, &fence), 0);
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, 0, &second), LEASE_BUSY);
	assert_int_equal(lease_release(s.db, "toy", fence), 0);
	scratch_drop(&s);
}

/* LU-15: a bounded wait ends in time, and nothing is held.  RF-71: also when the clock of the rows
 * stands still. */
static void
wait_is_bounded(void **state)
{
	struct scratch s;
	struct peer p;
	int64_t fence, began, took;

	(void)state;
	scratch_make(&s, HOME_BOX);
	peer_start(&p, &s, "hold", LONG_MS);
	peer_says(&p);
	scratch_open(&s, ROLE_WORKER);
	began = loop_now();
	assert_int_equal(lease_take(s.db, "toy", 1000, 100, &fence), LEASE_BUSY);
	took = loop_now() - began;
	assert_in_range(took, 100, 1000);
	clock_fix(clock_now());
	began = loop_now();
	assert_int_equal(lease_take(s.db, "toy", 1000, 100, &fence), LEASE_BUSY);
	assert_in_range(loop_now() - began, 100, 1000);
	clock_fix(-1);
	assert_int_equal(fence_of(&s), 1);
	peer_kill(&p);
	scratch_drop(&s);
}

/* LU-11, RF-96: the death of the holder wakes the waiter, long before the slow tick. */
static void
death_wakes_the_waiter(void **state)
{
	struct scratch s;
	struct peer p;
	int64_t fence, began;
	pid_t killer;

	(void)state;
	scratch_make(&s, HOME_BOX);
	assert_int_equal(
	    scratch_sql(&s, "UPDATE setting SET value = 600000 WHERE name = 'store.tick_ms'"), 0);
	store_close(s.db);
	s.db = NULL;
	peer_start(&p, &s, "hold", LONG_MS);
	peer_says(&p);
	if ((killer = fork()) == 0) {
		/* After the waiter's sleeps have grown beyond what this test would take. */
		poll(NULL, 0, 1000);
		kill(p.pid, SIGKILL);
		_exit(0);
	}
	scratch_open(&s, ROLE_WORKER);
	began = loop_now();
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, PATIENCE_MS, &fence), 0);
	assert_int_equal(fence, 2);
	assert_true(loop_now() - began < 3000);
	assert_int_equal(waitpid(killer, NULL, 0), killer);
	peer_ends(&p);
	scratch_drop(&s);
}

/* The bell wakes the waiter when the holder lets go. */
static void
release_wakes_the_waiter(void **state)
{
	struct scratch s;
	struct peer p[2];
	int i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	for (i = 0; i < 2; i++)
		peer_start(&p[i], &s, "race", 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(peer_ends(&p[i]), 0);
	assert_int_equal(fence_of(&s), 2 * ROUNDS);
	scratch_drop(&s);
}

/* LU-10: 32 processes; a number read under the lease and written back misses no turn. */
static void
never_two_holders(void **state)
{
	struct scratch s;
	struct peer p[RACERS];
	int64_t before;
	int i;

	(void)state;
	scratch_make(&s, HOME_BOX);
	before = scratch_value(&s, "SELECT value FROM setting WHERE name = 'op.live'");
	for (i = 0; i < RACERS; i++)
		peer_start(&p[i], &s, "race", 0);
	for (i = 0; i < RACERS; i++)
		assert_int_equal(peer_ends(&p[i]), 0);
	assert_int_equal(scratch_value(&s, "SELECT value FROM setting WHERE name = 'op.live'"),
	    before + RACERS * ROUNDS);
	assert_int_equal(fence_of(&s), RACERS * ROUNDS);
	scratch_drop(&s);
}

/* LU-17, RF-31: only the holder with the present fence renews or frees, and only once. */
static void
others_cannot_free(void **state)
{
	struct scratch s;
	struct peer p;
	int64_t fence;

	(void)state;
	scratch_make(&s, HOME_BOX);
	peer_start(&p, &s, "hold", LONG_MS);
	peer_says(&p);
	scratch_open(&s, ROLE_WORKER);
	assert_int_equal(lease_release(s.db, "toy", 1), -1);
	assert_string_equal(store_refusal(s.db)->code, "lease.fence");
	assert_int_equal(lease_renew(s.db, "toy", LONG_MS, 1), -1);
	assert_int_equal(scratch_value(&s, "SELECT process_id IS NOT NULL FROM lease"), 1);
	peer_kill(&p);
	scratch_open(&s, ROLE_WORKER);
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, 0, &fence), 0);
	assert_int_equal(lease_release(s.db, "toy", fence - 1), -1);
	assert_int_equal(lease_release(s.db, "toy", fence), 0);
	assert_int_equal(lease_release(s.db, "toy", fence), -1);
	assert_string_equal(store_refusal(s.db)->code, "lease.fence");
	scratch_drop(&s);
}

/* Rows of holders that cannot be alive: the next one takes over at once. */
static void
takes_over(const char *boot, const char *ticks)
{
	struct scratch s;
	int64_t fence;
	char sql[512];

	scratch_make(&s, HOME_BOX);
	snprintf(sql, sizeof(sql),
	    "INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES ('%s', %ld, %s, 0, 'ghost', now_ms());"
	    "INSERT INTO lease (name, process_id, fence, expires_at)"
	    " VALUES ('toy', 1, 7, now_ms() + %d)",
	    boot, (long)getpid(), ticks, LONG_MS);
	if (scratch_sql(&s, sql) != 0)
		fail_msg("%s", s.error);
	scratch_open(&s, ROLE_WORKER);
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, 0, &fence), 0);
	assert_int_equal(fence, 8);
	scratch_drop(&s);
}

/* LU-19, RF-30: a holder of an older boot, and one whose pid is ours now, are dead. */
static void
dead_holders(void **state)
{
	struct identity me;
	char ticks[32];

	(void)state;
	assert_int_equal(identity_of(getpid(), &me), 0);
	takes_over("00000000-0000-0000-0000-000000000000", "1");
	snprintf(ticks, sizeof(ticks), "%" PRId64, me.start_ticks + 1);
	takes_over(me.boot_id, ticks);
}

/* The database itself keeps a live holder's lease, whoever writes, and a fence from falling. */
static void
the_schema_keeps_it(void **state)
{
	struct scratch s;
	struct peer p;
	int64_t fence;

	(void)state;
	scratch_make(&s, HOME_BOX);
	scratch_open(&s, ROLE_WORKER);
	assert_int_equal(lease_take(s.db, "ours", LONG_MS, 0, &fence), 0);
	peer_start(&p, &s, "hold", LONG_MS);
	peer_says(&p);
	scratch_refused(&s, "lease.held",
	    "UPDATE lease SET fence = fence + 1, process_id ="
	    " (SELECT process_id FROM lease WHERE name = 'ours') WHERE name = 'toy'");
	peer_kill(&p);
	scratch_refused(&s, "lease.fence",
	    "UPDATE lease SET process_id ="
	    " (SELECT process_id FROM lease WHERE name = 'ours') WHERE name = 'toy'");
	scratch_refused(&s, "lease.fence", "UPDATE lease SET fence = 0 WHERE name = 'toy'");
	scratch_refused(&s, "lease.kept", "DELETE FROM lease");
	scratch_drop(&s);
}

/*
 * LU-20: a holder that is stopped while its lease runs out finds, when it goes on, that its next
 * fenced write is refused, and the new holder's is not.
 */
static void
suspended_holder(void **state)
{
	struct scratch s;
	struct peer p;
	int64_t fence, before;

	(void)state;
	scratch_make(&s, HOME_BOX);
	peer_start(&p, &s, "write", LONG_MS);
	assert_string_equal(peer_says(&p), "0 1");
	assert_int_equal(write(p.in, "w", 1), 1);
	assert_string_equal(peer_says(&p), "0 written");
	before = scratch_value(&s, "SELECT value FROM setting WHERE name = 'op.live'");
	kill(p.pid, SIGSTOP);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, 0, &fence), LEASE_BUSY);
	clock_fix(clock_now() + LONG_MS + 1);
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, 0, &fence), 0);
	assert_int_equal(fence, 2);
	kill(p.pid, SIGCONT);
	assert_int_equal(write(p.in, "w", 1), 1);
	assert_string_equal(peer_says(&p), "-1 lease.fence");
	assert_int_equal(peer_ends(&p), 0);
	assert_int_equal(
	    scratch_value(&s, "SELECT value FROM setting WHERE name = 'op.live'"), before);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(lease_check(s.db, "toy", fence), 0);
	assert_int_equal(store_commit(s.db), 0);
	scratch_drop(&s);
}

/*
 * LU-18: a clock set back keeps the lease where it is, and the dead still lose it at once.  Set
 * forward it may end the lease early, but then the fence has grown: never two that may write.
 */
static void
clock_jumps(void **state)
{
	struct scratch s;
	struct peer p;
	int64_t fence, now = clock_now();

	(void)state;
	scratch_make(&s, HOME_BOX);
	peer_start(&p, &s, "write", LONG_MS);
	peer_says(&p);
	scratch_open(&s, ROLE_WORKER);
	clock_fix(now - LONG_MS);
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, 0, &fence), LEASE_BUSY);
	clock_fix(now + DAY_MS);
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, 0, &fence), 0);
	assert_int_equal(write(p.in, "w", 1), 1);
	assert_string_equal(peer_says(&p), "-1 lease.fence");
	assert_int_equal(peer_ends(&p), 0);
	assert_int_equal(lease_release(s.db, "toy", fence), 0);
	clock_fix(-1);
	peer_start(&p, &s, "hold", LONG_MS);
	peer_says(&p);
	peer_kill(&p);
	clock_fix(now - DAY_MS);
	assert_int_equal(lease_take(s.db, "toy", LONG_MS, 0, &fence), 0);
	scratch_drop(&s);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(life_of_a_lease),
	    cmocka_unit_test(busy_names_the_holder),
	    cmocka_unit_test(not_twice_by_one_process),
	    cmocka_unit_test(wait_is_bounded),
	    cmocka_unit_test(death_wakes_the_waiter),
	    cmocka_unit_test(release_wakes_the_waiter),
	    cmocka_unit_test(never_two_holders),
	    cmocka_unit_test(others_cannot_free),
	    cmocka_unit_test(dead_holders),
	    cmocka_unit_test(the_schema_keeps_it),
	    cmocka_unit_test(suspended_holder),
	    cmocka_unit_test(clock_jumps),
	};

	if (argc == 7 && strcmp(argv[1], "peer") == 0)
		return peer_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
