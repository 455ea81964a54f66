/* sign.c: signatures of requests. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/crypto/base64.h"
#include "net/host/sign.h"

static int
sign_text(const struct sign_request *request, char text[SIGN_TEXT_MAX])
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(digest) + 1];
	int n;

	crypto_hash_sha256(digest, request->body, request->len);
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	n = snprintf(text, SIGN_TEXT_MAX, "%s\n%s\n%" PRId64 "\n%s\n%s\n", request->method,
	    request->path, request->time, request->nonce, hex);
	return n > 0 && n < SIGN_TEXT_MAX ? n : -1;
}

int
sign_make(const struct key *key, const struct sign_request *request, char signature[SIGN_BASE64])
{
	unsigned char raw[64];
	char text[SIGN_TEXT_MAX];
	int len;

	if ((len = sign_text(request, text)) == -1 ||
	    key_sign(key, KEY_IDENTITY, SIGN_DOMAIN, text, (size_t)len, raw) != 0)
		return -1;
	sodium_bin2base64(signature, SIGN_BASE64, raw, sizeof(raw), sodium_base64_VARIANT_ORIGINAL);
	return 0;
}

int
sign_check(const unsigned char pk[32], const struct sign_request *request, const char *signature)
{
	unsigned char raw[64];
	char text[SIGN_TEXT_MAX];
	int len;

	if ((len = sign_text(request, text)) == -1 ||
	    base64_read(signature, strlen(signature), NULL, raw, sizeof(raw)) != sizeof(raw))
		return -1;
	return key_verify(pk, SIGN_DOMAIN, text, (size_t)len, raw);
}

int
sign_headers(const struct key *key, const unsigned char identity[32],
    const struct sign_request *request, struct sign_headers *h)
{
	struct sign_request anew = *request;

	if (request->nonce != NULL)
		snprintf(h->nonce, sizeof(h->nonce), "%s", request->nonce);
	else
		random_hex(h->nonce);
	anew.nonce = h->nonce;
	if (sign_make(key, &anew, h->signature) != 0)
		return -1;
	sodium_bin2hex(h->key, sizeof(h->key), identity, 32);
	snprintf(h->time, sizeof(h->time), "%" PRId64, request->time);
	h->fields[0] = (struct http_field){"Content-Type", "application/json"};
	h->fields[1] = (struct http_field){"Bastion-Key", h->key};
	h->fields[2] = (struct http_field){"Bastion-Time", h->time};
	h->fields[3] = (struct http_field){"Bastion-Nonce", h->nonce};
	h->fields[4] = (struct http_field){"Bastion-Signature", h->signature};
	h->fields[5] = (struct http_field){NULL, NULL};
	return 0;
}

/*
 * What came in.
 */

static const char *
header_needed(struct http_exchange *x, const char *name, struct refusal *r)
{
	const char *v;

	if ((v = http_header(x, name)) == NULL)
		refusal_set(r, "lane.signature", "the request has no header %s", name);
	return v;
}

static int
hex_only(const char *text, size_t len)
{
	return strlen(text) == len && strspn(text, "0123456789abcdef") == len ? 0 : -1;
}

int
signed_read(struct http_exchange *x, const char *path, struct signed_request *s, struct refusal *r)
{
	const char *key, *time, *nonce;

	if ((key = header_needed(x, "Bastion-Key", r)) == NULL ||
	    (time = header_needed(x, "Bastion-Time", r)) == NULL ||
	    (nonce = header_needed(x, "Bastion-Nonce", r)) == NULL ||
	    (s->signature = header_needed(x, "Bastion-Signature", r)) == NULL)
		return -1;
	if (hex_only(key, 64) != 0 || hex_only(nonce, SIGN_NONCE_HEX - 1) != 0)
		return refusal_set(
		    r, "lane.signature", "a header of the signature is not in its form");
	sodium_hex2bin(s->key, sizeof(s->key), key, 64, NULL, NULL, NULL);
	memcpy(s->nonce, nonce, SIGN_NONCE_HEX);
	s->request = (struct sign_request){.method = http_method(x),
	    .path = path,
	    .time = strtoll(time, NULL, 10),
	    .nonce = s->nonce};
	s->request.body = http_body(x, &s->request.len);
	return 0;
}

int
signed_check(const struct signed_request *s, const char *who, struct refusal *r)
{
	struct sign_request request = s->request;

	request.nonce = s->nonce;
	if (sign_check(s->key, &request, s->signature) == 0)
		return 0;
	return refusal_set(
	    r, "lane.signature", "the signature is not that of %s for this request", who);
}

int
signed_now(const struct signed_request *s, int64_t skew_ms, struct refusal *r)
{
	int64_t skew = s->request.time - clock_now();

	if (skew <= skew_ms && skew >= -skew_ms)
		return 0;
	return refusal_set(r, "lane.time",
	    "the request was signed %" PRId64 " s %s this machine's clock",
	    (skew < 0 ? -skew : skew) / 1000, skew < 0 ? "behind" : "ahead of");
}
