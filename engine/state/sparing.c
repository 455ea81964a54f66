/* sparing.c: rights to have processes stopped, and the sealed list of those that are spared. */
#include <stdio.h>
#include <string.h>

#include "engine/state/factor.h"
#include "engine/state/sparing.h"

/* A signature is good for one decision: a number in the text is of no second one, and after a
 * restore, which sets numbers back, the text says when that was. */
static const char RIGHT_TEXT[] =
    "SELECT 'bastion contain 1' || char(10) || 'machine: ' || b.name || char(10)"
    "    || 'key: ' || lower(hex(b.identity_key)) || char(10) || 'host: ' || p.host_name || char(10)"
    "    || 'host key: ' || lower(hex(p.host_key)) || char(10)"
    "    || 'may have stopped: ' || iif(:agents, 'processes, listed ones too', 'processes that are not listed')"
    "    || char(10) || 'for: ' || (:ttl / 1000) || ' s' || char(10)"
    "    || 'listed: ' || (SELECT count(*) FROM contain_spare WHERE state = 'active')"
    "    || ', sha256 ' || lower(hex(sha256((SELECT text FROM contain_account_text)))) || char(10)"
    "    || 'change: ' || (SELECT coalesce(max(id), 0) + 1 FROM contain_right) || char(10)"
    "    || (SELECT text FROM restored_line)"
    "  FROM box AS b JOIN pairing AS p ON p.id = :pairing";

static const char DROP_TEXT[] =
    "SELECT 'bastion contain 1' || char(10) || 'machine: ' || b.name || char(10)"
    "    || 'key: ' || lower(hex(b.identity_key)) || char(10) || 'no longer spared: entry ' || c.id"
    "    || ', ' || json_quote(c.label) || char(10) || 'program: ' || json_quote(c.exe) || ' of uid ' || c.uid"
    "    || char(10) || (SELECT text FROM restored_line)"
    "  FROM box AS b JOIN contain_spare AS c ON c.id = :id AND c.state = 'active'";

static const char INTACT[] =
    "SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM contain_account)"
    "            THEN NOT EXISTS (SELECT 1 FROM contain_spare WHERE state = 'active')"
    "            ELSE (SELECT seal_ok('contain', t.text, a.seal) IS 1"
    "                    FROM contain_account AS a JOIN contain_account_text AS t) END";

static const char SEAL[] =
    "INSERT INTO contain_account (id, seal, sealed_at)"
    " SELECT 1, seal_sign('contain', text), now_ms() FROM contain_account_text WHERE true"
    "  ON CONFLICT DO UPDATE SET seal = excluded.seal, sealed_at = excluded.sealed_at";

static const char RIGHT[] =
    "INSERT INTO contain_right (pairing_id, host_key, agents, factor_id, created_at, expires_at, by_uid,"
    "    seal)"
    " SELECT id, host_key, :agents, :factor, now_ms(), now_ms() + :ttl, :by,"
    "    seal_sign('contain', json_array('contain-right', id, lower(hex(host_key)), :agents, :factor,"
    "                                    now_ms(), now_ms() + :ttl))"
    "  FROM pairing WHERE id = :pairing";

static const char DROP[] =
    "UPDATE contain_spare SET state = 'dropped', dropped_at = now_ms() WHERE id = :id";

static const char ADD[] =
    "INSERT INTO contain_spare (label, uid, exe, argv_sha256, by_uid, listed_at)"
    " VALUES (:label, :uid, :exe, :argv, :by, now_ms())";

static const char END[] =
    "UPDATE contain_right SET state = 'dropped', ended_at = now_ms(),"
    "  end_reason = 'taken back' WHERE pairing_id = :pairing AND state = 'active'";

static const char LIVE[] =
    "SELECT count(*) FROM contain_right WHERE pairing_id = :pairing AND state = 'active'";

static int64_t
ttl_of(struct store *db, const struct sparing_terms *terms)
{
	return terms->ttl_ms != 0 ? terms->ttl_ms : store_setting(db, "contain.ttl_ms");
}

int
sparing_text(struct store *db, const struct sparing_terms *terms, char text[SPARING_TERMS_MAX])
{
	bool right = terms->pairing_id != 0;
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, right ? RIGHT_TEXT : DROP_TEXT)) == NULL)
		return -1;
	if (right) {
		stmt_int(q, ":pairing", terms->pairing_id);
		stmt_int(q, ":agents", terms->agents);
		stmt_int(q, ":ttl", ttl_of(db, terms));
	} else {
		stmt_int(q, ":id", terms->entry);
	}
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db),
				      right ? "pairing.unknown" : "contain.unknown",
				      right ? "no Host of this name is paired here"
					    : "there is no entry of this number");
	snprintf(text, SPARING_TERMS_MAX, "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

static int
list_intact(struct store *db)
{
	if (stmt_value(store_sql(db, INTACT), 0) == 1)
		return 0;
	return refusal_set(store_refusal(db), "contain.edited",
	    "the list of processes to spare was changed by another tool");
}

static int
right_write(struct store *db, const struct sparing_terms *terms, int64_t by_uid, int64_t factor)
{
	struct stmt *q;

	if ((q = store_sql(db, RIGHT)) == NULL)
		return -1;
	stmt_int(q, ":pairing", terms->pairing_id);
	stmt_int(q, ":agents", terms->agents);
	stmt_int(q, ":factor", factor);
	stmt_int(q, ":ttl", ttl_of(db, terms));
	stmt_int(q, ":by", by_uid);
	return stmt_run_one(q);
}

static int
entry_drop(struct store *db, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(db, DROP)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	return stmt_run_one(q);
}

/* Prove the person; a refusal has ended the transaction (factor.h). */
static int
prove(struct store *db, const char *text, const struct sparing_proof *proof, int64_t *factor)
{
	if (proof->code != NULL)
		return factor_prove_totp(db, proof->key, proof->code, factor);
	if (proof->signature != NULL)
		return factor_prove_ssh(db, text, strlen(text), proof->signature, factor);
	refusal_set(store_refusal(db), "contain.factor", "a factor has to prove who decides this");
	return store_rollback(db);
}

int
sparing_decide(
    struct store *db, const struct sparing_terms *terms, const struct sparing_proof *proof)
{
	char text[SPARING_TERMS_MAX];
	int64_t factor;
	int rc;

	if (store_begin(db) != 0)
		return -1;
	if (sparing_text(db, terms, text) != 0 || (terms->pairing_id == 0 && list_intact(db) != 0))
		return store_rollback(db);
	if (prove(db, text, proof, &factor) != 0)
		return -1;
	rc = terms->pairing_id != 0 ? right_write(db, terms, proof->by_uid, factor)
				    : entry_drop(db, terms->entry);
	if (rc != 0 || stmt_run_one(store_sql(db, SEAL)) != 0)
		return store_rollback(db);
	return store_commit(db);
}

static int
entry_add(struct store *db, const struct sparing_process *process, int64_t *id)
{
	struct stmt *q;

	if (list_intact(db) != 0 || (q = store_sql(db, ADD)) == NULL)
		return -1;
	stmt_text(q, ":label", process->label);
	stmt_int(q, ":uid", process->uid);
	stmt_text(q, ":exe", process->exe);
	if (process->argv != NULL)
		stmt_blob(q, ":argv", process->argv, SPARING_DIGEST);
	stmt_int(q, ":by", process->by_uid);
	if (stmt_run_one(q) != 0)
		return -1;
	*id = store_last_id(db);
	return stmt_run_one(store_sql(db, SEAL));
}

int
sparing_add(struct store *db, const struct sparing_process *process, int64_t *id)
{
	if (store_begin(db) != 0)
		return -1;
	if (entry_add(db, process, id) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
sparing_end(struct store *db, int64_t pairing_id, bool *ended)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, LIVE)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":pairing", pairing_id);
	*ended = stmt_value(q, 0) > 0;
	if ((q = store_sql(db, END)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":pairing", pairing_id);
	if (stmt_run(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}
