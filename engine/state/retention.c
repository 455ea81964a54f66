/* retention.c: one step of what retention has to do; what may go is decided in SQL. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/state/retention.h"

/* Frames behind the mark, oldest first: so many, and no more than are so long, but one. */
#define BEHIND(table, run) run " <= (SELECT gone_to FROM retention WHERE entity = '" table "')"
#define FRAMES_DUE(table, run) \
	"SELECT count(*) FROM (SELECT 1 FROM " table " WHERE " BEHIND(table, run) " LIMIT 1)"
#define FRAMES_GO(table, run)                                                                   \
	"DELETE FROM " table " WHERE (" run ", seq) IN ("                                       \
	"SELECT run, seq FROM (SELECT run, seq, sum(bytes) OVER (ORDER BY run, seq) - bytes AS" \
	"  before FROM (SELECT " run " AS run, seq, length(frame) AS bytes FROM " table         \
	"    WHERE " BEHIND(table,                                                              \
	    run) " ORDER BY " run ", seq"                                                       \
		 "    LIMIT (SELECT value FROM setting WHERE name = 'retention.frames')))"      \
		 " WHERE before < (SELECT value FROM setting WHERE name = 'retention.bytes'))"

static const char *const answers[][2] = {
    {FRAMES_DUE("op_output", "op_run_id"), FRAMES_GO("op_output", "op_run_id")},
    {FRAMES_DUE("call_output", "call_id"), FRAMES_GO("call_output", "call_id")},
};

static const char MARK_DUE[] =
    "SELECT entity, gone_to FROM retention_due WHERE gone_to IS NOT NULL LIMIT 1";

static const char MARK_MOVE[] =
    "UPDATE retention SET gone_to = d.gone_to"
    "  FROM (SELECT entity, gone_to FROM retention_due WHERE gone_to IS NOT NULL LIMIT 1) AS d"
    " WHERE retention.entity = d.entity";

/* Decisions about tools: what is due is a view, and goes by it. */
static const char DECISIONS_DUE[] = "SELECT count(*) FROM decision_due";
static const char DECISIONS_GO[] = "DELETE FROM decision_due";

/* What is over: orders, terms, holds. */
static const char OVER_DUE[] = "SELECT count(*) FROM over_due";
static const char OVER_GOES[] = "DELETE FROM over_due";

static const char BASE_DUE[] = "SELECT count(*) FROM audit_base_due";

static const char BASE_MOVE[] =
    "INSERT INTO audit_base (seq, head, at, signature)"
    " SELECT seq, head, now_ms(),"
    "        seal_sign('audit', json_array('audit_base', seq, lower(hex(head)), now_ms()))"
    "   FROM audit_base_due";

/* Only a database that was born with incremental vacuum can give pages back bit by bit. */
static const char PAGES_DUE[] =
    "SELECT min(f.freelist_count - (SELECT value FROM setting WHERE name = 'store.free_pages'),"
    "           (SELECT value FROM setting WHERE name = 'store.vacuum_pages'))"
    "  FROM pragma_freelist_count AS f, pragma_auto_vacuum AS v WHERE v.auto_vacuum = 2";

/* What is due is looked for without the gate, and again behind it. */
static int
take(struct store *db, const char *sql)
{
	if (store_begin(db) == -1)
		return -1;
	if (stmt_run(store_sql(db, sql)) == -1)
		return store_rollback(db);
	return store_commit(db) == -1 ? -1 : 1;
}

static int
give_pages_back(struct store *db, int64_t pages)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "PRAGMA incremental_vacuum(%" PRId64 ")", pages);
	/* Nothing is lost where the power goes before this is on the disk. */
	if (store_begin_soft(db) == -1)
		return -1;
	if (store_exec(db, sql) == -1)
		return store_rollback(db);
	return store_commit(db) == -1 ? -1 : 1;
}

int
retention_step(struct store *db)
{
	struct stmt *q;
	int64_t n;
	size_t i;
	int due;

	for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		if ((n = stmt_value(store_sql(db, answers[i][0]), -1)) == -1)
			return -1;
		if (n > 0)
			return take(db, answers[i][1]);
	}
	if ((q = store_sql(db, MARK_DUE)) == NULL || (due = stmt_step(q)) == -1)
		return -1;
	if (due == 1) {
		stmt_done(q);
		return take(db, MARK_MOVE);
	}
	if ((n = stmt_value(store_sql(db, DECISIONS_DUE), -1)) == -1)
		return -1;
	if (n > 0)
		return take(db, DECISIONS_GO);
	if ((n = stmt_value(store_sql(db, OVER_DUE), -1)) == -1)
		return -1;
	if (n > 0)
		return take(db, OVER_GOES);
	if ((n = stmt_value(store_sql(db, BASE_DUE), -1)) == -1)
		return -1;
	if (n > 0)
		return take(db, BASE_MOVE);
	if ((n = stmt_value(store_sql(db, PAGES_DUE), 0)) > 0)
		return give_pages_back(db, n);
	return 0;
}
