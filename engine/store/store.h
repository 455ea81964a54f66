/* store.h: one connection to bastion.db, in one role. */
#ifndef ENGINE_STORE_STORE_H
#define ENGINE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"
#include "engine/store/home.h"

/* The keeper folds the log into the database; a writer whose commit finds so many pages in it does,
 * too. */
#define STORE_LOG_PAGES 8000

struct key;
struct sqlite3;
struct sqlite3_stmt;
struct store;
struct stmt;

/* Who holds the connection: what it may write and which secret columns it may read (role.c). */
enum store_role {
	ROLE_READER,     /* a person who looks: bastion sql, status, audit */
	ROLE_PERSON,     /* a person who decides: approve, pair, factor, grants */
	ROLE_AMEND,      /* the statement of a person who amends: bastion sql -w */
	ROLE_NET,        /* the actor that serves sockets */
	ROLE_LINK,       /* the actor that calls out */
	ROLE_WORKER,     /* the actor that runs things */
	ROLE_EGRESS,     /* the actor that serves the internet lane */
	ROLE_KEEPER,     /* the actor that expires, seals and ships */
	ROLE_SUPERVISOR, /* the parent of the actors */
	ROLE_MIGRATE     /* changes of the schema, and the birth of a database */
};

/* What seals are checked and made with.  ${secret} is NULL where a process has no business signing.
 */
struct store_keys {
	unsigned char identity[32]; /* Ed25519, public: audit seals */
	unsigned char grant[32];    /* Ed25519, public: grant seals */
	const struct key *secret;   /* borrowed, must outlive the store */
	bool present;
};

/**
 * store_open(home, role, keys, r):
 * Open the database of ${home} in ${role}.  ${keys} may be NULL: then no seal is good here.  The
 * schema must be exactly the one that this build knows.  Return the store, or NULL with ${r}:
 * store.missing, store.older, store.newer, store.foreign, store.corrupt, store.readonly,
 * store.failed.
 */
struct store *store_open(const struct home *home, enum store_role role,
    const struct store_keys *keys, struct refusal *r);

/**
 * store_open_early(home, role, keys, r), store_schema(db):
 * As store_open, but only the version of the schema is looked at: for a process whose parent
 * compares the schema at the same time.  Nothing may be done with it before the parent has said
 * which schema it found to be right, and that is store_schema of this one: SQLite's count of the
 * changes of the schema when it was opened.
 */
struct store *store_open_early(const struct home *home, enum store_role role,
    const struct store_keys *keys, struct refusal *r);
int64_t store_schema(const struct store *db);

/**
 * store_open_file(path, role, keys, r):
 * As store_open, for a copy of a database at ${path}: no gate, no bell.  For ROLE_READER.
 */
struct store *store_open_file(
    const char *path, enum store_role role, const struct store_keys *keys, struct refusal *r);

/**
 * store_close(db):
 * Close ${db}, which may be NULL; an open transaction is rolled back.
 */
void store_close(struct store *db);

/**
 * store_leave(db):
 * As store_close, for a process that exits at once: what it would free the kernel frees, and a log
 * that is short is left to whoever comes next, as after a crash, without waiting for the disk.
 */
void store_leave(struct store *db);

/**
 * store_reads(db):
 * Return whether ${db} is open in a role that writes nothing.
 */
bool store_reads(const struct store *db);

/**
 * store_refusal(db):
 * Return why the last call on ${db} that failed did so.
 */
struct refusal *store_refusal(struct store *db);

/**
 * store_acting(db, fmt, ...):
 * Say who acts from now on, for the audit: "person:alice(1000)", "host:laptop", "actor:worker".
 */
void store_acting(struct store *db, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/**
 * store_become(db, role):
 * From now on let ${db}, opened as ROLE_PERSON, do what ${role} may: ROLE_AMEND, while a statement
 * runs that the person wrote, and ROLE_PERSON again.  What was prepared before is judged anew.
 */
void store_become(struct store *db, enum store_role role);

/**
 * store_begin(db):
 * Begin a write transaction, behind the gate, with the clock of now_ms() standing still.  It will
 * be durable when store_commit returns.  Return 0 or -1.
 */
int store_begin(struct store *db);

/**
 * store_begin_soft(db):
 * As store_begin, for output: after a power loss the newest such transactions may be missing, in
 * order, unless a durable one followed.
 */
int store_begin_soft(struct store *db);

/**
 * store_commit(db):
 * Make the transaction durable, ring the bell, open the gate.  Return 0, or -1 with everything
 * rolled back.
 */
int store_commit(struct store *db);

/**
 * store_rollback(db):
 * Undo the transaction, keeping the refusal; nothing happens where none is open.  Return -1, so
 * that a failing function can end with it.
 */
int store_rollback(struct store *db);

/**
 * store_run_soft(db, sql, r):
 * Run the statement ${sql}, which has no parameters, in a transaction of its own as
 * store_begin_soft begins one.  Return 0, or -1 with ${r}.
 */
int store_run_soft(struct store *db, const char *sql, struct refusal *r);

/**
 * store_savepoint(db), store_release(db), store_undo(db):
 * A step inside a transaction: begin it, keep it, or undo it while the transaction goes on.  Return
 * 0 or -1; store_undo keeps the refusal and returns -1.
 */
int store_savepoint(struct store *db);
int store_release(struct store *db);
int store_undo(struct store *db);

/**
 * store_changed(db):
 * Return whether another connection committed since the last call (PRAGMA data_version).
 */
bool store_changed(struct store *db);

/**
 * store_bell(db):
 * Return a descriptor, owned by ${db} and made at the first call, that becomes readable when any
 * connection may have committed; -1 on failure.  Read it empty with store_bell_quiet.
 */
int store_bell(struct store *db);
void store_bell_quiet(struct store *db);

/**
 * store_quiet(db):
 * From now on commits of ${db} ring no bell: whoever has many that nobody waits for rings once for
 * some of them, with store_ring.
 */
void store_quiet(struct store *db);

/**
 * store_ring(db):
 * Ring the bell, as a commit does.
 */
void store_ring(struct store *db);

/**
 * store_setting(db, name):
 * Return the value of the setting ${name}; a name that does not exist ends the program, since no
 * number in C may stand in for it.
 */
int64_t store_setting(struct store *db, const char *name);

/**
 * store_now(db):
 * Return now_ms(): the transaction's time inside one, else the clock.
 */
int64_t store_now(struct store *db);

/**
 * store_last_id(db):
 * Return the id of the row inserted last.
 */
int64_t store_last_id(struct store *db);

/**
 * store_handle(db):
 * Return the SQLite connection, for the shell and for backup; borrowed.
 */
struct sqlite3 *store_handle(struct store *db);

/**
 * store_sql(db, sql):
 * Return the statement ${sql}, prepared or from the cache, with no parameters bound; NULL on
 * failure.
 * ${sql} must live as long as ${db}: statements stand as constants at the top of their file.  Give
 * it back with stmt_done, or by one of the stmt_run functions.
 */
struct stmt *store_sql(struct store *db, const char *sql);

/**
 * store_exec(db, sql):
 * Run the statements ${sql}, as many as they are, without keeping them.  For migrations.  Return 0
 * or -1.
 */
int store_exec(struct store *db, const char *sql);

/**
 * store_shows(db, sql):
 * Return 0 where the statements ${sql} show no secret column that ${db}'s role may not read, or -1
 * with store.role.  store_sql asks this itself; whoever prepares on store_handle asks it first.
 */
int store_shows(struct store *db, const char *sql);

/**
 * stmt_text(q, name, text), stmt_int(...), stmt_blob(...), stmt_null(...):
 * Bind a parameter by name (":name").  NULL text binds NULL.  The bytes must live until the
 * statement is done.  A failed bind fails the next step.
 */
void stmt_text(struct stmt *q, const char *name, const char *text);
void stmt_text_n(struct stmt *q, const char *name, const char *text, size_t len);
void stmt_int(struct stmt *q, const char *name, int64_t value);
void stmt_blob(struct stmt *q, const char *name, const void *blob, size_t len);

/**
 * stmt_step(q):
 * Return 1 with a row, 0 at the end, -1 on failure.  At the end and on failure the statement is
 * done.
 */
int stmt_step(struct stmt *q);

/**
 * stmt_run(q):
 * Step ${q} to its end.  Return 0 or -1.
 */
int stmt_run(struct stmt *q);

/**
 * stmt_run_one(q):
 * As stmt_run; -1 with store.failed as well unless exactly one row was changed.
 */
int stmt_run_one(struct stmt *q);

/**
 * stmt_run_alone(q):
 * As stmt_run_one, in a transaction of its own that is durable when this returns.  ${q} may be
 * NULL, where preparing it failed.  Return 0, or -1 with everything undone.
 */
int stmt_run_alone(struct stmt *q);

/**
 * stmt_value(q, otherwise):
 * Step ${q} once and return the integer of its first column, or ${otherwise} without a row or on
 * failure.
 */
int64_t stmt_value(struct stmt *q, int64_t otherwise);

/**
 * stmt_done(q):
 * Give ${q} back.  Pointers from stmt_get_text and stmt_get_blob die.
 */
void stmt_done(struct stmt *q);

/**
 * stmt_get_text(q, i), stmt_get_int, stmt_get_blob, stmt_is_null:
 * Column ${i} of the row, from 0.  Text of a NULL is ""; a blob of another length than ${len} is
 * NULL.
 */
const char *stmt_get_text(struct stmt *q, int i);
int64_t stmt_get_int(struct stmt *q, int i);
const void *stmt_get_blob(struct stmt *q, int i, size_t len);
bool stmt_is_null(struct stmt *q, int i);

/**
 * stmt_handle(q):
 * Return the SQLite statement of ${q}, borrowed, for whoever shows its columns by name and type.
 */
struct sqlite3_stmt *stmt_handle(struct stmt *q);

#endif
