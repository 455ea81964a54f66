/* sparing.h: a person says which Host may have processes stopped here, and which are spared. */
#ifndef ENGINE_STATE_SPARING_H
#define ENGINE_STATE_SPARING_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/crypto/key.h"
#include "engine/store/store.h"

#define SPARING_TERMS_MAX 6144
#define SPARING_DIGEST    32

/* What a person decides. */
struct sparing_terms {
	int64_t pairing_id; /* this Host may have processes stopped; 0: ${entry} is taken from the
			       list */
	bool agents;        /* also listed ones, where the order names them */
	int64_t ttl_ms;     /* for so long; 0: the setting contain.ttl_ms */
	int64_t entry;
};

/* How the person proves it: one of code and signature is NULL. */
struct sparing_proof {
	int64_t by_uid; /* on the kernel's word */
	const struct key *key;
	const char *code;      /* of an authenticator */
	const char *signature; /* armored SSH signature over the text of the terms */
};

/* A process as it is listed. */
struct sparing_process {
	const char *label;
	int64_t uid;
	const char *exe;           /* as the kernel names it */
	const unsigned char *argv; /* SPARING_DIGEST bytes of its command line; NULL: any */
	int64_t by_uid;
};

/**
 * sparing_text(db, terms, text):
 * Store what a person reads and signs for ${terms} in ${text}.  Return 0, or -1 with the refusal of
 * ${db}: pairing.unknown, contain.unknown.
 */
int sparing_text(struct store *db, const struct sparing_terms *terms, char text[SPARING_TERMS_MAX]);

/**
 * sparing_decide(db, terms, proof):
 * Do what ${terms} say, in one durable transaction with its proof.  Allowing seals the list as it
 * is, whoever changed it: look at it first.  Taking an entry away needs a list that is sealed.
 * Return 0, or -1 with the refusal of ${db} and nothing changed but the try: contain.edited,
 * contain.unknown, contain.ttl, pairing.inactive, pairing.invalid, or those of factor_prove_totp
 * and factor_prove_ssh.
 */
int sparing_decide(
    struct store *db, const struct sparing_terms *terms, const struct sparing_proof *proof);

/**
 * sparing_add(db, process, id):
 * Spare ${process} from now on, with everything beneath it; store the entry's number in ${*id}.
 * That takes nothing from anybody, so it needs no proof.  Return 0, or -1 with the refusal of
 * ${db}: contain.edited, contain.label, contain.listed, contain.full.
 */
int sparing_add(struct store *db, const struct sparing_process *process, int64_t *id);

/**
 * sparing_end(db, pairing_id, ended):
 * The Host ${pairing_id} may have nothing stopped any more; store in ${*ended} whether it might.
 * Return 0 or -1.
 */
int sparing_end(struct store *db, int64_t pairing_id, bool *ended);

#endif
