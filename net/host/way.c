/* way.c: sign what goes to a box, and send it the way that the box is reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "net/host/sign.h"
#include "net/host/way.h"

static const char BOX[] = "SELECT lane, peer_uid FROM host_box WHERE id = :id AND state = 'active'";

struct ways {
	struct actor_env *env;
	struct http_client *client;
};

struct ways *
ways_new(struct actor_env *env, struct http_client *client, struct refusal *r)
{
	struct ways *ways;

	if ((ways = calloc(1, sizeof(*ways))) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	ways->env = env;
	ways->client = client;
	return ways;
}

void
ways_free(struct ways *ways)
{
	free(ways);
}

int
way_find(struct ways *ways, int64_t box, struct way *way)
{
	struct store *db = ways->env->db;
	struct stmt *q;
	int n;

	if ((q = store_sql(db, BOX)) == NULL)
		return -1;
	stmt_int(q, ":id", box);
	if ((n = stmt_step(q)) != 1)
		return n == -1 ? -1
			       : refusal_set(store_refusal(db), "box.gone",
				     "the box is no longer paired with this Host");
	*way = (struct way){.ways = ways, .box = box, .uid = stmt_get_int(q, 1)};
	snprintf(way->socket, sizeof(way->socket), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

/* A socket must be served by the user that served it when it was paired. */
static int
way_verify(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	const struct way *way = ctx;

	if ((int64_t)peer->uid == way->uid)
		return 0;
	return refusal_set(
	    refusal, "call.failed", "another user serves the box's socket than when it paired");
}

struct http_call *
way_start(struct way *way, const struct way_request *asked, struct refusal *r)
{
	struct actor_env *env = way->ways->env;
	const char *body = asked->body != NULL ? asked->body : "";
	struct sign_headers headers;
	char url[128];
	struct sign_request sign = {.method = asked->method,
	    .path = asked->path,
	    .time = clock_now(),
	    .nonce = asked->nonce,
	    .body = body,
	    .len = strlen(body)};
	const struct http_request request = {.socket_path = way->socket,
	    .method = asked->method,
	    .url = url,
	    .headers = headers.fields,
	    .body = asked->body,
	    .body_len = sign.len,
	    .connect_ms = store_setting(env->db, "call.connect_ms"),
	    .total_ms = asked->total_ms,
	    .reply_max = asked->reply_max,
	    .verify = way_verify,
	    .chunk = asked->chunk,
	    .done = asked->done,
	    .ctx = way};

	if (sign_headers(env->keys.secret, env->keys.identity, &sign, &headers) != 0) {
		refusal_set(r, "call.failed", "the request could not be signed");
		return NULL;
	}
	snprintf(url, sizeof(url), "http://bastion%s", asked->path);
	return http_start(way->ways->client, &request, r);
}
