/* test_committer.c: decisions in batches: alone in failing, together in being durable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/store/committer.h"
#include "engine/store/gate.h"
#include "tests/scratch.h"

#define JOBS 64

struct ask {
	struct commit_job job; /* first: the committer knows only this */
	const char *sql;
	pthread_t run_in, done_in;
	bool done;
	struct harness *h;
	struct ask *then; /* asked for when this one is done */
};

struct harness {
	struct scratch s;
	struct loop *loop;
	struct committer *c;
	struct ask asks[JOBS];
	int made, told, goal;
	int commits; /* the committer's thread counts, and is done when it is read */
	int gate;
};

static int
count_commit(void *ctx)
{
	++*(int *)ctx;
	return 0;
}

static int
ask_run(struct store *db, struct commit_job *job)
{
	struct ask *ask = (struct ask *)job;

	ask->run_in = pthread_self();
	sqlite3_commit_hook(store_handle(db), count_commit, &ask->h->commits);
	return stmt_run(store_sql(db, ask->sql));
}

static void
ask_done(struct commit_job *job)
{
	struct ask *ask = (struct ask *)job;

	ask->done_in = pthread_self();
	ask->done = true;
	if (ask->then != NULL)
		committer_submit(ask->h->c, &ask->then->job);
	if (++ask->h->told == ask->h->goal)
		loop_stop(ask->h->loop);
}

static struct ask *
ask_for(struct harness *h, const char *sql)
{
	struct ask *ask = &h->asks[h->made++];

	*ask = (struct ask){.job = {.run = ask_run, .done = ask_done}, .sql = sql, .h = h};
	return ask;
}

static void
start(struct harness *h)
{
	struct refusal r = {0};

	memset(h, 0, sizeof(*h));
	scratch_make(&h->s, HOME_BOX);
	assert_non_null(h->loop = loop_new());
	h->c = committer_start(&h->s.home, ROLE_NET, &h->s.keys, "test:committer", h->loop, &r);
	if (h->c == NULL)
		fail_msg("%s: %s", r.code, r.why);
	assert_true((h->gate = home_file(&h->s.home, "bastion.gate", &r)) >= 0);
}

static void
finish(struct harness *h)
{
	committer_stop(h->c);
	loop_free(h->loop);
	close(h->gate);
	scratch_drop(&h->s);
}

/* How far the committer's thread gives way, as nice(2) has it. */
static atomic_int gave_way;

static int
run_and_tell(struct store *db, struct commit_job *job)
{
	atomic_store(&gave_way, getpriority(PRIO_PROCESS, 0));
	return ask_run(db, job);
}

static void
all_told(struct harness *h, int n)
{
	h->goal = h->told + n;
	assert_int_equal(loop_run(h->loop), 0);
	assert_int_equal(committer_pending(h->c), 0);
}

#define GOOD                                                  \
	"INSERT INTO refused (at, surface, asked, code, why)" \
	" VALUES (now_ms(), 'lane', 'x', 'op.unknown', 'y')"
#define BAD                                                                                       \
	"INSERT INTO op_run (pairing_id, op, args, nonce, queued_at) VALUES (1, 'x:y', '[]', ''," \
	" now_ms())"

/* DESIGN §3: what arrives while a commit is in flight shares the next one: one fsync for all. */
static void
a_batch_shares_a_commit(void **state)
{
	struct harness h;
	int i;

	(void)state;
	start(&h);
	/* The commit in flight: the gate is shut under it. */
	assert_int_equal(gate_enter(h.gate, 1000), 0);
	for (i = 0; i < 40; i++)
		committer_submit(h.c, &ask_for(&h, GOOD)->job);
	assert_int_equal(committer_pending(h.c), 40);
	gate_leave(h.gate);
	all_told(&h, 40);
	for (i = 0; i < 40; i++)
		assert_int_equal(h.asks[i].job.result, 0);
	/* The first may have come alone, before the others were there. */
	assert_in_range(h.commits, 1, 2);
	assert_int_equal(scratch_value(&h.s, "SELECT count(*) FROM refused"), 40);
	assert_int_equal(scratch_value(&h.s, "SELECT count(*) FROM audit"
					     " WHERE who = 'test:committer'"),
	    40);
	finish(&h);
}

static int told_at_turn;

static void
on_turn(void *ctx)
{
	told_at_turn = ((struct harness *)ctx)->told;
}

static void
done_posts(struct commit_job *job)
{
	struct harness *h = ((struct ask *)job)->h;

	assert_int_equal(loop_post(h->loop, on_turn, h), 0);
	ask_done(job);
}

/* What the first few of a batch set off goes on before the rest is told of. */
static void
others_have_their_turn(void **state)
{
	struct harness h;
	int i;

	(void)state;
	start(&h);
	assert_int_equal(gate_enter(h.gate, 1000), 0);
	for (i = 0; i < 40; i++)
		committer_submit(h.c, &ask_for(&h, GOOD)->job);
	h.asks[0].job.done = done_posts;
	gate_leave(h.gate);
	all_told(&h, 40);
	assert_in_range(told_at_turn, 1, 20);
	finish(&h);
}

/* DESIGN §3: where others wait for what was decided, a batch is no longer than its commit is worth:
 * the first, before which there was none, is of one. */
static void
a_brisk_one_commits_sooner(void **state)
{
	struct harness h;
	int i;

	(void)state;
	start(&h);
	committer_brisk(h.c);
	assert_int_equal(gate_enter(h.gate, 1000), 0);
	for (i = 0; i < 40; i++) {
		ask_for(&h, i == 20 ? BAD : GOOD)->job.run = run_and_tell;
		committer_submit(h.c, &h.asks[i].job);
	}
	gate_leave(h.gate);
	all_told(&h, 40);
	for (i = 0; i < 40; i++)
		assert_int_equal(h.asks[i].job.result, i == 20 ? -1 : 0);
	assert_in_range(h.commits, 2, 40);
	assert_true(atomic_load(&gave_way) > getpriority(PRIO_PROCESS, 0));
	assert_int_equal(scratch_value(&h.s, "SELECT count(*) FROM refused"), 39);
	finish(&h);
}

/* The first of a batch, which runs until the others were asked for. */
static atomic_bool others_asked;

static int
run_meanwhile(struct store *db, struct commit_job *job)
{
	while (!atomic_load(&others_asked))
		sched_yield();
	return ask_run(db, job);
}

/* What is asked while a batch runs is part of it. */
static void
what_comes_meanwhile_shares_it(void **state)
{
	struct harness h;
	int i;

	(void)state;
	start(&h);
	ask_for(&h, GOOD)->job.run = run_meanwhile;
	committer_submit(h.c, &h.asks[0].job);
	for (i = 1; i < 20; i++)
		committer_submit(h.c, &ask_for(&h, i == 7 ? BAD : GOOD)->job);
	atomic_store(&others_asked, true);
	all_told(&h, 20);
	for (i = 0; i < 20; i++)
		assert_int_equal(h.asks[i].job.result, i == 7 ? -1 : 0);
	assert_int_equal(h.commits, 1);
	assert_int_equal(scratch_value(&h.s, "SELECT count(*) FROM refused"), 19);
	finish(&h);
}

/* A quiet one rings no bell. */
static void
a_quiet_one_rings_no_bell(void **state)
{
	struct harness h;
	struct pollfd bell = {.events = POLLIN};

	(void)state;
	start(&h);
	committer_quiet(h.c);
	assert_true((bell.fd = store_bell(h.s.db)) >= 0);
	committer_submit(h.c, &ask_for(&h, GOOD)->job);
	all_told(&h, 1);
	assert_int_equal(poll(&bell, 1, 0), 0);
	store_ring(h.s.db);
	assert_int_equal(poll(&bell, 1, 0), 1);
	finish(&h);
}

/* A job that is refused undoes itself alone, and says why. */
static void
one_fails_alone(void **state)
{
	struct harness h;
	int i;

	(void)state;
	start(&h);
	assert_int_equal(gate_enter(h.gate, 1000), 0);
	for (i = 0; i < 9; i++)
		committer_submit(h.c, &ask_for(&h, i % 3 == 1 ? BAD : GOOD)->job);
	gate_leave(h.gate);
	all_told(&h, 9);
	for (i = 0; i < 9; i++) {
		assert_int_equal(h.asks[i].job.result, i % 3 == 1 ? -1 : 0);
		if (i % 3 == 1)
			assert_string_equal(h.asks[i].job.refusal.code, "pairing.inactive");
	}
	assert_int_equal(scratch_value(&h.s, "SELECT count(*) FROM refused"), 6);
	finish(&h);
}

/* The job's own statement, and no step around it. */
static int
settle(struct store *db, struct commit_job *job)
{
	return ask_run(db, job);
}

static int
count_refused(struct store *db, struct commit_job *job)
{
	(void)job;
	assert_true(stmt_run(store_sql(db, GOOD)) == 0);
	return refusal_set(store_refusal(db), "op.unknown", "undone with its row");
}

/* What one statement settles needs no step; where it does not, the job runs in one as ever. */
static void
one_statement_settles(void **state)
{
	struct harness h;
	struct ask *ask;
	int i;

	(void)state;
	start(&h);
	assert_int_equal(gate_enter(h.gate, 1000), 0);
	for (i = 0; i < 9; i++) {
		ask = ask_for(&h, i % 3 == 1 ? BAD : GOOD);
		ask->job.settle = settle;
		if (i % 3 == 1)
			ask->job.run = count_refused;
		committer_submit(h.c, &ask->job);
	}
	gate_leave(h.gate);
	all_told(&h, 9);
	for (i = 0; i < 9; i++) {
		assert_int_equal(h.asks[i].job.result, i % 3 == 1 ? -1 : 0);
		if (i % 3 == 1)
			assert_string_equal(h.asks[i].job.refusal.code, "op.unknown");
	}
	/* Once each: what was settled did not run again, and what was undone left nothing. */
	assert_int_equal(scratch_value(&h.s, "SELECT count(*) FROM refused"), 6);
	finish(&h);
}

/* SQLite itself undoes the transaction of this job, as a full disk makes it do. */
static int
undo_all(struct store *db, struct commit_job *job)
{
	(void)job;
	sqlite3_set_authorizer(store_handle(db), NULL, NULL);
	if (sqlite3_exec(store_handle(db), "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
		return 0;
	return refusal_set(store_refusal(db), "store.full", "as SQLite would say");
}

/* Where the batch cannot be made durable none of it was decided, before the failure or behind it.
 */
static void
a_failed_commit_fails_all(void **state)
{
	struct harness h;
	struct ask *ask;
	int i;

	(void)state;
	start(&h);
	assert_int_equal(gate_enter(h.gate, 1000), 0);
	/* The first batch may hold the first job alone: the failing one is in the other. */
	committer_submit(h.c, &ask_for(&h, GOOD)->job);
	for (i = 0; i < 7; i++) {
		ask = ask_for(&h, GOOD);
		if (i == 3)
			ask->job.run = undo_all;
		committer_submit(h.c, &ask->job);
	}
	gate_leave(h.gate);
	all_told(&h, 8);
	for (i = 1; i < 8; i++) {
		assert_int_equal(h.asks[i].job.result, -1);
		assert_string_equal(h.asks[i].job.refusal.code, "store.full");
	}
	assert_int_equal(
	    scratch_value(&h.s, "SELECT count(*) FROM refused"), h.asks[0].job.result == 0 ? 1 : 0);
	/* And the next one is decided as ever. */
	committer_submit(h.c, &ask_for(&h, GOOD)->job);
	all_told(&h, 1);
	assert_int_equal(h.asks[8].job.result, 0);
	finish(&h);
}

/* Jobs run in the committer's thread; whoever asked is told in the loop's. */
static void
done_is_in_the_loop(void **state)
{
	struct harness h;
	int i;

	(void)state;
	start(&h);
	for (i = 0; i < 20; i++) {
		committer_submit(h.c, &ask_for(&h, GOOD)->job);
		all_told(&h, 1);
		assert_true(pthread_equal(h.asks[i].done_in, pthread_self()));
		assert_false(pthread_equal(h.asks[i].run_in, pthread_self()));
	}
	finish(&h);
}

/* Longer than a commit, so that a brisk committer makes a batch of each. */
#define SLOW                                                           \
	"INSERT INTO refused (at, surface, asked, code, why)"          \
	" SELECT now_ms(), 'lane', 'x', 'op.unknown', count(*) FROM (" \
	" WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000) SELECT i FROM n)"

/* Stopping finishes what was asked, what is asked meanwhile too, and that in as many batches as it
 * takes; late mail finds nobody in. */
static void
stop_finishes(void **state)
{
	struct harness h;
	int i;

	(void)state;
	start(&h);
	committer_brisk(h.c);
	for (i = 0; i < 10; i++)
		committer_submit(h.c, &ask_for(&h, GOOD)->job);
	for (i = 0; i < 10; i++)
		h.asks[i].then = ask_for(&h, SLOW);
	committer_stop(h.c);
	h.c = NULL;
	for (i = 0; i < 20; i++) {
		assert_true(h.asks[i].done);
		assert_int_equal(h.asks[i].job.result, 0);
		assert_true(pthread_equal(h.asks[i].done_in, pthread_self()));
	}
	/* The loop goes on, and comes to what was posted before the stop. */
	loop_stop(h.loop);
	assert_int_equal(loop_run(h.loop), 0);
	loop_stop(h.loop);
	assert_int_equal(loop_run(h.loop), 0);
	assert_int_equal(scratch_value(&h.s, "SELECT count(*) FROM refused"), 20);
	committer_stop(NULL);
	finish(&h);
}

/* A committer that cannot open its database says so to who asks, and tries again with the next. */
static void
what_cannot_be_opened_is_said(void **state)
{
	struct harness h;
	struct ask *first, *second;

	(void)state;
	start(&h);
	assert_int_equal(renameat(h.s.home.fd, "bastion.db", h.s.home.fd, "kept"), 0);
	first = ask_for(&h, GOOD);
	committer_submit(h.c, &first->job);
	all_told(&h, 1);
	assert_int_equal(first->job.result, -1);
	assert_string_equal(first->job.refusal.code, "store.missing");
	assert_int_equal(renameat(h.s.home.fd, "kept", h.s.home.fd, "bastion.db"), 0);
	second = ask_for(&h, GOOD);
	committer_submit(h.c, &second->job);
	all_told(&h, 1);
	assert_int_equal(second->job.result, 0);
	assert_int_equal(scratch_value(&h.s, "SELECT count(*) FROM refused"), 1);
	finish(&h);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_batch_shares_a_commit),
	    cmocka_unit_test(others_have_their_turn),
	    cmocka_unit_test(a_brisk_one_commits_sooner),
	    cmocka_unit_test(what_comes_meanwhile_shares_it),
	    cmocka_unit_test(a_quiet_one_rings_no_bell),
	    cmocka_unit_test(one_fails_alone),
	    cmocka_unit_test(one_statement_settles),
	    cmocka_unit_test(a_failed_commit_fails_all),
	    cmocka_unit_test(done_is_in_the_loop),
	    cmocka_unit_test(stop_finishes),
	    cmocka_unit_test(what_cannot_be_opened_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
