/* grant.c: find grants, and take them back. */
#include "engine/state/grant.h"

/* One that is used up may hold a connection that lasts. */
static const char DROP[] =
    "UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'dropped at this machine'"
    " WHERE (state = 'active' OR id IN (SELECT id FROM grant_in_use)) AND (:id IS NULL OR id = :id) AND (:host IS NULL OR pairing_id ="
    "       (SELECT id FROM pairing WHERE host_name = :host))"
    " RETURNING id";

/* Deciding is what the database does most: exact arguments are found by their index. */
static const char EXACT[] =
    "SELECT id FROM grant WHERE pairing_id = :pairing AND op = :op AND args = :args"
    " AND state = 'active' AND bounds IS NULL AND expires_at > now_ms() ORDER BY expires_at, id"
    " LIMIT 1";

static const char WITHIN[] =
    "SELECT g.id FROM grant AS g INDEXED BY grant_bounded WHERE g.pairing_id = :pairing"
    " AND g.op = :op AND g.state = 'active' AND g.bounds IS NOT NULL AND g.expires_at > now_ms()"
    " AND instr(:args, '\\u0000') = 0"
    " AND json_array_length(:args) <= (SELECT count(*) FROM op_param WHERE op = :op)"
    " AND (g.args = :args OR NOT EXISTS (SELECT 1 FROM grant_bound AS b WHERE b.grant_id = g.id"
    "      AND NOT CASE b.rule WHEN 'in' THEN coalesce((:args ->> b.at) IN"
    "          (SELECT CAST(value AS TEXT) FROM json_each(b.bound)), 0)"
    "        ELSE bound_holds(b.rule, b.bound, :args ->> b.at) END))"
    " ORDER BY coalesce((SELECT at FROM grant_next WHERE id = g.id), 9e18), g.expires_at, g.id"
    " LIMIT 1";

static const char KNOWN[] = "SELECT count(*) FROM pairing WHERE host_name = :host";

static int
find_by(struct store *db, const char *sql, int64_t pairing_id, const char *op, const char *args,
    int64_t *id)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return -1;
	stmt_int(q, ":pairing", pairing_id);
	stmt_text(q, ":op", op);
	stmt_text(q, ":args", args);
	*id = stmt_value(q, 0);
	return 0;
}

int
grant_find(struct store *db, int64_t pairing_id, const char *op, const char *args, int64_t *id)
{
	if (find_by(db, EXACT, pairing_id, op, args, id) != 0)
		return -1;
	return *id != 0 ? 0 : find_by(db, WITHIN, pairing_id, op, args, id);
}

/* Run DROP, already bound, in a transaction of its own. */
static int
grant_run(struct store *db, struct stmt *q, int64_t *count)
{
	int rc;

	*count = 0;
	while ((rc = stmt_step(q)) == 1)
		++*count;
	return rc == 0 ? store_commit(db) : store_rollback(db);
}

int
grant_drop(struct store *db, int64_t id, int64_t *count)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, DROP)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	return grant_run(db, q, count);
}

int
grant_drop_all(struct store *db, const char *host, int64_t *count)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if (host != NULL) {
		if ((q = store_sql(db, KNOWN)) == NULL)
			return store_rollback(db);
		stmt_text(q, ":host", host);
		if (stmt_value(q, 0) == 0) {
			refusal_set(store_refusal(db), "pairing.unknown",
			    "no Host of this name was ever paired here");
			return store_rollback(db);
		}
	}
	if ((q = store_sql(db, DROP)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":host", host);
	return grant_run(db, q, count);
}
