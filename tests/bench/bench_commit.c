/*
 * bench_commit.c: what a decision costs: an authorised run against a bare INSERT in plain SQLite.
 *
 * Decisions are taken as the net actor takes them: by its committer, with as many asks in flight as
 * may be live, each batch of them in one commit.  The peer's loop commits each row by itself, with
 * the same settings.  What one decision costs that nobody else asks beside is shown too.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/store/committer.h"
#include "tests/scratch.h"

#define COMMITS 128 /* of one round: no more are live at once than twice what a box allows */
#define ROUNDS  15
#define FLIGHT  64 /* the setting op.live */
#define WAKES   301

/* As the lane says it, with a nonce as a Host makes it. */
static const char RUN[] = "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
			  " VALUES (1, 'observe:logins', '[]', nonce(),"
			  "         (SELECT max(id) FROM grant), now_ms())";

static uintptr_t heap_begins;

static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* What the workers of one round share: they begin together, and the clock stops with the last
 * commit. */
struct round {
	int ready, go; /* pipes: a byte from each worker, then the end of the other */
	double ended[4];
};

typedef void worker(const struct scratch *s, int n, bool soft, const struct round *round);

/* Ready; wait until all are. */
static void
line_up(const struct round *round)
{
	char c;

	if (write(round->ready, "r", 1) != 1 || read(round->go, &c, 1) != 0)
		exit(1);
}

static void
decide_one(struct store *db, bool soft)
{
	if ((soft ? store_begin_soft(db) : store_begin(db)) != 0 ||
	    stmt_run(store_sql(db, RUN)) != 0 || store_commit(db) != 0) {
		fprintf(stderr, "%s: %s\n", store_refusal(db)->code, store_refusal(db)->why);
		exit(1);
	}
}

/* Our side, alone: ${n} decisions, each a transaction of its own. */
static void
decide_alone(const struct scratch *s, int n, bool soft, const struct round *round)
{
	struct refusal r = {0};
	struct store *db = store_open(&s->home, ROLE_NET, &s->keys, &r);

	if (db == NULL)
		exit(1);
	store_acting(db, "host:laptop");
	decide_one(db, soft); /* a daemon makes the statement once a day, not once a decision */
	line_up(round);
	while (n-- > 0)
		decide_one(db, soft);
}

/*
 * Our side, in the batches that the committer makes of as many asks in flight.  The committer
 * itself knows no other durability than FULL: with this the peer's NORMAL is met with the same.
 */
static void
decide_batches(const struct scratch *s, int n, bool soft, const struct round *round)
{
	int flight = n / 2 < FLIGHT ? n / 2 : FLIGHT, i;
	struct refusal r = {0};
	struct store *db = store_open(&s->home, ROLE_NET, &s->keys, &r);

	if (db == NULL)
		exit(1);
	store_acting(db, "host:laptop");
	decide_one(db, soft);
	line_up(round);
	for (; n > 0; n -= flight) {
		if ((soft ? store_begin_soft(db) : store_begin(db)) != 0)
			exit(1);
		for (i = 0; i < flight && i < n; i++)
			if (stmt_run(store_sql(db, RUN)) != 0)
				exit(1);
		if (store_commit(db) != 0)
			exit(1);
	}
}

/* Askers that share ${left} asks, each with one in flight. */
struct crowd {
	struct loop *loop;
	struct committer *committer;
	int left, told, goal;
};

struct asker {
	struct commit_job job; /* first: the committer knows only this */
	struct crowd *crowd;
};

static int
asker_run(struct store *db, struct commit_job *job)
{
	(void)job;
	return stmt_run(store_sql(db, RUN));
}

static void
asker_done(struct commit_job *job)
{
	struct crowd *crowd = ((struct asker *)job)->crowd;

	if (job->result != 0) {
		fprintf(stderr, "%s: %s\n", job->refusal.code, job->refusal.why);
		exit(1);
	}
	if (crowd->left > 0) {
		crowd->left--;
		committer_submit(crowd->committer, job);
	}
	if (++crowd->told == crowd->goal)
		loop_stop(crowd->loop);
}

/* Let ${n} askers ask until nothing is left. */
static void
ask_on(struct crowd *crowd, struct asker *askers, int n)
{
	int i;

	crowd->told = 0;
	crowd->goal = crowd->left + n;
	for (i = 0; i < n; i++)
		committer_submit(crowd->committer, &askers[i].job);
	if (loop_run(crowd->loop) != 0)
		exit(1);
}

/* Our side, as the daemon does it. */
static void
decide(const struct scratch *s, int n, bool soft, const struct round *round)
{
	struct refusal r = {0};
	struct crowd crowd = {.loop = loop_new()};
	struct asker askers[FLIGHT];
	int flight = n / 2 < FLIGHT ? n / 2 : FLIGHT, i;

	(void)soft;
	crowd.committer =
	    committer_start(&s->home, ROLE_NET, &s->keys, "host:laptop", crowd.loop, &r);
	if (crowd.committer == NULL)
		exit(1);
	for (i = 0; i < flight; i++)
		askers[i] = (struct asker){
		    .job = {.settle = asker_run, .run = asker_run, .done = asker_done},
		    .crowd = &crowd};
	ask_on(&crowd, askers, 1);
	line_up(round);
	crowd.left = n - flight;
	ask_on(&crowd, askers, flight);
}

static sqlite3 *
bare_open(const struct scratch *s)
{
	char path[128];
	sqlite3 *db;

	snprintf(path, sizeof(path), "%s/bare.db", s->dir);
	if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_busy_timeout(db, 60000) != SQLITE_OK ||
	    sqlite3_exec(db,
		"PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
		"PRAGMA secure_delete = ON; PRAGMA cell_size_check = ON;"
		"CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)",
		NULL, NULL, NULL) != SQLITE_OK)
		exit(1);
	sqlite3_wal_autocheckpoint(db, 8000); /* as ours */
	return db;
}

/* The peer: the same number of bare rows, in SQLite's log with the same durability. */
static void
insert(const struct scratch *s, int n, bool soft, const struct round *round)
{
	sqlite3 *db = bare_open(s);
	sqlite3_stmt *q;

	if (sqlite3_exec(db, soft ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL",
		NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(db, "INSERT INTO bare (a, b) VALUES (1, 'observe:logins')", -1, &q,
		NULL) != SQLITE_OK)
		exit(1);
	line_up(round);
	while (n-- > 0)
		if (sqlite3_step(q) != SQLITE_DONE || sqlite3_reset(q) != SQLITE_OK)
			exit(1);
}

/*
 * The heap is the parent's until it is written to, page by page, for more than ten microseconds
 * each on a virtual machine.  No process of a daemon is made by such a fork: copy it at once.
 */
static void
heap_own(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = heap_begins / page * page;

	if (madvise((void *)from, (uintptr_t)sbrk(0) - from, MADV_POPULATE_WRITE) != 0)
		exit(1);
}

/* Commits a second of ${processes} that share COMMITS, from when all are ready to the last commit.
 */
static double
rate(const struct scratch *s, void (*work)(const struct scratch *, int, bool, const struct round *),
    int processes, bool soft)
{
	struct round *round =
	    mmap(NULL, sizeof(*round), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int i, status, ready[2], go[2];
	double began, ended = 0;
	char c;

	if (round == MAP_FAILED || pipe(ready) != 0 || pipe(go) != 0)
		exit(1);
	round->ready = ready[1];
	round->go = go[0];
	for (i = 0; i < processes; i++)
		if (fork() == 0) {
			close(go[1]);
			heap_own();
			work(s, COMMITS / processes, soft, round);
			round->ended[i] = seconds();
			_exit(0);
		}
	close(ready[1]);
	for (i = 0; i < processes; i++)
		if (read(ready[0], &c, 1) != 1)
			exit(1);
	began = seconds();
	close(go[1]);
	for (i = 0; i < processes; i++)
		if (wait(&status) == -1 || status != 0)
			exit(1);
	for (i = 0; i < processes; i++)
		ended = round->ended[i] > ended ? round->ended[i] : ended;
	close(ready[0]);
	close(go[0]);
	munmap(round, sizeof(*round));
	return COMMITS / (ended - began);
}

static int
by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double
median(double *v, size_t n)
{
	qsort(v, n, sizeof(v[0]), by_size);
	return v[n / 2];
}

/* The daemon's other actors hold the database open, so that its log is written over, not made anew.
 */
static void
hold_open(const struct scratch *s)
{
	struct refusal r = {0};
	int until[2];
	sqlite3 *db;

	if (pipe(until) != 0)
		exit(1);
	if (fork() != 0) {
		close(until[0]); /* the other end stays open as long as this process does */
		return;
	}
	close(until[1]);
	db = bare_open(s);
	if (store_open(&s->home, ROLE_READER, NULL, &r) == NULL ||
	    sqlite3_exec(db, "SELECT * FROM bare", NULL, NULL, NULL) != SQLITE_OK)
		_exit(1);
	_exit(read(until[0], &until[1], 1) == 0 ? 0 : 1);
}

/*
 * As a day leaves it: earlier runs have ended, the system log has its lines, a grant with its uses,
 * the log folded into the database.
 */
static void
fresh(struct scratch *s)
{
	sqlite3 *bare = bare_open(s);

	if (scratch_sql(s, "UPDATE op_run SET state = 'cancelled', finished_at = now_ms()"
			   " WHERE state = 'queued';"
			   "UPDATE audit_sink SET sent = (SELECT max(seq) FROM audit)") != 0)
		exit(1);
	scratch_grant(s, "observe:logins", "[]", COMMITS + WAKES, 3600000);
	sqlite3_wal_checkpoint(store_handle(s->db), NULL);
	sqlite3_wal_checkpoint(bare, NULL);
	sqlite3_close(bare);
	store_close(s->db); /* none is carried over a fork */
	s->db = NULL;
}

/* In turns, so that both sides see the same disk; the median of the rounds.  No target: 0. */
static void
compare(struct scratch *s, const char *name, worker *how, int processes, bool soft, double target)
{
	double ours[ROUNDS], peer[ROUNDS], a, b;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		fresh(s);
		ours[i] = rate(s, how, processes, soft);
		peer[i] = rate(s, insert, processes, soft);
	}
	a = median(ours, ROUNDS);
	b = median(peer, ROUNDS);
	printf("%s\t%.0f/s\t%.0f/s\t%.2f\t", name, a, b, b / a);
	printf(target > 0 ? "<= %.1f\n" : "-\n", target);
}

/* Commit once for each byte of ${orders}, and note when that was done. */
static void
ringer(const struct scratch *s, int orders, double *at)
{
	struct refusal r = {0};
	struct store *db = store_open(&s->home, ROLE_NET, &s->keys, &r);
	char order;

	while (db != NULL && read(orders, &order, 1) == 1) {
		if (store_begin(db) != 0 || stmt_run(store_sql(db, RUN)) != 0)
			_exit(1);
		/* The ring is inside: what is measured is from before it to the row. */
		*at = seconds();
		if (store_commit(db) != 0)
			_exit(1);
	}
	_exit(0);
}

/* From the start of a durable commit in one process to its row in another. */
static void
wake(struct scratch *s)
{
	double *at =
	    mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct pollfd p = {.events = POLLIN};
	struct refusal r = {0};
	struct store *watch;
	double took[WAKES];
	int i, orders[2];

	fresh(s);
	if (at == MAP_FAILED || pipe(orders) != 0)
		exit(1);
	if (fork() == 0) {
		close(orders[1]);
		ringer(s, orders[0], at);
	}
	close(orders[0]);
	if ((watch = store_open(&s->home, ROLE_READER, NULL, &r)) == NULL)
		exit(1);
	p.fd = store_bell(watch);
	store_changed(watch);
	for (i = 0; i < WAKES; i++) {
		store_bell_quiet(watch);
		if (write(orders[1], "c", 1) != 1 || poll(&p, 1, 5000) != 1 ||
		    !store_changed(watch) ||
		    stmt_value(store_sql(watch, "SELECT max(id) FROM op_run"), -1) < 1)
			exit(1);
		took[i] = (seconds() - *at) * 1000;
	}
	close(orders[1]);
	wait(NULL);
	store_close(watch);
	printf("commit FULL to reader awake, median\t%.2f ms\t-\t-\t< 1 ms\n", median(took, WAKES));
}

int
main(void)
{
	struct scratch s;

	heap_begins = (uintptr_t)sbrk(0);
	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	if (scratch_sql(&s, "UPDATE setting SET value = 1000"
			    " WHERE name IN ('op.live', 'op.live_per_host')") != 0)
		return 1;
	fresh(&s);
	hold_open(&s);
	compare(&s, "decisions FULL, peer FULL, 1 process", decide, 1, false, 2);
	compare(&s, "decisions FULL, peer FULL, 4 processes", decide, 4, false, 2);
	compare(&s, "decisions NORMAL, peer NORMAL, 1 process", decide_batches, 1, true, 4);
	compare(&s, "decisions NORMAL, peer NORMAL, 4 processes", decide_batches, 4, true, 4);
	compare(&s, "  decisions FULL, peer NORMAL, 1 process", decide, 1, true, 0);
	compare(&s, "  decisions FULL, peer NORMAL, 4 processes", decide, 4, true, 0);
	compare(&s, "  one at a time FULL, peer FULL, 1 process", decide_alone, 1, false, 0);
	compare(&s, "  one at a time FULL, peer FULL, 4 processes", decide_alone, 4, false, 0);
	compare(&s, "  one at a time NORMAL, peer NORMAL, 1 process", decide_alone, 1, true, 0);
	compare(&s, "  one at a time NORMAL, peer NORMAL, 4 processes", decide_alone, 4, true, 0);
	wake(&s);
	scratch_drop(&s);
	return 0;
}
