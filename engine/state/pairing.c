/* pairing.c: add, renew, take back and find pairings. */
#include <stdio.h>
#include <string.h>

#include "engine/state/pairing.h"
#include "engine/state/tls_identity.h"

static const char CONSENT[] =
    "INSERT INTO pairing_consent (host_name, host_key, answer, by_uid, at)"
    " VALUES (:host, :key, :answer, :by, now_ms())";

static const char INSERT[] =
    "INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
    " VALUES (:host, :transport, :key, :uid,"
    "    iif(EXISTS (SELECT 1 FROM anchor), 'pending', 'active'), now_ms()) RETURNING id";

/* A name has one row for good; what was revoked comes back by way of pending. */
static const char REVIVE[] =
    "UPDATE pairing SET state = 'pending', host_key = :key, transport = :transport, peer_uid = :uid,"
    " since = now_ms(),"
    " ended_at = NULL, renewed_at = NULL, terms_id = NULL"
    " WHERE host_name = :host AND state = 'revoked' RETURNING id";

static const char ACTIVATE[] = "UPDATE pairing SET state = 'active' WHERE id = :id"
			       " AND state = 'pending' AND NOT EXISTS (SELECT 1 FROM anchor)";

static const char RENEW[] = "UPDATE pairing SET peer_uid = :uid, transport = :transport,"
			    " renewed_at = now_ms()"
			    " WHERE host_name = :host AND host_key = :key AND state <> 'revoked'"
			    " RETURNING id";

static const char SOCKET[] = "INSERT INTO pairing_socket (pairing_id, path) VALUES (:id, :path)"
			     " ON CONFLICT (pairing_id) DO UPDATE SET path = excluded.path";

static const char TAKEN[] = "SELECT count(*) FROM pairing WHERE host_name = :host"
			    " AND state <> 'revoked'";

/* The name, or the key, of a Host that is paired here, with another authority than it had. */
static const char PINNED_OTHER[] =
    "SELECT count(*) FROM pairing AS p JOIN pairing_tls AS t ON t.pairing_id = p.id"
    " WHERE p.state <> 'revoked' AND p.host_name = :host AND t.fp <> :fp";

static const char PIN[] = "INSERT INTO pairing_tls (pairing_id, authority, fp, pinned_at)"
			  " VALUES (:id, :authority, :fp, now_ms()) ON CONFLICT DO NOTHING";

static const char REACH[] =
    "INSERT INTO pairing_endpoint (pairing_id, ord, endpoint) VALUES (:id, :ord, :endpoint)";

static const char PINNED[] =
    "SELECT p.host_name, t.fp = :fp FROM pairing AS p JOIN pairing_tls AS t ON t.pairing_id = p.id"
    " WHERE p.state <> 'revoked' AND (t.fp = :fp OR EXISTS (SELECT 1 FROM pairing_endpoint AS e"
    "   WHERE e.pairing_id = p.id AND e.endpoint = :endpoint))"
    " ORDER BY t.fp = :fp DESC LIMIT 1";

/* The first Host of a machine on a network; not one of several, which a person would have to name.
 */
static const char FIRST[] =
    "INSERT INTO anchor (id, pairing_id, host_key, reason, claimed_at, by_uid, heard_at)"
    " SELECT 1, id, host_key, 'paired', now_ms(), :by, now_ms() FROM pairing"
    "  WHERE id = :id AND :by = 0 AND (SELECT mode FROM box) = 'networked'"
    "    AND NOT EXISTS (SELECT 1 FROM anchor)"
    "    AND (SELECT count(*) FROM pairing WHERE state <> 'revoked') = 1 RETURNING id";

static const char STATE[] = "SELECT state FROM pairing WHERE id = :id";

static const char COUNT[] =
    "SELECT (SELECT count(*) FROM grant WHERE pairing_id = p.id AND state = 'active'),"
    " (SELECT count(*) FROM approval WHERE pairing_id = p.id AND state = 'pending'),"
    " (SELECT count(*) FROM op_run WHERE pairing_id = p.id AND state = 'queued'"
    "   AND finished_at IS NULL),"
    " p.id IS (SELECT pairing_id FROM anchor)"
    " FROM pairing AS p WHERE p.id = :id AND p.state <> 'revoked'";

static const char REVOKE[] =
    "UPDATE pairing SET state = 'revoked', ended_at = now_ms() WHERE id = :id";

static const char FIND[] =
    "SELECT p.id, p.host_name, p.host_key, coalesce(p.peer_uid, -1), s.state,"
    "       coalesce(s.reason, ''), p.transport"
    "  FROM pairing AS p JOIN pairing_status AS s ON s.id = p.id"
    " WHERE p.host_key = :key AND p.state <> 'revoked'";

/* What stands before what was revoked. */
static const char PICK[] =
    "SELECT s.id, s.host, p.host_key, coalesce(s.peer_uid, -1), s.state, s.reason, p.transport"
    "  FROM pairing_status AS s JOIN pairing AS p ON p.id = s.id"
    " WHERE CASE WHEN :name IS NULL THEN p.state <> 'revoked'"
    "            WHEN EXISTS (SELECT 1 FROM pairing WHERE host_name = :name) THEN s.host = :name"
    "            ELSE s.handle = :name END"
    " ORDER BY p.state = 'revoked', s.host";

/* Run a statement over ${offer} that returns an id: 1 with it in ${*id}, 0 if it did nothing, -1.
 */
static int
offer_write(struct store *db, const char *sql, const struct pairing_offer *offer, int64_t *id)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, sql)) == NULL)
		return -1;
	stmt_text(q, ":host", offer->host);
	stmt_blob(q, ":key", offer->host_key, 32);
	stmt_text(q, ":transport", offer->transport == NULL ? "unix" : offer->transport);
	if (offer->transport == NULL)
		stmt_int(q, ":uid", offer->peer_uid);
	if ((rc = stmt_step(q)) != 1)
		return rc;
	*id = stmt_get_int(q, 0);
	return stmt_run(q) == 0 ? 1 : -1;
}

/* A person's word that a second Host may ask; the schema says what is one. */
static int
consent_write(struct store *db, const struct pairing_offer *offer)
{
	struct stmt *q;

	if ((q = store_sql(db, CONSENT)) == NULL)
		return -1;
	stmt_text(q, ":host", offer->host);
	stmt_blob(q, ":key", offer->host_key, 32);
	stmt_text(q, ":answer", offer->answer);
	stmt_int(q, ":by", offer->by_uid);
	return stmt_run_one(q);
}

/* Whether this is another Host under the name of one that is here. */
static int
offer_authority(struct store *db, const struct pairing_offer *offer)
{
	struct stmt *q;

	if (offer->transport == NULL)
		return 0;
	if ((q = store_sql(db, PINNED_OTHER)) == NULL)
		return -1;
	stmt_text(q, ":host", offer->host);
	stmt_blob(q, ":fp", offer->authority_fp, CERT_FP_SIZE);
	return stmt_value(q, -1) == 0
		   ? 0
		   : refusal_set(store_refusal(db), "pairing.authority",
			 "a Host of this name is paired here with another authority");
}

static int
offer_socket(struct store *db, const struct pairing_offer *offer, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(db, SOCKET)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text(q, ":path", offer->socket);
	return stmt_run(q);
}

/* What a pairing over a network is made of, once the Host has certified this machine. */
static int
offer_network(struct store *db, const struct pairing_offer *offer, int64_t id)
{
	struct stmt *q;
	unsigned i;

	if (offer->transport == NULL && offer->socket != NULL)
		return offer_socket(db, offer, id);
	if (offer->authority.data == NULL)
		return 0;
	if ((q = store_sql(db, PIN)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_blob(q, ":authority", offer->authority.data, offer->authority.len);
	stmt_blob(q, ":fp", offer->authority_fp, CERT_FP_SIZE);
	if (stmt_run(q) != 0)
		return -1;
	for (i = 0; i < offer->nendpoints; i++) {
		if ((q = store_sql(db, REACH)) == NULL)
			return -1;
		stmt_int(q, ":id", id);
		stmt_int(q, ":ord", i + 1);
		stmt_text(q, ":endpoint", offer->endpoint[i]);
		if (stmt_run_one(q) != 0)
			return -1;
	}
	return tls_identity_keep(db, offer->wire, "client", id, &offer->cert, &offer->key);
}

static int
offer_renew(struct store *db, const struct pairing_offer *offer, int64_t *id)
{
	struct stmt *q;
	int rc;

	if ((rc = offer_write(db, RENEW, offer, id)) != 0)
		return rc == 1 ? offer_network(db, offer, *id) : -1;
	if ((q = store_sql(db, TAKEN)) == NULL)
		return -1;
	stmt_text(q, ":host", offer->host);
	if (stmt_value(q, 0) > 0)
		return refusal_set(store_refusal(db), "pairing.key",
		    "a Host of this name is paired here with another key");
	return refusal_set(store_refusal(db), "pairing.unknown",
	    "no Host of this name is paired here, so there is none to replace");
}

/* Whether all is there that a pairing is served with; pairing_check has it before the Host gave it.
 */
static bool
offer_is_whole(const struct pairing_offer *offer)
{
	return offer->transport == NULL || offer->authority.data != NULL;
}

/* A new row, or the old one of this name again. */
static int
offer_enter(struct store *db, const struct pairing_offer *offer, int64_t *id)
{
	struct stmt *q;
	int revived;

	if (offer->answer != NULL && consent_write(db, offer) != 0)
		return -1;
	if ((revived = offer_write(db, REVIVE, offer, id)) == -1)
		return -1;
	if (revived == 0)
		return offer_write(db, INSERT, offer, id) == 1 ? offer_network(db, offer, *id) : -1;
	/* It is not active before it is whole. */
	if (offer_network(db, offer, *id) != 0)
		return -1;
	if (!offer_is_whole(offer))
		return 0;
	if ((q = store_sql(db, ACTIVATE)) == NULL)
		return -1;
	stmt_int(q, ":id", *id);
	return stmt_run(q);
}

/* Where it is the first on a network, make it the anchor. */
static int
offer_anchor(struct store *db, const struct pairing_offer *offer, struct pairing_made *made)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, FIRST)) == NULL)
		return -1;
	stmt_int(q, ":id", made->id);
	stmt_int(q, ":by", offer->by_uid);
	if ((rc = stmt_step(q)) != 1)
		return rc;
	made->anchor = true;
	return stmt_run(q);
}

/* Within a transaction: make the pairing, make it again, or renew it. */
static int
offer_take(struct store *db, const struct pairing_offer *offer, struct pairing_made *made)
{
	struct stmt *q;

	if (offer_authority(db, offer) != 0)
		return -1;
	if ((offer->replace ? offer_renew(db, offer, &made->id)
			    : offer_enter(db, offer, &made->id)) != 0)
		return -1;
	made->anchor = false;
	if (!offer->replace && offer_is_whole(offer) && offer_anchor(db, offer, made) != 0)
		return -1;
	if ((q = store_sql(db, STATE)) == NULL)
		return -1;
	stmt_int(q, ":id", made->id);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(made->state, sizeof(made->state), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 0;
}

int
pairing_check(struct store *db, const struct pairing_offer *offer)
{
	struct pairing_made made;
	int rc;

	if (store_begin(db) != 0)
		return -1;
	rc = offer_take(db, offer, &made);
	store_rollback(db);
	return rc;
}

int
pairing_add(struct store *db, const struct pairing_offer *offer, struct pairing_made *made)
{
	if (store_begin(db) != 0)
		return -1;
	if (offer_take(db, offer, made) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
pairing_pinned(
    struct store *db, const uint8_t authority_fp[CERT_FP_SIZE], const char *endpoint, char host[65])
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, PINNED)) == NULL)
		return -1;
	stmt_blob(q, ":fp", authority_fp, CERT_FP_SIZE);
	stmt_text(q, ":endpoint", endpoint);
	if ((rc = stmt_step(q)) != 1)
		return rc;
	snprintf(host, 65, "%s", stmt_get_text(q, 0));
	rc = stmt_get_int(q, 1) == 1
		 ? refusal_set(
		       store_refusal(db), "pairing.exists", "this Host is already paired here")
		 : refusal_set(store_refusal(db), "pairing.authority",
		       "the Host of this place is paired here with another authority");
	stmt_done(q);
	return rc;
}

/* What hangs on the pairing ${id}. */
static int
pairing_count(struct store *db, int64_t id, struct pairing_end *end)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, COUNT)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "pairing.unknown",
				      "no Host of this name is paired here");
	end->grants = stmt_get_int(q, 0);
	end->questions = stmt_get_int(q, 1);
	end->runs = stmt_get_int(q, 2);
	end->anchor = stmt_get_int(q, 3) != 0;
	stmt_done(q);
	return 0;
}

int
pairing_revoke(struct store *db, int64_t id, struct pairing_end *end)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if (pairing_count(db, id, end) == -1 || (q = store_sql(db, REVOKE)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}

static void
pairing_read(struct stmt *q, struct pairing *pairing)
{
	const void *key;

	pairing->id = stmt_get_int(q, 0);
	snprintf(pairing->host, sizeof(pairing->host), "%s", stmt_get_text(q, 1));
	if ((key = stmt_get_blob(q, 2, 32)) != NULL)
		memcpy(pairing->host_key, key, 32);
	pairing->peer_uid = stmt_get_int(q, 3);
	snprintf(pairing->state, sizeof(pairing->state), "%s", stmt_get_text(q, 4));
	snprintf(pairing->reason, sizeof(pairing->reason), "%s", stmt_get_text(q, 5));
	snprintf(pairing->transport, sizeof(pairing->transport), "%s", stmt_get_text(q, 6));
}

int
pairing_find(struct store *db, const unsigned char host_key[32], struct pairing *pairing)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, FIND)) == NULL)
		return -1;
	stmt_blob(q, ":key", host_key, 32);
	if ((rc = stmt_step(q)) != 1)
		return rc;
	pairing_read(q, pairing);
	stmt_done(q);
	return 1;
}

/* Refuse with the names of all that ${q} still has to give, after the one in ${first}. */
static int
pairing_several(struct store *db, struct stmt *q, const struct pairing *first)
{
	char names[400];
	size_t n;

	n = (size_t)snprintf(names, sizeof(names), "%s, %s", first->host, stmt_get_text(q, 1));
	while (stmt_step(q) == 1 && strcmp(stmt_get_text(q, 4), "revoked") != 0) {
		if (n + 68 > sizeof(names)) {
			snprintf(names + n, sizeof(names) - n, " and more");
			break;
		}
		n += (size_t)snprintf(names + n, sizeof(names) - n, ", %s", stmt_get_text(q, 1));
	}
	stmt_done(q);
	return refusal_set(
	    store_refusal(db), "pairing.several", "more than one Host could be meant: %s", names);
}

int
pairing_pick(struct store *db, const char *name, struct pairing *pairing)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, PICK)) == NULL)
		return -1;
	stmt_text(q, ":name", name);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "pairing.unknown",
				      name == NULL ? "no Host is paired here: pair one first"
						   : "no Host of this name is paired here");
	pairing_read(q, pairing);
	if ((rc = stmt_step(q)) == 1 && strcmp(stmt_get_text(q, 4), "revoked") != 0)
		return pairing_several(db, q, pairing);
	if (rc == 1)
		stmt_done(q);
	return rc == -1 ? -1 : 0;
}
