/* pool.h: sessions: take one that waits, run it, keep what it says, see how it ends. */
#ifndef ENGINE_WORKER_POOL_H
#define ENGINE_WORKER_POOL_H

#include <stdbool.h>

#include "engine/actor/actor.h"
#include "engine/worker/runner.h"

/*
 * Part of the worker's process.  Whose turn it is, how many run at once and what becomes of each
 * end is decided by schema/session.sql; this carries it out.
 */
struct pool;

/**
 * pool_new(env, runner, idle, ctx, r):
 * Return a pool over ${env}'s loop and store, with no session yet; what an earlier one left behind
 * alive is ended.  ${runner} makes sandboxes, once it is started.  ${idle}(${ctx}) is called
 * whenever the last of its processes has ended.  Return NULL with ${r} store.failed.
 */
struct pool *pool_new(struct actor_env *env, struct runner *runner, void (*idle)(void *ctx),
    void *ctx, struct refusal *r);

/**
 * pool_told(pool, event):
 * Take what the runner says of a session that it started, with its descriptors.  Return whether
 * ${event} is of one.
 */
bool pool_told(struct pool *pool, struct runner_event *event);

/**
 * pool_wake(pool):
 * The database may have changed: start what may start, end what is to end, hand on what was sent.
 */
void pool_wake(struct pool *pool);

/**
 * pool_drain(pool):
 * Start nothing any more and end what runs, politely first.
 */
void pool_drain(struct pool *pool);

/**
 * pool_idle(pool):
 * Return whether nothing of ${pool} runs.
 */
bool pool_idle(const struct pool *pool);

/**
 * pool_free(pool):
 * Kill what runs, without a word in the database: who starts next calls it lost.  May be NULL.
 */
void pool_free(struct pool *pool);

#endif
