/*
 * bench_audit.c: what a long audit costs: checking it, against journalctl --verify on as many
 * entries; proving a row of 10 million; inserting behind them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "engine/clock.h"
#include "engine/crypto/sha256.h"
#include "engine/state/audit.h"
#include "engine/state/audit_line.h"
#include "engine/state/audit_proof.h"
#include "tests/scratch.h"

#define ENTRIES 300000   /* that both sides check */
#define LONG    10000000 /* rows of the long audit */
#define PROOFS  201
#define ROUNDS  41
#define INSERTS 1000 /* of a round, in one transaction */
#define BODY \
	"{\"op\":\"observe:folders\",\"exit\":0,\"frames\":%d,\"code\":null,\"why\":\"it ended\"}"

static const char FILL[] = "INSERT INTO audit (seq, at, stream, who, entity, entity_id, action,"
			   " pairing, body, prev, hash) VALUES (?1, ?2, 'op', 'actor:worker',"
			   " 'op_run', ?3, 'done', 'laptop', ?4, ?5, ?6)";

static const char ENTRY[] =
    "INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)"
    " VALUES ('op', 'op_run', :id, 'done', 'laptop', '{\"op\":\"observe:folders\",\"exit\":0}')";

static double
wall(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double
used(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
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

static void
must(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

/* The rows that the triggers would have written, chained here: they take two minutes for as many.
 */
static void
fill_row(sqlite3_stmt *q, int64_t seq, struct audit_line *line, unsigned char head[32])
{
	unsigned char prev[32];
	char id[24], body[128];
	struct audit_text texts[AUDIT_TEXTS] = {{"op", 2}, {"actor:worker", 12}, {"op_run", 6},
	    {id, 0}, {"done", 4}, {"laptop", 6}, {body, 0}};
	int64_t at = 1764432000000 + seq * 3;

	texts[3].len = (size_t)snprintf(id, sizeof(id), "%" PRId64, seq / 3);
	texts[6].len = (size_t)snprintf(body, sizeof(body), BODY, (int)(seq % 7));
	if (audit_line_make(line, seq, at, texts) != 0)
		exit(1);
	memcpy(prev, head, 32);
	sha256_pair(prev, 32, line->text, line->len, head);
	sqlite3_bind_int64(q, 1, seq);
	sqlite3_bind_int64(q, 2, at);
	sqlite3_bind_text(q, 3, id, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 4, body, -1, SQLITE_STATIC);
	sqlite3_bind_blob(q, 5, prev, 32, SQLITE_STATIC);
	sqlite3_bind_blob(q, 6, head, 32, SQLITE_STATIC);
	if (sqlite3_step(q) != SQLITE_DONE || sqlite3_reset(q) != SQLITE_OK)
		exit(1);
}

/* An audit of ${rows} rows on the real schema, sealed, with its tree. */
static void
audit_make(struct scratch *s, int64_t rows)
{
	struct audit_line line = {NULL, 0, 0};
	unsigned char head[32];
	char path[PATH_MAX];
	struct stmt *h;
	sqlite3_stmt *q;
	sqlite3 *db;
	int64_t seq;

	scratch_make(s, HOME_BOX);
	if (scratch_sql(s, "UPDATE setting SET value = 1 WHERE name = 'audit.outbox'") != 0)
		fail_msg("%s", s->error);
	h = store_sql(s->db, "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1");
	if (h == NULL || stmt_step(h) != 1)
		exit(1);
	seq = stmt_get_int(h, 0);
	memcpy(head, stmt_get_blob(h, 1, 32), 32);
	stmt_done(h);
	store_close(s->db);
	s->db = NULL;
	home_path(&s->home, "bastion.db", path);
	sha256_hurry();
	if (sqlite3_open(path, &db) != SQLITE_OK)
		exit(1);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	must(db,
	    "PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
	    "PRAGMA cache_size = -400000; BEGIN");
	if (sqlite3_prepare_v2(db, FILL, -1, &q, NULL) != SQLITE_OK)
		fail_msg("%s", sqlite3_errmsg(db));
	while (seq < rows)
		fill_row(q, ++seq, &line, head);
	sqlite3_finalize(q);
	must(db, "UPDATE audit_sink SET sent = (SELECT max(seq) FROM audit); COMMIT;"
		 "PRAGMA journal_mode = WAL");
	sqlite3_close(db);
	free(line.text);
	scratch_open(s, ROLE_KEEPER);
	if (audit_seal(s->db, "request") != 1)
		fail_msg("%s", store_refusal(s->db)->why);
}

/* Rows a second of processor time, all threads. */
static double
check(struct scratch *s)
{
	struct audit_report report;
	double began, best = 0, rate;
	int i;

	scratch_open(s, ROLE_READER);
	for (i = 0; i < 5; i++) {
		began = used(RUSAGE_SELF);
		if (audit_verify(s->db, s->keys.identity, NULL, &report) != 0)
			fail_msg("%s", report.what);
		rate = (double)report.rows / (used(RUSAGE_SELF) - began);
		best = rate > best ? rate : best;
	}
	return best;
}

/* As many entries with the same text in a journal file. */
static int
journal_make(const char *dir)
{
	char command[256];
	FILE *f;
	int i;

	snprintf(command, sizeof(command),
	    "/lib/systemd/systemd-journal-remote --output=%s/peer.journal - > /dev/null 2>&1", dir);
	if (system("test -x /lib/systemd/systemd-journal-remote") != 0 ||
	    (f = popen(command, "we")) == NULL)
		return -1;
	for (i = 1; i <= ENTRIES; i++)
		fprintf(f,
		    "__REALTIME_TIMESTAMP=%" PRIu64 "\n__MONOTONIC_TIMESTAMP=%d\n"
		    "_BOOT_ID=0123456789abcdef0123456789abcdef\nSYSLOG_IDENTIFIER=bastion\n"
		    "STREAM=op\nWHO=actor:worker\nENTITY=op_run\nENTITY_ID=%d\nACTION=done\n"
		    "PAIRING=laptop\nMESSAGE=" BODY "\n\n",
		    (uint64_t)1764432000000000 + (uint64_t)i * 3000, i * 3000, i / 3, i % 7);
	return pclose(f) == 0 ? 0 : -1;
}

/* Entries a second of processor time; 0 where there is no journal to check. */
static double
check_journal(const char *dir)
{
	char command[256];
	double began, best = 0, rate;
	int i;

	if (journal_make(dir) != 0)
		return 0;
	snprintf(command, sizeof(command),
	    "journalctl --verify --file=%s/peer.journal > /dev/null 2>&1", dir);
	for (i = 0; i < 3; i++) {
		began = used(RUSAGE_CHILDREN);
		if (system(command) != 0)
			return 0;
		rate = ENTRIES / (used(RUSAGE_CHILDREN) - began);
		best = rate > best ? rate : best;
	}
	return best;
}

/* Milliseconds for one proof, from the open database to its text. */
static double
prove(struct scratch *s)
{
	double took[PROOFS], began;
	FILE *out = fopen("/dev/null", "we");
	int i;

	scratch_open(s, ROLE_READER);
	if (out == NULL)
		exit(1);
	for (i = 0; i < PROOFS; i++) {
		began = wall();
		if (audit_prove(
			s->db, s->keys.identity, 1 + (int64_t)i * (LONG - 1) / PROOFS, out) != 0)
			fail_msg("%s", store_refusal(s->db)->why);
		took[i] = (wall() - began) * 1000;
	}
	fclose(out);
	return median(took, PROOFS);
}

/* Microseconds for one entry, through the triggers, in a transaction of many. */
static double
insert(struct scratch *s)
{
	static int64_t id = 20000000;
	double began = wall();
	struct stmt *q;
	int i;

	if (store_begin_soft(s->db) != 0)
		exit(1);
	for (i = 0; i < INSERTS; i++) {
		if ((q = store_sql(s->db, ENTRY)) == NULL)
			exit(1);
		stmt_int(q, ":id", ++id);
		if (stmt_run(q) != 0)
			fail_msg("%s", store_refusal(s->db)->why);
	}
	if (store_commit(s->db) != 0)
		exit(1);
	return (wall() - began) * 1e6 / INSERTS;
}

/* In turns, so that both see the same machine; the median of the rounds' ratios. */
static double
insert_ratio(struct scratch *empty, struct scratch *filled, double *a, double *b)
{
	double into_empty[ROUNDS], into_filled[ROUNDS], ratio[ROUNDS];
	int i;

	scratch_open(empty, ROLE_MIGRATE);
	scratch_open(filled, ROLE_MIGRATE);
	for (i = -2; i < ROUNDS; i++) { /* the first two warm up */
		*a = insert(empty);
		*b = insert(filled);
		if (i < 0)
			continue;
		into_empty[i] = *a;
		into_filled[i] = *b;
		ratio[i] = *b / *a;
	}
	*a = median(into_empty, ROUNDS);
	*b = median(into_filled, ROUNDS);
	return median(ratio, ROUNDS);
}

static void
remove_all(struct scratch *s)
{
	char command[128];

	store_close(s->db);
	snprintf(command, sizeof(command), "rm -rf %s", s->dir);
	if (system(command) != 0)
		exit(1);
}

static void
measure(void **state)
{
	struct scratch small, filled;
	double ours, peer, proof, a, b, ratio;

	(void)state;
	audit_make(&small, ENTRIES);
	ours = check(&small);
	peer = check_journal(small.dir);
	if (peer > 0)
		printf(
		    "audit rows checked, a second of one core\t%.0f/s\t%.0f/s\t%.2f\t>= 1000000/s\n",
		    ours, peer, peer / ours);
	else
		printf(
		    "audit rows checked, a second of one core\t%.0f/s\tno journal\t-\t>= 1000000/s\n",
		    ours);
	remove_all(&small);
	scratch_make(&small, HOME_BOX);
	if (scratch_sql(&small, "UPDATE setting SET value = 1 WHERE name = 'audit.outbox'") != 0)
		fail_msg("%s", small.error);
	audit_make(&filled, LONG);
	proof = prove(&filled);
	printf("proof of one row of 10 million\t%.2f ms\t-\t-\t< 5 ms\n", proof);
	ratio = insert_ratio(&small, &filled, &a, &b);
	printf("entry behind 10 million, beside behind none\t%.1f us\t%.1f us\t%.2f\t<= 1.10\n", b,
	    a, ratio);
	remove_all(&small);
	remove_all(&filled);
	assert_true(ours >= 1000000);
	assert_true(proof < 5);
	assert_true(ratio <= 1.10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(measure)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
