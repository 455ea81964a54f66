/* hostway.c: sign what goes to a Host, and send it the way that the Host is reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "net/host/ends.h"
#include "net/host/hostway.h"
#include "net/host/sign.h"

#define ENDPOINTS_MAX 256

static const char WAY[] = "SELECT coalesce(socket, ''), coalesce(peer_uid, -1)"
			  " FROM pairing_beats WHERE pairing_id = :pairing";

static const char ENDPOINTS[] = "SELECT value FROM json_each((SELECT endpoints"
				" FROM pairing_beats WHERE pairing_id = :pairing))";

static int
endpoints_read(struct hostway *way)
{
	struct stmt *q;
	int more;

	if ((way->endpoints = calloc(ENDPOINTS_MAX, sizeof(*way->endpoints))) == NULL ||
	    (q = store_sql(way->env->db, ENDPOINTS)) == NULL)
		return -1;
	stmt_int(q, ":pairing", way->pairing);
	while ((more = stmt_step(q)) == 1 && way->nendpoints < ENDPOINTS_MAX &&
	       (way->endpoints[way->nendpoints] = strdup(stmt_get_text(q, 0))) != NULL)
		way->nendpoints++;
	if (more == 1)
		stmt_done(q);
	return way->nendpoints > 0 ? 0 : -1;
}

static int
way_read(struct hostway *way, struct refusal *r)
{
	struct store *db = way->env->db;
	struct stmt *q;

	if ((q = store_sql(db, WAY)) == NULL) {
		*r = *store_refusal(db);
		return -1;
	}
	stmt_int(q, ":pairing", way->pairing);
	if (stmt_step(q) != 1)
		return refusal_set(r, "pairing.unserved", "there is no way to this Host any more");
	snprintf(way->socket, sizeof(way->socket), "%s", stmt_get_text(q, 0));
	way->uid = stmt_get_int(q, 1);
	stmt_done(q);
	if (way->socket[0] != '\0')
		return 0;
	if (endpoints_read(way) != 0)
		return refusal_set(r, "store.failed", "the endpoints of a Host cannot be read");
	way->end = ends_of_pairing(db, way->env->wire, way->pairing, r);
	return way->end != NULL ? 0 : -1;
}

int
hostway_open(struct actor_env *env, struct http_client *client, int64_t pairing,
    struct hostway *way, struct refusal *r)
{
	*way = (struct hostway){.env = env, .client = client, .pairing = pairing};
	if (way_read(way, r) == 0)
		return 0;
	hostway_close(way);
	return -1;
}

void
hostway_close(struct hostway *way)
{
	tls_end_free(way->end);
	while (way->nendpoints > 0)
		free(way->endpoints[--way->nendpoints]);
	free(way->endpoints);
	way->endpoints = NULL;
	way->end = NULL;
}

/* The socket must be served by the user that served it when the box was paired. */
static int
way_verify(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	const struct hostway *way = ctx;

	if (way->end != NULL || (int64_t)peer->uid == way->uid)
		return 0;
	return refusal_set(refusal, "pairing.unreachable",
	    "another user serves the Host's socket than when it paired");
}

struct http_call *
hostway_send(struct hostway *way, const struct hostway_request *asked, struct refusal *r)
{
	struct actor_env *env = way->env;
	struct sign_headers headers;
	char url[128];
	const struct sign_request sign = {.method = "POST",
	    .path = asked->path,
	    .time = clock_now(),
	    .body = asked->body,
	    .len = strlen(asked->body)};
	const struct http_request request = {.socket_path = way->end == NULL ? way->socket : NULL,
	    .dial = way->end != NULL ? way->endpoints[way->at] : NULL,
	    .tls = way->end,
	    .method = "POST",
	    .url = url,
	    .headers = headers.fields,
	    .body = asked->body,
	    .body_len = sign.len,
	    .connect_ms = store_setting(env->db, "line.connect_ms"),
	    .total_ms = asked->total_ms,
	    .reply_max = asked->reply_max,
	    .verify = way_verify,
	    .chunk = asked->chunk,
	    .done = asked->done,
	    .ctx = way};

	if (sign_headers(env->keys.secret, env->keys.identity, &sign, &headers) != 0) {
		refusal_set(r, "store.failed", "the request could not be signed");
		return NULL;
	}
	snprintf(url, sizeof(url), "%s%s",
	    way->end != NULL ? "https://" TLS_HOST_NAME : "http://bastion", asked->path);
	return http_start(way->client, &request, r);
}

void
hostway_next(struct hostway *way)
{
	if (way->nendpoints > 0)
		way->at = (way->at + 1) % way->nendpoints;
}
