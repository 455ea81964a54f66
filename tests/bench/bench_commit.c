/* bench_commit.c: what a decision costs: an authorised run against a bare INSERT in plain SQLite.
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

#include "tests/scratch.h"

#define COMMITS 400
#define WAKES   301

static const char RUN[] =
    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
    " SELECT 1, 'observe:logins', '[]', lower(hex(randomblob(16))), max(id), now_ms() FROM grant";

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

/* Ready; wait until all are. */
static void
line_up(const struct round *round)
{
	char c;

	if (write(round->ready, "r", 1) != 1 || read(round->go, &c, 1) != 0)
		exit(1);
}

/* Our side: ${n} decisions, each a transaction of its own. */
static void
decide(const struct scratch *s, int n, bool soft, const struct round *round)
{
	struct refusal r = {0};
	struct store *db = store_open(&s->home, ROLE_NET, &s->keys, &r);

	if (db == NULL)
		exit(1);
	store_acting(db, "host:laptop");
	line_up(round);
	while (n-- > 0)
		if ((soft ? store_begin_soft(db) : store_begin(db)) != 0 ||
		    stmt_run(store_sql(db, RUN)) != 0 || store_commit(db) != 0) {
			fprintf(
			    stderr, "%s: %s\n", store_refusal(db)->code, store_refusal(db)->why);
			exit(1);
		}
}

/* The peer: the same number of bare rows, in SQLite's log with the same durability. */
static void
insert(const struct scratch *s, int n, bool soft, const struct round *round)
{
	char path[128];
	sqlite3_stmt *q;
	sqlite3 *db;

	snprintf(path, sizeof(path), "%s/bare.db", s->dir);
	if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_busy_timeout(db, 60000) != SQLITE_OK ||
	    sqlite3_exec(db,
		soft ? "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"
		     : "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
		NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(db, "INSERT INTO bare (a, b) VALUES (1, 'observe:logins')", -1, &q,
		NULL) != SQLITE_OK)
		exit(1);
	sqlite3_wal_autocheckpoint(db, 8000); /* as ours */
	line_up(round);
	while (n-- > 0)
		if (sqlite3_step(q) != SQLITE_DONE || sqlite3_reset(q) != SQLITE_OK)
			exit(1);
}

static int
bare_make(const struct scratch *s)
{
	char path[128];
	sqlite3 *db;
	int rc;

	snprintf(path, sizeof(path), "%s/bare.db", s->dir);
	rc = sqlite3_open(path, &db);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db,
		    "PRAGMA journal_mode = WAL;"
		    "CREATE TABLE bare (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)",
		    NULL, NULL, NULL);
	sqlite3_close(db);
	return rc == SQLITE_OK ? 0 : -1;
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
			work(s, COMMITS / processes, soft, round);
			round->ended[i] = seconds();
			_exit(0);
		}
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
	close(ready[1]);
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

/* As a day leaves it: earlier runs have ended, the system log has its lines, a grant with its uses.
 */
static void
fresh(struct scratch *s)
{
	if (scratch_sql(s,
		"UPDATE op_run SET state = 'cancelled', finished_at = now_ms()"
		" WHERE state = 'queued'; UPDATE audit_sink SET sent = (SELECT max(seq) FROM audit)") !=
	    0)
		exit(1);
	scratch_grant(s, "observe:logins", "[]", COMMITS + WAKES, 3600000);
	store_close(s->db); /* none is carried over a fork */
	s->db = NULL;
}

/* In turns, so that both sides see the same disk; the median of the rounds. */
static void
compare(struct scratch *s, const char *name, int processes, bool soft, double target)
{
	double ours[5], peer[5], a, b;
	int i;

	for (i = 0; i < 5; i++) {
		fresh(s);
		ours[i] = rate(s, decide, processes, soft);
		peer[i] = rate(s, insert, processes, soft);
	}
	a = median(ours, 5);
	b = median(peer, 5);
	printf("%s\t%.0f/s\t%.0f/s\t%.2f\t<= %.1f\n", name, a, b, b / a, target);
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

	scratch_make(&s, HOME_BOX);
	scratch_pair(&s);
	if (scratch_sql(&s, "UPDATE setting SET value = 1000 WHERE name = 'op.live'") != 0 ||
	    bare_make(&s) != 0)
		return 1;
	compare(&s, "decisions FULL, 1 process", 1, false, 2);
	compare(&s, "decisions FULL, 4 processes", 4, false, 2);
	compare(&s, "decisions NORMAL, 1 process", 1, true, 4);
	compare(&s, "decisions NORMAL, 4 processes", 4, true, 4);
	wake(&s);
	scratch_drop(&s);
	return 0;
}
