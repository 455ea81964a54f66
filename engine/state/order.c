/* order.c: write and sign orders of a Host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/endpoint.h"
#include "engine/state/order.h"

static const char BOX[] = "SELECT id FROM host_box WHERE name = :box AND state = 'active'";

/* What every order has, and behind it ${more}, an object that is what the kind adds.  (json_patch
 * would drop a null.) */
static const char WRITE[] =
    "INSERT INTO host_order (box_id, nonce, kind, terms, signature, created_at, expires_at)"
    " SELECT t.id, :nonce, :kind, t.terms, seal_sign('order', t.terms), now_ms(), now_ms() + t.ttl"
    "  FROM (SELECT b.id, ttl, rtrim(json_object('kind', :kind, 'host', me.name,"
    "           'box_key', lower(hex(b.box_key)), 'order', :nonce, 'issued_at', now_ms(),"
    "           'expires_at', now_ms() + ttl), '}') || ',' || substr(:more, 2) AS terms"
    "          FROM host_box AS b JOIN box AS me"
    "          JOIN (SELECT coalesce(nullif(:ttl, 0), (SELECT value FROM setting"
    "                                WHERE name = 'order.ttl_ms')) AS ttl)"
    "         WHERE b.id = :box) AS t";

static const char PROCESS[] = "SELECT json_object('pid', :pid, 'exe', :exe, 'agent',"
			      "    json(iif(:agent, 'true', 'false')))";

static const char STATE[] = "SELECT ended_at IS NULL FROM host_order WHERE id = :id";

static const char WITHDRAW[] =
    "UPDATE host_order SET state = 'withdrawn', ended_at = now_ms() WHERE id = :id";

static int
order_insert(struct store *db, const char *box, const char *kind, const char *more, int64_t ttl_ms)
{
	char nonce[33];
	struct stmt *q;
	int64_t box_id;

	if ((q = store_sql(db, BOX)) == NULL)
		return -1;
	stmt_text(q, ":box", box);
	if ((box_id = stmt_value(q, 0)) == 0)
		return refusal_set(
		    store_refusal(db), "box.gone", "no box of this name is paired with this Host");
	if ((q = store_sql(db, WRITE)) == NULL)
		return -1;
	random_hex(nonce);
	stmt_int(q, ":box", box_id);
	stmt_text(q, ":nonce", nonce);
	stmt_text(q, ":kind", kind);
	stmt_text(q, ":more", more);
	stmt_int(q, ":ttl", ttl_ms);
	return stmt_run_one(q);
}

static int
order_write(struct store *db, const char *box, const char *kind, const char *more, int64_t ttl_ms,
    int64_t *id)
{
	if (store_begin(db) != 0)
		return -1;
	if (order_insert(db, box, kind, more, ttl_ms) != 0)
		return store_rollback(db);
	*id = store_last_id(db);
	return store_commit(db);
}

/* {"endpoints":[…]} in their one spelling, which has nothing to escape.  The caller frees it. */
static char *
endpoints_json(const char *const *endpoints, size_t n, struct refusal *r)
{
	struct endpoint e;
	char *json = NULL;
	size_t i, len;
	FILE *out;

	if ((out = open_memstream(&json, &len)) == NULL) {
		refusal_errno(r, "store.failed", "the list of endpoints");
		return NULL;
	}
	fputs("{\"endpoints\":[", out);
	for (i = 0; i < n; i++) {
		if (endpoint_parse(endpoints[i], strlen(endpoints[i]), &e, r) != 0) {
			fclose(out);
			free(json);
			snprintf(r->code, sizeof(r->code), "order.endpoint");
			return NULL;
		}
		fprintf(out, "%s\"%s\"", i == 0 ? "" : ",", e.text);
	}
	fputs("]}", out);
	if (fclose(out) != 0) {
		free(json);
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	return json;
}

int
order_rotate(struct store *db, const char *box, const char *const *endpoints, size_t n,
    int64_t ttl_ms, int64_t *id)
{
	char *more;
	int rc;

	if ((more = endpoints_json(endpoints, n, store_refusal(db))) == NULL)
		return -1;
	rc = order_write(db, box, "rotate", more, ttl_ms, id);
	free(more);
	return rc;
}

int
order_contain(struct store *db, const char *box, const struct order_process *process,
    int64_t ttl_ms, int64_t *id)
{
	struct stmt *q;
	char *more;
	int rc;

	if ((q = store_sql(db, PROCESS)) == NULL)
		return -1;
	stmt_int(q, ":pid", process->pid);
	stmt_text(q, ":exe", process->exe);
	stmt_int(q, ":agent", process->agent);
	if (stmt_step(q) != 1)
		return -1;
	more = strdup(stmt_get_text(q, 0));
	stmt_done(q);
	if (more == NULL)
		return refusal_set(store_refusal(db), "store.failed", "out of memory");
	rc = order_write(db, box, "contain", more, ttl_ms, id);
	free(more);
	return rc;
}

int
order_withdraw(struct store *db, int64_t id)
{
	struct stmt *q;
	int64_t open;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, STATE)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	if ((open = stmt_value(q, -1)) != 1) {
		refusal_set(store_refusal(db), open == 0 ? "order.decided" : "order.unknown",
		    open == 0 ? "this order is over already" : "there is no order of this number");
		return store_rollback(db);
	}
	if ((q = store_sql(db, WITHDRAW)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}
