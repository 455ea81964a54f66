/* store.c: open, transactions, statements, refusals. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/crypto/sha256.h"
#include "engine/store/embed.h"
#include "engine/store/function.h"
#include "engine/store/gate.h"
#include "engine/store/heap.h"
#include "engine/store/migrate.h"
#include "engine/store/role.h"
#include "engine/store/store.h"

#define STATEMENTS 128
#define LOG_LEFT   (1 << 20) /* bytes of a log that are left to the next */
#define WAL_KEPT \
	"33554432" /* bytes: a log that a long reader made longer is cut to this after it */

struct stmt {
	struct store *db;
	sqlite3_stmt *handle;
	const char *sql;
	bool busy, cached;
	int rc; /* of the binds so far */
};

struct store {
	sqlite3 *handle;
	struct function_context ctx;
	struct refusal refusal;
	struct stmt cache[STATEMENTS];
	size_t cached;
	char state[PATH_MAX];
	int gate, bell; /* files; -1 for a copy */
	int watch;      /* inotify */
	int64_t version;
	int64_t schema; /* SQLite's count of changes of the schema */
	enum store_role role;
	bool inside, soft, quiet;
};

/* Setting up is ours; what a role may do begins after it. */
static const char SETUP[] = "PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON;"
			    "PRAGMA secure_delete = ON; PRAGMA cell_size_check = ON;"
			    "PRAGMA temp_store = MEMORY; PRAGMA synchronous = FULL;"
			    "PRAGMA journal_size_limit = " WAL_KEPT ";";

/* What an SQLite failure is called among our refusals. */
static const char *
code_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return "store.busy";
	case SQLITE_FULL:
		return "store.full";
	case SQLITE_READONLY:
		return "store.readonly";
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return "store.corrupt";
	case SQLITE_AUTH:
		return "store.role";
	default:
		return "store.failed";
	}
}

/* What a refusal that was made ends with: '|', and when to try again, which is cut off; 0: never.
 */
static int64_t
retry_cut(char *why)
{
	char *bar = strrchr(why, '|'), *end;
	long long at;

	if (bar == NULL || bar[1] < '0' || bar[1] > '9')
		return 0;
	at = strtoll(bar + 1, &end, 10);
	if (*end != '\0')
		return 0;
	*bar = '\0';
	return at;
}

/* A trigger's text is 'code|why' or 'code|why|retry_at'; anything else is SQLite's own, under our
 * code for it. */
static int
store_failed(struct store *db, int rc)
{
	const char *text = sqlite3_errmsg(db->handle);
	const char *bar = strchr(text, '|');
	char code[REFUSAL_CODE_MAX], why[REFUSAL_WHY_MAX + 32];
	int64_t retry_at;

	if (((rc & 0xff) == SQLITE_CONSTRAINT || (rc & 0xff) == SQLITE_ERROR) && bar != NULL &&
	    (size_t)(bar - text) < sizeof(code) &&
	    memchr(text, ' ', (size_t)(bar - text)) == NULL) {
		snprintf(code, sizeof(code), "%.*s", (int)(bar - text), text);
		snprintf(why, sizeof(why), "%s", bar + 1);
		retry_at = retry_cut(why);
		refusal_set(&db->refusal, code, "%s", why);
		db->refusal.retry_at = retry_at;
		return -1;
	}
	if ((rc & 0xff) == SQLITE_IOERR && sqlite3_system_errno(db->handle) == ENOSPC)
		rc = SQLITE_FULL;
	return refusal_set(&db->refusal, code_of(rc), "the database answered: %s", text);
}

int
store_exec(struct store *db, const char *sql)
{
	int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : store_failed(db, rc);
}

/* The schema must be of the version that this build was made with. */
static int
version_known(struct store *db)
{
	int64_t version = stmt_value(store_sql(db, "PRAGMA user_version"), -1);

	if (version < 0)
		return -1;
	if (version > embedded_versions)
		return refusal_set(&db->refusal, "store.newer",
		    "the database has schema version %lld, this bastion knows up to %d",
		    (long long)version, embedded_versions);
	if (version < embedded_versions)
		return refusal_set(&db->refusal, "store.older",
		    "the database has schema version %lld, this bastion needs %d",
		    (long long)version, embedded_versions);
	return 0;
}

/* It must be that one to the byte. */
static int
schema_compare(struct store *db)
{
	unsigned char digest[32];

	if (migrate_digest(db->handle, digest) != 0)
		return store_failed(db, sqlite3_errcode(db->handle));
	if (memcmp(digest, embedded_digest[embedded_versions - 1], 32) != 0)
		return refusal_set(&db->refusal, "store.foreign",
		    "the database's tables, triggers or views are not those of schema version %d",
		    embedded_versions);
	return 0;
}

/* What is compared is what ${db->schema} stands for: one look at the file. */
static int
schema_known(struct store *db, bool early)
{
	int rc;

	if (store_exec(db, "BEGIN") != 0)
		return -1;
	db->schema = stmt_value(store_sql(db, "PRAGMA schema_version"), -1);
	rc = db->schema < 0 || version_known(db) != 0 || (!early && schema_compare(db) != 0) ? -1
											     : 0;
	sqlite3_exec(db->handle, "COMMIT", NULL, NULL, NULL);
	return rc;
}

/* A decision allocates some hundred times, and nobody asks SQLite how much: counting it takes a
 * lock and a fifth of the time.  A reader keeps the count, which a limit on its memory needs. */
static void
uncounted(void)
{
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

static int
store_setup(struct store *db, const char *path, enum store_role role, bool early)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	int flags = role == ROLE_READER    ? SQLITE_OPEN_READONLY
		    : role == ROLE_MIGRATE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
					   : SQLITE_OPEN_READWRITE;
	int rc;

	if (role != ROLE_READER)
		pthread_once(&once, uncounted);
	/* These decide for others, row after row: each is chained by its hash. */
	if (role == ROLE_NET || role == ROLE_EGRESS)
		sha256_hurry();
	heap_ready();
	db->role = ROLE_MIGRATE; /* until it is set up */
	rc = sqlite3_open_v2(path, &db->handle,
	    flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE, NULL);
	if (rc != SQLITE_OK)
		return store_failed(db, rc);
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	/* Else a statement is planned anew for each value that an index might be meant for. */
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_ENABLE_QPSG, 1, NULL);
	sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, role == ROLE_MIGRATE ? 2 : 0);
	sqlite3_busy_timeout(db->handle, GATE_WAIT_MS);
	if (function_register(db->handle, &db->ctx) != 0)
		return store_failed(db, SQLITE_NOMEM);
	if (store_exec(db, SETUP) != 0)
		return -1;
	sqlite3_wal_autocheckpoint(db->handle, STORE_LOG_PAGES);
	if (role != ROLE_MIGRATE && schema_known(db, early) != 0)
		return -1;
	/* A restore that was cut short may have left the database without its log. */
	if (role == ROLE_SUPERVISOR && store_exec(db, "PRAGMA journal_mode = WAL") != 0)
		return -1;
	/* SQLite opens a file that it may not write all the same, and would say so at the first
	 * write. */
	if (role != ROLE_READER && sqlite3_db_readonly(db->handle, "main") == 1)
		return refusal_set(&db->refusal, "store.readonly", "%s cannot be written", path);
	db->role = role;
	return role_install(db->handle, role) == 0 ? 0 : store_failed(db, SQLITE_NOMEM);
}

static struct store *
store_new(const struct store_keys *keys)
{
	struct store *db;

	if ((db = calloc(1, sizeof(*db))) == NULL)
		return NULL;
	db->gate = db->bell = db->watch = -1;
	if (keys != NULL)
		db->ctx.keys = *keys;
	snprintf(db->ctx.acting, sizeof(db->ctx.acting), "nobody");
	return db;
}

static struct store *
store_give(struct store *db, int failed, struct refusal *r)
{
	if (!failed)
		return db;
	if (r != NULL)
		*r = db->refusal;
	store_close(db);
	return NULL;
}

/* Beside the database: a file to queue at and a file to ring.  Both are permanent. */
static int
store_beside(struct store *db, const struct home *home)
{
	snprintf(db->state, sizeof(db->state), "%s", home->state);
	if ((db->gate = home_file(home, "bastion.gate", &db->refusal)) == -1 ||
	    (db->bell = home_file(home, "bastion.bell", &db->refusal)) == -1)
		return -1;
	return home_tighten(home, "bastion.db", &db->refusal);
}

static struct store *
open_at(const struct home *home, enum store_role role, const struct store_keys *keys, bool early,
    struct refusal *r)
{
	struct store *db;
	char path[PATH_MAX];

	if ((db = store_new(keys)) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	home_path(home, "bastion.db", path);
	if (role != ROLE_MIGRATE && faccessat(home->fd, "bastion.db", F_OK, 0) != 0) {
		refusal_set(
		    &db->refusal, "store.missing", "there is no database in %s", home->state);
		return store_give(db, 1, r);
	}
	return store_give(
	    db, store_beside(db, home) != 0 || store_setup(db, path, role, early) != 0, r);
}

struct store *
store_open(
    const struct home *home, enum store_role role, const struct store_keys *keys, struct refusal *r)
{
	return open_at(home, role, keys, false, r);
}

struct store *
store_open_early(
    const struct home *home, enum store_role role, const struct store_keys *keys, struct refusal *r)
{
	return open_at(home, role, keys, true, r);
}

int64_t
store_schema(const struct store *db)
{
	return db->schema;
}

struct store *
store_open_file(
    const char *path, enum store_role role, const struct store_keys *keys, struct refusal *r)
{
	struct store *db;

	if ((db = store_new(keys)) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	if (access(path, F_OK) != 0) {
		refusal_errno(&db->refusal, "store.missing", path);
		return store_give(db, 1, r);
	}
	return store_give(db, store_setup(db, path, role, false) != 0, r);
}

void
store_close(struct store *db)
{
	size_t i;

	if (db == NULL)
		return;
	if (db->inside)
		store_rollback(db);
	for (i = 0; i < db->cached; i++)
		sqlite3_finalize(db->cache[i].handle);
	sqlite3_close(db->handle);
	if (db->gate != -1)
		close(db->gate);
	if (db->bell != -1)
		close(db->bell);
	if (db->watch != -1)
		close(db->watch);
	free(db);
}

/* How long the log is, or -1. */
static int64_t
log_size(struct store *db)
{
	sqlite3_file *log = NULL;
	sqlite3_int64 size;

	if (sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) !=
		SQLITE_OK ||
	    log == NULL || log->pMethods == NULL ||
	    log->pMethods->xFileSize(log, &size) != SQLITE_OK)
		return -1;
	return size;
}

void
store_leave(struct store *db)
{
	static struct store *left;
	int64_t size = db != NULL && left == NULL ? log_size(db) : -1;

	/* Whoever opens it next reads all of the log: it does not grow for ever. */
	if (size < 0 || size > LOG_LEFT) {
		store_close(db);
		return;
	}
	if (db->inside)
		store_rollback(db);
	left = db;
}

bool
store_reads(const struct store *db)
{
	return db->role == ROLE_READER;
}

struct refusal *
store_refusal(struct store *db)
{
	return &db->refusal;
}

void
store_acting(struct store *db, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(db->ctx.acting, sizeof(db->ctx.acting), fmt, ap);
	va_end(ap);
}

void
store_become(struct store *db, enum store_role role)
{
	/* Nobody becomes one who may more than a person, nor leaves a role that only reads. */
	if ((db->role != ROLE_PERSON && db->role != ROLE_AMEND) ||
	    (role != ROLE_PERSON && role != ROLE_AMEND) || role_install(db->handle, role) != 0)
		abort();
	db->role = role;
}

/* The pragma acts when it is compiled, and only between transactions: so just before one, where it
 * changes. */
static int
store_synchronous(struct store *db, bool soft)
{
	if (db->soft == soft)
		return 0;
	if (store_exec(db, soft ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL") != 0)
		return -1;
	db->soft = soft;
	return 0;
}

/* A disk that is full or fails can end a transaction inside SQLite; the refusal says which it was.
 */
static bool
store_undone(const struct store *db)
{
	return db->inside && sqlite3_get_autocommit(db->handle) != 0;
}

static int
store_begin_as(struct store *db, bool soft)
{
	if (db->gate != -1 && gate_enter(db->gate, GATE_WAIT_MS) != 0)
		return errno == EAGAIN
			   ? refusal_set(&db->refusal, "store.busy",
				 "another writer did not finish within %d s", GATE_WAIT_MS / 1000)
			   : refusal_errno(&db->refusal, "store.failed", "bastion.gate");
	if (store_synchronous(db, soft) == 0 && stmt_run(store_sql(db, "BEGIN IMMEDIATE")) == 0) {
		db->inside = true;
		db->ctx.now = clock_now();
		return 0;
	}
	if (db->gate != -1)
		gate_leave(db->gate);
	return -1;
}

int
store_begin(struct store *db)
{
	return store_begin_as(db, false);
}

int
store_begin_soft(struct store *db)
{
	return store_begin_as(db, true);
}

static void
store_end(struct store *db)
{
	db->inside = false;
	db->ctx.now = 0;
	if (db->gate != -1)
		gate_leave(db->gate);
}

void
store_quiet(struct store *db)
{
	db->quiet = true;
}

void
store_ring(struct store *db)
{
	static const char ring[1] = {'!'};

	if (db->bell != -1 && pwrite(db->bell, ring, sizeof(ring), 0) == -1)
		return; /* a full disk: readers still have their slow tick */
}

int
store_commit(struct store *db)
{
	if (store_undone(db))
		return store_rollback(db);
	if (stmt_run(store_sql(db, "COMMIT")) != 0)
		return store_rollback(db);
	store_end(db);
	if (!db->quiet)
		store_ring(db);
	return 0;
}

int
store_rollback(struct store *db)
{
	struct refusal kept = db->refusal;

	if (!db->inside)
		return -1;
	if (sqlite3_get_autocommit(db->handle) == 0)
		stmt_run(store_sql(db, "ROLLBACK"));
	store_end(db);
	db->refusal = kept;
	return -1;
}

int
store_run_soft(struct store *db, const char *sql, struct refusal *r)
{
	if (store_begin_soft(db) == 0) {
		if (stmt_run(store_sql(db, sql)) == 0 && store_commit(db) == 0)
			return 0;
		store_rollback(db);
	}
	*r = db->refusal;
	return -1;
}

/* Where SQLite undid the transaction by itself (a full disk), a savepoint would begin one of its
 * own. */
int
store_savepoint(struct store *db)
{
	if (!db->inside)
		return refusal_set(&db->refusal, "store.failed", "no transaction is open");
	if (store_undone(db))
		return -1;
	return stmt_run(store_sql(db, "SAVEPOINT step"));
}

int
store_release(struct store *db)
{
	return stmt_run(store_sql(db, "RELEASE step"));
}

int
store_undo(struct store *db)
{
	struct refusal kept = db->refusal;

	stmt_run(store_sql(db, "ROLLBACK TO step"));
	stmt_run(store_sql(db, "RELEASE step"));
	db->refusal = kept;
	return -1;
}

bool
store_changed(struct store *db)
{
	int64_t version = stmt_value(store_sql(db, "PRAGMA data_version"), -1);

	if (version == db->version)
		return false;
	db->version = version;
	return true;
}

/*
 * The bell is a file that each commit of ours writes to.  The log itself would not do: with
 * synchronous=FULL it is written, and inotify fires, before the commit can be seen.
 */
int
store_bell(struct store *db)
{
	char path[PATH_MAX + 16];

	if (db->watch != -1 || db->bell == -1)
		return db->watch;
	if ((db->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) == -1)
		return -1;
	snprintf(path, sizeof(path), "%s/bastion.bell", db->state);
	if (inotify_add_watch(db->watch, path, IN_MODIFY) == -1) {
		close(db->watch);
		db->watch = -1;
		return -1;
	}
	return db->watch;
}

void
store_bell_quiet(struct store *db)
{
	char events[4096];

	while (read(db->watch, events, sizeof(events)) > 0)
		;
}

int64_t
store_setting(struct store *db, const char *name)
{
	struct stmt *q;
	int64_t value = INT64_MIN;

	if ((q = store_sql(db, "SELECT value FROM setting WHERE name = :name")) != NULL) {
		stmt_text(q, ":name", name);
		value = stmt_value(q, INT64_MIN);
	}
	if (value == INT64_MIN) {
		fprintf(
		    stderr, "bastion: the setting %s cannot be read: %s\n", name, db->refusal.why);
		abort();
	}
	return value;
}

int64_t
store_now(struct store *db)
{
	return function_now(&db->ctx);
}

int64_t
store_last_id(struct store *db)
{
	return sqlite3_last_insert_rowid(db->handle);
}

struct sqlite3 *
store_handle(struct store *db)
{
	return db->handle;
}

int
store_shows(struct store *db, const char *sql)
{
	if (role_shows(db->role, sql))
		return 0;
	return refusal_set(&db->refusal, "store.role",
	    "NATURAL and USING cannot join tables with a secret column: use ON");
}

static struct stmt *
stmt_prepare(struct store *db, const char *sql)
{
	struct stmt *q;
	sqlite3_stmt *handle;
	bool room = db->cached < STATEMENTS;
	int rc;

	if (store_shows(db, sql) != 0)
		return NULL;
	rc = sqlite3_prepare_v3(
	    db->handle, sql, -1, room ? SQLITE_PREPARE_PERSISTENT : 0, &handle, NULL);
	if (rc != SQLITE_OK) {
		store_failed(db, rc);
		return NULL;
	}
	if (room) {
		q = &db->cache[db->cached++];
	} else if ((q = calloc(1, sizeof(*q))) == NULL) {
		sqlite3_finalize(handle);
		refusal_set(&db->refusal, "store.failed", "out of memory");
		return NULL;
	}
	*q = (struct stmt){.db = db, .handle = handle, .sql = sql, .cached = room};
	return q;
}

struct stmt *
store_sql(struct store *db, const char *sql)
{
	struct stmt *q = NULL;
	size_t i;

	for (i = 0; i < db->cached && q == NULL; i++)
		if (!db->cache[i].busy &&
		    (db->cache[i].sql == sql || strcmp(db->cache[i].sql, sql) == 0))
			q = &db->cache[i];
	if (q == NULL && (q = stmt_prepare(db, sql)) == NULL)
		return NULL;
	q->busy = true;
	q->rc = SQLITE_OK;
	return q;
}

void
stmt_done(struct stmt *q)
{
	if (q == NULL)
		return;
	sqlite3_reset(q->handle);
	sqlite3_clear_bindings(q->handle);
	q->busy = false;
	if (q->cached)
		return;
	sqlite3_finalize(q->handle);
	free(q);
}

/* A parameter that the statement does not have is a fault of the caller: it fails the step. */
static int
slot(struct stmt *q, const char *name)
{
	return sqlite3_bind_parameter_index(q->handle, name);
}

static void
bound(struct stmt *q, int rc)
{
	if (rc != SQLITE_OK)
		q->rc = rc;
}

void
stmt_text(struct stmt *q, const char *name, const char *text)
{
	bound(q, sqlite3_bind_text(q->handle, slot(q, name), text, -1, SQLITE_STATIC));
}

void
stmt_text_n(struct stmt *q, const char *name, const char *text, size_t len)
{
	bound(q, sqlite3_bind_text64(q->handle, slot(q, name), text, (sqlite3_uint64)len,
		     SQLITE_STATIC, SQLITE_UTF8));
}

void
stmt_int(struct stmt *q, const char *name, int64_t value)
{
	bound(q, sqlite3_bind_int64(q->handle, slot(q, name), value));
}

void
stmt_blob(struct stmt *q, const char *name, const void *blob, size_t len)
{
	bound(q, sqlite3_bind_blob64(
		     q->handle, slot(q, name), blob, (sqlite3_uint64)len, SQLITE_STATIC));
}

int
stmt_step(struct stmt *q)
{
	int rc = q->rc;

	/* What would be written now would be committed at once, alone: hold it. */
	if (store_undone(q->db) && !sqlite3_stmt_readonly(q->handle)) {
		stmt_done(q);
		return -1;
	}
	if (rc == SQLITE_OK && (rc = sqlite3_step(q->handle)) == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		store_failed(q->db, rc);
	stmt_done(q);
	return rc == SQLITE_DONE ? 0 : -1;
}

int
stmt_run(struct stmt *q)
{
	int n;

	if (q == NULL)
		return -1;
	while ((n = stmt_step(q)) == 1)
		;
	return n;
}

int
stmt_run_one(struct stmt *q)
{
	struct store *db;

	if (q == NULL)
		return -1;
	db = q->db;
	if (stmt_run(q) != 0)
		return -1;
	if (sqlite3_changes64(db->handle) != 1)
		return refusal_set(&db->refusal, "store.failed", "the row to change is not there");
	return 0;
}

int
stmt_run_alone(struct stmt *q)
{
	struct store *db;

	if (q == NULL)
		return -1;
	db = q->db;
	if (store_begin(db) != 0) {
		stmt_done(q);
		return -1;
	}
	return stmt_run_one(q) == 0 ? store_commit(db) : store_rollback(db);
}

int64_t
stmt_value(struct stmt *q, int64_t otherwise)
{
	int64_t value;

	if (q == NULL || stmt_step(q) != 1)
		return otherwise;
	value = sqlite3_column_int64(q->handle, 0);
	stmt_done(q);
	return value;
}

const char *
stmt_get_text(struct stmt *q, int i)
{
	const unsigned char *text = sqlite3_column_text(q->handle, i);

	return text == NULL ? "" : (const char *)text;
}

int64_t
stmt_get_int(struct stmt *q, int i)
{
	return sqlite3_column_int64(q->handle, i);
}

const void *
stmt_get_blob(struct stmt *q, int i, size_t len)
{
	const void *blob = sqlite3_column_blob(q->handle, i);

	return (size_t)sqlite3_column_bytes(q->handle, i) == len ? blob : NULL;
}

bool
stmt_is_null(struct stmt *q, int i)
{
	return sqlite3_column_type(q->handle, i) == SQLITE_NULL;
}

struct sqlite3_stmt *
stmt_handle(struct stmt *q)
{
	return q->handle;
}
