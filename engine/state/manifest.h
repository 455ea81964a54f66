/* manifest.h: ops that a person adds: signed, sealed, taken back. */
#ifndef ENGINE_STATE_MANIFEST_H
#define ENGINE_STATE_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/crypto/key.h"
#include "engine/store/store.h"

#define MANIFEST_MAX       16384 /* bytes of a manifest */
#define MANIFEST_DEPTH     4     /* of its arrays and objects */
#define MANIFEST_TERMS_MAX 65536
#define MANIFEST_HEX       65 /* of a digest, with its end */
#define MANIFEST_WORDS_MAX 16 /* of a builder */
#define MANIFEST_WORD_MAX  (4 * 255 + 1)

/* An op as it is put before a person. */
struct manifest_draft {
	const char *text; /* JSON, held to RFC 8259 by the caller; its form is SQL's */
	char program_sha256[MANIFEST_HEX];     /* of the bytes of the file; "": it has none */
	char interpreter_sha256[MANIFEST_HEX]; /* the same */
	/* Where it has a builder; program_sha256 is then of what that made: ${built}. */
	char source_sha256[MANIFEST_HEX], builder_sha256[MANIFEST_HEX];
	const void *built;
	size_t built_len;
};

/* How the person proves it: one of code and signature is NULL. */
struct manifest_proof {
	int64_t by_uid; /* on the kernel's word */
	const struct key *key;
	const char *code;      /* of an authenticator */
	const char *signature; /* armored SSH signature over the text of the terms */
};

/**
 * manifest_files(db, text, program, interpreter, size):
 * Store which files the manifest ${text} runs, "" for none, in ${program} and ${interpreter}, of
 * ${size} bytes each.  Return 0, or -1 with the refusal of ${db}: manifest.form, manifest.program.
 */
int manifest_files(
    struct store *db, const char *text, char *program, char *interpreter, size_t size);

/**
 * manifest_builder(db, text, words):
 * Store the words of the builder of ${text} in ${words}.  Return their number, 0 where it has none;
 * or -1 with the refusal of ${db}: manifest.builder.
 */
int manifest_builder(
    struct store *db, const char *text, char words[MANIFEST_WORDS_MAX][MANIFEST_WORD_MAX]);

/**
 * manifest_terms(db, draft, terms):
 * Store what a person reads and signs for ${draft} in ${terms}, of MANIFEST_TERMS_MAX bytes; it
 * ends with a number that no second decision has.  Return 0, or -1 with the refusal of ${db}.
 */
int manifest_terms(struct store *db, const struct manifest_draft *draft, char *terms);

/**
 * manifest_add(db, draft, proof, id):
 * Add the op of ${draft}, or put it in the place of the one of its name, whose grants and open
 * questions end with that; store its number in ${*id}.  One durable transaction with its proof.
 * Return 0, or -1 with the refusal of ${db} and nothing changed but the try: manifest.*, those of
 * factor_prove_totp and factor_prove_ssh.
 */
int manifest_add(struct store *db, const struct manifest_draft *draft,
    const struct manifest_proof *proof, int64_t *id);

/**
 * manifest_drop(db, name):
 * Drop the op ${name}, and what Hosts were granted of it: that only takes away, so it needs no
 * proof.  Return 0, or -1 with the refusal of ${db}: manifest.unknown.
 */
int manifest_drop(struct store *db, const char *name);

#endif
