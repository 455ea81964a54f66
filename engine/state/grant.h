/* grant.h: finding and taking back grants.  They are made by approval_approve alone. */
#ifndef ENGINE_STATE_GRANT_H
#define ENGINE_STATE_GRANT_H

#include "engine/store/store.h"

/**
 * grant_find(db, pairing_id, op, args, id):
 * Store in ${*id} the live grant under which the Host of ${pairing_id} could run ${op} with
 * ${args}, in their canonical spelling: one for exactly these, else one whose bounds let them pass,
 * and of several the one that can be used first; 0 where there is none.  The trigger decides.
 * Return 0 or -1.
 */
int grant_find(struct store *db, int64_t pairing_id, const char *op, const char *args, int64_t *id);

/**
 * grant_drop(db, id, count):
 * Drop the grant ${id}, at once and for good.  Store in ${*count} how many that were: 0 where it
 * had ended already or never was, which is no failure.  Return 0 or -1.
 */
int grant_drop(struct store *db, int64_t id, int64_t *count);

/**
 * grant_drop_all(db, host, count):
 * Drop every grant of the Host ${host}, or of all where it is NULL; count them in ${*count}.
 * Return 0, or -1 with the refusal of ${db}: pairing.unknown for a name that was never paired.
 */
int grant_drop_all(struct store *db, const char *host, int64_t *count);

#endif
