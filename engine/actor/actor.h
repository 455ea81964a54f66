/* actor.h: a process with one job that reads and commits transactions. */
#ifndef ENGINE_ACTOR_ACTOR_H
#define ENGINE_ACTOR_ACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/refusal.h"
#include "engine/store/store.h"

struct loop;
struct key;

enum actor_secret {
	SECRET_NONE,   /* may check seals, cannot make one */
	SECRET_WIRE,   /* opens the keys of certificates too, and nothing else */
	SECRET_TOKEN,  /* opens tokens, and nothing else */
	SECRET_MACHINE /* holds the machine's key */
};

/* What an actor is given.  Everything but ${ctx} belongs to whoever runs the actor. */
struct actor_env {
	const struct home *home;
	struct loop *loop;
	struct store *db;       /* in the actor's role, its bell already in the loop */
	struct store_keys keys; /* keys.secret only with SECRET_MACHINE */
	const struct key *wire; /* opens what KEY_WIRE or KEY_TOKEN seals; NULL with SECRET_NONE */
	int64_t instance_id;
	void *ctx; /* the actor's own */
};

/* In which roles an actor is late: nobody waits for anything that it does. */
enum { LATE_BOX = 1, LATE_HOST = 2 };

/*
 * One actor.  ${start} sets the actor's handlers in the loop and returns, or returns -1 with the
 * refusal where the actor cannot run; what it has then made is left to the end of the process.
 * ${wake} and ${keep} are called once after it, and then whenever the database may have changed:
 * ${wake} at once, for what somebody waits for, ${keep} within LATE_MS, for what can wait as long,
 * once for all that came meanwhile.  In roles where the actor is ${late} there is no ${wake}.
 * ${drain} asks the actor, once, to finish what it has and then call loop_stop.  ${stop} frees. All
 * but ${start} may be NULL; without ${drain} the loop stops at once.
 *
 * In ${start} the process is already what it will be: another user, without root's powers but in a
 * ROLE_WORKER, no new privileges, SIGTERM blocked for the loop, SIGPIPE ignored, in a session of
 * its own, dying with the supervisor, and behind the filter where ${filtered}.
 */
struct actor {
	const char *name;
	enum store_role role;
	enum actor_secret secret;
	bool box, host; /* in which roles it runs */
	bool filtered;  /* system calls: allow-list (network-facing actors) */
	bool serves;    /* somebody asks it: READY waits for it, and the others for READY */
	unsigned late;
	int (*start)(struct actor_env *env, struct refusal *r);
	void (*wake)(struct actor_env *env);
	void (*keep)(struct actor_env *env);
	void (*drain)(struct actor_env *env);
	void (*stop)(struct actor_env *env);
};

/* The actors of this program, ended by NULL (shell/actors.c). */
extern const struct actor *const actors[];

/**
 * actor_main(argc, argv):
 * Run the actor argv[2] in this process: "bastion actor NAME", started by the supervisor with its
 * control socket on descriptor 3.  Return the exit code.
 */
int actor_main(int argc, char **argv);

#endif
