/* program_lent.h: what a run is lent as a file, in memory, for as long as it runs. */
#ifndef ENGINE_WORKER_PROGRAM_LENT_H
#define ENGINE_WORKER_PROGRAM_LENT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/refusal.h"

#define LENT_ROOT "/dev/shm"
#define LENT_MAX  128 /* bytes of a path here, with its end */

#define LENT_NAMES 2 /* files that say how names are looked up */

/* A folder of this process alone, in memory; what a process left that is gone is removed by the
 * next. */
struct lent {
	int fd; /* -1: none was made yet */
	char path[LENT_MAX];
};

/*
 * How names are looked up where the lane does that: what the file ${target} says there, so that
 * names that this machine knows by a file are the lane's to look up, too.
 */
struct lent_lookup {
	const char *target, *name, *text;
};

extern const struct lent_lookup lent_lookups[LENT_NAMES];

/**
 * lent_hides(lookup):
 * Is there a file of this machine that is to be hidden?  One that is a link leads nowhere inside,
 * and then the library asks 127.0.0.1.
 */
bool lent_hides(const struct lent_lookup *lookup);

/* A file of the folder, and where it is shown. */
struct lent_name {
	char source[LENT_MAX + 16];
	const char *target; /* static */
};

/**
 * lent_sweep(void):
 * Remove the folders of this user that no process holds, in whichever pid namespace it is.
 */
void lent_sweep(void);

/**
 * lent_open(lent, r):
 * Make the folder, which nobody else enters (0700), unless ${lent} has one; with it the files of
 * lent_names.  Return 0, or -1 with ${r}
 * op.place: this machine has no file system in memory at LENT_ROOT.
 */
int lent_open(struct lent *lent, struct refusal *r);

/**
 * lent_names(lent, names):
 * Store in ${names} the files by which those of lent_lookups are hidden.  Return how many.
 */
size_t lent_names(const struct lent *lent, struct lent_name names[LENT_NAMES]);

/**
 * lent_put(lent, run, name, secret, len, path, r):
 * Store ${len} bytes of ${secret} for the run ${run} in a folder of its own, 0700, as the file
 * ${name}, 0400, both of this process's user, and the folder's path in ${path}.  ${name} has no
 * slash and no leading dot.  Return 0, or -1 with ${r} op.place and nothing left.
 */
int lent_put(struct lent *lent, int64_t run, const char *name, const char *secret, size_t len,
    char path[LENT_MAX], struct refusal *r);

/**
 * lent_take_back(lent, run):
 * Remove what was lent to the run ${run}, which may be nothing.
 */
void lent_take_back(const struct lent *lent, int64_t run);

/**
 * lent_close(lent):
 * Remove the folder with all that is in it.
 */
void lent_close(struct lent *lent);

#endif
