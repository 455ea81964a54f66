/* keep.h: what the database cannot write down now, as on a full disk, is kept and written later. */
#ifndef ENGINE_WORKER_KEEP_H
#define ENGINE_WORKER_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/actor/actor.h"
#include "engine/refusal.h"

/* The end of something, until it is written.  All zero: nothing waits. */
struct keep {
	struct actor_env *env;
	const char *what;           /* "the end of …", for the log */
	int (*write)(void *ctx);    /* as one transaction: 0, or -1 with the store's refusal */
	void (*written)(void *ctx); /* may free ${keep} and ${ctx} */
	void *ctx;
	uint64_t timer;
	bool told;
};

/**
 * keep_passes(r):
 * Whether ${r} is of the store and may pass: a full disk, a gate that others hold, a device that
 * fails.  What a rule refuses, it refuses the next time as well.
 */
bool keep_passes(const struct refusal *r);

/**
 * keep_now(keep):
 * Call keep->write(keep->ctx), and keep->written(keep->ctx) once that was well; until then again
 * after each store.tick_ms.  Where a rule refuses it, nothing else can be done: that is said, and
 * keep->written is called.  Whoever owns it holds its place meanwhile.
 */
void keep_now(struct keep *keep);

/**
 * keep_waits(keep):
 * Whether it is not written yet.
 */
bool keep_waits(const struct keep *keep);

/**
 * keep_drop(keep):
 * Forget it.
 */
void keep_drop(struct keep *keep);

#endif
