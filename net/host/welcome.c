/* welcome.c: certificates and signatures for boxes that came in. */
#include <stdio.h>
#include <string.h>

#include "engine/actor/actor.h"
#include "engine/state/tls_identity.h"
#include "net/host/enroll_client.h"
#include "net/host/welcome.h"

/* Who waits for a signature; over a network, once there is a certificate to sign for. */
static const char GUEST[] =
    "SELECT b.id, i.token_digest, b.name, b.box_key, b.lane, box.name, box.identity_key,"
    "       b.transport, b.endpoint, a.fp, c.fp"
    "  FROM host_box AS b CROSS JOIN invitation AS i ON i.id = b.invitation_id CROSS JOIN box"
    "  LEFT JOIN box_certificate AS c"
    "    ON c.id = (SELECT min(id) FROM box_certificate WHERE box_id = b.id)"
    "  LEFT JOIN tls_authority AS a"
    " WHERE b.welcome IS NULL AND b.state = 'active'"
    "   AND (b.transport = 'unix' OR c.fp IS NOT NULL) LIMIT 1";

static const char WELCOME[] = "UPDATE host_box SET welcome = :signature WHERE id = :id";

/* Sign what the row ${q} says. */
static int
guest_sign(const struct key *key, struct stmt *q, char signature[ENROLL_BASE64])
{
	struct enroll_claim claim = {.token_digest = stmt_get_blob(q, 1, 32),
	    .box = stmt_get_text(q, 2),
	    .box_key = stmt_get_blob(q, 3, 32),
	    .host = stmt_get_text(q, 5),
	    .host_key = stmt_get_blob(q, 6, 32)};
	const void *authority, *certificate;

	if (claim.token_digest == NULL || claim.box_key == NULL || claim.host_key == NULL)
		return -1;
	if (!stmt_is_null(q, 4)) {
		claim.lane = stmt_get_text(q, 4);
		return enroll_sign(key, &claim, signature);
	}
	if ((authority = stmt_get_blob(q, 9, CERT_FP_SIZE)) == NULL ||
	    (certificate = stmt_get_blob(q, 10, CERT_FP_SIZE)) == NULL)
		return -1;
	claim.transport = stmt_get_text(q, 7);
	claim.endpoint = stmt_is_null(q, 8) ? NULL : stmt_get_text(q, 8);
	memcpy(claim.authority, authority, CERT_FP_SIZE);
	memcpy(claim.certificate, certificate, CERT_FP_SIZE);
	return enroll_sign(key, &claim, signature);
}

/* Return 1, 0 where nobody waits, -1. */
static int
welcome_one(struct actor_env *env)
{
	struct store *db = env->db;
	char signature[ENROLL_BASE64];
	struct stmt *q;
	int64_t id;
	int n;

	if ((q = store_sql(db, GUEST)) == NULL)
		return -1;
	if ((n = stmt_step(q)) != 1)
		return n;
	id = stmt_get_int(q, 0);
	n = guest_sign(env->keys.secret, q, signature);
	stmt_done(q);
	if (n != 0)
		return refusal_set(
		    store_refusal(db), "pairing.refused", "the enrollment could not be signed");
	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, WELCOME)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	stmt_text(q, ":signature", signature);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db) == 0 ? 1 : -1;
}

static void
say(struct actor_env *env, const char *what)
{
	const struct refusal *r = store_refusal(env->db);

	fprintf(stderr, "bastion: link: %s: %s [%s]\n", what, r->why, r->code);
}

void
welcome_wake(struct actor_env *env)
{
	int n;

	if (tls_upkeep(env->db, env->keys.secret) == -1)
		say(env, "a certificate of this machine");
	while ((n = tls_issue(env->db, env->keys.secret)) == 1)
		;
	if (n == -1)
		say(env, "a certificate for a box");
	while ((n = welcome_one(env)) == 1)
		;
	if (n == -1)
		say(env, "a box that came in");
}
