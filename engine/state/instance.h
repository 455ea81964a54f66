/* instance.h: one run of the daemon, and the runs of its actors. */
#ifndef ENGINE_STATE_INSTANCE_H
#define ENGINE_STATE_INSTANCE_H

#include "engine/actor/identity.h"
#include "engine/store/store.h"

/* How a run of an actor ended. */
struct instance_exit {
	int code;           /* -1 where it did not exit by itself */
	int signal;         /* 0 where it did */
	int64_t not_before; /* ms UTC: when the next may start; 0: no next */
};

/**
 * instance_lock(home, r):
 * Take the kernel-held lock that a daemon has while it serves ${home}: as the daemon, or to be sure
 * that there is none.  Return a descriptor that holds it until it is closed, or -1 with
 * instance.running, which names the holder, store.lock, store.readonly or store.full.
 */
int instance_lock(const struct home *home, struct refusal *r);

/**
 * instance_begin(db, role, run_dir, id):
 * In one transaction: set the instance that is still open to lost, which closes whatever it left
 * open, and begin a new one of ours with the next epoch.  Store its id in ${*id}.  The caller holds
 * the kernel's lock; where the process of the open instance runs nevertheless (somebody removed the
 * lock file), it stays the one.  Return 0, or -1 with instance.running naming it.
 */
int instance_begin(struct store *db, enum home_role role, const char *run_dir, int64_t *id);

/**
 * instance_ready(db, id), instance_draining(db, id), instance_end(db, id, reason):
 * Move the instance ${id} on; each is a transaction.  The end closes what is open.  Return 0 or -1.
 */
int instance_ready(struct store *db, int64_t id);
int instance_draining(struct store *db, int64_t id);
int instance_end(struct store *db, int64_t id, const char *reason);

/**
 * instance_run_begin(db, id, actor, run, attempt):
 * Before an actor is started: the row that authorises it.  Store its id in ${*run} and which
 * attempt of this instance it is in ${*attempt}.  Return 0 or -1.
 */
int instance_run_begin(struct store *db, int64_t id, const char *actor, int64_t *run, int *attempt);

/**
 * instance_run_process(db, run, who, uid):
 * Say which process the run ${run} is.  Return 0 or -1.
 */
int instance_run_process(struct store *db, int64_t run, const struct identity *who, int64_t uid);

/**
 * instance_run_ready(db, run):
 * The actor has started.  Return 0 or -1.
 */
int instance_run_ready(struct store *db, int64_t run);

/**
 * instance_run_end(db, run, how):
 * The actor is gone: ended where it exited with 0, else failed; its leases are free.  Return 0 or
 * -1.
 */
int instance_run_end(struct store *db, int64_t run, const struct instance_exit *how);

#endif
