/* scan.c: have looks made when they are due, and keep what they saw. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/worker/pump.h"
#include "engine/worker/scan.h"
#include "engine/worker/worker.h"

#define KINDS 2

static const char DUE[] = "SELECT max(0, at - now_ms()) FROM agent_scan_due WHERE kind = :kind";

static const char BEGIN[] =
    "INSERT INTO agent_scan (kind, of_id, began_at)"
    " VALUES (:kind, iif(:kind = 'processes', (SELECT id FROM agent_declared), NULL), now_ms())"
    " RETURNING id";

static const char STUCK[] =
    "UPDATE agent_scan SET state = 'stuck' WHERE id = :id AND state = 'reading'";

/* What comes late is not taken, and what nobody wants any more neither. */
static const char END[] =
    "UPDATE agent_scan SET ended_at = now_ms(),"
    "    state = CASE WHEN dropped THEN 'dropped' WHEN state = 'stuck' OR :frame IS NULL"
    "                 THEN 'failed' ELSE 'done' END,"
    "    result = iif(dropped OR state = 'stuck', NULL, :frame -> '$.r')"
    " WHERE id = :id AND ended_at IS NULL";

/* In the order of the list, since the answer counts. */
static const char WHATS[] =
    "SELECT group_concat(iif(v.value ->> '$.transport' = 'stdio' AND v.value ->> '$.what' <> '***',"
    "    replace(v.value ->> '$.what', char(10), ' '), '') || char(10), '')"
    "  FROM agent_scan AS p JOIN agent_scan AS d ON d.id = p.of_id, json_each(d.result, '$.servers') AS v"
    " WHERE p.id = :id";

static const char OWN[] =
    "SELECT coalesce(group_concat(p.pid, ' '), '') FROM process AS p"
    "  JOIN actor_run AS a ON a.process_id = p.id WHERE a.state IN ('starting', 'running')";

/* One look, or none. */
struct scan {
	struct scans *of;
	const char *kind, *name;
	int64_t id;
	uint64_t process; /* the runner's number for it; 0: there is none */
	int fd;
	struct pump pump;
	char *frame; /* its result */
	size_t len;
	uint64_t timer; /* when its time is over */
};

struct scans {
	struct actor_env *env;
	struct runner *runner;
	const char *root;
	struct scan kinds[KINDS];
	uint64_t due;
	bool draining;
};

static void
complain(const struct refusal *r)
{
	fprintf(
	    stderr, "bastion: worker: agents could not be looked at: %s [%s]\n", r->why, r->code);
}

/* Run ${sql} for the row of ${k} in a transaction; with its result, where it has one. */
static void
keep(struct scan *k, const char *sql, bool frame)
{
	struct store *db = k->of->env->db;
	struct stmt *q;

	if (store_begin_soft(db) != 0 || (q = store_sql(db, sql)) == NULL)
		goto failed;
	stmt_int(q, ":id", k->id);
	if (frame && k->frame != NULL)
		stmt_text_n(q, ":frame", k->frame, k->len);
	if (stmt_run(q) == 0 && store_commit(db) == 0)
		return;
failed:
	store_rollback(db);
	complain(store_refusal(db));
}

static void
frame_drop(struct scan *k)
{
	free(k->frame);
	k->frame = NULL;
	k->len = 0;
}

static int
frame_take(void *ctx, const char *frame, size_t len)
{
	struct scan *k = ctx;

	frame_drop(k);
	if (len < 6 || memcmp(frame, "{\"r\":{", 6) != 0 || (k->frame = malloc(len)) == NULL)
		return -1;
	memcpy(k->frame, frame, len);
	k->len = len;
	return 0;
}

static void
fd_close(struct scan *k)
{
	if (k->fd == -1)
		return;
	loop_del(k->of->env->loop, k->fd);
	pump_free(&k->pump);
	close(k->fd);
	k->fd = -1;
}

/* The process is gone: what it did not say by now, it does not say. */
static void
scan_end(struct scan *k, bool answered)
{
	loop_cancel(k->of->env->loop, k->timer);
	if (k->fd != -1)
		pump_read(&k->pump);
	fd_close(k);
	if (!answered)
		frame_drop(k);
	keep(k, END, true);
	frame_drop(k);
	k->timer = 0;
	k->process = 0;
}

static void
scan_late(void *ctx)
{
	struct scan *k = ctx;

	k->timer = 0;
	keep(k, STUCK, false);
	runner_kill(k->of->runner, k->process);
}

static void
scan_read(void *ctx, uint32_t events)
{
	struct scan *k = ctx;

	(void)events;
	if (pump_read(&k->pump) != 1)
		fd_close(k);
}

/* The row that allows the look, durable before it begins.  Return 0 or -1. */
static int
scan_row(struct scan *k)
{
	struct store *db = k->of->env->db;
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, BEGIN)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":kind", k->kind);
	if ((k->id = stmt_value(q, -1)) == -1)
		return store_rollback(db);
	return store_commit(db);
}

static void
words_make(struct store *db, struct observe_args *args)
{
	struct stmt *q;

	memset(args, 0, sizeof(*args));
	args->n = 2;
	snprintf(args->v[0], sizeof(args->v[0]),
	    "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
	    store_setting(db, "agents.processes"), store_setting(db, "agents.files"),
	    store_setting(db, "agents.file"), store_setting(db, "agents.servers"),
	    store_setting(db, "agents.command"), store_setting(db, "agents.wait_ms"));
	if ((q = store_sql(db, OWN)) == NULL || stmt_step(q) != 1)
		return;
	snprintf(args->v[1], sizeof(args->v[1]), "%s", stmt_get_text(q, 0));
	stmt_done(q);
}

/* Start the process of the row.  Return 0, or -1 with ${r}. */
static int
scan_start(struct scan *k, struct refusal *r)
{
	static struct observe_args args; /* large */
	struct actor_env *env = k->of->env;
	struct observe_limits limits;
	struct observe_env places;
	struct stmt *q;
	const char *text;
	int rc;

	worker_limits(env, &limits, &places);
	snprintf(places.root, sizeof(places.root), "%s", k->of->root);
	words_make(env->db, &args);
	*r = *store_refusal(env->db);
	if ((q = store_sql(env->db, WHATS)) == NULL)
		return -1;
	stmt_int(q, ":id", k->id);
	if (stmt_step(q) != 1)
		return -1;
	text = stmt_get_text(q, 0);
	text = text == NULL ? "" : text;
	rc = runner_ask(k->of->runner, scan_find(k->name), &args, &limits, &places, text,
	    strlen(text), &k->fd, &k->process, r);
	stmt_done(q);
	if (rc != 0)
		return -1;
	if (pump_init(&k->pump, k->fd, limits.frame_max, store_setting(env->db, "op.output"),
		frame_take, k) != 0 ||
	    loop_add(env->loop, k->fd, EPOLLIN, scan_read, k) != 0)
		return refusal_set(r, "store.failed", "out of memory");
	return 0;
}

static void
scan_begin(struct scan *k)
{
	struct actor_env *env = k->of->env;
	struct refusal r;

	if (scan_row(k) != 0) {
		complain(store_refusal(env->db));
		return;
	}
	if (scan_start(k, &r) != 0) {
		complain(&r);
		if (k->process == 0)
			scan_end(k, false);
		else
			runner_kill(k->of->runner, k->process);
		return;
	}
	k->timer = loop_after(env->loop, store_setting(env->db, "agents.wait_ms"), scan_late, k);
}

static void
on_due(void *ctx)
{
	struct scans *s = ctx;

	s->due = 0;
	scans_wake(s);
}

/* Begin ${k} if it is due.  Return in how many ms it is, or -1 where nobody wants it. */
static int64_t
scan_look(struct scan *k)
{
	struct stmt *q;
	int64_t wait;

	if (k->process != 0 || (q = store_sql(k->of->env->db, DUE)) == NULL)
		return -1;
	stmt_text(q, ":kind", k->kind);
	if ((wait = stmt_value(q, -1)) == 0)
		scan_begin(k);
	return wait > 0 ? wait : -1;
}

void
scans_wake(struct scans *s)
{
	int64_t wait, next = -1;
	size_t i;

	for (i = 0; i < KINDS && !s->draining; i++)
		if ((wait = scan_look(&s->kinds[i])) > 0 && (next == -1 || wait < next))
			next = wait;
	loop_cancel(s->env->loop, s->due);
	s->due = next > 0 ? loop_after(s->env->loop, next, on_due, s) : 0;
}

bool
scans_event(struct scans *s, const struct runner_event *event)
{
	struct scan *k = NULL;
	size_t i;

	for (i = 0; i < KINDS; i++)
		if (s->kinds[i].process != 0 && s->kinds[i].process == event->id)
			k = &s->kinds[i];
	if (k == NULL)
		return false;
	/* One that hangs in the kernel is still one. */
	if (event->kind == RUNNER_LEFT)
		return true;
	scan_end(k, event->kind == RUNNER_EXITED && WIFEXITED(event->status) &&
			WEXITSTATUS(event->status) == OBSERVE_DONE);
	scans_wake(s);
	return true;
}

void
scans_drain(struct scans *s)
{
	s->draining = true;
}

struct scans *
scans_new(struct actor_env *env, struct runner *runner, const char *root)
{
	static const char *const kinds[KINDS][2] = {
	    {"declared", "scan:declared"}, {"processes", "scan:processes"}};
	struct scans *s;
	size_t i;

	if ((s = calloc(1, sizeof(*s))) == NULL)
		return NULL;
	s->env = env;
	s->runner = runner;
	s->root = root;
	for (i = 0; i < KINDS; i++)
		s->kinds[i] =
		    (struct scan){.of = s, .kind = kinds[i][0], .name = kinds[i][1], .fd = -1};
	return s;
}

void
scans_free(struct scans *s)
{
	size_t i;

	if (s == NULL)
		return;
	loop_cancel(s->env->loop, s->due);
	for (i = 0; i < KINDS; i++) {
		loop_cancel(s->env->loop, s->kinds[i].timer);
		fd_close(&s->kinds[i]);
		frame_drop(&s->kinds[i]);
	}
	free(s);
}
