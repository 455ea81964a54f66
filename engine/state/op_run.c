/* op_run.c: frames of runs, their ends, and that they were taken back. */
#include "engine/state/op_run.h"

static const char FRAME[] = "INSERT INTO op_output (op_run_id, seq, frame)"
			    " SELECT id, last_seq + 1, :frame FROM op_run WHERE id = :id";

static const char SAYS[] =
    "INSERT INTO op_output (op_run_id, seq, frame)"
    " SELECT id, last_seq + 1, json_object('e', json_object('code', :code, 'why', :why))"
    "   FROM op_run WHERE id = :id";

static const char FINISHED[] =
    "UPDATE op_run SET finished_at = now_ms(), state = e.state,"
    "  exit_code = iif(e.state = 'cancelled', NULL, :exit)"
    "  FROM (SELECT CASE WHEN :exit = 0 THEN 'done'"
    "               WHEN EXISTS (SELECT 1 FROM op_cancel WHERE op_run_id = :id) THEN 'cancelled'"
    "               ELSE 'failed' END AS state) AS e WHERE id = :id";

static const char FIND[] = "SELECT id FROM op_run WHERE nonce = :nonce AND finished_at IS NULL"
			   "   AND NOT EXISTS (SELECT 1 FROM op_cancel WHERE op_run_id = op_run.id)"
			   " ORDER BY pairing_id = :pairing DESC LIMIT 1";

static const char CANCEL[] = "INSERT INTO op_cancel (op_run_id, asked_at, pairing_id)"
			     " VALUES (:id, now_ms(), :pairing)";

static const char NEXT[] =
    "SELECT c.op_run_id FROM op_run AS r JOIN op_cancel AS c ON c.op_run_id = r.id"
    " WHERE r.finished_at IS NULL AND r.id > :after ORDER BY r.id LIMIT 1";

int
op_run_frame(struct store *db, int64_t id, const char *frame, size_t len)
{
	struct stmt *q;

	if ((q = store_sql(db, FRAME)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text_n(q, ":frame", frame, len);
	return stmt_run_one(q);
}

int
op_run_says(struct store *db, int64_t id, const struct refusal *refusal)
{
	struct stmt *q;

	if ((q = store_sql(db, SAYS)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text(q, ":code", refusal->code);
	stmt_text(q, ":why", refusal->why);
	return stmt_run_one(q);
}

int
op_run_finish(struct store *db, int64_t id, int exit_code)
{
	struct stmt *q;

	if ((q = store_sql(db, FINISHED)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_int(q, ":exit", exit_code);
	return stmt_run_one(q);
}

int
op_run_cancel(struct store *db, int64_t pairing_id, const char *nonce, int64_t *id)
{
	struct stmt *q;

	if ((q = store_sql(db, FIND)) == NULL)
		return -1;
	stmt_int(q, ":pairing", pairing_id);
	stmt_text(q, ":nonce", nonce);
	if ((*id = stmt_value(q, 0)) == 0)
		return 0;
	if ((q = store_sql(db, CANCEL)) == NULL)
		return -1;
	stmt_int(q, ":id", *id);
	stmt_int(q, ":pairing", pairing_id);
	return stmt_run_one(q);
}

int64_t
op_run_next_cancelled(struct store *db, int64_t after)
{
	struct stmt *q;

	if ((q = store_sql(db, NEXT)) == NULL)
		return 0;
	stmt_int(q, ":after", after);
	return stmt_value(q, 0);
}
