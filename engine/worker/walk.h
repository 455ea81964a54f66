/* walk.h: measure folders as du -x does, without following a link and without being held up. */
#ifndef ENGINE_WORKER_WALK_H
#define ENGINE_WORKER_WALK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How far a walk came when its time was up. */
enum walk_end {
	WALK_DONE,  /* everything was measured */
	WALK_TIME,  /* it was stopped: sizes are lower bounds */
	WALK_STUCK, /* it was stopped, and a read of it still hangs in the kernel */
};

struct walk;

/* Receives the answer of a walk: a folder, or something below ${path} that was not counted. */
struct walk_sink {
	void (*folder)(void *ctx, const char *path, int64_t bytes);
	void (*skipped)(void *ctx, const char *path, const char *reason, int64_t count);
	void *ctx;
};

/* The sum of a walk. */
struct walk_total {
	int64_t bytes;
	int64_t files;
	int64_t folders;
	int64_t unnamed; /* not counted, and behind the bound of what is remembered */
	int opened;      /* the starting folder could be opened; else ${error} says why not */
	int error;       /* an errno, WALK_REFUSED or WALK_CHANGED */
	char resolved[4096];
};

/* The path leads into /proc, /sys or /dev; it was swapped for another one during the walk. */
#define WALK_REFUSED (-1)
#define WALK_CHANGED (-3)

/**
 * walk_start(path, depth):
 * Start to measure ${path} in a thread; folders down to ${depth} levels are remembered one by one.
 * Return the walk, or NULL.
 */
struct walk *walk_start(const char *path, int depth);

/**
 * walk_wait(w, budget_ms):
 * Wait until ${w} is done, at most ${budget_ms} milliseconds.  Shortly before, it is asked to stop.
 */
enum walk_end walk_wait(struct walk *w, int64_t budget_ms);

/**
 * walk_report(w, max, total, sink):
 * Store what was measured so far in ${total}; hand the ${max} largest folders, and everything that
 * was not counted, to ${sink}.  To be called once, after walk_wait.
 */
void walk_report(
    struct walk *w, size_t max, struct walk_total *total, const struct walk_sink *sink);

/**
 * walk_free(w):
 * Free ${w}; one that is stuck frees itself if it ever comes back.
 */
void walk_free(struct walk *w);

/**
 * walk_pause(w, hook, ctx):
 * For tests: call ${hook}(${ctx}, name) before each folder is opened, from the walking thread.
 */
void walk_pause(void (*hook)(void *ctx, const char *name), void *ctx);

#endif
