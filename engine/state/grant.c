/* grant.c: take grants back. */
#include "engine/state/grant.h"

static const char DROP[] =
    "UPDATE grant SET state = 'dropped', ended_at = now_ms(), end_reason = 'dropped at this machine'"
    " WHERE state = 'active' AND (:id IS NULL OR id = :id) AND (:host IS NULL OR pairing_id ="
    "       (SELECT id FROM pairing WHERE host_name = :host))"
    " RETURNING id";

static const char KNOWN[] = "SELECT count(*) FROM pairing WHERE host_name = :host";

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
