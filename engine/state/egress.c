/* egress.c: rules of the internet lane. */
#include <string.h>

#include "engine/state/egress.h"

static const char PAIRING[] = "SELECT id FROM pairing WHERE host_name = :host";
static const char OPPOSITE[] =
    "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"
    " WHERE state = 'active' AND suffix = :suffix AND port = :port AND verdict <> :verdict"
    "   AND uid IS :uid AND pairing_id IS :pairing";
static const char MAKE[] =
    "INSERT INTO egress_rule (verdict, uid, pairing_id, suffix, port, made_at, made_by_uid)"
    " VALUES (:verdict, :uid, :pairing, :suffix, :port, now_ms(), :by)";
static const char COUNT[] =
    "SELECT count(*) FROM egress_rule WHERE state = 'active' AND iif(:id = 0, suffix = :suffix,"
    " id = :id)";
static const char FORGET[] = "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"
			     " WHERE state = 'active' AND iif(:id = 0, suffix = :suffix, id = :id)";
static const char TRY_ASK[] = "INSERT INTO egress_flow (uid, surface, host, port, asked_at)"
			      " VALUES (:uid, 'connect', :host, :port, now_ms())";
static const char TRY_OPEN[] =
    "UPDATE egress_flow SET state = 'open', addresses = :addresses, opened_at = now_ms()"
    " WHERE id = :id";

static int
rule_bind(struct stmt *q, const struct egress_rule *rule, int64_t pairing)
{
	if (q == NULL)
		return -1;
	stmt_text(q, ":verdict", rule->deny ? "deny" : "allow");
	stmt_text(q, ":suffix", rule->suffix);
	stmt_int(q, ":port", rule->port);
	if (pairing != 0)
		stmt_int(q, ":pairing", pairing);
	else if (rule->uid != -1)
		stmt_int(q, ":uid", rule->uid);
	return 0;
}

static int
pairing_find(struct store *db, const char *host, int64_t *id)
{
	struct stmt *q;

	*id = 0;
	if (host == NULL)
		return 0;
	if ((q = store_sql(db, PAIRING)) == NULL)
		return -1;
	stmt_text(q, ":host", host);
	if ((*id = stmt_value(q, 0)) != 0)
		return 0;
	return refusal_set(store_refusal(db), "pairing.unknown", "no Host of this name is paired");
}

static int
rule_make(struct store *db, const struct egress_rule *rule)
{
	struct stmt *q;
	int64_t pairing;

	if (pairing_find(db, rule->host, &pairing) != 0 ||
	    rule_bind(q = store_sql(db, OPPOSITE), rule, pairing) != 0 || stmt_run(q) != 0 ||
	    rule_bind(q = store_sql(db, MAKE), rule, pairing) != 0)
		return -1;
	stmt_int(q, ":by", rule->by_uid);
	return stmt_run_one(q);
}

int
egress_rule_make(struct store *db, const struct egress_rule *rule, int64_t *id)
{
	if (store_begin(db) != 0)
		return -1;
	if (rule_make(db, rule) != 0)
		return store_rollback(db);
	*id = store_last_id(db);
	return store_commit(db);
}

static struct stmt *
forget_bind(struct store *db, const char *sql, int64_t id, const char *suffix)
{
	struct stmt *q = store_sql(db, sql);

	if (q != NULL) {
		stmt_int(q, ":id", id);
		stmt_text(q, ":suffix", suffix);
	}
	return q;
}

int
egress_rule_forget(struct store *db, int64_t id, const char *suffix, int64_t *count)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((*count = stmt_value(forget_bind(db, COUNT, id, suffix), 0)) == 0) {
		refusal_set(store_refusal(db), "egress.unknown_rule", "there is no such rule");
		return store_rollback(db);
	}
	if ((q = forget_bind(db, FORGET, id, suffix)) == NULL || stmt_run(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
egress_try(struct store *db, const struct egress_wish *wish)
{
	struct stmt *q;

	if ((q = store_sql(db, TRY_ASK)) == NULL)
		return -1;
	stmt_int(q, ":uid", wish->uid);
	stmt_text(q, ":host", wish->host);
	stmt_int(q, ":port", wish->port);
	if (stmt_run_one(q) != 0)
		return -1;
	if (wish->addresses == NULL)
		return 0;
	if ((q = store_sql(db, TRY_OPEN)) == NULL)
		return -1;
	stmt_text(q, ":addresses", wish->addresses);
	stmt_int(q, ":id", store_last_id(db));
	return stmt_run_one(q);
}
