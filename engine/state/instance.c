/* instance.c: rows of the daemon's life. */
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "engine/actor/lock.h"
#include "engine/state/instance.h"
#include "engine/state/process.h"

static const char INSTANCE_DEAD[] =
    "SELECT i.id FROM instance AS i JOIN process AS p ON p.id = i.process_id"
    " WHERE i.state IN ('starting', 'ready', 'draining')"
    "   AND NOT process_alive(p.boot_id, p.pid, p.start_ticks)";
static const char INSTANCE_LOST[] =
    "UPDATE instance SET state = 'lost', ended_at = now_ms(),"
    " end_reason = 'the daemon ended without saying so' WHERE id = :id";
static const char INSTANCE_HOLDER[] = "SELECT pid FROM live_instance";
static const char INSTANCE_BEGIN[] =
    "INSERT INTO instance (epoch, role, process_id, version, run_dir, started_at)"
    " VALUES ((SELECT coalesce(max(epoch), 0) + 1 FROM instance), :role, :process, :version, :run,"
    "         now_ms())";
static const char INSTANCE_READY[] =
    "UPDATE instance SET state = 'ready', ready_at = now_ms() WHERE id = :id";
static const char INSTANCE_DRAINING[] =
    "UPDATE instance SET state = 'draining', draining_at = now_ms() WHERE id = :id";
static const char INSTANCE_END[] =
    "UPDATE instance SET state = 'ended', ended_at = now_ms(), end_reason = substr(:reason, 1, 128)"
    " WHERE id = :id";
static const char RUN_ATTEMPT[] = "SELECT coalesce(max(attempt), 0) + 1 FROM actor_run"
				  " WHERE instance_id = :instance AND actor = :actor";
static const char RUN_BEGIN[] = "INSERT INTO actor_run (instance_id, actor, attempt, started_at)"
				" VALUES (:instance, :actor, :attempt, now_ms())";
static const char RUN_PROCESS[] = "UPDATE actor_run SET process_id = :process WHERE id = :id";
static const char RUN_READY[] = "UPDATE actor_run SET state = 'running' WHERE id = :id";
static const char RUN_END[] =
    "UPDATE actor_run SET state = iif(:code IS 0, 'ended', 'failed'), ended_at = now_ms(),"
    " exit_code = :code, term_signal = :signal, not_before = :not_before WHERE id = :id";
static const char RUN_LEASES[] =
    "UPDATE lease SET process_id = NULL, expires_at = NULL"
    " WHERE process_id = (SELECT process_id FROM actor_run WHERE id = :id)";

int
instance_lock(const struct home *home, struct refusal *r)
{
	int64_t holder;
	int fd;

	/* Where root looks first, the file is made for the daemon's user all the same. */
	if (faccessat(home->fd, "bastion.lock", F_OK, AT_SYMLINK_NOFOLLOW) == -1) {
		if ((fd = home_file(home, "bastion.lock", r)) == -1)
			return -1;
		close(fd);
	}
	if ((fd = lock_take(home->fd, "bastion.lock", &holder, r)) >= 0)
		return fd;
	if (fd != LOCK_BUSY)
		return -1;
	if (holder == 0)
		return refusal_set(r, "instance.running", "another process serves %s", home->state);
	return refusal_set(r, "instance.running", "the process %" PRId64 " already serves %s",
	    holder, home->state);
}

/* Run the one statement ${sql} about the row ${id} as a transaction. */
/* What the next start would close anyway need not outlive a power loss. */
static int
change_one(struct store *db, const char *sql, int64_t id)
{
	struct stmt *q;

	if (store_begin_soft(db) == -1)
		return -1;
	if ((q = store_sql(db, sql)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	return stmt_run_one(q) == -1 ? store_rollback(db) : store_commit(db);
}

/* Its rules reach far, so the statement is only made where there is something to close. */
static int
close_dead(struct store *db)
{
	struct stmt *q;
	int64_t id;

	if ((id = stmt_value(store_sql(db, INSTANCE_DEAD), -1)) == -1)
		return 0;
	if ((q = store_sql(db, INSTANCE_LOST)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	return stmt_run_one(q);
}

static int
insert_instance(struct store *db, enum home_role role, const char *run_dir)
{
	struct stmt *q;
	int64_t process;

	if ((process = process_self(db)) == -1 || (q = store_sql(db, INSTANCE_BEGIN)) == NULL)
		return -1;
	stmt_text(q, ":role", role == HOME_HOST ? "host" : "box");
	stmt_int(q, ":process", process);
	stmt_text(q, ":version", BASTION_VERSION);
	stmt_text(q, ":run", run_dir);
	return stmt_run_one(q);
}

int
instance_begin(struct store *db, enum home_role role, const char *run_dir, int64_t *id)
{
	int64_t holder;

	if (store_begin(db) == -1)
		return -1;
	if (close_dead(db) == -1)
		return store_rollback(db);
	if ((holder = stmt_value(store_sql(db, INSTANCE_HOLDER), -1)) != -1) {
		refusal_set(store_refusal(db), "instance.running",
		    "the process %" PRId64 " already serves this state", holder);
		return store_rollback(db);
	}
	if (insert_instance(db, role, run_dir) == -1)
		return store_rollback(db);
	*id = store_last_id(db);
	return store_commit(db);
}

int
instance_ready(struct store *db, int64_t id)
{
	return change_one(db, INSTANCE_READY, id);
}

int
instance_draining(struct store *db, int64_t id)
{
	return change_one(db, INSTANCE_DRAINING, id);
}

int
instance_end(struct store *db, int64_t id, const char *reason)
{
	struct stmt *q;

	if (store_begin(db) == -1)
		return -1;
	if ((q = store_sql(db, INSTANCE_END)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	stmt_text(q, ":reason", reason);
	return stmt_run_one(q) == -1 ? store_rollback(db) : store_commit(db);
}

static struct stmt *
run_sql(struct store *db, const char *sql, int64_t instance, const char *actor)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return NULL;
	stmt_int(q, ":instance", instance);
	stmt_text(q, ":actor", actor);
	return q;
}

int
instance_run_begin(struct store *db, int64_t id, const char *actor, int64_t *run, int *attempt)
{
	struct stmt *q;

	if (store_begin(db) == -1)
		return -1;
	if ((*attempt = (int)stmt_value(run_sql(db, RUN_ATTEMPT, id, actor), -1)) == -1 ||
	    (q = run_sql(db, RUN_BEGIN, id, actor)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":attempt", *attempt);
	if (stmt_run_one(q) == -1)
		return store_rollback(db);
	*run = store_last_id(db);
	return store_commit(db);
}

int
instance_run_process(struct store *db, int64_t run, const struct identity *who, int64_t uid)
{
	struct stmt *q;
	int64_t process;

	if (store_begin_soft(db) == -1)
		return -1;
	if ((process = process_id(db, who, uid)) == -1 || (q = store_sql(db, RUN_PROCESS)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", run);
	stmt_int(q, ":process", process);
	return stmt_run_one(q) == -1 ? store_rollback(db) : store_commit(db);
}

int
instance_run_ready(struct store *db, int64_t run)
{
	return change_one(db, RUN_READY, run);
}

static int
end_run(struct store *db, int64_t run, const struct instance_exit *how)
{
	struct stmt *q;

	if ((q = store_sql(db, RUN_LEASES)) == NULL)
		return -1;
	stmt_int(q, ":id", run);
	if (stmt_run(q) == -1 || (q = store_sql(db, RUN_END)) == NULL)
		return -1;
	stmt_int(q, ":id", run);
	if (how->code != -1)
		stmt_int(q, ":code", how->code);
	if (how->signal != 0)
		stmt_int(q, ":signal", how->signal);
	if (how->not_before != 0)
		stmt_int(q, ":not_before", how->not_before);
	return stmt_run_one(q);
}

int
instance_run_end(struct store *db, int64_t run, const struct instance_exit *how)
{
	if (store_begin(db) == -1)
		return -1;
	return end_run(db, run, how) == -1 ? store_rollback(db) : store_commit(db);
}
