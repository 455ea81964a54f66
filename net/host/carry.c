/* carry.c: an ask leaves signed, and its answer comes home line by line, as rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "engine/crypto/checkpoint.h"
#include "net/host/cancel.h"
#include "net/host/carry.h"
#include "net/host/sign.h"
#include "net/host/way.h"
#include "net/http/json.h"

#define PATH "/v1/ops"

/* In the words of the index call_live: the history of asks is long. */
static const char ASKED[] =
    "SELECT c.id, c.nonce, b.id,"
    "  json_patch(json_object('op', c.op, 'args', json(c.args),"
    "              'anew', json(iif(c.anew, 'true', 'false')), 'witness', json(iif(w.size IS NULL,"
    "                NULL, json_object('size', w.size, 'root', lower(hex(w.root)))))),"
    "    json_object('bounds', json(c.bounds), 'dry', json(iif(c.dry, 'true', NULL))))"
    "  AS body, c.uses, c.ttl_ms, b.box_key, w.size, w.root, c.wait_ms"
    "  FROM call AS c JOIN host_box AS b ON b.id = c.box_id"
    "  LEFT JOIN box_witness AS w ON w.box_id = b.id AND w.state <> 'accepted'"
    " WHERE c.id = (SELECT min(id) FROM call_ready)";

/* No line in time. */
static const char OVERDUE[] =
    "UPDATE call SET state = 'failed', finished_at = now_ms(), exit_code = 1,"
    "  code = w.code, why = w.why FROM call_waits AS w"
    " WHERE w.id = call.id AND w.until <= now_ms()";

static const char NEXT_DUE[] = "SELECT coalesce(max(0, min(until) - now_ms()), -1) FROM call_waits";

static const char BODY[] =
    "SELECT json_patch(:body, json_object('uses', nullif(:uses, 0), 'ttl_ms', nullif(:ttl, 0),"
    "  'wait_ms', nullif(:wait, 0)))";

static const char SENT[] = "UPDATE call SET state = 'sent', sent_at = now_ms() WHERE id = :id";

static const char FRAME[] = "INSERT INTO call_output (call_id, seq, frame)"
			    " SELECT id, last_seq + 1, :frame FROM call WHERE id = :id";

static const char DONE[] =
    "UPDATE call SET state = 'done', finished_at = now_ms(), exit_code = :exit"
    " WHERE id = :id";

static const char REFUSED[] =
    "UPDATE call SET state = 'refused', finished_at = now_ms(),"
    "  exit_code = coalesce(:e ->> '$.error.exit', 126),"
    "  code = substr(:e ->> '$.error.code', 1, 64), why = substr(:e ->> '$.error.why', 1, 512),"
    "  advice = substr(:e ->> '$.error.advice', 1, 512), approval = :e ->> '$.error.approval',"
    "  retry_at = :e ->> '$.error.retry_at'"
    " WHERE id = :id";

static const char FAILED[] =
    "UPDATE call SET state = 'failed', finished_at = now_ms(), exit_code = 1,"
    " code = :code, why = :why WHERE id = :id";

static const char HEARD[] =
    "UPDATE host_box SET heard_at = now_ms() WHERE id = :box AND state = 'active'";

static const char NAME[] = "SELECT name FROM host_box WHERE id = :box";

static const char OVER[] = "SELECT code IS 'call.cancelled', nonce FROM call"
			   " WHERE id = :id AND finished_at IS NOT NULL";

/* NULL for a frame, the exit for an exit, 256 for what passes itself off as one. */
static const char EXIT[] =
    "SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM json_each(:frame) WHERE key = 'x') THEN NULL"
    " WHEN json_type(:frame, '$.x') = 'integer' AND (:frame ->> '$.x') BETWEEN 0 AND 255"
    " THEN :frame ->> '$.x' ELSE 256 END,"
    "       CASE WHEN json_type(:frame, '$.w') = 'text' THEN :frame ->> '$.w' END";

/*
 * What the box has shown is proven to go on from what was held when it was asked, and from nothing
 * else (c2sp.org/tlog-witness): where another answer brought a newer one meanwhile, that stays, and
 * the next ask proves from it.  A box could show two histories otherwise, the one in an answer that
 * it holds back.  What was asked with nothing held is taken where nothing is held, or a person said
 * that the box begins anew.  Most asks show what is held already.
 */
static const char FOLLOWED[] =
    "INSERT INTO box_witness (box_id, size, root, note, seen_at)"
    " VALUES (:box, :size, :root, :note, now_ms()) ON CONFLICT (box_id) DO UPDATE"
    "   SET state = 'followed', size = excluded.size, root = excluded.root, note = excluded.note,"
    "       seen_at = excluded.seen_at, why = NULL"
    " WHERE iif(box_witness.state = 'accepted', :held = 0,"
    "   box_witness.size = :held AND box_witness.root = :held_root"
    "     AND (excluded.size > box_witness.size OR box_witness.state <> 'followed'))";

/* It does not, as we found or as the box says itself. */
static const char ASTRAY[] =
    "UPDATE box_witness SET state = substr(:code, 9), why = :why"
    " WHERE box_id = :box AND :code IN ('witness.behind', 'witness.forked')"
    "   AND state <> 'accepted'";

static const char REFUSAL[] = "SELECT :e ->> '$.error.code', substr(:e ->> '$.error.why', 1, 512)";

static const char IS_REFUSAL[] =
    "SELECT json_type(:e, '$.error.code') = 'text'"
    " AND json_type(:e, '$.error.why') = 'text'"
    " AND coalesce(json_type(:e, '$.error.exit'), 'integer') = 'integer'"
    " AND coalesce(:e ->> '$.error.exit', 1) BETWEEN 1 AND 255"
    " AND coalesce(json_type(:e, '$.error.approval'), 'integer') = 'integer'"
    " AND coalesce(json_type(:e, '$.error.retry_at'), 'null')"
    "   IN ('integer', 'null')";

/* Asks on their way. */
struct carry {
	struct actor_env *env;
	struct ways *ways;
	struct carried *carried;
	struct cancels *cancels;
	unsigned depth;
	uint64_t timer; /* for the next ask that will have waited too long for a line */
	bool draining;
	void (*drained)(void *ctx);
	void *drained_ctx;
};

/* One ask on its way: its bytes so far, of which whole lines go into rows. */
struct carried {
	struct way way; /* first */
	struct carried *next, **self;
	struct carry *carry;
	struct http_call *call; /* NULL: not on its way yet */
	int64_t id, box, wait_ms;
	char *text;
	size_t len, size, line_max;
	int64_t exit_code; /* -1: no exit frame yet */
	unsigned char box_key[32];
	struct checkpoint held, shown; /* of the box's audit; size 0: none */
	char *note;                    /* of ${shown} */
	bool begun;                    /* a frame has come */
	struct refusal refusal;
};

/* Nothing is under way any more: no ask, and no word to a box that one was taken back. */
static void
check_drained(void *ctx)
{
	const struct carry *carry = ctx;

	if (carry->draining && carry->carried == NULL && !cancels_any(carry->cancels))
		carry->drained(carry->drained_ctx);
}

static void
carried_free(struct carried *c)
{
	struct carry *carry = c->carry;

	*c->self = c->next;
	if (c->next != NULL)
		c->next->self = c->self;
	free(c->note);
	free(c->text);
	free(c);
	check_drained(carry);
}

/*
 * Whether the box's audit is the one that we know.
 */

/* Hold what the box shows, the proof ${text}, against what we hold.  Return 0, or -1 with why it
 * does not fit. */
static int
witness_check(struct carried *c, const char *text)
{
	struct checkpoint_proof proof;
	struct checkpoint shown;

	if (checkpoint_proof_read(text, strlen(text), &proof, &c->refusal) != 0 ||
	    checkpoint_read(c->box_key, proof.note, proof.note_len, &shown, &c->refusal) != 0)
		return -1;
	if (proof.kind != PROOF_CONSISTENCY || shown.size == 0)
		return refusal_set(&c->refusal, "proof.form", "this is no proof of consistency");
	if (shown.size < c->held.size)
		return refusal_set(&c->refusal, "witness.behind",
		    "the box has shown a checkpoint of %" PRIu64
		    " rows of its audit, and shows one of %" PRIu64
		    " now: its database is an older one",
		    c->held.size, shown.size);
	if (proof.number != c->held.size ||
	    (c->held.size != 0 && merkle_extended(c->held.size, c->held.root, shown.size,
				      shown.root, &proof.proof) != 0))
		return refusal_set(&c->refusal, "witness.forked",
		    "the box cannot show that its audit of %" PRIu64
		    " rows goes on from the one of %" PRIu64
		    ": its database is another one, or was written anew",
		    shown.size, c->held.size);
	if ((c->note = strndup(proof.note, proof.note_len)) == NULL)
		return refusal_set(&c->refusal, "call.failed", "out of memory");
	c->shown = shown;
	return 0;
}

/* The first frame: with it a box that has shown its audit before goes on to do so. */
static int
witness_take(struct carried *c, const char *text)
{
	if (text != NULL && c->begun)
		return refusal_set(&c->refusal, "call.failed",
		    "the box showed its audit in the middle of an answer");
	c->begun = true;
	if (text != NULL)
		return witness_check(c, text);
	if (c->held.size != 0 && c->shown.size == 0)
		return refusal_set(&c->refusal, "witness.missing",
		    "the box does not show the checkpoint of its audit any more");
	return 0;
}

/* What came of it, in the transaction that ends the ask. */
static int
witness_keep(struct carried *c)
{
	struct store *db = c->carry->env->db;
	struct stmt *q;

	if (c->note != NULL && c->shown.size != 0) {
		if ((q = store_sql(db, FOLLOWED)) == NULL)
			return -1;
		stmt_int(q, ":size", (int64_t)c->shown.size);
		stmt_blob(q, ":root", c->shown.root, MERKLE_HASH);
		stmt_text(q, ":note", c->note);
		stmt_int(q, ":held", (int64_t)c->held.size);
		stmt_blob(q, ":held_root", c->held.root, MERKLE_HASH);
	} else {
		if ((q = store_sql(db, ASTRAY)) == NULL)
			return -1;
		stmt_text(q, ":code", c->refusal.code);
		stmt_text(q, ":why", c->refusal.why);
	}
	stmt_int(q, ":box", c->box);
	return stmt_run(q);
}

/*
 * Bringing it home.
 */

/* Keep one line: an exit is remembered, anything else is a frame of the answer. */
static int
line_keep(struct carried *c, const char *line, size_t len)
{
	struct store *db = c->carry->env->db;
	struct refusal r;
	struct stmt *q;
	int64_t exit_code;
	bool shown;
	int good;

	if (http_json_check(line, len, c->carry->depth, &r) != 0)
		return refusal_set(&c->refusal, "call.failed",
		    "the box answered with a frame that is none: %s", r.why);
	if (c->exit_code != -1)
		return refusal_set(&c->refusal, "call.failed", "the box went on after its exit");
	if ((q = store_sql(db, EXIT)) == NULL)
		return -1;
	stmt_text_n(q, ":frame", line, len);
	if (stmt_step(q) != 1)
		return -1;
	exit_code = stmt_is_null(q, 0) ? -1 : stmt_get_int(q, 0);
	shown = !stmt_is_null(q, 1);
	good = witness_take(c, shown ? stmt_get_text(q, 1) : NULL);
	stmt_done(q);
	if (good != 0 || shown)
		return good;
	if (exit_code > 255)
		return refusal_set(
		    &c->refusal, "call.failed", "the box answered with an exit that is none");
	if ((c->exit_code = exit_code) != -1)
		return 0;
	if ((q = store_sql(db, FRAME)) == NULL)
		return -1;
	stmt_int(q, ":id", c->id);
	stmt_text_n(q, ":frame", line, len);
	return stmt_run_one(q);
}

static int
lines_keep(struct carried *c)
{
	char *end;
	size_t used = 0;

	while ((end = memchr(c->text + used, '\n', c->len - used)) != NULL) {
		if (line_keep(c, c->text + used, (size_t)(end - c->text) - used) != 0)
			return -1;
		used = (size_t)(end - c->text) + 1;
	}
	memmove(c->text, c->text + used, c->len - used);
	c->len -= used;
	return 0;
}

static int
carried_add(struct carried *c, const char *data, size_t len)
{
	char *more;

	if (len > c->line_max || c->len + len > 2 * c->line_max)
		return refusal_set(&c->refusal, "call.failed",
		    "the box answered with a frame over %zu bytes", c->line_max);
	if (c->len + len + 1 > c->size) {
		if ((more = realloc(c->text, c->len + len + 1)) == NULL)
			return refusal_set(&c->refusal, "call.failed", "out of memory");
		c->text = more;
		c->size = c->len + len + 1;
	}
	memcpy(c->text + c->len, data, len);
	c->len += len;
	c->text[c->len] = '\0';
	return 0;
}

/* Whether the last whole line is the exit: then the end of the answer is here. */
static bool
at_exit(const struct carried *c)
{
	static const char exit_frame[] = "{\"x\":";
	const char *line;

	if (c->len < 2 || c->text[c->len - 1] != '\n')
		return false;
	line = memrchr(c->text, '\n', c->len - 1);
	line = line == NULL ? c->text : line + 1;
	return strncmp(line, exit_frame, sizeof(exit_frame) - 1) == 0;
}

/*
 * Frames are committed as they come, so that whoever waits sees them; only the end is made durable,
 * and what comes together with it goes into the same transaction.
 */
static int
answer_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct carried *c = ctx;
	struct store *db = c->carry->env->db;

	if (carried_add(c, data, len) != 0)
		return -1;
	if (http_call_status(call) != 200 || memchr(data, '\n', len) == NULL || at_exit(c))
		return 0;
	if (store_begin_soft(db) != 0)
		return -1;
	if (lines_keep(c) != 0) {
		if (c->refusal.code[0] == '\0')
			c->refusal = *store_refusal(db);
		return store_rollback(db);
	}
	return store_commit(db);
}

/* What the box says of its refusal. */
static int
refusal_read(struct carried *c)
{
	struct stmt *q;

	if ((q = store_sql(c->carry->env->db, REFUSAL)) == NULL)
		return -1;
	stmt_text_n(q, ":e", c->text, c->len);
	if (stmt_step(q) != 1)
		return -1;
	refusal_set(&c->refusal, stmt_get_text(q, 0), "%s", stmt_get_text(q, 1));
	stmt_done(q);
	return 0;
}

/* Whether the answer came from our own end of a line, and no box refused anything. */
static bool
of_line(const struct carried *c)
{
	return c->way.line && (strncmp(c->refusal.code, "http.", 5) == 0 ||
				  strncmp(c->refusal.code, "reverse.", 8) == 0);
}

/* Nobody was there: which box, and where it was looked for. */
static void
say_offline(struct carried *c)
{
	const char *place = c->way.endpoint[0] != '\0' ? c->way.endpoint : c->way.to.socket;
	struct stmt *q;

	if ((q = store_sql(c->carry->env->db, NAME)) == NULL)
		return;
	stmt_int(q, ":box", c->box);
	if (stmt_step(q) != 1)
		return;
	refusal_set(
	    &c->refusal, "box.offline", "%s does not answer at %s", stmt_get_text(q, 0), place);
	stmt_done(q);
}

static struct stmt *
ending(struct carried *c, int status, const struct refusal *failed)
{
	struct store *db = c->carry->env->db;
	struct stmt *q;

	if (failed == NULL && status == 200 && c->exit_code >= 0) {
		if ((q = store_sql(db, DONE)) != NULL)
			stmt_int(q, ":exit", c->exit_code);
		return q;
	}
	if (failed == NULL && status != 200 && c->len > 0 &&
	    http_json_check(c->text, c->len, c->carry->depth, NULL) == 0) {
		if ((q = store_sql(db, IS_REFUSAL)) == NULL)
			return NULL;
		stmt_text_n(q, ":e", c->text, c->len);
		if (stmt_value(q, 0) == 1 && refusal_read(c) == 0 && !of_line(c) &&
		    (q = store_sql(db, REFUSED)) != NULL) {
			stmt_text_n(q, ":e", c->text, c->len);
			return q;
		}
	}
	if (failed == NULL && status == 200)
		refusal_set(&c->refusal, "call.failed",
		    "the box's answer ended before its exit: it was cut off");
	else if (failed == NULL && !of_line(c))
		refusal_set(&c->refusal, "call.failed",
		    "the box's answer (status %d) is not in the form", status);
	else if (c->refusal.code[0] == '\0' && !c->way.line &&
		 strcmp(failed->code, "http.unreachable") == 0)
		say_offline(c);
	if (c->refusal.code[0] == '\0')
		refusal_set(&c->refusal, "call.failed", "%s", failed->why);
	if ((q = store_sql(db, FAILED)) != NULL) {
		stmt_text(q, ":code", c->refusal.code);
		stmt_text(q, ":why", c->refusal.why);
	}
	return q;
}

/* The answer as it came. */
static int
end_keep(struct carried *c, int status, const struct refusal *failed)
{
	struct store *db = c->carry->env->db;
	struct stmt *q;
	int bad = -1;

	if (store_begin(db) != 0)
		return -1;
	if (failed == NULL && status == 200 && lines_keep(c) != 0)
		failed = &c->refusal;
	if ((q = ending(c, status, failed)) != NULL) {
		stmt_int(q, ":id", c->id);
		bad = stmt_run_one(q);
	}
	if (bad == 0)
		bad = witness_keep(c);
	if (bad == 0 && failed == NULL && (q = store_sql(db, HEARD)) != NULL) {
		stmt_int(q, ":box", c->box);
		bad = stmt_run(q);
	}
	return bad == 0 ? store_commit(db) : store_rollback(db);
}

/* The database did not take the answer: that, ${r}, is how the ask ends, or whoever waits for it
 * would wait until the next start. */
static int
end_refused(struct carried *c, const struct refusal *r)
{
	struct store *db = c->carry->env->db;
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, FAILED)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", c->id);
	stmt_text(q, ":code", r->code[0] != '\0' ? r->code : "call.failed");
	stmt_text(q, ":why", r->why);
	return stmt_run_one(q) == 0 ? store_commit(db) : store_rollback(db);
}

static void
carried_end(struct carried *c, int status, const struct refusal *failed)
{
	struct store *db = c->carry->env->db;
	struct refusal r;

	if (end_keep(c, status, failed) != 0) {
		r = *store_refusal(db);
		fprintf(stderr, "bastion: link: ask %" PRId64 ": %s\n", c->id, r.why);
		if (end_refused(c, &r) != 0)
			fprintf(stderr, "bastion: link: ask %" PRId64 ": %s\n", c->id,
			    store_refusal(db)->why);
	}
	carried_free(c);
}

static void
answer_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	carried_end(ctx, http_call_status(call), refusal);
}

/*
 * Carrying it out.
 */

static int
carried_start(struct carried *c, const char *nonce, const char *body)
{
	struct store *db = c->carry->env->db;
	const struct way_request request = {.method = "POST",
	    .path = PATH,
	    .nonce = nonce,
	    .body = body,
	    .total_ms = store_setting(db, "call.answer_ms") + c->wait_ms,
	    .reply_max = (size_t)store_setting(db, "call.total"),
	    .chunk = answer_chunk,
	    .done = answer_done};

	if (way_find(c->carry->ways, c->box, &c->way, &c->refusal) == 0)
		c->call = way_start(&c->way, &request, &c->refusal);
	return c->call != NULL ? 0 : -1;
}

static int
mark_sent(struct store *db, int64_t id)
{
	struct stmt *q;

	if (store_begin_soft(db) != 0)
		return -1;
	if ((q = store_sql(db, SENT)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	return stmt_run_one(q) == 0 ? store_commit(db) : store_rollback(db);
}

static char *
body_make(struct store *db, const char *plain, int64_t uses, int64_t ttl_ms, int64_t wait_ms)
{
	char *body = NULL;
	struct stmt *q;

	if ((q = store_sql(db, BODY)) == NULL)
		return NULL;
	stmt_text(q, ":body", plain);
	stmt_int(q, ":uses", uses);
	stmt_int(q, ":ttl", ttl_ms);
	stmt_int(q, ":wait", wait_ms);
	if (stmt_step(q) != 1)
		return NULL;
	body = strdup(stmt_get_text(q, 0));
	stmt_done(q);
	return body;
}

static struct carried *
carried_new(struct carry *carry, struct stmt *q)
{
	const unsigned char *key, *root;
	struct carried *c;

	if ((c = calloc(1, sizeof(*c))) == NULL)
		return NULL;
	c->carry = carry;
	c->id = stmt_get_int(q, 0);
	c->box = stmt_get_int(q, 2);
	c->wait_ms = stmt_get_int(q, 9);
	c->exit_code = -1;
	if ((key = stmt_get_blob(q, 6, sizeof(c->box_key))) != NULL)
		memcpy(c->box_key, key, sizeof(c->box_key));
	if ((root = stmt_get_blob(q, 8, MERKLE_HASH)) != NULL) {
		c->held.size = (uint64_t)stmt_get_int(q, 7);
		memcpy(c->held.root, root, MERKLE_HASH);
	}
	c->line_max = (size_t)store_setting(carry->env->db, "call.frame");
	c->next = carry->carried;
	c->self = &carry->carried;
	if (c->next != NULL)
		c->next->self = &c->next;
	carry->carried = c;
	return c;
}

/* Take the oldest ask that waits.  The ask is durable; that it was sent is said before it leaves.
 * Return 1, 0 without one, -1. */
static int
carry_one(struct carry *carry)
{
	struct store *db = carry->env->db;
	char nonce[SIGN_NONCE_HEX], *body;
	struct carried *c;
	struct stmt *q;
	int n;

	if ((q = store_sql(db, ASKED)) == NULL)
		return -1;
	if ((n = stmt_step(q)) != 1)
		return n;
	snprintf(nonce, sizeof(nonce), "%s", stmt_get_text(q, 1));
	body = body_make(
	    db, stmt_get_text(q, 3), stmt_get_int(q, 4), stmt_get_int(q, 5), stmt_get_int(q, 9));
	c = carried_new(carry, q);
	stmt_done(q);
	if (body == NULL || c == NULL || mark_sent(db, c->id) != 0) {
		free(body);
		if (c != NULL)
			carried_free(c);
		return -1;
	}
	if (carried_start(c, nonce, body) != 0)
		carried_end(c, 0, &c->refusal);
	free(body);
	return 1;
}

/* An ask that was taken back is not waited for: the box sees the connection end, and is told, so
 * that what runs ends. */
static void
drop_cancelled(struct carry *carry)
{
	struct carried *c, *next;
	struct stmt *q;

	for (c = carry->carried; c != NULL; c = next) {
		next = c->next;
		if ((q = store_sql(carry->env->db, OVER)) == NULL)
			return;
		stmt_int(q, ":id", c->id);
		if (stmt_step(q) != 1)
			continue;
		if (stmt_get_int(q, 0) == 1)
			cancels_send(carry->cancels, c->box, stmt_get_text(q, 1));
		stmt_done(q);
		http_abort(c->call);
		carried_free(c);
	}
}

static void
on_due(void *ctx)
{
	struct carry *carry = ctx;

	carry->timer = 0;
	carry_keep(carry);
}

/* End what has waited too long for a line, and come back when the next will have. */
static int
end_overdue(struct carry *carry)
{
	struct store *db = carry->env->db;
	struct stmt *q;
	int64_t due;

	if ((q = store_sql(db, NEXT_DUE)) == NULL)
		return -1;
	if ((due = stmt_value(q, -1)) == 0) {
		if (store_begin(db) != 0)
			return -1;
		if ((q = store_sql(db, OVERDUE)) == NULL || stmt_run(q) != 0)
			return store_rollback(db);
		if (store_commit(db) != 0)
			return -1;
		due = 1;
	}
	loop_cancel(carry->env->loop, carry->timer);
	carry->timer = due > 0 ? loop_after(carry->env->loop, due, on_due, carry) : 0;
	return 0;
}

void
carry_wake(struct carry *carry)
{
	int n = 1;

	drop_cancelled(carry);
	while (!carry->draining && (n = carry_one(carry)) == 1)
		;
	if (n == -1)
		fprintf(stderr, "bastion: link: %s\n", store_refusal(carry->env->db)->why);
}

void
carry_keep(struct carry *carry)
{
	if (end_overdue(carry) != 0)
		fprintf(stderr, "bastion: link: %s\n", store_refusal(carry->env->db)->why);
}

void
carry_drain(struct carry *carry, void (*done)(void *ctx), void *ctx)
{
	carry->draining = true;
	carry->drained = done;
	carry->drained_ctx = ctx;
	check_drained(carry);
}

struct carry *
carry_new(struct actor_env *env, struct ways *ways, struct refusal *r)
{
	struct carry *carry;

	if ((carry = calloc(1, sizeof(*carry))) == NULL ||
	    (carry->cancels = cancels_new(env, ways, check_drained, carry)) == NULL) {
		free(carry);
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	carry->env = env;
	carry->ways = ways;
	carry->depth = (unsigned)store_setting(env->db, "http.depth");
	return carry;
}

void
carry_free(struct carry *carry)
{
	if (carry == NULL)
		return;
	carry->draining = false;
	loop_cancel(carry->env->loop, carry->timer);
	while (carry->carried != NULL)
		carried_free(carry->carried);
	cancels_free(carry->cancels);
	free(carry);
}
