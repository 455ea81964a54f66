/* cancel.c: both ends of taking an ask back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/op_run.h"
#include "engine/state/pairing.h"
#include "net/host/cancel.h"
#include "net/host/net.h"
#include "net/host/way.h"
#include "net/http/json.h"

#define PATH      "/v1/cancels"
#define REPLY_MAX 4096

static const char NONCE[] =
    "SELECT iif(json_type(:body) = 'object' AND json_type(:body, '$.nonce') = 'text'"
    "   AND (SELECT count(*) FROM json_each(:body)) = 1"
    "   AND length(:body ->> '$.nonce') = 32, :body ->> '$.nonce', '')";

/*
 * The Host's end.
 */

struct cancels {
	struct actor_env *env;
	struct ways *ways;
	struct sending *list;
	void (*told)(void *ctx);
	void *ctx;
};

struct sending {
	struct way way; /* first */
	struct sending *next, **self;
	struct cancels *cancels;
};

struct cancels *
cancels_new(struct actor_env *env, struct ways *ways, void (*told)(void *ctx), void *ctx)
{
	struct cancels *c;

	if ((c = calloc(1, sizeof(*c))) != NULL)
		*c = (struct cancels){.env = env, .ways = ways, .told = told, .ctx = ctx};
	return c;
}

static void
sending_free(struct sending *s)
{
	*s->self = s->next;
	if (s->next != NULL)
		s->next->self = s->self;
	free(s);
}

void
cancels_free(struct cancels *c)
{
	if (c == NULL)
		return;
	while (c->list != NULL)
		sending_free(c->list);
	free(c);
}

bool
cancels_any(const struct cancels *c)
{
	return c->list != NULL;
}

static void
on_told(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct sending *s = ctx;
	struct cancels *c = s->cancels;

	(void)call;
	(void)refusal;
	sending_free(s);
	c->told(c->ctx);
}

void
cancels_send(struct cancels *c, int64_t box, const char *nonce)
{
	char body[64], own[SIGN_NONCE_HEX];
	struct way_request request = {.method = "POST",
	    .path = PATH,
	    .nonce = own,
	    .body = body,
	    .total_ms = store_setting(c->env->db, "call.connect_ms"),
	    .reply_max = REPLY_MAX,
	    .done = on_told};
	struct refusal r;
	struct sending *s;

	random_hex(own);
	snprintf(body, sizeof(body), "{\"nonce\":\"%.32s\"}", nonce);
	if ((s = calloc(1, sizeof(*s))) == NULL)
		return;
	s->cancels = c;
	s->next = c->list;
	s->self = &c->list;
	if (s->next != NULL)
		s->next->self = &s->next;
	c->list = s;
	if (way_find(c->ways, box, &s->way, &r) != 0 || way_start(&s->way, &request, &r) == NULL)
		sending_free(s);
}

/*
 * The box's end.
 */

struct cancel {
	struct commit_job job; /* first */
	struct net *net;
	struct http_exchange *x; /* NULL once the Host has gone */
	struct pairing pairing;
	char nonce[SIGN_NONCE_HEX];
	int64_t run;
};

static int
cancel_run(struct store *db, struct commit_job *job)
{
	struct cancel *c = (struct cancel *)job;

	store_acting(db, "host:%s", c->pairing.host);
	return op_run_cancel(db, c->pairing.id, c->nonce, &c->run);
}

static void
cancel_done(struct commit_job *job)
{
	struct cancel *c = (struct cancel *)job;
	const char *body = c->run != 0 ? "{\"cancelled\":true}\n" : "{\"cancelled\":false}\n";

	if (c->x != NULL && job->result != 0)
		net_refuse(c->net, c->x, &job->refusal, NULL);
	else if (c->x != NULL)
		http_reply(c->x, 200, "application/json", NULL, body, strlen(body));
	free(c);
}

static void
cancel_gone(void *ctx)
{
	((struct cancel *)ctx)->x = NULL;
}

static int
cancel_read(struct cancel *c, struct refusal *r)
{
	struct store *db = c->net->env->db;
	char own[SIGN_NONCE_HEX];
	const char *body;
	struct stmt *q;
	size_t len;

	if (lane_who(c->net, c->x, PATH, &c->pairing, own, r) != 0)
		return -1;
	body = http_body(c->x, &len);
	if (http_json_check(body, len, (unsigned)store_setting(db, "http.depth"), r) != 0)
		return -1;
	if ((q = store_sql(db, NONCE)) == NULL ||
	    (stmt_text_n(q, ":body", body, len), stmt_step(q)) != 1) {
		*r = *store_refusal(db);
		return -1;
	}
	snprintf(c->nonce, sizeof(c->nonce), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return c->nonce[0] != '\0' ? 0
				   : refusal_set(r, "op.args",
					 "what is taken back is {\"nonce\":32 hexadecimal digits}");
}

int
lane_cancel(struct http_exchange *x, void *ctx)
{
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	struct net *net = ctx;
	struct cancel *c;

	if ((c = calloc(1, sizeof(*c))) != NULL)
		*c = (struct cancel){
		    .job = {.run = cancel_run, .done = cancel_done}, .net = net, .x = x};
	if (c == NULL || cancel_read(c, &r) != 0) {
		free(c);
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	http_on_close(x, cancel_gone, c);
	committer_submit(net->committer, &c->job);
	return 0;
}
