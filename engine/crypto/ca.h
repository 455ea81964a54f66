/* ca.h: a Host's private certificate authority: made once, it names servers, boxes and operators.
 */
#ifndef ENGINE_CRYPTO_CA_H
#define ENGINE_CRYPTO_CA_H

#include "engine/crypto/cert.h"

#define CA_NAME_MAX  64 /* of a common name (RFC 5280, ub-common-name) */
#define CA_NAMES_MAX 32 /* of one certificate */

/*
 * Keys are ECDSA on P-256 with SHA-256 throughout: that is what every TLS stack of today takes.
 * Ed25519 certificates are refused by browsers, by SChannel and by Apple's stack, and operators
 * come with those.
 */
struct ca;

enum ca_use {
	CA_SERVER, /* serverAuth */
	CA_CLIENT, /* clientAuth */
};

/* What to issue.  Lists end with NULL and may be NULL. */
struct ca_order {
	enum ca_use use;
	const char *subject;       /* common name, for people: 1 to CA_NAME_MAX printable ASCII */
	const char *const *names;  /* DNS names or addresses; a server has at least one */
	const char *const *uris;   /* see cert.h */
	const uint8_t *public_key; /* SubjectPublicKeyInfo, DER: of cert_key_make or a request */
	size_t public_key_len;
	int64_t valid_ms; /* from now; cut to the end of the CA itself */
	int64_t early_ms; /* valid already that long ago, for clocks that are behind */
};

/**
 * ca_make(name, valid_ms, early_ms, cert, key, r):
 * Make an authority called ${name}: its certificate (DER, self-signed, for leaves alone) and its
 * key (PKCS#8 in DER), which the caller keeps sealed.  Serial numbers come from random_fill, dates
 * from clock_now.  Return 0, or -1 with ${r} ca.order, cert.make or library.missing.
 */
int ca_make(const char *name, int64_t valid_ms, int64_t early_ms, struct cert_blob *cert,
    struct cert_blob *key, struct refusal *r);

/**
 * ca_load(cert, key, r):
 * Return the authority of ${cert} and ${key}, for the caller to ca_free; or NULL with ${r} as
 * cert_read, or ca.order where the certificate is no authority's or the key is another's.
 */
struct ca *ca_load(const struct cert_blob *cert, const struct cert_blob *key, struct refusal *r);

/**
 * ca_free(ca):
 * Wipe and free ${ca}, which may be NULL.
 */
void ca_free(struct ca *ca);

/**
 * ca_cert(ca):
 * Return the certificate of ${ca} as read; its fingerprint is what a pairing code pins.
 */
const struct cert *ca_cert(const struct ca *ca);

/**
 * ca_issue(ca, order, cert, r):
 * Store a certificate (DER) for ${order} in ${cert}, with a random serial number of 127 bits, not
 * valid beyond the authority.  Return 0; or -1 with ${r} ca.order (a name that is none, a client
 * with names, no time left), ca.expired, cert.uris, cert.device, cert.key or cert.make.
 */
int ca_issue(
    const struct ca *ca, const struct ca_order *order, struct cert_blob *cert, struct refusal *r);

/**
 * ca_issued(authority, use, cert, key, r):
 * Check a certificate that came from outside: the authority ${authority} (DER) signed ${cert}, for
 * ${use}, it is valid now, and ${key} (PKCS#8) is its key.  Return 0; or -1 with ${r} as cert_read,
 * or tls.untrusted.
 */
int ca_issued(const struct cert_blob *authority, enum ca_use use, const struct cert_blob *cert,
    const struct cert_blob *key, struct refusal *r);

#endif
