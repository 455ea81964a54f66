/* link.c: the actor that calls out, and signs for this machine. */
#include <stdlib.h>

#include "engine/actor/loop.h"
#include "net/host/beats.h"
#include "net/host/carry.h"
#include "net/host/link.h"
#include "net/host/renew.h"
#include "net/host/terms.h"
#include "net/host/way.h"
#include "net/host/welcome.h"
#include "net/http/client.h"

struct link {
	struct actor_env *env;
	struct http_client *client;
	struct ways *ways;         /* of a Host */
	struct carry *carry;       /* likewise */
	struct beats *beats;       /* of a box */
	struct renewals *renewals; /* likewise */
	bool draining;
};

/* A Host's asks; on a box nothing is waited for. */
static void
link_wake(struct actor_env *env)
{
	struct link *link = env->ctx;

	ways_wake(link->ways);
	carry_wake(link->carry);
}

static void
link_keep(struct actor_env *env)
{
	struct link *link = env->ctx;

	if (link->beats != NULL) {
		beats_wake(link->beats);
		renewals_wake(link->renewals);
	} else {
		terms_carry(env, link->draining ? NULL : link->ways);
		carry_keep(link->carry);
	}
	/* A box that listens renews its own certificate, as a Host does. */
	if (!link->draining)
		welcome_wake(env);
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
    .late = LATE_BOX,
    .start = link_start,
    .wake = link_wake,
    .keep = link_keep,
    .drain = link_drain,
    .stop = link_stop,
};
