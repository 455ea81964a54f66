/* invitation.h: the Host's side of pairing: codes that it gave out, and the box that redeems one.
 */
#ifndef ENGINE_STATE_INVITATION_H
#define ENGINE_STATE_INVITATION_H

#include "engine/state/code.h"

#define INVITATION_SOCKET "enroll.sock" /* of the run directory: where a Host takes enrollments */

/**
 * invitation_make(db, box_name, ttl_ms, where, code):
 * Invite the machine ${box_name} for ${ttl_ms} milliseconds (0: the setting invitation.ttl_ms) and
 * store in ${code} the line to give it, which leads where ${where} says: its path, the enroll
 * socket of this Host; or its endpoints and authority, over a network. Only the token's SHA-256 is
 * kept: the code cannot be shown again.  Return 0, or -1 with ${code} wiped and the refusal of
 * ${db}: box.name, invitation.open, invitation.ttl, code.invalid.
 */
int invitation_make(struct store *db, const char *box_name, int64_t ttl_ms,
    const struct pairing_code *where, char code[CODE_MAX + 1]);

/* What a box says when it redeems. */
struct enrollment {
	unsigned char token[CODE_TOKEN];
	unsigned char box_key[32];
	const char *box_name;
	const char *transport; /* "unix" (also where it is NULL), "tls", "reverse" */
	const char *lane;      /* "unix": absolute path of the socket on which the box takes asks */
	int64_t peer_uid;      /* "unix": whose process it is, by the kernel's word */
	const char *endpoint;  /* "tls": where the box listens */
	struct cert_blob authority; /* "tls": its own, over that listener; DER */
	struct cert_blob request;   /* over a network: PKCS#10, DER, in its own name */
};

/**
 * invitation_redeem(db, e, box_id):
 * Spend the invitation of ${e}'s token and enter the box, in one transaction; store its id in
 * ${*box_id}.  The invitation is a person's word, so an older box of that name is gone from then
 * on, whatever its key.  Over a network its key for TLS is there to be certified (tls_issue).
 * Return 0, or -1 with the refusal of ${db} and nothing changed: invitation.unknown,
 * invitation.used, invitation.expired, invitation.name, box.lane, endpoint.invalid, cert.*.
 */
int invitation_redeem(struct store *db, const struct enrollment *e, int64_t *box_id);

/**
 * invitation_withdraw(db, box_name, count):
 * Take the open invitation of ${box_name} back and store in ${*count} how many that were: 0 or 1.
 * Return 0 or -1.
 */
int invitation_withdraw(struct store *db, const char *box_name, int64_t *count);

#endif
