/* pool.c: sessions in the worker's loop. */
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/state/process.h"
#include "engine/state/sandbox_run.h"
#include "engine/worker/keep.h"
#include "engine/worker/kill.h"
#include "engine/worker/kin.h"
#include "engine/worker/launch.h"
#include "engine/worker/lines.h"
#include "engine/worker/pool.h"
#include "engine/worker/profile.h"
#include "engine/worker/program_lent.h"
#include "engine/worker/runner.h"
#include "engine/worker/session_lane.h"

#define READ_BYTES   65536
#define FLUSH_BYTES  262144  /* that are committed without waiting for more */
#define HELD_BYTES   1048576 /* of one stream before it waits for a commit */
#define LATE_FLUSHES 5       /* after that many a line without its end is shown as far as it is */
#define WORDS_MAX    257
#define ENV_MAX      20

static const char NEXT[] =
    "SELECT s.id, s.name, s.argv, s.cwd, s.by_uid, s.terminal, s.input, s.rows, s.cols, s.attempts + 1,"
    "  s.backend, s.net, s.paths,"
    "  coalesce((SELECT max(o.line + max(o.lines, 1)) FROM session_output AS o"
    "             WHERE o.session_id = s.id AND o.seq > s.last_seq - 8), 1), s.lane IS NOT NULL"
    "  FROM next_session AS n JOIN session AS s ON s.id = n.id"
    " WHERE (SELECT count(*) FROM attempt WHERE state IN ('launching', 'running'))"
    "     < (SELECT value FROM setting WHERE name = 'session.slots')";
static const char CLAIM[] = "INSERT INTO attempt (session_id, n, launched_at, sandbox_run_id)"
			    " SELECT :session, :n, now_ms(), nullif(:box, 0)"
			    " WHERE EXISTS (SELECT 1 FROM live_instance WHERE id = :instance)";
static const char RUNS[] =
    "UPDATE attempt SET state = 'running', process_id = :process WHERE id = :id";
static const char NOT_STARTED[] =
    "UPDATE attempt SET state = 'failed', outcome = :outcome, ended_at = now_ms(),"
    "  why = substr(:why, 1, 512) WHERE id = :id";
static const char ENDED[] =
    "UPDATE attempt SET state = 'ended', outcome = :outcome, exit_code = :exit,"
    "  term_signal = nullif(:signal, 0), ended_at = now_ms() WHERE id = :id";
static const char SAID[] =
    "INSERT INTO session_output (session_id, seq, attempt, kind, line, lines, more, at, data)"
    " VALUES (:session, (SELECT last_seq + 1 FROM session WHERE id = :session), :n, :kind, :line,"
    "  :lines, :more, now_ms(), :data)";
static const char CANCELLED[] = "SELECT cancel_at IS NOT NULL FROM session WHERE id = :session";
static const char SENT[] = "SELECT seq, kind, data FROM session_input"
			   " WHERE session_id = :session AND seq > :seq ORDER BY seq LIMIT 1";
static const char HANDED_ON[] = "UPDATE session SET input_seq = :seq WHERE id = :session";
static const char PATHS[] = "SELECT value ->> 'kind' = 'write', value ->> 'path'"
			    "  FROM json_each(:paths) ORDER BY key";
static const char DUE[] = "SELECT min(not_before) - now_ms() FROM session WHERE state = 'queued'";
static const char KEPT[] =
    "SELECT sum(length(data)) FROM session_output WHERE session_id = :session";
static const char TRIM[] =
    "UPDATE session SET first_seq = (SELECT max(seq) FROM (SELECT seq, sum(length(data))"
    "   OVER (ORDER BY seq DESC) AS behind FROM session_output WHERE session_id = :session)"
    "  WHERE behind >= (SELECT value FROM setting WHERE name = 'session.history')) WHERE id = :session";
static const char TRIMMED[] = "DELETE FROM session_output WHERE session_id = :session"
			      " AND seq < (SELECT first_seq FROM session WHERE id = :session)";
static const char SURVIVORS[] = "SELECT pid FROM session_survivors LIMIT 1";
static const char IS_OPEN[] =
    "SELECT EXISTS (SELECT 1 FROM attempt WHERE state IN ('launching', 'running'))";
static const char LEFT_OPEN[] =
    "UPDATE attempt SET state = 'lost', outcome = 'lost', ended_at = now_ms()"
    " WHERE state IN ('launching', 'running')";
static const char LEADER[] = "SELECT count(*) FROM process"
			     " WHERE boot_id = :boot AND pid = :pid AND start_ticks = :start";
static const char AGAIN[] =
    "SELECT CASE WHEN state = 'queued' THEN printf('attempt %d %s; the next is due in %d s',"
    "  attempts, :how, (not_before - now_ms() + 500) / 1000) END, lines + 1"
    "  FROM session WHERE id = :session";

struct pool {
	struct actor_env *env;
	struct runner *runner; /* starts those that a sandbox holds */
	void (*idle)(void *ctx);
	void *ctx;
	struct attempt *attempts;
	struct lent lent;              /* files of networks that the lane is the way out of */
	uint64_t flush, due, late;     /* timers */
	bool waking, draining, unkept; /* the disk refused what was said last */
};

/* A stream of an attempt. */
struct stream {
	struct attempt *attempt;
	const char *kind;
	struct lines lines;
	struct lines_mark mark; /* what the transaction that is open has of it */
	int fd;                 /* -1: at its end */
	int late;               /* flushes since a line without its end was shown */
	bool held;              /* it waits until some of it is committed */
};

struct claim;

struct attempt {
	struct attempt *next, **self;
	struct pool *pool;
	struct claim *claim; /* its row is there, or about to be; it is not started yet */
	int64_t id, session, n;
	struct launched p;
	struct identity who; /* once it was let run; else all zero */
	int64_t box;         /* the row of its sandbox; 0: it has none, and is our child */
	uint64_t run;        /* the runner's number for it */
	struct session_lane lane;
	struct stream out, err;
	int64_t line, kept; /* the number of the next line; bytes that are kept of the session */
	int64_t next_line, more; /* what the transaction that is open makes of these */
	/* What is being handed on. */
	unsigned char *input;
	size_t input_len, input_at;
	int64_t input_seq;
	bool input_waits;
	uint64_t timer, look;
	struct keep keep; /* its end */
	int status;
	struct refusal refusal; /* why it did not start */
	bool runs;              /* so says its row, or said until its end */
	bool terminal, laned, ended, swept, cancelled, going, begun;
	bool unread; /* not all that it said could be read */
};

static void
complain(struct pool *pool, const char *what)
{
	fprintf(stderr, "bastion: worker: %s: %s\n", what, store_refusal(pool->env->db)->why);
}

static void claim_free(struct claim *c);

static void
attempt_free(struct attempt *a)
{
	struct loop *loop = a->pool->env->loop;
	int fds[] = {a->p.pidfd, a->p.report, a->p.out, a->p.err, a->p.in};
	size_t i;

	*a->self = a->next;
	if (a->next != NULL)
		a->next->self = a->self;
	loop_cancel(loop, a->timer);
	loop_cancel(loop, a->look);
	keep_drop(&a->keep);
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] != -1)
			loop_del(loop, fds[i]);
	launch_close(&a->p);
	session_lane_end(&a->lane);
	lines_free(&a->out.lines);
	lines_free(&a->err.lines);
	free(a->input);
	claim_free(a->claim);
	free(a);
}

static size_t
attempt_pending(const struct attempt *a)
{
	return a->out.lines.used + a->err.lines.used;
}

/*
 * Keeping what they say.
 */

static int
said(struct attempt *a, const char *kind, int64_t line, int64_t lines, bool more, const void *data,
    size_t len)
{
	struct stmt *q;

	if ((q = store_sql(a->pool->env->db, SAID)) == NULL)
		return -1;
	stmt_int(q, ":session", a->session);
	stmt_int(q, ":n", a->n);
	stmt_text(q, ":kind", kind);
	stmt_int(q, ":line", line);
	stmt_int(q, ":lines", lines);
	stmt_int(q, ":more", more);
	stmt_blob(q, ":data", data, len);
	a->more += (int64_t)len;
	return stmt_run_one(q);
}

static int
row_keep(void *ctx, int64_t line, int64_t lines, bool more, const unsigned char *data, size_t len)
{
	struct stream *s = ctx;

	return said(s->attempt, s->kind, line, lines, more, data, len);
}

/* A terminal has no lines, only bytes; newlines count, so that a place in it can be named. */
static int
bytes_take(struct stream *s)
{
	const unsigned char *data, *end;
	int64_t lines;
	size_t n;

	s->mark = (struct lines_mark){.next = s->attempt->next_line};
	for (; s->mark.done < s->lines.used; s->mark.done += n) {
		n = s->lines.used - s->mark.done;
		n = n < LINES_ROW ? n : LINES_ROW;
		data = s->lines.buf + s->mark.done;
		for (lines = 0, end = data; end < data + n; end++)
			lines += *end == '\n';
		if (said(s->attempt, s->kind, s->mark.next, lines, false, data, n) != 0)
			return -1;
		s->mark.next += lines;
	}
	return 0;
}

static int
stream_take(struct stream *s, bool over)
{
	bool late = s->late + 1 >= LATE_FLUSHES;
	int rc;

	rc = s->attempt->terminal
		 ? bytes_take(s)
		 : lines_take(&s->lines, s->attempt->next_line, late, over, &s->mark, row_keep, s);
	s->attempt->next_line = s->mark.next;
	return rc;
}

/* Into the transaction that is open: all that ${a} said. */
static int
attempt_take(struct attempt *a, bool over)
{
	a->next_line = a->line;
	a->more = 0;
	return stream_take(&a->out, over) != 0 ? -1 : stream_take(&a->err, over);
}

/* The transaction is durable. */
static void
attempt_took(struct attempt *a)
{
	struct stream *const streams[] = {&a->out, &a->err};
	size_t i;

	a->line = a->next_line;
	a->kept += a->more;
	for (i = 0; i < 2; i++) {
		lines_done(&streams[i]->lines, &streams[i]->mark);
		streams[i]->late =
		    streams[i]->lines.used == 0 || streams[i]->late + 1 >= LATE_FLUSHES
			? 0
			: streams[i]->late + 1;
	}
}

static void stream_read(void *ctx, uint32_t events);

/* What waited for a commit may be read on. */
static void
stream_release(struct stream *s)
{
	if (s->held && s->fd != -1 && s->lines.used < HELD_BYTES) {
		s->held = false;
		loop_add(s->attempt->pool->env->loop, s->fd, EPOLLIN, stream_read, s);
	}
}

/* More than the setting keeps: the oldest rows go, a little at a time. */
static int
trim(struct attempt *a)
{
	struct store *db = a->pool->env->db;
	int64_t history = store_setting(db, "session.history");
	struct stmt *q;

	if (a->kept + a->more < history + history / 16 + LINES_ROW)
		return 0;
	if ((q = store_sql(db, TRIM)) == NULL)
		return -1;
	stmt_int(q, ":session", a->session);
	if (stmt_run(q) != 0 || (q = store_sql(db, TRIMMED)) == NULL)
		return -1;
	stmt_int(q, ":session", a->session);
	if (stmt_run(q) != 0 || (q = store_sql(db, KEPT)) == NULL)
		return -1;
	stmt_int(q, ":session", a->session);
	a->more = stmt_value(q, 0) - a->kept;
	return 0;
}

static bool
anything_pending(const struct pool *pool)
{
	const struct attempt *a;

	for (a = pool->attempts; a != NULL; a = a->next)
		if (attempt_pending(a) > 0)
			return true;
	return false;
}

static void flush(void *ctx);

/* Where the disk refused, patience: it is tried again as often as the database is looked at. */
static void
flush_later(struct pool *pool)
{
	struct store *db = pool->env->db;

	if (pool->flush == 0)
		pool->flush = loop_after(pool->env->loop,
		    store_setting(db, pool->unkept ? "store.tick_ms" : "session.flush_ms"), flush,
		    pool);
}

static int
flush_all(struct pool *pool)
{
	struct store *db = pool->env->db;
	struct attempt *a;

	if (store_begin(db) != 0)
		return -1;
	for (a = pool->attempts; a != NULL; a = a->next)
		if (attempt_take(a, false) != 0 || trim(a) != 0)
			return store_rollback(db);
	return store_commit(db);
}

/*
 * All that was said goes into one durable transaction.  Where the disk refuses, it stays here, its
 * writers wait, and it is tried again.
 */
static void
flush(void *ctx)
{
	struct pool *pool = ctx;
	bool unkept = pool->unkept;
	struct attempt *a;

	pool->flush = 0;
	pool->unkept = flush_all(pool) != 0;
	if (pool->unkept && !unkept)
		complain(pool, "what sessions say waits, as it could not be kept");
	for (a = pool->unkept ? NULL : pool->attempts; a != NULL; a = a->next) {
		attempt_took(a);
		stream_release(&a->out);
		stream_release(&a->err);
	}
	if (anything_pending(pool))
		flush_later(pool);
}

static void attempt_over(struct attempt *a);

static void
stream_ends(struct stream *s)
{
	if (s->fd == -1)
		return;
	loop_del(s->attempt->pool->env->loop, s->fd);
	s->fd = -1;
	s->held = false;
}

/* Is what read(2) returned a fault, and no end?  A terminal whose last program closed it says EIO.
 */
static bool
is_fault(const struct stream *s, const void *room, ssize_t n)
{
	return room == NULL || (n == -1 && errno != EAGAIN && errno != EINTR &&
				   !(s->attempt->terminal && errno == EIO));
}

static void attempt_unread(struct attempt *a, int error);

/* One read of what is there. */
static void
stream_read(void *ctx, uint32_t events)
{
	struct stream *s = ctx;
	struct attempt *a = s->attempt;
	struct pool *pool = a->pool;
	unsigned char *room = lines_room(&s->lines, READ_BYTES);
	ssize_t n = room == NULL ? 0 : read(s->fd, room, READ_BYTES);

	(void)events;
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		if (is_fault(s, room, n))
			attempt_unread(a, room == NULL ? ENOMEM : errno);
		stream_ends(s);
		if (a->ended && a->out.fd == -1 && a->err.fd == -1)
			attempt_over(a);
		return;
	}
	lines_add(&s->lines, (size_t)n);
	if (s->lines.used >= HELD_BYTES) {
		loop_del(pool->env->loop, s->fd);
		s->held = true;
	}
	if (attempt_pending(a) < FLUSH_BYTES || pool->unkept) {
		flush_later(pool);
		return;
	}
	loop_cancel(pool->env->loop, pool->flush);
	flush(pool);
}

/*
 * Its end.
 */

static const char *
outcome(const struct attempt *a)
{
	int code = WIFEXITED(a->status) ? WEXITSTATUS(a->status) : -1;

	if (a->cancelled)
		return "cancelled";
	if (code == 0 && !a->unread)
		return "success";
	if (a->pool->draining)
		return "drain";
	if (a->unread) /* whatever it says of itself: nobody knows what is missing */
		return "crash";
	return code == 75 ? "later" : code == 76 ? "permanent" : "crash";
}

static int
end_keep(struct attempt *a)
{
	bool killed = WIFSIGNALED(a->status);
	struct stmt *q;

	if ((q = store_sql(a->pool->env->db, ENDED)) == NULL)
		return -1;
	stmt_int(q, ":id", a->id);
	stmt_text(q, ":outcome", outcome(a));
	stmt_int(q, ":exit", killed ? 128 + WTERMSIG(a->status) : WEXITSTATUS(a->status));
	stmt_int(q, ":signal", killed ? WTERMSIG(a->status) : 0);
	return stmt_run_one(q);
}

static const char *
not_started_why(const struct attempt *a)
{
	return a->refusal.code[0] != '\0' ? a->refusal.why : "it ended before it ran";
}

/* Who watches is told that what follows is another try (RF-38), and why the last one was none. */
static int
note_keep(struct attempt *a)
{
	char how[REFUSAL_WHY_MAX + 32], *text;
	struct stmt *q;
	int64_t line;
	int rc;

	if (!a->runs)
		snprintf(how, sizeof(how), "could not be started: %s", not_started_why(a));
	else if (WIFSIGNALED(a->status))
		snprintf(how, sizeof(how), "ended with signal %d", WTERMSIG(a->status));
	else
		snprintf(how, sizeof(how), "ended with exit %d", WEXITSTATUS(a->status));
	if ((q = store_sql(a->pool->env->db, AGAIN)) == NULL)
		return -1;
	stmt_text(q, ":how", how);
	stmt_int(q, ":session", a->session);
	if (stmt_step(q) != 1)
		return -1;
	if (stmt_is_null(q, 0)) {
		stmt_done(q);
		return 0;
	}
	line = a->next_line;
	rc = asprintf(&text, "%s\n", stmt_get_text(q, 0));
	stmt_done(q);
	if (rc == -1)
		return refusal_set(
		    store_refusal(a->pool->env->db), "store.failed", "out of memory");
	rc = said(a, "note", line, 1, false, text, strlen(text));
	free(text);
	return rc;
}

/* It and what it was handed: what is not marked as handed on by then would be handed on again. */
static int
input_keep(struct attempt *a)
{
	struct stmt *q;

	if (a->input_seq == 0)
		return 0;
	if ((q = store_sql(a->pool->env->db, HANDED_ON)) == NULL)
		return -1;
	stmt_int(q, ":session", a->session);
	stmt_int(q, ":seq", a->input_seq);
	return stmt_run_one(q);
}

static int
not_started_keep(struct attempt *a)
{
	struct stmt *q;

	if ((q = store_sql(a->pool->env->db, NOT_STARTED)) == NULL)
		return -1;
	stmt_int(q, ":id", a->id);
	stmt_text(q, ":outcome", a->pool->draining ? "drain" : "launch");
	stmt_text(q, ":why", not_started_why(a));
	return stmt_run_one(q);
}

static void claims_take(struct pool *pool);
static void claims_start(struct pool *pool);
static void claims_drop(struct pool *pool);

/* With it whoever waits for its place: between the two no place is idle, and one commit serves
 * both. */
static int
over_keep(void *ctx)
{
	struct attempt *a = ctx;
	struct store *db = a->pool->env->db;

	if (store_begin(db) != 0)
		return -1;
	a->next_line = a->line;
	a->more = 0;
	if ((a->runs ? attempt_take(a, true) != 0 || input_keep(a) != 0 || end_keep(a) != 0
		     : not_started_keep(a) != 0) ||
	    note_keep(a) != 0)
		return store_rollback(db);
	claims_take(a->pool);
	if (store_commit(db) == 0)
		return 0;
	claims_drop(a->pool);
	return -1;
}

static bool
is_its(void *ctx, const struct kin *kin)
{
	const struct identity *who = &((const struct attempt *)ctx)->who;

	return kin->pid == who->pid && kin->start_ticks == who->start_ticks &&
	       strcmp(kin->boot_id, who->boot_id) == 0;
}

/* Leaders are reaped when they are swept.  That the runner ended is seen by its socket. */
static bool
is_known(void *ctx, int64_t pid)
{
	const struct pool *pool = ctx;
	const struct attempt *a;

	for (a = pool->attempts; a != NULL; a = a->next)
		if (a->p.pid == pid)
			return true;
	return false;
}

static bool is_left_over(void *ctx, const struct kin *kin);

/* Of a session that is over, whose rows are kept: none of ours is of one that runs now. */
static bool
is_late(void *ctx, const struct kin *kin)
{
	const struct pool *pool = ctx;
	struct attempt *a;

	for (a = pool->attempts; a != NULL; a = a->next)
		if (is_its(a, kin))
			return false;
	return is_left_over(pool->env->db, kin);
}

static void late_look(struct pool *pool);

/* What the kernel held, or somebody traced, when its session was over. */
static void
late_end(void *ctx)
{
	struct pool *pool = ctx;
	int left;

	pool->late = 0;
	(void)kin_end(KIN_CHILDREN, is_late, pool, &left);
	if (kin_reap(is_known, pool) > 0 || left > 0)
		late_look(pool);
}

static void
late_look(struct pool *pool)
{
	struct actor_env *env = pool->env;

	if (pool->late == 0)
		pool->late =
		    loop_after(env->loop, store_setting(env->db, "store.tick_ms"), late_end, pool);
}

/*
 * Nothing that it started outlives it.  Its leader is not reaped yet, so that its number, and that
 * of its group, are nobody else's.
 */
static void
attempt_sweep(struct attempt *a)
{
	int left = 0;

	if (a->swept || a->p.pid <= 0)
		return;
	a->swept = true;
	kill_group(a->p.pid, SIGKILL);
	if (a->who.pid != 0)
		(void)kin_end(KIN_CHILDREN, is_its, a, &left);
	left += kin_reap(is_known, a->pool);
	if (!kin_over(a->p.pidfd, a->p.pid, loop_now() + KIN_PATIENCE_MS) || left > 0)
		late_look(a->pool);
}

static void
over_kept(void *ctx)
{
	struct attempt *a = ctx;
	struct pool *pool = a->pool;

	attempt_free(a);
	claims_start(pool);
	if (pool->attempts == NULL)
		pool->idle(pool->ctx);
	pool_wake(pool);
}

/*
 * It ended and all that it said is here: both in one transaction.  Where the disk refuses, later:
 * until then its place is taken, and its row says that it runs.
 */
static void
attempt_over(struct attempt *a)
{
	loop_cancel(a->pool->env->loop, a->timer);
	a->timer = 0;
	attempt_sweep(a);
	a->keep = (struct keep){.env = a->pool->env,
	    .what = "the end of a session",
	    .write = over_keep,
	    .written = over_kept,
	    .ctx = a};
	keep_now(&a->keep);
}

/* What is in the pipe, up to what may be held: whoever wrote it is gone. */
static void
stream_last(struct stream *s)
{
	unsigned char *room;
	ssize_t n = 1;

	while (s->fd != -1 && n > 0 && s->lines.used < 2 * HELD_BYTES) {
		room = lines_room(&s->lines, READ_BYTES);
		if ((n = room == NULL ? -1 : read(s->fd, room, READ_BYTES)) > 0)
			lines_add(&s->lines, (size_t)n);
		else if (is_fault(s, room, n))
			attempt_unread(s->attempt, room == NULL ? ENOMEM : errno);
	}
	stream_ends(s);
}

/* A grandchild holds the pipe (RF-22): it was heard for long enough. */
static void
attempt_heard(void *ctx)
{
	struct attempt *a = ctx;

	attempt_sweep(a);
	stream_last(&a->out);
	stream_last(&a->err);
	attempt_over(a);
}

static void
attempt_kill(void *ctx)
{
	struct attempt *a = ctx;

	a->timer = 0;
	if (a->run != 0) { /* asked again, the runner waits no longer */
		runner_kill(a->pool->runner, a->run);
		return;
	}
	kill_process(a->p.pid, SIGKILL); /* where it leads no group yet */
	kill_group(a->p.pid, SIGKILL);
}

/* Politely, and after a grace for certain. */
static void
attempt_end(struct attempt *a)
{
	struct actor_env *env = a->pool->env;

	if (a->going)
		return;
	a->going = true;
	if (a->run != 0) {
		runner_kill(a->pool->runner, a->run);
		return;
	}
	if (a->p.go != -1) { /* it has not begun */
		attempt_kill(a);
		return;
	}
	kill_group(a->p.pid, SIGTERM);
	kill_group(a->p.pid, SIGCONT);
	loop_cancel(env->loop, a->timer);
	a->timer =
	    loop_after(env->loop, store_setting(env->db, "session.kill_ms"), attempt_kill, a);
}

/* Into what it says: a sentence of ours. */
static void
sentence_keep(struct attempt *a, const char *why)
{
	char text[REFUSAL_WHY_MAX + 16];
	int n = snprintf(text, sizeof(text), "bastion: %s\n", why);
	unsigned char *room = lines_room(&a->err.lines, (size_t)n);

	if (room == NULL)
		return;
	memcpy(room, text, (size_t)n);
	lines_add(&a->err.lines, (size_t)n);
}

/* Some of what it says is lost: that is told, it did not succeed, and it ends (RF-19). */
static void
attempt_unread(struct attempt *a, int error)
{
	char why[128];

	if (a->unread)
		return;
	a->unread = true;
	snprintf(why, sizeof(why), "what it says cannot be read any more: %s", strerror(error));
	sentence_keep(a, why);
	if (!a->ended)
		attempt_end(a);
}

/* What it started ends too, once its last words are read. */
static void
program_ended(struct attempt *a, int status)
{
	struct actor_env *env = a->pool->env;

	a->status = status;
	a->ended = true;
	loop_cancel(env->loop, a->timer);
	a->timer = 0;
	if (a->out.fd == -1 && a->err.fd == -1)
		attempt_over(a);
	else
		a->timer = loop_after(
		    env->loop, store_setting(env->db, "session.drain_ms"), attempt_heard, a);
}

static void process_ended(void *ctx, uint32_t events);

static void
process_look(void *ctx)
{
	struct attempt *a = ctx;

	a->look = 0;
	process_ended(a, 0);
}

static void
process_ended(void *ctx, uint32_t events)
{
	struct attempt *a = ctx;
	struct actor_env *env = a->pool->env;
	siginfo_t si = {.si_pid = 0};

	(void)events;
	loop_del(env->loop, a->p.pidfd);
	if (waitid(P_PIDFD, (id_t)a->p.pidfd, &si, WEXITED | WNOHANG | WNOWAIT) != 0 ||
	    si.si_pid == 0) {
		/* Who traces it is told first.  Its descriptor says all the time that it ended. */
		a->look =
		    loop_after(env->loop, store_setting(env->db, "store.tick_ms"), process_look, a);
		return;
	}
	program_ended(
	    a, si.si_code == CLD_EXITED ? W_EXITCODE(si.si_status, 0) : si.si_status & 0x7f);
}

/*
 * Its beginning.
 */

/* Its row says that it is about to run: now it must say why it does not. */
static void
not_started(struct attempt *a, const struct refusal *r)
{
	a->refusal = *r;
	a->ended = true;
	kill_process(a->p.pid, SIGKILL);
	attempt_over(a);
}

/*
 * Who it is, and what holds it.  That it may run is durable by the row of the attempt; this is read
 * by who comes after us where we die, and a power loss leaves no process to be known by it.
 */
static int
mark_running(struct attempt *a, const struct identity *who, const struct sandbox_report *report)
{
	struct store *db = a->pool->env->db;
	struct stmt *q;
	int64_t process;

	if (who->pid == 0)
		return refusal_set(store_refusal(db), "store.failed", "the process cannot be seen");
	a->who = *who;
	if (store_begin_soft(db) != 0)
		return -1;
	if ((process = process_id(db, &a->who, geteuid())) == -1 ||
	    (report != NULL && sandbox_run_placed(db, a->box, report) != 0) ||
	    (q = store_sql(db, RUNS)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", a->id);
	stmt_int(q, ":process", process);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	a->runs = store_commit(db) == 0;
	return a->runs ? 0 : -1;
}

static void
attempt_listen(struct attempt *a)
{
	struct loop *loop = a->pool->env->loop;

	a->begun = true;
	loop_add(loop, a->out.fd, EPOLLIN, stream_read, &a->out);
	if (a->err.fd != -1)
		loop_add(loop, a->err.fd, EPOLLIN, stream_read, &a->err);
}

/* Ready: its row says so, and then it runs. */
static void
reported(void *ctx, uint32_t events)
{
	struct attempt *a = ctx;
	struct pool *pool = a->pool;
	struct loop *loop = pool->env->loop;
	struct identity who = {.pid = 0};
	struct refusal r = {0};

	(void)events;
	switch (launch_report(&a->p, &r)) {
	case 1:
		(void)identity_of(a->p.pid, &who);
		if (mark_running(a, &who, NULL) != 0) {
			not_started(a, store_refusal(pool->env->db));
			return;
		}
		loop_add(loop, a->p.pidfd, EPOLLIN, process_ended, a);
		attempt_listen(a);
		launch_go(&a->p);
		return;
	case 0:
		/* In this order: a copy in a child that is being started would keep it in the loop.
		 */
		loop_del(loop, a->p.report);
		close(a->p.report);
		a->p.report = -1;
		pool_wake(pool);
		return;
	default:
		loop_del(loop, a->p.report);
		if (a->p.go == -1) { /* by its row it runs: who watches is told why it ended */
			sentence_keep(a, r.why);
			return;
		}
		not_started(a, &r);
	}
}

/* By its row it does not run yet. */
static void
box_given_up(struct attempt *a, const struct refusal *r)
{
	attempt_end(a);
	a->refusal = *r;
	stream_ends(&a->out);
	stream_ends(&a->err);
}

/* Its sandbox is in place.  Who could not be noted, or has no network that was asked for, is ended,
 * and then it is said why. */
static void
box_placed(struct attempt *a, struct runner_event *event)
{
	struct actor_env *env = a->pool->env;
	struct refusal r;

	if (a->laned && session_lane_take(&a->lane, event->listener_fd, &r) != 0) {
		box_given_up(a, &r);
		return;
	}
	if (mark_running(a, &event->who, &event->report) != 0) {
		complain(a->pool, "the start of a session could not be kept");
		box_given_up(a, store_refusal(env->db));
		return;
	}
	if (a->laned)
		session_lane_begin(&a->lane, env->loop, env->home, a->box);
	attempt_listen(a);
	pool_wake(a->pool);
}

bool
pool_told(struct pool *pool, struct runner_event *event)
{
	struct attempt *a;

	for (a = pool->attempts; a != NULL && (a->run == 0 || a->run != event->id); a = a->next)
		;
	if (a == NULL)
		return false;
	switch (event->kind) {
	case RUNNER_STARTED:
		box_placed(a, event);
		break;
	case RUNNER_REFUSED:
		stream_ends(&a->out);
		stream_ends(&a->err);
		not_started(a, &event->refusal);
		break;
	default: /* also where the kernel holds what was killed: nothing of it will be heard */
		a->run = 0;
		program_ended(a, event->status);
	}
	runner_event_drop(event);
	return true;
}

struct words {
	char *argv[WORDS_MAX], *env[ENV_MAX + 1];
	char text[ENV_MAX][512];
	int nenv;
	char mark[KIN_SIZE];
	struct profile profile;
};

static void __attribute__((format(printf, 2, 3))) set(struct words *w, const char *fmt, ...)
{
	va_list ap;

	if (w->nenv == ENV_MAX - 1)
		return;
	va_start(ap, fmt);
	vsnprintf(w->text[w->nenv], sizeof(w->text[0]), fmt, ap);
	va_end(ap);
	w->env[w->nenv] = w->text[w->nenv];
	w->env[++w->nenv] = NULL;
}

/* What a program finds in its environment: who it is and where, nothing of ours. */
static void
environment(struct words *w, const struct launch_plan *plan, const char *name, int64_t n)
{
	const struct passwd *pw = getpwuid(plan->uid);
	const char *tz = getenv("TZ");

	w->nenv = 0;
	set(w, "PATH=" LAUNCH_PATH);
	set(w, "LANG=C.UTF-8");
	set(w, "PWD=%s", plan->cwd);
	if (pw != NULL) {
		set(w, "HOME=%s", pw->pw_dir);
		set(w, "USER=%s", pw->pw_name);
		set(w, "LOGNAME=%s", pw->pw_name);
		set(w, "SHELL=%s", pw->pw_shell);
	}
	if (tz != NULL)
		set(w, "TZ=%s", tz);
	if (plan->terminal)
		set(w, "TERM=xterm-256color");
	set(w, "BASTION_SESSION=%s", name);
	set(w, "BASTION_ATTEMPT=%" PRId64, n);
}

/* How all that it will start is known: filled by the process itself. */
static void
environment_mark(struct words *w)
{
	w->env[w->nenv] = w->mark;
	w->env[++w->nenv] = NULL;
}

/* What it is in, and a home that is there. */
static void
environment_box(struct words *w, const char *nonce)
{
	static const char home[] = "HOME=";
	int i;

	for (i = 0; i < w->nenv; i++)
		if (strncmp(w->text[i], home, sizeof(home) - 1) == 0 &&
		    !profile_shows(&w->profile, w->text[i] + sizeof(home) - 1))
			snprintf(w->text[i], sizeof(w->text[i]), "HOME=/tmp");
	set(w, "BASTION_SANDBOXED=1");
	set(w, "BASTION_SANDBOX_BACKEND=native");
	set(w, "BASTION_SANDBOX_RUN=%s", nonce);
}

/* The words of the JSON array ${json}, for the caller to free one by one. */
static int
words_read(struct store *db, const char *json, char *argv[WORDS_MAX])
{
	struct stmt *q;
	int n = 0, rc;

	if ((q = store_sql(db, "SELECT value FROM json_each(:words)")) == NULL)
		return -1;
	stmt_text(q, ":words", json);
	while ((rc = stmt_step(q)) == 1 && n < WORDS_MAX - 1)
		if ((argv[n++] = strdup(stmt_get_text(q, 0))) == NULL)
			break;
	argv[n] = NULL;
	if (rc == 1)
		stmt_done(q);
	return rc == 0 ? 0 : -1;
}

/* What the worker's template shows, and before it the folder that the session runs in. */
static int
profile_read(struct store *db, struct profile *p, const char *cwd, const char *json)
{
	struct refusal *r = store_refusal(db);
	enum sandbox_kind kind;
	struct stmt *q;
	int rc;

	profile_begin(p);
	if (profile_add(p, SANDBOX_WRITE, cwd, r) != 0 || (q = store_sql(db, PATHS)) == NULL)
		return -1;
	stmt_text(q, ":paths", json);
	while ((rc = stmt_step(q)) == 1) {
		kind = stmt_get_int(q, 0) == 1 ? SANDBOX_WRITE : SANDBOX_READ;
		if (profile_add(p, kind, stmt_get_text(q, 1), r) != 0) {
			stmt_done(q);
			return -1;
		}
	}
	return rc;
}

/* A network whose only way out is the lane. */
static int
profile_lane(struct pool *pool, struct profile *p)
{
	struct refusal *r = store_refusal(pool->env->db);
	struct lent_name names[LENT_NAMES];
	size_t i, n;

	if (lent_open(&pool->lent, r) != 0)
		return -1;
	lane_plan(&p->plan);
	n = lent_names(&pool->lent, names);
	for (i = 0; i < n; i++)
		if (profile_show(p, names[i].source, names[i].target, r) != 0)
			return -1;
	return 0;
}

static struct attempt *
attempt_new(struct pool *pool)
{
	struct attempt *a;

	if ((a = calloc(1, sizeof(*a))) == NULL)
		return NULL;
	a->pool = pool;
	a->out = (struct stream){.attempt = a, .kind = "out", .fd = -1};
	a->err = (struct stream){.attempt = a, .kind = "err", .fd = -1};
	a->p = (struct launched){-1, -1, -1, -1, -1, -1, -1};
	session_lane_none(&a->lane);
	a->next = pool->attempts;
	a->self = &pool->attempts;
	if (a->next != NULL)
		a->next->self = &a->next;
	pool->attempts = a;
	return a;
}

/* What of the row a session is started from. */
struct claim {
	char name[129], *cwd;
	bool boxed;
	struct launch_plan plan;
	struct sandbox_ask ask;
	char nonce[SANDBOX_NONCE_SIZE];
	struct words words;
	struct refusal unfit; /* why what holds it cannot be made: said once a row can say it */
};

static struct claim *
claim_new(void)
{
	struct claim *c;

	if ((c = calloc(1, sizeof(*c))) == NULL)
		return NULL;
	c->plan =
	    (struct launch_plan){.argv = c->words.argv, .env = c->words.env, .mark = c->words.mark};
	profile_begin(&c->words.profile);
	return c;
}

static void
claim_free(struct claim *c)
{
	int i;

	if (c == NULL)
		return;
	profile_free(&c->words.profile);
	for (i = 0; c->words.argv[i] != NULL; i++)
		free(c->words.argv[i]);
	free(c->cwd);
	free(c);
}

/* The rows that authorise the attempt, and its sandbox: into the transaction that is open. */
static int
claim_row(struct attempt *a, struct claim *c)
{
	struct store *db = a->pool->env->db;
	struct stmt *q;

	if ((c->boxed && sandbox_run_insert(db, &c->ask, c->nonce, &a->box) != 0) ||
	    (q = store_sql(db, CLAIM)) == NULL)
		return -1;
	stmt_int(q, ":session", a->session);
	stmt_int(q, ":n", a->n);
	stmt_int(q, ":box", a->box);
	/* Where our daemon died, another may serve already: its own worker takes what waits. */
	stmt_int(q, ":instance", a->pool->env->instance_id);
	if (stmt_run_one(q) != 0)
		return -1;
	a->id = store_last_id(db);
	return 0;
}

/* The streams are ours. */
static void
attempt_opened(struct attempt *a)
{
	a->out.fd = a->p.out;
	a->err.fd = a->p.err;
	if (a->terminal)
		a->out.kind = "tty";
}

static void
attempt_start(struct attempt *a, const struct launch_plan *plan)
{
	struct refusal r = {0};

	if (launch_start(plan, &a->p, &r) != 0 ||
	    loop_add(a->pool->env->loop, a->p.report, EPOLLIN, reported, a) != 0) {
		if (r.code[0] == '\0')
			refusal_set(&r, "launch.failed", "out of memory");
		not_started(a, &r);
		return;
	}
	attempt_opened(a);
}

/* Have the runner make the sandbox, so that nothing of this process is copied into it. */
static int
box_ask(
    struct attempt *a, struct sandbox_plan *box, const struct launch_plan *plan, struct refusal *r)
{
	struct pool *pool = a->pool;
	int rc;

	if (geteuid() != 0 && plan->uid != geteuid())
		return refusal_set(r, "launch.failed", "it could not become its user");
	if (launch_ends(plan, &a->p, box->stdio, r) != 0)
		return -1;
	box->argv = plan->argv;
	box->env = plan->env;
	box->cwd = plan->cwd;
	sandbox_run_limits(pool->env->db, &box->limits);
	rc = runner_sandbox(
	    pool->runner, box, store_setting(pool->env->db, "session.kill_ms"), &a->run, r);
	launch_handed(box->stdio);
	return rc;
}

static void
box_start(struct attempt *a, struct profile *profile, const struct launch_plan *plan)
{
	struct refusal r = {0};

	if (profile_close(profile, a->pool->env->home, plan->uid, &r) != 0 ||
	    box_ask(a, &profile->plan, plan, &r) != 0)
		not_started(a, &r);
	else
		attempt_opened(a);
}

static int
claim_read(struct attempt *a, struct stmt *q, struct claim *c)
{
	struct store *db = a->pool->env->db;
	struct words *w = &c->words;
	char *paths = NULL;
	int rc = -1;

	a->session = stmt_get_int(q, 0);
	snprintf(c->name, sizeof(c->name), "%s", stmt_get_text(q, 1));
	c->plan.cwd = c->cwd = strdup(stmt_get_text(q, 3));
	c->plan.uid = (uid_t)stmt_get_int(q, 4);
	a->terminal = c->plan.terminal = stmt_get_int(q, 5) == 1;
	c->plan.input = stmt_get_int(q, 6) == 1;
	c->plan.rows = (unsigned short)stmt_get_int(q, 7);
	c->plan.cols = (unsigned short)stmt_get_int(q, 8);
	a->n = stmt_get_int(q, 9);
	c->boxed = strcmp(stmt_get_text(q, 10), "none") != 0;
	a->laned = stmt_get_int(q, 14) == 1;
	w->profile.plan.net = a->laned                                    ? SANDBOX_NET_CAUGHT
			      : strcmp(stmt_get_text(q, 11), "host") == 0 ? SANDBOX_NET_HOST
									  : SANDBOX_NET_NONE;
	a->line = stmt_get_int(q, 13);
	paths = strdup(stmt_get_text(q, 12));
	if (c->cwd != NULL && paths != NULL && words_read(db, stmt_get_text(q, 2), w->argv) == 0)
		rc = 0;
	stmt_done(q);
	c->ask = (struct sandbox_ask){.backend = "native",
	    .program = w->argv[0],
	    .uid = c->plan.uid,
	    .net = w->profile.plan.net};
	while (w->argv[c->ask.words] != NULL)
		c->ask.words++;
	if (rc == 0 && c->boxed && profile_read(db, &w->profile, c->cwd, paths) != 0)
		c->unfit = *store_refusal(db);
	w->profile.plan.net = c->ask.net;
	if (rc == 0 && a->laned && c->unfit.code[0] == '\0' &&
	    profile_lane(a->pool, &w->profile) != 0)
		c->unfit = *store_refusal(db);
	free(paths);
	return rc;
}

/* Into the transaction that is open: the session whose turn it is, if there is a place.  Return 1,
 * 0 without one, -1. */
static int
claim_one(struct pool *pool)
{
	struct attempt *a;
	struct stmt *q;
	int n;

	if ((q = store_sql(pool->env->db, NEXT)) == NULL)
		return -1;
	if ((n = stmt_step(q)) != 1)
		return n;
	if ((a = attempt_new(pool)) == NULL) {
		stmt_done(q);
		return -1;
	}
	if ((a->claim = claim_new()) == NULL) {
		stmt_done(q);
		attempt_free(a);
		return -1;
	}
	if (claim_read(a, q, a->claim) == 0 && claim_row(a, a->claim) == 0)
		return 1;
	attempt_free(a);
	return -1;
}

/* Whoever may start, into the transaction that is open, which goes on whatever becomes of this. */
static void
claims_take(struct pool *pool)
{
	struct store *db = pool->env->db;
	int n = 1;

	while (n == 1 && !pool->draining && !pool->waking) {
		if (store_savepoint(db) != 0)
			return;
		if ((n = claim_one(pool)) == -1) {
			complain(pool, "a session could not be taken");
			store_undo(db);
		} else {
			store_release(db);
		}
	}
}

/* They were not kept. */
static void
claims_drop(struct pool *pool)
{
	struct attempt *a, *next;

	for (a = pool->attempts; a != NULL; a = next) {
		next = a->next;
		if (a->claim != NULL)
			attempt_free(a);
	}
}

static void
claim_start(struct attempt *a)
{
	struct claim *c = a->claim;

	a->claim = NULL;
	environment(&c->words, &c->plan, c->name, a->n);
	if (c->unfit.code[0] != '\0') {
		not_started(a, &c->unfit);
	} else if (c->boxed) {
		environment_box(&c->words, c->nonce);
		box_start(a, &c->words.profile, &c->plan);
	} else {
		environment_mark(&c->words);
		attempt_start(a, &c->plan);
	}
	claim_free(c);
}

static struct attempt *
claimed(struct pool *pool)
{
	struct attempt *a, *oldest = NULL;

	for (a = pool->attempts; a != NULL; a = a->next)
		if (a->claim != NULL)
			oldest = a; /* new ones are put before it */
	return oldest;
}

/* Their rows are durable.  One that cannot start ends at once: what then comes is taken later. */
static void
claims_start(struct pool *pool)
{
	bool waking = pool->waking;
	struct attempt *a;

	pool->waking = true;
	while ((a = claimed(pool)) != NULL)
		claim_start(a);
	pool->waking = waking;
}

/* Whoever may start does.  Return whether somebody did. */
static bool
claims(struct pool *pool)
{
	struct store *db = pool->env->db;
	struct stmt *q;

	if (pool->draining || (q = store_sql(db, NEXT)) == NULL)
		return false;
	if (stmt_step(q) != 1)
		return false;
	stmt_done(q);
	if (store_begin(db) != 0)
		return false;
	claims_take(pool);
	if (claimed(pool) == NULL) {
		store_rollback(db);
		return false;
	}
	if (store_commit(db) != 0) {
		claims_drop(pool);
		complain(pool, "sessions could not be taken");
		return false;
	}
	claims_start(pool);
	return true;
}

/*
 * What they are sent.
 */

static void input_next(struct attempt *a);

/* All of a piece was handed on: it is nowhere any more, here or in the database. */
static void
input_done(struct attempt *a)
{
	struct store *db = a->pool->env->db;
	struct stmt *q;

	if (a->input != NULL)
		explicit_bzero(a->input, a->input_len);
	free(a->input);
	a->input = NULL;
	if (store_begin_soft(db) != 0)
		return;
	if ((q = store_sql(db, HANDED_ON)) == NULL) {
		store_rollback(db);
		return;
	}
	stmt_int(q, ":session", a->session);
	stmt_int(q, ":seq", a->input_seq);
	if (stmt_run_one(q) != 0 || store_commit(db) != 0) {
		store_rollback(db);
		complain(a->pool, "input could not be marked as handed on");
	}
}

static void input_write(struct attempt *a);

static void
input_room(void *ctx, uint32_t events)
{
	struct attempt *a = ctx;

	(void)events;
	loop_del(a->pool->env->loop, a->p.in);
	a->input_waits = false;
	input_write(a);
}

/* A terminal's descriptor is read by the loop, too: it waits for room with a copy. */
static void
input_wait(struct attempt *a)
{
	if (a->terminal && a->p.in == a->p.out &&
	    (a->p.in = fcntl(a->p.out, F_DUPFD_CLOEXEC, 3)) == -1)
		return;
	a->input_waits = loop_add(a->pool->env->loop, a->p.in, EPOLLOUT, input_room, a) == 0;
}

static void
input_write(struct attempt *a)
{
	ssize_t n;

	while (a->input_at < a->input_len) {
		n = write(a->p.in, a->input + a->input_at, a->input_len - a->input_at);
		if (n == -1 && errno == EAGAIN) {
			input_wait(a);
			return;
		}
		if (n <= 0) /* nobody reads any more */
			break;
		a->input_at += (size_t)n;
	}
	input_done(a);
	input_next(a);
}

static void
input_resize(struct attempt *a)
{
	unsigned cols = 0, rows = 0;

	if (sscanf((const char *)a->input, "%ux%u", &cols, &rows) == 2 && cols >= 1 &&
	    cols <= 1000 && rows >= 1 && rows <= 1000) {
		const struct winsize size = {
		    .ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

		ioctl(a->p.out, TIOCSWINSZ, &size);
	}
	input_done(a);
}

static void
input_end(struct attempt *a)
{
	if (a->terminal) {
		(void)!write(a->p.in, "\004", 1);
	} else if (a->p.in != -1) {
		close(a->p.in);
		a->p.in = -1;
	}
	input_done(a);
}

/* Take the next piece.  Return whether it was dealt with at once. */
static bool
input_take(struct attempt *a)
{
	char kind[8];
	struct stmt *q;
	const void *data;
	int len;

	if ((q = store_sql(a->pool->env->db, SENT)) == NULL)
		return false;
	stmt_int(q, ":session", a->session);
	stmt_int(q, ":seq", a->input_seq);
	if (stmt_step(q) != 1)
		return false;
	a->input_seq = stmt_get_int(q, 0);
	snprintf(kind, sizeof(kind), "%s", stmt_get_text(q, 1));
	len = sqlite3_column_bytes(stmt_handle(q), 2);
	data = sqlite3_column_blob(stmt_handle(q), 2);
	a->input = calloc(1, (size_t)len + 1);
	a->input_len = (size_t)len;
	a->input_at = 0;
	if (a->input != NULL && data != NULL)
		memcpy(a->input, data, (size_t)len);
	stmt_done(q);
	if (a->input == NULL)
		return false;
	if (strcmp(kind, "size") == 0)
		input_resize(a);
	else if (strcmp(kind, "end") == 0)
		input_end(a);
	else if (a->p.in == -1)
		input_done(a);
	else
		input_write(a);
	return true;
}

static void
input_next(struct attempt *a)
{
	while (a->input == NULL && !a->ended && input_take(a))
		;
}

/*
 * The pool.
 */

static bool
cancel_asked(struct attempt *a)
{
	struct stmt *q;

	if ((q = store_sql(a->pool->env->db, CANCELLED)) == NULL)
		return false;
	stmt_int(q, ":session", a->session);
	return stmt_value(q, 0) == 1;
}

static void
due(void *ctx)
{
	struct pool *pool = ctx;

	pool->due = 0;
	pool_wake(pool);
}

/* What waits to be tried again rings no bell. */
static void
due_later(struct pool *pool)
{
	int64_t ms = stmt_value(store_sql(pool->env->db, DUE), -1);

	loop_cancel(pool->env->loop, pool->due);
	pool->due = ms > 0 ? loop_after(pool->env->loop, ms, due, pool) : 0;
}

/* What is asked of those that run. */
static void
asked(struct pool *pool)
{
	struct attempt *a;

	for (a = pool->attempts; a != NULL; a = a->next) {
		if (!a->cancelled && !a->ended && cancel_asked(a)) {
			a->cancelled = true;
			attempt_end(a);
		}
		if (a->begun)
			input_next(a);
	}
}

void
pool_wake(struct pool *pool)
{
	/* One that cannot start ends at once, which wakes us, while we start others. */
	if (pool->waking)
		return;
	pool->waking = true;
	asked(pool);
	pool->waking = false;
	while (claims(pool))
		;
	if (!pool->draining)
		due_later(pool);
}

/* Whoever leads a session of ours has a row.  None of them runs now, however they ended. */
static bool
is_left_over(void *ctx, const struct kin *kin)
{
	struct stmt *q;

	if ((q = store_sql(ctx, LEADER)) == NULL)
		return false;
	stmt_text(q, ":boot", kin->boot_id);
	stmt_int(q, ":pid", kin->pid);
	stmt_int(q, ":start", kin->start_ticks);
	return stmt_value(q, 0) > 0;
}

/*
 * What the rows say that runs cannot: nothing of it is ours.  Mostly it was said already, and the
 * statement, whose rules reach far, need not be made.
 */
static int
close_left_open(struct pool *pool)
{
	struct store *db = pool->env->db;
	struct stmt *q;

	if (stmt_value(store_sql(db, IS_OPEN), 1) == 0)
		return 0;
	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, LEFT_OPEN)) == NULL || stmt_run(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/*
 * Of a worker that died: its sessions' leaders died with it, but for one that is another user by
 * now; what they started did not.
 */
static void
end_survivors(struct pool *pool)
{
	struct refusal r = {0};
	int64_t pid;
	int n, left;

	if (close_left_open(pool) != 0)
		complain(pool, "sessions of an earlier worker could not be closed");
	while ((pid = stmt_value(store_sql(pool->env->db, SURVIVORS), 0)) > 1)
		if (kill_tree((pid_t)pid, (pid_t)pid, &r) != 0) {
			fprintf(stderr, "bastion: worker: %s\n", r.why);
			break;
		}
	if ((n = kin_end(KIN_ANYWHERE, is_left_over, pool->env->db, &left)) > 0)
		fprintf(
		    stderr, "bastion: worker: processes of lost sessions lived on: %d ended\n", n);
	if (left > 0)
		fprintf(stderr,
		    "bastion: worker: processes of lost sessions could not be ended: %d\n", left);
}

struct pool *
pool_new(struct actor_env *env, struct runner *runner, void (*idle)(void *ctx), void *ctx,
    struct refusal *r)
{
	struct pool *pool;

	if ((pool = calloc(1, sizeof(*pool))) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	*pool =
	    (struct pool){.env = env, .runner = runner, .idle = idle, .ctx = ctx, .lent.fd = -1};
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		fprintf(stderr, "bastion: worker: orphans of sessions go elsewhere\n");
	end_survivors(pool);
	return pool;
}

/* Its grace ends while there is time to keep how it ended. */
static void
attempt_hurry(struct attempt *a)
{
	struct actor_env *env = a->pool->env;
	int64_t kill_ms = store_setting(env->db, "session.kill_ms"),
		drain_ms = store_setting(env->db, "actor.drain_ms") / 2;

	loop_cancel(env->loop, a->timer);
	a->timer = loop_after(env->loop, kill_ms < drain_ms ? kill_ms : drain_ms, attempt_kill, a);
}

void
pool_drain(struct pool *pool)
{
	struct attempt *a;

	pool->draining = true;
	for (a = pool->attempts; a != NULL; a = a->next)
		if (!a->ended) {
			attempt_end(a);
			attempt_hurry(a);
		}
}

bool
pool_idle(const struct pool *pool)
{
	return pool->attempts == NULL;
}

void
pool_free(struct pool *pool)
{
	if (pool == NULL)
		return;
	loop_cancel(pool->env->loop, pool->flush);
	loop_cancel(pool->env->loop, pool->due);
	loop_cancel(pool->env->loop, pool->late);
	while (pool->attempts != NULL) {
		if (!pool->attempts->ended)
			kill_group(pool->attempts->p.pid, SIGKILL);
		attempt_free(pool->attempts);
	}
	lent_close(&pool->lent);
	free(pool);
}
