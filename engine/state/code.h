/* code.h: a pairing code: everything that a box must know of a Host, in one line to carry over. */
#ifndef ENGINE_STATE_CODE_H
#define ENGINE_STATE_CODE_H

#include <stddef.h>

#include "engine/crypto/cert.h"
#include "engine/endpoint.h"
#include "engine/store/store.h"

#define CODE_MAX       1024 /* bytes of a whole code */
#define CODE_TOKEN     32
#define CODE_HOST_MAX  64
#define CODE_PATH_MAX  103 /* what sun_path takes */
#define CODE_ENDPOINTS 8

/* What a code says.  Whoever holds the token can take the invitation: wipe this after use. */
struct pairing_code {
	unsigned char token[CODE_TOKEN];
	unsigned char host_key[32];   /* Ed25519, public: what the Host signs its answer with */
	char host[CODE_HOST_MAX + 1]; /* its name */
	char path[CODE_PATH_MAX + 1]; /* of its enroll socket, absolute; "": over a network */

	/* Over a network: where the Host is reached, in order, and the authority that vouches for
	 * it.
	 */
	unsigned nendpoints;
	char endpoint[CODE_ENDPOINTS][ENDPOINT_TEXT_MAX + 1]; /* as endpoint_text() spells it */
	unsigned char authority[CERT_FP_SIZE];
};

/**
 * code_make(db, facts, code):
 * Store in ${code}, CODE_MAX + 1 bytes, the code for ${facts}: "bst_" and the base64url, without
 * padding, of {"v":1,"t":token,"u":"unix:/path","k":key,"h":host}, token and key in hexadecimal; or
 * over a network of {"v":1,"t":token,"u":"tls:host:port,host:port","c":authority,"k":key,"h":host}.
 * ${db} is asked for nothing but JSON.  Return 0, or -1 with its refusal: code.invalid where the
 * facts do not fit into a code.
 */
int code_make(struct store *db, const struct pairing_code *facts, char code[CODE_MAX + 1]);

/**
 * code_read(db, code, len, facts):
 * Take the ${len} bytes at ${code} apart into ${facts}.  One set of facts has exactly one code: a
 * field that is missing, doubled, unknown or written in another way makes it none.  Return 0, or -1
 * with the refusal code.invalid, which never repeats the code; ${facts} is then wiped.
 */
int code_read(struct store *db, const char *code, size_t len, struct pairing_code *facts);

#endif
