/* flow.c: the rows of a connection, written in the committer's thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "net/egress/conn.h"
#include "net/egress/inspect.h"

#define ENDS_ALONG 2 /* more than come to be meanwhile, so none waits long */

static const char ASK[] =
    "INSERT INTO egress_flow (uid, pairing_id, surface, host, port, method, state, asked_at,"
    "  addresses, opened_at, run_id) VALUES (:uid, :pairing, :surface, :host, :port, :method,"
    "  iif(:addresses IS NULL, 'asked', 'open'), now_ms(), :addresses,"
    "  iif(:addresses IS NULL, NULL, now_ms()), :run)";
static const char REFUSED[] =
    "INSERT INTO egress_flow (uid, pairing_id, surface, host, port, method, state, asked_at,"
    "  ended_at, code, why, run_id) VALUES (:uid, :pairing, :surface, :host, :port, :method,"
    "  'refused', now_ms(), now_ms(), :code, :why, :run)";
static const char OPEN[] =
    "UPDATE egress_flow SET state = 'open', addresses = :addresses, opened_at = now_ms()"
    " WHERE id = :id";
static const char REFUSE[] =
    "UPDATE egress_flow SET state = 'refused', ended_at = now_ms(), code = :code, why = :why"
    " WHERE id = :id";
static const char END[] =
    "UPDATE egress_flow SET state = iif(:code IS NULL, 'done', 'failed'), ended_at = now_ms(),"
    "  dialled = :dialled, up = :up, down = :down, code = :code, why = :why WHERE id = :id";

/* How long a session's connection is held: from the first of its try to there on. */
static const char WAITS[] =
    "SELECT min(f.asked_at) + (SELECT value FROM setting WHERE name = 'session.ask_ms') - now_ms()"
    "  FROM attempt AS a JOIN egress_flow AS f ON f.run_id = a.sandbox_run_id"
    " WHERE a.sandbox_run_id = :run AND a.ended_at IS NULL"
    "   AND f.state = 'refused' AND f.ended_at >= a.launched_at"
    "   AND f.code = 'egress.unknown' AND f.host = :host AND f.port = :port";

static struct stmt *
birth(struct store *db, const char *sql, const struct conn *c)
{
	const struct proxy_who *who = &c->user->who;
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return NULL;
	if (who->host)
		stmt_int(q, ":pairing", who->id);
	else
		stmt_int(q, ":uid", who->id);
	if (who->run != 0)
		stmt_int(q, ":run", who->run);
	stmt_text(q, ":surface", c->surface);
	stmt_text(q, ":host", c->to.host.text);
	stmt_int(q, ":port", c->to.port);
	stmt_text(q, ":method", c->head.method[0] != '\0' ? c->head.method : NULL);
	return q;
}

/* A refusal that cannot be kept is told all the same. */
static void
refused(struct store *db, const struct conn *c, const struct refusal *why)
{
	struct stmt *q;

	if ((q = c->flow_id == 0 ? birth(db, REFUSED, c) : store_sql(db, REFUSE)) == NULL)
		return;
	if (c->flow_id != 0)
		stmt_int(q, ":id", c->flow_id);
	stmt_text(q, ":code", why->code);
	stmt_text(q, ":why", why->why);
	stmt_run(q);
}

static int
open_row(struct store *db, struct conn *c)
{
	struct stmt *q;

	if ((q = store_sql(db, OPEN)) == NULL)
		return -1;
	stmt_text(q, ":addresses", c->list);
	stmt_int(q, ":id", c->flow_id);
	if (stmt_run_one(q) != 0)
		return -1;
	inspect_read(db, c);
	return 0;
}

static int
ask_row(struct store *db, struct conn *c)
{
	struct stmt *q;

	if ((q = birth(db, ASK, c)) == NULL)
		return -1;
	stmt_text(q, ":addresses", c->list);
	if (stmt_run_one(q) != 0)
		return -1;
	c->flow_id = store_last_id(db);
	c->flow_after = c->list != NULL ? FLOW_OPEN : FLOW_ASKED;
	if (c->list != NULL)
		inspect_read(db, c);
	return 0;
}

/* Its row is there for a person to read: is it held until one did? */
static bool
waits(struct store *db, struct conn *c)
{
	struct stmt *q;
	int64_t ms;

	if (c->what != JOB_ASK || c->user->who.run == 0 ||
	    strcmp(c->why->code, "egress.unknown") != 0 ||
	    store_setting(db, "session.ask_ms") == 0 || (q = store_sql(db, WAITS)) == NULL)
		return false;
	stmt_int(q, ":run", c->user->who.run);
	stmt_text(q, ":host", c->to.host.text);
	stmt_int(q, ":port", c->to.port);
	if ((ms = stmt_value(q, 0)) <= 0)
		return false;
	c->until = loop_now() + ms;
	c->waits = c->why;
	c->why = NULL;
	return true;
}

static int
keep_held(struct conn *c)
{
	c->held = true;
	c->flow_after = FLOW_NONE;
	return 0;
}

/* What a rule held is a decision, and its row is written; what failed is none. */
static int
decide(struct store *db, struct conn *c)
{
	int rc = c->what == JOB_ASK ? ask_row(db, c) : open_row(db, c);

	if (rc == 0) {
		if (c->what == JOB_OPEN)
			c->flow_after = FLOW_OPEN;
		return 0;
	}
	/* No rule says anything, and a person may: no row stands for that, or it does already. */
	if (c->what == JOB_ASK &&
	    ((c->proxy->config.unknown != NULL && !c->asked) || c->waits != NULL) &&
	    strcmp(store_refusal(db)->code, "egress.unknown") == 0)
		return keep_held(c);
	if (!refusal_decides(store_refusal(db)) || (c->why = malloc(sizeof(*c->why))) == NULL)
		return -1;
	*c->why = *store_refusal(db);
	refused(db, c, c->why);
	if (waits(db, c))
		return keep_held(c);
	c->flow_after = FLOW_OVER;
	return 0;
}

static int
end_row(struct store *db, struct conn *c)
{
	struct stmt *q;

	c->flow_after = FLOW_OVER;
	if ((q = store_sql(db, END)) == NULL)
		return -1;
	stmt_int(q, ":id", c->flow_id);
	stmt_text(q, ":dialled", c->dialled[0] != '\0' ? c->dialled : NULL);
	stmt_int(q, ":up", (int64_t)c->up.moved);
	stmt_int(q, ":down", (int64_t)c->down.moved);
	stmt_text(q, ":code", c->why != NULL ? c->why->code : NULL);
	stmt_text(q, ":why", c->why != NULL ? c->why->why : NULL);
	return stmt_run_one(q);
}

static int
on_run(struct store *db, struct commit_job *job)
{
	struct conn *c = (struct conn *)job;

	switch (c->what) {
	case JOB_ASK:
	case JOB_OPEN:
		return decide(db, c);
	case JOB_REFUSE:
		refused(db, c, c->why);
		c->flow_after = FLOW_OVER;
		return 0;
	default:
		return end_row(db, c);
	}
}

/* A row that nothing holds, and the end of one, are one statement, and need no step of their own.
 */
static int
on_settle(struct store *db, struct commit_job *job)
{
	struct conn *c = (struct conn *)job;

	return c->what == JOB_ASK ? ask_row(db, c) : end_row(db, c);
}

static void
on_done(struct commit_job *job)
{
	struct conn *c = (struct conn *)job;

	c->busy = false;
	proxy_tell(c->proxy);
	/* The row then stays as it was, until the end of this process makes it lost. */
	if (job->result != 0 && c->what == JOB_END)
		fprintf(stderr, "egress: connection %lld: %s: %s\n", (long long)c->flow_id,
		    job->refusal.code, job->refusal.why);
	c->flow = job->result == 0 ? c->flow_after : FLOW_OVER;
	conn_decided(c);
}

void
flow_submit(struct conn *c, enum flow_job what)
{
	c->what = what;
	c->busy = true;
	c->answers = c->proxy->answers;
	c->job =
	    (struct commit_job){.settle = what == JOB_END || what == JOB_ASK ? on_settle : NULL,
		.run = on_run,
		.done = on_done};
	/* Nobody waits for the row of an end: many of them cost what one does. */
	if (what == JOB_END && proxy_gather(c))
		return;
	committer_submit(c->proxy->committer, &c->job);
	/* A few of those go along with each row that somebody waits for. */
	if (what != JOB_END)
		proxy_ends(c->proxy, ENDS_ALONG);
}
