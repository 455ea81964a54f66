/* test_schedule.c: schedules: each time exactly once, none at once, none lost in silence, whatever
 * the clock does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/state/schedule.h"
#include "tests/scratch.h"

#define MORNING INT64_C(1796032800000) /* 2026-11-30 10:00:00 UTC */
#define MINUTE  INT64_C(60000)
#define HOUR    (60 * MINUTE)
#define DAY     (24 * HOUR)

static struct scratch s;

static void __attribute__((format(printf, 1, 2))) sql(const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (scratch_sql(&s, text) != 0)
		fail_msg("%s: %s", text, s.error);
}

static int64_t
value(const char *text)
{
	return scratch_value(&s, text);
}

static void
serves(int instance)
{
	sql("INSERT INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES (%d, '00000000-0000-0000-0000-000000000000', 4711, %d, 0, 'bastion', now_ms());"
	    "INSERT INTO instance (id, epoch, role, process_id, version, run_dir, started_at)"
	    " VALUES (%d, %d, 'box', %d, 'test', '/run/bastion', now_ms());"
	    "UPDATE instance SET state = 'ready', ready_at = now_ms() WHERE state = 'starting'",
	    instance, instance, instance, instance, instance);
}

static void
serves_no_more(void)
{
	sql("UPDATE instance SET state = 'draining', draining_at = now_ms() WHERE state = 'ready';"
	    "UPDATE instance SET state = 'ended', ended_at = now_ms(), end_reason = 'test'"
	    " WHERE state = 'draining'");
}

static int
make(void **state)
{
	(void)state;
	clock_fix(MORNING);
	scratch_make(&s, HOME_BOX);
	serves(1);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	serves_no_more();
	scratch_drop(&s);
	clock_fix(-1);
	return 0;
}

static void
later(int64_t ms)
{
	clock_fix(clock_now() + ms);
}

/* Every hour at 0, in UTC, of what a test does not say. */
static struct schedule_ask
hourly(void)
{
	return (struct schedule_ask){.name = "s",
	    .cron = "0 * * * *",
	    .zone = "UTC",
	    .missed = "run",
	    .first_ms = -1,
	    .worker = "",
	    .argv = "[\"true\"]",
	    .cwd = "/"};
}

static struct schedule_ask
every(int64_t ms)
{
	struct schedule_ask ask = hourly();

	ask.cron = NULL;
	ask.every_ms = ms;
	return ask;
}

static int64_t
add(struct schedule_ask ask)
{
	struct store *db = scratch_open(&s, ROLE_PERSON);
	int64_t id;

	assert_int_equal(store_begin(db), 0);
	if ((id = schedule_add(db, &ask)) == -1)
		fail_msg("%s: %s", store_refusal(db)->code, store_refusal(db)->why);
	assert_int_equal(store_commit(db), 0);
	return id;
}

static void
refused(const char *code, struct schedule_ask ask)
{
	struct store *db = scratch_open(&s, ROLE_PERSON);

	assert_int_equal(store_begin(db), 0);
	assert_int_equal(schedule_add(db, &ask), -1);
	assert_string_equal(store_refusal(db)->code, code);
	store_rollback(db);
}

static void
change(int (*make_it)(struct store *db, int64_t id), int64_t id)
{
	struct store *db = scratch_open(&s, ROLE_PERSON);

	assert_int_equal(store_begin(db), 0);
	assert_int_equal(make_it(db, id), 0);
	assert_int_equal(store_commit(db), 0);
}

/* As the worker does at each wake.  Return how many times came. */
static int
wake(void)
{
	struct store *db = scratch_open(&s, ROLE_WORKER);
	int n, times = 0;

	while ((n = schedule_fire(db)) == 1)
		times++;
	if (n != 0)
		fail_msg("%s: %s", store_refusal(db)->code, store_refusal(db)->why);
	return times;
}

/* Of all sessions: their work is done. */
static void
work_is_done(void)
{
	sql("INSERT OR IGNORE INTO process (id, boot_id, pid, start_ticks, uid, program, seen_at)"
	    " VALUES (99, '00000000-0000-0000-0000-000000000000', 4712, 99, 0, 'true', now_ms())");
	while (value("SELECT count(*) FROM session WHERE state = 'queued'") > 0)
		sql("INSERT INTO attempt (session_id, n, launched_at) SELECT id, 1, now_ms() FROM next_session;"
		    "UPDATE attempt SET state = 'running', process_id = 99 WHERE state = 'launching';"
		    "UPDATE attempt SET state = 'ended', outcome = 'success', exit_code = 0, ended_at = now_ms()"
		    " WHERE state = 'running'");
}

static int64_t
next_at(void)
{
	return value("SELECT coalesce(next_at, -1) FROM schedule");
}

static void
last_is(const char *state, const char *why)
{
	char found[128], wanted[128];

	snprintf(wanted, sizeof(wanted), "%s %s", state, why);
	assert_string_equal(
	    scratch_text(&s, "SELECT state || ' ' || why FROM firing ORDER BY id DESC LIMIT 1",
		found, sizeof(found)),
	    wanted);
}

static void
a_time_comes_once(void **state)
{
	(void)state;
	add(hourly());
	/* What is due at the moment of its adding is due: it was asked for before that moment
	 * ended. */
	assert_int_equal(next_at(), MORNING);
	assert_int_equal(wake(), 1);
	assert_int_equal(wake(), 0);
	assert_int_equal(next_at(), MORNING + HOUR);
	work_is_done();
	last_is("done", "");
	later(HOUR - 1);
	assert_int_equal(wake(), 0);
	later(1);
	assert_int_equal(wake(), 1);
	assert_int_equal(value("SELECT count(*) FROM session"), 2);
	assert_int_equal(
	    value("SELECT count(*) FROM firing WHERE due_at = 1796036400000 AND session ="
		  " (SELECT name FROM session ORDER BY id DESC LIMIT 1)"),
	    1);
	assert_int_equal(value("SELECT by_uid || cwd || argv = '0/[\"true\"]' FROM session"), 1);
}

/* RF-107: two that look at the same time do not both let it come: the time, its session and the
 * schedule's next time are one transaction. */
static void
of_two_workers_one(void **state)
{
	int i, code, times = 0;
	pid_t pids[4];

	(void)state;
	add(hourly());
	store_close(s.db);
	s.db = NULL;
	for (i = 0; i < 4; i++)
		if ((pids[i] = fork()) == 0)
			_exit(wake());
	for (i = 0; i < 4; i++) {
		assert_int_equal(waitpid(pids[i], &code, 0), pids[i]);
		assert_true(WIFEXITED(code));
		times += WEXITSTATUS(code);
	}
	assert_int_equal(times, 1);
	assert_int_equal(value("SELECT count(*) FROM session"), 1);
	work_is_done();
}

/* SD-02: while its session lives the next is left out, and counted. */
static void
never_two_at_once(void **state)
{
	(void)state;
	add(every(MINUTE));
	later(MINUTE);
	assert_int_equal(wake(), 1);
	later(MINUTE);
	assert_int_equal(wake(), 1);
	last_is("skipped", "schedule.overlap");
	later(MINUTE);
	assert_int_equal(wake(), 1);
	assert_int_equal(value("SELECT runs * 10 + skips FROM schedule"), 12);
	work_is_done();
	later(MINUTE);
	assert_int_equal(wake(), 1);
	last_is("running", "");
	assert_int_equal(value("SELECT runs * 10 + skips FROM schedule"), 22);
	work_is_done();
}

/* What was missed while nobody served comes once, late. */
static void
missed_runs_once(void **state)
{
	(void)state;
	add(every(15 * MINUTE));
	serves_no_more();
	later(8 * HOUR + MINUTE);
	assert_int_equal(wake(), 0);
	serves(2);
	assert_int_equal(wake(), 1);
	last_is("running", "");
	assert_int_equal(
	    value("SELECT fired_at - due_at FROM firing"), 8 * HOUR + MINUTE - 15 * MINUTE);
	assert_int_equal(next_at(), MORNING + 8 * HOUR + 15 * MINUTE);
	work_is_done();
}

/* Left out where that was asked for; but not what is only a little late. */
static void
missed_is_left_out(void **state)
{
	struct schedule_ask ask = every(15 * MINUTE);

	(void)state;
	ask.missed = "skip";
	add(ask);
	serves_no_more();
	later(8 * HOUR + 500);
	serves(2);
	assert_int_equal(wake(), 2);
	assert_int_equal(value("SELECT count(*) FROM firing WHERE why = 'schedule.missed'"), 1);
	last_is("running", "");
	assert_int_equal(
	    value("SELECT fired_at - due_at FROM firing WHERE state = 'running'"), 500);
	assert_int_equal(next_at(), MORNING + 8 * HOUR + 15 * MINUTE);
	work_is_done();
}

/* A clock that is set forward makes times missed; they come once. */
static void
clock_set_forward(void **state)
{
	(void)state;
	add(hourly());
	assert_int_equal(wake(), 1);
	work_is_done();
	later(400 * DAY);
	assert_int_equal(wake(), 1);
	work_is_done();
	assert_int_equal(next_at(), MORNING + 400 * DAY + HOUR);
}

/* A clock that is set back a little has to catch up: no time comes twice. Set back far, it is taken
 * at its word. */
static void
clock_set_back(void **state)
{
	(void)state;
	add(hourly());
	assert_int_equal(wake(), 1);
	work_is_done();
	later(-2 * HOUR);
	assert_int_equal(wake(), 0);
	later(HOUR);
	assert_int_equal(wake(), 0);
	later(2 * HOUR);
	assert_int_equal(wake(), 1);
	work_is_done();
	assert_int_equal(next_at(), MORNING + 2 * HOUR);
	later(-30 * DAY);
	assert_int_equal(wake(), 0);
	assert_int_equal(next_at(), MORNING - 30 * DAY + 2 * HOUR);
	assert_int_equal(value("SELECT round FROM schedule"), 1);
	assert_int_equal(value("SELECT count(*) FROM audit WHERE entity = 'schedule'"
			       " AND body ->> '$.why' = 'the clock was set back'"),
	    1);
	/* The month is lived again, and its times come. */
	later(HOUR);
	assert_int_equal(wake(), 1);
	work_is_done();
	later(30 * DAY - HOUR);
	assert_int_equal(wake(), 1);
	work_is_done();
	assert_int_equal(
	    value("SELECT count(DISTINCT round) FROM firing WHERE due_at >= 1796032800000"), 1);
}

/* An interval waits no longer than itself. */
static void
interval_with_a_clock_set_back(void **state)
{
	(void)state;
	add(every(15 * MINUTE));
	later(15 * MINUTE);
	assert_int_equal(wake(), 1);
	work_is_done();
	later(-HOUR);
	assert_int_equal(wake(), 0);
	assert_int_equal(next_at(), MORNING - 30 * MINUTE);
	later(15 * MINUTE);
	assert_int_equal(wake(), 1);
	work_is_done();
}

/* One that has not begun waits as long as it was to. */
static void
first_with_a_clock_set_back(void **state)
{
	struct schedule_ask ask = every(15 * MINUTE);

	(void)state;
	ask.first_ms = 2 * HOUR;
	add(ask);
	assert_int_equal(next_at(), MORNING + 2 * HOUR);
	later(-100 * DAY);
	assert_int_equal(wake(), 0);
	assert_int_equal(next_at(), MORNING - 100 * DAY + 2 * HOUR);
}

/* SD-01: it runs as often as was asked, and is over. */
static void
runs_are_counted(void **state)
{
	struct schedule_ask ask = every(1000);
	int i;

	(void)state;
	ask.runs_max = 3;
	add(ask);
	for (i = 0; i < 3; i++) {
		later(1000);
		assert_int_equal(wake(), 1);
		work_is_done();
	}
	later(DAY);
	assert_int_equal(wake(), 0);
	assert_int_equal(
	    value("SELECT runs FROM schedule WHERE state = 'over' AND next_at IS NULL"), 3);
	scratch_refused(&s, "schedule.over", "UPDATE schedule SET state = 'active', next_at = 1");
}

/* SD-03: what is no schedule is none. */
static void
wrong_ones(void **state)
{
	static const struct {
		const char *code, *cron, *zone, *name, *worker, *argv;
		int64_t every, runs;
	} wrong[] = {{"schedule.every", NULL, "UTC", "s", "", "[\"true\"]", 999, 0},
	    {"schedule.every", NULL, "UTC", "s", "", "[\"true\"]", 367 * DAY, 0},
	    {"worker.unknown", "@daily", "UTC", "s", "nobody", "[]", 0, 0},
	    {"worker.argv", "@daily", "UTC", "s", "", "[]", 0, 0},
	    {"worker.argv", "@daily", "UTC", "s", "", "[\"\"]", 0, 0},
	    {"worker.argv", "@daily", "UTC", "s", "", "[\"a\",1]", 0, 0},
	    {"schedule.runs", "@daily", "UTC", "s", "", "[\"true\"]", 0, -1},
	    {"schedule.cron", "0 24 * * *", "UTC", "s", "", "[\"true\"]", 0, 0},
	    {"schedule.cron", "60 10 * * *", "UTC", "s", "", "[\"true\"]", 0, 0},
	    {"schedule.cron", "", "UTC", "s", "", "[\"true\"]", 0, 0},
	    {"schedule.never", "0 0 30 2 *", "UTC", "s", "", "[\"true\"]", 0, 0},
	    {"schedule.zone", "@daily", "Europe/Nowhere", "s", "", "[\"true\"]", 0, 0},
	    {"schedule.zone", "@daily", "", "s", "", "[\"true\"]", 0, 0},
	    {"schedule.name", "@daily", "UTC", "a b", "", "[\"true\"]", 0, 0},
	    {"schedule.name", "@daily", "UTC", "", "", "[\"true\"]", 0, 0}};
	struct schedule_ask ask;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ask = hourly();
		ask.cron = wrong[i].cron;
		ask.every_ms = wrong[i].every;
		ask.zone = wrong[i].zone;
		ask.name = wrong[i].name;
		ask.worker = wrong[i].worker;
		ask.argv = wrong[i].argv;
		ask.runs_max = wrong[i].runs;
		refused(wrong[i].code, ask);
	}
	add(hourly());
	refused("schedule.exists", hourly());
	sql("UPDATE setting SET value = 1 WHERE name = 'schedule.max'");
	ask = hourly();
	ask.name = "t";
	refused("schedule.full", ask);
	assert_int_equal(wake(), 1);
	work_is_done();
}

/* What the session of a time is refused for is why it is left out; the next time comes. */
static void
refused_session_is_said(void **state)
{
	struct schedule_ask ask = every(MINUTE);

	(void)state;
	sql("INSERT INTO worker (name, argv, max_attempts, backend, net, by_uid, added_at)"
	    " VALUES ('w', '[\"true\"]', 3, 'none', 'host', 0, now_ms())");
	ask.worker = "w";
	ask.argv = "[\"x\"]";
	add(ask);
	later(MINUTE);
	assert_int_equal(wake(), 1);
	assert_int_equal(
	    value("SELECT argv = '[\"true\",\"x\"]' AND max_attempts = 3 AND backend = 'none'"
		  " FROM session"),
	    1);
	work_is_done();
	sql("DELETE FROM worker");
	later(MINUTE);
	assert_int_equal(wake(), 1);
	last_is("skipped", "worker.unknown");
	assert_int_equal(value("SELECT count(*) FROM session"), 1);
	assert_int_equal(next_at(), MORNING + 3 * MINUTE);
}

/* SD-04, RF-101, and what pausing is: no time comes, not even one that was due already, and none
 * was missed. */
static void
paused_resumed_removed(void **state)
{
	int64_t id;

	(void)state;
	id = add(hourly());
	assert_int_equal(wake(), 1);
	later(HOUR);
	change(schedule_pause, id);
	assert_int_equal(wake(), 0);
	later(4 * HOUR + MINUTE);
	assert_int_equal(wake(), 0);
	change(schedule_resume, id);
	assert_int_equal(wake(), 0);
	assert_int_equal(next_at(), MORNING + 6 * HOUR);
	/* Back in time, what came does not come again. */
	work_is_done();
	later(HOUR);
	assert_int_equal(wake(), 1);
	work_is_done();
	later(-HOUR - 30 * MINUTE);
	change(schedule_pause, id);
	change(schedule_resume, id);
	assert_int_equal(next_at(), MORNING + 7 * HOUR);
	change(schedule_remove, id);
	assert_int_equal(
	    value("SELECT count(*) FROM schedule") + value("SELECT count(*) FROM firing"), 0);
	assert_int_equal(value("SELECT count(*) FROM audit WHERE entity = 'schedule'"), 6);
}

/* Many at one time all come, those that are due for longest first. */
static void
many_at_once(void **state)
{
	(void)state;
	sql("INSERT INTO schedule (name, every_ms, zone, missed, argv, cwd, by_uid, added_at, start_at,"
	    "  seen_at, next_at)"
	    " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)"
	    " SELECT 's' || i, 86400000, 'UTC', 'run', '[\"true\"]', '/', 0, now_ms(), now_ms() + 1000 - i / 2,"
	    "  now_ms(), now_ms() + 1000 - i / 2 FROM n");
	later(1000);
	assert_int_equal(wake(), 200);
	assert_int_equal(value("SELECT count(*) FROM session"), 200);
	assert_int_equal(
	    value("SELECT count(*) FROM firing AS a JOIN firing AS b ON b.id = a.id + 1"
		  " WHERE b.due_at < a.due_at"),
	    0);
	sql("UPDATE session SET cancel_at = now_ms()");
}

/* By hand it begins now, moves nothing, and is refused while one lives. */
static void
by_hand(void **state)
{
	struct store *db;
	int64_t id;

	(void)state;
	id = add(every(HOUR));
	db = scratch_open(&s, ROLE_PERSON);
	assert_int_equal(store_begin(db), 0);
	assert_true(schedule_run(db, id) > 0);
	assert_int_equal(store_commit(db), 0);
	assert_int_equal(store_begin(db), 0);
	assert_int_equal(schedule_run(db, id), -1);
	assert_string_equal(store_refusal(db)->code, "schedule.overlap");
	store_rollback(db);
	assert_int_equal(next_at(), MORNING + HOUR);
	assert_int_equal(value("SELECT runs FROM schedule"), 0);
	work_is_done();
	last_is("done", "");
}

/* Only the newest are kept, and none that lives. */
static void
some_are_kept(void **state)
{
	int i;

	(void)state;
	sql("UPDATE setting SET value = 3 WHERE name = 'schedule.kept'");
	add(every(1000));
	for (i = 0; i < 10; i++) {
		later(1000);
		assert_int_equal(wake(), 1);
		work_is_done();
	}
	assert_int_equal(value("SELECT count(*) FROM firing"), 4);
	assert_int_equal(value("SELECT runs FROM schedule"), 10);
}

/* Whatever tool it is: a time is neither made up, nor skipped, nor changed. */
static void
rows_hold(void **state)
{
	(void)state;
	add(every(HOUR));
	scratch_refused(&s, "schedule.due", "UPDATE schedule SET next_at = next_at + 1");
	scratch_refused(&s, "schedule.due", "UPDATE schedule SET next_at = next_at + 3600000");
	scratch_refused(&s, "schedule.round", "UPDATE schedule SET round = 1");
	scratch_refused(&s, "schedule.fixed", "UPDATE schedule SET by_uid = 1");
	scratch_refused(&s, "schedule.early",
	    "INSERT INTO firing (schedule_id, round, due_at, fired_at, state, why, ended_at)"
	    " SELECT id, 0, next_at, now_ms(), 'skipped', 'session.busy', now_ms() FROM schedule");
	later(HOUR);
	scratch_refused(&s, "schedule.due",
	    "INSERT INTO firing (schedule_id, round, due_at, fired_at, state, why, ended_at)"
	    " SELECT id, 0, next_at + 3600000, now_ms(), 'skipped', 'session.busy', now_ms() FROM schedule");
	scratch_refused(&s, "schedule.transition",
	    "INSERT INTO firing (schedule_id, round, due_at, fired_at, state, why, ended_at)"
	    " SELECT id, 0, next_at, now_ms(), 'skipped', 'I do not like it', now_ms() FROM schedule");
	scratch_refused(&s, "schedule.transition",
	    "INSERT INTO firing (schedule_id, round, due_at, fired_at, session, state)"
	    " SELECT id, 0, next_at, now_ms(), 'another', 'running' FROM schedule");
	assert_int_equal(wake(), 1);
	scratch_refused(&s, "schedule.fixed", "UPDATE firing SET due_at = 1");
	work_is_done();
	scratch_refused(
	    &s, "schedule.transition", "UPDATE firing SET state = 'running', ended_at = NULL");
}

/* All sessions end at once, whatever the clock says; on ${db}, of the worker. */
static void
cancel_all(struct store *db)
{
	assert_int_equal(store_begin(db), 0);
	assert_int_equal(stmt_run(store_sql(db, "UPDATE session SET cancel_at = now_ms()"
						" WHERE finished_at IS NULL")),
	    0);
	assert_int_equal(store_commit(db), 0);
}

/* At any clock, forwards and backwards, with sessions of any length: what tests/invariants.sql says
 * holds, and no time comes twice unless the clock was set far back in between. */
static void
any_clock(void **state)
{
	static const char *const crons[] = {
	    "*/7 * * * *", "30 2 * * *", "0 */3 * * *", "15,45 1-3 * * sun", "@hourly"};
	struct schedule_ask ask;
	struct store *db;
	char name[16];
	int i, n;

	(void)state;
	srandom(7);
	clock_fix(INT64_C(1792800000000)); /* before clocks are set back in Berlin */
	for (i = 0; i < 8; i++) {
		ask = i < 5 ? hourly() : every((i - 4) * 17 * MINUTE);
		snprintf(name, sizeof(name), "s%d", i);
		ask.name = name;
		if (i < 5)
			ask.cron = crons[i];
		ask.zone = "Europe/Berlin";
		ask.missed = i % 2 == 0 ? "run" : "skip";
		add(ask);
	}
	db = scratch_open(&s, ROLE_WORKER);
	for (i = 0; i < 200; i++) {
		switch (random() % 12) {
		case 0:
			later(-(int64_t)(random() % (2 * HOUR)));
			break;
		case 1:
			later(-(int64_t)(random() % (9 * DAY)));
			break;
		case 2:
			later((int64_t)(random() % (9 * DAY)));
			break;
		default:
			later((int64_t)(random() % (40 * MINUTE)));
		}
		while ((n = schedule_fire(db)) == 1)
			;
		if (n != 0)
			fail_msg("%s: %s", store_refusal(db)->code, store_refusal(db)->why);
		assert_true(schedule_wait(db) > 0);
		if (random() % 3 > 0)
			cancel_all(db);
	}
	cancel_all(db);
	assert_true(value("SELECT max(round) FROM schedule") > 3);
	assert_true(value("SELECT min(runs + skips) FROM schedule") > 3);
	/* By the audit, which keeps what the table does not. */
	assert_int_equal(
	    value("SELECT count(*) FROM (SELECT 1 FROM audit AS a WHERE entity = 'firing'"
		  " AND action IN ('running', 'skipped') GROUP BY body ->> '$.schedule',"
		  " body ->> '$.due_at', (SELECT count(*) FROM audit AS b WHERE b.seq < a.seq"
		  " AND b.entity = 'schedule' AND b.body ->> '$.name' = a.body ->> '$.schedule')"
		  " HAVING count(*) > 1)"),
	    0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_time_comes_once, make, drop),
	    cmocka_unit_test_setup_teardown(of_two_workers_one, make, drop),
	    cmocka_unit_test_setup_teardown(never_two_at_once, make, drop),
	    cmocka_unit_test_setup_teardown(missed_runs_once, make, drop),
	    cmocka_unit_test_setup_teardown(missed_is_left_out, make, drop),
	    cmocka_unit_test_setup_teardown(clock_set_forward, make, drop),
	    cmocka_unit_test_setup_teardown(clock_set_back, make, drop),
	    cmocka_unit_test_setup_teardown(interval_with_a_clock_set_back, make, drop),
	    cmocka_unit_test_setup_teardown(first_with_a_clock_set_back, make, drop),
	    cmocka_unit_test_setup_teardown(runs_are_counted, make, drop),
	    cmocka_unit_test_setup_teardown(wrong_ones, make, drop),
	    cmocka_unit_test_setup_teardown(refused_session_is_said, make, drop),
	    cmocka_unit_test_setup_teardown(paused_resumed_removed, make, drop),
	    cmocka_unit_test_setup_teardown(many_at_once, make, drop),
	    cmocka_unit_test_setup_teardown(by_hand, make, drop),
	    cmocka_unit_test_setup_teardown(some_are_kept, make, drop),
	    cmocka_unit_test_setup_teardown(rows_hold, make, drop),
	    cmocka_unit_test_setup_teardown(any_clock, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
