/* enroll_client.h: the box's end of a pairing, and what both ends sign and check. */
#ifndef NET_HOST_ENROLL_CLIENT_H
#define NET_HOST_ENROLL_CLIENT_H

#include <stdint.h>

#include "engine/crypto/key.h"
#include "engine/state/code.h"

/*
 * POST /v1/enroll on the Host's enroll socket, the body an object with exactly these members:
 *
 *     {"token": 64 hex digits, "box": name, "box_key": 64 hex digits, "lane": absolute path}
 *
 * 200 answers {"host": name, "host_key": 64 hex digits, "signature": base64}, where the signature
 * is by the identity of the Host, domain "bastion-enroll-1", over the bytes
 *
 *     SHA-256 of the 32 token bytes in hex \n BOX \n BOX_KEY \n HOST \n HOST_KEY \n LANE \n
 *
 * The token is new with each code, so an answer that was overheard serves nobody again; the lane
 * comes last, since it alone may hold a line end.  Any other status answers an error as everywhere.
 */
#define ENROLL_DOMAIN "bastion-enroll-1"
#define ENROLL_BASE64 89 /* 64 bytes in base64, and a NUL */

struct enroll_claim {
	const unsigned char *token_digest; /* SHA-256 of the token, 32 bytes */
	const char *box, *host;            /* names */
	const unsigned char *box_key;      /* KEY_PUBLIC_SIZE bytes, as is the next */
	const unsigned char *host_key;
	const char *lane;
};

/**
 * enroll_sign(key, claim, signature):
 * Store the Host's signature of ${claim} in ${signature}.  Return 0, or -1 where a part of the
 * claim is too long.
 */
int enroll_sign(
    const struct key *key, const struct enroll_claim *claim, char signature[ENROLL_BASE64]);

/**
 * enroll_check(claim, signature):
 * Return 0 if ${signature} is that of ${claim} by the owner of its host_key, else -1.
 */
int enroll_check(const struct enroll_claim *claim, const char *signature);

/**
 * enroll_ask(db, code, lane, peer_uid):
 * Redeem ${code} at its Host, as this machine (the row box of ${db}), which will take asks on the
 * socket ${lane}.  Nothing is written here.  Waits at most the setting pairing.wait_ms.  Return 0
 * with the user that serves the Host's socket in ${*peer_uid}, or -1 with the refusal of ${db}:
 * pairing.unreachable, pairing.refused (what the Host said, or an answer that the Host of the code
 * did not sign).
 */
int enroll_ask(
    struct store *db, const struct pairing_code *code, const char *lane, int64_t *peer_uid);

#endif
