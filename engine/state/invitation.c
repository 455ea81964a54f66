/* invitation.c: invite, redeem, withdraw. */
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/invitation.h"
#include "engine/state/tls_identity.h"

static const char HOST[] = "SELECT name, identity_key FROM box";

static const char INVITE[] =
    "INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
    " SELECT :name, sha256(:token), now_ms(), now_ms() + coalesce(nullif(:ttl, 0), value)"
    "   FROM setting WHERE name = 'invitation.ttl_ms'";

static const char REDEEM[] = "UPDATE invitation SET state = 'redeemed', ended_at = now_ms()"
			     " WHERE token_digest = sha256(:token) RETURNING id";

static const char ENTER[] =
    "INSERT INTO host_box (name, box_key, transport, lane, peer_uid, invitation_id, paired_at)"
    " VALUES (:name, :key, 'unix', :lane, :uid, :invitation, now_ms())";

static const char ENTER_TLS[] =
    "INSERT INTO host_box (name, box_key, transport, endpoint, authority, invitation_id, paired_at)"
    " VALUES (:name, :key, :transport, :endpoint, :authority, :invitation, now_ms())";

static const char WITHDRAW[] = "UPDATE invitation SET state = 'withdrawn', ended_at = now_ms()"
			       " WHERE box_name = :name AND state = 'open' RETURNING id";

/* Say in ${facts} who this Host is. */
static int
host_facts(struct store *db, struct pairing_code *facts)
{
	const void *key;
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, HOST)) == NULL)
		return -1;
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "box.missing",
				      "this Host is not set up yet");
	snprintf(facts->host, sizeof(facts->host), "%s", stmt_get_text(q, 0));
	if ((key = stmt_get_blob(q, 1, 32)) != NULL)
		memcpy(facts->host_key, key, 32);
	stmt_done(q);
	return 0;
}

static int
invitation_insert(
    struct store *db, const char *box_name, int64_t ttl_ms, const unsigned char *token)
{
	struct stmt *q;

	if ((q = store_sql(db, INVITE)) == NULL)
		return -1;
	stmt_text(q, ":name", box_name);
	stmt_blob(q, ":token", token, CODE_TOKEN);
	stmt_int(q, ":ttl", ttl_ms);
	return stmt_run_one(q);
}

int
invitation_make(struct store *db, const char *box_name, int64_t ttl_ms,
    const struct pairing_code *where, char code[CODE_MAX + 1])
{
	struct pairing_code facts = *where;
	int rc = -1;

	code[0] = '\0';
	random_fill(facts.token, sizeof(facts.token));
	if (store_begin(db) == 0 && host_facts(db, &facts) == 0 &&
	    invitation_insert(db, box_name, ttl_ms, facts.token) == 0 &&
	    code_make(db, &facts, code) == 0)
		rc = store_commit(db);
	if (rc != 0) {
		store_rollback(db);
		sodium_memzero(code, CODE_MAX + 1);
	}
	sodium_memzero(&facts, sizeof(facts));
	return rc;
}

/* Spend the invitation of ${token}; its id, or -1. */
static int64_t
invitation_spend(struct store *db, const unsigned char *token)
{
	struct stmt *q;
	int64_t id;
	int rc;

	if ((q = store_sql(db, REDEEM)) == NULL)
		return -1;
	stmt_blob(q, ":token", token, CODE_TOKEN);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "invitation.unknown",
				      "this Host gave out no such code");
	id = stmt_get_int(q, 0);
	return stmt_run(q) == 0 ? id : -1;
}

static int
box_enter(struct store *db, const struct enrollment *e, int64_t invitation)
{
	struct stmt *q;

	if ((q = store_sql(db, ENTER)) == NULL)
		return -1;
	stmt_text(q, ":name", e->box_name);
	stmt_blob(q, ":key", e->box_key, sizeof(e->box_key));
	stmt_text(q, ":lane", e->lane);
	stmt_int(q, ":uid", e->peer_uid);
	stmt_int(q, ":invitation", invitation);
	return stmt_run_one(q);
}

/* The authority over a box's listener comes from outside. */
static int
authority_check(struct store *db, const struct enrollment *e)
{
	struct cert cert;

	if (e->authority.data == NULL)
		return 0;
	if (cert_read(e->authority.data, e->authority.len, &cert, store_refusal(db)) == -1)
		return -1;
	return cert.ca ? 0
		       : refusal_set(store_refusal(db), "cert.form",
			     "the certificate over the box's listener is not an authority's");
}

static int
box_enter_tls(struct store *db, const struct enrollment *e, int64_t invitation)
{
	struct stmt *q;

	if (authority_check(db, e) == -1 || (q = store_sql(db, ENTER_TLS)) == NULL)
		return -1;
	stmt_text(q, ":name", e->box_name);
	stmt_blob(q, ":key", e->box_key, sizeof(e->box_key));
	stmt_text(q, ":transport", e->transport);
	stmt_text(q, ":endpoint", e->endpoint);
	if (e->authority.data != NULL)
		stmt_blob(q, ":authority", e->authority.data, e->authority.len);
	stmt_int(q, ":invitation", invitation);
	return stmt_run_one(q);
}

int
invitation_redeem(struct store *db, const struct enrollment *e, int64_t *box_id)
{
	bool unixlane = e->transport == NULL || strcmp(e->transport, "unix") == 0;
	int64_t invitation, order;

	if (store_begin(db) != 0)
		return -1;
	if ((invitation = invitation_spend(db, e->token)) == -1 ||
	    (unixlane ? box_enter(db, e, invitation) : box_enter_tls(db, e, invitation)) != 0)
		return store_rollback(db);
	*box_id = store_last_id(db);
	if (!unixlane && tls_order(db, *box_id, e->request.data, e->request.len, &order) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
invitation_withdraw(struct store *db, const char *box_name, int64_t *count)
{
	struct stmt *q;
	int rc;

	*count = 0;
	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, WITHDRAW)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":name", box_name);
	while ((rc = stmt_step(q)) == 1)
		++*count;
	return rc == 0 ? store_commit(db) : store_rollback(db);
}
