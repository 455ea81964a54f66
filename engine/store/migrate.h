/* migrate.h: how a file becomes a database of this build's version. */
#ifndef ENGINE_STORE_MIGRATE_H
#define ENGINE_STORE_MIGRATE_H

#include "engine/store/store.h"

/**
 * migrate_up(home, r):
 * Create the database of ${home} where there is none, or bring an older one up to this build's
 * version: a verified copy first (bastion.db.before-VERSION), then each step in a transaction of
 * its own with integrity and foreign keys checked before its commit.  Return the number of steps
 * taken, or -1 with ${r}.
 */
int migrate_up(const struct home *home, struct refusal *r);

/**
 * migrate_version(home, version, r):
 * Store the version of the database of ${home} in ${*version}, 0 where there is none.  Return 0 or
 * -1.
 */
int migrate_version(const struct home *home, int *version, struct refusal *r);

/**
 * migrate_digest(handle, digest):
 * Store the BLAKE2b-256 of the schema of the connection ${handle} in ${digest}.  Return 0 or -1.
 */
int migrate_digest(struct sqlite3 *handle, unsigned char digest[32]);

#endif
