/* request.c: rows of requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/egress/conn.h"
#include "net/egress/request.h"

static const char ASK[] =
    "INSERT INTO egress_request (flow_id, method, host, port, path, websocket, asked_at)"
    " VALUES (:flow, :method, :host, :port, :path, :websocket, now_ms())";
static const char REFUSED[] =
    "INSERT INTO egress_request (flow_id, method, host, port, path, websocket, state, asked_at,"
    "  ended_at, code, why) VALUES (:flow, :method, :host, :port, :path, :websocket, 'refused',"
    "  now_ms(), now_ms(), :code, :why)";
static const char TOKEN[] = "SELECT coalesce(token_id, 0) FROM egress_request WHERE id = :id";
static const char DONE[] = "UPDATE egress_request SET state = 'done', status = :status,"
			   " ended_at = now_ms() WHERE id = :id AND state = 'open'";
static const char FAILED[] = "UPDATE egress_request SET state = 'failed', code = :code, why = :why,"
			     " ended_at = now_ms() WHERE id = :id AND state = 'open'";
static const char AUTHORITY[] =
    "INSERT INTO egress_authority (id, pem, made_at, ends_at) VALUES (1, :pem, now_ms(), :ends)"
    " ON CONFLICT (id) DO UPDATE SET pem = excluded.pem, made_at = excluded.made_at,"
    "  ends_at = excluded.ends_at";

static struct stmt *
birth(struct store *db, const char *sql, const struct request *q)
{
	struct stmt *s;

	if ((s = store_sql(db, sql)) == NULL)
		return NULL;
	stmt_int(s, ":flow", q->flow_id);
	stmt_text(s, ":method", q->method);
	stmt_text(s, ":host", q->host);
	stmt_int(s, ":port", q->port);
	stmt_text(s, ":path", q->path);
	stmt_int(s, ":websocket", q->websocket);
	return s;
}

/* A refusal that cannot be kept is told all the same. */
static void
refused(struct store *db, const struct request *q)
{
	struct stmt *s;

	if ((s = birth(db, REFUSED, q)) == NULL)
		return;
	stmt_text(s, ":code", q->why.code);
	stmt_text(s, ":why", q->why.why);
	stmt_run(s);
}

static int
token_take(struct store *db, struct request *q)
{
	struct stmt *s;
	int64_t id;

	if ((s = store_sql(db, TOKEN)) == NULL)
		return -1;
	stmt_int(s, ":id", q->id);
	if ((id = stmt_value(s, -1)) <= 0)
		return (int)id;
	return (q->token = token_open(db, q->tokens, id)) != NULL ? 0 : -1;
}

/* What a rule held is a decision, and its row is written; what failed is none. */
static int
on_run(struct store *db, struct commit_job *job)
{
	struct request *q = (struct request *)job;
	struct stmt *s;

	if ((s = birth(db, ASK, q)) == NULL)
		return -1;
	if (stmt_run_one(s) == 0) {
		q->id = store_last_id(db);
		return token_take(db, q);
	}
	if (!refusal_decides(store_refusal(db)))
		return -1;
	q->why = *store_refusal(db);
	q->refused = true;
	refused(db, q);
	return 0;
}

static void
on_done(struct commit_job *job)
{
	struct request *q = (struct request *)job;
	const struct refusal *why = job->result != 0 ? &job->refusal : q->refused ? &q->why : NULL;

	if (q->ctx != NULL && why == NULL) {
		q->decided(q->ctx, q->id, q->token, NULL);
		q->token = NULL;
	} else if (q->ctx != NULL) {
		q->decided(q->ctx, q->id, NULL, why);
	}
	token_free(q->token);
	free(q->path);
	free(q);
}

struct request *
request_ask(struct proxy *proxy, int64_t flow_id, const struct head *head,
    void (*decided)(void *ctx, int64_t id, struct token *token, const struct refusal *why),
    void *ctx)
{
	struct request *q = calloc(1, sizeof(*q));

	if (q == NULL || (q->path = strdup(head->path)) == NULL) {
		free(q);
		return NULL;
	}
	q->job = (struct commit_job){.run = on_run, .done = on_done};
	q->tokens = proxy->config.tokens;
	q->flow_id = flow_id;
	memcpy(q->method, head->method, sizeof(q->method));
	snprintf(q->host, sizeof(q->host), "%s", head->to.host.text);
	q->port = head->to.port;
	q->websocket = head->websocket;
	q->decided = decided;
	q->ctx = ctx;
	committer_submit(proxy->committer, &q->job);
	return q;
}

void
request_forget(struct request *request)
{
	if (request != NULL)
		request->ctx = NULL;
}

/*
 * Rows that nobody waits for.
 */

struct note {
	struct commit_job job; /* first: the committer gives it back */
	int64_t id;
	int status;
	char *pem;
	struct refusal why; /* code "": it was answered */
};

static int
note_run(struct store *db, struct commit_job *job)
{
	const struct note *note = (struct note *)job;
	struct stmt *s;

	if ((s = store_sql(db, note->pem != NULL           ? AUTHORITY
			       : note->why.code[0] != '\0' ? FAILED
							   : DONE)) == NULL)
		return -1;
	if (note->pem != NULL) {
		stmt_text(s, ":pem", note->pem);
		stmt_int(s, ":ends", note->id);
	} else if (note->why.code[0] != '\0') {
		stmt_int(s, ":id", note->id);
		stmt_text(s, ":code", note->why.code);
		stmt_text(s, ":why", note->why.why);
	} else {
		stmt_int(s, ":id", note->id);
		stmt_int(s, ":status", note->status);
	}
	return stmt_run(s);
}

static void
note_done(struct commit_job *job)
{
	struct note *note = (struct note *)job;

	if (job->result != 0)
		fprintf(stderr, "egress: %s: %s\n", job->refusal.code, job->refusal.why);
	free(note->pem);
	free(note);
}

static void
note_submit(struct proxy *proxy, int64_t id, int status, const struct refusal *why, char *pem)
{
	struct note *note = calloc(1, sizeof(*note));

	if (note == NULL) {
		free(pem);
		return;
	}
	*note = (struct note){
	    .job = {.run = note_run, .done = note_done}, .id = id, .status = status, .pem = pem};
	if (why != NULL)
		note->why = *why;
	committer_submit(proxy->committer, &note->job);
}

void
request_done(struct proxy *proxy, int64_t id, int status)
{
	note_submit(proxy, id, status, NULL, NULL);
}

void
request_failed(struct proxy *proxy, int64_t id, const struct refusal *why)
{
	note_submit(proxy, id, 0, why, NULL);
}

void
request_authority(struct proxy *proxy, const char *pem, int64_t ends_at)
{
	char *copy = strdup(pem);

	if (copy != NULL)
		note_submit(proxy, ends_at, 0, NULL, copy);
}
