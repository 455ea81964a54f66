/* sandbox_run.h: the row that authorises a run in a sandbox, and what becomes of it. */
#ifndef ENGINE_STATE_SANDBOX_RUN_H
#define ENGINE_STATE_SANDBOX_RUN_H

#include "engine/store/store.h"
#include "engine/worker/sandbox.h"

#define SANDBOX_NONCE_SIZE 33

/* What a run is started as. */
struct sandbox_ask {
	const char *backend; /* "native", "bubblewrap", "none" */
	const char *program;
	int64_t words;
	uid_t uid;
	enum sandbox_net net;
};

/* How it ended. */
struct sandbox_outcome {
	int exit_code;
	int64_t changes;
	const unsigned char *digest; /* of the changes, 32 bytes; NULL: there is no list */
	int64_t applied;             /* -1: thrown away */
};

/**
 * sandbox_run_limits(db, limits):
 * Read the settings sandbox.* into ${limits}.
 */
void sandbox_run_limits(struct store *db, struct sandbox_limits *limits);

/**
 * sandbox_run_insert(db, ask, nonce, id), sandbox_run_begin(db, ask, nonce, id):
 * Write, as a step of the caller's transaction, or commit the row of a run by this process, which
 * it must be before anything starts; store its name inside in ${nonce} and its id in ${*id}. Return
 * 0, or -1 with the refusal of ${db}: sandbox.none, sandbox.busy.
 */
int sandbox_run_insert(
    struct store *db, const struct sandbox_ask *ask, char nonce[SANDBOX_NONCE_SIZE], int64_t *id);
int sandbox_run_begin(
    struct store *db, const struct sandbox_ask *ask, char nonce[SANDBOX_NONCE_SIZE], int64_t *id);

/**
 * sandbox_run_insert_as(db, ask, process, nonce, id):
 * As sandbox_run_insert, for the process of the row ${process}, which chose ${nonce} itself.
 */
int sandbox_run_insert_as(struct store *db, const struct sandbox_ask *ask, int64_t process,
    const char *nonce, int64_t *id);

/**
 * sandbox_run_placed(db, id, report), sandbox_run_end(db, id, outcome):
 * As sandbox_run_started, and sandbox_run_ended or, where ${outcome} is NULL, sandbox_run_failed,
 * as a step of the caller's transaction.
 */
int sandbox_run_placed(struct store *db, int64_t id, const struct sandbox_report *report);
int sandbox_run_end(struct store *db, int64_t id, const struct sandbox_outcome *outcome);

/**
 * sandbox_run_started(db, id, report), sandbox_run_ended(db, id, outcome), sandbox_run_failed(db,
 * id):
 * Commit that the run ${id} started and what holds it; that its program ended; that it could not be
 * started.  Return 0 or -1.
 */
int sandbox_run_started(struct store *db, int64_t id, const struct sandbox_report *report);

/**
 * sandbox_run_warm(db, started):
 * Prepare what sandbox_run_started will run, or with ${started} sandbox_run_ended, while there is
 * time.
 */
void sandbox_run_warm(struct store *db, bool started);

int sandbox_run_ended(struct store *db, int64_t id, const struct sandbox_outcome *outcome);
int sandbox_run_failed(struct store *db, int64_t id);

/**
 * sandbox_run_of(db, nonce, user_ns, pid_ns):
 * Return the id of the live run that a process is in, which says that it is the run ${nonce} and of
 * which the kernel says that it is in these namespaces; 0 if it is in none; -1 on failure.
 */
int64_t sandbox_run_of(struct store *db, const char *nonce, uint64_t user_ns, uint64_t pid_ns);

#endif
