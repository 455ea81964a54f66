/* egress.c: rules of the internet lane. */
#include <sqlite3.h>
#include <string.h>

#include "engine/state/egress.h"

static const char PAIRING[] = "SELECT id FROM pairing WHERE host_name = :host";
static const char OPPOSITE[] =
    "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"
    " WHERE state = 'active' AND suffix = :suffix AND port = :port AND verdict <> :verdict"
    "   AND run_id IS NULL AND uid IS :uid AND pairing_id IS :pairing";
static const char MAKE[] =
    "INSERT INTO egress_rule (verdict, uid, pairing_id, suffix, port, made_at, made_by_uid)"
    " VALUES (:verdict, :uid, :pairing, :suffix, :port, now_ms(), :by)";
static const char NARROWED[] =
    "SELECT id FROM egress_rule AS r WHERE state = 'active' AND suffix = :suffix AND port = :port"
    "  AND verdict = :verdict AND run_id IS NULL AND uid IS :uid AND pairing_id IS :pairing"
    "  AND EXISTS (SELECT 1 FROM egress_within WHERE rule_id = r.id)";
static const char NARROW[] =
    "INSERT INTO egress_within (rule_id, method, path, websocket, token_id, made_at, made_by_uid)"
    " VALUES (:rule, coalesce(:method, '*'), coalesce(:path, '*'), :websocket, :token, now_ms(), :by)";
static const char TOKEN[] = "SELECT id FROM token WHERE name = :name AND state = 'active'";
/* By its number the rule of a run is forgotten, too; a name means what holds for longer. */
#define FORGOTTEN \
	" WHERE state = 'active' AND iif(:id = 0, suffix = :suffix AND run_id IS NULL, id = :id)"
static const char COUNT[] = "SELECT count(*) FROM egress_rule" FORGOTTEN;
static const char FORGET[] =
    "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()" FORGOTTEN;
#define OF_PRESET " (suffix, port) IN (SELECT suffix, port FROM egress_preset WHERE name = :preset)"
static const char PRESET_OPPOSITE[] =
    "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"
    " WHERE state = 'active' AND verdict <> :verdict AND run_id IS NULL AND uid IS :uid"
    "   AND pairing_id IS :pairing AND" OF_PRESET;
static const char PRESET_MAKE[] =
    "INSERT INTO egress_rule (verdict, uid, pairing_id, suffix, port, made_at, made_by_uid)"
    " SELECT :verdict, :uid, :pairing, suffix, port, now_ms(), :by FROM egress_preset AS p"
    "  WHERE name = :preset AND NOT EXISTS (SELECT 1 FROM egress_rule AS r"
    "   WHERE r.state = 'active' AND r.suffix = p.suffix AND r.port = p.port"
    "     AND r.verdict = :verdict AND r.run_id IS NULL AND r.uid IS :uid"
    "     AND r.pairing_id IS :pairing)";
static const char PRESET_KNOWN[] = "SELECT count(*) FROM egress_preset WHERE name = :preset";
static const char PRESET_FORGET[] =
    "UPDATE egress_rule SET state = 'dropped', dropped_at = now_ms()"
    " WHERE state = 'active' AND run_id IS NULL AND" OF_PRESET;
static const char TRY_ASK[] = "INSERT INTO egress_flow (uid, surface, host, port, asked_at)"
			      " VALUES (:uid, 'connect', :host, :port, now_ms())";
static const char TRY_OPEN[] =
    "UPDATE egress_flow SET state = 'open', addresses = :addresses, opened_at = now_ms()"
    " WHERE id = :id";

static int
rule_whose(struct stmt *q, const struct egress_rule *rule, int64_t pairing)
{
	if (q == NULL)
		return -1;
	stmt_text(q, ":verdict", rule->deny ? "deny" : "allow");
	if (pairing != 0)
		stmt_int(q, ":pairing", pairing);
	else if (rule->uid != -1)
		stmt_int(q, ":uid", rule->uid);
	return 0;
}

static int
rule_bind(struct stmt *q, const struct egress_rule *rule, int64_t pairing)
{
	if (rule_whose(q, rule, pairing) != 0)
		return -1;
	stmt_text(q, ":suffix", rule->suffix);
	stmt_int(q, ":port", rule->port);
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
rule_narrow(struct store *db, const struct egress_rule *rule, int64_t id)
{
	const struct egress_within *within = rule->within;
	int64_t token = 0;
	struct stmt *q;

	if (within->token != NULL) {
		if ((q = store_sql(db, TOKEN)) == NULL)
			return -1;
		stmt_text(q, ":name", within->token);
		if ((token = stmt_value(q, 0)) == 0)
			return refusal_set(
			    store_refusal(db), "token.unknown", "no live token has this name");
	}
	if ((q = store_sql(db, NARROW)) == NULL)
		return -1;
	stmt_int(q, ":rule", id);
	stmt_text(q, ":method", within->method);
	stmt_text(q, ":path", within->path);
	stmt_int(q, ":websocket", within->websocket);
	if (token != 0)
		stmt_int(q, ":token", token);
	stmt_int(q, ":by", rule->by_uid);
	return stmt_run_one(q);
}

static int
rule_make(struct store *db, const struct egress_rule *rule, int64_t *id)
{
	struct stmt *q;
	int64_t pairing;

	*id = 0;
	if (pairing_find(db, rule->host, &pairing) != 0 ||
	    rule_bind(q = store_sql(db, OPPOSITE), rule, pairing) != 0 || stmt_run(q) != 0)
		return -1;
	if (rule->within != NULL) {
		if (rule_bind(q = store_sql(db, NARROWED), rule, pairing) != 0)
			return -1;
		*id = stmt_value(q, 0);
	}
	if (*id == 0) {
		if (rule_bind(q = store_sql(db, MAKE), rule, pairing) != 0)
			return -1;
		stmt_int(q, ":by", rule->by_uid);
		if (stmt_run_one(q) != 0)
			return -1;
		*id = store_last_id(db);
	}
	return rule->within == NULL ? 0 : rule_narrow(db, rule, *id);
}

int
egress_rule_make(struct store *db, const struct egress_rule *rule, int64_t *id)
{
	if (store_begin(db) != 0)
		return -1;
	return rule_make(db, rule, id) == 0 ? store_commit(db) : store_rollback(db);
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

/* How many rows a statement changes that takes the preset ${name} alone; -1 for a failure. */
static int64_t
preset_change(struct store *db, struct stmt *q, const char *name)
{
	if (q == NULL)
		return -1;
	stmt_text(q, ":preset", name);
	return stmt_run(q) == 0 ? sqlite3_changes64(store_handle(db)) : -1;
}

int
egress_preset_known(struct store *db, const char *preset)
{
	struct stmt *q = store_sql(db, PRESET_KNOWN);

	if (q == NULL)
		return -1;
	stmt_text(q, ":preset", preset);
	if (stmt_value(q, 0) > 0)
		return 0;
	return refusal_set(store_refusal(db), "run.preset", "there is no preset @%.32s", preset);
}

/* Why nothing changed: there is no such preset, or ${code}. */
static int
preset_idle(struct store *db, const char *name, const char *code, const char *why)
{
	if (egress_preset_known(db, name) != 0)
		return -1;
	return refusal_set(store_refusal(db), code, "%s", why);
}

static int
preset_make(struct store *db, const char *preset, const struct egress_rule *rule, int64_t *count)
{
	struct stmt *q;
	int64_t pairing;

	if (pairing_find(db, rule->host, &pairing) != 0 ||
	    rule_whose(q = store_sql(db, PRESET_OPPOSITE), rule, pairing) != 0 ||
	    preset_change(db, q, preset) == -1 ||
	    rule_whose(q = store_sql(db, PRESET_MAKE), rule, pairing) != 0)
		return -1;
	stmt_int(q, ":by", rule->by_uid);
	if ((*count = preset_change(db, q, preset)) == 0)
		return preset_idle(
		    db, preset, "egress.exists", "there are all rules of this preset already");
	return *count > 0 ? 0 : -1;
}

int
egress_preset_make(
    struct store *db, const char *preset, const struct egress_rule *rule, int64_t *count)
{
	if (store_begin(db) != 0)
		return -1;
	return preset_make(db, preset, rule, count) == 0 ? store_commit(db) : store_rollback(db);
}

int
egress_preset_forget(struct store *db, const char *preset, int64_t *count)
{
	if (store_begin(db) != 0)
		return -1;
	if ((*count = preset_change(db, store_sql(db, PRESET_FORGET), preset)) > 0)
		return store_commit(db);
	if (*count == 0)
		preset_idle(db, preset, "egress.unknown_rule", "there is no rule of this preset");
	return store_rollback(db);
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
