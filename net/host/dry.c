/* dry.c: decide, look at what was decided, and undo it. */
#include <stdio.h>
#include <string.h>

#include "net/host/dry.h"

static const char GRANT[] = "SELECT grant_id FROM op_run WHERE id = :run";

static const char ALLOWED[] =
    "SELECT json_object('r', json_object('dry', 'allowed', 'grant', id, 'left', uses - used,"
    "    'expires_at', expires_at)) || char(10) || json_object('x', 0) || char(10)"
    "  FROM live_grants WHERE id = :grant";

/* Which rule it is: the trigger that says so, where one does, and rather one that says it in these
 * words. */
static const char HELD[] =
    "SELECT json_object('r', json_patch('{}', json_object('dry', iif(asks, 'approval', 'refused'),"
    "    'code', code, 'why', iif(asks, 'a person would be asked first', :why), 'advice', advice,"
    "    'rule', (SELECT coalesce(min(name) FILTER (WHERE instr(sql, '|' || :why) > 0), min(name))"
    "               FROM sqlite_schema WHERE type = 'trigger'"
    "                AND instr(sql, '''' || code || '|') > 0)))) || char(10)"
    "  || json_object('x', iif(asks, 77, 126)) || char(10)"
    "  FROM (SELECT code, advice, code = 'approval.needed' AS asks FROM refusal"
    "         WHERE code = :code)";

static int
answer_make(struct store *db, int64_t grant, const struct refusal *held, char answer[DRY_MAX])
{
	struct stmt *q;
	int n;

	if ((q = store_sql(db, grant != 0 ? ALLOWED : HELD)) == NULL)
		return -1;
	if (grant != 0) {
		stmt_int(q, ":grant", grant);
	} else {
		stmt_text(q, ":code", held->code);
		stmt_text(q, ":why", held->why);
	}
	if ((n = stmt_step(q)) != 1)
		return n == 0 ? refusal_set(store_refusal(db), "store.failed", "%s", held->why)
			      : -1;
	snprintf(answer, DRY_MAX, "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

int
dry_ask(
    struct store *db, int (*decide)(struct store *db, void *ctx), void *ctx, char answer[DRY_MAX])
{
	struct refusal held = {.code = ""};
	int64_t grant = 0;
	struct stmt *q;

	if (store_savepoint(db) != 0)
		return -1;
	if (decide(db, ctx) != 0) {
		held = *store_refusal(db);
	} else if ((q = store_sql(db, GRANT)) != NULL) {
		stmt_int(q, ":run", store_last_id(db));
		grant = stmt_value(q, 0);
	}
	store_undo(db);
	return answer_make(db, grant, &held, answer);
}
