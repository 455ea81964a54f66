/* schedule.c: the rows of schedules and of their times; schema/schedule.sql decides. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/state/schedule.h"
#include "engine/state/session.h"

static const char ADD[] =
    "INSERT INTO schedule (name, cron, every_ms, zone, missed, runs_max, worker, argv, cwd, by_uid,"
    "  max_attempts, added_at, start_at, seen_at, next_at)"
    " SELECT :name, :cron, :every, :zone, :missed, :runs, :worker, :argv, :cwd, :uid, :attempts,"
    "  now_ms(), start, now_ms(), due_next(:cron, :zone, :every, start, start - 1)"
    "  FROM (SELECT now_ms() + :first AS start)";
static const char REMOVE[] = "DELETE FROM schedule WHERE id = :id";
static const char PAUSE[] = "UPDATE schedule SET state = 'paused', next_at = NULL WHERE id = :id";
static const char RESUME[] =
    "UPDATE schedule SET state = 'active', seen_at = now_ms(), next_at = due_next(cron, zone, every_ms,"
    "  start_at, max(now_ms(), coalesce(last_at, 0))) WHERE id = :id AND state <> 'active'";
static const char WAIT[] = "SELECT min(next_at) - now_ms() FROM schedule WHERE state = 'active'";
static const char IS_SET_BACK[] = "SELECT count(*) FROM schedule_set_back";
static const char SET_BACK[] =
    "UPDATE schedule SET round = round + 1, last_at = NULL, seen_at = now_ms(), next_at = b.next_at"
    "  FROM schedule_set_back AS b WHERE b.id = schedule.id";
static const char DUE[] =
    "SELECT name, worker, argv, cwd, by_uid, coalesce(max_attempts, 0), id, due_at, why"
    "  FROM schedule_due ORDER BY due_at, id LIMIT 1";
static const char ONE[] =
    "SELECT name, worker, argv, cwd, by_uid, coalesce(max_attempts, 0) FROM schedule WHERE id = :id";
static const char RUNS[] =
    "INSERT INTO firing (schedule_id, round, due_at, by_hand, fired_at, session, state)"
    " SELECT s.id, s.round, coalesce(:due, now_ms()), :due IS NULL, now_ms(), n.name, 'running'"
    "  FROM schedule AS s JOIN session AS n ON n.id = :session WHERE s.id = :id";
static const char LEFT_OUT[] =
    "INSERT INTO firing (schedule_id, round, due_at, fired_at, state, why, ended_at)"
    " SELECT id, round, :due, now_ms(), 'skipped', :why, now_ms() FROM schedule WHERE id = :id";

int64_t
schedule_add(struct store *db, const struct schedule_ask *ask)
{
	struct stmt *q;

	if ((q = store_sql(db, ADD)) == NULL)
		return -1;
	stmt_text(q, ":name", ask->name);
	stmt_text(q, ":cron", ask->cron);
	if (ask->cron == NULL)
		stmt_int(q, ":every", ask->every_ms);
	stmt_int(q, ":first",
	    ask->cron != NULL     ? 0
	    : ask->first_ms == -1 ? ask->every_ms
				  : ask->first_ms);
	stmt_text(q, ":zone", ask->zone);
	stmt_text(q, ":missed", ask->missed);
	stmt_int(q, ":runs", ask->runs_max);
	stmt_text(q, ":worker", ask->worker);
	stmt_text(q, ":argv", ask->argv);
	stmt_text(q, ":cwd", ask->cwd);
	stmt_int(q, ":uid", ask->uid);
	if (ask->attempts > 0)
		stmt_int(q, ":attempts", ask->attempts);
	return stmt_run_one(q) == 0 ? store_last_id(db) : -1;
}

static int
change(struct store *db, const char *sql, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	return stmt_run(q);
}

int
schedule_remove(struct store *db, int64_t id)
{
	return change(db, REMOVE, id);
}

int
schedule_pause(struct store *db, int64_t id)
{
	return change(db, PAUSE, id);
}

int
schedule_resume(struct store *db, int64_t id)
{
	return change(db, RESUME, id);
}

/* Of ${q}, a row of DUE or ONE: queue its session.  Return the session's id or -1. */
static int64_t
queue(struct store *db, struct stmt *q)
{
	struct session_ask ask = {.name = "",
	    .base = stmt_get_text(q, 0),
	    .worker = stmt_get_text(q, 1),
	    .argv = stmt_get_text(q, 2),
	    .cwd = stmt_get_text(q, 3),
	    .uid = (uid_t)stmt_get_int(q, 4),
	    .rows = 24,
	    .cols = 80,
	    .attempts = stmt_get_int(q, 5)};

	return session_new(db, &ask);
}

/* The row of a time that comes with its session; without ${due} a person asked for it. */
static int
runs(struct store *db, int64_t id, const int64_t *due, int64_t session)
{
	struct stmt *q;

	if ((q = store_sql(db, RUNS)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if (due != NULL)
		stmt_int(q, ":due", *due);
	stmt_int(q, ":session", session);
	return stmt_run_one(q);
}

static int
leave_out(struct store *db, int64_t id, int64_t due, const char *why)
{
	struct stmt *q;

	if ((q = store_sql(db, LEFT_OUT)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_int(q, ":due", due);
	stmt_text(q, ":why", why);
	return stmt_run_one(q);
}

int64_t
schedule_run(struct store *db, int64_t id)
{
	struct stmt *q;
	int64_t session;

	if ((q = store_sql(db, ONE)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if (stmt_step(q) != 1)
		return refusal_set(
		    store_refusal(db), "schedule.unknown", "there is no schedule of this name");
	session = queue(db, q);
	stmt_done(q);
	return session != -1 && runs(db, id, NULL, session) == 0 ? session : -1;
}

/*
 * In the transaction that is open: the time that is due.  A session that is refused is undone, and
 * its time is left out; what the disk refuses is tried again.
 */
static int
fire(struct store *db)
{
	char why[REFUSAL_CODE_MAX];
	int64_t id, due, session = -1;
	struct stmt *q;
	int n;

	if ((q = store_sql(db, DUE)) == NULL || (n = stmt_step(q)) == -1)
		return -1;
	if (n == 0)
		return 0;
	id = stmt_get_int(q, 6);
	due = stmt_get_int(q, 7);
	snprintf(why, sizeof(why), "%s", stmt_get_text(q, 8));
	if (why[0] == '\0' && (session = queue(db, q)) == -1)
		snprintf(why, sizeof(why), "%s", store_refusal(db)->code);
	stmt_done(q);
	if (strncmp(why, "store.", 6) == 0)
		return -1;
	return (why[0] == '\0' ? runs(db, id, &due, session) : leave_out(db, id, due, why)) == 0
		   ? 1
		   : -1;
}

static int
set_back(struct store *db)
{
	if (stmt_value(store_sql(db, IS_SET_BACK), 0) == 0)
		return 0;
	if (store_begin(db) != 0)
		return -1;
	return stmt_run(store_sql(db, SET_BACK)) == 0 ? store_commit(db) : store_rollback(db);
}

int
schedule_fire(struct store *db)
{
	int n;

	if (set_back(db) != 0)
		return -1;
	if (schedule_wait(db) > 0)
		return 0;
	if (store_begin(db) != 0)
		return -1;
	if ((n = fire(db)) == 1)
		return store_commit(db) == 0 ? 1 : -1;
	store_rollback(db);
	return n;
}

int64_t
schedule_wait(struct store *db)
{
	struct stmt *q;
	int64_t ms;

	if ((q = store_sql(db, WAIT)) == NULL || stmt_step(q) != 1)
		return SCHEDULE_NEVER;
	ms = stmt_is_null(q, 0) ? SCHEDULE_NEVER : stmt_get_int(q, 0);
	stmt_done(q);
	return ms;
}
