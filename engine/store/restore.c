/* restore.c: check a copy, prepare it, and swap it in with one rename. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/state/audit.h"
#include "engine/state/instance.h"
#include "engine/store/embed.h"
#include "engine/store/gate.h"
#include "engine/store/migrate.h"
#include "engine/store/restore.h"

#define MAKING         "bastion.db.restoring"
#define COPYING        "bastion.db.copying" /* of migrate.c */
#define KEPT           "bastion.db.before-restore-"
#define APPLICATION_ID 0x6273746e

static const char FILE_SETUP[] = "PRAGMA cell_size_check = ON;"
				 "PRAGMA query_only = ON;";

static const char FILE_IS[] = "SELECT a.application_id, v.user_version"
			      "  FROM pragma_application_id AS a, pragma_user_version AS v";

static const char FILE_BOX[] = "SELECT name, role, identity_key FROM box";

/* Alone with the database from here on, its log folded in and gone. */
static const char ALONE[] =
    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE;";
static const char TOGETHER[] = "ROLLBACK; PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = WAL;";

static const char PRESENT_OURS[] = "SELECT count(*) FROM box WHERE identity_key = :key";

static const char PRESENT_HEAD[] =
    "SELECT seq, hash, EXISTS (SELECT 1 FROM audit WHERE seq = :seq AND hash = :head)"
    "  FROM audit ORDER BY seq DESC LIMIT 1";

static const char PRESENT_LIVE[] =
    "SELECT json_object("
    "  'grants', (SELECT json_group_array(lower(hex(seal))) FROM grant WHERE state = 'active'),"
    "  'factors', (SELECT json_group_array(json_array(fingerprint, enrolled_at, last_counter))"
    "                FROM factor WHERE state = 'active'),"
    "  'pairings', (SELECT json_group_array(json_array(host_name, lower(hex(host_key)), since))"
    "                 FROM pairing WHERE state <> 'revoked'),"
    "  'boxes', (SELECT json_group_array(json_array(name, lower(hex(box_key)), paired_at))"
    "              FROM host_box WHERE state = 'active'))";

static const char OPEN_THINGS[] = "SELECT (SELECT count(*) FROM grant WHERE state = 'active'),"
				  "       (SELECT count(*) FROM approval WHERE state = 'pending'),"
				  "       (SELECT count(*) FROM invitation WHERE state = 'open'),"
				  "       (SELECT count(*) FROM factor WHERE state = 'active'),"
				  "       (SELECT count(*) FROM pairing WHERE state <> 'revoked'),"
				  "       (SELECT count(*) FROM host_box WHERE state = 'active')";

static const char RESTORED[] =
    "INSERT INTO restore (restored_at, seq, head, replaced_seq, replaced_head, live,"
    "                     keep_grants, keep_factors)"
    " VALUES (now_ms(), :seq, :head, :replaced_seq, :replaced_head, :live, :grants, :factors)";

/* What the database that will be replaced can say. */
struct present {
	bool known;
	int64_t seq;
	unsigned char head[32];
	char *live; /* JSON, where it went on from the copy */
};

/* One restore on its way. */
struct restore {
	const struct home *home;
	const struct store_keys *keys;
	const struct restore_options *options;
	const struct backup_watch *watch;
	struct restore_report *report;
	struct present present;
	struct refusal *r;
};

static bool
is_there(const struct home *home, const char *name)
{
	return faccessat(home->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void
remove_made(const struct home *home, const char *name)
{
	static const char *const suffix[] = {"", "-journal", "-wal", "-shm"};
	char file[64];
	size_t i;

	for (i = 0; i < sizeof(suffix) / sizeof(suffix[0]); i++) {
		snprintf(file, sizeof(file), "%s%s", name, suffix[i]);
		unlinkat(home->fd, file, 0);
	}
}

/* A restore that ended between its link and its rename left the present database two names. */
static void
remove_twins(const struct home *home, const struct stat *db)
{
	struct dirent *entry;
	struct stat st;
	DIR *dir;
	int fd;

	if ((fd = openat(home->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return;
	if ((dir = fdopendir(fd)) == NULL) {
		close(fd);
		return;
	}
	while ((entry = readdir(dir)) != NULL)
		if (strncmp(entry->d_name, KEPT, strlen(KEPT)) == 0 &&
		    fstatat(home->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_dev == db->st_dev && st.st_ino == db->st_ino)
			unlinkat(home->fd, entry->d_name, 0);
	closedir(dir);
}

void
restore_tidy(const struct home *home)
{
	struct stat st;

	remove_made(home, MAKING);
	remove_made(home, COPYING);
	if (fstatat(home->fd, "bastion.db", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_nlink > 1)
		remove_twins(home, &st);
}

static int
file_box(sqlite3 *file, const struct restore *x)
{
	const char *role = x->home->role == HOME_HOST ? "host" : "box";
	const char *name;
	char hex[65];
	sqlite3_stmt *q;
	int rc = 0;

	if (sqlite3_prepare_v2(file, FILE_BOX, -1, &q, NULL) != SQLITE_OK ||
	    sqlite3_step(q) != SQLITE_ROW || sqlite3_column_bytes(q, 2) != 32) {
		sqlite3_finalize(q);
		return refusal_set(x->r, "restore.file", "there is no machine in it");
	}
	name = (const char *)sqlite3_column_text(q, 0);
	sodium_bin2hex(hex, sizeof(hex), sqlite3_column_blob(q, 2), 32);
	if (memcmp(sqlite3_column_blob(q, 2), x->keys->identity, 32) != 0)
		rc = refusal_set(x->r, "restore.foreign",
		    "it is of the machine %s with the key %s, which is not the key here", name,
		    hex);
	else if (strcmp((const char *)sqlite3_column_text(q, 1), role) != 0)
		rc = refusal_set(x->r, "box.identity", "it is of a %s, and this is a %s",
		    (const char *)sqlite3_column_text(q, 1), role);
	sqlite3_finalize(q);
	return rc;
}

/* Nothing that the file says is run before its schema is known to be ours. */
static int
file_known(sqlite3 *file, const struct restore *x)
{
	unsigned char digest[32];
	sqlite3_stmt *q;
	int id = 0, version = 0;

	if (sqlite3_prepare_v2(file, FILE_IS, -1, &q, NULL) == SQLITE_OK &&
	    sqlite3_step(q) == SQLITE_ROW) {
		id = sqlite3_column_int(q, 0);
		version = sqlite3_column_int(q, 1);
	}
	sqlite3_finalize(q);
	if (id != APPLICATION_ID || version < 1)
		return refusal_set(x->r, "restore.file", "it is no database of a bastion");
	if (version > embedded_versions)
		return refusal_set(x->r, "store.newer",
		    "it has schema version %d, this bastion knows up to %d", version,
		    embedded_versions);
	if (migrate_digest(file, digest) != 0 ||
	    memcmp(digest, embedded_digest[version - 1], 32) != 0)
		return refusal_set(x->r, "store.foreign",
		    "its tables are not those of schema version %d: was it changed by hand?",
		    version);
	return file_box(file, x);
}

static sqlite3 *
file_open(const char *path, const struct restore *x)
{
	sqlite3 *file = NULL;
	struct stat st;

	if (stat(path, &st) == -1) {
		refusal_errno(x->r, "restore.file", path);
		return NULL;
	}
	if (!S_ISREG(st.st_mode)) {
		refusal_set(x->r, "restore.file", "%s is not a plain file", path);
		return NULL;
	}
	if (backup_fits(x->home, st.st_size, x->r) != 0)
		return NULL;
	if (sqlite3_open_v2(path, &file, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) ==
		SQLITE_OK &&
	    sqlite3_db_config(file, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) == SQLITE_OK &&
	    sqlite3_exec(file, FILE_SETUP, NULL, NULL, NULL) == SQLITE_OK) {
		if (file_known(file, x) == 0)
			return file;
	} else {
		refusal_set(x->r, "restore.file", "%s cannot be read as a database: %s", path,
		    sqlite3_errmsg(file));
	}
	sqlite3_close(file);
	return NULL;
}

/* The copy of the file, which is what will be looked at from here on. */
static int
made_check(struct restore *x, const char *path)
{
	struct store *db;
	int rc;

	if ((db = store_open_file(path, ROLE_MIGRATE, NULL, x->r)) == NULL)
		return -1;
	if ((rc = backup_check(db, x->keys->identity, x->watch, &x->report->copy)) != 0) {
		*x->r = *store_refusal(db);
		if (strcmp(x->r->code, "audit.chain") == 0)
			snprintf(x->r->code, sizeof(x->r->code), "restore.chain");
	}
	x->report->copy.bytes = rc == 0 ? backup_size(db) : 0;
	store_close(db);
	return rc;
}

static int
made_from(struct restore *x, const char *path)
{
	char made[PATH_MAX];
	sqlite3 *file;
	int rc;

	if ((file = file_open(path, x)) == NULL)
		return -1;
	rc = backup_into(x->home, MAKING, file, x->watch, x->r);
	sqlite3_close(file);
	if (rc != 0)
		return -1;
	home_path(x->home, MAKING, made);
	return made_check(x, made) == 0 && migrate_file(made, x->r) >= 0 ? 0 : -1;
}

/* Whether the present database can say anything, and is of this machine. */
static bool
present_ours(struct store *db, const struct restore *x)
{
	int version = migrate_version_of(db);
	struct stmt *q;

	if (version < 1 || migrate_known(db, version) != 0 ||
	    (q = store_sql(db, PRESENT_OURS)) == NULL)
		return false;
	stmt_blob(q, ":key", x->keys->identity, sizeof(x->keys->identity));
	return stmt_value(q, 0) == 1;
}

static int
present_live(struct store *db, struct present *p)
{
	struct stmt *q;

	if ((q = store_sql(db, PRESENT_LIVE)) == NULL || stmt_step(q) != 1)
		return -1;
	p->live = strdup(stmt_get_text(q, 0));
	stmt_done(q);
	return p->live == NULL ? -1 : 0;
}

static void
present_ask(struct store *db, struct restore *x)
{
	struct present *p = &x->present;
	const void *head;
	struct stmt *q;
	bool descends;

	if (!present_ours(db, x) || (q = store_sql(db, PRESENT_HEAD)) == NULL)
		return;
	stmt_int(q, ":seq", x->report->copy.seq);
	stmt_blob(q, ":head", x->report->copy.head, sizeof(x->report->copy.head));
	if (stmt_step(q) != 1)
		return;
	if ((head = stmt_get_blob(q, 1, 32)) == NULL) {
		stmt_done(q);
		return;
	}
	p->seq = stmt_get_int(q, 0);
	memcpy(p->head, head, sizeof(p->head));
	descends = stmt_get_int(q, 2) != 0;
	stmt_done(q);
	if (descends && present_live(db, p) != 0)
		return;
	p->known = true;
	x->report->descends = descends;
}

/* Whether it can be read at all.  The log of a broken one is evidence, and not folded at a close.
 */
static bool
present_opens(const struct home *home)
{
	sqlite3 *present = NULL;
	char path[PATH_MAX];
	int rc;

	home_path(home, "bastion.db", path);
	rc = sqlite3_open_v2(path, &present, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL);
	sqlite3_db_config(present, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_busy_timeout(present, GATE_WAIT_MS);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(present, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
	sqlite3_close(present);
	return rc == SQLITE_OK;
}

/* What the database that is there says about what ended since; a broken one says nothing. */
static void
present_read(struct restore *x)
{
	struct refusal ignored;
	struct store *db;

	if (!is_there(x->home, "bastion.db") || !present_opens(x->home))
		return;
	if ((db = store_open(x->home, ROLE_MIGRATE, NULL, &ignored)) == NULL)
		return;
	present_ask(db, x);
	store_close(db);
}

static int
count_open(struct store *db, int64_t n[6])
{
	struct stmt *q;
	int i;

	if ((q = store_sql(db, OPEN_THINGS)) == NULL || stmt_step(q) != 1)
		return -1;
	for (i = 0; i < 6; i++)
		n[i] = stmt_get_int(q, i);
	stmt_done(q);
	return 0;
}

static int
insert_restore(struct store *db, struct restore *x)
{
	const struct present *p = &x->present;
	struct stmt *q;

	if ((q = store_sql(db, RESTORED)) == NULL)
		return -1;
	stmt_int(q, ":seq", x->report->copy.seq);
	stmt_blob(q, ":head", x->report->copy.head, sizeof(x->report->copy.head));
	if (p->known) {
		stmt_int(q, ":replaced_seq", p->seq);
		stmt_blob(q, ":replaced_head", p->head, sizeof(p->head));
		stmt_text(q, ":live", p->live);
	}
	stmt_int(q, ":grants", x->options->keep_grants);
	stmt_int(q, ":factors", x->options->keep_factors);
	return stmt_run_one(q);
}

static int
record(struct store *db, struct restore *x)
{
	struct restore_report *report = x->report;
	int64_t before[6], after[6];

	if (store_begin(db) != 0)
		return -1;
	if (count_open(db, before) != 0 || insert_restore(db, x) != 0 || count_open(db, after) != 0)
		return store_rollback(db);
	if (store_commit(db) != 0)
		return -1;
	report->grants = before[0] - after[0];
	report->questions = before[1] - after[1];
	report->invitations = before[2] - after[2];
	report->factors = before[3] - after[3];
	report->pairings = before[4] - after[4];
	report->boxes = before[5] - after[5];
	return audit_seal(db, "request") == -1 ? -1 : 0;
}

/* The last of what has to be on the disk before the swap: what happened, signed, and its log. */
static int
made_ready(struct restore *x)
{
	char path[PATH_MAX];
	struct store *db;
	int fd, rc;

	home_path(x->home, MAKING, path);
	if ((db = store_open_file(path, ROLE_MIGRATE, x->keys, x->r)) == NULL)
		return -1;
	store_acting(db, "%s", x->options->acting);
	if ((rc = record(db, x)) == 0)
		rc = store_exec(db, "PRAGMA journal_mode = WAL");
	if (rc != 0)
		*x->r = *store_refusal(db);
	store_close(db);
	if (rc != 0)
		return -1;
	if ((fd = home_file(x->home, MAKING, x->r)) == -1)
		return -1;
	if (fsync(fd) == -1)
		rc = refusal_errno(x->r, backup_code(errno), path);
	close(fd);
	return rc;
}

/* A name of this second that nothing has. */
static int
keep_present(struct restore *x, char kept[NAME_MAX + 1])
{
	time_t now = (time_t)(clock_now() / 1000);
	char when[32];
	struct tm tm;
	int n;

	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &tm);
	snprintf(kept, NAME_MAX + 1, KEPT "%s", when);
	for (n = 2; linkat(x->home->fd, "bastion.db", x->home->fd, kept, 0) == -1; n++) {
		if (errno != EEXIST || n > 99)
			return refusal_errno(x->r, backup_code(errno), kept);
		snprintf(kept, NAME_MAX + 1, KEPT "%s-%d", when, n);
	}
	return 0;
}

/* From one moment to the next it is the other database; the directory says so on the disk. */
static int
swap(struct restore *x)
{
	int dir = x->home->fd;

	if (fsync(dir) == -1 || renameat(dir, MAKING, dir, "bastion.db") == -1 || fsync(dir) == -1)
		return refusal_errno(x->r, backup_code(errno), x->home->state);
	return 0;
}

/*
 * A database that SQLite cannot open is kept with its log, which somebody may be able to mend; the
 * log must be away before another database gets its name.
 */
static int
swap_broken(struct restore *x)
{
	char kept[NAME_MAX + 1], log[NAME_MAX + 16];
	int dir = x->home->fd;

	if (keep_present(x, kept) != 0)
		return -1;
	snprintf(log, sizeof(log), "%s-wal", kept);
	if (is_there(x->home, "bastion.db-wal") && linkat(dir, "bastion.db-wal", dir, log, 0) == -1)
		return refusal_errno(x->r, backup_code(errno), log);
	if (fsync(dir) == -1)
		return refusal_errno(x->r, backup_code(errno), x->home->state);
	unlinkat(dir, "bastion.db-wal", 0);
	unlinkat(dir, "bastion.db-shm", 0);
	unlinkat(dir, "bastion.db-journal", 0);
	snprintf(x->report->kept, sizeof(x->report->kept), "%s", kept);
	x->report->broken = true;
	return swap(x);
}

static int
swap_held(struct restore *x, sqlite3 *present)
{
	char kept[NAME_MAX + 1];
	int rc;

	if ((rc = keep_present(x, kept)) == 0 && (rc = swap(x)) == 0)
		snprintf(x->report->kept, sizeof(x->report->kept), "%s", kept);
	else
		sqlite3_exec(present, TOGETHER, NULL, NULL, NULL);
	return rc;
}

/* Keep what is there and put the other in its place, with nobody else at it. */
static int
swap_present(struct restore *x)
{
	char path[PATH_MAX];
	sqlite3 *present = NULL;
	int rc;

	home_path(x->home, "bastion.db", path);
	rc = sqlite3_open_v2(path, &present, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL);
	sqlite3_busy_timeout(present, GATE_WAIT_MS);
	sqlite3_db_config(present, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(present, ALONE, NULL, NULL, NULL);
	switch (rc & 0xff) {
	case SQLITE_OK:
		rc = swap_held(x, present);
		sqlite3_close(present);
		/* In exclusive mode SQLite leaves it, empty. */
		if (rc == 0)
			unlinkat(x->home->fd, "bastion.db-journal", 0);
		return rc;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		sqlite3_close(present);
		return swap_broken(x);
	case SQLITE_BUSY:
		refusal_set(x->r, "store.busy", "another command still has the database open");
		break;
	default:
		backup_refusal(x->r, path, present, rc);
	}
	sqlite3_close(present);
	return -1;
}

/*
 * From the last look at the present database to the swap, writers queue at the gate: nothing can be
 * dropped there that would live on here.
 */
static int
take_over(struct restore *x)
{
	int gate, rc = -1;

	if ((gate = home_file(x->home, "bastion.gate", x->r)) == -1)
		return -1;
	if (gate_enter(gate, GATE_WAIT_MS) != 0) {
		refusal_set(x->r, "store.busy", "another writer did not finish in time");
	} else {
		present_read(x);
		if (made_ready(x) == 0)
			rc = is_there(x->home, "bastion.db") ? swap_present(x) : swap(x);
	}
	close(gate);
	return rc;
}

int
restore_run(const struct home *home, const char *path, const struct store_keys *keys,
    const struct restore_options *options, const struct backup_watch *watch,
    struct restore_report *report, struct refusal *r)
{
	struct restore x = {.home = home,
	    .keys = keys,
	    .options = options,
	    .watch = watch,
	    .report = report,
	    .r = r};
	int lock, rc = -1;

	memset(report, 0, sizeof(*report));
	if ((lock = instance_lock(home, r)) == -1)
		return -1;
	restore_tidy(home);
	if (made_from(&x, path) == 0)
		rc = take_over(&x);
	if (rc != 0)
		restore_tidy(home);
	free(x.present.live);
	close(lock);
	return rc;
}
