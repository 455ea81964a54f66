/* tls_identity.c: make, keep, renew and find certificates. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/ca.h"
#include "engine/crypto/seal.h"
#include "engine/state/tls_identity.h"

#define ROW_TEXT 24

static const char AUTHORITY[] =
    "SELECT cert, length(cert), key, length(key), fp FROM tls_authority";

static const char AUTHORITY_MADE[] =
    "INSERT INTO tls_authority (id, cert, fp, key, not_after, made_at)"
    " VALUES (1, :cert, :fp, :key, :until, now_ms())";

static const char SELF[] = "SELECT name, identity_key, role FROM box";

static const char WANTED[] = "SELECT use FROM tls_wanted LIMIT 1";

static const char NEXT[] = "SELECT coalesce(max(id), 0) + 1 FROM tls_identity";

static const char MADE[] =
    "INSERT INTO tls_identity (id, use, pairing_id, cert, fp, key, not_before, not_after, made_at)"
    " VALUES (:id, :use, nullif(:pairing, 0), :cert, :fp, :key, :from, :until, now_ms())";

static const char CURRENT[] =
    "SELECT id, cert, length(cert), key, length(key) FROM tls_identity"
    " WHERE use = :use AND coalesce(pairing_id, 0) = :pairing AND state = 'current'";

static const char PINNED[] =
    "SELECT authority, length(authority) FROM pairing_tls WHERE pairing_id = :pairing";

/* On a Host its own authority is over the boxes; on a box each Host's is over that Host. */
static const char CLIENTS[] =
    "SELECT cert, length(cert) FROM tls_authority WHERE (SELECT role FROM box) = 'host'"
    " UNION ALL SELECT t.authority, length(t.authority)"
    "   FROM pairing_tls AS t JOIN pairing AS p ON p.id = t.pairing_id"
    "  WHERE p.transport = 'tls' AND p.state <> 'revoked'";

static const char BOX_AUTHORITY[] = "SELECT authority, length(authority) FROM host_box"
				    " WHERE id = :id AND state = 'active' AND transport = 'tls'";

static const char BOX_OF[] = "SELECT box_id FROM box_shown WHERE fp = :fp";

static const char PAIRING_OF[] =
    "SELECT p.id FROM pairing AS p JOIN pairing_tls AS t ON t.pairing_id = p.id"
    " WHERE t.fp = :fp AND p.state <> 'revoked' AND p.transport <> 'unix'"
    "   AND lower(hex(p.host_key)) = :device";

static const char BOX_KEY[] = "SELECT box_key FROM host_box WHERE id = :id";

static const char ORDER[] = "INSERT INTO box_certificate (box_id, public_key, asked_at)"
			    " VALUES (:box, :key, now_ms())";

static const char ORDERED[] = "SELECT c.id, c.public_key, length(c.public_key), b.name, b.box_key"
			      "  FROM box_certificate AS c JOIN host_box AS b ON b.id = c.box_id"
			      " WHERE c.cert IS NULL AND b.state = 'active' ORDER BY c.id LIMIT 1";

static const char ISSUED[] = "UPDATE box_certificate SET cert = :cert, fp = :fp,"
			     " not_after = :until, issued_at = now_ms() WHERE id = :id";

/* This machine, as its certificates name it. */
struct self {
	char name[65], uri[CERT_URI_MAX + 1];
	bool host;
};

void
tls_device(const unsigned char identity[32], char uri[CERT_URI_MAX + 1])
{
	char hex[65];

	sodium_bin2hex(hex, sizeof(hex), identity, 32);
	cert_device_uri(hex, uri);
}

/* Where the key of a certificate, or that of the authority, is sealed. */
static struct seal_place
key_place(const char *table, int64_t id, enum key_sealer sealer, char row[ROW_TEXT])
{
	snprintf(row, ROW_TEXT, "%lld", (long long)id);
	return (struct seal_place){.table = table, .column = "key", .row = row, .sealer = sealer};
}

/* Copy column ${i} of ${q}, whose length is in the next one. */
static int
blob_get(struct store *db, struct stmt *q, int i, struct cert_blob *blob)
{
	size_t len = (size_t)stmt_get_int(q, i + 1);
	const void *data;

	*blob = (struct cert_blob){.data = NULL};
	if ((data = stmt_get_blob(q, i, len)) == NULL)
		return refusal_set(store_refusal(db), "tls.missing", "a certificate has no key");
	if ((blob->data = malloc(len)) == NULL)
		return refusal_set(store_refusal(db), "store.failed", "out of memory");
	memcpy(blob->data, data, len);
	blob->len = len;
	return 0;
}

static int
blob_seal(struct store *db, const struct key *key, const struct seal_place *place,
    const struct cert_blob *plain, struct cert_blob *sealed)
{
	sealed->len = seal_size(plain->len);
	if ((sealed->data = malloc(sealed->len)) == NULL)
		return refusal_set(store_refusal(db), "store.failed", "out of memory");
	if (seal_make(key, place, plain->data, plain->len, sealed->data, sealed->len,
		store_refusal(db)) == 0)
		return 0;
	cert_blob_free(sealed);
	return -1;
}

static int
blob_open(struct store *db, const struct key *key, const struct seal_place *place,
    const struct cert_blob *sealed, struct cert_blob *plain)
{
	plain->len = seal_plain_size(sealed->len);
	if ((plain->data = malloc(plain->len + 1)) == NULL)
		return refusal_set(store_refusal(db), "store.failed", "out of memory");
	if (seal_open(key, place, sealed->data, sealed->len, plain->data, plain->len,
		store_refusal(db)) == 0)
		return 0;
	cert_blob_free(plain);
	return -1;
}

static int
self_read(struct store *db, struct self *self)
{
	const unsigned char *identity;
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, SELF)) == NULL)
		return -1;
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "box.missing",
				      "this machine is not set up yet");
	snprintf(self->name, sizeof(self->name), "%s", stmt_get_text(q, 0));
	self->uri[0] = '\0';
	if ((identity = stmt_get_blob(q, 1, 32)) != NULL)
		tls_device(identity, self->uri);
	self->host = strcmp(stmt_get_text(q, 2), "host") == 0;
	stmt_done(q);
	return 0;
}

/* The authority. */

/* Return 1 with certificate and sealed key of the authority (either NULL: not asked for), 0, -1. */
static int
authority_read(
    struct store *db, struct cert_blob *cert, struct cert_blob *sealed, uint8_t fp[CERT_FP_SIZE])
{
	const void *found;
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, AUTHORITY)) == NULL)
		return -1;
	if ((rc = stmt_step(q)) != 1)
		return rc;
	if ((found = stmt_get_blob(q, 4, CERT_FP_SIZE)) != NULL && fp != NULL)
		memcpy(fp, found, CERT_FP_SIZE);
	if ((cert != NULL && blob_get(db, q, 0, cert) == -1) ||
	    (sealed != NULL && blob_get(db, q, 2, sealed) == -1)) {
		if (cert != NULL)
			cert_blob_free(cert);
		rc = -1;
	}
	stmt_done(q);
	return rc;
}

static int
authority_insert(struct store *db, const struct key *key, const struct cert_blob *cert,
    const struct cert_blob *plain)
{
	struct cert_blob sealed = {.data = NULL};
	char row[ROW_TEXT];
	struct seal_place place = key_place("tls_authority", 1, KEY_COLUMN, row);
	struct cert facts;
	struct stmt *q;
	int rc = -1;

	if (cert_read(cert->data, cert->len, &facts, store_refusal(db)) == -1 ||
	    blob_seal(db, key, &place, plain, &sealed) == -1)
		return -1;
	if ((q = store_sql(db, AUTHORITY_MADE)) != NULL) {
		stmt_blob(q, ":cert", cert->data, cert->len);
		stmt_blob(q, ":fp", facts.fp, sizeof(facts.fp));
		stmt_blob(q, ":key", sealed.data, sealed.len);
		stmt_int(q, ":until", facts.not_after);
		rc = stmt_run_one(q);
	}
	cert_blob_free(&sealed);
	return rc;
}

static int
authority_make(struct store *db, const struct key *key)
{
	struct cert_blob cert = {.data = NULL}, plain = {.data = NULL};
	struct self self;
	int rc = -1;

	if (self_read(db, &self) == 0 &&
	    ca_make(self.name, store_setting(db, "tls.authority_ms"),
		store_setting(db, "tls.early_ms"), &cert, &plain, store_refusal(db)) == 0)
		rc = authority_insert(db, key, &cert, &plain);
	cert_blob_free(&cert);
	cert_blob_free(&plain);
	return rc;
}

/* Within a transaction: read it, made now where there was none. */
static int
authority_have(struct store *db, const struct key *key, uint8_t fp[CERT_FP_SIZE])
{
	int rc;

	if ((rc = authority_read(db, NULL, NULL, fp)) != 0)
		return rc == 1 ? 0 : -1;
	if (authority_make(db, key) == -1)
		return -1;
	return authority_read(db, NULL, NULL, fp) == 1 ? 0 : -1;
}

int
tls_authority(struct store *db, const struct key *key, uint8_t fp[CERT_FP_SIZE])
{
	int rc;

	if ((rc = authority_read(db, NULL, NULL, fp)) != 0)
		return rc == 1 ? 0 : -1;
	if (store_begin(db) != 0)
		return -1;
	if (authority_have(db, key, fp) == -1)
		return store_rollback(db);
	return store_commit(db);
}

int
tls_authority_own(struct store *db, struct cert_blob *cert)
{
	int rc;

	if ((rc = authority_read(db, cert, NULL, NULL)) == 1)
		return 0;
	return rc == -1 ? -1
			: refusal_set(store_refusal(db), "tls.missing",
			      "this machine has no authority yet");
}

int
tls_authority_pem(struct store *db, struct cert_blob *pem)
{
	struct cert_blob cert;
	int rc;

	if (tls_authority_own(db, &cert) != 0)
		return -1;
	rc = cert_to_pem(cert.data, cert.len, pem, store_refusal(db));
	cert_blob_free(&cert);
	return rc;
}

/* Open the authority, for ca_free. */
static struct ca *
authority_open(struct store *db, const struct key *key)
{
	struct cert_blob cert, sealed, plain = {.data = NULL};
	char row[ROW_TEXT];
	struct seal_place place = key_place("tls_authority", 1, KEY_COLUMN, row);
	struct ca *ca = NULL;
	int rc;

	if ((rc = authority_read(db, &cert, &sealed, NULL)) != 1) {
		if (rc == 0)
			refusal_set(
			    store_refusal(db), "tls.missing", "this machine has no authority yet");
		return NULL;
	}
	if (blob_open(db, key, &place, &sealed, &plain) == 0)
		ca = ca_load(&cert, &plain, store_refusal(db));
	cert_blob_free(&plain);
	cert_blob_free(&sealed);
	cert_blob_free(&cert);
	return ca;
}

/* Certificates of this machine. */

int
tls_identity_keep(struct store *db, const struct key *wire, const char *use, int64_t pairing,
    const struct cert_blob *cert, const struct cert_blob *plain)
{
	int64_t id = stmt_value(store_sql(db, NEXT), -1);
	struct cert_blob sealed = {.data = NULL};
	char row[ROW_TEXT];
	struct seal_place place = key_place("tls_identity", id, KEY_WIRE, row);
	struct cert facts;
	struct stmt *q;
	int rc = -1;

	if (id == -1 || cert_read(cert->data, cert->len, &facts, store_refusal(db)) == -1 ||
	    blob_seal(db, wire, &place, plain, &sealed) == -1)
		return -1;
	if ((q = store_sql(db, MADE)) != NULL) {
		stmt_int(q, ":id", id);
		stmt_text(q, ":use", use);
		stmt_int(q, ":pairing", pairing);
		stmt_blob(q, ":cert", cert->data, cert->len);
		stmt_blob(q, ":fp", facts.fp, sizeof(facts.fp));
		stmt_blob(q, ":key", sealed.data, sealed.len);
		stmt_int(q, ":from", facts.not_before);
		stmt_int(q, ":until", facts.not_after);
		rc = stmt_run_one(q);
	}
	cert_blob_free(&sealed);
	return rc;
}

/* A certificate with a key of its own, under our authority. */
static int
own_make(struct store *db, const struct key *key, const struct ca *ca, const char *use)
{
	struct cert_blob cert = {.data = NULL}, plain, public_key;
	struct self self;
	const char *const uris[] = {self.uri, NULL};
	const char *names[] = {NULL, NULL};
	struct ca_order order = {.use = strcmp(use, "server") == 0 ? CA_SERVER : CA_CLIENT,
	    .subject = self.name,
	    .names = names,
	    .uris = uris,
	    .valid_ms = store_setting(db, "tls.leaf_ms"),
	    .early_ms = store_setting(db, "tls.early_ms")};
	int rc = -1;

	if (self_read(db, &self) == -1 ||
	    cert_key_make(&plain, &public_key, store_refusal(db)) == -1)
		return -1;
	if (order.use == CA_SERVER)
		names[0] = self.host ? TLS_HOST_NAME : TLS_BOX_NAME;
	order.public_key = public_key.data;
	order.public_key_len = public_key.len;
	if (ca_issue(ca, &order, &cert, store_refusal(db)) == 0)
		rc = tls_identity_keep(db, key, use, 0, &cert, &plain);
	cert_blob_free(&cert);
	cert_blob_free(&plain);
	cert_blob_free(&public_key);
	return rc;
}

/* What is wanted next: 1 with its use, 0, -1. */
static int
wanted(struct store *db, char use[8])
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, WANTED)) == NULL)
		return -1;
	if ((rc = stmt_step(q)) != 1)
		return rc;
	snprintf(use, 8, "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return 1;
}

static int
wanted_make(struct store *db, const struct key *key)
{
	uint8_t fp[CERT_FP_SIZE];
	struct ca *ca = NULL;
	char use[8];
	int rc;

	while ((rc = wanted(db, use)) == 1) {
		if ((ca == NULL && (authority_have(db, key, fp) == -1 ||
				       (ca = authority_open(db, key)) == NULL)) ||
		    own_make(db, key, ca, use) == -1) {
			rc = -1;
			break;
		}
	}
	ca_free(ca);
	return rc;
}

int
tls_upkeep(struct store *db, const struct key *key)
{
	char use[8];
	int rc;

	/* Mostly there is nothing to do, and nothing to lock for. */
	if ((rc = wanted(db, use)) != 1)
		return rc;
	if (store_begin(db) != 0)
		return -1;
	if (wanted_make(db, key) == -1)
		return store_rollback(db);
	return store_commit(db);
}

/* Fill certificate and key of ${identity} with the current one. */
static int
identity_read(struct store *db, const struct key *wire, const char *use, int64_t pairing,
    struct tls_identity *identity)
{
	struct cert_blob sealed = {.data = NULL};
	struct seal_place place;
	char row[ROW_TEXT];
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, CURRENT)) == NULL)
		return -1;
	stmt_text(q, ":use", use);
	stmt_int(q, ":pairing", pairing);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "tls.missing",
				      "there is no certificate for this yet");
	place = key_place("tls_identity", stmt_get_int(q, 0), KEY_WIRE, row);
	rc = blob_get(db, q, 1, &identity->cert) == 0 && blob_get(db, q, 3, &sealed) == 0 ? 0 : -1;
	stmt_done(q);
	if (rc == 0)
		rc = blob_open(db, wire, &place, &sealed, &identity->key);
	cert_blob_free(&sealed);
	return rc;
}

/* Add every authority that ${q} selects; how many that were, or -1. */
static int
authorities_read(struct store *db, struct stmt *q, struct tls_identity *identity)
{
	int rc, n = 0;

	while ((rc = stmt_step(q)) == 1) {
		if (identity->nauthorities == TLS_AUTHORITIES_MAX) {
			stmt_done(q);
			return refusal_set(store_refusal(db), "tls.config",
			    "more than %d Hosts dial this machine", TLS_AUTHORITIES_MAX);
		}
		if (blob_get(db, q, 0, &identity->authorities[identity->nauthorities]) == -1) {
			stmt_done(q);
			return -1;
		}
		identity->nauthorities++;
		n++;
	}
	return rc == -1 ? -1 : n;
}

static int
identity_done(int rc, struct tls_identity *identity)
{
	if (rc != 0)
		tls_identity_free(identity);
	return rc;
}

int
tls_server(struct store *db, const struct key *wire, struct tls_identity *identity)
{
	struct stmt *q;
	int rc;

	*identity = (struct tls_identity){.nauthorities = 0};
	rc = identity_read(db, wire, "server", 0, identity);
	if (rc == 0)
		rc = authority_read(db, &identity->issuer, NULL, NULL) == 1 ? 0 : -1;
	if (rc == 0)
		rc = (q = store_sql(db, CLIENTS)) == NULL || authorities_read(db, q, identity) == -1
			 ? -1
			 : 0;
	return identity_done(rc, identity);
}

int
tls_client(struct store *db, const struct key *wire, struct tls_identity *identity)
{
	*identity = (struct tls_identity){.nauthorities = 0};
	return identity_done(identity_read(db, wire, "client", 0, identity), identity);
}

/* The authority that ${pairing} pinned. */
static int
pinned_read(struct store *db, int64_t pairing, struct tls_identity *identity)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(db, PINNED)) == NULL)
		return -1;
	stmt_int(q, ":pairing", pairing);
	if ((n = authorities_read(db, q, identity)) == 1)
		return 0;
	return n == -1 ? -1
		       : refusal_set(store_refusal(db), "tls.missing",
			     "this pairing has pinned no authority");
}

int
tls_client_of(
    struct store *db, const struct key *wire, int64_t pairing, struct tls_identity *identity)
{
	int rc;

	*identity = (struct tls_identity){.nauthorities = 0};
	rc = identity_read(db, wire, "client", pairing, identity);
	if (rc == 0)
		rc = pinned_read(db, pairing, identity);
	return identity_done(rc, identity);
}

int
tls_box_authority(struct store *db, int64_t box_id, struct cert_blob *authority)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, BOX_AUTHORITY)) == NULL)
		return -1;
	stmt_int(q, ":id", box_id);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "box.gone", "no such box listens");
	rc = blob_get(db, q, 0, authority);
	stmt_done(q);
	return rc;
}

void
tls_identity_free(struct tls_identity *identity)
{
	unsigned i;

	cert_blob_free(&identity->cert);
	cert_blob_free(&identity->key);
	cert_blob_free(&identity->issuer);
	for (i = 0; i < identity->nauthorities; i++)
		cert_blob_free(&identity->authorities[i]);
	identity->nauthorities = 0;
}

/* Who the other end is. */

/* Return 1 with the first column of ${q}, 0, -1. */
static int
found(struct stmt *q, int64_t *id)
{
	int rc;

	if ((rc = stmt_step(q)) != 1)
		return rc;
	*id = stmt_get_int(q, 0);
	stmt_done(q);
	return 1;
}

int
tls_box_of(struct store *db, const uint8_t fp[CERT_FP_SIZE], int64_t *box_id)
{
	struct stmt *q;

	if ((q = store_sql(db, BOX_OF)) == NULL)
		return -1;
	stmt_blob(q, ":fp", fp, CERT_FP_SIZE);
	return found(q, box_id);
}

int
tls_pairing_of(
    struct store *db, const uint8_t issuer_fp[CERT_FP_SIZE], const char *device, int64_t *pairing)
{
	struct stmt *q;

	if ((q = store_sql(db, PAIRING_OF)) == NULL)
		return -1;
	stmt_blob(q, ":fp", issuer_fp, CERT_FP_SIZE);
	stmt_text(q, ":device", device);
	return found(q, pairing);
}

/* Renewal, on the box. */

int
tls_request_of(struct store *db, const struct cert_blob *key, struct cert_blob *request)
{
	struct self self;
	const char *const uris[] = {self.uri, NULL};

	if (self_read(db, &self) == -1)
		return -1;
	return cert_request_make(key, uris, request, store_refusal(db));
}

int
tls_request(struct store *db, const struct key *wire, int64_t pairing, struct cert_blob *request)
{
	struct tls_identity identity;
	int rc;

	if (tls_client_of(db, wire, pairing, &identity) == -1)
		return -1;
	rc = tls_request_of(db, &identity.key, request);
	tls_identity_free(&identity);
	return rc;
}

int
tls_certified(struct store *db, const struct cert_blob *authority, const struct cert_blob *cert,
    const struct cert_blob *key)
{
	struct cert facts;
	struct self self;

	if (self_read(db, &self) == -1 ||
	    ca_issued(authority, CA_CLIENT, cert, key, store_refusal(db)) == -1 ||
	    cert_read(cert->data, cert->len, &facts, store_refusal(db)) == -1)
		return -1;
	if (facts.uris.n == 1 && strcmp(facts.uris.uri[0], self.uri) == 0)
		return 0;
	return refusal_set(
	    store_refusal(db), "tls.untrusted", "the certificate names another machine");
}

int
tls_renew(struct store *db, const struct key *wire, int64_t pairing, const void *cert, size_t len)
{
	union {
		const void *in;
		uint8_t *bytes;
	} u = {.in = cert};
	const struct cert_blob blob = {.data = u.bytes, .len = len};
	struct tls_identity identity;
	int rc = -1;

	if (store_begin(db) != 0)
		return -1;
	if (tls_client_of(db, wire, pairing, &identity) == 0) {
		if (tls_certified(db, &identity.authorities[0], &blob, &identity.key) == 0)
			rc = tls_identity_keep(db, wire, "client", pairing, &blob, &identity.key);
		tls_identity_free(&identity);
	}
	return rc == 0 ? store_commit(db) : store_rollback(db);
}

/* Issuing, on the Host. */

/* Whether ${request} names the box ${box_id} and nothing else. */
static int
request_check(struct store *db, int64_t box_id, const struct cert_request *request)
{
	char uri[CERT_URI_MAX + 1] = "";
	const unsigned char *key;
	struct stmt *q;

	if ((q = store_sql(db, BOX_KEY)) == NULL)
		return -1;
	stmt_int(q, ":id", box_id);
	if (stmt_step(q) == 1) {
		if ((key = stmt_get_blob(q, 0, 32)) != NULL)
			tls_device(key, uri);
		stmt_done(q);
	}
	if (uri[0] != '\0' && request->uris.n == 1 && strcmp(request->uris.uri[0], uri) == 0)
		return 0;
	return refusal_set(store_refusal(db), "cert.device",
	    "a box asks for a certificate in its own name, and in no other");
}

int
tls_order(struct store *db, int64_t box_id, const void *request, size_t len, int64_t *order_id)
{
	struct cert_request read;
	struct stmt *q;
	int rc = -1;

	if (cert_request_read(request, len, &read, store_refusal(db)) == -1)
		return -1;
	if (request_check(db, box_id, &read) == 0 && (q = store_sql(db, ORDER)) != NULL) {
		stmt_int(q, ":box", box_id);
		stmt_blob(q, ":key", read.public_key.data, read.public_key.len);
		if ((rc = stmt_run_one(q)) == 0)
			*order_id = store_last_id(db);
	}
	cert_blob_free(&read.public_key);
	return rc;
}

/* An order as it is read; the bytes are its own. */
struct order {
	int64_t id;
	struct cert_blob public_key;
	char name[65], uri[CERT_URI_MAX + 1];
};

static int
order_read(struct store *db, struct order *o)
{
	const unsigned char *key;
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, ORDERED)) == NULL)
		return -1;
	if ((rc = stmt_step(q)) != 1)
		return rc;
	o->id = stmt_get_int(q, 0);
	snprintf(o->name, sizeof(o->name), "%s", stmt_get_text(q, 3));
	o->uri[0] = '\0';
	if ((key = stmt_get_blob(q, 4, 32)) != NULL)
		tls_device(key, o->uri);
	rc = blob_get(db, q, 1, &o->public_key) == 0 ? 1 : -1;
	stmt_done(q);
	return rc;
}

static int
issued_write(struct store *db, int64_t id, const struct cert_blob *cert)
{
	struct cert facts;
	struct stmt *q;

	if (cert_read(cert->data, cert->len, &facts, store_refusal(db)) == -1 ||
	    store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, ISSUED)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	stmt_blob(q, ":cert", cert->data, cert->len);
	stmt_blob(q, ":fp", facts.fp, sizeof(facts.fp));
	stmt_int(q, ":until", facts.not_after);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
tls_issue(struct store *db, const struct key *key)
{
	struct cert_blob cert = {.data = NULL};
	struct ca *ca = NULL;
	struct order o;
	const char *const uris[] = {o.uri, NULL};
	struct ca_order order = {.use = CA_CLIENT,
	    .subject = o.name,
	    .uris = uris,
	    .valid_ms = store_setting(db, "tls.leaf_ms"),
	    .early_ms = store_setting(db, "tls.early_ms")};
	int rc;

	if ((rc = order_read(db, &o)) != 1)
		return rc;
	order.public_key = o.public_key.data;
	order.public_key_len = o.public_key.len;
	rc = -1;
	if ((ca = authority_open(db, key)) != NULL &&
	    ca_issue(ca, &order, &cert, store_refusal(db)) == 0 &&
	    issued_write(db, o.id, &cert) == 0)
		rc = 1;
	cert_blob_free(&cert);
	cert_blob_free(&o.public_key);
	ca_free(ca);
	return rc;
}
