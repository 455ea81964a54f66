/* session.c: the rows that begin, feed and end long work; schema/session.sql decides. */
#include "engine/state/session.h"

static const char NEW[] =
    "INSERT INTO session (id, name, worker, argv, cwd, by_uid, terminal, input, rows, cols, max_attempts,"
    "  queued_at, not_before, backend, net, paths, lane)"
    " SELECT n.id, coalesce(nullif(:name, ''), :base || '-' || n.id),"
    "  :worker, CASE WHEN :worker = '' THEN :argv ELSE coalesce((SELECT json_group_array(value) FROM ("
    "    SELECT t.value FROM worker AS w, json_each(w.argv) AS t WHERE w.name = :worker"
    "     UNION ALL SELECT value FROM json_each(:argv))), '[]') END,"
    "  :cwd, :uid, :terminal, :input, :rows, :cols,"
    "  coalesce(:attempts, (SELECT max_attempts FROM worker WHERE name = :worker),"
    "    iif(:worker = '', 1, (SELECT value FROM setting WHERE name = 'session.attempts'))),"
    "  now_ms(), now_ms(),"
    "  coalesce((SELECT backend FROM worker WHERE name = :worker), iif(:sandbox, 'native', 'none')),"
    "  coalesce((SELECT net FROM worker WHERE name = :worker), iif(:sandbox, 'none', 'host')),"
    "  coalesce((SELECT paths FROM worker WHERE name = :worker), '[]'),"
    "  (SELECT lane FROM worker WHERE name = :worker)"
    "  FROM next_session_number AS n";
static const char CANCEL[] = "UPDATE session SET cancel_at = now_ms()"
			     " WHERE id = :id AND cancel_at IS NULL AND finished_at IS NULL";
static const char SEND[] =
    "INSERT INTO session_input (session_id, seq, kind, data, at)"
    " SELECT id, coalesce((SELECT max(seq) FROM session_input WHERE session_id = :id), input_seq) + 1,"
    "        :kind, :data, now_ms() FROM session WHERE id = :id";
/* What it typed so far is known of whoever keeps the keyboard, and taken from whoever comes. */
static const char SIT[] =
    "INSERT INTO session_typist (session_id, typist, who, n, until_at) VALUES (:id, :typist, acting(), :n,"
    "  now_ms() + (SELECT value FROM setting WHERE name = 'session.typist_ms'))"
    " ON CONFLICT (session_id) DO UPDATE SET typist = excluded.typist, who = excluded.who,"
    "  n = iif(typist = excluded.typist, n, excluded.n), until_at = excluded.until_at RETURNING n";
static const char TYPED[] = "UPDATE session_typist SET n = :n WHERE session_id = :id";
static const char LEAVE[] =
    "DELETE FROM session_typist WHERE session_id = :id AND typist = :typist AND who = acting()";

int64_t
session_new(struct store *db, const struct session_ask *ask)
{
	struct stmt *q;

	if ((q = store_sql(db, NEW)) == NULL)
		return -1;
	stmt_text(q, ":name", ask->name);
	stmt_text(q, ":base", ask->base);
	stmt_text(q, ":worker", ask->worker);
	stmt_text(q, ":argv", ask->argv);
	stmt_text(q, ":cwd", ask->cwd);
	stmt_int(q, ":uid", ask->uid);
	stmt_int(q, ":terminal", ask->terminal);
	stmt_int(q, ":input", ask->input);
	stmt_int(q, ":sandbox", ask->sandbox);
	stmt_int(q, ":rows", ask->rows);
	stmt_int(q, ":cols", ask->cols);
	if (ask->attempts > 0)
		stmt_int(q, ":attempts", ask->attempts);
	return stmt_run_one(q) == 0 ? store_last_id(db) : -1;
}

int
session_send(struct store *db, int64_t id, const char *kind, const void *data, size_t len)
{
	struct stmt *q;

	if ((q = store_sql(db, SEND)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text(q, ":kind", kind);
	stmt_blob(q, ":data", data, len);
	return stmt_run_one(q);
}

int
session_type(struct store *db, int64_t id, const char *typist, int64_t n, const char *kind,
    const void *data, size_t len)
{
	struct stmt *q;
	int64_t typed;

	if ((q = store_sql(db, SIT)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text(q, ":typist", typist);
	stmt_int(q, ":n", kind == NULL ? n : n - 1);
	if (stmt_step(q) != 1)
		return -1;
	typed = stmt_get_int(q, 0);
	stmt_done(q);
	if (kind == NULL || typed == n)
		return 0;
	if ((q = store_sql(db, TYPED)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_int(q, ":n", n);
	return stmt_run_one(q) == 0 ? session_send(db, id, kind, data, len) : -1;
}

int
session_leave(struct store *db, int64_t id, const char *typist)
{
	struct stmt *q;

	if ((q = store_sql(db, LEAVE)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text(q, ":typist", typist);
	return stmt_run(q);
}

int
session_cancel(struct store *db, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(db, CANCEL)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	return stmt_run(q);
}
