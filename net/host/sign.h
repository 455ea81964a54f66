/* sign.h: how a Host, or a box, proves with each request that it is the one that was paired. */
#ifndef NET_HOST_SIGN_H
#define NET_HOST_SIGN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/crypto/key.h"
#include "net/http/server.h"

/*
 * A request on a lane carries Bastion-Key (the Host's public key in hex), Bastion-Time (ms UTC),
 * Bastion-Nonce (32 hex digits, new for each request) and Bastion-Signature: base64 of the Host's
 * Ed25519 signature, domain "bastion-lane-1", over what follows.  So does what a box asks its Host,
 * with the box's key.
 *
 *     METHOD \n PATH \n TIME \n NONCE \n SHA-256 of the body in hex \n
 */
#define SIGN_DOMAIN    "bastion-lane-1"
#define SIGN_TEXT_MAX  512
#define SIGN_BASE64    89 /* 64 bytes in base64, and a NUL */
#define SIGN_NONCE_HEX 33

struct sign_request {
	const char *method, *path;
	int64_t time;
	const char *nonce;
	const void *body;
	size_t len;
};

/**
 * sign_make(key, request, signature):
 * Store the signature of ${request} by the identity of ${key} in ${signature}.  Return 0, or -1
 * where method and path are too long.
 */
int sign_make(
    const struct key *key, const struct sign_request *request, char signature[SIGN_BASE64]);

/**
 * sign_check(pk, request, signature):
 * Return 0 if ${signature} (base64) is that of ${request} by the owner of ${pk}, else -1.
 */
int sign_check(
    const unsigned char pk[32], const struct sign_request *request, const char *signature);

/* The headers of a signed request; they point into this. */
struct sign_headers {
	char key[65], time[24], nonce[SIGN_NONCE_HEX], signature[SIGN_BASE64];
	struct http_field fields[6]; /* Content-Type first; ended by a NULL name */
};

/**
 * sign_headers(key, identity, request, headers):
 * Sign ${request} by the identity of ${key}, whose public half is ${identity}; where its nonce is
 * NULL, with a new one.  Return 0, or -1 as sign_make.
 */
int sign_headers(const struct key *key, const unsigned char identity[32],
    const struct sign_request *request, struct sign_headers *headers);

/* A request that came in with such headers. */
struct signed_request {
	unsigned char key[32]; /* whose it says it is */
	char nonce[SIGN_NONCE_HEX];
	struct sign_request request;
	const char *signature; /* lives as long as the exchange */
};

/**
 * signed_read(x, path, s, r):
 * Read what ${x}, a request for ${path}, says of its signature.  Nothing of it is proven.  Return
 * 0, or -1 with ${r} lane.signature where a header lacks or is not in its form.
 */
int signed_read(
    struct http_exchange *x, const char *path, struct signed_request *s, struct refusal *r);

/**
 * signed_check(s, who, r), signed_now(s, skew_ms, r):
 * Whether the owner of the key, called ${who}, signed it; and that not more than ${skew_ms} ago, or
 * ahead.  Return 0, or -1 with ${r}: lane.signature; lane.time.
 */
int signed_check(const struct signed_request *s, const char *who, struct refusal *r);
int signed_now(const struct signed_request *s, int64_t skew_ms, struct refusal *r);

#endif
