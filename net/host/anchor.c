/* anchor.c: pairings of the box, over its lane: the anchor approves, revokes, looks. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/base64.h"
#include "engine/state/pairing.h"
#include "net/host/anchor.h"
#include "net/host/net.h"
#include "net/host/sign.h"
#include "net/http/json.h"

#define PATH "/v1/pairings"

static const char BODY[] =
    "SELECT json_type(:body) = 'object' AND json_type(:body, '$.terms') = 'text'"
    "  AND json_type(:body, '$.signature') = 'text'"
    "  AND (SELECT count(*) FROM json_each(:body)) = 2,"
    " :body ->> '$.terms', :body ->> '$.signature'";

static const char LIST[] =
    "SELECT json_object('pairings', json_group_array(json_object('host', host, 'handle', handle,"
    "    'key', lower(hex(host_key)), 'state', state, 'since', since,"
    "    'unapproved', json(iif(unapproved, 'true', 'false')))))"
    "  FROM (SELECT * FROM told_pairings WHERE asks_id = :pairing ORDER BY host)";

static const char TAKEN[] = "SELECT json_object('kind', :kind, 'host', :host, 'state', :state)";

static const char REFUSED[] =
    "INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
    " SELECT now_ms(), :pairing, 'lane', 'pairings', code, :why FROM refusal WHERE code = :code";

/* Terms on their way to a decision. */
struct sync {
	struct commit_job job; /* first */
	struct net *net;
	struct http_exchange *x; /* NULL once the Host has gone */
	struct pairing carrier;
	char terms[ANCHOR_TERMS_MAX + 1];
	struct anchor_signed given;
	struct anchor_taken taken;
	struct refusal held; /* why they are not taken */
};

static int
signature_read(const char *text, unsigned char out[64])
{
	return base64_read(text, strlen(text), NULL, out, 64) == 64 ? 0 : -1;
}

int
anchor_body(struct store *db, const char *body, size_t len, char terms[ANCHOR_TERMS_MAX + 1],
    struct anchor_signed *given)
{
	struct refusal *r = store_refusal(db);
	const char *text;
	struct stmt *q;
	int rc = 0;

	if (http_json_check(body, len, (unsigned)store_setting(db, "http.depth"), r) != 0 ||
	    (q = store_sql(db, BODY)) == NULL)
		return -1;
	stmt_text_n(q, ":body", body, len);
	if (stmt_step(q) != 1)
		return -1;
	text = stmt_get_text(q, 1);
	given->len = strlen(text);
	if (stmt_get_int(q, 0) != 1 || given->len > ANCHOR_TERMS_MAX ||
	    signature_read(stmt_get_text(q, 2), given->signature) != 0)
		rc = refusal_set(
		    r, "anchor.terms", "signed terms are {\"terms\":text,\"signature\":base64}");
	else
		memcpy(terms, text, given->len + 1);
	given->terms = terms;
	stmt_done(q);
	return rc;
}

int
anchor_list(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	char nonce[SIGN_NONCE_HEX];
	struct pairing asks;
	struct refusal r = {0};
	struct stmt *q;

	if (lane_who(net, x, PATH, &asks, nonce, &r) != 0) {
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	if ((q = store_sql(net->env->db, LIST)) != NULL)
		stmt_int(q, ":pairing", asks.id);
	return net_answer(net, x, q);
}

/* In the committer's thread: take them, or keep what was refused. */
static int
sync_run(struct store *db, struct commit_job *job)
{
	struct sync *s = (struct sync *)job;
	struct stmt *q;

	store_acting(db, "host:%s", s->carrier.host);
	if (anchor_take(db, &s->given, &s->taken) == 0)
		return 0;
	s->held = *store_refusal(db);
	if ((q = store_sql(db, REFUSED)) == NULL)
		return -1;
	stmt_int(q, ":pairing", s->carrier.id);
	stmt_text(q, ":code", s->held.code);
	stmt_text(q, ":why", s->held.why);
	return stmt_run(q);
}

static void
sync_answer(struct sync *s)
{
	struct stmt *q;

	if ((q = store_sql(s->net->env->db, TAKEN)) != NULL) {
		stmt_text(q, ":kind", s->taken.kind);
		stmt_text(q, ":host", s->taken.host);
		stmt_text(q, ":state", s->taken.state);
	}
	net_answer(s->net, s->x, q);
}

static void
sync_done(struct commit_job *job)
{
	struct sync *s = (struct sync *)job;

	if (s->x != NULL && job->result != 0)
		net_refuse(s->net, s->x, &job->refusal, NULL);
	else if (s->x != NULL && s->held.code[0] != '\0')
		net_refuse(s->net, s->x, &s->held, NULL);
	else if (s->x != NULL)
		sync_answer(s);
	free(s);
}

static void
sync_gone(void *ctx)
{
	((struct sync *)ctx)->x = NULL;
}

int
anchor_sync(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	char nonce[SIGN_NONCE_HEX];
	struct sync *s;
	const char *body;
	size_t len;

	if ((s = calloc(1, sizeof(*s))) == NULL) {
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	s->job.run = sync_run;
	s->job.done = sync_done;
	s->net = net;
	s->x = x;
	if (lane_who(net, x, PATH, &s->carrier, nonce, &r) != 0) {
		net_refuse(net, x, &r, NULL);
		free(s);
		return 0;
	}
	body = http_body(x, &len);
	if (anchor_body(net->env->db, body, len, s->terms, &s->given) != 0) {
		net_refuse(net, x, store_refusal(net->env->db), NULL);
		free(s);
		return 0;
	}
	http_on_close(x, sync_gone, s);
	committer_submit(net->committer, &s->job);
	return 0;
}
