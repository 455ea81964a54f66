/* approval.c: ask, approve, deny. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/approval.h"
#include "engine/state/factor.h"

/* The question as the settings complete it. */
#define QUESTION                                                                           \
	"WITH q AS (SELECT :pairing AS pairing, :op AS op,"                                \
	"    CASE WHEN json_valid(:args) THEN json(:args) ELSE :args END AS args,"         \
	"    CASE WHEN json_valid(:bounds) THEN json(:bounds) ELSE :bounds END AS bounds," \
	"    coalesce(nullif(:uses, 0), (SELECT value FROM setting"                        \
	"             WHERE name = 'grant.default_uses')) AS uses,"                        \
	"    coalesce(nullif(:ttl, 0), (SELECT value FROM setting"                         \
	"             WHERE name = 'grant.default_ttl_ms')) AS ttl_ms)"

static const char WAITING[] =
    QUESTION " SELECT a.id FROM q JOIN approval AS a ON a.pairing_id = q.pairing AND a.op = q.op"
	     "    AND a.args = q.args AND a.bounds IS q.bounds AND a.uses = q.uses"
	     "    AND a.ttl_ms = q.ttl_ms"
	     "  WHERE a.state = 'pending' AND a.expires_at > now_ms()";

static const char ASK[] = QUESTION
    " INSERT INTO approval (nonce, kind, box_name, pairing_id, host_name, op, args, bounds, words,"
    "    reaches, credential, uses, ttl_ms, asked_at, expires_at)"
    " SELECT :nonce, coalesce((SELECT iif(class IN ('observe', 'action'), 'op', class) FROM op"
    "    WHERE name = q.op), 'op'), b.name, q.pairing, p.host_name, q.op, q.args, q.bounds,"
    "    CASE WHEN json_valid(q.bounds) THEN bounds_words(q.bounds) END, g.reaches, g.credential,"
    "    q.uses, q.ttl_ms,"
    "    now_ms(), now_ms() + (SELECT value FROM setting WHERE name = 'approval.ttl_ms')"
    "   FROM q LEFT JOIN pairing AS p ON p.id = q.pairing LEFT JOIN box AS b"
    "   LEFT JOIN added_op_grants AS g ON g.op = q.op";

static const char OPEN[] =
    "SELECT state = 'pending', expires_at > now_ms(), digest IS :digest, terms"
    "  FROM approval WHERE id = :id";

static const char APPROVE[] =
    "UPDATE approval SET state = 'approved', factor_id = :factor, decided_digest = :digest,"
    "    decided_by_uid = :uid, decided_by = :by, decided_at = now_ms() WHERE id = :id";

static const char GRANT[] =
    "INSERT INTO grant (pairing_id, kind, op, args, bounds, uses, created_at, expires_at, factor_id,"
    "    approval_id, seal)"
    " SELECT pairing_id, kind, op, args, bounds, uses, decided_at, decided_at + ttl_ms, factor_id, id,"
    "    seal_sign('grant', iif(bounds IS NULL,"
    "      json_array('grant', pairing_id, kind, op, args, uses, decided_at, decided_at + ttl_ms,"
    "                 factor_id, id),"
    "      json_array('bounded', pairing_id, kind, op, args, uses, decided_at, decided_at + ttl_ms,"
    "                 factor_id, id, bounds)))"
    "   FROM approval WHERE id = :id";

static const char DENY[] =
    "UPDATE approval SET state = 'denied', decided_by_uid = :uid,"
    "    decided_by = coalesce(:by, 'uid ' || :uid), decided_at = now_ms() WHERE id = :id";

static void
question_bind(struct stmt *q, int64_t pairing_id, const struct approval_question *asked)
{
	stmt_int(q, ":pairing", pairing_id);
	stmt_text(q, ":op", asked->op);
	stmt_text(q, ":args", asked->args);
	stmt_text(q, ":bounds", asked->bounds);
	stmt_int(q, ":uses", asked->uses);
	stmt_int(q, ":ttl", asked->ttl_ms);
}

/* Within a transaction. */
static int
question_put(
    struct store *db, int64_t pairing_id, const struct approval_question *asked, int64_t *id)
{
	char nonce[33];
	struct stmt *q;

	if ((q = store_sql(db, WAITING)) == NULL)
		return -1;
	question_bind(q, pairing_id, asked);
	if ((*id = stmt_value(q, 0)) > 0)
		return 0;
	random_hex(nonce);
	if ((q = store_sql(db, ASK)) == NULL)
		return -1;
	question_bind(q, pairing_id, asked);
	stmt_text(q, ":nonce", nonce);
	if (stmt_run_one(q) != 0)
		return -1;
	*id = store_last_id(db);
	return 0;
}

int
approval_put(
    struct store *db, int64_t pairing_id, const struct approval_question *asked, int64_t *id)
{
	if (sqlite3_get_autocommit(store_handle(db)) == 0)
		return question_put(db, pairing_id, asked, id);
	if (store_begin(db) != 0)
		return -1;
	if (question_put(db, pairing_id, asked, id) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
approval_ask(struct store *db, int64_t pairing_id, const char *op, const char *args, int64_t uses,
    int64_t ttl_ms, int64_t *id)
{
	const struct approval_question asked = {
	    .op = op, .args = args, .uses = uses, .ttl_ms = ttl_ms};

	return approval_put(db, pairing_id, &asked, id);
}

/* What stands in the way of an answer, before a proof is looked at; the triggers say it again. */
static int
question_refused(struct store *db, struct stmt *q)
{
	struct refusal *r = store_refusal(db);

	if (stmt_get_int(q, 0) == 0)
		return refusal_set(r, "approval.decided", "this question is decided already");
	if (stmt_get_int(q, 1) == 0)
		return refusal_set(
		    r, "approval.expired", "this question ran out before it was answered");
	if (stmt_get_int(q, 2) == 0)
		return refusal_set(r, "approval.terms", "what was shown is not what is asked");
	return 0;
}

/* Look at the question, and store a copy of its terms, for the caller to free. */
static int
question_look(struct store *db, const struct approval_answer *answer, char **terms)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, OPEN)) == NULL)
		return -1;
	stmt_int(q, ":id", answer->id);
	stmt_blob(q, ":digest", answer->digest, APPROVAL_DIGEST);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "approval.unknown",
				      "there is no question of this number");
	rc = question_refused(db, q);
	if (rc == 0 && (*terms = strdup(stmt_get_text(q, 3))) == NULL)
		rc = refusal_set(store_refusal(db), "store.failed", "out of memory");
	stmt_done(q);
	return rc;
}

static int
answer_prove(struct store *db, const struct approval_answer *answer, int64_t *factor_id)
{
	char *terms = NULL;
	int rc;

	if (question_look(db, answer, &terms) != 0)
		return store_rollback(db);
	if (answer->code != NULL)
		rc = factor_prove_totp(db, answer->key, answer->code, factor_id);
	else
		rc = factor_prove_ssh(db, terms, strlen(terms), answer->signature, factor_id);
	free(terms);
	return rc;
}

static int
answer_write(
    struct store *db, const char *sql, const struct approval_answer *answer, int64_t factor)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return -1;
	stmt_int(q, ":id", answer->id);
	stmt_int(q, ":uid", answer->uid);
	stmt_text(q, ":by", answer->name);
	if (factor > 0) {
		stmt_int(q, ":factor", factor);
		stmt_blob(q, ":digest", answer->digest, APPROVAL_DIGEST);
	}
	return stmt_run_one(q);
}

static int
grant_make(struct store *db, int64_t approval_id, int64_t *grant_id)
{
	struct stmt *q;

	if ((q = store_sql(db, GRANT)) == NULL)
		return -1;
	stmt_int(q, ":id", approval_id);
	if (stmt_run_one(q) != 0)
		return -1;
	*grant_id = store_last_id(db);
	return 0;
}

int
approval_approve(struct store *db, const struct approval_answer *answer, int64_t *grant_id)
{
	int64_t factor;

	if (answer->name == NULL)
		return refusal_set(store_refusal(db), "approval.person",
		    "the user directory did not say in time who you are");
	if (store_begin(db) != 0 || answer_prove(db, answer, &factor) != 0)
		return -1;
	if (answer_write(db, APPROVE, answer, factor) != 0 ||
	    grant_make(db, answer->id, grant_id) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
approval_deny(struct store *db, const struct approval_answer *answer)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, "SELECT 1 FROM approval WHERE id = :id")) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", answer->id);
	if (stmt_value(q, 0) == 0) {
		refusal_set(
		    store_refusal(db), "approval.unknown", "there is no question of this number");
		return store_rollback(db);
	}
	if (answer_write(db, DENY, answer, 0) != 0)
		return store_rollback(db);
	return store_commit(db);
}
