/* factor.c: enrol, drop and prove factors. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/crypto/base32.h"
#include "engine/crypto/key.h"
#include "engine/crypto/seal.h"
#include "engine/crypto/sshsig.h"
#include "engine/state/factor.h"

#define SECRET_SIZE 20 /* RFC 4226 §4, R6: what it recommends */
#define SEALED_SIZE (SECRET_SIZE + SEAL_OVERHEAD)

/* The id is needed before the row is there: the secret is sealed to it. */
static const char NEXT[] =
    "SELECT (SELECT coalesce(max(id), 0) + 1 FROM factor), (SELECT name FROM box)";

static const char ADD[] =
    "INSERT INTO factor (id, kind, label, secret, public_key, fingerprint, enrolled_at)"
    " VALUES (:id, :kind, :label, :secret, :line, :fingerprint, now_ms())";

static const char DROP[] =
    "UPDATE factor SET state = 'dropped', dropped_at = now_ms() WHERE id = :id";

static const char KNOWN[] =
    "SELECT state = 'active', (SELECT count(*) FROM grant WHERE factor_id = factor.id"
    "                             AND state = 'active') FROM factor WHERE id = :id";

static const char THROTTLE[] =
    "SELECT CASE WHEN wrong >= allowed THEN until ELSE 0 END FROM factor_throttle";

static const char ENROLLED[] =
    "SELECT count(*) FROM factor WHERE kind = :kind AND state = 'active'";

static const char SECRETS[] = "SELECT id, secret, last_counter FROM factor"
			      " WHERE kind = 'totp' AND state = 'active' ORDER BY id";

static const char KEYS[] = "SELECT id, public_key, last_counter FROM factor"
			   " WHERE kind = 'ssh' AND state = 'active' ORDER BY id";

static const char MOVE[] = "UPDATE factor SET last_counter = :counter WHERE id = :id";

static const char TRIED[] =
    "INSERT INTO factor_try (at, kind, outcome) VALUES (now_ms(), :kind, :outcome)";

/* Store the next id in ${*id} and what the authenticator app shall call the entry in ${name}. */
static int
factor_next(struct store *db, const char *label, int64_t *id, char *name, size_t size)
{
	struct stmt *q;

	if ((q = store_sql(db, NEXT)) == NULL || stmt_step(q) != 1)
		return -1;
	*id = stmt_get_int(q, 0);
	if (name != NULL)
		snprintf(name, size, "%s@%s", label, stmt_get_text(q, 1));
	stmt_done(q);
	return 0;
}

static struct seal_place
factor_place(int64_t id, char row[24])
{
	snprintf(row, 24, "%lld", (long long)id);
	return (struct seal_place){.table = "factor", .column = "secret", .row = row};
}

static int
totp_insert(
    struct store *db, const struct key *key, const char *label, const uint8_t *secret, int64_t id)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	uint8_t sealed[SEALED_SIZE];
	char row[24], fingerprint[32] = "TOTP:";
	struct seal_place place = factor_place(id, row);
	struct stmt *q;

	if (seal_make(
		key, &place, secret, SECRET_SIZE, sealed, sizeof(sealed), store_refusal(db)) != 0 ||
	    (q = store_sql(db, ADD)) == NULL)
		return -1;
	/* 160 random bits do not come back from 64 bits of their digest. */
	crypto_hash_sha256(digest, secret, SECRET_SIZE);
	sodium_bin2hex(fingerprint + 5, sizeof(fingerprint) - 5, digest, 8);
	stmt_int(q, ":id", id);
	stmt_text(q, ":kind", "totp");
	stmt_text(q, ":label", label);
	stmt_blob(q, ":secret", sealed, sizeof(sealed));
	stmt_text(q, ":fingerprint", fingerprint);
	return stmt_run_one(q);
}

/* What the person is shown, of ${secret}. */
static int
totp_show(struct store *db, const uint8_t *secret, const char *name, struct factor_totp *totp)
{
	if (base32_encode(secret, SECRET_SIZE, totp->secret, sizeof(totp->secret)) == 0 &&
	    totp_uri(secret, SECRET_SIZE, name, totp->uri) == 0)
		return 0;
	return refusal_set(
	    store_refusal(db), "factor.label", "this label is too long for an authenticator app");
}

int
factor_add_totp(
    struct store *db, const struct key *key, const char *label, struct factor_totp *totp)
{
	uint8_t secret[SECRET_SIZE];
	char name[512];
	int rc = -1;

	random_fill(secret, sizeof(secret));
	if (store_begin(db) != 0)
		goto out;
	if (factor_next(db, label, &totp->id, name, sizeof(name)) == 0 &&
	    totp_insert(db, key, label, secret, totp->id) == 0 &&
	    totp_show(db, secret, name, totp) == 0)
		rc = store_commit(db);
	else
		store_rollback(db);
out:
	sodium_memzero(secret, sizeof(secret));
	if (rc != 0)
		sodium_memzero(totp, sizeof(*totp));
	return rc;
}

static int
ssh_insert(
    struct store *db, const char *line, const char *label, const char *fingerprint, int64_t id)
{
	struct stmt *q;

	if ((q = store_sql(db, ADD)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text(q, ":kind", "ssh");
	stmt_text(q, ":label", label);
	stmt_text_n(q, ":line", line, strcspn(line, "\r\n"));
	stmt_text(q, ":fingerprint", fingerprint);
	return stmt_run_one(q);
}

int
factor_add_ssh(struct store *db, const char *line, const char *label, int64_t *id)
{
	struct sshsig_key key;
	struct refusal r;

	if (sshsig_key_parse(line, &key, &r) != 0)
		return refusal_set(store_refusal(db), "factor.key", "%s", r.why);
	if (label == NULL)
		label = key.comment[0] != '\0' && strlen(key.comment) <= FACTOR_LABEL_MAX
			    ? key.comment
			    : key.fingerprint;
	if (store_begin(db) != 0)
		return -1;
	if (factor_next(db, label, id, NULL, 0) != 0 ||
	    ssh_insert(db, line, label, key.fingerprint, *id) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/* Count the grants on the word of ${id}; -1 if there is no such factor, or it is dropped already.
 */
static int
factor_grants(struct store *db, int64_t id, int64_t *grants)
{
	bool active;
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, KNOWN)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "factor.unknown",
				      "there is no factor of this number");
	active = stmt_get_int(q, 0) == 1;
	*grants = stmt_get_int(q, 1);
	stmt_done(q);
	return active ? 0
		      : refusal_set(store_refusal(db), "factor.transition",
			    "this factor was dropped before");
}

int
factor_drop(struct store *db, int64_t id, int64_t *grants)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if (factor_grants(db, id, grants) != 0 || (q = store_sql(db, DROP)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/* The door: closed while too many wrong tries count, and where nobody could open it. */
static int
door_open(struct store *db, const char *kind)
{
	struct stmt *q;
	int64_t until;

	if ((until = stmt_value(store_sql(db, THROTTLE), -1)) == -1)
		return -1;
	if (until != 0) {
		refusal_set(store_refusal(db), "factor.throttled",
		    "too many wrong tries to prove who decides");
		store_refusal(db)->retry_at = until;
		return -1;
	}
	if ((q = store_sql(db, ENROLLED)) == NULL)
		return -1;
	stmt_text(q, ":kind", kind);
	if (stmt_value(q, 0) == 0)
		return refusal_set(store_refusal(db), "factor.none",
		    strcmp(kind, "totp") == 0 ? "no authenticator is enrolled here"
					      : "no SSH key is enrolled here");
	return 0;
}

static int
factor_tried(struct store *db, const char *kind, const char *outcome)
{
	struct stmt *q;

	if ((q = store_sql(db, TRIED)) == NULL)
		return -1;
	stmt_text(q, ":kind", kind);
	stmt_text(q, ":outcome", outcome);
	return stmt_run_one(q);
}

/* End the transaction with nothing in it but the wrong try, and say ${r}. */
static int
factor_wrong(struct store *db, const char *kind, const struct refusal *r)
{
	if (factor_tried(db, kind, "wrong") != 0)
		return store_rollback(db);
	if (store_commit(db) != 0)
		return -1;
	*store_refusal(db) = *r;
	return -1;
}

static int
factor_right(struct store *db, const char *kind)
{
	return factor_tried(db, kind, "right") == 0 ? 0 : store_rollback(db);
}

/* Move the counter of ${id}; the schema refuses one that does not grow. */
static int
factor_move(struct store *db, int64_t id, int64_t counter)
{
	struct stmt *q;

	if ((q = store_sql(db, MOVE)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	stmt_int(q, ":counter", counter);
	return stmt_run_one(q) == 0 ? 0 : store_rollback(db);
}

/* What came of showing a code or a signature to every factor of its kind. */
struct proof {
	int64_t id, counter; /* of the factor that took it; id 0: none */
	int64_t last;        /* its counter before */
	unsigned opened;     /* secrets that could be read */
	struct refusal r;    /* the best reason of those that did not */
};

/* Show ${code} to the authenticator of the row ${q}; 0 if it is its code. */
static int
totp_try(struct stmt *q, const struct key *key, const char *code, int64_t now, unsigned steps,
    struct proof *p)
{
	int64_t id = stmt_get_int(q, 0);
	uint8_t secret[SECRET_SIZE];
	const uint8_t *sealed = stmt_get_blob(q, 1, SEALED_SIZE);
	char row[24];
	struct seal_place place = factor_place(id, row);
	struct refusal r;
	int rc;

	if (sealed == NULL ||
	    seal_open(key, &place, sealed, SEALED_SIZE, secret, sizeof(secret), &r) != 0)
		return -1;
	p->opened++;
	rc = totp_match(
	    secret, sizeof(secret), now, code, steps, stmt_get_int(q, 2), &p->counter, &r);
	sodium_memzero(secret, sizeof(secret));
	if (rc == 0)
		p->id = id;
	else if (strcmp(p->r.code, "totp.used") != 0)
		p->r = r;
	return rc;
}

static int
totp_find(struct store *db, const struct key *key, const char *code, struct proof *p)
{
	unsigned steps = (unsigned)store_setting(db, "factor.steps");
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, SECRETS)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1)
		if (totp_try(q, key, code, store_now(db), steps, p) == 0) {
			stmt_done(q);
			return 0;
		}
	return rc;
}

/* No authenticator took the code: why, in our own words, and whether that was a try. */
static int
totp_refused(struct store *db, const struct proof *p)
{
	struct refusal *r = store_refusal(db), wrong = {0};

	if (p->opened == 0) {
		refusal_set(r, "factor.seal",
		    "the secrets of the authenticators do not open with this machine's key");
		return store_rollback(db);
	}
	if (strcmp(p->r.code, "totp.form") == 0) {
		refusal_set(r, "factor.code", "a code is six digits");
		return store_rollback(db);
	}
	if (strcmp(p->r.code, "totp.used") == 0) {
		refusal_set(r, "factor.used", "this code was used already");
		r->retry_at = p->r.retry_at;
		return store_rollback(db);
	}
	refusal_set(
	    &wrong, "factor.code", "this is not the code of an authenticator enrolled here");
	return factor_wrong(db, "totp", &wrong);
}

int
factor_prove_totp(struct store *db, const struct key *key, const char *code, int64_t *id)
{
	struct proof p = {0};

	if (door_open(db, "totp") != 0 || totp_find(db, key, code, &p) != 0)
		return store_rollback(db);
	if (p.id == 0)
		return totp_refused(db, &p);
	if (factor_move(db, p.id, p.counter) != 0)
		return -1;
	*id = p.id;
	return factor_right(db, "totp");
}

/* Show ${signature} to the key of the row ${q}; 0 if it made it. */
static int
ssh_try(struct stmt *q, const void *msg, size_t len, const char *signature, struct proof *p)
{
	struct sshsig_proof token = {0};
	struct sshsig_key key;
	struct refusal r;

	if (sshsig_key_parse(stmt_get_text(q, 1), &key, &r) != 0 ||
	    sshsig_verify(&key, msg, len, signature, &token, &r) != 0) {
		/* That it was made by another key says least. */
		if (p->r.code[0] == '\0' || strcmp(r.code, "sshsig.key") != 0)
			p->r = r;
		return -1;
	}
	p->id = stmt_get_int(q, 0);
	p->counter = token.counter;
	p->last = stmt_get_int(q, 2);
	return 0;
}

static int
ssh_find(struct store *db, const void *msg, size_t len, const char *signature, struct proof *p)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, KEYS)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1)
		if (ssh_try(q, msg, len, signature, p) == 0) {
			stmt_done(q);
			return 0;
		}
	return rc;
}

static int
ssh_refused(struct store *db, const struct proof *p)
{
	struct refusal wrong = {0};

	refusal_set(&wrong, "factor.signature", "%s", p->r.why);
	if (strcmp(p->r.code, "sshsig.form") != 0)
		return factor_wrong(db, "ssh", &wrong);
	*store_refusal(db) = wrong;
	return store_rollback(db);
}

int
factor_prove_ssh(struct store *db, const void *msg, size_t len, const char *signature, int64_t *id)
{
	struct proof p = {0};

	if (door_open(db, "ssh") != 0 || ssh_find(db, msg, len, signature, &p) != 0)
		return store_rollback(db);
	if (p.id == 0)
		return ssh_refused(db, &p);
	/* A token that ever counted must go on counting: one that went back is a copy. */
	if ((p.counter > 0 || p.last > 0) && factor_move(db, p.id, p.counter) != 0)
		return -1;
	*id = p.id;
	return factor_right(db, "ssh");
}
