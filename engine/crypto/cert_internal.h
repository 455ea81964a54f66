/* cert_internal.h: what cert.c (reading, requests) and ca.c (issuing) share of OpenSSL's objects.
 */
#ifndef ENGINE_CRYPTO_CERT_INTERNAL_H
#define ENGINE_CRYPTO_CERT_INTERNAL_H

#include "engine/crypto/cert.h"
#include "engine/crypto/openssl.h"

/**
 * cert_take(c, der, len, out, r):
 * Move the ${len} bytes at ${der}, which an i2d function of OpenSSL allocated and returned the
 * length of, to ${out}.  Return 0, or -1 with ${r} cert.make where that failed or memory ran out.
 */
int cert_take(const struct openssl_crypto *c, unsigned char *der, int len, struct cert_blob *out,
    struct refusal *r);

/**
 * cert_key_check(c, key, r):
 * Return 0 if ${key} is of a kind and size that is taken; else -1 with ${r} cert.key.
 */
int cert_key_check(const struct openssl_crypto *c, const EVP_PKEY *key, struct refusal *r);

/**
 * cert_key_read(c, key, r):
 * Return the private key in ${key}; or NULL with ${r} cert.key.
 */
EVP_PKEY *cert_key_read(
    const struct openssl_crypto *c, const struct cert_blob *key, struct refusal *r);

/**
 * cert_name_add(c, names, kind, value, len, r), cert_uris_add(c, names, uris, r):
 * Append a name of ${kind} (GEN_DNS, GEN_IPADD, GEN_URI), or the list ${uris} that a NULL ends (may
 * be NULL), to ${names}.  Return 0, or -1 with ${r} cert.make, cert.uris or cert.device.
 */
int cert_name_add(const struct openssl_crypto *c, GENERAL_NAMES *names, int kind, const void *value,
    size_t len, struct refusal *r);
int cert_uris_add(const struct openssl_crypto *c, GENERAL_NAMES *names, const char *const uris[],
    struct refusal *r);

#endif
