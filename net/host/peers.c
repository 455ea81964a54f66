/* peers.c: whose connections under TLS may stay. */
#include <stdlib.h>
#include <string.h>

#include "net/host/peers.h"

/* Whoever may have one: by its number, which is the tag of its connections. */
static const char BOXES[] = "SELECT coalesce(group_concat(id), '') FROM host_box"
			    " WHERE state = 'active' AND transport <> 'unix'";

static const char HOSTS[] = "SELECT coalesce(group_concat(id), '') FROM pairing_status"
			    " WHERE state IN ('active', 'pending') AND transport <> 'unix'";

static const char IS_BOX[] = "SELECT count(*) FROM host_box"
			     " WHERE id = :id AND state = 'active' AND transport <> 'unix'";

static const char IS_HOST[] =
    "SELECT count(*) FROM pairing_status"
    " WHERE id = :id AND state IN ('active', 'pending') AND transport <> 'unix'";

/* Who cannot be looked up is let go: an honest peer comes again. */
static bool
is_paired(void *ctx, const struct http_peer *peer)
{
	struct net *net = ctx;
	struct stmt *q;

	q = store_sql(net->env->db, net->env->home->role == HOME_HOST ? IS_BOX : IS_HOST);
	if (q == NULL)
		return false;
	stmt_int(q, ":id", peer->tag);
	return stmt_value(q, 0) == 1;
}

void
peers_wake(struct net *net)
{
	bool host = net->env->home->role == HOME_HOST;
	struct stmt *q;
	char *now;

	if ((q = store_sql(net->env->db, host ? BOXES : HOSTS)) == NULL || stmt_step(q) != 1)
		return;
	now = strdup(stmt_get_text(q, 0));
	stmt_done(q);
	if (now == NULL || net->paired == NULL || strcmp(now, net->paired) != 0)
		http_close_unless(net->server, SURFACE_PEER, is_paired, net);
	free(net->paired);
	net->paired = now;
}
