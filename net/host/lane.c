/* lane.c: Hosts ask the box: who they are, whether they may, and the answer as it comes. */
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/approval.h"
#include "engine/state/pairing.h"
#include "engine/worker/observe.h"
#include "net/host/net.h"
#include "net/host/sign.h"
#include "net/http/json.h"

#define ARGS_MAX 16384

/* The ask, taken apart and held to its form by SQLite. */
static const char ASK[] =
    "SELECT :body ->> '$.op', :body ->> '$.uses', :body ->> '$.ttl_ms', coalesce(:body ->> '$.anew', 0),"
    "  json_type(:body) = 'object' AND json_type(:body, '$.op') = 'text'"
    "  AND json_type(:body, '$.args') = 'array'"
    "  AND coalesce(json_type(:body, '$.uses'), 'integer') = 'integer'"
    "  AND coalesce(json_type(:body, '$.ttl_ms'), 'integer') = 'integer'"
    "  AND coalesce(json_type(:body, '$.anew'), 'true') IN ('true', 'false')"
    "  AND NOT EXISTS (SELECT 1 FROM json_each(:body)"
    "    WHERE key NOT IN ('op', 'args', 'uses', 'ttl_ms', 'anew'))"
    "  AND NOT EXISTS (SELECT 1 FROM json_each(:body, '$.args') WHERE type <> 'text')";

static const char WORDS[] = "SELECT value FROM json_each(:body, '$.args')";

/* The arguments in their one canonical spelling. */
static const char CANON[] = "SELECT CASE :n WHEN 0 THEN json_array() WHEN 1 THEN json_array(:a)"
			    " ELSE json_array(:a, :b) END";

static const char USABLE[] =
    "SELECT id FROM grant WHERE pairing_id = :pairing AND op = :op AND args = :args"
    " AND state = 'active' AND expires_at > now_ms() ORDER BY expires_at, id LIMIT 1";

static const char RUN[] = "INSERT INTO op_run (pairing_id, op, args, nonce, grant_id, queued_at)"
			  " VALUES (:pairing, :op, :args, :nonce, nullif(:grant, 0), now_ms())";

static const char REFUSED[] =
    "INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
    " SELECT now_ms(), :pairing, 'lane', substr(:asked, 1, 200), code, :why"
    "   FROM refusal WHERE code = :code";

static const char FRAMES[] =
    "SELECT seq, frame FROM op_output WHERE op_run_id = :run AND seq > :seq"
    " ORDER BY seq";

static const char ENDED[] = "SELECT state, exit_code, last_seq FROM op_run WHERE id = :run"
			    " AND finished_at IS NOT NULL";

static const char OPS[] = "SELECT json_object('ops', json_group_array(json_object('name', name,"
			  " 'class', class, 'usage', usage, 'summary', summary))) FROM op";

/* One ask on its way to a decision, and then to an answer. */
struct ask {
	struct commit_job job; /* first */
	struct net *net;
	struct http_exchange *x; /* NULL once the Host has gone */
	struct pairing pairing;
	char op[65], args[ARGS_MAX + 1], nonce[SIGN_NONCE_HEX];
	int64_t uses, ttl_ms; /* 0: the box's default */
	bool anew, proven;    /* signed by the Host that it names */
	struct refusal held;  /* why it does not run */
	int64_t run, approval;
};

/* An answer that is being streamed. */
struct watch {
	struct watch *next, **self;
	struct net *net;
	struct http_exchange *x;
	int64_t run, seq;
	bool paused;
};

static void watch_send(struct watch *w);

/*
 * Who asks.
 */

static const char *
header_needed(struct http_exchange *x, const char *name, struct refusal *r)
{
	const char *v;

	if ((v = http_header(x, name)) == NULL)
		refusal_set(r, "lane.signature", "the request has no header %s", name);
	return v;
}

static int
hex_only(const char *text, size_t len)
{
	return strlen(text) == len && strspn(text, "0123456789abcdef") == len ? 0 : -1;
}

int
lane_who(struct net *net, struct http_exchange *x, const char *path, struct pairing *pairing,
    char nonce[SIGN_NONCE_HEX], struct refusal *r)
{
	struct sign_request request = {.method = http_method(x), .path = path};
	const char *key, *time, *given, *signature;
	unsigned char pk[32];
	int64_t skew;
	int n;

	if ((key = header_needed(x, "Bastion-Key", r)) == NULL ||
	    (time = header_needed(x, "Bastion-Time", r)) == NULL ||
	    (given = header_needed(x, "Bastion-Nonce", r)) == NULL ||
	    (signature = header_needed(x, "Bastion-Signature", r)) == NULL)
		return -1;
	if (hex_only(key, 64) != 0 || hex_only(given, SIGN_NONCE_HEX - 1) != 0)
		return refusal_set(
		    r, "lane.signature", "a header of the signature is not in its form");
	sodium_hex2bin(pk, sizeof(pk), key, 64, NULL, NULL, NULL);
	memcpy(nonce, given, SIGN_NONCE_HEX);
	if ((n = pairing_find(net->env->db, pk, pairing)) != 1) {
		if (n == -1)
			*r = *store_refusal(net->env->db);
		return n == -1
			   ? -1
			   : refusal_set(r, "lane.host", "no Host with this key is paired here");
	}
	request.nonce = nonce;
	request.time = strtoll(time, NULL, 10);
	request.body = http_body(x, &request.len);
	if (sign_check(pk, &request, signature) != 0)
		return refusal_set(r, "lane.signature",
		    "the signature is not that of %s for this request", pairing->host);
	if (strcmp(pairing->state, "invalid") == 0)
		return refusal_set(r, "pairing.invalid", "this pairing is not served");
	skew = request.time - clock_now();
	if (skew > store_setting(net->env->db, "lane.skew_ms") ||
	    skew < -store_setting(net->env->db, "lane.skew_ms"))
		return refusal_set(r, "lane.time",
		    "the request was signed %" PRId64 " s %s this machine's clock",
		    (skew < 0 ? -skew : skew) / 1000, skew < 0 ? "behind" : "ahead of");
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
ask_read(struct net *net, struct ask *ask, const char *body, size_t len, struct refusal *r)
{
	struct stmt *q;
	int64_t good;

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
	stmt_done(q);
	if (!good)
		return refusal_set(r, "op.args",
		    "an ask is {\"op\":text,\"args\":[text…],\"uses\":n,\"ttl_ms\":n,\"anew\":bool}");
	if (observe_find(ask->op) == NULL)
		return refusal_set(r, "op.unknown", "there is no op of this name");
	return words_read(net, ask, body, len, r);
}

/*
 * The decision, in the committer's thread.
 */

static int
run_insert(struct store *db, struct ask *ask)
{
	struct stmt *q;
	int64_t grant = 0;

	if ((q = store_sql(db, USABLE)) == NULL)
		return -1;
	stmt_int(q, ":pairing", ask->pairing.id);
	stmt_text(q, ":op", ask->op);
	stmt_text(q, ":args", ask->args);
	grant = stmt_value(q, 0);
	if ((q = store_sql(db, RUN)) == NULL)
		return -1;
	stmt_int(q, ":pairing", ask->pairing.id);
	stmt_text(q, ":op", ask->op);
	stmt_text(q, ":args", ask->args);
	stmt_text(q, ":nonce", ask->nonce);
	stmt_int(q, ":grant", grant);
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
	if (!ask->anew && run_insert(db, ask) == 0)
		return 0;
	if (!ask->anew && strcmp(store_refusal(db)->code, "approval.needed") != 0)
		return -1;
	if (approval_ask(db, ask->pairing.id, ask->op, ask->args, ask->uses, ask->ttl_ms,
		&ask->approval) != 0)
		return -1;
	return refusal_set(store_refusal(db), "approval.needed",
	    "a person has to approve this first: question %" PRId64, ask->approval);
}

/* What was refused is kept, with the question that it led to. */
static int
ask_run(struct store *db, struct commit_job *job)
{
	struct ask *ask = (struct ask *)job;
	struct stmt *q;

	if (ask->proven)
		store_acting(db, "host:%s", ask->pairing.host);
	else
		store_acting(db, "actor:net");
	if (ask->held.code[0] == '\0') {
		if (ask_decide(db, ask) == 0)
			return 0;
		ask->held = *store_refusal(db);
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
watch_free(struct watch *w)
{
	*w->self = w->next;
	if (w->next != NULL)
		w->next->self = w->self;
	free(w);
}

static void
watch_gone(void *ctx)
{
	watch_free(ctx);
}

static void
watch_drained(void *ctx)
{
	struct watch *w = ctx;

	w->paused = false;
	watch_send(w);
}

static int
watch_write(struct watch *w, const char *text)
{
	ssize_t queued = http_stream_write(w->x, text, strlen(text));

	if (queued == -1)
		return -1;
	w->paused = (int64_t)queued > store_setting(w->net->env->db, "http.stream");
	return 0;
}

/* A run that did not end by itself says so before its exit. */
static void
watch_finish(struct watch *w, const char *state, int64_t exit_code)
{
	char frame[160];

	if (strcmp(state, "done") != 0 && strcmp(state, "failed") != 0) {
		snprintf(frame, sizeof(frame),
		    "{\"e\":{\"code\":\"op.%s\",\"why\":\"the run was %s before it ended\"}}\n",
		    state, state);
		http_stream_write(w->x, frame, strlen(frame));
		exit_code = 1;
	}
	snprintf(frame, sizeof(frame), "{\"x\":%" PRId64 "}\n", exit_code);
	http_stream_write(w->x, frame, strlen(frame));
	http_stream_end(w->x);
	watch_free(w);
}

static void
watch_send(struct watch *w)
{
	struct store *db = w->net->env->db;
	char state[16] = "";
	int64_t exit_code = 0, last = 0;
	struct stmt *q;

	if ((q = store_sql(db, ENDED)) == NULL)
		return;
	stmt_int(q, ":run", w->run);
	if (stmt_step(q) == 1) {
		snprintf(state, sizeof(state), "%s", stmt_get_text(q, 0));
		exit_code = stmt_get_int(q, 1);
		last = stmt_get_int(q, 2);
		stmt_done(q);
	}
	if ((q = store_sql(db, FRAMES)) == NULL)
		return;
	stmt_int(q, ":run", w->run);
	stmt_int(q, ":seq", w->seq);
	while (!w->paused && stmt_step(q) == 1) {
		int64_t seq = stmt_get_int(q, 0);

		if (watch_write(w, stmt_get_text(q, 1)) != 0 || watch_write(w, "\n") != 0) {
			w->paused = true;
			break;
		}
		w->seq = seq;
	}
	stmt_done(q);
	if (state[0] != '\0' && !w->paused && w->seq >= last)
		watch_finish(w, state, exit_code);
}

void
lane_wake(struct net *net)
{
	struct watch *w, *next;

	for (w = net->watches; w != NULL; w = next) {
		next = w->next;
		if (!w->paused)
			watch_send(w);
	}
}

static void
ask_refuse(struct ask *ask, const struct refusal *r)
{
	char extra[64];

	snprintf(extra, sizeof(extra), "\"approval\":%" PRId64, ask->approval);
	net_refuse(ask->net, ask->x, r, ask->approval != 0 ? extra : NULL);
}

static void
ask_answer(struct ask *ask)
{
	struct watch *w;

	if ((w = calloc(1, sizeof(*w))) == NULL) {
		refusal_set(&ask->held, "store.failed", "out of memory");
		ask_refuse(ask, &ask->held);
		return;
	}
	*w = (struct watch){
	    .net = ask->net, .x = ask->x, .run = ask->run, .next = ask->net->watches};
	w->self = &ask->net->watches;
	if (w->next != NULL)
		w->next->self = &w->next;
	ask->net->watches = w;
	http_on_close(w->x, watch_gone, w);
	http_stream_on_drain(w->x, watch_drained, w);
	if (http_stream_begin(w->x, 200, "application/x-ndjson") == 0)
		watch_send(w);
}

static void
ask_gone(void *ctx)
{
	((struct ask *)ctx)->x = NULL;
}

static void
ask_done(struct commit_job *job)
{
	struct ask *ask = (struct ask *)job;

	if (ask->x != NULL && job->result != 0)
		ask_refuse(ask, &job->refusal);
	else if (ask->x != NULL && ask->held.code[0] != '\0')
		ask_refuse(ask, &ask->held);
	else if (ask->x != NULL)
		ask_answer(ask);
	free(ask);
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
	return ask_read(ask->net, ask, body, len, r);
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
	*ask = (struct ask){.job = {.run = ask_run, .done = ask_done}, .net = net, .x = x};
	if (ask_take(ask, &r) != 0)
		ask->held = r;
	if (ask->pairing.id == 0) {
		net_refuse(net, x, &r, NULL);
		free(ask);
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
