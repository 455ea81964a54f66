/* anchor.c: take what the anchor signed; claim the anchor, and move it. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "engine/state/anchor.h"
#include "engine/state/pairing.h"

#define DAY_MS INT64_C(86400000)

/* Who signed and whom it is about are looked up here and held by the triggers. */
static const char TAKE[] =
    "INSERT INTO anchor_terms (terms, signature, signer, pairing_id, taken_at)"
    " VALUES (:terms, :signature, (SELECT host_key FROM anchor),"
    "    coalesce((SELECT id FROM pairing WHERE host_name ="
    "              CASE WHEN json_valid(:terms) THEN :terms ->> '$.subject' END), 0), now_ms())";

static const char TAKEN[] = "SELECT t.kind, p.host_name, p.state FROM anchor_terms AS t"
			    "  JOIN pairing AS p ON p.id = t.pairing_id WHERE t.id = :id";

static const char MODE[] = "SELECT mode = 'networked' FROM box";

static const char PRESENT[] =
    "SELECT p.id, p.host_name, a.owner, a.reason, a.heard_at, s.active, p.host_key = a.host_key"
    "  FROM anchor AS a JOIN pairing AS p ON p.id = a.pairing_id"
    "  JOIN pairing_status AS s ON s.id = p.id";

static const char CLAIM[] =
    "INSERT INTO anchor (id, pairing_id, host_key, owner, reason, claimed_at, by_uid, heard_at)"
    " SELECT 1, id, host_key, coalesce(:owner, ''), 'claimed', now_ms(), :by, now_ms()"
    "   FROM pairing WHERE id = :pairing";

/* The newest consent to the Host that the present anchor gave since it has been that. */
static const char CONSENTED[] =
    "SELECT max(t.id) FROM anchor_terms AS t JOIN anchor AS a ON a.host_key = t.signer"
    " WHERE t.kind = 'anchor_consent' AND t.pairing_id = :pairing AND t.expires_at > now_ms()"
    "   AND t.id > coalesce(a.terms_id, 0)";

static const char MOVE[] =
    "UPDATE anchor SET pairing_id = :pairing,"
    "    host_key = (SELECT host_key FROM pairing WHERE id = :pairing),"
    "    owner = coalesce(:owner, owner), by_uid = :by, claimed_at = now_ms(), heard_at = now_ms(),"
    "    reason = iif(:consent > 0, 'consent', 'silent'),"
    "    terms_id = iif(:consent > 0, :consent, terms_id)";

static int
terms_insert(struct store *db, const struct anchor_signed *given, struct anchor_taken *taken)
{
	struct stmt *q;
	int64_t id;

	if ((q = store_sql(db, TAKE)) == NULL)
		return -1;
	stmt_text_n(q, ":terms", given->terms, given->len);
	stmt_blob(q, ":signature", given->signature, sizeof(given->signature));
	if (stmt_run_one(q) != 0)
		return -1;
	id = store_last_id(db);
	if ((q = store_sql(db, TAKEN)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if (stmt_step(q) != 1)
		return -1;
	snprintf(taken->kind, sizeof(taken->kind), "%s", stmt_get_text(q, 0));
	snprintf(taken->host, sizeof(taken->host), "%s", stmt_get_text(q, 1));
	snprintf(taken->state, sizeof(taken->state), "%s", stmt_get_text(q, 2));
	stmt_done(q);
	return 0;
}

int
anchor_take(struct store *db, const struct anchor_signed *given, struct anchor_taken *taken)
{
	if (sqlite3_get_autocommit(store_handle(db)) == 0)
		return terms_insert(db, given, taken);
	if (store_begin(db) != 0)
		return -1;
	if (terms_insert(db, given, taken) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/* The anchor that there is. */
struct present {
	int64_t pairing, heard_at; /* pairing 0: none */
	char host[65], owner[ANCHOR_OWNER_MAX + 1], reason[16];
	bool active, same_key; /* its pairing, and whether that still has the anchor's key */
};

static int
present_read(struct store *db, struct present *at)
{
	struct stmt *q;
	int rc;

	memset(at, 0, sizeof(*at));
	if ((q = store_sql(db, PRESENT)) == NULL || (rc = stmt_step(q)) == -1)
		return -1;
	if (rc == 0)
		return 0;
	at->pairing = stmt_get_int(q, 0);
	snprintf(at->host, sizeof(at->host), "%s", stmt_get_text(q, 1));
	snprintf(at->owner, sizeof(at->owner), "%s", stmt_get_text(q, 2));
	snprintf(at->reason, sizeof(at->reason), "%s", stmt_get_text(q, 3));
	at->heard_at = stmt_get_int(q, 4);
	at->active = stmt_get_int(q, 5) != 0;
	at->same_key = stmt_get_int(q, 6) != 0;
	stmt_done(q);
	return 0;
}

static int
already_held(struct store *db, const struct present *at)
{
	return refusal_set(store_refusal(db), "anchor.held",
	    "this machine is already anchored to %s; --rotate moves it, with that Host's consent or"
	    " after %" PRId64 " days of its silence",
	    at->host, store_setting(db, "anchor.silent_ms") / DAY_MS);
}

static int
made_fill(const struct present *at, bool changed, struct anchor_made *made)
{
	snprintf(made->host, sizeof(made->host), "%s", at->host);
	snprintf(made->owner, sizeof(made->owner), "%s", at->owner);
	snprintf(made->reason, sizeof(made->reason), "%s", at->reason);
	made->changed = changed;
	return 0;
}

/* A claim that may not move the anchor is good for nothing but what is so already. */
static int
claim_again(struct store *db, const struct anchor_claim *claim, const struct present *at,
    struct anchor_made *made)
{
	struct pairing meant;

	if (!at->active || !at->same_key)
		return already_held(db, at);
	if (claim->host != NULL &&
	    (pairing_pick(db, claim->host, &meant) != 0 || meant.id != at->pairing))
		return already_held(db, at);
	return made_fill(at, false, made);
}

/* The Host that is meant, which must be one that can be served. */
static int
claim_pick(struct store *db, const char *host, struct pairing *pairing)
{
	struct refusal *r = store_refusal(db);

	if (pairing_pick(db, host, pairing) != 0)
		return -1;
	if (strcmp(pairing->state, "invalid") == 0)
		return refusal_set(r, "pairing.invalid",
		    "the record of %s in this machine's database cannot be served: %s",
		    pairing->host, pairing->reason);
	if (strcmp(pairing->state, "revoked") == 0)
		return refusal_set(
		    r, "anchor.revoked", "%s is no longer paired here", pairing->host);
	return 0;
}

/* The consent that lets ${pairing} take over; 0 after silence alone; -1 where neither holds. */
static int64_t
rotation_ground(struct store *db, const struct present *at, const struct pairing *pairing)
{
	int64_t silent = store_setting(db, "anchor.silent_ms"), consent;
	struct stmt *q;

	if ((q = store_sql(db, CONSENTED)) == NULL)
		return -1;
	stmt_int(q, ":pairing", pairing->id);
	if ((consent = stmt_value(q, -1)) != 0)
		return consent;
	if (at->heard_at + silent <= store_now(db))
		return 0;
	refusal_set(store_refusal(db), "anchor.silence",
	    "%s neither consented to %s nor has been silent for %" PRId64 " days", at->host,
	    pairing->host, silent / DAY_MS);
	store_refusal(db)->retry_at = at->heard_at + silent;
	return -1;
}

static int
claim_write(struct store *db, const struct anchor_claim *claim, const struct present *at,
    const struct pairing *pairing)
{
	int64_t consent = 0;
	struct stmt *q;

	if (at->pairing != 0 && (consent = rotation_ground(db, at, pairing)) == -1)
		return -1;
	if ((q = store_sql(db, at->pairing == 0 ? CLAIM : MOVE)) == NULL)
		return -1;
	stmt_int(q, ":pairing", pairing->id);
	stmt_int(q, ":by", claim->by_uid);
	stmt_text(q, ":owner", claim->owner);
	if (at->pairing != 0)
		stmt_int(q, ":consent", consent);
	return stmt_run_one(q);
}

/* Within a transaction, in the order that anchor.h gives; the triggers say most of it again. */
static int
claim_make(struct store *db, const struct anchor_claim *claim, struct anchor_made *made)
{
	struct anchor_taken taken;
	struct pairing pairing;
	struct present at;

	if (claim->by_uid != 0)
		return refusal_set(store_refusal(db), "box.authority",
		    "the anchor is claimed with machine authority, by root");
	if (stmt_value(store_sql(db, MODE), -1) != 1)
		return refusal_set(store_refusal(db), "anchor.mode",
		    "this machine is local: its Host needs no anchor, and it can have none");
	if (present_read(db, &at) != 0)
		return -1;
	if (at.pairing != 0 && !claim->rotate)
		return claim_again(db, claim, &at, made);
	if (claim_pick(db, claim->host, &pairing) != 0)
		return -1;
	if (pairing.id == at.pairing && at.same_key)
		return at.active ? made_fill(&at, false, made)
				 : refusal_set(store_refusal(db), "anchor.approval",
				       "%s is the anchor and was paired anew: what it signs brings"
				       " it back",
				       at.host);
	if (claim->consent != NULL && anchor_take(db, claim->consent, &taken) != 0)
		return -1;
	if (claim_write(db, claim, &at, &pairing) != 0 || present_read(db, &at) != 0)
		return -1;
	return made_fill(&at, true, made);
}

int
anchor_claim(struct store *db, const struct anchor_claim *claim, struct anchor_made *made)
{
	memset(made, 0, sizeof(*made));
	if (store_begin(db) != 0)
		return -1;
	if (claim_make(db, claim, made) != 0)
		return store_rollback(db);
	return made->changed ? store_commit(db) : (store_rollback(db), 0);
}
