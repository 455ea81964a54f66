/* test_keeper.c: the keeper in a loop of its own, woken by the bell as an actor is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/clock.h"
#include "engine/state/beat.h"
#include "engine/state/keeper.h"
#include "engine/state/order.h"
#include "engine/state/outbox.h"
#include "tests/paper.h"
#include "tests/orders.h"
#include "tests/scratch.h"

#define ENTRY "INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body) "
#define LATE  10000 /* ms after which a test gives up */

/* A state, a keeper at work on it, and the system log that it ships to. */
struct bench {
	struct scratch s;
	struct actor_env env;
	char path[96];
	int log; /* -1: there is none */
	int lines;
	const char *sql; /* what is waited for: its value becomes ${want} */
	int64_t want;
};

static struct bench b;

static void
log_open(void)
{
	struct sockaddr_un at;

	memset(&at, 0, sizeof(at));
	at.sun_family = AF_UNIX;
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", b.path);
	b.log = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_not_equal(b.log, -1);
	assert_int_equal(bind(b.log, (const struct sockaddr *)&at, sizeof(at)), 0);
}

static void
log_read(void *ctx, uint32_t events)
{
	char line[65536];

	(void)ctx;
	(void)events;
	while (recv(b.log, line, sizeof(line), 0) > 0)
		b.lines++;
}

static void
look(void)
{
	if (b.sql != NULL && scratch_value(&b.s, b.sql) == b.want)
		loop_stop(b.env.loop);
}

static void
rung(void *ctx, uint32_t events)
{
	(void)ctx;
	(void)events;
	store_bell_quiet(b.env.db);
	actor_keeper.keep(&b.env);
	look();
}

static void
too_late(void *ctx)
{
	(void)ctx;
	fail_msg("waited in vain for %s", b.sql);
}

static void
enough(void *ctx)
{
	(void)ctx;
	loop_stop(b.env.loop);
}

/* Let the keeper work until ${sql} gives ${want}. */
static void
until(const char *sql, int64_t want)
{
	uint64_t late;

	b.sql = sql;
	b.want = want;
	late = loop_after(b.env.loop, LATE, too_late, NULL);
	look();
	assert_int_equal(loop_run(b.env.loop), 0);
	loop_cancel(b.env.loop, late);
	b.sql = NULL;
}

/* Let the keeper work for ${ms}. */
static void
work(int64_t ms)
{
	loop_after(b.env.loop, ms, enough, NULL);
	assert_int_equal(loop_run(b.env.loop), 0);
}

static void
run(const char *sql)
{
	if (scratch_sql(&b.s, sql) != 0)
		fail_msg("%s: %s", sql, b.s.error);
}

static void
start(void)
{
	struct refusal r = {0};
	int bell;

	assert_non_null(b.env.loop = loop_new());
	b.env.home = &b.s.home;
	b.env.keys = b.s.keys;
	b.env.db = store_open(&b.s.home, actor_keeper.role, &b.s.keys, &r);
	assert_non_null(b.env.db);
	store_acting(b.env.db, "actor:keeper");
	assert_int_not_equal(bell = store_bell(b.env.db), -1);
	assert_int_equal(loop_add(b.env.loop, bell, EPOLLIN, rung, NULL), 0);
	assert_int_equal(actor_keeper.start(&b.env, &r), 0);
}

static void
make(enum home_role role)
{
	memset(&b, 0, sizeof(b));
	b.log = -1;
	scratch_make(&b.s, role);
	snprintf(b.path, sizeof(b.path), "%s/log", b.s.dir);
	keeper_log(b.path);
}

static int
make_box(void **state)
{
	(void)state;
	make(HOME_BOX);
	return 0;
}

static int
make_host(void **state)
{
	(void)state;
	make(HOME_HOST);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	if (b.env.ctx != NULL)
		actor_keeper.stop(&b.env);
	loop_free(b.env.loop);
	store_close(b.env.db);
	keeper_log(OUTBOX_LOG);
	if (b.log != -1)
		close(b.log);
	scratch_drop(&b.s);
	return 0;
}

/* A question nobody answers ends at its time, on the keeper's own timer.  The clock stands still
 * until then: a slow machine does not bring the end forward. */
static void
a_question_runs_out(void **state)
{
	int64_t asked = clock_now();

	(void)state;
	clock_fix(asked);
	scratch_pair(&b.s);
	run("INSERT INTO approval (nonce, kind, box_name, pairing_id, host_name, op, args, uses, ttl_ms,"
	    "   asked_at, expires_at)"
	    " SELECT '00000000000000000000000000000001', 'op', 'box-a', 1, 'laptop', 'observe:cert',"
	    "   '[\"443\"]', 1, 60000, now_ms(), now_ms() + 300");
	start();
	work(100);
	assert_int_equal(scratch_value(&b.s, "SELECT state = 'pending' FROM approval"), 1);
	clock_fix(asked + 300);
	until("SELECT count(*) FROM approval WHERE state = 'expired'", 1);
	assert_int_equal(scratch_value(&b.s, "SELECT decided_at >= expires_at FROM approval"), 1);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit WHERE entity = 'approval'"
					     " AND action = 'expired' AND who = 'actor:keeper'"),
	    1);
}

/* A grant that was left over ends at its time; one that is still good stays. */
static void
a_grant_runs_out(void **state)
{
	(void)state;
	scratch_pair(&b.s);
	scratch_grant(&b.s, "observe:cert", "[\"443\"]", 2, 1000);
	scratch_grant(&b.s, "observe:cert", "[\"25\"]", 2, 3600000);
	start();
	until("SELECT count(*) FROM grant WHERE state = 'expired'", 1);
	assert_int_equal(scratch_value(&b.s, "SELECT id FROM grant WHERE state = 'expired'"
					     " AND ended_at >= expires_at"),
	    1);
	assert_int_equal(
	    scratch_value(&b.s, "SELECT count(*) FROM grant WHERE state = 'active'"), 1);
}

/* What ran out while nobody served ends at the start; what comes later is woken for. */
static void
an_invitation_runs_out(void **state)
{
	(void)state;
	run("INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
	    " VALUES ('box-a', randomblob(32), now_ms() - 1000, now_ms() - 1)");
	start();
	until("SELECT count(*) FROM invitation WHERE state = 'expired'", 1);
	run("INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
	    " VALUES ('box-b', randomblob(32), now_ms(), now_ms() + 200)");
	until("SELECT count(*) FROM invitation WHERE state = 'expired'", 2);
}

/* A Host whose approval by the anchor ran out waits for it again; the anchor itself does not. */
static void
an_approval_of_the_anchor_runs_out(void **state)
{
	static const char pair[] =
	    "INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
	    " VALUES ('%s', 'unix', x'%s', 0, '%s', now_ms());";
	struct paper_host hosts[2];
	char sql[640], key[65];
	struct anchor_taken taken;
	struct paper p;
	int64_t issued = clock_now();
	int i;

	(void)state;
	clock_fix(issued);
	run("UPDATE box SET mode = 'networked'");
	for (i = 0; i < 2; i++) {
		paper_host(&hosts[i], i == 0 ? "main" : "other");
		sodium_bin2hex(key, sizeof(key), hosts[i].pk, 32);
		snprintf(sql, sizeof(sql), pair, hosts[i].name, key, i == 0 ? "active" : "pending");
		run(sql);
		if (i == 0)
			run("INSERT INTO anchor (id, pairing_id, host_key, reason, claimed_at,"
			    " by_uid, heard_at)"
			    " SELECT 1, id, host_key, 'claimed', now_ms(), 0, now_ms() FROM pairing");
	}
	for (i = 0; i < 2; i++) {
		paper_make(&p, "pairing_grant", &hosts[0], "box-a", b.s.keys.identity, &hosts[i]);
		p.expires_at = p.issued_at + 400;
		paper_write(&p, &hosts[0]);
		if (anchor_take(scratch_open(&b.s, ROLE_NET), &p.given, &taken) != 0)
			fail_msg("%s", store_refusal(b.s.db)->why);
		assert_string_equal(taken.state, "active");
	}
	start();
	work(100);
	assert_int_equal(
	    scratch_value(&b.s, "SELECT count(*) FROM pairing WHERE state = 'active'"), 2);
	clock_fix(issued + 400);
	until("SELECT state = 'pending' FROM pairing WHERE host_name = 'other'", 1);
	assert_int_equal(scratch_value(&b.s, "SELECT pairing_id FROM live_anchor"), 1);
	/* Every Host that still stands is told. */
	assert_int_equal(
	    scratch_value(&b.s, "SELECT group_concat(pairing_id) FROM beat_request"), 1);
}

/* Rows are sealed when the oldest is audit.seal_ms old, and a sealed head is left alone. */
static void
rows_are_sealed(void **state)
{
	(void)state;
	run("UPDATE setting SET value = 300 WHERE name = 'audit.seal_ms'");
	start();
	until("SELECT count(*) FROM audit_seal WHERE reason = 'interval'", 1);
	assert_int_equal(scratch_value(&b.s, "SELECT s.at - (SELECT min(at) FROM audit) >= 300"
					     "   AND s.seq = (SELECT max(seq) FROM audit)"
					     "  FROM audit_seal AS s"),
	    1);
	work(500);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_seal"), 1);
	run(ENTRY "VALUES ('op', 'test', '1', 'added', '', '{}')");
	run(ENTRY "VALUES ('op', 'test', '2', 'added', '', '{}')");
	until("SELECT count(*) FROM audit_seal", 2);
}

/* Everything that is written goes to the log as it comes, without being asked for twice. */
static void
the_log_follows(void **state)
{
	(void)state;
	log_open();
	start();
	assert_int_equal(loop_add(b.env.loop, b.log, EPOLLIN, log_read, NULL), 0);
	run(ENTRY
	    "SELECT 'op', 'test', value, 'added', '', '{}' FROM (WITH RECURSIVE c (value) AS"
	    " (SELECT 1 UNION ALL SELECT value + 1 FROM c WHERE value < 3000) SELECT value FROM c)");
	until("SELECT count(*) FROM audit_outbox", 0);
	log_read(NULL, 0);
	assert_int_equal(b.lines, scratch_value(&b.s, "SELECT count(*) FROM audit"));
}

/* A log that is full for a while is gone on with once it is read, with no row written meanwhile. */
static void
a_full_log_is_gone_on_with(void **state)
{
	int64_t waiting;

	(void)state;
	log_open();
	run(ENTRY
	    "SELECT 'op', 'test', value, 'added', '', '{}' FROM (WITH RECURSIVE c (value) AS"
	    " (SELECT 1 UNION ALL SELECT value + 1 FROM c WHERE value < 3000) SELECT value FROM c)");
	start();
	/* A keeper that still can ships something in any span of its work. */
	do {
		waiting = scratch_value(&b.s, "SELECT count(*) FROM audit_outbox");
		work(100);
	} while (scratch_value(&b.s, "SELECT count(*) FROM audit_outbox") < waiting);
	assert_true(waiting > 0);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), waiting);
	assert_int_equal(loop_add(b.env.loop, b.log, EPOLLIN, log_read, NULL), 0);
	until("SELECT count(*) FROM audit_outbox", 0);
	log_read(NULL, 0);
	assert_int_equal(b.lines, scratch_value(&b.s, "SELECT count(*) FROM audit"));
}

/* A log that dies while it is full, and one that comes late, cost nothing but time. */
static void
a_log_that_comes_back_gets_the_rest(void **state)
{
	(void)state;
	run("UPDATE setting SET value = 100 WHERE name = 'store.tick_ms'");
	log_open();
	run(ENTRY
	    "SELECT 'op', 'test', value, 'added', '', '{}' FROM (WITH RECURSIVE c (value) AS"
	    " (SELECT 1 UNION ALL SELECT value + 1 FROM c WHERE value < 3000) SELECT value FROM c)");
	start();
	work(200);
	log_read(NULL, 0);
	close(b.log);
	unlink(b.path);
	work(300);
	assert_true(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox") > 0);
	log_open();
	assert_int_equal(loop_add(b.env.loop, b.log, EPOLLIN, log_read, NULL), 0);
	until("SELECT count(*) FROM audit_outbox", 0);
	log_read(NULL, 0);
	assert_true(b.lines <= scratch_value(&b.s, "SELECT count(*) FROM audit"));
}

static int64_t
size_of(const char *name)
{
	struct stat st;
	char path[PATH_MAX];

	home_path(&b.s.home, name, path);
	return stat(path, &st) == 0 ? st.st_size : 0;
}

/* A change is folded into the database store.checkpoint_ms later. */
static void
the_log_is_folded(void **state)
{
	int64_t before, i;

	(void)state;
	run("UPDATE setting SET value = 100 WHERE name = 'store.checkpoint_ms'");
	start();
	work(300);
	before = size_of("bastion.db");
	run(ENTRY "VALUES ('op', 'test', '1', 'added', '',"
		  " json_object('t', replace(hex(zeroblob(200000)), '00', 'x')))");
	assert_int_equal(size_of("bastion.db"), before);
	for (i = 0; i < 50 && size_of("bastion.db") == before; i++)
		work(200);
	assert_true(size_of("bastion.db") >= before + 200000);
}

/* One that grows fast is folded before its time: its writers need not do it in their commits. */
static void
a_fast_log_is_folded_early(void **state)
{
	int64_t before, i;

	(void)state;
	run("UPDATE setting SET value = 3600000 WHERE name = 'store.checkpoint_ms'");
	start();
	work(300);
	before = size_of("bastion.db");
	for (i = 0; i < 10; i++)
		run(ENTRY "VALUES ('op', 'test', '1', 'added', '',"
			  " json_object('t', replace(hex(zeroblob(2000000)), '00', 'x')))");
	assert_int_equal(size_of("bastion.db"), before);
	for (i = 0; i < 50 && size_of("bastion.db") == before; i++)
		work(200);
	assert_true(size_of("bastion.db") >= before + 16000000);
}

/* What was kept for long enough goes at the keeper's start, and again at every look. */
static void
what_is_old_goes(void **state)
{
	(void)state;
	run("UPDATE setting SET value = 100 WHERE name = 'retention.look_ms'");
	run("INSERT INTO factor_try (at, kind, outcome) VALUES (now_ms() - 100 * 86400000, 'totp',"
	    " 'right'), (now_ms() - 100 * 86400000, 'totp', 'right'), (now_ms(), 'totp', 'right')");
	start();
	until("SELECT count(*) FROM factor_try", 1);
	run("UPDATE setting SET value = 0 WHERE name = 'retention.factor_try'");
	run("INSERT INTO factor_try (at, kind, outcome) VALUES (now_ms(), 'totp', 'right')");
	work(300);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM factor_try"), 2);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit WHERE entity = 'retention'"
					     " AND who = 'actor:keeper'"),
	    1);
}

/* A reader that stays keeps the log from being folded: it grows by what is written meanwhile and no
 * more, and is small again after it. */
static void
the_log_is_bounded(void **state)
{
	static const char write[] =
	    ENTRY "VALUES ('op', 'test', '1', 'added', '',"
		  " json_object('t', replace(hex(zeroblob(500000)), '00', 'xy')))";
	struct refusal r = {0};
	struct store *reader;
	int64_t held, i;

	(void)state;
	run("UPDATE setting SET value = 100 WHERE name = 'store.checkpoint_ms'");
	start();
	assert_non_null(reader = store_open(&b.s.home, ROLE_READER, NULL, &r));
	assert_int_equal(stmt_run(store_sql(reader, "BEGIN")), 0);
	assert_int_equal(stmt_value(store_sql(reader, "SELECT count(*) FROM box"), 0), 1);
	for (i = 0; i < 50; i++)
		run(write);
	work(300);
	held = size_of("bastion.db-wal");
	assert_in_range(held, 50 * 1000000, 50 * 1100000);
	assert_int_equal(stmt_run(store_sql(reader, "ROLLBACK")), 0);
	store_close(reader);
	/* Folded at the next look; the commit after that begins the log anew, and cuts it. */
	for (i = 0; i < 20 && size_of("bastion.db-wal") == held; i++) {
		work(200);
		run(ENTRY "VALUES ('op', 'test', '2', 'added', '', '{}')");
	}
	assert_true(size_of("bastion.db-wal") <= 33554432);
}

/* Draining seals the head, ships what waits, folds the log and stops the loop. */
static void
draining_leaves_nothing_open(void **state)
{
	int64_t begin;

	(void)state;
	log_open();
	start();
	work(50);
	run(ENTRY
	    "SELECT 'op', 'test', value, 'added', '', '{}' FROM (WITH RECURSIVE c (value) AS"
	    " (SELECT 1 UNION ALL SELECT value + 1 FROM c WHERE value < 5) SELECT value FROM c)");
	store_close(b.s.db);
	b.s.db = NULL;
	begin = loop_now();
	actor_keeper.drain(&b.env);
	assert_int_equal(loop_run(b.env.loop), 0);
	assert_true(loop_now() - begin < OUTBOX_FLUSH_MS);
	assert_int_equal(size_of("bastion.db-wal"), 0);
	scratch_open(&b.s, ROLE_MIGRATE);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_outbox"), 0);
	assert_int_equal(
	    scratch_value(&b.s, "SELECT count(*) FROM audit_seal WHERE reason = 'shutdown'"
				" AND seq = (SELECT max(seq) FROM audit)"),
	    1);
}

/* A log that takes nothing holds the end up for two seconds and no longer. */
static void
draining_is_bounded(void **state)
{
	int64_t begin;

	(void)state;
	log_open();
	run(ENTRY
	    "SELECT 'op', 'test', value, 'added', '', '{}' FROM (WITH RECURSIVE c (value) AS"
	    " (SELECT 1 UNION ALL SELECT value + 1 FROM c WHERE value < 3000) SELECT value FROM c)");
	start();
	work(200);
	begin = loop_now();
	actor_keeper.drain(&b.env);
	assert_in_range(loop_now() - begin, OUTBOX_FLUSH_MS, OUTBOX_FLUSH_MS + 1000);
	assert_int_equal(loop_run(b.env.loop), 0);
	assert_int_equal(scratch_value(&b.s, "SELECT count(*) FROM audit_seal"
					     " WHERE seq = (SELECT max(seq) FROM audit)"),
	    1);
}

/* Without the machine's key there is no keeper. */
static void
a_keeper_needs_the_key(void **state)
{
	struct refusal r = {0};

	(void)state;
	b.env.keys = b.s.keys;
	b.env.keys.secret = NULL;
	assert_int_equal(actor_keeper.start(&b.env, &r), -1);
	assert_string_equal(r.code, "actor.start");
	assert_null(b.env.ctx);
}

/* An order that nobody carried out in time, and a hold that was sat out, end at their time. */
static void
orders_and_holds_run_out(void **state)
{
	struct directive_taken taken;
	char *answer;

	(void)state;
	orders_pair(&b.s, b.s.key);
	answer = orders_answer(&b.s, b.s.key,
	    "SELECT json_set((" ORDERS_TERMS("contain",
		", 'pid', 7, 'exe', NULL, 'agent', json('false')") "), '$.expires_at', now_ms() + 300)",
	    1);
	assert_int_equal(directive_take(b.s.db, 1, answer, strlen(answer), &taken), 0);
	assert_int_equal(taken.taken, 1);
	free(answer);
	run("INSERT INTO quarantine (pairing_id, strikes, last, from_at, until_at)"
	    " VALUES (1, 1, 1, now_ms(), now_ms() + 300)");
	start();
	until("SELECT count(*) FROM directive WHERE state = 'failed'"
	      " AND result ->> '$.code' = 'directive.expired'",
	    1);
	until("SELECT count(*) FROM quarantine WHERE state = 'lapsed'", 1);
}

/* The same at the Host, for an order that no box fetched. */
static void
an_order_that_waits_runs_out(void **state)
{
	struct order_process process = {.pid = 7};
	int64_t id;

	(void)state;
	run("INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
	    "  VALUES ('box-a', zeroblob(32), now_ms(), now_ms() + 60000);"
	    "UPDATE invitation SET state = 'redeemed', ended_at = now_ms();"
	    "INSERT INTO host_box (name, box_key, lane, peer_uid, invitation_id, paired_at)"
	    "  VALUES ('box-a', zeroblob(32), '/run/lane', 0, 1, now_ms())");
	assert_int_equal(
	    order_contain(scratch_open(&b.s, ROLE_PERSON), "box-a", &process, 300, &id), 0);
	start();
	until("SELECT count(*) FROM host_order WHERE state = 'expired'", 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(orders_and_holds_run_out, make_box, drop),
	    cmocka_unit_test_setup_teardown(an_order_that_waits_runs_out, make_host, drop),
	    cmocka_unit_test_setup_teardown(a_question_runs_out, make_box, drop),
	    cmocka_unit_test_setup_teardown(a_grant_runs_out, make_box, drop),
	    cmocka_unit_test_setup_teardown(an_approval_of_the_anchor_runs_out, make_box, drop),
	    cmocka_unit_test_setup_teardown(an_invitation_runs_out, make_host, drop),
	    cmocka_unit_test_setup_teardown(rows_are_sealed, make_box, drop),
	    cmocka_unit_test_setup_teardown(the_log_follows, make_box, drop),
	    cmocka_unit_test_setup_teardown(a_full_log_is_gone_on_with, make_box, drop),
	    cmocka_unit_test_setup_teardown(a_log_that_comes_back_gets_the_rest, make_box, drop),
	    cmocka_unit_test_setup_teardown(the_log_is_folded, make_box, drop),
	    cmocka_unit_test_setup_teardown(a_fast_log_is_folded_early, make_box, drop),
	    cmocka_unit_test_setup_teardown(what_is_old_goes, make_box, drop),
	    cmocka_unit_test_setup_teardown(the_log_is_bounded, make_box, drop),
	    cmocka_unit_test_setup_teardown(draining_leaves_nothing_open, make_box, drop),
	    cmocka_unit_test_setup_teardown(draining_is_bounded, make_box, drop),
	    cmocka_unit_test_setup_teardown(a_keeper_needs_the_key, make_box, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
