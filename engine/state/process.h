/* process.h: rows for process identities. */
#ifndef ENGINE_STATE_PROCESS_H
#define ENGINE_STATE_PROCESS_H

#include "engine/actor/identity.h"
#include "engine/store/store.h"

/**
 * process_id(db, who, uid):
 * Inside a transaction: return the id of the row of the process ${who} of the user ${uid}, made if
 * there is none; -1 on failure.  A row that is there is left as it is, since others refer to it.
 */
int64_t process_id(struct store *db, const struct identity *who, int64_t uid);

/**
 * process_self(db):
 * As process_id, for the calling process.
 */
int64_t process_self(struct store *db);

#endif
