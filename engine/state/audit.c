/* audit.c: sealing the chain's head, and checking the chain of a database. */
#include "engine/state/audit.h"

static const char AUDIT_SEAL[] =
    "INSERT INTO audit_seal (seq, head, at, reason, signature)"
    " SELECT seq, hash, now_ms(), :reason,"
    "        seal_sign('audit', json_array('audit_seal', seq, lower(hex(hash)), now_ms(), :reason))"
    "   FROM audit WHERE seq = (SELECT max(seq) FROM audit)"
    "    AND seq > coalesce((SELECT max(seq) FROM audit_seal), 0)"
    " RETURNING seq";

static const char AUDIT_UNSEALED[] =
    "SELECT coalesce((SELECT max(seq) FROM audit), 0) - s.seq,"
    "       (SELECT at FROM audit WHERE seq = s.seq + 1)"
    "  FROM (SELECT coalesce(max(seq), 0) AS seq FROM audit_seal) AS s";

/* Rows and seals in one statement, so that they are of one moment; a seal stands behind its row. */
static const char AUDIT_CHAIN[] = "SELECT l.seq AS seq, 0 AS is_seal, a.at, l.prev, l.hash, l.line,"
				  "       (SELECT max(seq) FROM audit)"
				  "  FROM audit_line AS l JOIN audit AS a ON a.seq = l.seq"
				  " UNION ALL "
				  "SELECT seq, 1, at, head, signature, seal_text, 0 FROM audit_seal"
				  " ORDER BY 1, 2";

enum { PROGRESS_ROWS = 4096 };

int64_t
audit_unsealed(struct store *db, int64_t *since)
{
	struct stmt *q;
	int64_t rows;

	*since = 0;
	if ((q = store_sql(db, AUDIT_UNSEALED)) == NULL || stmt_step(q) != 1)
		return -1;
	rows = stmt_get_int(q, 0);
	*since = stmt_get_int(q, 1);
	stmt_done(q);
	return rows;
}

int
audit_seal(struct store *db, const char *reason)
{
	struct stmt *q;
	int64_t rows, since;
	int made;

	/* Look first: no writer waits behind the gate for nothing. */
	if ((rows = audit_unsealed(db, &since)) <= 0)
		return rows == 0 ? 0 : -1;
	if (store_begin(db) == -1)
		return -1;
	if ((q = store_sql(db, AUDIT_SEAL)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":reason", reason);
	if ((made = stmt_step(q)) == -1)
		return store_rollback(db);
	stmt_done(q);
	return store_commit(db) == -1 ? -1 : made;
}

static int
verify_row(struct stmt *q, struct audit_check *check)
{
	struct audit_row row;

	row.seq = stmt_get_int(q, 0);
	row.at = stmt_get_int(q, 2);
	row.prev = stmt_get_blob(q, 3, 32);
	row.hash = stmt_get_blob(q, 4, 32);
	row.line = stmt_get_text(q, 5);
	return audit_check_row(check, &row);
}

static int
verify_seal(struct stmt *q, struct audit_check *check)
{
	struct audit_sealing seal;

	seal.seq = stmt_get_int(q, 0);
	seal.at = stmt_get_int(q, 2);
	seal.head = stmt_get_blob(q, 3, 32);
	seal.signature = stmt_get_blob(q, 4, 64);
	seal.text = stmt_get_text(q, 5);
	return audit_check_seal(check, &seal);
}

int
audit_verify(struct store *db, const unsigned char *key, const struct audit_progress *progress,
    struct audit_report *report)
{
	struct audit_check check;
	struct stmt *q;
	int rc;

	audit_check_begin(&check, key, true, report);
	if ((q = store_sql(db, AUDIT_CHAIN)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1) {
		if (stmt_get_int(q, 1) == 1 ? verify_seal(q, &check) : verify_row(q, &check)) {
			stmt_done(q);
			return AUDIT_BAD;
		}
		if (progress != NULL && report->rows % PROGRESS_ROWS == 0)
			progress->fn(progress->ctx, report->rows, stmt_get_int(q, 6));
	}
	return rc;
}
