/* op_run.h: what a run says, and its end, as rows. */
#ifndef ENGINE_STATE_OP_RUN_H
#define ENGINE_STATE_OP_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/store/store.h"

/**
 * op_run_frame(db, id, frame, len):
 * Within a transaction, add the frame of ${len} bytes to the answer of the run ${id}.  Return 0 or
 * -1.
 */
int op_run_frame(struct store *db, int64_t id, const char *frame, size_t len);

/**
 * op_run_says(db, id, refusal):
 * Within a transaction, add the frame {"e":{"code","why"}}: why the run does not end well.  Return
 * 0 or -1.
 */
int op_run_says(struct store *db, int64_t id, const struct refusal *refusal);

/**
 * op_run_finish(db, id, exit_code):
 * Within a transaction, end the run ${id}: done for 0; else cancelled where it was taken back, and
 * failed where it was not.  Return 0 or -1.
 */
int op_run_finish(struct store *db, int64_t id, int exit_code);

/**
 * op_run_cancel(db, pairing_id, nonce, id):
 * Within a transaction, take back for the Host ${pairing_id} the run that was made with ${nonce},
 * where it has not ended, and store its number in ${*id}; 0 where there is none, or it was taken
 * back before.  Return 0, or -1 with the refusal of ${db}: op.owner, where it is another Host's.
 */
int op_run_cancel(struct store *db, int64_t pairing_id, const char *nonce, int64_t *id);

/**
 * op_run_next_cancelled(db, after):
 * Return the number of the first run behind ${after} that runs and was taken back; 0 without one.
 */
int64_t op_run_next_cancelled(struct store *db, int64_t after);

#endif
