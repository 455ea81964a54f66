/* beat_box.c: the box's end of beats: one loop for each Host, on time and on request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "engine/clock.h"
#include "engine/state/beat.h"
#include "net/host/beats.h"
#include "net/host/ends.h"
#include "net/host/sign.h"
#include "net/http/client.h"
#include "net/http/json.h"

#define PATH "/v1/beats"

static const char HOSTS[] = "SELECT pairing_id, endpoints || ' ' || identity FROM pairing_beats";

static const char ENDPOINTS[] = "SELECT value FROM json_each((SELECT endpoints"
				" FROM pairing_beats WHERE pairing_id = :pairing))"
				" LIMIT 1 OFFSET :at";

static const char ASKED[] = "SELECT count(*) FROM beat_request WHERE pairing_id = :pairing";

static const char HEARD[] = "DELETE FROM beat_request WHERE pairing_id = :pairing";

/* The loop of one pairing. */
struct beat_loop {
	struct beat_loop *next;
	struct beats *beats;
	int64_t pairing;
	char *facts; /* endpoints and certificates that it dials with */
	struct tls_end *end;
	struct http_call *call; /* the beat that is under way */
	uint64_t timer;         /* for the next one */
	unsigned at, tried;     /* of the endpoints: the one to use; how many this beat has tried */
	bool ticked, again;     /* the one under way came with time; another one is wanted */
	bool found;             /* seen in this look */
	char *text;             /* of its answer */
	size_t len;
};

struct beats {
	struct actor_env *env;
	struct http_client *client;
	struct beat_loop *first;
	int64_t every_ms;
	size_t reply_max;
	bool draining;
};

static void beat_begin(struct beat_loop *l, bool ticked);

static void
on_tick(void *ctx)
{
	struct beat_loop *l = ctx;

	l->timer = 0;
	beat_begin(l, true);
}

/* Beats of many boxes do not fall together for long: each waits from its own last one. */
static void
tick_set(struct beat_loop *l)
{
	struct loop *loop = l->beats->env->loop;

	loop_cancel(loop, l->timer);
	l->timer = loop_after(
	    loop, store_setting(l->beats->env->db, "beat.every_ms"), on_tick, l);
}

/*
 * The answer.
 */

static int
answer_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct beat_loop *l = ctx;
	char *more;

	(void)call;
	/* The client holds it to reply_max. */
	if ((more = realloc(l->text, l->len + len + 1)) == NULL)
		return -1;
	l->text = more;
	memcpy(l->text + l->len, data, len);
	l->len += len;
	l->text[l->len] = '\0';
	return 0;
}

/* The endpoint that is used now; "" where there are not so many. */
static void
endpoint_now(struct beat_loop *l, char *endpoint, size_t size)
{
	struct stmt *q;

	endpoint[0] = '\0';
	if ((q = store_sql(l->beats->env->db, ENDPOINTS)) == NULL)
		return;
	stmt_int(q, ":pairing", l->pairing);
	stmt_int(q, ":at", l->at);
	if (stmt_step(q) != 1)
		return;
	snprintf(endpoint, size, "%s", stmt_get_text(q, 0));
	stmt_done(q);
}

/* What the Host orders goes into rows.  Where it waits for a result, it is told at once. */
static void
answer_take(struct beat_loop *l)
{
	struct store *db = l->beats->env->db;
	struct directive_taken taken;
	char endpoint[300];
	struct refusal r;

	endpoint_now(l, endpoint, sizeof(endpoint));
	if (http_json_check(l->text, l->len, (unsigned)store_setting(db, "http.depth"), &r) != 0) {
		fprintf(stderr, "bastion: link: the answer to a beat: %s\n", r.why);
		return;
	}
	if (directive_take(db, l->pairing, l->text, l->len, &taken) != 0 ||
	    endpoint_reached(db, l->pairing, endpoint) == -1)
		fprintf(stderr, "bastion: link: the answer to a beat: %s\n", store_refusal(db)->why);
	else if (taken.results > 0)
		l->again = true;
}

/* The path fails over with beats that come with time alone: a burst of requests is no reason to
 * leave it. */
static bool
another(struct beat_loop *l)
{
	char endpoint[300];

	if (!l->ticked)
		return false;
	l->at++;
	endpoint_now(l, endpoint, sizeof(endpoint));
	if (endpoint[0] == '\0')
		l->at = 0;
	l->tried++;
	return l->at != 0 || l->tried == 0;
}

static void
answer_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct beat_loop *l = ctx;
	int status = http_call_status(call);

	l->call = NULL;
	if (refusal == NULL && status == 200 && l->text != NULL)
		answer_take(l);
	free(l->text);
	l->text = NULL;
	l->len = 0;
}
