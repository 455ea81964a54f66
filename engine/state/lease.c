/* lease.c: taking, keeping and losing named locks. */
#include <sys/pidfd.h>

#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "engine/state/lease.h"
#include "engine/state/process.h"

/* The first sleep where neither bell nor death of the holder wakes us; doubles up to store.tick_ms.
 */
#define FIRST_NAP_MS 10

/* Free, run out, or left by the dead: then it is ours with the next fence, else there is no row. */
static const char LEASE_TAKE[] =
    "INSERT INTO lease (name, process_id, fence, expires_at)"
    " VALUES (:name, :process, 1, now_ms() + :ttl)"
    " ON CONFLICT (name) DO UPDATE"
    " SET process_id = excluded.process_id, fence = fence + 1, expires_at = excluded.expires_at"
    " WHERE process_id IS NULL OR lease.expires_at <= now_ms()"
    "    OR NOT (SELECT process_alive(boot_id, pid, start_ticks) FROM process"
    "             WHERE id = lease.process_id)"
    " RETURNING fence";
static const char LEASE_HOLDER[] =
    "SELECT pid, program, expires_at FROM lease JOIN process ON process.id = process_id"
    " WHERE name = :name";
static const char LEASE_RENEW[] =
    "UPDATE lease SET expires_at = now_ms() + :ttl"
    " WHERE name = :name AND process_id = :process AND fence = :fence RETURNING 1";
static const char LEASE_RELEASE[] =
    "UPDATE lease SET process_id = NULL, expires_at = NULL"
    " WHERE name = :name AND process_id = :process AND fence = :fence RETURNING 1";
static const char LEASE_BREAK[] =
    "UPDATE lease SET process_id = NULL, expires_at = NULL"
    " WHERE name = :name AND process_id IS NOT NULL"
    "   AND (expires_at <= now_ms()"
    "        OR NOT (SELECT process_alive(boot_id, pid, start_ticks) FROM process"
    "                 WHERE id = process_id))";
static const char LEASE_HELD[] =
    "SELECT count(*) FROM lease WHERE name = :name AND process_id IS NOT NULL";
static const char LEASE_CHECK[] =
    "SELECT 1 FROM lease WHERE name = :name AND process_id = :process AND fence = :fence";

struct holder {
	int64_t pid, expires_at;
};

static struct stmt *
lease_sql(struct store *db, const char *sql, const char *name)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) != NULL)
		stmt_text(q, ":name", name);
	return q;
}

/* Set the refusal to who holds ${name}. */
static int
lease_busy(struct store *db, const char *name, struct holder *holder)
{
	struct stmt *q;

	if ((q = lease_sql(db, LEASE_HOLDER, name)) == NULL || stmt_step(q) != 1)
		return -1;
	holder->pid = stmt_get_int(q, 0);
	holder->expires_at = stmt_get_int(q, 2);
	refusal_set(store_refusal(db), "lease.held", "%s is held by the process %" PRId64 " (%s)",
	    name, holder->pid, stmt_get_text(q, 1));
	store_refusal(db)->retry_at = holder->expires_at;
	stmt_done(q);
	return LEASE_BUSY;
}

static int
take_in(struct store *db, const char *name, int64_t ttl_ms, int64_t *fence, struct holder *holder)
{
	struct stmt *q;
	int64_t process;
	int got;

	if ((process = process_self(db)) == -1 || (q = lease_sql(db, LEASE_TAKE, name)) == NULL)
		return -1;
	stmt_int(q, ":process", process);
	stmt_int(q, ":ttl", ttl_ms);
	if ((got = stmt_step(q)) == -1)
		return -1;
	if (got == 0)
		return lease_busy(db, name, holder);
	*fence = stmt_get_int(q, 0);
	stmt_done(q);
	return 0;
}

static int
lease_try(struct store *db, const char *name, int64_t ttl_ms, int64_t *fence, struct holder *holder)
{
	int rc;

	if (store_begin(db) == -1)
		return -1;
	if ((rc = take_in(db, name, ttl_ms, fence, holder)) == 0)
		return store_commit(db);
	store_rollback(db);
	return rc;
}

static int64_t
lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Sleep until the lease may be free: a commit, the death of its holder, its end; at most ${ms}. */
static void
lease_wait(struct store *db, const struct holder *holder, int64_t ms)
{
	struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};
	int64_t left = holder->expires_at - store_now(db);

	/* Where one of the two cannot be had it is -1, which poll(2) passes over. */
	fds[0].fd = store_bell(db);
	fds[1].fd = pidfd_open((pid_t)holder->pid, 0);
	if (left > 0)
		ms = lesser(ms, left);
	poll(fds, 2, (int)ms);
	if (fds[1].fd != -1)
		close(fds[1].fd);
}

int
lease_take(struct store *db, const char *name, int64_t ttl_ms, int64_t wait_ms, int64_t *fence)
{
	struct holder holder = {0};
	int64_t end = loop_now() + wait_ms, nap = FIRST_NAP_MS, left;
	int rc;

	for (;;) {
		/* Empty the bell before we look, so that no later ring is missed. */
		if (wait_ms > 0 && store_bell(db) != -1)
			store_bell_quiet(db);
		if ((rc = lease_try(db, name, ttl_ms, fence, &holder)) != LEASE_BUSY)
			return rc;
		if ((left = end - loop_now()) <= 0)
			return LEASE_BUSY;
		lease_wait(db, &holder, lesser(left, nap));
		nap = lesser(nap * 2, store_setting(db, "store.tick_ms"));
	}
}

/* Step ${sql} about the lease ${name} where it is ours with ${fence}.  Return 0 or -1. */
static int
lease_own(struct store *db, const char *sql, const char *name, int64_t ttl_ms, int64_t fence)
{
	struct stmt *q;
	int64_t process;
	int got;

	if ((process = process_self(db)) == -1 || (q = lease_sql(db, sql, name)) == NULL)
		return -1;
	stmt_int(q, ":process", process);
	stmt_int(q, ":fence", fence);
	if (ttl_ms > 0)
		stmt_int(q, ":ttl", ttl_ms);
	if ((got = stmt_step(q)) == -1)
		return -1;
	if (got == 0)
		return refusal_set(
		    store_refusal(db), "lease.fence", "%s is not ours any more", name);
	stmt_done(q);
	return 0;
}

static int
lease_change(struct store *db, const char *sql, const char *name, int64_t ttl_ms, int64_t fence)
{
	if (store_begin(db) == -1)
		return -1;
	if (lease_own(db, sql, name, ttl_ms, fence) == -1)
		return store_rollback(db);
	return store_commit(db);
}

int
lease_renew(struct store *db, const char *name, int64_t ttl_ms, int64_t fence)
{
	return lease_change(db, LEASE_RENEW, name, ttl_ms, fence);
}

int
lease_release(struct store *db, const char *name, int64_t fence)
{
	return lease_change(db, LEASE_RELEASE, name, 0, fence);
}

int
lease_check(struct store *db, const char *name, int64_t fence)
{
	return lease_own(db, LEASE_CHECK, name, 0, fence);
}

int
lease_break(struct store *db, const char *name)
{
	struct holder holder;
	struct stmt *q;
	int rc = 0;

	if (store_begin(db) == -1)
		return -1;
	if ((q = lease_sql(db, LEASE_BREAK, name)) == NULL || stmt_run(q) == -1)
		return store_rollback(db);
	if ((q = lease_sql(db, LEASE_HELD, name)) == NULL)
		return store_rollback(db);
	if (stmt_value(q, -1) == 1 && (rc = lease_busy(db, name, &holder)) == -1)
		return store_rollback(db);
	return store_commit(db) == 0 ? rc : -1;
}
