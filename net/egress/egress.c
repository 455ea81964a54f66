/* egress.c: the actor: a lane, and where it listens. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/actor/loop.h"
#include "net/egress/egress.h"
#include "net/egress/handed.h"
#include "net/egress/proxy.h"
#include "net/egress/lanes.h"

/* What the actor holds. */
struct egress {
	struct proxy *proxy;
	struct handed *handed; /* NULL: Hosts are not served */
	struct lanes *lanes;   /* NULL: none are taken */
};

#define KEPT (16 << 20) /* bytes of free memory that stay with the process */

static struct proxy *
proxy_of(const struct actor_env *env)
{
	return ((struct egress *)env->ctx)->proxy;
}

/* A port that cannot be had is said; the socket and the other port are served all the same. */
static void
serve_port(struct actor_env *env, const char *setting, enum proxy_speaks speaks)
{
	int64_t port = store_setting(env->db, setting);
	struct refusal no;

	if (port != 0 && proxy_listen_tcp(proxy_of(env), (uint16_t)port, speaks, &no) == -1)
		fprintf(stderr, "bastion: egress: %s (%s %d)\n", no.why, setting, (int)port);
}

static void
serve_socket(struct actor_env *env)
{
	char directory[HOME_ASK_MAX + 1], path[HOME_ASK_MAX + sizeof(EGRESS_SOCKET) + 1];
	struct refusal no;

	if (home_ask(env->home, directory, &no) == 0) {
		snprintf(path, sizeof(path), "%s/%s", directory, EGRESS_SOCKET);
		if (proxy_listen_unix(proxy_of(env), path, PROXY_BOTH, &no) == 0)
			return;
	}
	fprintf(stderr, "bastion: egress: users have no socket: %s: %s\n", no.code, no.why);
}

/* Hosts are served by connections that the actor net dialled, which knows their certificates. */
static void
serve_hosts(struct actor_env *env)
{
	struct egress *e = env->ctx;
	struct refusal no;

	if ((e->handed = handed_listen(e->proxy, env->loop, env->home, &no)) == NULL)
		fprintf(stderr, "bastion: egress: Hosts are not served: %s: %s\n", no.code, no.why);
}

/* Without its socket programs of added ops reach nothing, and the lane serves all others. */
static void
serve_lanes(struct actor_env *env)
{
	struct egress *e = env->ctx;
	const struct lanes_config config = {
	    .home = env->home, .loop = env->loop, .db = env->db, .proxy = e->proxy};
	struct refusal no;

	if ((e->lanes = lanes_new(&config, &no)) == NULL)
		fprintf(
		    stderr, "bastion: egress: added ops reach nothing: %s: %s\n", no.code, no.why);
}

static int
egress_start(struct actor_env *env, struct refusal *r)
{
	struct egress *e;
	const struct proxy_config config = {.home = env->home,
	    .loop = env->loop,
	    .db = env->db,
	    .keys = &env->keys,
	    .tokens = env->wire};

	/*
	 * Two threads take and give back small pieces all the time: an arena for each, that keeps
	 * what it got from the kernel.
	 */
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_TRIM_THRESHOLD, KEPT);
	mallopt(M_TOP_PAD, KEPT / 4);
	if ((e = env->ctx = calloc(1, sizeof(*e))) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	if ((e->proxy = proxy_new(&config, r)) == NULL)
		return -1;
	serve_hosts(env);
	serve_socket(env);
	serve_port(env, "egress.http_port", PROXY_HTTP);
	serve_port(env, "egress.socks_port", PROXY_SOCKS);
	serve_lanes(env);
	return 0;
}

static void
egress_wake(struct actor_env *env)
{
	proxy_wake(proxy_of(env));
}

static void
egress_over(void *ctx)
{
	loop_stop(ctx);
}

static void
egress_drain(struct actor_env *env)
{
	struct egress *e = env->ctx;

	handed_free(e->handed);
	e->handed = NULL;
	lanes_free(e->lanes);
	e->lanes = NULL;
	proxy_drain(e->proxy, egress_over, env->loop);
}

static void
egress_stop(struct actor_env *env)
{
	struct egress *e = env->ctx;

	if (e == NULL)
		return;
	handed_free(e->handed);
	lanes_free(e->lanes);
	proxy_free(e->proxy);
	free(e);
	env->ctx = NULL;
}

const struct actor actor_egress = {
    .name = "egress",
    .role = ROLE_EGRESS,
    .secret = SECRET_TOKEN,
    .box = true,
    .filtered = true,
    .serves = true,
    .start = egress_start,
    .wake = egress_wake,
    .drain = egress_drain,
    .stop = egress_stop,
};
