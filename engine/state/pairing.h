/* pairing.h: the box's side of pairing: which Hosts may ask. */
#ifndef ENGINE_STATE_PAIRING_H
#define ENGINE_STATE_PAIRING_H

#include "engine/store/store.h"

#define PAIRING_LANE                                                                \
	"lane.sock" /* of the run directory: where a box takes the asks of its Host \
		     */

struct pairing {
	int64_t id;
	char host[65];
	unsigned char host_key[32]; /* Ed25519, public */
	int64_t peer_uid;           /* who served the Host's socket when it paired */
	char state[16];             /* "active", "pending" */
};

/* What was allowed to a Host and ended with its pairing. */
struct pairing_end {
	int64_t grants, questions, runs;
};

/**
 * pairing_check(db, host, host_key, peer_uid):
 * Whether pairing_add would do it, tried and undone.  Return 0 or -1 as that would.
 */
int pairing_check(
    struct store *db, const char *host, const unsigned char host_key[32], int64_t peer_uid);

/**
 * pairing_add(db, host, host_key, peer_uid, id):
 * Let the Host ${host}, which signs with ${host_key} and was served by ${peer_uid}, ask from now
 * on; store the pairing's id in ${*id}.  A Host that was unpaired takes up its old row, with the
 * new key; what it was granted before stays dropped.  Return 0, or -1 with the refusal of ${db} and
 * nothing changed: pairing.exists, pairing.second, pairing.key.
 */
int pairing_add(struct store *db, const char *host, const unsigned char host_key[32],
    int64_t peer_uid, int64_t *id);

/**
 * pairing_revoke(db, host, end):
 * Take the pairing of ${host} back, and with it every grant, open question and run that waits;
 * count them in ${end}.  Return 0, or -1 with the refusal of ${db}: pairing.unknown.
 */
int pairing_revoke(struct store *db, const char *host, struct pairing_end *end);

/**
 * pairing_find(db, host_key, pairing):
 * Find who signs with ${host_key}, among the pairings that are not revoked.  Return 1 with
 * ${pairing} filled, 0 for nobody, -1 on failure.
 */
int pairing_find(struct store *db, const unsigned char host_key[32], struct pairing *pairing);

#endif
