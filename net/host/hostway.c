/* hostway.c: sign what goes to a Host, and send it the way that the Host is reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/host/ends.h"
#include "net/host/hostway.h"

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
	snprintf(way->to.socket, sizeof(way->to.socket), "%s", stmt_get_text(q, 0));
	way->to.uid = stmt_get_int(q, 1);
	stmt_done(q);
	if (way->to.socket[0] != '\0')
		return 0;
	if (endpoints_read(way) != 0)
		return refusal_set(r, "store.failed", "the endpoints of a Host cannot be read");
	way->to.end = ends_of_pairing(db, way->env->wire, way->pairing, r);
	return way->to.end != NULL ? 0 : -1;
}

int
hostway_open(struct actor_env *env, struct http_client *client, int64_t pairing,
    struct hostway *way, struct refusal *r)
{
	*way = (struct hostway){.to = {.code = "pairing.unreachable", .whose = "the Host's"},
	    .env = env,
	    .client = client,
	    .pairing = pairing};
	if (way_read(way, r) == 0)
		return 0;
	hostway_close(way);
	return -1;
}

void
hostway_close(struct hostway *way)
{
	tls_end_free(way->to.end);
	while (way->nendpoints > 0)
		free(way->endpoints[--way->nendpoints]);
	free(way->endpoints);
	way->endpoints = NULL;
	way->to.end = NULL;
}

struct http_call *
hostway_send(struct hostway *way, const struct hostway_request *asked, struct refusal *r)
{
	bool tls = way->to.end != NULL;
	char url[128];
	const struct send_request request = {.method = "POST",
	    .path = asked->path,
	    .body = asked->body,
	    .url = url,
	    .dial = tls ? way->endpoints[way->at] : NULL,
	    .connect_ms = store_setting(way->env->db, "line.connect_ms"),
	    .total_ms = asked->total_ms,
	    .reply_max = asked->reply_max,
	    .chunk = asked->chunk,
	    .done = asked->done};

	snprintf(url, sizeof(url), "%s%s", tls ? "https://" TLS_HOST_NAME : "http://bastion",
	    asked->path);
	return send_signed(way->env, way->client, &way->to, &request, r);
}

void
hostway_next(struct hostway *way)
{
	if (way->nendpoints > 0)
		way->at = (way->at + 1) % way->nendpoints;
}
