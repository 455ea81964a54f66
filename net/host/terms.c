/* terms.c: carry what a person at this Host signed, or wants to see, to a box's pairings. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/actor.h"
#include "engine/clock.h"
#include "net/host/sign.h"
#include "net/host/terms.h"
#include "net/host/way.h"
#include "net/http/json.h"

#define PATH     "/v1/pairings"
#define BODY_MAX 10240 /* bytes: what a box takes of signed terms (openapi.json) */

static const char EXPIRE[] =
    "UPDATE host_terms SET state = 'expired', finished_at = now_ms(), code = 'terms.expired',"
    "  why = 'the box was not reached in time' || coalesce(': ' || substr(why, 1, 400), '')"
    " WHERE state = 'waiting' AND expires_at <= now_ms()";

/* In the words of the index host_terms_live: what was signed is history for long. */
static const char OVERDUE[] =
    "SELECT count(*) FROM host_terms"
    " WHERE state IN ('waiting', 'sent') AND state = 'waiting' AND expires_at <= now_ms()";

static const char DUE[] =
    "SELECT t.id, t.box_id, t.terms, t.signature"
    "  FROM host_terms AS t JOIN host_box AS b ON b.id = t.box_id"
    " WHERE t.state IN ('waiting', 'sent') AND t.state = 'waiting'"
    "   AND (b.transport <> 'reverse' OR (SELECT up FROM box_line WHERE box_id = b.id) > 0)"
    "   AND (t.tried_at IS NULL"
    "    OR t.tried_at <= now_ms() - (SELECT value FROM setting WHERE name = 'terms.retry_ms'))"
    " ORDER BY t.id LIMIT 1";

static const char NEXT[] =
    "SELECT min(expires_at, coalesce(tried_at, 0)"
    "    + (SELECT value FROM setting WHERE name = 'terms.retry_ms')) - now_ms() FROM host_terms"
    " WHERE state IN ('waiting', 'sent') AND state = 'waiting' ORDER BY 1 LIMIT 1";

static const char BODY[] = "SELECT json_object('terms', :terms, 'signature', :signature)";

static const char SENT[] =
    "UPDATE host_terms SET state = 'sent', tries = tries + 1, tried_at = now_ms(), why = NULL"
    " WHERE id = :id";

static const char TAKEN[] =
    "UPDATE host_terms SET state = 'taken', finished_at = now_ms(), answer = :answer"
    " WHERE id = :id";

static const char IS_REFUSAL[] =
    "SELECT json_type(:e, '$.error.code') = 'text' AND json_type(:e, '$.error.why') = 'text'"
    "  AND coalesce(json_type(:e, '$.error.exit'), 'integer') = 'integer'"
    "  AND coalesce(:e ->> '$.error.exit', 1) BETWEEN 1 AND 255";

static const char REFUSED[] =
    "UPDATE host_terms SET state = 'refused', finished_at = now_ms(),"
    "  exit_code = coalesce(:e ->> '$.error.exit', 126),"
    "  code = substr(:e ->> '$.error.code', 1, 64), why = substr(:e ->> '$.error.why', 1, 512),"
    "  advice = substr(:e ->> '$.error.advice', 1, 512)"
    " WHERE id = :id";

static const char AGAIN[] = "UPDATE host_terms SET state = 'waiting', why = :why WHERE id = :id";

static const char FAILED[] =
    "UPDATE host_terms SET state = 'failed', finished_at = now_ms(), code = :code, why = :why"
    " WHERE id = :id";

static const char HEARD[] =
    "UPDATE host_box SET heard_at = now_ms() WHERE id = :box AND state = 'active'";

/* One row on its way. */
struct post {
	struct way way; /* first */
	struct post *next, **self;
	int64_t id, box;
	bool look;
	char body[BODY_MAX + 1], *text; /* ${text}: the answer so far */
	size_t len;
	struct refusal refusal;
};

/* The actor is the process: what is under way ends with it, and the database knows. */
static struct carrier {
	struct actor_env *env;
	struct ways *ways;
	struct post *posts;
	uint64_t timer;
} carrier;

static void carry(void *ctx);

static void
complain(void)
{
	fprintf(stderr, "bastion: link: terms: %s\n", store_refusal(carrier.env->db)->why);
}

static void
post_free(struct post *p)
{
	*p->self = p->next;
	if (p->next != NULL)
		p->next->self = p->self;
	free(p->text);
	free(p);
}

/*
 * What became of it.
 */

static int
end_as(struct post *p, const char *sql, const struct refusal *r)
{
	struct stmt *q;

	if ((q = store_sql(carrier.env->db, sql)) == NULL)
		return -1;
	stmt_int(q, ":id", p->id);
	if (sql == FAILED)
		stmt_text(q, ":code", r->code);
	if (sql == FAILED || sql == AGAIN)
		stmt_text(q, ":why", r->why);
	else
		stmt_text_n(q, sql == TAKEN ? ":answer" : ":e", p->text, p->len);
	return stmt_run_one(q);
}

/* Whether the answer is a refusal in the one form. */
static bool
refuses(struct post *p)
{
	struct stmt *q;

	if ((q = store_sql(carrier.env->db, IS_REFUSAL)) == NULL)
		return false;
	stmt_text_n(q, ":e", p->text, p->len);
	return stmt_value(q, 0) == 1;
}

/* An answer that came whole.  A step of its own: the schema may find that it is not in the form. */
static int
answered(struct post *p, int status)
{
	struct store *db = carrier.env->db;
	unsigned depth = (unsigned)store_setting(db, "http.depth");
	struct stmt *q;

	if ((q = store_sql(db, HEARD)) == NULL)
		return -1;
	stmt_int(q, ":box", p->box);
	if (stmt_run(q) != 0)
		return -1;
	if (p->len == 0 || http_json_check(p->text, p->len, depth, NULL) != 0)
		refusal_set(&p->refusal, "terms.answer",
		    "the box's answer (status %d) is not in the form", status);
	else if (status != 200 && refuses(p))
		return end_as(p, REFUSED, NULL);
	else if (status != 200)
		refusal_set(&p->refusal, "terms.failed", "the box answered with status %d", status);
	else if (end_as(p, TAKEN, NULL) == 0)
		return 0;
	else
		p->refusal = *store_refusal(db);
	return end_as(p, FAILED, &p->refusal);
}

/* One that did not. What was never sent is tried again; what may have been heard is for a person to
 * look into. */
static int
unanswered(struct post *p, const struct refusal *r)
{
	if (p->refusal.code[0] == '\0')
		p->refusal = *r;
	if (strcmp(p->refusal.code, "http.unreachable") == 0 && !p->look)
		return end_as(p, AGAIN, &p->refusal);
	if (strncmp(p->refusal.code, "http.", 5) == 0)
		snprintf(p->refusal.code, sizeof(p->refusal.code), "terms.failed");
	return end_as(p, FAILED, &p->refusal);
}

static void
post_end(struct post *p, int status, const struct refusal *failed)
{
	struct store *db = carrier.env->db;
	int rc = -1;

	if (store_begin(db) == 0) {
		rc = failed != NULL ? unanswered(p, failed) : answered(p, status);
		rc = rc == 0 ? store_commit(db) : store_rollback(db);
	}
	if (rc != 0)
		complain();
	post_free(p);
}

static void
post_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	post_end(ctx, http_call_status(call), refusal);
	if (carrier.ways == NULL)
		return;
	loop_cancel(carrier.env->loop, carrier.timer);
	carrier.timer = loop_after(carrier.env->loop, 0, carry, NULL);
}

static int
post_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct post *p = ctx;
	char *more;

	(void)call;
	if ((more = realloc(p->text, p->len + len + 1)) == NULL)
		return refusal_set(&p->refusal, "terms.failed", "out of memory");
	memcpy(more + p->len, data, len);
	p->text = more;
	p->len += len;
	p->text[p->len] = '\0';
	return 0;
}

/*
 * On its way.
 */

static int
post_start(struct post *p)
{
	struct store *db = carrier.env->db;
	char nonce[SIGN_NONCE_HEX];
	const struct way_request request = {.method = p->look ? "GET" : "POST",
	    .path = PATH,
	    .nonce = nonce,
	    .body = p->look ? NULL : p->body,
	    .total_ms = store_setting(db, "terms.look_ms"),
	    .reply_max = (size_t)store_setting(db, "call.frame"),
	    .chunk = post_chunk,
	    .done = post_done};

	random_hex(nonce);
	return way_find(carrier.ways, p->box, &p->way, &p->refusal) == 0 &&
		       way_start(&p->way, &request, &p->refusal) != NULL
		   ? 0
		   : -1;
}

/* The body that carries terms; a look has none. */
static int
body_make(struct post *p, const char *terms, const void *raw)
{
	char signature[sodium_base64_ENCODED_LEN(64, sodium_base64_VARIANT_ORIGINAL)];
	struct stmt *q;

	if ((q = store_sql(carrier.env->db, BODY)) == NULL)
		return -1;
	sodium_bin2base64(signature, sizeof(signature), raw, 64, sodium_base64_VARIANT_ORIGINAL);
	stmt_text(q, ":terms", terms);
	stmt_text(q, ":signature", signature);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(p->body, sizeof(p->body), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

/* Return what is due next; NULL without one, or on failure, with ${*rc} 0 or -1. */
static struct post *
post_next(int *rc)
{
	const void *signature;
	struct post *p;
	struct stmt *q;

	*rc = -1;
	if ((q = store_sql(carrier.env->db, DUE)) == NULL || (*rc = stmt_step(q)) != 1)
		return NULL;
	*rc = -1;
	if ((p = calloc(1, sizeof(*p))) == NULL)
		return NULL;
	p->id = stmt_get_int(q, 0);
	p->box = stmt_get_int(q, 1);
	p->look = stmt_is_null(q, 2);
	signature = stmt_get_blob(q, 3, 64);
	if (!p->look && (signature == NULL || body_make(p, stmt_get_text(q, 2), signature) != 0)) {
		stmt_done(q);
		free(p);
		return NULL;
	}
	stmt_done(q);
	p->self = &carrier.posts;
	if ((p->next = carrier.posts) != NULL)
		p->next->self = &p->next;
	carrier.posts = p;
	return p;
}

static int
run_alone(const char *sql, int64_t id)
{
	struct store *db = carrier.env->db;
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, sql)) == NULL)
		return store_rollback(db);
	if (sql == SENT)
		stmt_int(q, ":id", id);
	return stmt_run(q) == 0 ? store_commit(db) : store_rollback(db);
}

/* That it was sent is durable before it leaves.  Return 1, 0 where nothing is due, -1. */
static int
carry_one(void)
{
	struct post *p;
	int rc;

	if ((p = post_next(&rc)) == NULL)
		return rc;
	if (run_alone(SENT, p->id) != 0) {
		post_free(p);
		return -1;
	}
	if (post_start(p) != 0)
		post_end(p, 0, &p->refusal);
	return 1;
}

/* The time of a row is no commit, so nothing else would wake us for it. */
static void
timer_set(bool failed)
{
	struct store *db = carrier.env->db;
	int64_t ms = stmt_value(store_sql(db, NEXT), INT64_MAX);

	if (failed)
		ms = store_setting(db, "terms.retry_ms");
	if (ms != INT64_MAX)
		carrier.timer = loop_after(carrier.env->loop, ms < 1 ? 1 : ms, carry, NULL);
}

static void
carry(void *ctx)
{
	int n = 0;

	(void)ctx;
	carrier.timer = 0;
	/* Mostly nothing waits, and whoever carries asks is woken for each of them. */
	if (stmt_value(store_sql(carrier.env->db, NEXT), INT64_MAX) == INT64_MAX)
		return;
	if (stmt_value(store_sql(carrier.env->db, OVERDUE), 0) > 0)
		n = run_alone(EXPIRE, 0);
	while (n == 0 && (n = carry_one()) == 1)
		n = 0;
	if (n == -1)
		complain();
	timer_set(n == -1);
}

void
terms_carry(struct actor_env *env, struct ways *ways)
{
	carrier.env = env;
	carrier.ways = ways;
	loop_cancel(env->loop, carrier.timer);
	carrier.timer = 0;
	if (ways != NULL)
		carry(NULL);
}
