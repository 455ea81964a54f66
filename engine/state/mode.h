/* mode.h: whether this machine is a person's own, or on a network and answers to an anchor. */
#ifndef ENGINE_STATE_MODE_H
#define ENGINE_STATE_MODE_H

#include <stddef.h>

#include "engine/store/store.h"

struct key;

#define MODE_TERMS_MAX 512

/* A change of mode, by whom, and what proves it where a factor is enrolled. */
struct mode_change {
	const char *mode;      /* "local", "networked" */
	int64_t by_uid;        /* by the kernel's word; 0 has machine authority */
	const struct key *key; /* opens authenticator secrets */
	const char *code;      /* of an authenticator, or NULL */
	const char *signature; /* armored, by an SSH key over mode_terms; or NULL */
};

/**
 * mode_check(db, change):
 * Whether mode_set would do it, tried without a proof and undone.  Return 0 or -1 as that would:
 * box.factor means that nothing but a proof is missing.
 */
int mode_check(struct store *db, const struct mode_change *change);

/**
 * mode_terms(db, mode, terms):
 * Store in ${terms}, MODE_TERMS_MAX bytes, what an SSH key signs for the change to ${mode}: it
 * names the machine and the number of the change, so that it serves once.  Return 0 or -1.
 */
int mode_terms(struct store *db, const char *mode, char terms[MODE_TERMS_MAX]);

/**
 * mode_set(db, change):
 * Change the mode, with the proof in the same transaction.  Return 0, or -1 with the refusal of
 * ${db} and nothing changed but the try: box.authority, box.role, box.mode (it is in that mode),
 * box.anchored, box.factor, or those of factor_prove_totp and factor_prove_ssh.
 */
int mode_set(struct store *db, const struct mode_change *change);

#endif
