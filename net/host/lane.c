/* lane.c: Hosts ask the box: who they are, whether they may, and the answer as it comes. */
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/approval.h"
#include "engine/state/audit_proof.h"
#include "engine/state/grant.h"
#include "engine/state/pairing.h"
#include "engine/state/quarantine.h"
#include "engine/worker/observe.h"
#include "net/host/dry.h"
#include "net/host/net.h"
#include "net/host/sign.h"
#include "net/host/watch.h"
#include "net/http/json.h"

#define ARGS_MAX   16384
#define BOUNDS_MAX 4096 /* bytes, as schema/bound.sql has it */

/* The ask, taken apart and held to its form by SQLite. */
static const char ASK[] =
    "SELECT :body ->> '$.op', :body ->> '$.uses', :body ->> '$.ttl_ms', coalesce(:body ->> '$.anew', 0),"
    "  json_type(:body) = 'object' AND json_type(:body, '$.op') = 'text'"
    "  AND json_type(:body, '$.args') = 'array'"
    "  AND coalesce(json_type(:body, '$.uses'), 'integer') = 'integer'"
    "  AND coalesce(json_type(:body, '$.ttl_ms'), 'integer') = 'integer'"
    "  AND coalesce(json_type(:body, '$.anew'), 'true') IN ('true', 'false')"
    "  AND coalesce(json_type(:body, '$.wait_ms'), 'integer') = 'integer'"
    "  AND coalesce(json_type(:body, '$.bounds'), 'object') = 'object'"
    "  AND coalesce(json_type(:body, '$.dry'), 'true') IN ('true', 'false')"
    "  AND NOT EXISTS (SELECT 1 FROM json_each(:body)"
    "    WHERE key NOT IN ('op', 'args', 'bounds', 'dry', 'uses', 'ttl_ms', 'anew', 'wait_ms', 'witness'))"
    "  AND NOT EXISTS (SELECT 1 FROM json_each(:body, '$.args') WHERE type <> 'text'),"
    "  min(max(coalesce(:body ->> '$.wait_ms', 0), 0),"
    "    (SELECT value FROM setting WHERE name = 'lane.wait_ms')),"
    "  :body -> '$.bounds', coalesce(:body ->> '$.dry', 0)";

/* What the Host holds of this box's audit: 0 where it does not ask, 1 where it holds nothing yet.
 */
static const char HELD[] =
    "SELECT CASE WHEN json_type(:body, '$.witness') IS NULL THEN 0"
    "            WHEN json_type(:body, '$.witness') = 'null' THEN 1"
    "            WHEN json_type(:body, '$.witness') = 'object'"
    "             AND json_type(:body, '$.witness.size') = 'integer'"
    "             AND :body ->> '$.witness.size' >= 1"
    "             AND json_type(:body, '$.witness.root') = 'text' THEN 2 ELSE -1 END,"
    "  :body ->> '$.witness.size', :body ->> '$.witness.root'";

static const char WITNESS[] = "SELECT json_object('w', :text) || char(10)";

static const char WORDS[] = "SELECT value FROM json_each(:body, '$.args')";

/* The arguments in their one canonical spelling. */
static const char CANON[] = "SELECT CASE :n WHEN 0 THEN json_array() WHEN 1 THEN json_array(:a)"
			    " ELSE json_array(:a, :b) END";

/* The words of an op that a person added, and a command as root: what they may be, triggers say. */
static const char ADDED[] =
    "SELECT (SELECT json_group_array(value) FROM json_each(:body, '$.args')), class = 'action'"
    "  FROM op WHERE name = :op AND (name GLOB 'run:*' OR name = 'root:exec')";

static const char RUN[] =
    "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at, dry)"
    " VALUES (:pairing, :op, :args, :nonce, nullif(:grant, 0), now_ms(), :dry)";

static const char REFUSED[] =
    "INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
    " SELECT now_ms(), :pairing, 'lane', substr(:asked, 1, 200), code, :why"
    "   FROM refusal WHERE code = :code";

static const char FRAMES[] = "SELECT seq, frame FROM op_output WHERE op_run_id = :id AND seq > :seq"
			     " ORDER BY seq";

/* A run that did not end by itself says so before its exit. */
static const char ENDED[] =
    "SELECT last_seq, iif(whole, json_object('x', exit_code), json_object('e', json_object('code',"
    "   'op.' || state, 'why', 'the run was ' || state || ' before it ended')) || char(10)"
    "   || json_object('x', 1))"
    "  FROM (SELECT last_seq, exit_code, state, state IN ('done', 'failed') AS whole FROM op_run"
    "         WHERE id = :id AND finished_at IS NOT NULL)"
    " UNION ALL SELECT 0, NULL WHERE NOT EXISTS (SELECT 1 FROM op_run WHERE id = :id)";

static const struct watch_rows ANSWER = {FRAMES, ENDED};

/* What became of a question: NULL while it waits; then "", or why nothing will come of it. */
static const char ANSWERED[] =
    "SELECT CASE WHEN state = 'pending' AND expires_at > now_ms() THEN NULL"
    "  WHEN state IN ('approved', 'burned') THEN ''"
    "  WHEN state = 'denied' THEN 'approval.denied|a person said no to question ' || id"
    "  ELSE 'approval.expired|question ' || id || ' ran out before a person answered it' END"
    " FROM approval WHERE id = :id";

/* The end of an answer that had begun with its question. */
static const char HELD_END[] =
    "SELECT json_object('e', json_object('code', code, 'why', :why, 'advice', advice,"
    "  'approval', :approval)) || char(10) || json_object('x', exit_code) || char(10)"
    "  FROM refusal WHERE code = :code";

/* What this machine can be asked for, and that its grants may have bounds. */
static const char OPS[] =
    "SELECT json_object('ops', json_group_array(json_object('name', name, 'class', class,"
    "  'usage', usage, 'summary', summary)), 'grant_run_bounds', json('true'), 'verbs',"
    "  (SELECT json_group_object(name, json(iif(works IS 1, 'true', 'false'))) FROM verb_report))"
    "  FROM op";

/* One ask on its way to a decision, and then to an answer. */
struct ask {
	struct commit_job job; /* first */
	struct net *net;
	struct http_exchange *x; /* NULL once the Host has gone */
	struct pairing pairing;
	char op[65], args[ARGS_MAX + 1], nonce[SIGN_NONCE_HEX];
	char bounds[BOUNDS_MAX + 1]; /* "": none */
	int64_t uses, ttl_ms;        /* 0: the box's default */
	bool anew, proven;           /* signed by the Host that it names */
	struct refusal held;         /* why it does not run */
	char *witness; /* that this audit goes on from what the Host holds of it, or NULL */
	int64_t run, approval;
	int64_t wait_ms;          /* for a person; 0: not at all */
	bool begun;               /* the answer was begun, with its question */
	bool dry;                 /* what would happen, and nothing does */
	bool acts;                /* its op changes something: a dry run of it looks */
	char dried[DRY_MAX];      /* the answer to that */
	struct ask *next, **self; /* of those that wait for a person */
	uint64_t timer;
};

/*
 * Who asks.
 */

static int
hex_only(const char *text, size_t len)
{
	return strlen(text) == len && strspn(text, "0123456789abcdef") == len ? 0 : -1;
}

int
lane_who(struct net *net, struct http_exchange *x, const char *path, struct pairing *pairing,
    char nonce[SIGN_NONCE_HEX], struct refusal *r)
{
	struct signed_request s;
	int n;

	if (signed_read(x, path, &s, r) != 0)
		return -1;
	memcpy(nonce, s.nonce, SIGN_NONCE_HEX);
	if ((n = pairing_find(net->env->db, s.key, pairing)) != 1) {
		if (n == -1)
			*r = *store_refusal(net->env->db);
		return n == -1
			   ? -1
			   : refusal_set(r, "lane.host", "no Host with this key is paired here");
	}
	if (signed_check(&s, pairing->host, r) != 0)
		return -1;
	if (strcmp(pairing->state, "invalid") == 0)
		return refusal_set(r, "pairing.invalid", "this pairing is not served");
	if (signed_now(&s, store_setting(net->env->db, "lane.skew_ms"), r) != 0)
		return -1;
	if (http_peer(x)->uid == HTTP_NOBODY && http_peer(x)->tag != pairing->id)
		return refusal_set(r, "lane.line",
		    "this connection is another Host's than that of %s, who signed the request",
		    pairing->host);
	if (http_peer(x)->uid != HTTP_NOBODY && (int64_t)http_peer(x)->uid != pairing->peer_uid)
		return refusal_set(r, "lane.peer",
		    "%s paired as another user than the one who asks", pairing->host);
	return 0;
}

/*
 * What is asked.
 */

static int
words_read(struct net *net, struct ask *ask, const char *body, size_t len, struct refusal *r)
{
	static struct observe_args canon; /* large; the loop runs one handler at a time */
	struct observe_word words[OBSERVE_ARGS_MAX + 1];
	struct stmt *q;
	int n = 0;

	if ((q = store_sql(net->env->db, WORDS)) == NULL)
		return -1;
	stmt_text_n(q, ":body", body, len);
	while (n <= OBSERVE_ARGS_MAX && stmt_step(q) == 1) {
		const char *text = stmt_get_text(q, 0);

		/* The JSON gate has refused NUL, so the text is its length. */
		words[n++] = (struct observe_word){strdup(text), strlen(text)};
	}
	stmt_done(q);
	if (observe_check(ask->op, n, words, &canon, r) != 0)
		n = -1 - n;
	for (int i = 0; i < (n < 0 ? -1 - n : n); i++) {
		union {
			const char *in;
			char *out;
		} word = {.in = words[i].text};

		free(word.out);
	}
	if (n < 0 || (q = store_sql(net->env->db, CANON)) == NULL)
		return -1;
	stmt_int(q, ":n", canon.n);
	stmt_text(q, ":a", canon.v[0]);
	stmt_text(q, ":b", canon.v[1]);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(ask->args, sizeof(ask->args), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

static int
added_read(struct net *net, struct ask *ask, const char *body, size_t len, struct refusal *r)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(net->env->db, ADDED)) == NULL)
		return -1;
	stmt_text_n(q, ":body", body, len);
	stmt_text(q, ":op", ask->op);
	if (stmt_step(q) != 1)
		return refusal_set(r, "op.unknown", "there is no op of this name");
	n = snprintf(ask->args, sizeof(ask->args), "%s", stmt_get_text(q, 0));
	ask->acts = stmt_get_int(q, 1) != 0;
	stmt_done(q);
	return n <= ARGS_MAX ? 0 : refusal_set(r, "op.args", "the arguments are too long");
}

static int
ask_read(struct net *net, struct ask *ask, const char *body, size_t len, struct refusal *r)
{
	const struct observe_op *op;
	struct stmt *q;
	int64_t good;
	int bounds = 0;

	if ((q = store_sql(net->env->db, ASK)) == NULL)
		return -1;
	stmt_text_n(q, ":body", body, len);
	if (stmt_step(q) != 1) {
		*r = *store_refusal(net->env->db);
		return -1;
	}
	good = stmt_get_int(q, 4);
	snprintf(ask->op, sizeof(ask->op), "%s", stmt_get_text(q, 0));
	ask->uses = stmt_get_int(q, 1);
	ask->ttl_ms = stmt_get_int(q, 2);
	ask->anew = stmt_get_int(q, 3) != 0;
	ask->wait_ms = stmt_get_int(q, 5);
	ask->dry = stmt_get_int(q, 7) != 0;
	if (!stmt_is_null(q, 6))
		bounds = snprintf(ask->bounds, sizeof(ask->bounds), "%s", stmt_get_text(q, 6));
	stmt_done(q);
	if (!good)
		return refusal_set(r, "op.args",
		    "an ask is {\"op\":text,\"args\":[text…],\"bounds\":object,\"dry\":bool,\"uses\":n,\"ttl_ms\":n,"
		    "\"anew\":bool,"
		    "\"wait_ms\":n,\"witness\":object}");
	if (bounds > BOUNDS_MAX)
		return refusal_set(
		    r, "grant.bounds", "bounds are at most %d bytes of JSON", BOUNDS_MAX);
	if ((op = observe_find(ask->op)) == NULL)
		return added_read(net, ask, body, len, r);
	ask->acts = op->acts;
	return words_read(net, ask, body, len, r);
}

/*
 * Whether this audit is the one that the Host knows.
 */

/* Store what the Host holds in ${cp}.  Return 0 where it does not ask, 1 for nothing, 2, or -1. */
static int
held_read(struct net *net, const char *body, size_t len, struct checkpoint *cp, struct refusal *r)
{
	struct stmt *q;
	size_t n;
	int kind;

	if ((q = store_sql(net->env->db, HELD)) == NULL)
		return -1;
	stmt_text_n(q, ":body", body, len);
	if (stmt_step(q) != 1) {
		*r = *store_refusal(net->env->db);
		return -1;
	}
	kind = (int)stmt_get_int(q, 0);
	cp->size = (uint64_t)stmt_get_int(q, 1);
	if (kind == 2 && (hex_only(stmt_get_text(q, 2), 2 * MERKLE_HASH) != 0 ||
			     sodium_hex2bin(cp->root, MERKLE_HASH, stmt_get_text(q, 2),
				 2 * MERKLE_HASH, NULL, &n, NULL) != 0))
		kind = -1;
	stmt_done(q);
	if (kind == -1)
		refusal_set(r, "op.args",
		    "a witness is null or {\"size\":rows,\"root\":64 hexadecimal digits}");
	return kind;
}

/*
 * Show that our audit goes on from the checkpoint that the Host holds, or find that it does not:
 * then this is an older database, or another one, and nothing runs on its word.
 */
static int
ask_witness(struct ask *ask, const char *body, size_t len, struct refusal *r)
{
	struct store *db = ask->net->env->db;
	struct checkpoint held;
	size_t text_len;
	FILE *out;
	int kind, rc;

	if ((kind = held_read(ask->net, body, len, &held, r)) < 1)
		return kind;
	if ((out = open_memstream(&ask->witness, &text_len)) == NULL)
		return refusal_errno(r, "store.failed", "the proof for the Host");
	rc = audit_witness(db, ask->net->env->keys.identity, kind == 2 ? &held : NULL, out);
	if (rc == -1)
		*r = *store_refusal(db);
	if (fclose(out) != 0 && rc == 0)
		rc = refusal_errno(r, "store.failed", "the proof for the Host");
	if (rc != 0) {
		free(ask->witness);
		ask->witness = NULL;
	}
	return rc == -1 ? -1 : 0;
}

/*
 * The decision, in the committer's thread.
 */

static int
run_insert(struct store *db, struct ask *ask)
{
	struct stmt *q;
	int64_t grant = 0;

	if (grant_find(db, ask->pairing.id, ask->op, ask->args, &grant) != 0 ||
	    (q = store_sql(db, RUN)) == NULL)
		return -1;
	stmt_int(q, ":pairing", ask->pairing.id);
	stmt_text(q, ":op", ask->op);
	stmt_text(q, ":args", ask->args);
	stmt_text(q, ":nonce", ask->nonce);
	stmt_int(q, ":grant", grant);
	stmt_int(q, ":dry", ask->dry && ask->acts);
	if (stmt_run(q) != 0)
		return -1;
	ask->run = store_last_id(db);
	return 0;
}

/* The triggers say whether it runs; where they want a person, the question is put in the same
 * transaction. */
static int
ask_decide(struct store *db, struct ask *ask)
{
	const struct approval_question asked = {.op = ask->op,
	    .args = ask->args,
	    .bounds = ask->bounds[0] != '\0' ? ask->bounds : NULL,
	    .uses = ask->uses,
	    .ttl_ms = ask->ttl_ms};

	if (!ask->anew && run_insert(db, ask) == 0)
		return 0;
	/* The question that it waited for is answered: another one would be nagging. */
	if (ask->begun || (!ask->anew && strcmp(store_refusal(db)->code, "approval.needed") != 0))
		return -1;
	if (approval_put(db, ask->pairing.id, &asked, &ask->approval) != 0)
		return -1;
	return refusal_set(store_refusal(db), "approval.needed",
	    "a person has to approve this first: question %" PRId64, ask->approval);
}

static int
ask_decide_dry(struct store *db, void *ask)
{
	return ask_decide(db, ask);
}

static void
ask_acts(struct store *db, const struct ask *ask)
{
	if (ask->proven)
		store_acting(db, "host:%s", ask->pairing.host);
	else
		store_acting(db, "actor:net");
}

/*
 * Most asks are within a grant, and one row settles them.  A dry run of what acts is a run, which
 * looks; of all else, and where no grant covers it, what would be decided is all there is to say.
 */
static int
ask_settle(struct store *db, struct commit_job *job)
{
	struct ask *ask = (struct ask *)job;

	ask_acts(db, ask);
	return ask->held.code[0] == '\0' && !ask->anew && (!ask->dry || ask->acts)
		   ? run_insert(db, ask)
		   : -1;
}

/* What was refused is kept, with the question that it led to. */
static int
ask_run(struct store *db, struct commit_job *job)
{
	struct ask *ask = (struct ask *)job;
	struct stmt *q;

	ask_acts(db, ask);
	if (ask->held.code[0] == '\0' && ask->dry)
		return dry_ask(db, ask_decide_dry, ask, ask->dried);
	if (ask->held.code[0] == '\0') {
		if (ask_decide(db, ask) == 0)
			return 0;
		ask->held = *store_refusal(db);
		quarantine_tell(db, ask->pairing.id, &ask->held);
	}
	if ((q = store_sql(db, REFUSED)) == NULL)
		return -1;
	stmt_int(q, ":pairing", ask->pairing.id);
	stmt_text(q, ":asked", ask->op);
	stmt_text(q, ":code", ask->held.code);
	stmt_text(q, ":why", ask->held.why);
	return stmt_run(q);
}

/*
 * The answer.
 */

static void
ask_refuse(struct ask *ask, const struct refusal *r)
{
	char extra[64];

	snprintf(extra, sizeof(extra), "\"approval\":%" PRId64, ask->approval);
	net_refuse(ask->net, ask->x, r, ask->approval != 0 ? extra : NULL);
}

/* The first line of an answer: {"w":proof}; NULL where there is no proof, or no memory for it. */
static char *
witness_line(struct ask *ask)
{
	char *line = NULL;
	struct stmt *q;

	if (ask->witness == NULL || (q = store_sql(ask->net->env->db, WITNESS)) == NULL)
		return NULL;
	stmt_text(q, ":text", ask->witness);
	if (stmt_step(q) != 1)
		return NULL;
	line = strdup(stmt_get_text(q, 0));
	stmt_done(q);
	return line;
}

static void
ask_answer(struct ask *ask)
{
	char *line = witness_line(ask);

	watch_begin(ask->net, ask->x, &ANSWER, ask->run, 0, line);
	free(line);
}

static void
ask_gone(void *ctx)
{
	((struct ask *)ctx)->x = NULL;
}

static void
ask_free(struct ask *ask)
{
	free(ask->witness);
	free(ask);
}

/*
 * Waiting for a person: the frame {"q":question} comes behind the witness alone, and the answer
 * goes on once it is approved.  The ask keeps its nonce, which no run has used yet.
 */

static void
hold_leave(struct ask *ask)
{
	*ask->self = ask->next;
	if (ask->next != NULL)
		ask->next->self = ask->self;
	loop_cancel(ask->net->env->loop, ask->timer);
	ask->net->nheld--;
}

static void
hold_gone(void *ctx)
{
	hold_leave(ctx);
	ask_free(ctx);
}

/* The answer was begun, so its end is two frames: why, and the exit. */
static void
hold_refuse(struct ask *ask, const struct refusal *r)
{
	struct stmt *q;

	if ((q = store_sql(ask->net->env->db, HELD_END)) != NULL) {
		stmt_text(q, ":code", r->code);
		stmt_text(q, ":why", r->why);
		stmt_int(q, ":approval", ask->approval);
		if (stmt_step(q) == 1) {
			http_stream_write(ask->x, stmt_get_text(q, 0), strlen(stmt_get_text(q, 0)));
			stmt_done(q);
		}
	}
	http_stream_end(ask->x);
}

static void
hold_end(struct ask *ask, const struct refusal *r)
{
	hold_leave(ask);
	hold_refuse(ask, r);
	ask_free(ask);
}

static void
hold_over(void *ctx)
{
	struct ask *ask = ctx;

	hold_end(ask, &ask->held);
}

/* Return whether ${ask} waits now; it does not where too many do. */
static bool
hold_begin(struct ask *ask)
{
	struct net *net = ask->net;
	char frame[40], *witness;

	if (ask->wait_ms == 0 || strcmp(ask->held.code, "approval.needed") != 0 ||
	    net->nheld >= store_setting(net->env->db, "lane.waits"))
		return false;
	ask->next = net->held;
	ask->self = &net->held;
	if (ask->next != NULL)
		ask->next->self = &ask->next;
	net->held = ask;
	net->nheld++;
	ask->begun = true;
	ask->timer = loop_after(net->env->loop, ask->wait_ms, hold_over, ask);
	http_on_close(ask->x, hold_gone, ask);
	if (http_stream_begin(ask->x, 200, "application/x-ndjson") != 0)
		return true;
	/* A Host that holds a checkpoint takes no other frame before it is shown. */
	if ((witness = witness_line(ask)) != NULL)
		http_stream_write(ask->x, witness, strlen(witness));
	free(witness);
	snprintf(frame, sizeof(frame), "{\"q\":%" PRId64 "}\n", ask->approval);
	http_stream_write(ask->x, frame, strlen(frame));
	return true;
}

/* Return 1 where the question of ${ask} was approved, 0 while it waits, -1 with why not. */
static int
hold_answered(struct ask *ask, struct refusal *r)
{
	char answer[REFUSAL_CODE_MAX + REFUSAL_WHY_MAX];
	struct stmt *q;
	char *bar;

	if ((q = store_sql(ask->net->env->db, ANSWERED)) == NULL)
		return 0;
	stmt_int(q, ":id", ask->approval);
	if (stmt_step(q) != 1)
		return 0;
	if (stmt_is_null(q, 0)) {
		stmt_done(q);
		return 0;
	}
	snprintf(answer, sizeof(answer), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	if ((bar = strchr(answer, '|')) == NULL)
		return 1;
	*bar = '\0';
	return refusal_set(r, answer, "%s", bar + 1);
}

void
lane_wake(struct net *net)
{
	struct ask *ask, *next;
	struct refusal r = {.code = ""};
	int n;

	for (ask = net->held; ask != NULL; ask = next) {
		next = ask->next;
		if ((n = hold_answered(ask, &r)) == -1)
			hold_end(ask, &r);
		if (n != 1)
			continue;
		hold_leave(ask);
		ask->held = (struct refusal){.code = ""};
		ask->anew = false;
		http_on_close(ask->x, ask_gone, ask);
		committer_submit(net->committer, &ask->job);
	}
}

void
lane_drain(struct net *net)
{
	while (net->held != NULL)
		hold_over(net->held);
}

/* What would be decided, behind the witness as every answer. */
static void
ask_dried(struct ask *ask)
{
	char *line = witness_line(ask);

	if (http_stream_begin(ask->x, 200, "application/x-ndjson") == 0) {
		if (line != NULL)
			http_stream_write(ask->x, line, strlen(line));
		http_stream_write(ask->x, ask->dried, strlen(ask->dried));
		http_stream_end(ask->x);
	}
	free(line);
}

static void
ask_done(struct commit_job *job)
{
	struct ask *ask = (struct ask *)job;
	const struct refusal *no = job->result != 0            ? &job->refusal
				   : ask->held.code[0] != '\0' ? &ask->held
							       : NULL;

	if (ask->x != NULL && no != NULL && job->result == 0 && !ask->begun && hold_begin(ask)) {
		lane_wake(ask->net); /* it may be answered by now */
		return;
	}
	if (ask->x != NULL && no != NULL && ask->begun)
		hold_refuse(ask, no);
	else if (ask->x != NULL && no != NULL)
		ask_refuse(ask, no);
	else if (ask->x != NULL && ask->dried[0] != '\0')
		ask_dried(ask);
	else if (ask->x != NULL && ask->begun)
		watch_go_on(ask->net, ask->x, &ANSWER, ask->run);
	else if (ask->x != NULL)
		ask_answer(ask);
	ask_free(ask);
}

/* Who asks for what.  Return 0, or -1 with why it does not come to a decision. */
static int
ask_take(struct ask *ask, struct refusal *r)
{
	struct store *db = ask->net->env->db;
	const char *body;
	size_t len;

	if (lane_who(ask->net, ask->x, "/v1/ops", &ask->pairing, ask->nonce, r) != 0)
		return -1;
	ask->proven = true;
	body = http_body(ask->x, &len);
	if (http_json_check(body, len, (unsigned)store_setting(db, "http.depth"), r) != 0)
		return -1;
	if (ask_read(ask->net, ask, body, len, r) != 0)
		return -1;
	return ask_witness(ask, body, len, r);
}

/* What names a Host that is paired here leaves a row, whatever becomes of it. */
int
lane_ask(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct ask *ask;
	struct refusal r = {.code = "store.failed", .why = "out of memory"};

	if ((ask = calloc(1, sizeof(*ask))) == NULL)
		return -1;
	*ask = (struct ask){
	    .job = {.settle = ask_settle, .run = ask_run, .done = ask_done}, .net = net, .x = x};
	if (ask_take(ask, &r) != 0)
		ask->held = r;
	if (ask->pairing.id == 0) {
		net_refuse(net, x, &r, NULL);
		ask_free(ask);
		return 0;
	}
	http_on_close(x, ask_gone, ask);
	committer_submit(net->committer, &ask->job);
	return 0;
}

int
lane_ops(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	char nonce[SIGN_NONCE_HEX];
	struct pairing pairing;
	struct refusal r = {0};

	if (lane_who(net, x, "/v1/ops", &pairing, nonce, &r) != 0) {
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	return net_answer(net, x, store_sql(net->env->db, OPS));
}
