/* pairing.h: the box's side of pairing: which Hosts may ask. */
#ifndef ENGINE_STATE_PAIRING_H
#define ENGINE_STATE_PAIRING_H

#include <stdbool.h>

#include "engine/crypto/cert.h"
#include "engine/crypto/key.h"
#include "engine/endpoint.h"
#include "engine/store/store.h"

#define PAIRING_LANE                                                                \
	"lane.sock" /* of the run directory: where a box takes the asks of its Host \
		     */

struct pairing {
	int64_t id;
	char host[65];
	unsigned char host_key[32]; /* Ed25519, public */
	int64_t peer_uid;           /* who served the Host's socket when it paired; -1: no socket */
	char transport[8];          /* "unix", "tls", "reverse" */
	char state[16];   /* "active", "pending"; of pairing_pick "revoked", "invalid" too */
	char reason[128]; /* of pairing_pick: why it is invalid, or "" */
};

/* A Host that wants to be paired, and on whose word. */
struct pairing_offer {
	const char *host;
	const unsigned char *host_key; /* 32 bytes: what it signs with */
	int64_t peer_uid;              /* who serves its socket; nothing over a network */
	int64_t by_uid;     /* who pairs it, by the kernel's word; 0 has machine authority */
	bool replace;       /* it is paired already, and is paired anew */
	const char *answer; /* what was typed at a terminal when asked for a second Host; or NULL */

	const char *socket; /* where it takes what this machine says of itself; NULL: nowhere */

	/* Over a network; NULL: over its socket, and nothing follows. */
	const char *transport;                         /* "tls", "reverse" */
	const uint8_t *authority_fp;                   /* SHA-256 of its authority */
	const char (*endpoint)[ENDPOINT_TEXT_MAX + 1]; /* where it is reached, in order */
	unsigned nendpoints;

	/* What came of the redeem; empty where pairing_check comes before it. */
	struct cert_blob authority, cert, key; /* DER; key is not sealed yet */
	const struct key *wire;                /* to seal it with */
};

/* What came of it. */
struct pairing_made {
	int64_t id;
	char state[16]; /* "active"; "pending" where the anchor has to approve it */
	bool anchor;    /* it became the anchor of this machine with it */
};

/* What was allowed to a Host and ended with its pairing. */
struct pairing_end {
	int64_t grants, questions, runs;
	bool anchor; /* it held the anchor of this machine, which now answers nobody */
};

/**
 * pairing_check(db, offer):
 * Whether pairing_add would do it, tried and undone; also before there is a certificate.  Return 0
 * or -1 as that would.
 */
int pairing_check(struct store *db, const struct pairing_offer *offer);

/**
 * pairing_add(db, offer, made):
 * Let the Host of ${offer} ask from now on; store in ${made} what it is then.  With an anchor a
 * pairing waits for that one's approval.  The first Host of a machine on a network becomes its
 * anchor in the same transaction, where root pairs it.  A Host that was unpaired takes up its old
 * row, with the new key and a new age; what it was granted before stays dropped.  With replace the
 * Host keeps state, age, key and grants, and only who serves it is taken anew.  Return 0, or -1
 * with the refusal of ${db} and nothing changed: pairing.exists, pairing.second (a local machine
 * has a Host, and the answer is no plain yes), pairing.key, pairing.authority, pairing.unknown
 * (nothing to replace).
 */
int pairing_add(struct store *db, const struct pairing_offer *offer, struct pairing_made *made);

/**
 * pairing_pinned(db, authority_fp, endpoint, host):
 * Before a redeem that does not know yet whom it will meet: find a pairing that pins
 * ${authority_fp}; or that reaches its Host at ${endpoint} and pins another.  Return 0 where there
 * is none; or -1 with the refusal of ${db}: pairing.exists, with the Host's name in ${host}, or
 * pairing.authority.
 */
int pairing_pinned(struct store *db, const uint8_t authority_fp[CERT_FP_SIZE], const char *endpoint,
    char host[65]);

/**
 * pairing_revoke(db, id, end):
 * Take the pairing ${id} back, and with it every grant, open question and run that waits; count
 * them in ${end}.  Return 0, or -1 with the refusal of ${db}: pairing.unknown.
 */
int pairing_revoke(struct store *db, int64_t id, struct pairing_end *end);

/**
 * pairing_find(db, host_key, pairing):
 * Find who signs with ${host_key}, among the pairings that are not revoked.  Return 1 with
 * ${pairing} filled, 0 for nobody, -1 on failure.
 */
int pairing_find(struct store *db, const unsigned char host_key[32], struct pairing *pairing);

/**
 * pairing_pick(db, name, pairing):
 * Find the one pairing that ${name} means: a full name, or else a handle (the name up to its first
 * dot); NULL means the only Host that is paired.  What was revoked is found by its name where no
 * other has it.  None is ever picked of several.  Return 0 with ${pairing} filled, or -1 with the
 * refusal of ${db}: pairing.unknown, pairing.several, which lists them.
 */
int pairing_pick(struct store *db, const char *name, struct pairing *pairing);

#endif
