/* actor.c: from the first instruction of an actor's process to its loop. */
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/actor.h"
#include "engine/actor/control.h"
#include "engine/actor/filter.h"
#include "engine/actor/loop.h"
#include "engine/crypto/key.h"

#define FAILED  "actor.start"
#define LATE_MS 50 /* longer than an ask takes, and too short for a person to see */

/* An actor in this process. */
struct running {
	const struct actor *actor;
	struct actor_env env;
	struct home home;
	struct key *key;
	bool draining;
	bool late;    /* it is in this role */
	bool keeping; /* it will be called to keep up soon */
};

static const struct actor *
actor_find(const char *name)
{
	const struct actor *const *at;

	for (at = actors; *at != NULL; at++)
		if (strcmp((*at)->name, name) == 0)
			return *at;
	return NULL;
}

static void
actor_wake(struct running *me)
{
	if (me->actor->wake != NULL && !me->late)
		me->actor->wake(&me->env);
}

static void
actor_keep(struct running *me)
{
	if (me->actor->keep != NULL)
		me->actor->keep(&me->env);
}

static void
actor_drain(struct running *me)
{
	if (me->draining)
		return;
	me->draining = true;
	if (me->actor->drain != NULL)
		me->actor->drain(&me->env);
	else
		loop_stop(me->env.loop);
}

/* Whether the bell that rang was for something that is not seen yet. */
static bool
bell_new(struct running *me)
{
	store_bell_quiet(me->env.db);
	return store_changed(me->env.db);
}

static void
on_late(void *ctx)
{
	struct running *me = ctx;

	me->keeping = false;
	if (me->late)
		loop_mod(me->env.loop, store_bell(me->env.db), EPOLLIN);
	if (!me->late || bell_new(me))
		actor_keep(me);
}

/* Who is late does not even listen meanwhile: those go first whose work somebody waits for. */
static void
on_bell(void *ctx, uint32_t events)
{
	struct running *me = ctx;

	(void)events;
	if (me->late)
		loop_mod(me->env.loop, store_bell(me->env.db), 0);
	else if (bell_new(me))
		actor_wake(me);
	else
		return;
	if (me->keeping || me->actor->keep == NULL)
		return;
	me->keeping = true;
	if (loop_after(me->env.loop, LATE_MS, on_late, me) == 0)
		on_late(me);
}

/* A bell may be missed, and some rows become due without anybody writing. */
static void
on_tick(void *ctx)
{
	struct running *me = ctx;

	actor_wake(me);
	actor_keep(me);
	loop_after(me->env.loop, store_setting(me->env.db, "store.tick_ms"), on_tick, me);
}

static void
on_term(void *ctx, int signo)
{
	(void)signo;
	actor_drain(ctx);
}

/*
 * The supervisor sends nothing after the order: whatever comes here is its end, and ours. Nothing
 * more is written, so what was in flight reads as lost, whichever of this and the kernel's signal
 * comes first.
 */
static void
on_control(void *ctx, uint32_t events)
{
	struct running *me = ctx;

	(void)events;
	loop_del(me->env.loop, CONTROL_FD);
	loop_stop(me->env.loop);
}

/* The public keys of the order, and as much of the machine's own as this actor has a use for. */
static int
take_keys(struct running *me, const struct control_order *order, struct refusal *r)
{
	uint8_t identity[sizeof(order->identity)];
	char path[PATH_MAX];

	memcpy(me->env.keys.identity, order->identity, sizeof(order->identity));
	memcpy(me->env.keys.grant, order->grant, sizeof(order->grant));
	me->env.keys.present = true;
	if (me->actor->secret == SECRET_NONE)
		return 0;
	home_path(&me->home, "bastion.key", path);
	me->key = me->actor->secret == SECRET_WIRE    ? key_load_wire(path, r)
		  : me->actor->secret == SECRET_TOKEN ? key_load_token(path, r)
						      : key_load(path, r);
	if ((me->env.wire = me->key) == NULL)
		return -1;
	if (me->actor->secret != SECRET_MACHINE)
		return 0;
	key_public(me->key, KEY_IDENTITY, identity);
	if (memcmp(identity, order->identity, sizeof(identity)) != 0)
		return refusal_set(r, "key.other", "the key was replaced while bastion served");
	me->env.keys.secret = me->key;
	return 0;
}

/* Only the worker keeps what is left of root's powers: it makes sandboxes with them. */
static int
give_away(const struct actor *actor, const struct control_order *order, struct refusal *r)
{
	if (privilege_seal(order->supervisor, r) == -1 ||
	    privilege_drop(&order->who, !actor->filtered, r) == -1)
		return -1;
	if (actor->role != ROLE_WORKER && privilege_no_capabilities(r) == -1)
		return -1;
	return privilege_seal(order->supervisor, r);
}

/*
 * The supervisor opens the database at the same time, and may have to make or migrate it: a refusal
 * counts only after its word that the instance is there.  Before the word this actor does nothing
 * that anybody could see.  Which schema is the right one the word says, and whoever has read
 * another reads again, and compares it himself.
 */
static int
open_store(struct running *me, struct refusal *r)
{
	struct actor_env *env = &me->env;
	enum store_role role = me->actor->role;
	struct control_word word;
	struct refusal early;

	env->home = &me->home;
	env->db = store_open_early(&me->home, role, &env->keys, &early);
	if (control_take_go(CONTROL_FD, &word) == -1)
		return refusal_set(r, FAILED, "the supervisor ended before its actors began");
	env->instance_id = word.instance_id;
	if (env->db != NULL && store_schema(env->db) != word.schema) {
		store_close(env->db);
		env->db = NULL;
	}
	if (env->db == NULL && (env->db = store_open(&me->home, role, &env->keys, r)) == NULL)
		return -1;
	store_acting(env->db, "actor:%s", me->actor->name);
	return 0;
}

/* Signals come first: threads that the actor starts must inherit the mask. */
static int
make_loop(struct running *me, struct refusal *r)
{
	struct actor_env *env = &me->env;
	int bell;

	me->late = (me->actor->late & (me->home.role == HOME_BOX ? LATE_BOX : LATE_HOST)) != 0;
	if ((env->loop = loop_new()) == NULL || loop_signal(env->loop, SIGTERM, on_term, me) == -1)
		return refusal_errno(r, FAILED, "cannot make a loop");
	if ((bell = store_bell(env->db)) == -1 ||
	    loop_add(env->loop, bell, EPOLLIN, on_bell, me) == -1)
		return refusal_errno(r, FAILED, "cannot watch the bell");
	if (loop_add(env->loop, CONTROL_FD, EPOLLIN, on_control, me) == -1)
		return refusal_errno(r, FAILED, "cannot watch the control socket");
	if (loop_after(env->loop, store_setting(env->db, "store.tick_ms"), on_tick, me) == 0)
		return refusal_errno(r, FAILED, "cannot set a timer");
	return 0;
}

/* As many descriptors as may be had: what bounds connections are settings. */
static void
raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int
actor_start(struct running *me, const struct control_order *order, struct refusal *r)
{
	prctl(PR_SET_NAME, me->actor->name, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	raise_files();
	if (sodium_init() == -1)
		return refusal_set(r, FAILED, "libsodium does not work here");
	if (home_at(&me->home, order->state, order->run, (enum home_role)order->role, false, r) ==
		-1 ||
	    take_keys(me, order, r) == -1 || give_away(me->actor, order, r) == -1)
		return -1;
	if (me->actor->filtered && filter_install(r) == -1)
		return -1;
	if (open_store(me, r) == -1 || make_loop(me, r) == -1)
		return -1;
	return me->actor->start(&me->env, r);
}

static int
actor_serve(struct running *me)
{
	struct control_report report = {.kind = CONTROL_READY};
	int rc;

	if (control_report(CONTROL_FD, &report) == -1)
		return -1;
	actor_wake(me);
	actor_keep(me);
	rc = loop_run(me->env.loop);
	if (me->actor->stop != NULL)
		me->actor->stop(&me->env);
	return rc;
}

static int
actor_run(const struct actor *actor, const struct control_order *order)
{
	struct running me = {.actor = actor, .home = {.fd = -1}};
	struct control_report report = {.kind = CONTROL_REFUSED};
	int rc;

	if ((rc = actor_start(&me, order, &report.refusal)) == -1)
		control_report(CONTROL_FD, &report);
	else
		rc = actor_serve(&me);
	loop_free(me.env.loop);
	store_close(me.env.db);
	key_free(me.key);
	home_close(&me.home);
	return rc == 0 ? 0 : 1;
}

int
actor_main(int argc, char **argv)
{
	struct control_order order;
	const struct actor *actor;
	int rc;

	if (argc != 3 || (actor = actor_find(argv[2])) == NULL ||
	    fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC) == -1 ||
	    control_take_order(CONTROL_FD, &order) == -1) {
		fprintf(stderr, "bastion: actors are started by bastion serve\n");
		return 2;
	}
	rc = actor_run(actor, &order);
	fflush(NULL);
	/* Not by exit: a sanitizer's leak check would trace this process, which nothing may. */
	_exit(rc);
}
