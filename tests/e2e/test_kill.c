/* test_kill.c: kill -9, again and again, under traffic: nothing is half, nothing is twice, nothing
 * lies. */
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

#include "tests/driver.h"
#include "tests/slower.h"

#define CLIENTS     4
#define ASKS_MAX    4096
#define KEPT        1024
#define KILLS       (200 / SLOWER)
#define BITS        16
#define QUESTION_AT 20 /* a question to the person every so many kills */

static struct driver d;
static struct said said;
static char tree[128];

/* Every ask that was made, with what its client saw. */
static struct ask {
	int code; /* -1: not yet */
	char out[KEPT];
} asks[ASKS_MAX];
static int asked;

static struct {
	struct job job;
	int ask;
} clients[CLIENTS];

static bool starting[2];

/* The same folder for the box, but told apart in the Host's rows. */
static const char *
spelt(int ask, char out[256])
{
	int i;

	strcpy(out, tree);
	for (i = 0; i < BITS; i++)
		strcat(out, (ask >> i & 1) != 0 ? "/." : "//");
	return out;
}

static void
client_ask(int i)
{
	char path[256];
	const char *const words[] = {
	    "on", d.box, "observe:folders", spelt(asked, path), "1", "--json", NULL};

	if (asked == ASKS_MAX)
		return;
	asks[asked].code = -1;
	clients[i].ask = asked++;
	driver_start(&clients[i].job, NULL, words);
}

static void
client_end(int i)
{
	struct ask *ask = &asks[clients[i].ask];

	driver_finish(&clients[i].job, &said);
	ask->code = said.code;
	snprintf(ask->out, sizeof(ask->out), "%.1000s", said.out);
}

/* Let everybody who has an answer ask again. */
static void
traffic(void)
{
	int i;

	for (i = 0; i < CLIENTS; i++) {
		if (clients[i].job.pid != 0 && driver_finished(&clients[i].job))
			client_end(i);
		if (clients[i].job.pid == 0)
			client_ask(i);
	}
}

static void
serve_all(void)
{
	int side;

	for (side = 0; side < 2; side++)
		if (starting[side]) {
			driver_serve_wait(&d, side);
			starting[side] = false;
		}
}

/* Kill one of them, chosen by chance.  Return its name, or NULL where it was not there just now. */
static const char *
kill_one(void)
{
	static const struct {
		enum driver_side side;
		const char *actor;
	} victims[] = {{DRIVER_BOX, "supervisor"}, {DRIVER_BOX, "net"}, {DRIVER_BOX, "worker"},
	    {DRIVER_BOX, "keeper"}, {DRIVER_BOX, "runner"}, {DRIVER_HOST, "supervisor"},
	    {DRIVER_HOST, "net"}, {DRIVER_HOST, "link"}};
	size_t i = (size_t)(random() % (long)(sizeof(victims) / sizeof(victims[0])));
	enum driver_side side = victims[i].side;
	pid_t pid;

	if (strcmp(victims[i].actor, "supervisor") == 0) {
		driver_end(&d, side, SIGKILL);
		driver_serve_begin(&d, side);
		starting[side] = true;
		return victims[i].actor;
	}
	pid = strcmp(victims[i].actor, "runner") == 0 ? driver_runner(&d)
						      : driver_actor(&d, side, victims[i].actor);
	if (pid == 0 || kill(pid, SIGKILL) != 0)
		return NULL;
	return victims[i].actor;
}

/* What must hold at any moment at which both serve. */
static void
holds_now(const char *killed)
{
	int64_t open, unpaid, over;

	open = driver_value(&d, DRIVER_BOX,
	    "SELECT count(*) FROM op_run WHERE finished_at IS NULL AND queued_at"
	    " < (SELECT max(started_at) FROM instance)");
	unpaid = driver_value(&d, DRIVER_BOX,
	    "SELECT count(*) FROM op_run WHERE id NOT IN (SELECT op_run_id FROM grant_use)");
	over = driver_value(&d, DRIVER_BOX,
	    "SELECT count(*) FROM grant AS g WHERE uses"
	    " < (SELECT count(*) FROM grant_use WHERE grant_id = g.id)");
	if (open + unpaid + over != 0)
		fail_msg("after %s: %d open, %d unpaid, %d over their uses", killed, (int)open,
		    (int)unpaid, (int)over);
}

/* Now and then somebody gets an answer before the next blow. */
static void
nap(void)
{
	struct timespec ts = {.tv_nsec = random() % 40000000};
	int i = (int)(random() % (2 * CLIENTS));

	serve_all();
	while (i < CLIENTS && clients[i].job.pid != 0 && !driver_finished(&clients[i].job))
		driver_pause();
	nanosleep(&ts, NULL);
}

/* A question, put and answered while everything falls: yes by signature, or no. */
static void
question(bool yes)
{
	char command[512], number[24];
	int code;

	serve_all();
	code = driver_run(
	    &said, NULL, "on", d.box, "observe:folders", tree, yes ? "2" : "3", "--anew", NULL);
	if (code != 77) /* somebody died under it */
		return;
	snprintf(number, sizeof(number), "%lld", (long long)driver_question(&d));
	kill_one();
	if (!yes) {
		driver_does(&said, NULL, "deny", number, NULL);
		return;
	}
	snprintf(command, sizeof(command),
	    "cd %s && rm -f t t.sig && $BASTION_AT approvals show %s --bytes > t &&"
	    " ssh-keygen -q -Y sign -n bastion -f me t 2>/dev/null",
	    d.dir, number);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "%s/t.sig", d.dir);
	driver_does(&said, NULL, "approve", number, "--signature", command, NULL);
}

static int
setting_up(void **state)
{
	static const char *const settings[][2] = {
	    {"actor.backoff_ms", "1"}, {"actor.backoff_cap_ms", "20"}, {"factor.steps", "10"}};
	char path[PATH_MAX], key[128];
	size_t i;

	(void)state;
	driver_first_day(&d);
	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		driver_does(&said, NULL, "settings", "set", settings[i][0], settings[i][1], NULL);
		driver_does(
		    &said, NULL, "settings", "set", settings[i][0], settings[i][1], "--host", NULL);
	}
	snprintf(tree, sizeof(tree), "%s/tree", d.dir);
	assert_int_equal(mkdir(tree, 0700), 0);
	assert_non_null(
	    realpath(getenv("BASTION") != NULL ? getenv("BASTION") : "build/bastion", path));
	setenv("BASTION_AT", path, 1);
	snprintf(key, sizeof(key), "ssh-keygen -q -t ed25519 -N '' -C me -f %s/me", d.dir);
	assert_int_equal(system(key), 0);
	snprintf(key, sizeof(key), "%s/me.pub", d.dir);
	driver_does(&said, NULL, "factor", "add", "ssh", key, NULL);
	driver_grant(&d, "observe:folders", tree, "1", "1000", "7d");
	driver_grant(&d, "observe:folders", tree, "1", "1000", "7d");
	driver_grant(&d, "observe:folders", tree, "1", "1000", "7d");
	return 0;
}

static int
leaving(void **state)
{
	(void)state;
	driver_drop(&d);
	return 0;
}

/*
 * The end: every word that was given is compared.
 */

static const char FRAMES_OF_CALL[] =
    "(SELECT group_concat(frame, char(10)) FROM (SELECT frame FROM call_output WHERE call_id = c.id"
    " ORDER BY seq))";
static const char FRAMES_OF_RUN[] =
    "(SELECT group_concat(frame, char(10)) FROM (SELECT frame FROM box.op_output WHERE op_run_id = r.id"
    " ORDER BY seq))";

static sqlite3 *
both(void)
{
	char path[128], sql[256];
	sqlite3 *db;

	snprintf(path, sizeof(path), "%s/bastion.db", d.state[DRIVER_HOST]);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	snprintf(sql, sizeof(sql), "ATTACH '%s/bastion.db' AS box", d.state[DRIVER_BOX]);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	return db;
}

/* What the Host was told is what the box did. */
static void
both_ends_agree(sqlite3 *db)
{
	char sql[2048];
	sqlite3_stmt *q;

	snprintf(sql, sizeof(sql),
	    "SELECT c.id, c.state, c.exit_code, r.state FROM call AS c"
	    " LEFT JOIN box.op_run AS r ON r.nonce = c.nonce WHERE c.state = 'done' AND CASE"
	    " WHEN c.exit_code = 0 THEN r.state IS NOT 'done' OR %s IS NOT %s"
	    " ELSE r.state IS NULL OR r.state NOT IN ('failed', 'cancelled', 'lost') END",
	    FRAMES_OF_CALL, FRAMES_OF_RUN);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
	if (sqlite3_step(q) == SQLITE_ROW)
		fail_msg("call %d is %s (exit %d), but its run is %s", sqlite3_column_int(q, 0),
		    (const char *)sqlite3_column_text(q, 1), sqlite3_column_int(q, 2),
		    (const char *)sqlite3_column_text(q, 3));
	sqlite3_finalize(q);
}

/* What a client saw as complete is in both databases, word for word.  Return whether it saw that.
 */
static int
client_saw_the_truth(sqlite3 *db, int i)
{
	char sql[2048], path[256], whole[KEPT];
	sqlite3_stmt *q;

	if (asks[i].code != 0)
		return 0;
	snprintf(sql, sizeof(sql),
	    "SELECT %s FROM call AS c JOIN box.op_run AS r ON r.nonce = c.nonce"
	    " WHERE c.args ->> 0 = ?1 AND c.state = 'done' AND r.state = 'done'",
	    FRAMES_OF_RUN);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
	sqlite3_bind_text(q, 1, spelt(i, path), -1, SQLITE_TRANSIENT);
	if (sqlite3_step(q) != SQLITE_ROW)
		fail_msg("ask %d was answered, but no run of it is done: %s", i, asks[i].out);
	snprintf(
	    whole, sizeof(whole), "%.900s\n{\"x\":0}\n", (const char *)sqlite3_column_text(q, 0));
	assert_string_equal(asks[i].out, whole);
	assert_int_equal(sqlite3_step(q), SQLITE_DONE);
	sqlite3_finalize(q);
	return 1;
}

/* KL-3: 200 kills at random instants (fewer under a sanitizer): what a client saw whole is done in
 * both databases with exactly these frames, whatever else happened is done, failed, cancelled or
 * lost, and once. */
static void
nothing_is_half_after_kills(void **state)
{
	const char *given = getenv("KILLS"), *killed;
	int kills = given != NULL ? atoi(given) : KILLS, n = 0, i, answered = 0;
	unsigned seed =
	    getenv("SEED") != NULL ? (unsigned)atoi(getenv("SEED")) : (unsigned)time(NULL);
	int64_t began = driver_now();
	sqlite3 *db;

	(void)state;
	print_message("SEED=%u KILLS=%d\n", seed, kills);
	srandom(seed);
	while (n < kills) {
		traffic();
		nap();
		serve_all();
		if ((killed = kill_one()) == NULL)
			continue;
		n++;
		traffic();
		if (n % QUESTION_AT == 0)
			question(n % (2 * QUESTION_AT) == 0);
		serve_all();
		holds_now(killed);
	}
	serve_all();
	for (i = 0; i < CLIENTS; i++)
		if (clients[i].job.pid != 0)
			client_end(i);
	driver_until(&d, DRIVER_BOX, 0, "SELECT count(*) FROM live_runs");
	driver_until(&d, DRIVER_HOST, 0, "SELECT count(*) FROM call WHERE finished_at IS NULL");
	holds_now("everything");
	driver_does(&said, NULL, "audit", "verify", NULL);
	driver_does(&said, NULL, "audit", "verify", "--host", NULL);
	driver_end(&d, DRIVER_BOX, SIGTERM);
	driver_end(&d, DRIVER_HOST, SIGTERM);
	db = both();
	both_ends_agree(db);
	for (i = 0; i < asked; i++)
		answered += client_saw_the_truth(db, i);
	sqlite3_close(db);
	print_message("%d kills in %d s; %d asks, %d answered\n", n,
	    (int)((driver_now() - began) / 1000), asked, answered);
	assert_true(answered > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_half_after_kills),
	};

	return cmocka_run_group_tests(tests, setting_up, leaving);
}
