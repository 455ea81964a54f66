/* pairing.c: add, take back and find pairings. */
#include <stdio.h>
#include <string.h>

#include "engine/state/pairing.h"

static const char INSERT[] =
    "INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
    " VALUES (:host, 'unix', :key, :uid, 'active', now_ms()) RETURNING id";

/* A name has one row for good; what was revoked comes back by way of pending. */
static const char REVIVE[] =
    "UPDATE pairing SET state = 'pending', host_key = :key, peer_uid = :uid, since = now_ms(),"
    " ended_at = NULL WHERE host_name = :host AND state = 'revoked' RETURNING id";

static const char ACTIVATE[] = "UPDATE pairing SET state = 'active' WHERE id = :id";

static const char COUNT[] =
    "SELECT p.id,"
    " (SELECT count(*) FROM grant WHERE pairing_id = p.id AND state = 'active'),"
    " (SELECT count(*) FROM approval WHERE pairing_id = p.id AND state = 'pending'),"
    " (SELECT count(*) FROM op_run WHERE pairing_id = p.id AND state = 'queued'"
    "   AND finished_at IS NULL)"
    " FROM pairing AS p WHERE p.host_name = :host AND p.state <> 'revoked'";

static const char REVOKE[] =
    "UPDATE pairing SET state = 'revoked', ended_at = now_ms() WHERE id = :id";

static const char FIND[] =
    "SELECT p.id, p.host_name, p.host_key, p.peer_uid, s.state FROM pairing AS p"
    "  JOIN pairing_status AS s ON s.id = p.id WHERE p.host_key = :key AND p.state <> 'revoked'";

/* Run REVIVE or INSERT; 1 with ${*id}, 0 if no row was changed, or -1. */
static int
pairing_write(struct store *db, const char *sql, const char *host, const unsigned char *key,
    int64_t uid, int64_t *id)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, sql)) == NULL)
		return -1;
	stmt_text(q, ":host", host);
	stmt_blob(q, ":key", key, 32);
	stmt_int(q, ":uid", uid);
	if ((rc = stmt_step(q)) != 1)
		return rc;
	*id = stmt_get_int(q, 0);
	return stmt_run(q) == 0 ? 1 : -1;
}

/* Within a transaction: make the pairing, or make it again. */
static int
pairing_enter(
    struct store *db, const char *host, const unsigned char *key, int64_t uid, int64_t *id)
{
	struct stmt *q;
	int revived;

	if ((revived = pairing_write(db, REVIVE, host, key, uid, id)) == -1)
		return -1;
	if (revived == 0)
		return pairing_write(db, INSERT, host, key, uid, id) == 1 ? 0 : -1;
	if ((q = store_sql(db, ACTIVATE)) == NULL)
		return -1;
	stmt_int(q, ":id", *id);
	return stmt_run_one(q);
}

int
pairing_check(
    struct store *db, const char *host, const unsigned char host_key[32], int64_t peer_uid)
{
	int64_t id;
	int rc;

	if (store_begin(db) != 0)
		return -1;
	rc = pairing_enter(db, host, host_key, peer_uid, &id);
	store_rollback(db);
	return rc;
}

int
pairing_add(struct store *db, const char *host, const unsigned char host_key[32], int64_t peer_uid,
    int64_t *id)
{
	if (store_begin(db) != 0)
		return -1;
	if (pairing_enter(db, host, host_key, peer_uid, id) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/* Find the pairing of ${host} and what hangs on it; its id, or -1. */
static int64_t
pairing_count(struct store *db, const char *host, struct pairing_end *end)
{
	struct stmt *q;
	int64_t id;
	int rc;

	if ((q = store_sql(db, COUNT)) == NULL)
		return -1;
	stmt_text(q, ":host", host);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "pairing.unknown",
				      "no Host of this name is paired here");
	id = stmt_get_int(q, 0);
	end->grants = stmt_get_int(q, 1);
	end->questions = stmt_get_int(q, 2);
	end->runs = stmt_get_int(q, 3);
	stmt_done(q);
	return id;
}

int
pairing_revoke(struct store *db, const char *host, struct pairing_end *end)
{
	struct stmt *q;
	int64_t id;

	if (store_begin(db) != 0)
		return -1;
	if ((id = pairing_count(db, host, end)) == -1 || (q = store_sql(db, REVOKE)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
pairing_find(struct store *db, const unsigned char host_key[32], struct pairing *pairing)
{
	const void *key;
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, FIND)) == NULL)
		return -1;
	stmt_blob(q, ":key", host_key, 32);
	if ((rc = stmt_step(q)) != 1)
		return rc;
	pairing->id = stmt_get_int(q, 0);
	snprintf(pairing->host, sizeof(pairing->host), "%s", stmt_get_text(q, 1));
	if ((key = stmt_get_blob(q, 2, 32)) != NULL)
		memcpy(pairing->host_key, key, 32);
	pairing->peer_uid = stmt_get_int(q, 3);
	snprintf(pairing->state, sizeof(pairing->state), "%s", stmt_get_text(q, 4));
	stmt_done(q);
	return 1;
}
