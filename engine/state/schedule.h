/* schedule.h: work that begins by itself: schedules as rows, and the times that come. */
#ifndef ENGINE_STATE_SCHEDULE_H
#define ENGINE_STATE_SCHEDULE_H

#include <stdint.h>
#include <sys/types.h>

#include "engine/store/store.h"

struct schedule_ask {
	const char *name;
	const char *cron;   /* as engine/cron.h has it; NULL: an interval */
	int64_t every_ms;   /* between two; of an interval alone */
	int64_t first_ms;   /* until the first, of an interval alone; -1: as long as between two */
	const char *zone;   /* whose clocks the calendar goes by */
	const char *missed; /* "run", once and late, or "skip" */
	int64_t runs_max;   /* 0: without end */
	const char *worker, *argv; /* as in struct session_ask */
	const char *cwd;           /* absolute */
	uid_t uid;                 /* who asks, by the kernel's word; runs it, too */
	int64_t attempts;          /* 0: as the worker has it, or once */
};

/**
 * schedule_add(db, ask):
 * In the transaction that is open: add the schedule.  Return its id, or -1 with the refusal of
 * schema/schedule.sql.
 */
int64_t schedule_add(struct store *db, const struct schedule_ask *ask);

/**
 * schedule_remove(db, id), schedule_pause(db, id), schedule_resume(db, id):
 * In the transaction that is open: remove the schedule ${id} with the times that it had; let no
 * time of it come; or let them come again from the next one on, none being missed.  What it began
 * goes on; one that is paused, or active, already stays so.  Return 0 or -1.
 */
int schedule_remove(struct store *db, int64_t id);
int schedule_pause(struct store *db, int64_t id);
int schedule_resume(struct store *db, int64_t id);

/**
 * schedule_run(db, id):
 * In the transaction that is open: begin the session of the schedule ${id} now, whatever its times.
 * Return the session's id; or -1, with schedule.overlap while an earlier one lives.
 */
int64_t schedule_run(struct store *db, int64_t id);

/**
 * schedule_fire(db):
 * Let the time that has been due for longest come, in a transaction of its own: its session is
 * queued, or it is left out and its row says why.  Where the clock was set back far, times are
 * worked out anew first.  Return 1, 0 where none is due or no daemon takes work, or -1.
 */
int schedule_fire(struct store *db);

/**
 * schedule_wait(db):
 * Return the milliseconds until the next time is due, 0 or less where one is, SCHEDULE_NEVER where
 * none will be or the database does not say.
 */
#define SCHEDULE_NEVER INT64_MAX
int64_t schedule_wait(struct store *db);

#endif
