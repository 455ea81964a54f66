/* tool_grant.c: rows of tool_grant. */
#include <stdio.h>
#include <string.h>

#include "engine/policy/tool_grant.h"

static const char GIVE[] =
    "INSERT INTO tool_grant (tool, scope_kind, scope, decision, max_autonomy, reason, approved_at,"
    "    seal)"
    " VALUES (:tool, :kind, :scope, :decision, :autonomy, :reason, now_ms(),"
    "    seal_sign('tool_grant', json_array('tool_grant', :tool, :kind, :scope, :decision,"
    "        :autonomy, now_ms())))";

static const char REVOKE[] = "UPDATE tool_grant SET state = 'revoked', ended_at = now_ms()"
			     " WHERE state = 'active' AND (:tool IS NULL OR tool = :tool)"
			     "   AND (:scope IS NULL OR scope = :scope) RETURNING id";

int
tool_grant_scope(const char *base, const char *path, char out[PLACE_MAX])
{
	char at[PLACE_MAX];

	if (path[0] == '\0' || place_join(base, path, at) != 0)
		return -1;
	/* What cannot be followed is kept by its text: a deny must not get lost by that. */
	if (place_resolve(at, NULL, out) > PLACE_MISSING)
		return place_clean(at, out);
	return 0;
}

static int
path_refused(struct store *db)
{
	return refusal_set(
	    store_refusal(db), "tool_grant.path", "an empty path names no file and no directory");
}

/* Without the blanks around it. */
static void
tool_trim(const char *tool, char out[160])
{
	size_t n;

	tool += strspn(tool, " \t\r\n");
	for (n = strlen(tool); n > 0 && strchr(" \t\r\n", tool[n - 1]) != NULL; n--)
		;
	snprintf(out, 160, "%.*s", (int)(n < 159 ? n : 159), tool);
}

int
tool_grant_give(
    struct store *db, const struct tool_grant_terms *terms, const char *base, int64_t *id)
{
	char scope[PLACE_MAX] = "", real[PLACE_MAX], tool[160];
	const char *kind = "";
	struct stmt *q;

	if (terms->path != NULL) {
		if (tool_grant_scope(base, terms->path, scope) != 0)
			return path_refused(db);
		kind = terms->kind != NULL            ? terms->kind
		       : place_directory(scope, real) ? "dir"
						      : "file";
	}
	tool_trim(terms->tool, tool);
	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, GIVE)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":tool", tool);
	stmt_text(q, ":kind", kind);
	stmt_text(q, ":scope", scope);
	stmt_text(q, ":decision", terms->decision);
	stmt_text(q, ":autonomy", terms->autonomy == NULL ? "low" : terms->autonomy);
	stmt_text(q, ":reason", terms->reason == NULL ? "" : terms->reason);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	*id = store_last_id(db);
	return store_commit(db);
}

int
tool_grant_revoke(
    struct store *db, const char *tool, const char *path, const char *base, int64_t *count)
{
	char scope[PLACE_MAX], plain[160];
	struct stmt *q;
	int rc;

	if (path != NULL && tool_grant_scope(base, path, scope) != 0)
		return path_refused(db);
	if (tool != NULL)
		tool_trim(tool, plain);
	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, REVOKE)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":tool", tool == NULL ? NULL : plain);
	stmt_text(q, ":scope", path == NULL ? NULL : scope);
	*count = 0;
	while ((rc = stmt_step(q)) == 1)
		++*count;
	return rc == 0 ? store_commit(db) : store_rollback(db);
}
