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
#define CHAIN_ROWS                                                      \
	"SELECT l.seq AS seq, 0 AS kind, a.at, l.prev, l.hash, l.line," \
	"       (SELECT max(seq) FROM audit)"                           \
	"  FROM audit_line AS l JOIN audit AS a ON a.seq = l.seq"
#define CHAIN_SEALS "SELECT seq, 1, at, head, signature, seal_text, 0 FROM audit_seal"

/* Before version 2 a chain began at row 1; since then, at its base, if rows before it were removed.
 */
static const char AUDIT_HAS_BASE[] =
    "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'audit_base'";
static const char AUDIT_CHAIN_WHOLE[] = CHAIN_ROWS " UNION ALL " CHAIN_SEALS " ORDER BY 1, 2";
static const char AUDIT_CHAIN[] = CHAIN_ROWS
    " WHERE l.seq >= coalesce((SELECT max(seq) FROM audit_base), 0)"
    " UNION ALL " CHAIN_SEALS " WHERE seq >= coalesce((SELECT max(seq) FROM audit_base), 0)"
    " UNION ALL SELECT seq, -1, at, head, signature, base_text, 0 FROM audit_base"
    "            WHERE seq = (SELECT max(seq) FROM audit_base)"
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
verify_sealing(struct stmt *q, struct audit_check *check, bool base)
{
	struct audit_sealing seal;

	seal.seq = stmt_get_int(q, 0);
	seal.at = stmt_get_int(q, 2);
	seal.head = stmt_get_blob(q, 3, 32);
	seal.signature = stmt_get_blob(q, 4, 64);
	seal.text = stmt_get_text(q, 5);
	return base ? audit_check_base(check, &seal) : audit_check_seal(check, &seal);
}

static int
verify_next(struct stmt *q, struct audit_check *check)
{
	int64_t kind = stmt_get_int(q, 1);

	return kind == 0 ? verify_row(q, check) : verify_sealing(q, check, kind < 0);
}

int
audit_verify(struct store *db, const unsigned char *key, const struct audit_progress *progress,
    struct audit_report *report)
{
	struct audit_check check;
	struct stmt *q;
	bool based;
	int rc;

	audit_check_begin(&check, key, true, report);
	based = stmt_value(store_sql(db, AUDIT_HAS_BASE), 0) != 0;
	if ((q = store_sql(db, based ? AUDIT_CHAIN : AUDIT_CHAIN_WHOLE)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1) {
		if (verify_next(q, &check) != 0) {
			stmt_done(q);
			return AUDIT_BAD;
		}
		if (progress != NULL && report->rows % PROGRESS_ROWS == 0)
			progress->fn(progress->ctx, report->rows, stmt_get_int(q, 6));
	}
	return rc;
}
