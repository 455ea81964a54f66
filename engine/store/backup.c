/* backup.c: copy page by page, check the copy, name it last. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/state/audit.h"
#include "engine/store/backup.h"
#include "engine/store/embed.h"
#include "engine/store/migrate.h"

#define STEP_PAGES 256 /* between two words to who watches: a megabyte */
#define PART       ".part"

static const char HEAD[] =
    "SELECT coalesce(max(seq), 0), coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1),"
    " zeroblob(32)) FROM audit";

static const char IDENTITY[] = "SELECT identity_key FROM box";

/* Nothing of a new copy counts before it is complete, so it needs no journal; closed, no log. */
static const char COPY_BEGIN[] = "PRAGMA journal_mode = OFF; PRAGMA synchronous = FULL;";
static const char COPY_END[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE;";

/* A new file, being written. */
struct part {
	int dir, fd;
	char path[PATH_MAX]; /* of the part */
	const char *name;    /* in it, without directory */
};

static void
tell(const struct backup_watch *watch, const char *what, int64_t done, int64_t total)
{
	if (watch != NULL)
		watch->fn(watch->ctx, what, done, total);
}

const char *
backup_code(int error)
{
	if (error == ENOSPC || error == EDQUOT)
		return "store.full";
	return error == EROFS ? "store.readonly" : "store.failed";
}

int
backup_refusal(struct refusal *r, const char *path, sqlite3 *at, int rc)
{
	int error = at == NULL ? 0 : sqlite3_system_errno(at);
	const char *code = "store.failed";

	if ((rc & 0xff) == SQLITE_FULL || ((rc & 0xff) == SQLITE_IOERR && error != 0))
		code = (rc & 0xff) == SQLITE_FULL ? "store.full" : backup_code(error);
	else if ((rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB)
		code = "store.corrupt";
	else if ((rc & 0xff) == SQLITE_BUSY)
		code = "store.busy";
	else if ((rc & 0xff) == SQLITE_READONLY)
		code = "store.readonly";
	return refusal_set(r, code, "%s: %s", path, sqlite3_errstr(rc));
}

/*
 * All pages, as they are at one moment: the read transaction lets writers go on, and keeps their
 * commits from making the copy begin anew.
 */
static int
copy_pages(sqlite3 *from, sqlite3 *to, const struct backup_watch *watch)
{
	sqlite3_backup *backup;
	bool inside = sqlite3_get_autocommit(from) == 0;
	int rc;

	if (!inside && (rc = sqlite3_exec(from, "BEGIN", NULL, NULL, NULL)) != SQLITE_OK)
		return rc;
	if ((backup = sqlite3_backup_init(to, "main", from, "main")) == NULL) {
		rc = sqlite3_errcode(to);
	} else {
		while ((rc = sqlite3_backup_step(backup, STEP_PAGES)) == SQLITE_OK)
			tell(watch, "copying",
			    sqlite3_backup_pagecount(backup) - sqlite3_backup_remaining(backup),
			    sqlite3_backup_pagecount(backup));
		rc = sqlite3_backup_finish(backup);
	}
	if (!inside)
		sqlite3_exec(from, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

static int
copy_to(const char *path, sqlite3 *from, const struct backup_watch *watch, struct refusal *r)
{
	sqlite3 *to = NULL;
	int rc;

	rc = sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL);
	if (rc == SQLITE_OK)
		sqlite3_extended_result_codes(to, 1);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(to, COPY_BEGIN, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = copy_pages(from, to, watch);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(to, COPY_END, NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		backup_refusal(r, path, to, rc);
	sqlite3_close(to);
	return rc == SQLITE_OK ? 0 : -1;
}

static int
beside(int dir, const char *name, const char *suffix)
{
	char file[NAME_MAX + 1];

	if (snprintf(file, sizeof(file), "%s%s", name, suffix) >= (int)sizeof(file))
		return -1;
	return unlinkat(dir, file, 0);
}

/* Where a copy was cut short, SQLite may have left these; never those of a file that is in use. */
static void
clear_beside(int dir, const char *name)
{
	beside(dir, name, "-journal");
	beside(dir, name, "-wal");
	beside(dir, name, "-shm");
}

int
backup_into(const struct home *home, const char *name, struct sqlite3 *from,
    const struct backup_watch *watch, struct refusal *r)
{
	char path[PATH_MAX];
	int fd, rc;

	if (unlinkat(home->fd, name, 0) == -1 && errno != ENOENT)
		return refusal_errno(r, backup_code(errno), name);
	clear_beside(home->fd, name);
	if ((fd = home_file(home, name, r)) == -1)
		return -1;
	home_path(home, name, path);
	/* Ours is closed last: before, it would take SQLite's locks with it. */
	rc = copy_to(path, from, watch, r);
	if (rc == 0 && (fsync(fd) == -1 || fsync(home->fd) == -1))
		rc = refusal_errno(r, backup_code(errno), name);
	close(fd);
	if (rc == -1) {
		unlinkat(home->fd, name, 0);
		clear_beside(home->fd, name);
	}
	return rc;
}

static int
own_key(struct store *db, unsigned char key[32])
{
	const void *blob = NULL;
	struct stmt *q;

	memset(key, 0, 32);
	if ((q = store_sql(db, IDENTITY)) == NULL)
		return -1;
	if (stmt_step(q) == 1 && (blob = stmt_get_blob(q, 0, 32)) != NULL)
		memcpy(key, blob, 32);
	stmt_done(q);
	return 0;
}

struct chain_watch {
	const struct backup_watch *watch;
};

static void
chain_progress(void *ctx, int64_t done, int64_t total)
{
	const struct chain_watch *chain = ctx;

	tell(chain->watch, "checking the audit", done, total);
}

static int
check_chain(struct store *db, const unsigned char *key, const struct backup_watch *watch,
    struct backup_copy *copy)
{
	struct chain_watch chain = {watch};
	struct audit_progress progress = {chain_progress, &chain};
	struct audit_report report;
	unsigned char own[32];
	int rc;

	if (key == NULL && own_key(db, own) != 0)
		return -1;
	rc = audit_verify(db, key == NULL ? own : key, watch == NULL ? NULL : &progress, &report);
	if (rc == AUDIT_BAD)
		return refusal_set(store_refusal(db), "audit.chain",
		    "the audit in it is not whole: %s", report.what);
	copy->rows = report.rows;
	return rc;
}

static int
check_head(struct store *db, struct backup_copy *copy)
{
	const void *head = NULL;
	struct stmt *q;
	int rc = -1;

	if ((q = store_sql(db, HEAD)) == NULL || stmt_step(q) != 1)
		return -1;
	copy->seq = stmt_get_int(q, 0);
	if ((head = stmt_get_blob(q, 1, 32)) != NULL) {
		memcpy(copy->head, head, 32);
		rc = 0;
	}
	stmt_done(q);
	return rc;
}

int
backup_check(struct store *db, const unsigned char *key, const struct backup_watch *watch,
    struct backup_copy *copy)
{
	copy->version = migrate_version_of(db);
	if (copy->version < 0)
		return -1;
	if (copy->version == 0)
		return refusal_set(
		    store_refusal(db), "store.foreign", "it is no database of a bastion");
	tell(watch, "checking the file", 0, 0);
	if (migrate_known(db, copy->version) != 0 || migrate_sound(db) != 0)
		return -1;
	return check_chain(db, key, watch, copy) == 0 ? check_head(db, copy) : -1;
}

/* Check the file ${path} as what it now is, not as what was written to it. */
static int
check_file(const char *path, const unsigned char *key, const struct backup_watch *watch,
    struct backup_copy *copy, struct refusal *r)
{
	struct store *db;
	struct stat st;
	int rc;

	if ((db = store_open_file(path, ROLE_MIGRATE, NULL, r)) == NULL)
		return -1;
	if ((rc = backup_check(db, key, watch, copy)) != 0)
		*r = *store_refusal(db);
	store_close(db);
	if (rc == 0 && stat(path, &st) != 0)
		return refusal_errno(r, "store.failed", path);
	copy->bytes = rc == 0 ? st.st_size : 0;
	return rc;
}

/* Not beside the database: --force could replace it, and what takes the one takes the other. */
static bool
is_of_database(struct store *db, const struct stat *dir)
{
	char path[PATH_MAX], *slash;
	struct stat st;

	snprintf(path, sizeof(path), "%s", sqlite3_db_filename(store_handle(db), "main"));
	if ((slash = strrchr(path, '/')) == NULL)
		return false;
	*slash = '\0';
	return stat(path, &st) == 0 && st.st_dev == dir->st_dev && st.st_ino == dir->st_ino;
}

/* A directory in which another user cannot put another file in the place of ours. */
static int
part_directory(struct store *db, const char *path, struct refusal *r)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat st;
	int fd;

	if (slash == NULL)
		strcpy(dir, ".");
	else
		snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	if ((fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return refusal_errno(r, "backup.file", dir);
	if (fstat(fd, &st) == -1)
		refusal_errno(r, "backup.file", dir);
	else if (is_of_database(db, &st))
		refusal_set(r, "backup.file",
		    "%s is where the database is: what takes the one would take the other", dir);
	else if ((st.st_uid != geteuid() && st.st_uid != 0) ||
		 ((st.st_mode & 022) != 0 && (st.st_mode & S_ISVTX) == 0))
		refusal_set(r, "backup.file",
		    "another user could put another file in the place of the copy in %s", dir);
	else
		return fd;
	close(fd);
	return -1;
}

/* A part that was left behind is taken over, one that somebody writes is not. */
static int
part_take(struct part *p, struct refusal *r)
{
	struct stat st;

	p->fd =
	    openat(p->dir, p->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (p->fd == -1)
		return refusal_errno(r, errno == EROFS ? "store.readonly" : "backup.file", p->path);
	if (fstat(p->fd, &st) == -1 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    st.st_nlink != 1 || fchmod(p->fd, 0600) == -1)
		return refusal_set(r, "backup.file", "%s is there and not ours", p->path);
	if (flock(p->fd, LOCK_EX | LOCK_NB) == -1)
		return errno == EWOULDBLOCK ? refusal_set(r, "backup.busy",
						  "another backup is being written to %s", p->path)
					    : refusal_errno(r, "store.failed", p->path);
	clear_beside(p->dir, p->name);
	return ftruncate(p->fd, 0) == -1 ? refusal_errno(r, backup_code(errno), p->path) : 0;
}

static int
part_open(struct store *db, struct part *p, const char *path, bool force, struct refusal *r)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;

	p->dir = p->fd = -1;
	if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return refusal_set(r, "backup.file", "%s is no name of a file", path);
	if (snprintf(p->path, sizeof(p->path), "%s" PART, path) >= (int)sizeof(p->path) ||
	    strlen(name) + strlen(PART "-journal") > NAME_MAX)
		return refusal_set(r, "backup.file", "the name of the file is too long");
	p->name = p->path + (name - path);
	if ((p->dir = part_directory(db, path, r)) == -1)
		return -1;
	if (!force && faccessat(p->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return refusal_set(r, "backup.exists", "%s is there already", path);
	return part_take(p, r);
}

/* The last act: from here on there is a backup. */
static int
part_name(struct part *p, const char *path, bool force, struct refusal *r)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	int rc;

	if (fsync(p->fd) == -1)
		return refusal_errno(r, backup_code(errno), p->path);
	rc = force ? -1 : renameat2(p->dir, p->name, p->dir, name, RENAME_NOREPLACE);
	/* Some file systems cannot do that; there the look at the beginning has to do. */
	if (force || (rc == -1 && errno == EINVAL))
		rc = renameat(p->dir, p->name, p->dir, name);
	if (rc == -1 && errno == EEXIST)
		return refusal_set(r, "backup.exists", "%s is there already", path);
	if (rc == -1 || fsync(p->dir) == -1)
		return refusal_errno(r, backup_code(errno), path);
	return 0;
}

static void
part_close(struct part *p, bool failed)
{
	if (failed && p->fd != -1) {
		unlinkat(p->dir, p->name, 0);
		clear_beside(p->dir, p->name);
	}
	if (p->fd != -1)
		close(p->fd);
	if (p->dir != -1)
		close(p->dir);
}

int
backup_write(struct store *db, const char *path, const unsigned char key[32], bool force,
    const struct backup_watch *watch, struct backup_copy *copy)
{
	struct refusal *r = store_refusal(db);
	struct part part;
	int rc;

	memset(copy, 0, sizeof(*copy));
	if (part_open(db, &part, path, force, r) != 0) {
		/* What is not known to be ours stays. */
		part_close(&part, false);
		return -1;
	}
	rc = copy_to(part.path, store_handle(db), watch, r);
	if (rc == 0)
		rc = check_file(part.path, key, watch, copy, r);
	if (rc == 0)
		rc = part_name(&part, path, force, r);
	part_close(&part, rc != 0);
	return rc;
}

int64_t
backup_size(struct store *db)
{
	return stmt_value(
	    store_sql(db, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"),
	    -1);
}

int
backup_fits(const struct home *home, int64_t bytes, struct refusal *r)
{
	struct statvfs fs;
	int64_t room;

	if (fstatvfs(home->fd, &fs) == -1)
		return refusal_errno(r, "store.failed", home->state);
	room = (int64_t)(fs.f_bavail * fs.f_frsize);
	if (bytes <= room)
		return 0;
	return refusal_set(r, "store.full",
	    "a copy of the database needs %" PRId64 " bytes, and %s has room for %" PRId64, bytes,
	    home->state, room);
}
