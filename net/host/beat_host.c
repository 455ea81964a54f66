/* beat_host.c: the Host's end of beats: who beats, and what it is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/beat.h"
#include "net/host/beats.h"
#include "net/http/json.h"

static const char WHO[] = "SELECT id, name, coalesce(peer_uid, -1) FROM host_box"
			  " WHERE box_key = :key AND state = 'active'";

/* A beat that was heard before, or is older than one that was, is none. */
static const char NEWEST[] =
    "INSERT INTO box_line (box_id, changed_at, beat_time) VALUES (:box, now_ms(), :time)"
    " ON CONFLICT (box_id) DO UPDATE SET beat_time = excluded.beat_time";

/* A beat on its way to its row. */
struct beat {
	struct commit_job job; /* first */
	struct net *net;
	struct http_exchange *x; /* NULL once the box has gone */
	int64_t box, time;
	char *answer;
	size_t len;
	char body[];
};

/* In the committer's thread. */
static int
beat_run(struct store *db, struct commit_job *job)
{
	struct beat *b = (struct beat *)job;
	struct stmt *q;

	if ((q = store_sql(db, NEWEST)) == NULL)
		return -1;
	stmt_int(q, ":box", b->box);
	stmt_int(q, ":time", b->time);
	if (stmt_run(q) != 0)
		return -1;
	return beat_take(db, b->box, b->body, b->len, &b->answer);
}

static void
beat_done(struct commit_job *job)
{
	struct beat *b = (struct beat *)job;

	if (b->x != NULL && job->result != 0)
		net_refuse(b->net, b->x, &job->refusal, NULL);
	else if (b->x != NULL)
		http_reply(b->x, 200, "application/json", NULL, b->answer, strlen(b->answer));
	free(b->answer);
	free(b);
}

static void
beat_gone(void *ctx)
{
	((struct beat *)ctx)->x = NULL;
}

/* Find which box it is, and that this is its own word on its own connection.  Return 0 or -1. */
static int
beat_who(struct net *net, struct http_exchange *x, struct signed_request *s, int64_t *box,
    struct refusal *r)
{
	const struct http_peer *peer = http_peer(x);
	char name[65];
	struct stmt *q;
	int64_t uid;
	int n;

	if (signed_read(x, "/v1/beats", s, r) != 0)
		return -1;
	if ((q = store_sql(net->env->db, WHO)) == NULL) {
		*r = *store_refusal(net->env->db);
		return -1;
	}
	stmt_blob(q, ":key", s->key, sizeof(s->key));
	if ((n = stmt_step(q)) != 1) {
		if (n == -1)
			*r = *store_refusal(net->env->db);
		return n == -1 ? -1
			       : refusal_set(r, "box.unpaired",
				     "no box with this key is paired with this Host");
	}
	*box = stmt_get_int(q, 0);
	snprintf(name, sizeof(name), "%s", stmt_get_text(q, 1));
	uid = stmt_get_int(q, 2);
	stmt_done(q);
	if (signed_check(s, name, r) != 0 ||
	    signed_now(s, store_setting(net->env->db, "lane.skew_ms"), r) != 0)
		return -1;
	if (peer->uid == HTTP_NOBODY ? peer->tag != *box : (int64_t)peer->uid != uid)
		return refusal_set(r, "lane.peer",
		    "%s is paired as another than the one who beats in its name", name);
	return 0;
}

int
beats_take(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct refusal r = {.code = "store.failed", .why = "out of memory"};
	struct signed_request s;
	struct beat *b = NULL;
	int64_t box = 0;

	if (beat_who(net, x, &s, &box, &r) != 0 ||
	    http_json_check(s.request.body, s.request.len,
		(unsigned)store_setting(net->env->db, "http.depth"), &r) != 0 ||
	    (b = malloc(sizeof(*b) + s.request.len)) == NULL) {
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	*b = (struct beat){.job = {.run = beat_run, .done = beat_done},
	    .net = net,
	    .x = x,
	    .box = box,
	    .time = s.request.time,
	    .len = s.request.len};
	memcpy(b->body, s.request.body, s.request.len);
	http_on_close(x, beat_gone, b);
	committer_submit(net->committer, &b->job);
	return 0;
}
