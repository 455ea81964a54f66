/* mode.c: change the mode of this machine. */
#include <stdio.h>
#include <string.h>

#include "engine/state/factor.h"
#include "engine/state/mode.h"

static const char TERMS[] =
    "SELECT 'bastion mode 1' || char(10) || 'machine: ' || name || char(10)"
    "    || 'key: ' || lower(hex(identity_key)) || char(10) || 'mode: ' || :mode || char(10)"
    "    || 'change: ' || (SELECT coalesce(max(id), 0) + 1 FROM mode_change) || char(10)"
    "    || (SELECT text FROM restored_line) FROM box";

static const char CHANGE[] = "INSERT INTO mode_change (mode, at, by_uid, factor_id)"
			     " VALUES (:mode, now_ms(), :by, nullif(:factor, 0))";

static int
change_write(struct store *db, const struct mode_change *change, int64_t factor)
{
	struct stmt *q;

	if ((q = store_sql(db, CHANGE)) == NULL)
		return -1;
	stmt_text(q, ":mode", change->mode);
	stmt_int(q, ":by", change->by_uid);
	stmt_int(q, ":factor", factor);
	return stmt_run_one(q);
}

int
mode_check(struct store *db, const struct mode_change *change)
{
	int rc;

	if (store_begin(db) != 0)
		return -1;
	rc = change_write(db, change, 0);
	store_rollback(db);
	return rc;
}

int
mode_terms(struct store *db, const char *mode, char terms[MODE_TERMS_MAX])
{
	struct stmt *q;

	if ((q = store_sql(db, TERMS)) == NULL)
		return -1;
	stmt_text(q, ":mode", mode);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(terms, MODE_TERMS_MAX, "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

/* Prove who changes it; a refusal has ended the transaction (factor.h). */
static int
change_prove(struct store *db, const struct mode_change *change, int64_t *factor)
{
	char terms[MODE_TERMS_MAX];

	*factor = 0;
	if (change->code != NULL)
		return factor_prove_totp(db, change->key, change->code, factor);
	if (change->signature == NULL)
		return 0;
	if (mode_terms(db, change->mode, terms) != 0)
		return store_rollback(db);
	return factor_prove_ssh(db, terms, strlen(terms), change->signature, factor);
}

int
mode_set(struct store *db, const struct mode_change *change)
{
	int64_t factor;

	/* What a proof would not mend is said before one is spent. */
	if (mode_check(db, change) != 0 && strcmp(store_refusal(db)->code, "box.factor") != 0)
		return -1;
	if (store_begin(db) != 0 || change_prove(db, change, &factor) != 0)
		return -1;
	if (change_write(db, change, factor) != 0)
		return store_rollback(db);
	return store_commit(db);
}
