/* anchor.h: the one Host that a machine on a network answers to. */
#ifndef ENGINE_STATE_ANCHOR_H
#define ENGINE_STATE_ANCHOR_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/store/store.h"

#define ANCHOR_DOMAIN    "bastion-anchor-1" /* of key_sign, by the anchor's KEY_IDENTITY */
#define ANCHOR_TERMS_MAX 4096
#define ANCHOR_OWNER_MAX 64

/* Terms as the anchor signed them: the exact bytes, of the form that schema/anchor.sql gives. */
struct anchor_signed {
	const char *terms;
	size_t len;
	unsigned char signature[64];
};

/* What taking terms did. */
struct anchor_taken {
	char kind[24];  /* "pairing_grant", "pairing_revoke", "anchor_consent" */
	char host[65];  /* the subject */
	char state[16]; /* of its pairing now */
};

/**
 * anchor_take(db, given, taken):
 * Take ${given} and do what it says: approve a pairing, revoke one, or keep a consent for
 * anchor_claim.  A step of the caller's transaction where one is open, else one of its own.
 * Return 0 with ${taken} filled, or -1 with the refusal of ${db} and nothing changed: anchor.none,
 * anchor.signature (another key signed, or other bytes), anchor.terms, anchor.other (another
 * machine or anchor), anchor.subject, anchor.time, anchor.expired, anchor.replayed, anchor.busy,
 * anchor.self, pairing.invalid.
 */
int anchor_take(struct store *db, const struct anchor_signed *given, struct anchor_taken *taken);

/* What a person at the machine claims. */
struct anchor_claim {
	int64_t by_uid;                      /* who claims, by the kernel's word */
	const char *host;                    /* a full name or a handle; NULL: the only one */
	const char *owner;                   /* whose machine it is; NULL: nobody is named */
	bool rotate;                         /* the anchor may move */
	const struct anchor_signed *consent; /* of the present anchor, or NULL */
};

/* What came of it. */
struct anchor_made {
	char host[65], owner[ANCHOR_OWNER_MAX + 1];
	char reason[16]; /* "paired", "claimed", "consent", "silent" */
	bool changed;    /* false: it was so already, and nothing was written */
};

/**
 * anchor_claim(db, claim, made):
 * Make a Host the anchor of this machine, in one transaction with its approval.  A claim of what is
 * so already succeeds and writes nothing.  The present anchor gives way with rotate alone: to the
 * Host that it consented to, in terms that were taken before or come with the claim, or after its
 * silence of the setting anchor.silent_ms.  Return 0, or -1 with the refusal of ${db} and nothing
 * changed, looked for in this order: box.authority, anchor.mode, anchor.held, pairing.unknown,
 * pairing.several, pairing.invalid, anchor.revoked, anchor.approval (the anchor itself was paired
 * anew), what anchor_take says of the consent, anchor.silence.
 */
int anchor_claim(struct store *db, const struct anchor_claim *claim, struct anchor_made *made);

#endif
