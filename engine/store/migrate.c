/* migrate.c: create a database, or bring an older one up to date. */
#include <fcntl.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/store/embed.h"
#include "engine/store/gate.h"
#include "engine/store/migrate.h"

#define APPLICATION_ID "0x6273746e" /* "bstn" */

static const char STEP_DONE[] = "INSERT INTO schema_step (version, name, sha256, applied_at)"
				" VALUES (:version, :name, sha256(CAST(:text AS BLOB)), now_ms())";

/* A check that answers anything but what it should is a refusal. */
static int
sound(struct store *db)
{
	struct stmt *q;

	if ((q = store_sql(db, "SELECT integrity_check FROM pragma_integrity_check")) == NULL)
		return -1;
	if (stmt_step(q) != 1)
		return -1;
	if (strcmp(stmt_get_text(q, 0), "ok") != 0) {
		refusal_set(store_refusal(db), "store.corrupt", "the database is damaged: %s",
		    stmt_get_text(q, 0));
		stmt_done(q);
		return -1;
	}
	stmt_done(q);
	if (stmt_value(store_sql(db, "SELECT count(*) FROM pragma_foreign_key_check"), -1) != 0)
		return refusal_set(
		    store_refusal(db), "store.corrupt", "rows refer to rows that are not there");
	return 0;
}

static int
step_known(struct store *db, int version)
{
	unsigned char digest[32];

	if (migrate_digest(store_handle(db), digest) != 0 ||
	    memcmp(digest, embedded_digest[version - 1], 32) != 0)
		return refusal_set(store_refusal(db), "store.foreign",
		    "after step %d the tables are not those of that version: was the database changed by hand?",
		    version);
	return 0;
}

static int
version_of(struct store *db)
{
	return (int)stmt_value(store_sql(db, "PRAGMA user_version"), -1);
}

/* One step, whole or not at all. */
static int
step_take(struct store *db, int version)
{
	const struct embedded *step = &embedded_migration[version - 1];
	char sql[64];
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	/* Behind the gate, another process may have taken this step meanwhile. */
	if (version_of(db) >= version) {
		store_rollback(db);
		return 0;
	}
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", version);
	if (store_exec(db, step->text) != 0 || store_exec(db, sql) != 0 ||
	    (q = store_sql(db, STEP_DONE)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":version", version);
	stmt_text(q, ":name", step->name);
	stmt_text_n(q, ":text", step->text, (size_t)(step->end - step->text));
	if (stmt_run_one(q) != 0 || step_known(db, version) != 0 || sound(db) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/* A copy by SQLite's own backup, looked through before it is trusted. */
static int
copy_before(const struct home *home, struct store *db, int version)
{
	char name[64], path[PATH_MAX];
	sqlite3_backup *backup;
	struct store *copy;
	sqlite3 *to;
	int rc;

	snprintf(name, sizeof(name), "bastion.db.before-%d", version + 1);
	home_path(home, name, path);
	if (unlinkat(home->fd, name, 0) == 0)
		fsync(home->fd);
	close(openat(home->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
	if (sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL) !=
		SQLITE_OK ||
	    (backup = sqlite3_backup_init(to, "main", store_handle(db), "main")) == NULL) {
		sqlite3_close(to);
		return refusal_set(
		    store_refusal(db), "store.failed", "%s could not be written", path);
	}
	sqlite3_backup_step(backup, -1);
	rc = sqlite3_backup_finish(backup);
	sqlite3_close(to);
	if (rc != SQLITE_OK)
		return refusal_set(store_refusal(db),
		    rc == SQLITE_FULL ? "store.full" : "store.failed", "%s: %s", path,
		    sqlite3_errstr(rc));
	if ((copy = store_open_file(path, ROLE_MIGRATE, NULL, store_refusal(db))) == NULL)
		return -1;
	rc = sound(copy);
	if (rc != 0)
		*store_refusal(db) = *store_refusal(copy);
	store_close(copy);
	return rc;
}

/*
 * A file that is empty yet is given its log.  SQLite may refuse that at once where two do it, so
 * one does, behind the gate.
 */
static int
born(const struct home *home, struct store *db)
{
	static const char log[] =
	    "PRAGMA journal_mode = WAL; PRAGMA application_id = " APPLICATION_ID;
	int fd, rc;

	if ((fd = home_file(home, "bastion.gate", store_refusal(db))) == -1)
		return -1;
	rc = gate_enter(fd, GATE_WAIT_MS) != 0
		 ? refusal_errno(store_refusal(db), "store.busy", "bastion.gate")
		 : store_exec(db, log);
	close(fd);
	return rc;
}

static int
migrate_steps(const struct home *home, struct store *db)
{
	int from = version_of(db), version;

	if (from < 0)
		return -1;
	if (from > embedded_versions)
		return refusal_set(store_refusal(db), "store.newer",
		    "the database has schema version %d, this bastion knows up to %d", from,
		    embedded_versions);
	if (from == 0 && born(home, db) != 0)
		return -1;
	if (from > 0 && (step_known(db, from) != 0 ||
			    (from < embedded_versions && copy_before(home, db, from) != 0)))
		return -1;
	for (version = from + 1; version <= embedded_versions; version++)
		if (step_take(db, version) != 0)
			return -1;
	return embedded_versions - from;
}

int
migrate_up(const struct home *home, struct refusal *r)
{
	struct store *db;
	int fd, steps;

	/* Made here, not by SQLite, so that it is 0600 and its owner's from the first moment. */
	if (faccessat(home->fd, "bastion.db", F_OK, 0) != 0) {
		if ((fd = home_file(home, "bastion.db", r)) == -1)
			return -1;
		close(fd);
	}
	if ((db = store_open(home, ROLE_MIGRATE, NULL, r)) == NULL)
		return -1;
	store_acting(db, "system:migrate");
	if ((steps = migrate_steps(home, db)) < 0)
		*r = *store_refusal(db);
	store_close(db);
	return steps;
}

int
migrate_version(const struct home *home, int *version, struct refusal *r)
{
	struct store *db;

	*version = 0;
	if (faccessat(home->fd, "bastion.db", F_OK, 0) != 0)
		return 0;
	if ((db = store_open(home, ROLE_MIGRATE, NULL, r)) == NULL)
		return -1;
	if ((*version = version_of(db)) < 0)
		*r = *store_refusal(db);
	store_close(db);
	return *version < 0 ? -1 : 0;
}
