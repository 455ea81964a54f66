/* migrate.h: how a file becomes a database of this build's version. */
#ifndef ENGINE_STORE_MIGRATE_H
#define ENGINE_STORE_MIGRATE_H

#include "engine/store/backup.h"
#include "engine/store/store.h"

/* What an upgrade did. */
struct migrate_report {
	int from, to;            /* versions; from 0: there was none */
	char copy[64];           /* name of the copy beside the database, "": none was needed */
	struct backup_copy held; /* what is in it */
};

/**
 * migrate_run(home, watch, report, r):
 * Create the database of ${home} where there is none, or bring an older one up to this build's
 * version: first a checked copy (bastion.db.before-VERSION, of the first step), then each step in a
 * transaction of its own, with integrity and foreign keys checked before its commit.  A crash at
 * any moment leaves the database at one version or the next, and the next call goes on.  No daemon
 * may be running: see instance_lock.  ${watch} may be NULL.  Return the number of steps taken, or
 * -1 with ${r}: store.newer, store.foreign, store.corrupt, store.full, migrate.edited, audit.chain
 * and what the store says.
 */
int migrate_run(const struct home *home, const struct backup_watch *watch,
    struct migrate_report *report, struct refusal *r);

/**
 * migrate_up(home, r):
 * As migrate_run, without a word.
 */
int migrate_up(const struct home *home, struct refusal *r);

/**
 * migrate_file(path, r):
 * As migrate_run for a copy at ${path} that nobody else has open, without a copy of it.
 */
int migrate_file(const char *path, struct refusal *r);

/**
 * migrate_version(home, version, r):
 * Store the version of the database of ${home} in ${*version}, 0 where there is none.  Return 0 or
 * -1.
 */
int migrate_version(const struct home *home, int *version, struct refusal *r);

/**
 * migrate_version_of(db):
 * Return the schema version of ${db}, or -1 with its refusal.
 */
int migrate_version_of(struct store *db);

/**
 * migrate_known(db, version):
 * Return 0 where the schema of ${db} is to the byte that of ${version}, which this build must know;
 * or -1 with store.newer or store.foreign.
 */
int migrate_known(struct store *db, int version);

/**
 * migrate_sound(db):
 * Return 0 where SQLite finds nothing wrong with the file and all references of ${db}, or -1 with
 * store.corrupt.
 */
int migrate_sound(struct store *db);

/**
 * migrate_sha256(version, sha256):
 * Store the SHA-256 of the text of step ${version}, from 1, in ${sha256}: what schema_step keeps.
 */
void migrate_sha256(int version, unsigned char sha256[32]);

/**
 * migrate_digest(handle, digest):
 * Store the BLAKE2b-256 of the schema of the connection ${handle} in ${digest}.  Return 0 or -1.
 */
int migrate_digest(struct sqlite3 *handle, unsigned char digest[32]);

#endif
