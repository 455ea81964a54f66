/* quarantine.h: a Host that keeps asking for what it may not is held for a while. */
#ifndef ENGINE_STATE_QUARANTINE_H
#define ENGINE_STATE_QUARANTINE_H

#include <stdint.h>

#include "engine/store/store.h"

/**
 * quarantine_lift(db, pairing_id, by_uid):
 * Lift the hold of the Host ${pairing_id} on the word of the user ${by_uid}: it may ask again at
 * once, and the hold is forgiven.  Return 0, or -1 with the refusal of ${db}: quarantine.none.
 */
int quarantine_lift(struct store *db, int64_t pairing_id, int64_t by_uid);

/**
 * quarantine_tell(db, pairing_id, refusal):
 * Where ${refusal} is pairing.held, store in it until when, for whoever is told.
 */
void quarantine_tell(struct store *db, int64_t pairing_id, struct refusal *refusal);

#endif
