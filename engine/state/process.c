/* process.c: who runs. */
#include <unistd.h>

#include "engine/state/process.h"

static const char PROCESS_ADD[] =
    "INSERT INTO process (boot_id, pid, start_ticks, uid, program, seen_at)"
    " VALUES (:boot, :pid, :start, :uid, :program, now_ms())"
    " ON CONFLICT (boot_id, pid, start_ticks) DO NOTHING";
static const char PROCESS_FIND[] =
    "SELECT id FROM process WHERE boot_id = :boot AND pid = :pid AND start_ticks = :start";

static struct stmt *
process_sql(struct store *db, const char *sql, const struct identity *who)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return NULL;
	stmt_text(q, ":boot", who->boot_id);
	stmt_int(q, ":pid", who->pid);
	stmt_int(q, ":start", who->start_ticks);
	return q;
}

int64_t
process_id(struct store *db, const struct identity *who, int64_t uid)
{
	struct stmt *q;

	if ((q = process_sql(db, PROCESS_ADD, who)) == NULL)
		return -1;
	stmt_int(q, ":uid", uid);
	stmt_text(q, ":program", who->program);
	if (stmt_run(q) == -1)
		return -1;
	return stmt_value(process_sql(db, PROCESS_FIND, who), -1);
}

int64_t
process_self(struct store *db)
{
	struct identity me;

	if (identity_of(getpid(), &me) == -1)
		return refusal_set(store_refusal(db), "store.failed", "cannot read our own /proc");
	return process_id(db, &me, geteuid());
}
