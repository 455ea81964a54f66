/* migrate.c: create a database, or bring an older one up to date. */
#include <errno.h>
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

static const char STEPS[] = "SELECT version, name, sha256 FROM schema_step ORDER BY version";

static const char STEP_DONE[] = "INSERT INTO schema_step (version, name, sha256, applied_at)"
				" VALUES (:version, :name, sha256(CAST(:text AS BLOB)), now_ms())";

/* A check that answers anything but what it should is a refusal. */
int
migrate_sound(struct store *db)
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

int
migrate_known(struct store *db, int version)
{
	unsigned char digest[32];

	if (version > embedded_versions)
		return refusal_set(store_refusal(db), "store.newer",
		    "the database has schema version %d, this bastion knows up to %d", version,
		    embedded_versions);
	if (migrate_digest(store_handle(db), digest) != 0 ||
	    memcmp(digest, embedded_digest[version - 1], 32) != 0)
		return refusal_set(store_refusal(db), "store.foreign",
		    "its tables are not those of schema version %d: was it changed by hand?",
		    version);
	return 0;
}

int
migrate_version_of(struct store *db)
{
	return (int)stmt_value(store_sql(db, "PRAGMA user_version"), -1);
}

void
migrate_sha256(int version, unsigned char sha256[32])
{
	const struct embedded *step = &embedded_migration[version - 1];

	crypto_hash_sha256(sha256, (const unsigned char *)step->text,
	    (unsigned long long)(step->end - step->text));
}

/* A step that was applied with another text may have left other rows, whatever its tables are. */
static int
steps_unedited(struct store *db, int from)
{
	unsigned char sha256[32];
	const void *applied;
	struct stmt *q;
	int n, version;

	if ((q = store_sql(db, STEPS)) == NULL)
		return -1;
	while ((n = stmt_step(q)) == 1) {
		version = (int)stmt_get_int(q, 0);
		if (version < 1 || version > from)
			continue;
		migrate_sha256(version, sha256);
		applied = stmt_get_blob(q, 2, sizeof(sha256));
		if (applied != NULL && memcmp(applied, sha256, sizeof(sha256)) == 0)
			continue;
		refusal_set(store_refusal(db), "migrate.edited",
		    "step %d was applied as %s with another text than this bastion has for it",
		    version, stmt_get_text(q, 1));
		stmt_done(q);
		return -1;
	}
	return n;
}

/* A step is our own text, and the only one that may put a CHECK into other words. */
static int
step_exec(struct store *db, const char *text)
{
	int rc;

	sqlite3_db_config(store_handle(db), SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
	rc = store_exec(db, text);
	sqlite3_db_config(store_handle(db), SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	return rc;
}

static int
step_done(struct store *db, int version)
{
	const struct embedded *step = &embedded_migration[version - 1];
	struct stmt *q;

	if ((q = store_sql(db, STEP_DONE)) == NULL)
		return -1;
	stmt_int(q, ":version", version);
	stmt_text(q, ":name", step->name);
	stmt_text_n(q, ":text", step->text, (size_t)(step->end - step->text));
	return stmt_run_one(q);
}

/* Take the steps from ${first} to ${last} by ${text}, whole or not at all. */
static int
steps_take(struct store *db, int first, int last, const char *text)
{
	char sql[64];
	int version;

	if (store_begin(db) != 0)
		return -1;
	/* Behind the gate, another process may have taken them meanwhile. */
	if (migrate_version_of(db) >= first) {
		store_rollback(db);
		return 0;
	}
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", last);
	if (step_exec(db, text) != 0 || store_exec(db, sql) != 0)
		return store_rollback(db);
	for (version = first; version <= last; version++)
		if (step_done(db, version) != 0)
			return store_rollback(db);
	if (migrate_known(db, last) != 0 || migrate_sound(db) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/* Check ${path}, a copy that was just made. */
static int
copy_checked(
    const char *path, const struct backup_watch *watch, struct backup_copy *held, struct refusal *r)
{
	struct store *copy;
	int rc;

	if ((copy = store_open_file(path, ROLE_MIGRATE, NULL, r)) == NULL)
		return -1;
	if ((rc = backup_check(copy, NULL, watch, held)) != 0)
		*r = *store_refusal(copy);
	store_close(copy);
	return rc;
}

/* A copy beside the database, looked through before it is trusted and has its name. */
static int
copy_before(const struct home *home, struct store *db, const struct backup_watch *watch,
    struct migrate_report *report)
{
	static const char making[] = "bastion.db.copying";
	struct refusal *r = store_refusal(db);
	char path[PATH_MAX];
	int64_t bytes;

	if ((bytes = backup_size(db)) < 0 || backup_fits(home, bytes, r) != 0 ||
	    backup_into(home, making, store_handle(db), watch, r) != 0)
		return -1;
	home_path(home, making, path);
	snprintf(report->copy, sizeof(report->copy), "bastion.db.before-%d", report->from + 1);
	if (copy_checked(path, watch, &report->held, r) == 0) {
		report->held.bytes = bytes;
		if (renameat(home->fd, making, home->fd, report->copy) == 0 && fsync(home->fd) == 0)
			return 0;
		refusal_errno(r, backup_code(errno), report->copy);
	}
	unlinkat(home->fd, making, 0);
	report->copy[0] = '\0';
	return -1;
}

/*
 * A file that is empty yet is given its log.  SQLite may refuse that at once where two do it, so
 * one does, behind the gate.
 */
static int
born(const struct home *home, struct store *db)
{
	static const char log[] = "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
				  "PRAGMA application_id = " APPLICATION_ID;
	int fd, rc;

	if ((fd = home_file(home, "bastion.gate", store_refusal(db))) == -1)
		return -1;
	rc = gate_enter(fd, GATE_WAIT_MS) != 0
		 ? refusal_errno(store_refusal(db), "store.busy", "bastion.gate")
		 : store_exec(db, log);
	close(fd);
	return rc;
}

/* What is there must be what was made by our steps, and no newer. */
static int
begins_well(struct store *db, int from)
{
	if (from < 0)
		return -1;
	return from == 0 || (migrate_known(db, from) == 0 && steps_unedited(db, from) == 0) ? 0
											    : -1;
}

static int
take_steps(struct store *db, int from, const struct backup_watch *watch)
{
	int version;

	/* From nothing, all are one. */
	if (from == 0)
		return steps_take(db, 1, embedded_versions, embedded_beginning.text) == 0
			   ? embedded_versions
			   : -1;
	for (version = from + 1; version <= embedded_versions; version++) {
		if (watch != NULL)
			watch->fn(watch->ctx, embedded_migration[version - 1].name, 0, 0);
		if (steps_take(db, version, version, embedded_migration[version - 1].text) != 0)
			return -1;
	}
	return embedded_versions - from;
}

static int
migrate_steps(const struct home *home, struct store *db, const struct backup_watch *watch,
    struct migrate_report *report)
{
	report->from = migrate_version_of(db);
	report->to = embedded_versions;
	if (begins_well(db, report->from) != 0)
		return -1;
	if (report->from == 0 && born(home, db) != 0)
		return -1;
	if (report->from > 0 && report->from < embedded_versions &&
	    copy_before(home, db, watch, report) != 0)
		return -1;
	return take_steps(db, report->from, watch);
}

int
migrate_run(const struct home *home, const struct backup_watch *watch,
    struct migrate_report *report, struct refusal *r)
{
	struct store *db;
	int fd, steps;

	memset(report, 0, sizeof(*report));
	/* Made here, not by SQLite, so that it is 0600 and its owner's from the first moment. */
	if (faccessat(home->fd, "bastion.db", F_OK, 0) != 0) {
		if ((fd = home_file(home, "bastion.db", r)) == -1)
			return -1;
		close(fd);
	}
	if ((db = store_open(home, ROLE_MIGRATE, NULL, r)) == NULL)
		return -1;
	store_acting(db, "system:migrate");
	if ((steps = migrate_steps(home, db, watch, report)) < 0)
		*r = *store_refusal(db);
	store_close(db);
	return steps;
}

int
migrate_up(const struct home *home, struct refusal *r)
{
	struct migrate_report report;

	return migrate_run(home, NULL, &report, r);
}

int
migrate_file(const char *path, struct refusal *r)
{
	struct store *db;
	int from, steps = -1;

	if ((db = store_open_file(path, ROLE_MIGRATE, NULL, r)) == NULL)
		return -1;
	store_acting(db, "system:migrate");
	from = migrate_version_of(db);
	if (begins_well(db, from) == 0)
		steps = take_steps(db, from, NULL);
	if (steps < 0)
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
	if ((*version = migrate_version_of(db)) < 0)
		*r = *store_refusal(db);
	store_close(db);
	return *version < 0 ? -1 : 0;
}
