/* committer.h: decisions that arrive while others are made or committed are committed together
 * (group commit). */
#ifndef ENGINE_STORE_COMMITTER_H
#define ENGINE_STORE_COMMITTER_H

#include "engine/actor/loop.h"
#include "engine/store/store.h"

struct committer;

/*
 * One decision.  It stands at the head of the caller's own structure, which the caller owns and
 * must keep until ${done} was called.  ${run} works in the committer's thread on the committer's
 * connection, in a step of its own: where it returns -1 only its own changes are undone.  A step
 * costs as much as some rules do, so ${settle}, where it is not NULL, is called before: it makes
 * one writing statement at most, which SQLite undoes by itself where it fails.  Where it returns 0
 * the job is settled and ${run} is not called.  ${done} is called in the loop's thread, after the
 * commit.
 */
struct commit_job {
	int (*settle)(struct store *db, struct commit_job *job);
	int (*run)(struct store *db, struct commit_job *job);
	void (*done)(struct commit_job *job);
	int result; /* what settle or run returned; -1 as well where the commit failed */
	struct refusal refusal; /* where result is -1 */
	struct commit_job *next;
};

/**
 * committer_start(home, role, keys, acting, loop, r):
 * Start the thread; with its first job it makes a connection of its own in ${role}.  Where that
 * cannot be made the job fails, and the next one tries again.  ${home} and ${keys} are the
 * caller's until committer_stop; ${acting} is copied.  Return it, or NULL with ${r}.
 */
struct committer *committer_start(const struct home *home, enum store_role role,
    const struct store_keys *keys, const char *acting, struct loop *loop, struct refusal *r);

/**
 * committer_quiet(committer):
 * From now on its commits ring no bell (see store_quiet).  Call before the first job.
 */
void committer_quiet(struct committer *committer);

/**
 * committer_brisk(committer):
 * From now on no batch runs longer than twice what the commit before it took: what was decided goes
 * on while the next is, and its thread gives way to others where all processors are taken.  That is
 * for whoever has much to do with it; without, as many as can share a commit, which is the least
 * work.  Call before the first job.
 */
void committer_brisk(struct committer *committer);

/**
 * committer_submit(committer, job):
 * Have ${job} decided.  From the loop's thread.
 */
void committer_submit(struct committer *committer, struct commit_job *job);

/**
 * committer_pending(committer):
 * Return how many jobs were submitted and are not done.  From the loop's thread.
 */
size_t committer_pending(const struct committer *committer);

/**
 * committer_stop(committer):
 * Finish what was submitted, call each ${done}, and free.  ${committer} may be NULL.
 */
void committer_stop(struct committer *committer);

#endif
