/* bundle.c: the rows of copies from afar. */
#include <inttypes.h>

#include "engine/state/bundle.h"
#include "engine/state/session.h"

static const char FIND[] =
    "SELECT id FROM remote_bundles WHERE folder = :folder AND name = :name AND state = 'open'"
    "   AND credential_id = :credential AND size = :size AND sha256 = :sha256";
static const char ADD[] =
    "INSERT INTO remote_bundle (credential_id, name, folder, size, sha256, program, generation, asked_at)"
    " VALUES (:credential, :name, :folder, :size, :sha256, :program,"
    "  coalesce((SELECT max(generation) FROM remote_bundle WHERE folder = :folder AND name = :name), 0) + 1,"
    "  now_ms())";
static const char LAST[] = "SELECT max(id) FROM remote_bundle";
static const char AT[] = "SELECT received, size, coalesce(session_id, 0) FROM remote_bundle"
			 " WHERE id = :id AND credential_id = :credential";
static const char GROW[] = "UPDATE remote_bundle SET received = received + :len WHERE id = :id";

static void
bind(struct stmt *q, const struct bundle_ask *ask)
{
	stmt_int(q, ":credential", ask->credential);
	stmt_text(q, ":name", ask->name);
	stmt_text(q, ":folder", ask->folder);
	stmt_text(q, ":sha256", ask->sha256);
	stmt_int(q, ":size", ask->size);
}

int64_t
bundle_ask(struct store *db, const struct bundle_ask *ask)
{
	struct stmt *q;
	int64_t id;
	int n;

	if ((q = store_sql(db, FIND)) == NULL)
		return -1;
	bind(q, ask);
	if ((n = stmt_step(q)) == 1) {
		id = stmt_get_int(q, 0);
		stmt_done(q);
		return id;
	}
	if (n == -1 || (q = store_sql(db, ADD)) == NULL)
		return -1;
	bind(q, ask);
	stmt_text(q, ":program", ask->program);
	/* Its trigger makes rows of its own, so the last one of all is not it. */
	return stmt_run(q) == 0 && (q = store_sql(db, LAST)) != NULL ? stmt_value(q, 0) : -1;
}

int
bundle_take(
    struct store *db, int64_t credential, int64_t id, int64_t at, const void *data, size_t len)
{
	int64_t received, size, session;
	struct stmt *q;
	int n;

	if ((q = store_sql(db, AT)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_int(q, ":credential", credential);
	if ((n = stmt_step(q)) != 1)
		return n == -1 ? -1
			       : refusal_set(store_refusal(db), "bundle.unknown",
				     "this credential copies nothing of this number");
	received = stmt_get_int(q, 0);
	size = stmt_get_int(q, 1);
	session = stmt_get_int(q, 2);
	stmt_done(q);
	if (at != received)
		return refusal_set(store_refusal(db), "bundle.offset",
		    "the first %" PRId64 " bytes are here, and the next begin there", received);
	if ((q = store_sql(db, GROW)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_int(q, ":len", (int64_t)len);
	if (stmt_run(q) != 0 || session_send(db, session, "data", data, len) != 0)
		return -1;
	return received + (int64_t)len == size ? session_send(db, session, "end", "", 0) : 0;
}
