/* way.c: sign what goes to a box, and send it the way that the box is reached. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/store/home.h"
#include "net/host/ends.h"
#include "net/host/way.h"

static const char BOX[] =
    "SELECT transport, coalesce(lane, ''), coalesce(peer_uid, -1), coalesce(endpoint, '')"
    "  FROM host_box WHERE id = :id AND state = 'active'";

static const char CERTIFICATE[] =
    "SELECT coalesce(max(id), 0) FROM tls_identity"
    " WHERE use = 'client' AND pairing_id IS NULL AND state = 'current'";

/* The end of TLS for one box, kept from ask to ask. */
struct end {
	struct end *next;
	int64_t box;
	struct tls_end *tls;
	bool old; /* of a certificate that has passed: asks that are under way use it still */
};

struct ways {
	struct actor_env *env;
	struct http_client *client;
	struct end *ends;
	int64_t certificate; /* the row that they are made of */
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

/* After the client, whose calls use them. */
void
ways_free(struct ways *ways)
{
	struct end *e;

	if (ways == NULL)
		return;
	while ((e = ways->ends) != NULL) {
		ways->ends = e->next;
		tls_end_free(e->tls);
		free(e);
	}
	free(ways);
}

void
ways_wake(struct ways *ways)
{
	struct stmt *q;
	struct end *e;
	int64_t certificate;

	if ((q = store_sql(ways->env->db, CERTIFICATE)) == NULL ||
	    (certificate = stmt_value(q, 0)) == ways->certificate)
		return;
	ways->certificate = certificate;
	for (e = ways->ends; e != NULL; e = e->next)
		e->old = true;
}

static struct tls_end *
end_of(struct ways *ways, int64_t box, struct refusal *r)
{
	struct end *e;

	for (e = ways->ends; e != NULL; e = e->next)
		if (e->box == box && !e->old)
			return e->tls;
	if ((e = calloc(1, sizeof(*e))) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	if ((e->tls = ends_of_box(ways->env->db, ways->env->wire, box, r)) == NULL) {
		free(e);
		return NULL;
	}
	e->box = box;
	e->next = ways->ends;
	ways->ends = e;
	return e->tls;
}

int
way_find(struct ways *ways, int64_t box, struct way *way, struct refusal *r)
{
	struct store *db = ways->env->db;
	struct stmt *q;
	int n;

	if ((q = store_sql(db, BOX)) == NULL) {
		*r = *store_refusal(db);
		return -1;
	}
	stmt_int(q, ":id", box);
	if ((n = stmt_step(q)) != 1) {
		if (n == -1)
			*r = *store_refusal(db);
		return n == -1 ? -1
			       : refusal_set(
				     r, "box.gone", "the box is no longer paired with this Host");
	}
	*way = (struct way){
	    .to = {.uid = stmt_get_int(q, 2), .code = "call.failed", .whose = "the box's"},
	    .ways = ways,
	    .box = box,
	    .line = strcmp(stmt_get_text(q, 0), "reverse") == 0};
	snprintf(way->to.socket, sizeof(way->to.socket), "%s", stmt_get_text(q, 1));
	snprintf(way->endpoint, sizeof(way->endpoint), "%s", stmt_get_text(q, 3));
	stmt_done(q);
	if (way->line) {
		snprintf(
		    way->to.socket, sizeof(way->to.socket), "%s/lines.sock", ways->env->home->run);
		way->to.uid = geteuid();
	}
	if (way->endpoint[0] == '\0')
		return 0;
	way->to.end = end_of(ways, box, r);
	return way->to.end != NULL ? 0 : -1;
}

struct http_call *
way_start(struct way *way, const struct way_request *asked, struct refusal *r)
{
	char url[160];
	const struct send_request request = {.method = asked->method,
	    .path = asked->path,
	    .nonce = asked->nonce,
	    .body = asked->body,
	    .url = url,
	    .dial = way->endpoint,
	    .connect_ms = store_setting(way->ways->env->db, "call.connect_ms"),
	    .total_ms = asked->total_ms,
	    .reply_max = asked->reply_max,
	    .chunk = asked->chunk,
	    .done = asked->done};

	/* On our lines the path begins with the box instead of the version. */
	if (way->line)
		snprintf(url, sizeof(url), "http://bastion/v1/boxes/%" PRId64 "%s", way->box,
		    asked->path + sizeof("/v1") - 1);
	else if (way->to.end != NULL)
		snprintf(url, sizeof(url), "https://" TLS_BOX_NAME "%s", asked->path);
	else
		snprintf(url, sizeof(url), "http://bastion%s", asked->path);
	return send_signed(way->ways->env, way->ways->client, &way->to, &request, r);
}
