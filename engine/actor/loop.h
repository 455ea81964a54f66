/* loop.h: one epoll loop: descriptors, timers, signals, and work handed in by other threads. */
#ifndef ENGINE_ACTOR_LOOP_H
#define ENGINE_ACTOR_LOOP_H

#include <stdint.h>

/*
 * A loop belongs to the thread that runs it; only loop_post may be called from another one.  Any
 * call but loop_free and loop_run may be made from inside a callback.  Failures set errno.
 */
struct loop;

/**
 * loop_new(void):
 * Return a new loop, or NULL.  Its descriptors are close-on-exec.
 */
struct loop *loop_new(void);

/**
 * loop_free(loop):
 * Free ${loop}.  Callbacks that have not run yet will not; what was registered is forgotten, and
 * its descriptors stay open.  Signals that loop_signal blocked are unblocked, pending ones are
 * dropped first.  ${loop} may be NULL.
 */
void loop_free(struct loop *loop);

/**
 * loop_add(loop, fd, events, fn, ctx):
 * Call ${fn}(${ctx}, happened) whenever one of the epoll ${events} holds on ${fd} (EPOLLERR and
 * EPOLLHUP always count; EPOLLET may be given).  One registration a descriptor.  Return 0 or -1.
 */
int loop_add(
    struct loop *loop, int fd, uint32_t events, void (*fn)(void *ctx, uint32_t events), void *ctx);

/**
 * loop_mod(loop, fd, events):
 * Wait for ${events} on ${fd} from now on.  Return 0 or -1.
 */
int loop_mod(struct loop *loop, int fd, uint32_t events);

/**
 * loop_del(loop, fd):
 * Forget ${fd}, which must still be open.  Its callback is not called again, not even for an event
 * that was already fetched; ${fd} (or a new descriptor with that number) may be added again at
 * once.  A descriptor that is not registered is no error.
 */
void loop_del(struct loop *loop, int fd);

/**
 * loop_close(loop, fd):
 * Forget ${fd}, and close it when all events that were fetched with this one are handled: nobody
 * waits for what is over, and a close costs as much as much else.  Without a turn of the loop it
 * is closed by the next, or by loop_free.  One that is not registered is closed at once.
 */
void loop_close(struct loop *loop, int fd);

/**
 * loop_pass(loop, fd, fn, ctx):
 * Call ${fn}(${ctx}, ...) for ${fd} from now on, with the events that it was added for; also for
 * an event that was already fetched.  Return 0 or -1.
 */
int loop_pass(struct loop *loop, int fd, void (*fn)(void *ctx, uint32_t events), void *ctx);

/**
 * loop_after(loop, ms, fn, ctx):
 * Call ${fn}(${ctx}) once, ${ms} milliseconds from now on CLOCK_BOOTTIME (time asleep counts).
 * Return an id that is never 0 and never used again, or 0 on failure.
 */
uint64_t loop_after(struct loop *loop, int64_t ms, void (*fn)(void *ctx), void *ctx);

/**
 * loop_cancel(loop, id):
 * Cancel the timer ${id}.  One that has fired, was cancelled, or is 0 is no error.
 */
void loop_cancel(struct loop *loop, uint64_t id);

/**
 * loop_signal(loop, signo, fn, ctx):
 * Block ${signo} in the calling thread and call ${fn}(${ctx}, ${signo}) from the loop when it
 * arrives.  Call before other threads start, so that they inherit the mask.  A second call for
 * the same signal replaces the first.  Return 0 or -1.
 */
int loop_signal(struct loop *loop, int signo, void (*fn)(void *ctx, int signo), void *ctx);

/**
 * loop_post(loop, fn, ctx):
 * From any thread: have the loop's thread call ${fn}(${ctx}) soon.  Posts of one thread run in
 * their order.  Return 0, or -1 when memory ran out (then ${fn} will not be called).
 */
int loop_post(struct loop *loop, void (*fn)(void *ctx), void *ctx);

/**
 * loop_now(void):
 * Return the milliseconds of CLOCK_BOOTTIME, the clock of loop_after.
 */
int64_t loop_now(void);

/**
 * loop_run(loop):
 * Call callbacks until loop_stop.  Return 0, or -1 if the kernel refused to wait.
 */
int loop_run(struct loop *loop);

/**
 * loop_stop(loop):
 * Have loop_run return once the events at hand are handled.  A stop outside of
 * loop_run makes the next loop_run return at once.
 */
void loop_stop(struct loop *loop);

#endif
