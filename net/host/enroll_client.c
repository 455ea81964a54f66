/* enroll_client.c: redeem a code over the Host's unix socket; what both ends sign, on either way.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/base64.h"
#include "net/host/enroll_internal.h"
#include "net/http/json.h"

#define TEXT_MAX  2048
#define BODY_MAX  2048
#define REPLY_MAX 4096
#define DEPTH     4

static const char BODY[] =
    "SELECT json_object('token', :token, 'box', name, 'box_key', lower(hex(identity_key)),"
    "                   'lane', :lane), name, identity_key FROM box";

static const char GRANTED[] =
    "SELECT :json ->> '$.host' IS :host AND :json ->> '$.host_key' IS :key,"
    "       :json ->> '$.signature'";

static const char REFUSED[] = "SELECT :json ->> '$.error.why'";

/* This machine, as it tells the Host. */
struct enroller {
	char name[65], body[BODY_MAX];
	unsigned char key[KEY_PUBLIC_SIZE];
	int64_t peer_uid;
};

/* Write the lines of a network's claim behind those that all have in common. */
static int
claim_tls(const struct enroll_claim *c, char *text, size_t room)
{
	char authority[65], certificate[65];

	sodium_bin2hex(authority, sizeof(authority), c->authority, CERT_FP_SIZE);
	sodium_bin2hex(certificate, sizeof(certificate), c->certificate, CERT_FP_SIZE);
	return snprintf(text, room, "%s\n%s\n%s\n%s\n", c->transport,
	    c->endpoint == NULL ? "-" : c->endpoint, authority, certificate);
}

/* Write what is signed; its length, or 0 where it is too long. */
static size_t
enroll_text(const struct enroll_claim *c, char text[TEXT_MAX])
{
	char token[65], box_key[65], host_key[65];
	int len, more;

	sodium_bin2hex(token, sizeof(token), c->token_digest, crypto_hash_sha256_BYTES);
	sodium_bin2hex(box_key, sizeof(box_key), c->box_key, KEY_PUBLIC_SIZE);
	sodium_bin2hex(host_key, sizeof(host_key), c->host_key, KEY_PUBLIC_SIZE);
	len = snprintf(
	    text, TEXT_MAX, "%s\n%s\n%s\n%s\n%s\n", token, c->box, box_key, c->host, host_key);
	if (len <= 0 || len >= TEXT_MAX)
		return 0;
	more = c->lane != NULL ? snprintf(text + len, TEXT_MAX - (size_t)len, "%s\n", c->lane)
			       : claim_tls(c, text + len, TEXT_MAX - (size_t)len);
	len += more;
	return more > 0 && len < TEXT_MAX ? (size_t)len : 0;
}

static const char *
claim_domain(const struct enroll_claim *c)
{
	return c->lane != NULL ? ENROLL_DOMAIN : ENROLL_TLS_DOMAIN;
}

/* The SHA-256 of ${blob} in hex, or "-" where it is empty. */
static void
blob_digest(const struct cert_blob *blob, char hex[65])
{
	uint8_t fp[CERT_FP_SIZE];

	strcpy(hex, "-");
	if (blob->data == NULL)
		return;
	cert_fingerprint(blob->data, blob->len, fp);
	sodium_bin2hex(hex, 65, fp, sizeof(fp));
}

static size_t
proof_text(const struct enroll_proof *p, char text[TEXT_MAX])
{
	char token[65], box_key[65], request[65], authority[65];
	int len;

	sodium_bin2hex(token, sizeof(token), p->token_digest, crypto_hash_sha256_BYTES);
	sodium_bin2hex(box_key, sizeof(box_key), p->box_key, KEY_PUBLIC_SIZE);
	blob_digest(p->request, request);
	blob_digest(p->authority, authority);
	len = snprintf(text, TEXT_MAX, "%s\n%s\n%s\n%s\n%s\n%s\n%s\n", token, p->box, box_key,
	    p->transport, p->endpoint == NULL ? "-" : p->endpoint, request, authority);
	return len > 0 && len < TEXT_MAX ? (size_t)len : 0;
}

static int
text_sign(const struct key *key, const char *domain, const char *text, size_t len,
    char signature[ENROLL_BASE64])
{
	unsigned char raw[KEY_SIGN_SIZE];

	if (len == 0 || key_sign(key, KEY_IDENTITY, domain, text, len, raw) != 0)
		return -1;
	sodium_bin2base64(
	    signature, ENROLL_BASE64, raw, sizeof(raw), sodium_base64_VARIANT_ORIGINAL);
	return 0;
}

static int
text_check(const unsigned char *pk, const char *domain, const char *text, size_t len,
    const char *signature)
{
	unsigned char raw[KEY_SIGN_SIZE];

	if (len == 0 ||
	    base64_read(signature, strlen(signature), NULL, raw, sizeof(raw)) != sizeof(raw))
		return -1;
	return key_verify(pk, domain, text, len, raw);
}

int
enroll_sign(const struct key *key, const struct enroll_claim *claim, char signature[ENROLL_BASE64])
{
	char text[TEXT_MAX];
	size_t len = enroll_text(claim, text);

	return text_sign(key, claim_domain(claim), text, len, signature);
}

int
enroll_check(const struct enroll_claim *claim, const char *signature)
{
	char text[TEXT_MAX];
	size_t len = enroll_text(claim, text);

	return text_check(claim->host_key, claim_domain(claim), text, len, signature);
}

int
enroll_prove(const struct key *key, const struct enroll_proof *proof, char signature[ENROLL_BASE64])
{
	char text[TEXT_MAX];
	size_t len = proof_text(proof, text);

	return text_sign(key, ENROLL_PROOF_DOMAIN, text, len, signature);
}

int
enroll_proved(const struct enroll_proof *proof, const char *signature)
{
	char text[TEXT_MAX];
	size_t len = proof_text(proof, text);

	return text_check(proof->box_key, ENROLL_PROOF_DOMAIN, text, len, signature);
}

/* Say in ${e} who this machine is and what it sends. */
static int
enroll_body(struct store *db, const struct pairing_code *code, const char *lane, struct enroller *e)
{
	char token[2 * CODE_TOKEN + 1];
	const void *key;
	struct stmt *q;
	int rc = -1;

	if ((q = store_sql(db, BODY)) == NULL)
		return -1;
	sodium_bin2hex(token, sizeof(token), code->token, CODE_TOKEN);
	stmt_text(q, ":token", token);
	stmt_text(q, ":lane", lane);
	if ((rc = stmt_step(q)) == 1) {
		snprintf(e->body, sizeof(e->body), "%s", stmt_get_text(q, 0));
		snprintf(e->name, sizeof(e->name), "%s", stmt_get_text(q, 1));
		if ((key = stmt_get_blob(q, 2, sizeof(e->key))) != NULL)
			memcpy(e->key, key, sizeof(e->key));
		stmt_done(q);
	}
	sodium_memzero(token, sizeof(token));
	if (rc == 0)
		refusal_set(store_refusal(db), "box.missing", "this machine is not set up yet");
	return rc == 1 ? 0 : -1;
}

static int
enroll_verify(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	struct enroller *e = ctx;

	(void)refusal;
	e->peer_uid = (int64_t)peer->uid;
	return 0;
}

int
enroll_unsigned(struct store *db)
{
	return refusal_set(store_refusal(db), "pairing.refused",
	    "the answer is not signed by the Host that the code names");
}

/* The Host took the code: it must be the one that the code names. */
static int
enroll_granted(struct store *db, const struct pairing_code *code, const char *lane,
    const struct enroller *e, const struct http_answer *answer)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	struct enroll_claim claim = {.token_digest = digest,
	    .box = e->name,
	    .host = code->host,
	    .box_key = e->key,
	    .host_key = code->host_key,
	    .lane = lane};
	char key[2 * KEY_PUBLIC_SIZE + 1];
	struct stmt *q;
	int rc = -1;

	crypto_hash_sha256(digest, code->token, CODE_TOKEN);
	if ((q = store_sql(db, GRANTED)) == NULL)
		return -1;
	sodium_bin2hex(key, sizeof(key), code->host_key, KEY_PUBLIC_SIZE);
	stmt_text_n(q, ":json", answer->body, answer->len);
	stmt_text(q, ":host", code->host);
	stmt_text(q, ":key", key);
	if (stmt_step(q) != 1)
		return -1;
	if (stmt_get_int(q, 0) == 1)
		rc = enroll_check(&claim, stmt_get_text(q, 1));
	stmt_done(q);
	return rc == 0 ? 0 : enroll_unsigned(db);
}

int
enroll_refused(struct store *db, const struct http_answer *answer)
{
	struct stmt *q;

	if ((q = store_sql(db, REFUSED)) == NULL)
		return -1;
	stmt_text_n(q, ":json", answer->body, answer->len);
	if (stmt_step(q) != 1)
		return -1;
	refusal_set(store_refusal(db), "pairing.refused", "the Host answered %d: %.300s",
	    answer->status, stmt_get_text(q, 0));
	stmt_done(q);
	return -1;
}

static int
enroll_heard(struct store *db, const struct pairing_code *code, const char *lane,
    const struct enroller *e, const struct http_answer *answer)
{
	struct refusal r;

	if (http_json_check(answer->body, answer->len, DEPTH, &r) != 0)
		return refusal_set(store_refusal(db), "pairing.refused",
		    "the answer is not that of a Host: %s", r.why);
	return answer->status == 200 ? enroll_granted(db, code, lane, e, answer)
				     : enroll_refused(db, answer);
}

int
enroll_ask(struct store *db, const struct pairing_code *code, const char *lane, int64_t *peer_uid)
{
	static const struct http_field headers[] = {
	    {"Content-Type", "application/json"}, {NULL, NULL}};
	int64_t limit = store_setting(db, "pairing.wait_ms");
	struct enroller e = {.peer_uid = -1};
	struct http_request request = {.socket_path = code->path,
	    .method = "POST",
	    .url = "http://bastion/v1/enroll",
	    .headers = headers,
	    .body = e.body,
	    .connect_ms = limit,
	    .total_ms = limit,
	    .reply_max = REPLY_MAX,
	    .verify = enroll_verify,
	    .ctx = &e};
	struct http_answer answer = {0};
	struct refusal r;
	int rc = -1;

	if (enroll_body(db, code, lane, &e) != 0)
		goto out;
	request.body_len = strlen(e.body);
	if (http_ask(&request, &answer, &r) != 0)
		refusal_set(
		    store_refusal(db), "pairing.unreachable", "the Host did not answer: %s", r.why);
	else
		rc = enroll_heard(db, code, lane, &e, &answer);
	*peer_uid = e.peer_uid;
out:
	free(answer.body);
	sodium_memzero(&e, sizeof(e));
	return rc;
}
