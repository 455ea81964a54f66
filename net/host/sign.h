/* sign.h: how a Host proves with each request that it is the one that was paired. */
#ifndef NET_HOST_SIGN_H
#define NET_HOST_SIGN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/crypto/key.h"

/*
 * A request on a lane carries Bastion-Key (the Host's public key in hex), Bastion-Time (ms UTC),
 * Bastion-Nonce (32 hex digits, new for each request) and Bastion-Signature: base64 of the Host's
 * Ed25519 signature, domain "bastion-lane-1", over
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

#endif
