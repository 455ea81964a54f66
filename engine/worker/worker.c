/* worker.c: take queued runs, start them through the runner, and commit what they answer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/worker/act.h"
#include "engine/worker/contain_run.h"
#include "engine/worker/observe.h"
#include "engine/worker/pool.h"
#include "engine/worker/probe.h"
#include "engine/worker/pump.h"
#include "engine/worker/runner.h"
#include "engine/worker/worker.h"

static const char QUEUED[] =
    "SELECT id, op, args ->> 0, args ->> 1, json_array_length(args), dry FROM op_run"
    " WHERE state = 'queued' AND finished_at IS NULL ORDER BY id LIMIT 1";

static const char KNOWN[] = "SELECT count(*) FROM verb_support WHERE verb = :verb AND why = :why";

static const char PROBED[] =
    "INSERT INTO verb_support (verb, works, why, probed_at) VALUES (:verb, :why = '', :why, now_ms())"
    " ON CONFLICT (verb) DO UPDATE SET works = excluded.works, why = excluded.why,"
    "   probed_at = excluded.probed_at";

static const char RUNNING[] =
    "UPDATE op_run SET state = 'running', started_at = now_ms() WHERE id = :id";

static const char WALK[] = "INSERT INTO folder_walk (op_run_id) VALUES (:id)";
static const char WALK_MOVE[] =
    "UPDATE folder_walk SET state = :state WHERE op_run_id = :id AND state <> :state";

static const char FRAME[] = "INSERT INTO op_output (op_run_id, seq, frame)"
			    " SELECT id, last_seq + 1, :frame FROM op_run WHERE id = :id";

static const char FINISHED[] =
    "UPDATE op_run SET state = iif(:exit = 0, 'done', 'failed'), exit_code = :exit, finished_at = now_ms()"
    " WHERE id = :id";

struct worker {
	struct actor_env *env;
	struct runner runner;
	struct pool *pool; /* sessions */
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
	int exit_code; /* -1 while it runs */
	bool walk, late, left, answered;
};

static void
limits_read(const struct actor_env *of, struct observe_limits *limits, struct observe_env *env)
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
	limits->tool_ms = store_setting(db, "op.tool_ms");
	limits->frame_max = store_setting(db, "op.frame");
	limits->memory_max = store_setting(db, "op.memory");
	limits->kill_ms = store_setting(db, "op.kill_ms");
}

/* Keep what was found about ${verb}, in a transaction of its own; mostly it is known already. */
static int
probe_keep(struct store *db, const char *verb, const char *why)
{
	struct stmt *q;

	if ((q = store_sql(db, KNOWN)) == NULL)
		return -1;
	stmt_text(q, ":verb", verb);
	stmt_text(q, ":why", why);
	if (stmt_value(q, 0) == 1)
		return 0;
	if (store_begin_soft(db) != 0)
		return -1;
	if ((q = store_sql(db, PROBED)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":verb", verb);
	stmt_text(q, ":why", why);
	return stmt_run(q) == 0 ? store_commit(db) : store_rollback(db);
}

/* Look of each verb whether this machine has what it needs.  Return 0 or -1. */
static int
probe(const struct actor_env *of)
{
	const struct act_verb *verb;
	struct observe_limits limits;
	struct observe_env env;
	char why[REFUSAL_WHY_MAX];
	size_t i;

	limits_read(of, &limits, &env);
	for (i = 0; (verb = act_verb_at(i)) != NULL; i++) {
		act_verb_works(verb, &env, why, sizeof(why));
		if (probe_keep(of->db, verb->name, why) != 0)
			return -1;
	}
	return 0;
}

static void
complain(struct worker *w, const char *what)
{
	fprintf(stderr, "bastion: worker: %s: %s\n", what, store_refusal(w->env->db)->why);
}

static void
run_free(struct run *run)
{
	struct frame *f;

	*run->self = run->next;
	if (run->next != NULL)
		run->next->self = run->self;
	while ((f = run->frames) != NULL) {
		run->frames = f->next;
		free(f);
	}
	if (run->fd != -1) {
		loop_del(run->worker->env->loop, run->fd);
		close(run->fd);
	}
	loop_cancel(run->worker->env->loop, run->timer);
	loop_cancel(run->worker->env->loop, run->hold);
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
	struct stmt *q;

	for (f = run->frames; f != NULL; f = f->next) {
		if ((q = store_sql(db, FRAME)) == NULL)
			return -1;
		stmt_int(q, ":id", run->id);
		stmt_text_n(q, ":frame", f->text, f->len);
		if (stmt_run_one(q) != 0)
			return -1;
	}
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

static int
finish_insert(struct store *db, struct run *run)
{
	struct stmt *q;

	if ((q = store_sql(db, FINISHED)) == NULL)
		return -1;
	stmt_int(q, ":id", run->id);
	stmt_int(q, ":exit", run->exit_code);
	return stmt_run_one(q);
}

/* Frames alone may be lost with the power, the newest first; with the end of the run they are
 * durable. */
static int
run_commit(struct run *run, bool ended)
{
	struct store *db = run->worker->env->db;
	struct frame *f;

	if ((ended ? store_begin(db) : store_begin_soft(db)) != 0)
		return -1;
	if (frames_insert(db, run) != 0 ||
	    (ended && (walk_move(db, run, run->left ? "stuck" : "done") != 0 ||
			  finish_insert(db, run) != 0)))
		return store_rollback(db);
	if (store_commit(db) != 0)
		return -1;
	while ((f = run->frames) != NULL) {
		run->frames = f->next;
		free(f);
	}
	run->last = &run->frames;
	return 0;
}

static void claim(struct worker *w);

/* Nothing of it runs, so a drain is over. */
static void
worker_idle(void *ctx)
{
	struct worker *w = ctx;

	if (w->draining && w->live == 0 && pool_idle(w->pool))
		loop_stop(w->env->loop);
}

/* It ended, or was left behind, and all that it said is here. */
static void
run_end(struct run *run)
{
	struct worker *w = run->worker;

	if (run_commit(run, true) != 0)
		complain(w, "the end of a run could not be kept");
	if (run->left) {
		w->live--; /* remembered until the kernel lets go of it */
		loop_cancel(w->env->loop, run->timer);
		loop_cancel(w->env->loop, run->hold);
		run->timer = run->hold = 0;
	} else {
		run_free(run);
	}
	if (w->draining)
		worker_idle(w);
	else
		claim(w);
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
	else if (run->hold == 0)
		run->hold =
		    loop_after(env->loop, store_setting(env->db, "op.gather_ms"), run_flush, run);
}

/*
 * Starting a run, and its end.
 */

static void
run_say(struct run *run, const char *code, const char *why)
{
	char frame[512];
	int n =
	    snprintf(frame, sizeof(frame), "{\"e\":{\"code\":\"%s\",\"why\":\"%s\"}}", code, why);

	frame_keep(run, frame, (size_t)n);
}

static void
run_late(void *ctx)
{
	struct run *run = ctx;

	run->timer = 0;
	run->late = true;
	runner_kill(&run->worker->runner, run->process);
}

/* What the row says becomes a process.  A run that cannot start has ended. */
static int
run_start(struct run *run, const char *op, int n, const struct observe_word *words, int dry)
{
	static struct observe_args args; /* large */
	struct worker *w = run->worker;
	struct observe_limits limits;
	struct observe_env env;
	struct refusal r = {.code = "op.start", .why = "the run could not be started"};
	bool acts;
	int rc;

	limits_read(w->env, &limits, &env);
	/* What is half done when its time is over may be worse than not begun. */
	acts = observe_find(op) != NULL && observe_find(op)->acts;
	if (acts)
		limits.tool_ms = store_setting(w->env->db, "act.tool_ms");
	rc = observe_check(op, n, words, &args, &r);
	args.dry = dry;
	if (rc != 0 || runner_spawn(&w->runner, observe_find(op), &args, &limits, &env, &run->fd,
			   &run->process, &r) != 0) {
		run->fd = -1;
		run->exit_code = 1;
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

/* Take the oldest run that waits.  Return 1, 0 without one, -1 on failure. */
static int
claim_one(struct worker *w)
{
	struct store *db = w->env->db;
	char op[65], a[OBSERVE_ARG_MAX], b[OBSERVE_ARG_MAX];
	struct observe_word words[2];
	struct run *run;
	struct stmt *q;
	int64_t id;
	int n, count, dry;
	bool walk;

	if ((q = store_sql(db, QUEUED)) == NULL)
		return -1;
	if ((n = stmt_step(q)) != 1)
		return n;
	id = stmt_get_int(q, 0);
	snprintf(op, sizeof(op), "%s", stmt_get_text(q, 1));
	snprintf(a, sizeof(a), "%s", stmt_get_text(q, 2));
	snprintf(b, sizeof(b), "%s", stmt_get_text(q, 3));
	count = (int)stmt_get_int(q, 4);
	dry = (int)stmt_get_int(q, 5);
	stmt_done(q);
	words[0] = (struct observe_word){a, strlen(a)};
	words[1] = (struct observe_word){b, strlen(b)};
	walk = strcmp(op, "observe:folders") == 0;
	if (mark_running(db, id, walk) != 0 || (run = run_new(w, id, walk)) == NULL)
		return -1;
	if (run_start(run, op, count, words, dry) != 0)
		run_end(run);
	return 1;
}

static void
claim(struct worker *w)
{
	int n = 1;

	while (n == 1 && !w->draining && w->live < store_setting(w->env->db, "op.parallel"))
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

/* The kernel let go of what was left behind: its walk no longer counts against new ones. */
static void
run_let_go(struct run *run)
{
	struct store *db = run->worker->env->db;

	if (store_begin(db) == 0 && (walk_move(db, run, "done") != 0 || store_commit(db) != 0))
		store_rollback(db);
	run_free(run);
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

static void
runner_told(void *ctx, uint32_t events)
{
	struct worker *w = ctx;
	struct runner_event event;
	struct run *run;
	int n;

	(void)events;
	while ((n = runner_event(&w->runner, &event)) == 1)
		if (!pool_told(w->pool, &event) && (run = run_find(w, event.id)) != NULL)
			run_told(run, &event);
	if (n == 0)
		return;
	/* Without it nothing can run: a new worker comes with a new one, and our runs read as lost.
	 */
	fprintf(stderr, "bastion: worker: the runner ended\n");
	exit(1);
}

/* What a Host ordered to be stopped.  It is short, and done before anything else is looked at. */
static void
contain(struct worker *w)
{
	int n = 1;

	while (n == 1 && !w->draining)
		n = contain_run(w->env->db);
	if (n == -1)
		complain(w, "an order could not be carried out");
}

static void
worker_wake(struct actor_env *env)
{
	struct worker *w = env->ctx;

	contain(w);
	claim(w);
	pool_wake(w->pool);
}

static void
worker_stop(struct actor_env *env)
{
	struct worker *w = env->ctx;

	if (w == NULL)
		return;
	pool_free(w->pool);
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
	if (probe(env) != 0) {
		*r = *store_refusal(env->db);
		free(w);
		env->ctx = NULL;
		return -1;
	}
	if ((w->pool = pool_new(env, &w->runner, worker_idle, w, r)) != NULL &&
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
	pool_drain(w->pool);
	worker_idle(w);
}

const struct actor actor_worker = {
    .name = "worker",
    .role = ROLE_WORKER,
    .secret = SECRET_NONE,
    .box = true,
    .host = false,
    .filtered = false,
    .start = worker_start,
    .wake = worker_wake,
    .drain = worker_drain,
    .stop = worker_stop,
};
