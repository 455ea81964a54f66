/* restore.h: a copy takes the place of the database, and brings back nothing that had ended. */
#ifndef ENGINE_STORE_RESTORE_H
#define ENGINE_STORE_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/store/backup.h"

struct restore_options {
	const char *acting; /* who restores, for the audit */
	bool keep_grants;   /* those that were active in the copy stay so */
	bool keep_factors;  /* the same, where nothing tells which were dropped since */
};

/* What a restore did. */
struct restore_report {
	struct backup_copy copy; /* as it was in its file */
	char kept[NAME_MAX + 1]; /* name of the database that was replaced; "": there was none */
	bool descends;           /* that one went on from the copy, so it says what ended since */
	bool broken;             /* that one could not be read */
	int64_t grants, questions, invitations, factors, pairings, boxes; /* that were ended */
};

/**
 * restore_run(home, path, keys, options, watch, report, r):
 * Make what backup_write wrote to ${path} the database of ${home}.  ${keys} are those of its key
 * file, with the secret.  The file must be of this machine and this role, of this build's schema
 * version or an older one, and whole: it is copied, checked as backup_write checks, and brought up
 * to date before anything is touched.  No daemon may run, and nobody else may have the database
 * open.  What was there is kept as bastion.db.before-restore-TIME, with its log where it cannot be
 * read, and never overwritten.  The swap is one rename: a crash at any moment leaves the one or the
 * other, whole.
 *
 * The restored database says so in a row of restore, which takes back what could come alive twice
 * (schema/backup.sql), and is sealed.  Return 0; or -1 with ${r} and everything as it was:
 * instance.running, restore.file, restore.foreign, restore.chain, box.identity, store.newer,
 * store.foreign, store.corrupt, store.busy, store.full, store.failed and others of the store.
 */
int restore_run(const struct home *home, const char *path, const struct store_keys *keys,
    const struct restore_options *options, const struct backup_watch *watch,
    struct restore_report *report, struct refusal *r);

/**
 * restore_tidy(home):
 * Remove from ${home} what a restore or an upgrade that was cut short left half-made, and a second
 * name of the present database.  The caller holds the daemon's lock.
 */
void restore_tidy(const struct home *home);

#endif
