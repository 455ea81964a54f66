/* beat_box.c: the box's end of beats: one loop for each Host, on time and on request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "engine/state/beat.h"
#include "net/host/beats.h"
#include "net/host/hostway.h"
#include "net/http/client.h"
#include "net/http/json.h"

#define PATH "/v1/beats"

/* With what each Host is told; what differs is taken up anew. */
static const char HOSTS[] = "SELECT pairing_id, facts FROM pairing_beats";

static const char ASKED[] = "SELECT count(*) FROM beat_request WHERE pairing_id = :pairing";

static const char HEARD[] = "DELETE FROM beat_request WHERE pairing_id = :pairing";

/* The loop of one pairing. */
struct beat_loop {
	struct hostway way; /* first */
	struct beat_loop *next;
	struct beats *beats;
	char *facts;
	struct http_call *call; /* the beat that is under way */
	uint64_t timer;         /* for the next one */
	unsigned tried;         /* endpoints that failed the one under way */
	bool ticked, again;     /* it came with time; another one is wanted */
	bool found;             /* seen in this look */
	char *text;             /* of its answer */
	size_t len;
};

struct beats {
	struct actor_env *env;
	struct http_client *client;
	struct beat_loop *first;
	struct refusal said; /* last, so that it is said once */
	bool draining;
};

static void beat_begin(struct beat_loop *l, bool ticked);

static void
say(struct beats *beats, const struct refusal *r)
{
	if (strcmp(beats->said.why, r->why) != 0)
		fprintf(stderr, "bastion: link: a beat: %s [%s]\n", r->why, r->code);
	beats->said = *r;
}

static void
on_tick(void *ctx)
{
	struct beat_loop *l = ctx;

	l->timer = 0;
	beat_begin(l, true);
}

/* Each box counts from its own last one, so those of many do not fall together for long. */
static void
tick_set(struct beat_loop *l)
{
	struct actor_env *env = l->beats->env;

	loop_cancel(env->loop, l->timer);
	l->timer = loop_after(env->loop, store_setting(env->db, "beat.every_ms"), on_tick, l);
}

/*
 * The answer.
 */

static int
answer_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct beat_loop *l = ctx;
	char *more;

	(void)call; /* which holds it to reply_max */
	if ((more = realloc(l->text, l->len + len + 1)) == NULL)
		return -1;
	l->text = more;
	memcpy(l->text + l->len, data, len);
	l->len += len;
	l->text[l->len] = '\0';
	return 0;
}

/* What the Host orders goes into rows.  A result that it still has to hear of is told at once. */
static void
answer_take(struct beat_loop *l)
{
	struct store *db = l->beats->env->db;
	struct directive_taken taken = {0};
	struct refusal r;

	if (http_json_check(l->text, l->len, (unsigned)store_setting(db, "http.depth"), &r) != 0) {
		say(l->beats, &r);
		return;
	}
	if (directive_take(db, l->way.pairing, l->text, l->len, &taken) != 0 ||
	    (l->way.to.end != NULL &&
		endpoint_reached(db, l->way.pairing, l->way.endpoints[l->way.at]) == -1))
		say(l->beats, store_refusal(db));
	l->again = l->again || taken.results > 0;
}

static void
answer_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct beat_loop *l = ctx;
	int status = http_call_status(call);
	bool unheard = refusal != NULL;
	struct refusal no;

	l->call = NULL;
	if (!unheard && status == 200 && l->text != NULL)
		answer_take(l);
	else if (unheard)
		say(l->beats, refusal);
	else {
		refusal_set(&no, "beat.unheard", "the Host answers with status %d", status);
		say(l->beats, &no);
	}
	free(l->text);
	l->text = NULL;
	l->len = 0;
	/* A burst of requests is no reason to leave a path: that is for beats that come with time.
	 */
	if (unheard && l->ticked && ++l->tried < l->way.nendpoints) {
		hostway_next(&l->way);
		beat_begin(l, true);
		return;
	}
	l->tried = 0;
	tick_set(l);
	if (l->again)
		beat_begin(l, false);
}

/*
 * A beat.
 */

static int
beat_send(struct beat_loop *l, const char *body, struct refusal *r)
{
	struct store *db = l->beats->env->db;
	const struct hostway_request request = {.path = PATH,
	    .body = body,
	    .total_ms = store_setting(db, "beat.time_ms"),
	    .reply_max = (size_t)store_setting(db, "beat.bytes"),
	    .chunk = answer_chunk,
	    .done = answer_done};

	l->call = hostway_send(&l->way, &request, r);
	return l->call != NULL ? 0 : -1;
}

/* What asked for this beat is answered by it, since it tells what is true by now. */
static int
request_take(struct beat_loop *l)
{
	struct store *db = l->beats->env->db;
	struct stmt *q;

	if ((q = store_sql(db, ASKED)) == NULL)
		return -1;
	stmt_int(q, ":pairing", l->way.pairing);
	if (stmt_value(q, 0) != 1)
		return 0;
	if (store_begin_soft(db) != 0)
		return -1;
	if ((q = store_sql(db, HEARD)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":pairing", l->way.pairing);
	return stmt_run(q) == 0 ? store_commit(db) : store_rollback(db);
}

static void
beat_begin(struct beat_loop *l, bool ticked)
{
	struct store *db = l->beats->env->db;
	struct refusal r;
	char *body;

	if (l->beats->draining)
		return;
	if (l->call != NULL) {
		l->again = true;
		return;
	}
	l->ticked = ticked;
	l->again = false;
	if (request_take(l) != 0 || beat_make(db, l->way.pairing, &body) != 0) {
		say(l->beats, store_refusal(db));
		tick_set(l);
		return;
	}
	if (beat_send(l, body, &r) != 0) {
		say(l->beats, &r);
		tick_set(l);
	}
	free(body);
}

/*
 * Which pairings.
 */

static void
loop_drop(struct beat_loop *l)
{
	struct beat_loop **p;

	for (p = &l->beats->first; *p != l; p = &(*p)->next)
		continue;
	*p = l->next;
	loop_cancel(l->beats->env->loop, l->timer);
	if (l->call != NULL)
		http_abort(l->call);
	hostway_close(&l->way);
	free(l->text);
	free(l->facts);
	free(l);
}

static void
loop_make(struct beats *beats, int64_t pairing, const char *facts)
{
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	struct beat_loop *l;

	if ((l = calloc(1, sizeof(*l))) == NULL || (l->facts = strdup(facts)) == NULL ||
	    hostway_open(beats->env, beats->client, pairing, &l->way, &r) != 0) {
		say(beats, &r);
		if (l != NULL)
			free(l->facts);
		free(l);
		return;
	}
	l->beats = beats;
	l->found = true;
	l->next = beats->first;
	beats->first = l;
	beat_begin(l, true);
}

static struct beat_loop *
loop_of(struct beats *beats, int64_t pairing)
{
	struct beat_loop *l;

	for (l = beats->first; l != NULL; l = l->next)
		if (l->way.pairing == pairing)
			return l;
	return NULL;
}

/* A pairing of a row of pairing_beats: one that is known, or a copy of what is to be taken up. */
struct host {
	struct host *next;
	int64_t pairing;
	char facts[];
};

/* Read them to the end before anything is written for one.  Return the list, its memory ours. */
static struct host *
hosts_read(struct beats *beats)
{
	struct host *hosts = NULL, *h;
	struct beat_loop *l;
	const char *facts;
	struct stmt *q;

	if ((q = store_sql(beats->env->db, HOSTS)) == NULL)
		return NULL;
	while (stmt_step(q) == 1) {
		facts = stmt_get_text(q, 1);
		l = loop_of(beats, stmt_get_int(q, 0));
		if (l != NULL && strcmp(l->facts, facts) == 0) {
			l->found = true;
			continue;
		}
		if ((h = malloc(sizeof(*h) + strlen(facts) + 1)) == NULL)
			continue;
		h->pairing = stmt_get_int(q, 0);
		memcpy(h->facts, facts, strlen(facts) + 1);
		h->next = hosts;
		hosts = h;
	}
	return hosts;
}

void
beats_wake(struct beats *beats)
{
	struct beat_loop *l, *next;
	struct host *hosts, *h;
	struct stmt *q;

	for (l = beats->first; l != NULL; l = l->next)
		l->found = false;
	hosts = hosts_read(beats);
	for (l = beats->first; l != NULL; l = next) {
		next = l->next;
		if (!l->found)
			loop_drop(l);
	}
	while ((h = hosts) != NULL) {
		hosts = h->next;
		if (!beats->draining)
			loop_make(beats, h->pairing, h->facts);
		free(h);
	}
	for (l = beats->first; l != NULL && !beats->draining; l = l->next) {
		if ((q = store_sql(beats->env->db, ASKED)) == NULL)
			return;
		stmt_int(q, ":pairing", l->way.pairing);
		if (stmt_value(q, 0) == 1)
			beat_begin(l, false);
	}
}

void
beats_drain(struct beats *beats)
{
	beats->draining = true;
}

struct beats *
beats_new(struct actor_env *env, struct http_client *client, struct refusal *r)
{
	struct beats *beats;

	if ((beats = calloc(1, sizeof(*beats))) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	beats->env = env;
	beats->client = client;
	return beats;
}

void
beats_free(struct beats *beats)
{
	if (beats == NULL)
		return;
	while (beats->first != NULL)
		loop_drop(beats->first);
	free(beats);
}
