/* worker.c: take queued runs, start them through the runner, and commit what they answer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/state/op_run.h"
#include "engine/state/schedule.h"
#include "engine/worker/contain_run.h"
#include "engine/worker/keep.h"
#include "engine/worker/observe.h"
#include "engine/worker/pool.h"
#include "engine/worker/probe.h"
#include "engine/worker/program.h"
#include "engine/worker/pump.h"
#include "engine/worker/runner.h"
#include "engine/worker/scan.h"
#include "engine/worker/worker.h"

#define ASKED "SELECT id, op, args ->> 0, args ->> 1, json_array_length(args), dry FROM op_run"

static const char QUEUED[] =
    ASKED " WHERE state = 'queued' AND finished_at IS NULL ORDER BY id LIMIT 1";
static const char AGAIN[] = ASKED " WHERE id = :id";

/* A verb says where it wants to reach; the database says whether it may, and where that is. */
static const char DIAL[] =
    "INSERT INTO verb_dial (op_run_id, host, port, addresses, at)"
    " SELECT :id, :frame ->> '$.r.destination.host', :frame ->> '$.r.destination.port',"
    "  :frame -> '$.r.destination.addresses', now_ms()";

/* A few addresses are enough to dial; all were judged. */
static const char PIN[] =
    "SELECT host || ':' || port || ':' || group_concat(iif(instr(value, ':'), '[' || value || ']', value))"
    "  FROM (SELECT d.host, d.port, a.value FROM verb_dial AS d, json_each(d.addresses) AS a"
    "         WHERE d.op_run_id = :id ORDER BY a.key LIMIT 6)";

static const char EXIT[] = "SELECT exit_code FROM refusal WHERE code = :code";

static const char RUNNING[] =
    "UPDATE op_run SET state = 'running', started_at = now_ms() WHERE id = :id";

static const char WALK[] = "INSERT INTO folder_walk (op_run_id) VALUES (:id)";
static const char WALK_MOVE[] =
    "UPDATE folder_walk SET state = :state WHERE op_run_id = :id AND state <> :state";

struct worker {
	struct actor_env *env;
	struct runner runner;
	struct pool *pool; /* sessions */
	struct programs *programs;
	struct scans *scans;
	uint64_t due; /* timer of the next schedule */
	struct keep contained;
	struct contain_order *order; /* what became of it is not written yet */
	struct run *runs;
	int live;
	bool draining;
};

/* A frame that is not committed yet. */
struct frame {
	struct frame *next;
	size_t len;
	char text[];
};

struct run {
	struct run *next, **self;
	struct worker *worker;
	int64_t id;
	uint64_t process; /* the runner's number for it */
	int fd;           /* of its answer; -1 once it is read to its end */
	struct pump pump;
	struct frame *frames, **last;
	uint64_t timer, hold;
	struct keep keep;
	int exit_code; /* -1 while it runs */
	bool walk, late, left, answered, cancelled;
	bool looks; /* of a verb that reaches out: it finds out where to */
};

/* What a row of op_run asks for. */
struct asked {
	int64_t id;
	char op[65], word[2][OBSERVE_ARG_MAX];
	int n, dry;
};

void
worker_limits(const struct actor_env *of, struct observe_limits *limits, struct observe_env *env)
{
	struct store *db = of->db;

	observe_defaults(limits, env);
	snprintf(env->keep[0], sizeof(env->keep[0]), "%s", of->home->state);
	snprintf(env->keep[1], sizeof(env->keep[1]), "%s", of->home->run);
	limits->folders_max = store_setting(db, "folders.max");
	limits->folders_budget_ms = store_setting(db, "folders.budget_ms");
	limits->journal_lines = store_setting(db, "journal.lines");
	limits->journal_bytes = store_setting(db, "journal.bytes");
	limits->logins_lines = store_setting(db, "logins.lines");
	limits->logins_ranked = store_setting(db, "logins.ranked");
	limits->rows_max = store_setting(db, "observe.rows");
	limits->cert_ms = store_setting(db, "cert.wait_ms");
	limits->image_bytes = store_setting(db, "act.image_bytes");
	limits->tool_ms = store_setting(db, "op.tool_ms");
	limits->frame_max = store_setting(db, "op.frame");
	limits->memory_max = store_setting(db, "op.memory");
	limits->kill_ms = store_setting(db, "op.kill_ms");
}

static void
complain(struct worker *w, const char *what)
{
	fprintf(stderr, "bastion: worker: %s: %s\n", what, store_refusal(w->env->db)->why);
}

static void
frames_free(struct run *run)
{
	struct frame *f;

	while ((f = run->frames) != NULL) {
		run->frames = f->next;
		free(f);
	}
	run->last = &run->frames;
}

static void
run_free(struct run *run)
{
	*run->self = run->next;
	if (run->next != NULL)
		run->next->self = run->self;
	frames_free(run);
	if (run->fd != -1) {
		loop_del(run->worker->env->loop, run->fd);
		close(run->fd);
	}
	loop_cancel(run->worker->env->loop, run->timer);
	loop_cancel(run->worker->env->loop, run->hold);
	keep_drop(&run->keep);
	pump_free(&run->pump);
	if (!run->left)
		run->worker->live--;
	free(run);
}

/*
 * Committing what a run answered.
 */

static int
frames_insert(struct store *db, struct run *run)
{
	struct frame *f;

	for (f = run->frames; f != NULL; f = f->next)
		if (op_run_frame(db, run->id, f->text, f->len) != 0)
			return -1;
	return 0;
}

static int
walk_move(struct store *db, struct run *run, const char *state)
{
	struct stmt *q;

	if (!run->walk)
		return 0;
	if ((q = store_sql(db, WALK_MOVE)) == NULL)
		return -1;
	stmt_int(q, ":id", run->id);
	stmt_text(q, ":state", state);
	return stmt_run(q);
}

/* Frames alone may be lost with the power, the newest first; with the end of the run they are
 * durable. */
static int
run_commit(struct run *run, bool ended)
{
	struct store *db = run->worker->env->db;

	if ((ended ? store_begin(db) : store_begin_soft(db)) != 0)
		return -1;
	if (frames_insert(db, run) != 0 ||
	    (ended && (walk_move(db, run, run->left ? "stuck" : "done") != 0 ||
			  op_run_finish(db, run->id, run->exit_code) != 0)))
		return store_rollback(db);
	if (store_commit(db) != 0)
		return -1;
	frames_free(run);
	return 0;
}

static void claim(struct worker *w);
static bool run_goes_on(struct run *run);
static void run_say(struct run *run, const char *code, const char *why);
static void worker_wake(struct actor_env *env);

/* Nothing of it runs, so a drain is over. */
static void
worker_idle(void *ctx)
{
	struct worker *w = ctx;

	if (w->draining && w->live == 0 && w->order == NULL && programs_live(w->programs) == 0 &&
	    pool_idle(w->pool))
		loop_stop(w->env->loop);
}

static void
program_ended(void *ctx)
{
	struct worker *w = ctx;

	if (w->draining)
		worker_idle(w);
	else
		claim(w);
}

/* An answer that a rule refuses is left out, and that is said; for the rest there may be room
 * later. */
static int
run_write(void *ctx)
{
	struct run *run = ctx;
	struct refusal r;

	if (run_commit(run, true) == 0)
		return 0;
	r = *store_refusal(run->worker->env->db);
	if (run->frames == NULL || keep_passes(&r))
		return -1;
	complain(run->worker, "an answer could not be kept");
	frames_free(run);
	run_say(run, r.code, r.why);
	run->exit_code = run->exit_code != 0 ? run->exit_code : 1;
	return run_commit(run, true);
}

static void
run_written(void *ctx)
{
	struct run *run = ctx;
	struct worker *w = run->worker;

	if (run->left)
		w->live--; /* remembered until the kernel lets go of it */
	else
		run_free(run);
	if (w->draining)
		worker_idle(w);
	else
		claim(w);
}

/* It ended, or was left behind, and all that it said is here.  Until that is written it holds its
 * place. */
static void
run_end(struct run *run)
{
	struct worker *w = run->worker;

	if (run->looks && run_goes_on(run))
		return;
	loop_cancel(w->env->loop, run->timer);
	loop_cancel(w->env->loop, run->hold);
	run->timer = run->hold = 0;
	run->keep = (struct keep){.env = w->env,
	    .what = "the end of a run",
	    .write = run_write,
	    .written = run_written,
	    .ctx = run};
	keep_now(&run->keep);
}

static int
frame_keep(void *ctx, const char *text, size_t len)
{
	struct run *run = ctx;
	struct frame *f;

	if ((f = malloc(sizeof(*f) + len)) == NULL)
		return -1;
	if (len > 4 && memcmp(text, "{\"r\"", 4) == 0)
		run->answered = true;
	f->next = NULL;
	f->len = len;
	memcpy(f->text, text, len);
	*run->last = f;
	run->last = &f->next;
	return 0;
}

static void
run_flush(void *ctx)
{
	struct run *run = ctx;

	run->hold = 0;
	if (run->frames != NULL && run_commit(run, false) != 0)
		complain(run->worker, "an answer could not be kept");
}

/* It has said all and does not end: a walk that a dead file system holds. */
static void
run_lingers(void *ctx)
{
	struct run *run = ctx;

	run->timer = 0;
	runner_kill(&run->worker->runner, run->process);
}

static void
answer_ends(struct run *run)
{
	struct worker *w = run->worker;

	loop_del(w->env->loop, run->fd);
	close(run->fd);
	run->fd = -1;
	loop_cancel(w->env->loop, run->timer);
	run->timer =
	    loop_after(w->env->loop, store_setting(w->env->db, "op.kill_ms"), run_lingers, run);
}

/* Output is committed as it comes. A result is the last word: the end of the run, and one commit
 * for both, follow. */
static void
answer_read(void *ctx, uint32_t events)
{
	struct run *run = ctx;
	struct actor_env *env = run->worker->env;

	(void)events;
	if (pump_read(&run->pump) != 1)
		answer_ends(run);
	if (run->fd == -1 && run->exit_code != -1)
		run_end(run);
	else if (!run->answered)
		run_flush(run);
	else if (run->hold == 0 && !run->looks)
		run->hold =
		    loop_after(env->loop, store_setting(env->db, "op.gather_ms"), run_flush, run);
}

/*
 * Starting a run, and its end.
 */

static void
run_say(struct run *run, const char *code, const char *why)
{
	static const char FORMAT[] =
	    "SELECT json_object('e', json_object('code', :code, 'why', :why))";
	struct stmt *q = store_sql(run->worker->env->db, FORMAT);

	if (q == NULL)
		return;
	stmt_text(q, ":code", code);
	stmt_text(q, ":why", why);
	if (stmt_step(q) == 1)
		frame_keep(run, stmt_get_text(q, 0), strlen(stmt_get_text(q, 0)));
	stmt_done(q);
}

static void
run_late(void *ctx)
{
	struct run *run = ctx;

	run->timer = 0;
	run->late = true;
	runner_kill(&run->worker->runner, run->process);
}

/* What the row says becomes a process, which reaches out to ${pin} alone, or finds out where to
 * (""). A run that cannot start has ended. */
static int
run_start(struct run *run, const struct asked *asked, const char *pin)
{
	static struct observe_args args; /* large */
	const struct observe_word words[] = {
	    {asked->word[0], strlen(asked->word[0])}, {asked->word[1], strlen(asked->word[1])}};
	const struct observe_op *op = observe_find(asked->op);
	struct worker *w = run->worker;
	struct observe_limits limits;
	struct observe_env env;
	struct refusal r = {.code = "op.start", .why = "the run could not be started"};
	bool acts = op != NULL && op->acts;
	int rc;

	worker_limits(w->env, &limits, &env);
	/* What is half done when its time is over may be worse than not begun. */
	if (acts)
		limits.tool_ms = store_setting(w->env->db, "act.tool_ms");
	rc = observe_check(asked->op, asked->n, words, &args, &r);
	args.dry = asked->dry;
	snprintf(args.pin, sizeof(args.pin), "%s", pin);
	run->looks = op != NULL && op->dials && pin[0] == '\0';
	if (rc != 0 ||
	    runner_spawn(&w->runner, op, &args, &limits, &env, &run->fd, &run->process, &r) != 0) {
		run->fd = -1;
		run->exit_code = 1;
		run->looks = false;
		run_say(run, r.code, r.why);
		return -1;
	}
	pump_init(&run->pump, run->fd, limits.frame_max, store_setting(w->env->db, "op.output"),
	    frame_keep, run);
	run->timer = loop_after(w->env->loop,
	    store_setting(w->env->db, acts ? "act.time_ms" : "op.time_ms"), run_late, run);
	return loop_add(w->env->loop, run->fd, EPOLLIN, answer_read, run);
}

static struct run *
run_new(struct worker *w, int64_t id, bool walk)
{
	struct run *run;

	if ((run = calloc(1, sizeof(*run))) == NULL)
		return NULL;
	*run = (struct run){.worker = w, .id = id, .fd = -1, .exit_code = -1, .walk = walk};
	run->last = &run->frames;
	run->next = w->runs;
	run->self = &w->runs;
	if (run->next != NULL)
		run->next->self = &run->next;
	w->runs = run;
	w->live++;
	return run;
}

/* The row that authorises the run is durable already; this says that it began, before it does. */
static int
mark_running(struct store *db, int64_t id, bool walk)
{
	struct stmt *q;

	if (store_begin_soft(db) != 0)
		return -1;
	if ((q = store_sql(db, RUNNING)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	if (walk && (q = store_sql(db, WALK)) != NULL) {
		stmt_int(q, ":id", id);
		if (stmt_run_one(q) != 0)
			return store_rollback(db);
	}
	return store_commit(db);
}

/* The next row of ${q}.  Return 1, 0 without one, -1 on failure. */
static int
asked_read(struct stmt *q, struct asked *asked)
{
	int i, n;

	if ((n = stmt_step(q)) != 1)
		return n;
	asked->id = stmt_get_int(q, 0);
	snprintf(asked->op, sizeof(asked->op), "%s", stmt_get_text(q, 1));
	for (i = 0; i < 2; i++)
		snprintf(asked->word[i], sizeof(asked->word[i]), "%s", stmt_get_text(q, 2 + i));
	asked->n = (int)stmt_get_int(q, 4);
	asked->dry = (int)stmt_get_int(q, 5);
	stmt_done(q);
	return 1;
}

/* Have the database judge where ${run} wants to reach, durably before it does.  Return 0 with
 * ${pin}, or -1. */
static int
run_dials(struct run *run, char pin[OBSERVE_PIN_MAX])
{
	struct store *db = run->worker->env->db;
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, DIAL)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", run->id);
	stmt_text_n(q, ":frame", run->frames->text, run->frames->len);
	if (stmt_run_one(q) != 0 || (q = store_sql(db, PIN)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", run->id);
	if (stmt_step(q) != 1)
		return store_rollback(db);
	snprintf(pin, OBSERVE_PIN_MAX, "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return store_commit(db);
}

static int
exit_of_code(struct store *db, const char *code)
{
	struct stmt *q = store_sql(db, EXIT);
	int64_t n;

	if (q == NULL)
		return 1;
	stmt_text(q, ":code", code);
	n = stmt_value(q, 1);
	return n > 0 && n < 256 ? (int)n : 1;
}

/* It found out where to reach: the same again, held to that.  Return false where it has ended. */
static bool
run_goes_on(struct run *run)
{
	static struct asked asked; /* large */
	struct worker *w = run->worker;
	struct store *db = w->env->db;
	char pin[OBSERVE_PIN_MAX];
	struct refusal r;
	struct stmt *q;

	run->looks = false;
	if (run->exit_code != 0 || run->left)
		return false;
	/* Taken back in between: to have looked is not to have done it. */
	if (w->draining || run->cancelled || run->frames == NULL) {
		frames_free(run);
		run->exit_code = 128 + SIGKILL;
		return false;
	}
	if (run_dials(run, pin) != 0 || (q = store_sql(db, AGAIN)) == NULL) {
		r = *store_refusal(db);
		frames_free(run);
		run_say(run, r.code, r.why);
		run->exit_code = exit_of_code(db, r.code);
		return false;
	}
	stmt_int(q, ":id", run->id);
	frames_free(run);
	pump_free(&run->pump);
	loop_cancel(w->env->loop, run->timer);
	run->timer = 0;
	run->answered = false;
	run->exit_code = -1;
	if (asked_read(q, &asked) == 1)
		return run_start(run, &asked, pin) == 0;
	run->exit_code = 1;
	return false;
}

/* Take the oldest run that waits.  Return 1, 0 without one, -1 on failure. */
static int
claim_one(struct worker *w)
{
	static struct asked asked; /* large */
	struct store *db = w->env->db;
	struct run *run;
	struct stmt *q;
	bool walk;
	int n;

	if ((q = store_sql(db, QUEUED)) == NULL)
		return -1;
	if ((n = asked_read(q, &asked)) != 1)
		return n;
	walk = strcmp(asked.op, "observe:folders") == 0;
	if (observe_find(asked.op) == NULL)
		return mark_running(db, asked.id, false) == 0 &&
			       programs_take(w->programs, asked.id) == 0
			   ? 1
			   : -1;
	if (mark_running(db, asked.id, walk) != 0 || (run = run_new(w, asked.id, walk)) == NULL)
		return -1;
	if (run_start(run, &asked, "") != 0)
		run_end(run);
	return 1;
}

static void
claim(struct worker *w)
{
	int n = 1;

	while (n == 1 && !w->draining &&
	       w->live + programs_live(w->programs) < store_setting(w->env->db, "op.parallel"))
		n = claim_one(w);
	if (n == -1)
		complain(w, "a run could not be taken");
}

/* A run that a signal ended has failed as a shell would say it; one over its time says so. */
static int
exit_of(struct run *run, const struct runner_event *event)
{
	if (event->kind == RUNNER_REFUSED) {
		run_say(run, "op.start", "the process could not be made");
		return 1;
	}
	if (event->kind == RUNNER_LEFT && run->answered)
		return 0;
	if (run->late) {
		run_say(run, "op.time",
		    "the run took longer than op.time_ms allows, or act.time_ms where it acts");
		return 124;
	}
	return WIFEXITED(event->status) ? WEXITSTATUS(event->status)
					: 128 + WTERMSIG(event->status);
}

static int
walk_write(void *ctx)
{
	struct run *run = ctx;
	struct store *db = run->worker->env->db;

	if (store_begin(db) != 0)
		return -1;
	return walk_move(db, run, "done") == 0 ? store_commit(db) : store_rollback(db);
}

static void
walk_written(void *ctx)
{
	run_free(ctx);
}

/* The kernel let go of what was left behind: its walk no longer counts against new ones. */
static void
run_let_go(struct run *run)
{
	if (keep_waits(&run->keep)) { /* its end, which then says so as well */
		run->left = false;
		return;
	}
	run->keep = (struct keep){.env = run->worker->env,
	    .what = "that a walk is over",
	    .write = walk_write,
	    .written = walk_written,
	    .ctx = run};
	keep_now(&run->keep);
}

static void
run_told(struct run *run, const struct runner_event *event)
{
	if (run->left) {
		run_let_go(run);
		return;
	}
	run->left = event->kind == RUNNER_LEFT;
	if (run->left && run->fd != -1)
		pump_read(&run->pump);
	run->exit_code = exit_of(run, event);
	if (run->left && run->fd != -1) {
		loop_del(run->worker->env->loop, run->fd);
		close(run->fd);
		run->fd = -1;
	}
	if (run->fd == -1)
		run_end(run);
	else
		answer_read(run, 0);
}

static struct run *
run_find(struct worker *w, uint64_t process)
{
	struct run *run;

	for (run = w->runs; run != NULL && run->process != process; run = run->next)
		;
	return run;
}

/* Runs that were taken back are asked to end; what they had done by then is done. */
static void
cancel(struct worker *w)
{
	struct run *run;
	int64_t id = 0;

	while ((id = op_run_next_cancelled(w->env->db, id)) != 0) {
		for (run = w->runs; run != NULL && run->id != id; run = run->next)
			;
		if (run != NULL && !run->cancelled && !run->left)
			runner_kill(&w->runner, run->process);
		if (run != NULL)
			run->cancelled = true;
		programs_cancel(w->programs, id);
	}
}

static void
runner_told(void *ctx, uint32_t events)
{
	struct worker *w = ctx;
	struct runner_event event;
	struct run *run;
	int n;

	(void)events;
	while ((n = runner_event(&w->runner, &event)) == 1)
		if (pool_told(w->pool, &event) || scans_event(w->scans, &event))
			continue;
		else if ((run = run_find(w, event.id)) != NULL)
			run_told(run, &event);
		else if (!programs_event(w->programs, &event))
			runner_event_drop(&event); /* of one that was given up */
	if (n == 0)
		return;
	/* Without it nothing can run: a new worker comes with a new one, and our runs read as lost.
	 */
	fprintf(stderr, "bastion: worker: the runner ended\n");
	exit(1);
}

static int
order_write(void *ctx)
{
	struct worker *w = ctx;

	return contain_write(w->env->db, w->order);
}

static void
order_written(void *ctx)
{
	struct worker *w = ctx;

	contain_order_free(w->order);
	w->order = NULL;
	worker_idle(w);
}

/* What a Host ordered to be stopped.  It is short, and done before anything else is looked at. */
static void
contain(struct worker *w)
{
	int n = 1;

	while (n == 1 && !w->draining && w->order == NULL) {
		if ((n = contain_run(w->env->db, &w->order)) != 1)
			continue;
		w->contained = (struct keep){.env = w->env,
		    .what = "what became of an order",
		    .write = order_write,
		    .written = order_written,
		    .ctx = w};
		keep_now(&w->contained);
	}
	if (n == -1)
		complain(w, "an order could not be carried out");
}

static void
schedules_due(void *ctx)
{
	struct actor_env *env = ctx;
	struct worker *w = env->ctx;

	w->due = 0;
	worker_wake(env);
}

/* What begins by itself, and a timer for what does next; the slow tick sees a clock that was set.
 */
static void
schedules(struct worker *w)
{
	int64_t wait;
	int n = 1;

	while (n == 1 && !w->draining)
		n = schedule_fire(w->env->db);
	if (n == -1)
		complain(w, "a schedule could not begin");
	wait = schedule_wait(w->env->db);
	loop_cancel(w->env->loop, w->due);
	w->due = wait > 0 && wait != SCHEDULE_NEVER
		     ? loop_after(w->env->loop, wait, schedules_due, w->env)
		     : 0;
}

static void
worker_wake(struct actor_env *env)
{
	struct worker *w = env->ctx;

	contain(w);
	cancel(w);
	claim(w);
	schedules(w);
	pool_wake(w->pool);
	scans_wake(w->scans);
}

static void
worker_stop(struct actor_env *env)
{
	struct worker *w = env->ctx;

	if (w == NULL)
		return;
	loop_cancel(env->loop, w->due);
	keep_drop(&w->contained);
	contain_order_free(w->order);
	pool_free(w->pool);
	programs_free(w->programs);
	scans_free(w->scans);
	while (w->runs != NULL)
		run_free(w->runs);
	if (w->runner.pid > 0)
		runner_stop(&w->runner);
	free(w);
	env->ctx = NULL;
}

static int
worker_start(struct actor_env *env, struct refusal *r)
{
	struct observe_limits limits;
	struct observe_env tools;
	struct worker *w;

	if ((w = calloc(1, sizeof(*w))) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	env->ctx = w;
	w->env = env;
	observe_defaults(&limits, &tools);
	if (probe_write(env->db, &tools) != 0)
		complain(w, "what this machine can run could not be kept");
	w->programs = programs_new(env, &w->runner, program_ended, w);
	w->scans = scans_new(env, &w->runner, "");
	if (w->programs != NULL && w->scans != NULL &&
	    (w->pool = pool_new(env, &w->runner, worker_idle, w, r)) != NULL &&
	    runner_start(&w->runner, "/proc/self/exe", r) == 0 &&
	    loop_add(env->loop, runner_fd(&w->runner), EPOLLIN, runner_told, w) == 0)
		return 0;
	worker_stop(env);
	return -1;
}

static void
worker_drain(struct actor_env *env)
{
	struct worker *w = env->ctx;
	struct run *run;

	w->draining = true;
	for (run = w->runs; run != NULL; run = run->next)
		runner_kill(&w->runner, run->process);
	programs_drain(w->programs);
	pool_drain(w->pool);
	scans_drain(w->scans);
	worker_idle(w);
}

const struct actor actor_worker = {
    .name = "worker",
    .role = ROLE_WORKER,
    .secret = SECRET_TOKEN,
    .box = true,
    .host = false,
    .filtered = false,
    .serves = true,
    .start = worker_start,
    .wake = worker_wake,
    .drain = worker_drain,
    .stop = worker_stop,
};
