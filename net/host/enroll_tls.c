/* enroll_tls.c: redeem a code over a network. */
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/actor/loop.h"
#include "engine/state/tls_identity.h"
#include "net/host/enroll_internal.h"
#include "net/http/json.h"
#include "net/http/tls.h"

#define REPLY_MAX (4 * CERT_MAX)
#define DEPTH     4

static const char SELF[] = "SELECT name, identity_key FROM box";

static const char BODY[] =
    "SELECT iif(:endpoint IS NULL,"
    "  json_object('token', :token, 'box', :box, 'box_key', :key, 'transport', 'reverse',"
    "              'request', lower(hex(:request)), 'proof', :proof),"
    "  json_object('token', :token, 'box', :box, 'box_key', :key, 'transport', 'tls',"
    "              'endpoint', :endpoint, 'authority', lower(hex(:authority)),"
    "              'request', lower(hex(:request)), 'proof', :proof))";

static const char GRANTED[] =
    "SELECT (:host IS NULL OR (:json ->> '$.host' IS :host AND :json ->> '$.host_key' IS :key))"
    "   AND json_type(:json, '$.host') = 'text' AND json_type(:json, '$.host_key') = 'text'"
    "   AND json_type(:json, '$.signature') = 'text' AND json_type(:json, '$.certificate') = 'text'"
    "   AND (SELECT count(*) FROM json_each(:json)) = 4"
    "   AND length(:json ->> '$.host') BETWEEN 1 AND 64"
    "   AND :json ->> '$.host' NOT GLOB '*[^A-Za-z0-9.-]*' AND :json ->> '$.host' NOT GLOB '-*',"
    " :json ->> '$.host', :json ->> '$.host_key', :json ->> '$.signature',"
    " :json ->> '$.certificate'";

/* This machine on its way in. */
struct entering {
	struct store *db;
	const struct enroll_dial *dial;
	struct enroll_made *made;
	unsigned char digest[crypto_hash_sha256_BYTES], box_key[KEY_PUBLIC_SIZE];
	char name[65];
	struct cert_blob request;
	char *body;
};

static const char *
transport_of(const struct entering *e)
{
	return e->dial->endpoint == NULL ? "reverse" : "tls";
}

static int
self_read(struct entering *e)
{
	const void *key;
	struct stmt *q;
	int rc;

	if ((q = store_sql(e->db, SELF)) == NULL)
		return -1;
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(e->db), "box.missing",
				      "this machine is not set up yet");
	snprintf(e->name, sizeof(e->name), "%s", stmt_get_text(q, 0));
	if ((key = stmt_get_blob(q, 1, sizeof(e->box_key))) != NULL)
		memcpy(e->box_key, key, sizeof(e->box_key));
	stmt_done(q);
	return 0;
}

/* A key for TLS that is of this pairing alone, and the request for it. */
static int
key_make(struct entering *e)
{
	struct cert_blob public_key;

	if (cert_key_make(&e->made->key, &public_key, store_refusal(e->db)) == -1)
		return -1;
	cert_blob_free(&public_key);
	return tls_request_of(e->db, &e->made->key, &e->request);
}

static int
body_make(struct entering *e)
{
	static const struct cert_blob none = {.data = NULL};
	const struct enroll_dial *d = e->dial;
	const struct cert_blob *own = d->endpoint == NULL ? &none : d->own;
	const struct enroll_proof proof = {.token_digest = e->digest,
	    .box = e->name,
	    .box_key = e->box_key,
	    .transport = transport_of(e),
	    .endpoint = d->endpoint,
	    .request = &e->request,
	    .authority = own};
	char token[2 * CODE_TOKEN + 1], key[65], signature[ENROLL_BASE64];
	struct stmt *q;
	int rc;

	if (enroll_prove(d->key, &proof, signature) != 0)
		return refusal_set(
		    store_refusal(e->db), "pairing.refused", "this machine cannot sign");
	if ((q = store_sql(e->db, BODY)) == NULL)
		return -1;
	sodium_bin2hex(token, sizeof(token), d->code->token, CODE_TOKEN);
	sodium_bin2hex(key, sizeof(key), e->box_key, sizeof(e->box_key));
	stmt_text(q, ":token", token);
	stmt_text(q, ":box", e->name);
	stmt_text(q, ":key", key);
	stmt_text(q, ":endpoint", d->endpoint);
	stmt_blob(q, ":authority", own->data, own->len);
	stmt_blob(q, ":request", e->request.data, e->request.len);
	stmt_text(q, ":proof", signature);
	if ((rc = stmt_step(q)) == 1) {
		e->body = strdup(stmt_get_text(q, 0));
		stmt_done(q);
	}
	sodium_memzero(token, sizeof(token));
	if (rc == 1 && e->body == NULL)
		refusal_set(store_refusal(e->db), "store.failed", "out of memory");
	return e->body != NULL ? 0 : -1;
}

/* The authority came with the handshake, and was found to be the pinned one. */
static int
authority_keep(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	const struct cert_blob *issuer = &peer->tls->issuer;
	struct enroll_made *made = ctx;

	cert_blob_free(&made->authority);
	if ((made->authority.data = malloc(issuer->len)) == NULL)
		return refusal_set(refusal, "http.memory", "out of memory");
	memcpy(made->authority.data, issuer->data, issuer->len);
	made->authority.len = issuer->len;
	return 0;
}

/* Ask at ${endpoint} for at most ${limit} ms. */
static int
ask_at(struct entering *e, const char *endpoint, int64_t limit, struct http_answer *answer,
    struct refusal *r)
{
	static const struct http_field headers[] = {
	    {"Content-Type", "application/json"}, {NULL, NULL}};
	const struct cert_blob *authority = e->dial->authority;
	const struct tls_config config = {.cas = authority,
	    .ncas = authority != NULL,
	    .pin = authority == NULL ? e->dial->code->authority : NULL};
	struct http_request request = {.dial = endpoint,
	    .method = "POST",
	    .url = "https://" TLS_HOST_NAME "/v1/enroll",
	    .headers = headers,
	    .body = e->body,
	    .body_len = strlen(e->body),
	    .connect_ms = limit,
	    .total_ms = limit,
	    .reply_max = REPLY_MAX,
	    .verify = authority_keep,
	    .ctx = e->made};
	int rc;

	if ((request.tls = tls_client_end(&config, r)) == NULL)
		return -1;
	rc = http_ask(&request, answer, r);
	tls_end_free(request.tls);
	return rc;
}

/* What to tell of the last try, which failed with ${r}. */
static int
unreachable(struct entering *e, const char *endpoint, const struct refusal *r)
{
	struct refusal *out = store_refusal(e->db);

	if (strcmp(r->code, "tls.untrusted") == 0)
		return refusal_set(out, "tls.untrusted", "%s is not the Host of this code: %.300s",
		    endpoint, r->why);
	return refusal_set(
	    out, "pairing.port", "the Host did not answer at %s: %.300s", endpoint, r->why);
}

/* One round: each endpoint has its share of the time that is left.  Return 0; -1 for good; or 1
 * where somebody was there, and cut the connection. */
static int
ask_round(struct entering *e, int64_t end, struct http_answer *answer)
{
	const struct pairing_code *code = e->dial->code;
	int64_t left;
	struct refusal r;
	int again = -1;
	unsigned i;

	for (i = 0; i < code->nendpoints && (left = end - loop_now()) > 0; i++) {
		free(answer->body);
		answer->body = NULL;
		if (ask_at(e, code->endpoint[i], left / (code->nendpoints - i) + 1, answer, &r) ==
		    0)
			return 0;
		unreachable(e, code->endpoint[i], &r);
		if (strcmp(r.code, "tls.untrusted") == 0)
			return -1;
		if (strcmp(r.code, "tls.handshake") == 0 || strcmp(r.code, "http.protocol") == 0)
			again = 1;
	}
	return again;
}

/* A Host under many connections cuts those that are slow: it is asked again, a few times. */
static int
ask_in_turn(struct entering *e, struct http_answer *answer)
{
	int64_t tries = store_setting(e->db, "pairing.tries");
	int64_t end = loop_now() + store_setting(e->db, "pairing.wait_ms");
	int rc;

	while ((rc = ask_round(e, end, answer)) == 1 && --tries > 0 && loop_now() < end)
		poll(NULL, 0, (int)store_setting(e->db, "pairing.again_ms"));
	return rc == 0 ? 0 : -1;
}

/* Who answered, and whether it signed all of it. */
static int
answer_check(struct entering *e, const char *signature)
{
	struct enroll_made *made = e->made;
	struct enroll_claim claim = {.token_digest = e->digest,
	    .box = e->name,
	    .host = made->host,
	    .box_key = e->box_key,
	    .host_key = made->host_key,
	    .transport = transport_of(e),
	    .endpoint = e->dial->endpoint};

	cert_fingerprint(made->authority.data, made->authority.len, claim.authority);
	cert_fingerprint(made->cert.data, made->cert.len, claim.certificate);
	return enroll_check(&claim, signature);
}

static int
answer_read(struct entering *e, const struct http_answer *answer, struct stmt *q)
{
	const struct pairing_code *code = e->dial->code;
	struct enroll_made *made = e->made;
	char key[65];

	sodium_bin2hex(key, sizeof(key), code->host_key, KEY_PUBLIC_SIZE);
	stmt_text_n(q, ":json", answer->body, answer->len);
	stmt_text(q, ":host", code->host[0] == '\0' ? NULL : code->host);
	stmt_text(q, ":key", key);
	if (stmt_step(q) != 1)
		return -1;
	if (stmt_get_int(q, 0) != 1 || strlen(stmt_get_text(q, 2)) != 64 ||
	    sodium_hex2bin(made->host_key, 32, stmt_get_text(q, 2), 64, NULL, NULL, NULL) != 0 ||
	    cert_from_hex(stmt_get_text(q, 4), &made->cert) != 0) {
		stmt_done(q);
		return enroll_unsigned(e->db);
	}
	snprintf(made->host, sizeof(made->host), "%s", stmt_get_text(q, 1));
	if (answer_check(e, stmt_get_text(q, 3)) != 0) {
		stmt_done(q);
		return enroll_unsigned(e->db);
	}
	stmt_done(q);
	return 0;
}

static int
heard(struct entering *e, const struct http_answer *answer)
{
	struct refusal r;
	struct stmt *q;

	if (http_json_check(answer->body, answer->len, DEPTH, &r) != 0)
		return refusal_set(store_refusal(e->db), "pairing.refused",
		    "the answer is not that of a Host: %s", r.why);
	if (answer->status != 200)
		return enroll_refused(e->db, answer);
	if ((q = store_sql(e->db, GRANTED)) == NULL || answer_read(e, answer, q) != 0)
		return -1;
	if (tls_certified(e->db, &e->made->authority, &e->made->cert, &e->made->key) == 0)
		return 0;
	r = *store_refusal(e->db);
	return refusal_set(store_refusal(e->db), "pairing.refused",
	    "the certificate that the Host issued is not ours: %.300s", r.why);
}

int
enroll_ask_tls(struct store *db, const struct enroll_dial *dial, struct enroll_made *made)
{
	struct entering e = {.db = db, .dial = dial, .made = made};
	struct http_answer answer = {0};
	int rc = -1;

	*made = (struct enroll_made){.host = ""};
	crypto_hash_sha256(e.digest, dial->code->token, CODE_TOKEN);
	if (self_read(&e) == 0 && key_make(&e) == 0 && body_make(&e) == 0 &&
	    ask_in_turn(&e, &answer) == 0)
		rc = heard(&e, &answer);
	free(answer.body);
	if (e.body != NULL)
		sodium_memzero(e.body, strlen(e.body));
	free(e.body);
	cert_blob_free(&e.request);
	if (rc != 0)
		enroll_made_free(made);
	return rc;
}

void
enroll_made_free(struct enroll_made *made)
{
	cert_blob_free(&made->authority);
	cert_blob_free(&made->cert);
	cert_blob_free(&made->key);
}
