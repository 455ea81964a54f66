/* paper.c: Hosts that sign, for tests; by hand, beside the code under test. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "tests/paper.h"

#define HALF_YEAR (INT64_C(183) * 86400000)

void
paper_host(struct paper_host *h, const char *name)
{
	unsigned char seed[32];

	memset(h, 0, sizeof(*h));
	crypto_hash_sha256(seed, (const unsigned char *)name, strlen(name));
	crypto_sign_seed_keypair(h->pk, h->sk, seed);
	snprintf(h->name, sizeof(h->name), "%s", name);
}

void
paper_make(struct paper *p, const char *kind, const struct paper_host *anchor, const char *machine,
    const unsigned char key[32], const struct paper_host *subject)
{
	memset(p, 0, sizeof(*p));
	p->kind = kind;
	p->anchor = anchor->name;
	p->server = machine;
	p->caps = "[\"observe\"]";
	p->more = "";
	p->subject = subject;
	sodium_bin2hex(p->key, sizeof(p->key), key, 32);
	sodium_bin2hex(p->subject_key, sizeof(p->subject_key), subject->pk, 32);
	p->issued_at = clock_now();
	p->expires_at = p->issued_at + HALF_YEAR;
}

/* domain, a line feed, the text: as key_sign has it. */
static void
signature_make(const struct paper_host *h, const char *domain, const char *text, size_t len,
    unsigned char signature[64])
{
	unsigned char message[ANCHOR_TERMS_MAX + 128];
	size_t head = (size_t)snprintf((char *)message, 128, "%s\n", domain);

	memcpy(message + head, text, len);
	crypto_sign_detached(signature, NULL, message, head + len, h->sk);
}

void
paper_sign(struct paper *p, const struct paper_host *signer, const char *domain)
{
	p->given.terms = p->text;
	p->given.len = strlen(p->text);
	signature_make(signer, domain, p->text, p->given.len, p->given.signature);
}

void
paper_write(struct paper *p, const struct paper_host *signer)
{
	snprintf(p->text, sizeof(p->text),
	    "{\"kind\":\"%s\",\"anchor\":\"%s\",\"server\":\"%s\",\"server_key\":\"%s\","
	    "\"subject\":\"%s\",\"subject_key\":\"%s\",\"caps\":%s,\"issued_at\":%" PRId64 ","
	    "\"expires_at\":%" PRId64 "%s}",
	    p->kind, p->anchor, p->server, p->key, p->subject->name, p->subject_key, p->caps,
	    p->issued_at, p->expires_at, p->more);
	paper_sign(p, signer, ANCHOR_DOMAIN);
}

const char *
paper_body(const struct paper *p, char body[PAPER_BODY_MAX])
{
	char signature[89];
	const char *c;
	size_t n;

	sodium_bin2base64(
	    signature, sizeof(signature), p->given.signature, 64, sodium_base64_VARIANT_ORIGINAL);
	n = (size_t)snprintf(body, PAPER_BODY_MAX, "{\"terms\":\"");
	for (c = p->text; *c != '\0'; c++) {
		if (*c == '"' || *c == '\\')
			body[n++] = '\\';
		body[n++] = *c;
	}
	snprintf(body + n, PAPER_BODY_MAX - n, "\",\"signature\":\"%s\"}", signature);
	return body;
}

void
paper_headers(const struct paper_host *h, const char *method, const char *path, const char *body,
    char *headers, size_t size)
{
	char key[65], nonce[33], hex[65], text[512], base64[89];
	unsigned char digest[32], signature[64];
	int64_t now = clock_now();

	sodium_bin2hex(key, sizeof(key), h->pk, 32);
	random_hex(nonce);
	crypto_hash_sha256(digest, (const unsigned char *)body, strlen(body));
	sodium_bin2hex(hex, sizeof(hex), digest, 32);
	snprintf(
	    text, sizeof(text), "%s\n%s\n%" PRId64 "\n%s\n%s\n", method, path, now, nonce, hex);
	signature_make(h, "bastion-lane-1", text, strlen(text), signature);
	sodium_bin2base64(base64, sizeof(base64), signature, 64, sodium_base64_VARIANT_ORIGINAL);
	snprintf(headers, size,
	    "Bastion-Key: %s\r\nBastion-Time: %" PRId64 "\r\nBastion-Nonce: %s\r\n"
	    "Bastion-Signature: %s\r\n",
	    key, now, nonce, base64);
}
