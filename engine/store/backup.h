/* backup.h: copies of a database that are whole, checked, and never there by half. */
#ifndef ENGINE_STORE_BACKUP_H
#define ENGINE_STORE_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/store/store.h"

struct sqlite3;

/* Who is told, now and then, what is being done and how far it is; ${total} is 0 where unknown. */
struct backup_watch {
	void (*fn)(void *ctx, const char *what, int64_t done, int64_t total);
	void *ctx;
};

/* What a copy holds. */
struct backup_copy {
	int version;            /* of its schema */
	int64_t bytes;          /* of the file */
	int64_t rows;           /* of its audit that were checked */
	int64_t seq;            /* of the last audit row, 0: none */
	unsigned char head[32]; /* and its hash */
};

/**
 * backup_write(db, path, key, force, watch, copy):
 * Copy the database of ${db}, as it is at one moment, to the new file ${path}, while others go on
 * writing.  The copy is made under ${path}.part, with mode 0600, checked by SQLite, by its schema
 * and by its audit chain against the machine's public key ${key} (32 bytes), and takes its name
 * only then, so that a file of this name is always a whole one; with ${force} it takes the place
 * of another.  File and directory are on the disk when this returns.  ${watch} may be NULL.  Fill
 * ${copy}.  Return 0; or -1 with ${db}'s refusal: backup.exists, backup.busy, backup.file (a
 * directory that another user could swap the file in, or none), audit.chain, store.corrupt,
 * store.full, store.readonly, store.failed.
 */
int backup_write(struct store *db, const char *path, const unsigned char key[32], bool force,
    const struct backup_watch *watch, struct backup_copy *copy);

/**
 * backup_into(home, name, from, watch, r):
 * Copy the database that the connection ${from} has open to the file ${name} of the state directory
 * of ${home}, which is made anew and belongs to its owner.  The copy is not checked and leaves no
 * log.  Return 0; or -1 with ${r} and without the file.
 */
int backup_into(const struct home *home, const char *name, struct sqlite3 *from,
    const struct backup_watch *watch, struct refusal *r);

/**
 * backup_check(db, key, watch, copy):
 * Check all of ${db}, a connection in ROLE_MIGRATE: SQLite's own integrity check, that its schema
 * is to the byte that of its version, and its audit chain against ${key}; ${key} may be NULL, then
 * it is the identity that its own box row names.  Fill ${copy} but for the bytes.  Return 0, or -1
 * with ${db}'s refusal: store.newer, store.corrupt, store.foreign, audit.chain, store.failed.
 */
int backup_check(struct store *db, const unsigned char *key, const struct backup_watch *watch,
    struct backup_copy *copy);

/**
 * backup_fits(home, bytes, r):
 * Return 0 where the file system of ${home} has room for ${bytes} more, or -1 with store.full and
 * both numbers.
 */
int backup_fits(const struct home *home, int64_t bytes, struct refusal *r);

/**
 * backup_code(error):
 * Return what the errno ${error} of a disk is called among the refusals: store.full,
 * store.readonly, or store.failed.
 */
const char *backup_code(int error);

/**
 * backup_refusal(r, path, handle, rc):
 * Store in ${r} what SQLite's result ${rc} on ${handle} (NULL: it has none) means for the file
 * ${path}.  Return -1.
 */
int backup_refusal(struct refusal *r, const char *path, struct sqlite3 *handle, int rc);

/**
 * backup_size(db):
 * Return the bytes that a copy of ${db} has, or -1.
 */
int64_t backup_size(struct store *db);

#endif
