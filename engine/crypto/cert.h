/* cert.h: X.509 certificates, requests and keys, read strictly, since they come from outside. */
#ifndef ENGINE_CRYPTO_CERT_H
#define ENGINE_CRYPTO_CERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"

#define CERT_FP_SIZE       32   /* SHA-256 */
#define CERT_MAX           8192 /* bytes of DER */
#define CERT_URIS_MAX      4
#define CERT_URI_MAX       160
#define CERT_DEVICE_PREFIX "urn:bastion:device:"
#define CERT_DEVICE_MAX    128

/* Bytes that whoever made them hands over: free them with cert_blob_free. */
struct cert_blob {
	uint8_t *data;
	size_t len;
};

/* The URIs of a subject alternative name (RFC 5280 §4.2.1.6). */
struct cert_uris {
	unsigned n;
	char uri[CERT_URIS_MAX][CERT_URI_MAX + 1];
	char device[CERT_DEVICE_MAX + 1]; /* behind CERT_DEVICE_PREFIX in one of them; "": none */
};

/* What is said of a certificate.  Nothing here is true before it was verified under a CA. */
struct cert {
	uint8_t fp[CERT_FP_SIZE];      /* of its DER */
	int64_t not_before, not_after; /* ms UTC */
	bool ca;
	struct cert_uris uris;
};

/* What is said in a request (PKCS#10, RFC 2986) by the holder of the key. */
struct cert_request {
	struct cert_blob public_key; /* SubjectPublicKeyInfo, DER */
	struct cert_uris uris;
};

/**
 * cert_blob_free(blob):
 * Wipe and free the bytes of ${blob}, which is empty afterwards.
 */
void cert_blob_free(struct cert_blob *blob);

/**
 * cert_fingerprint(der, len, fp):
 * Store the SHA-256 of the ${len} bytes of ${der} in ${fp}: the name by which a CA is pinned.
 */
void cert_fingerprint(const void *der, size_t len, uint8_t fp[CERT_FP_SIZE]);

/**
 * cert_read(der, len, cert, r):
 * Read the certificate of ${len} bytes at ${der} into ${cert}.  It must be all of the bytes, at
 * most CERT_MAX, in DER and no looser encoding, of version 3, with no extension that is damaged,
 * doubled, or critical and unknown, and with a key of EC (P-256, P-384, P-521), RSA (2048 to 8192
 * bits) or Ed25519.  Its URIs must be printable ASCII without spaces, within the bounds above, and
 * name at most one device (however often).  Return 0, or -1 with ${r} cert.form, cert.key,
 * cert.uris, cert.device or library.missing.
 */
int cert_read(const void *der, size_t len, struct cert *cert, struct refusal *r);

/**
 * cert_from_pem(text, len, der, r):
 * Decode the one certificate in ${text}[0..${len}) (RFC 7468 §5; nothing but white space around it)
 * into ${der}, which is not read: see cert_read.  Return 0, or -1 with ${r} cert.form.
 */
int cert_from_pem(const char *text, size_t len, struct cert_blob *der, struct refusal *r);

/**
 * cert_from_hex(hex, der):
 * Decode ${hex}, at most CERT_MAX bytes, into ${der}, which is not read.  Return 0; or -1 with
 * ${der} empty.
 */
int cert_from_hex(const char *hex, struct cert_blob *der);

/**
 * cert_to_pem(der, len, pem, r):
 * Store the certificate as text in ${pem}; a NUL follows, which its length does not count.  Return
 * 0, or -1 with ${r} cert.make.
 */
int cert_to_pem(const void *der, size_t len, struct cert_blob *pem, struct refusal *r);

/**
 * cert_key_make(key, public_key, r):
 * Make a key for TLS, ECDSA on P-256: ${key} is PKCS#8 in DER (RFC 5958), for the caller to keep
 * sealed; ${public_key} is its SubjectPublicKeyInfo.  Return 0, or -1 with ${r} cert.make.
 */
int cert_key_make(struct cert_blob *key, struct cert_blob *public_key, struct refusal *r);

/**
 * cert_request_make(key, uris, request, r):
 * Make a request in DER that is signed with ${key} and asks for ${uris}, a list ended by NULL.
 * Return 0, or -1 with ${r} cert.key, cert.uris or cert.make.
 */
int cert_request_make(const struct cert_blob *key, const char *const uris[],
    struct cert_blob *request, struct refusal *r);

/**
 * cert_request_read(der, len, request, r):
 * Read a request as strictly as a certificate, and check that the holder of the key made it.  What
 * it asks for is the asker's word: what is issued, the caller decides.  Return 0, or -1 with ${r}
 * as for cert_read, or cert.request where the signature is wrong.  Free request->public_key.
 */
int cert_request_read(const void *der, size_t len, struct cert_request *request, struct refusal *r);

/**
 * cert_device_uri(device, uri):
 * Store the URI that names the fingerprint ${device}: 1 to CERT_DEVICE_MAX letters, digits and
 * "-._~:+/=".  Return 0, or -1 where ${device} is none.
 */
int cert_device_uri(const char *device, char uri[CERT_URI_MAX + 1]);

#endif
