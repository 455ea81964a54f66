/* grant.h: taking grants back.  They are made by approval_approve alone. */
#ifndef ENGINE_STATE_GRANT_H
#define ENGINE_STATE_GRANT_H

#include "engine/store/store.h"

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
