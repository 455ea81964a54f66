/* link.c: the actor that calls out, and signs for this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "net/host/beats.h"
#include "net/host/carry.h"
#include "net/host/enroll_client.h"
#include "net/host/link.h"
#include "net/host/renew.h"
#include "net/host/way.h"
#include "net/http/client.h"

static const char GUEST[] =
    "SELECT b.id, i.token_digest, b.name, b.box_key, b.lane, box.name, box.identity_key"
    "  FROM host_box AS b CROSS JOIN invitation AS i ON i.id = b.invitation_id CROSS JOIN box"
    " WHERE b.welcome IS NULL AND b.state = 'active' LIMIT 1";

static const char WELCOME[] = "UPDATE host_box SET welcome = :signature WHERE id = :id";

struct link {
	struct actor_env *env;
	struct http_client *client;
	struct ways *ways;         /* of a Host */
	struct carry *carry;       /* likewise */
	struct beats *beats;       /* of a box */
	struct renewals *renewals; /* likewise */
	bool draining;
};

/* Sign for a box that came in: the actor that let it in holds no key.  Return 1, 0 without one, -1.
 */
static int
welcome_one(struct link *link)
{
	struct store *db = link->env->db;
	struct enroll_claim claim;
	char signature[ENROLL_BASE64];
	struct stmt *q;
	int64_t id;
	int n;

	if ((q = store_sql(db, GUEST)) == NULL)
		return -1;
	if ((n = stmt_step(q)) != 1)
		return n;
	id = stmt_get_int(q, 0);
	claim = (struct enroll_claim){.token_digest = stmt_get_blob(q, 1, 32),
	    .box = stmt_get_text(q, 2),
	    .box_key = stmt_get_blob(q, 3, 32),
	    .lane = stmt_get_text(q, 4),
	    .host = stmt_get_text(q, 5),
	    .host_key = stmt_get_blob(q, 6, 32)};
	n = enroll_sign(link->env->keys.secret, &claim, signature);
	stmt_done(q);
	if (n != 0)
		return refusal_set(
		    store_refusal(db), "pairing.refused", "the enrollment could not be signed");
	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, WELCOME)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	stmt_text(q, ":signature", signature);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db) == 0 ? 1 : -1;
}

static void
link_wake(struct actor_env *env)
{
	struct link *link = env->ctx;
	int n = 1;

	if (link->beats != NULL) {
		beats_wake(link->beats);
		renewals_wake(link->renewals);
		return;
	}
	while (!link->draining && (n = welcome_one(link)) == 1)
		;
	if (n == -1)
		fprintf(stderr, "bastion: link: %s\n", store_refusal(env->db)->why);
	ways_wake(link->ways);
	carry_wake(link->carry);
}

static void
link_stop(struct actor_env *env)
{
	struct link *link = env->ctx;

	if (link == NULL)
		return;
	beats_free(link->beats);
	renewals_free(link->renewals);
	http_client_free(link->client);
	carry_free(link->carry);
	ways_free(link->ways);
	free(link);
	env->ctx = NULL;
}

static int
host_start(struct link *link, struct refusal *r)
{
	return (link->ways = ways_new(link->env, link->client, r)) != NULL &&
		       (link->carry = carry_new(link->env, link->ways, r)) != NULL
		   ? 0
		   : -1;
}

static int
box_start(struct link *link, struct refusal *r)
{
	return (link->renewals = renewals_new(link->env, link->client, r)) != NULL &&
		       (link->beats = beats_new(link->env, link->client, r)) != NULL
		   ? 0
		   : -1;
}

static int
link_start(struct actor_env *env, struct refusal *r)
{
	struct link *link;

	if ((link = calloc(1, sizeof(*link))) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	env->ctx = link;
	link->env = env;
	if ((link->client = http_client_new(env->loop, r)) != NULL &&
	    (env->home->role == HOME_BOX ? box_start(link, r) : host_start(link, r)) == 0)
		return 0;
	link_stop(env);
	return -1;
}

static void
drained(void *ctx)
{
	const struct link *link = ctx;

	loop_stop(link->env->loop);
}

static void
link_drain(struct actor_env *env)
{
	struct link *link = env->ctx;

	link->draining = true;
	if (link->beats != NULL) {
		beats_drain(link->beats);
		loop_stop(env->loop);
		return;
	}
	carry_drain(link->carry, drained, link);
}

const struct actor actor_link = {
    .name = "link",
    .role = ROLE_LINK,
    .secret = SECRET_MACHINE,
    .box = true,
    .host = true,
    .filtered = true,
    .start = link_start,
    .wake = link_wake,
    .drain = link_drain,
    .stop = link_stop,
};
