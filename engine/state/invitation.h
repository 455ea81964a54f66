/* invitation.h: the Host's side of pairing: codes that it gave out, and the box that redeems one.
 */
#ifndef ENGINE_STATE_INVITATION_H
#define ENGINE_STATE_INVITATION_H

#include "engine/state/code.h"

#define INVITATION_SOCKET "enroll.sock" /* of the run directory: where a Host takes enrollments */

/**
 * invitation_make(db, box_name, ttl_ms, path, code):
 * Invite the machine ${box_name} for ${ttl_ms} milliseconds (0: the setting invitation.ttl_ms) and
 * store in ${code} the line to give it, which leads to the enroll socket ${path} of this Host.
 * Only the token's SHA-256 is kept: the code cannot be shown again.  Return 0, or -1 with ${code}
 * wiped and the refusal of ${db}: box.name, invitation.open, invitation.ttl, code.invalid.
 */
int invitation_make(struct store *db, const char *box_name, int64_t ttl_ms, const char *path,
    char code[CODE_MAX + 1]);

/* What a box says when it redeems; ${peer_uid} is what the kernel says of it. */
struct enrollment {
	unsigned char token[CODE_TOKEN];
	unsigned char box_key[32];
	const char *box_name;
	const char *lane; /* absolute path of the socket on which the box takes asks */
	int64_t peer_uid;
};

/**
 * invitation_redeem(db, e, box_id):
 * Spend the invitation of ${e}'s token and enter the box, in one transaction; store its id in
 * ${*box_id}.  The invitation is a person's word, so an older box of that name is gone from then
 * on, whatever its key.  Return 0, or -1 with the refusal of ${db} and nothing changed:
 * invitation.unknown, invitation.used, invitation.expired, invitation.name, box.lane.
 */
int invitation_redeem(struct store *db, const struct enrollment *e, int64_t *box_id);

/**
 * invitation_withdraw(db, box_name, count):
 * Take the open invitation of ${box_name} back and store in ${*count} how many that were: 0 or 1.
 * Return 0 or -1.
 */
int invitation_withdraw(struct store *db, const char *box_name, int64_t *count);

#endif
