/* enroll_client.h: the box's end of a pairing, and what both ends sign and check. */
#ifndef NET_HOST_ENROLL_CLIENT_H
#define NET_HOST_ENROLL_CLIENT_H

#include <stdint.h>

#include "engine/crypto/cert.h"
#include "engine/crypto/key.h"
#include "engine/state/code.h"

#define ENROLL_BODY_MAX (4 * CERT_MAX + 4096) /* a request and an authority in hex */

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
 *
 * Over a network the same is asked of the Host's port, under TLS.  The box believes the authority
 * that its code pins, for the name TLS_HOST_NAME, and shows no certificate yet.  Its body is
 *
 *     {"token", "box", "box_key", "transport": "reverse", "request": hex, "proof": base64}
 *     {"token", "box", "box_key", "transport": "tls", "endpoint": "host:port", "authority": hex,
 *      "request": hex, "proof": base64}
 *
 * request is PKCS#10 in DER, for the URI of the box's device and no other; endpoint and authority
 * are those of the box's own listener, which the Host will dial.  proof is the box's signature,
 * domain "bastion-enroll-box-1", over
 *
 *     TOKEN_DIGEST \n BOX \n BOX_KEY \n TRANSPORT \n ENDPOINT or - \n SHA-256 of the request in hex
 * \n SHA-256 of the box's authority in hex, or - \n
 *
 * and 200 answers {"host", "host_key", "signature", "certificate": hex}, the signature with domain
 * "bastion-enroll-2" over
 *
 *     TOKEN_DIGEST \n BOX \n BOX_KEY \n HOST \n HOST_KEY \n TRANSPORT \n ENDPOINT or - \n
 *     SHA-256 of the Host's authority in hex \n SHA-256 of the certificate in hex \n
 */
#define ENROLL_DOMAIN       "bastion-enroll-1"
#define ENROLL_TLS_DOMAIN   "bastion-enroll-2"
#define ENROLL_PROOF_DOMAIN "bastion-enroll-box-1"
#define ENROLL_BASE64       89 /* 64 bytes in base64, and a NUL */

struct enroll_claim {
	const unsigned char *token_digest; /* SHA-256 of the token, 32 bytes */
	const char *box, *host;            /* names */
	const unsigned char *box_key;      /* KEY_PUBLIC_SIZE bytes, as is the next */
	const unsigned char *host_key;
	const char *lane; /* over a unix socket; NULL: over a network, with what follows */

	const char *transport, *endpoint; /* endpoint: NULL but for "tls" */
	uint8_t authority[CERT_FP_SIZE];  /* of the Host */
	uint8_t certificate[CERT_FP_SIZE];
};

/* What the box says of itself over a network. */
struct enroll_proof {
	const unsigned char *token_digest;
	const char *box;
	const unsigned char *box_key;
	const char *transport, *endpoint;
	const struct cert_blob *request;
	const struct cert_blob *authority; /* of the box; empty but for "tls" */
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
 * enroll_prove(key, proof, signature), enroll_proved(proof, signature):
 * The same of a box's ${proof}, by the owner of its box_key.
 */
int enroll_prove(
    const struct key *key, const struct enroll_proof *proof, char signature[ENROLL_BASE64]);
int enroll_proved(const struct enroll_proof *proof, const char *signature);

/**
 * enroll_ask(db, code, lane, peer_uid):
 * Redeem ${code} at its Host's socket, as this machine (the row box of ${db}), which will take asks
 * on the socket ${lane}.  Nothing is written here.  Waits at most the setting pairing.wait_ms.
 * Return 0 with the user that serves the Host's socket in ${*peer_uid}, or -1 with the refusal of
 * ${db}: pairing.unreachable, pairing.refused (what the Host said, or an answer that the Host of
 * the code did not sign).
 */
int enroll_ask(
    struct store *db, const struct pairing_code *code, const char *lane, int64_t *peer_uid);

/* A redeem over a network. */
struct enroll_dial {
	const struct pairing_code
	    *code; /* its token and endpoints; host and key where they are known */
	const struct cert_blob
	    *authority;              /* NULL: code->authority pins it; else it and no name of a
				      * Host is known: the one that it vouches for is taken */
	const struct key *key;       /* the machine's secret */
	const char *endpoint;        /* where this box listens; NULL: it dials */
	const struct cert_blob *own; /* with endpoint: its authority */
};

/* What came of it; free it with enroll_made_free. */
struct enroll_made {
	char host[CODE_HOST_MAX + 1];
	unsigned char host_key[KEY_PUBLIC_SIZE];
	struct cert_blob authority; /* of the Host */
	struct cert_blob cert, key; /* of this box at that Host; key: PKCS#8, not sealed */
};

/**
 * enroll_ask_tls(db, dial, made):
 * Redeem over a network, as this machine.  Nothing is written here.  The endpoints are tried in
 * turn, again where a connection was cut; all of it takes at most the setting pairing.wait_ms.
 * Return 0 with ${made}, or -1 with the refusal of ${db}: pairing.port, tls.untrusted (not the
 * pinned authority, name or time), pairing.refused (as above, or a certificate that is not ours).
 */
int enroll_ask_tls(struct store *db, const struct enroll_dial *dial, struct enroll_made *made);
void enroll_made_free(struct enroll_made *made);

#endif
