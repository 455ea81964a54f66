/* quarantine.c: holds of Hosts; who is held is decided by the triggers of schema/quarantine.sql. */
#include <string.h>

#include "engine/state/quarantine.h"

static const char HELD[] = "SELECT id FROM held_pairings WHERE pairing_id = :pairing";

static const char UNTIL[] = "SELECT until_at FROM held_pairings WHERE pairing_id = :pairing";

static const char LIFT[] =
    "UPDATE quarantine SET state = 'lifted', ended_at = now_ms(), by_uid = :by"
    " WHERE id = :id";

static int64_t
look(struct store *db, const char *sql, int64_t pairing_id)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return 0;
	stmt_int(q, ":pairing", pairing_id);
	return stmt_value(q, 0);
}

int
quarantine_lift(struct store *db, int64_t pairing_id, int64_t by_uid)
{
	struct stmt *q;
	int64_t id;

	if (store_begin(db) != 0)
		return -1;
	if ((id = look(db, HELD, pairing_id)) == 0) {
		refusal_set(store_refusal(db), "quarantine.none", "this Host is not held");
		return store_rollback(db);
	}
	if ((q = store_sql(db, LIFT)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	stmt_int(q, ":by", by_uid);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}

void
quarantine_tell(struct store *db, int64_t pairing_id, struct refusal *refusal)
{
	if (strcmp(refusal->code, "pairing.held") == 0)
		refusal->retry_at = look(db, UNTIL, pairing_id);
}
