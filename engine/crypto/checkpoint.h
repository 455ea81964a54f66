/* checkpoint.h: what a machine signs of its audit's tree, and proofs of it, in public formats. */
#ifndef ENGINE_CRYPTO_CHECKPOINT_H
#define ENGINE_CRYPTO_CHECKPOINT_H

#include <stdio.h>

#include "engine/crypto/key.h"
#include "engine/crypto/merkle.h"

/*
 * A checkpoint is a signed note (c2sp.org/signed-note, c2sp.org/tlog-checkpoint): three lines, the
 * origin, the number of leaves and the root in base64; a blank line; the line of our signature.
 * The origin names the log and its key: "bastion.audit/" and the first 16 bytes of the machine's
 * public key in hex.  As the note begins with it, the origin is also the domain of key_sign: no
 * other signature of the machine can be taken for one of a checkpoint.
 */
#define CHECKPOINT_ORIGIN 47    /* bytes of an origin, with its NUL */
#define CHECKPOINT_TEXT   512   /* of a checkpoint that we write, with its NUL */
#define CHECKPOINT_MAX    16384 /* longest note that is read: others may have signed it too */
#define CHECKPOINT_KEY    112   /* of a verifier key, with its NUL */
#define CHECKPOINT_PROOF  8192  /* of a proof that we write, without extra data, with its NUL */

struct checkpoint {
	uint64_t size;
	unsigned char root[MERKLE_HASH];
};

/**
 * checkpoint_origin(pk, origin):
 * Store the origin of the machine with the public key ${pk} (its identity) in ${origin}.
 */
void checkpoint_origin(const unsigned char pk[KEY_PUBLIC_SIZE], char origin[CHECKPOINT_ORIGIN]);

/**
 * checkpoint_sign(key, cp, signature), checkpoint_verify(pk, cp, signature):
 * Sign ${cp} with the identity of ${key}; check such a signature.  Return 0 or -1.
 */
int checkpoint_sign(
    const struct key *key, const struct checkpoint *cp, unsigned char signature[KEY_SIGN_SIZE]);
int checkpoint_verify(const unsigned char pk[KEY_PUBLIC_SIZE], const struct checkpoint *cp,
    const unsigned char signature[KEY_SIGN_SIZE]);

/**
 * checkpoint_write(pk, cp, signature, text):
 * Write the note of ${cp} with its ${signature} by the owner of ${pk} to ${text}.
 */
void checkpoint_write(const unsigned char pk[KEY_PUBLIC_SIZE], const struct checkpoint *cp,
    const unsigned char signature[KEY_SIGN_SIZE], char text[CHECKPOINT_TEXT]);

/**
 * checkpoint_read(pk, text, len, cp, r):
 * Read the note ${text}[0..${len}) into ${cp}.  It must be signed by the owner of ${pk}; lines of
 * other signers are passed over.  Return 0, or -1 with ${r}: checkpoint.form, checkpoint.other (no
 * signature of this key, or another log), checkpoint.signature.
 */
int checkpoint_read(const unsigned char pk[KEY_PUBLIC_SIZE], const char *text, size_t len,
    struct checkpoint *cp, struct refusal *r);

/**
 * checkpoint_key_write(pk, text), checkpoint_key_read(text, pk):
 * The verifier key of ${pk}: origin, key ID and key, with a plus between them.  Reading takes 64
 * hexadecimal digits as well.  Return 0, or -1 where ${text} is neither.
 */
void checkpoint_key_write(const unsigned char pk[KEY_PUBLIC_SIZE], char text[CHECKPOINT_KEY]);
int checkpoint_key_read(const char *text, unsigned char pk[KEY_PUBLIC_SIZE]);

/*
 * What a proof is of.  A proof of inclusion is in the form of c2sp.org/tlog-proof, one of
 * consistency is what c2sp.org/tlog-witness sends to a witness: "old N", hashes, a blank line, the
 * checkpoint.
 */
enum checkpoint_proof_kind { PROOF_INCLUSION, PROOF_CONSISTENCY };

struct checkpoint_proof {
	enum checkpoint_proof_kind kind;
	uint64_t number;          /* index of the leaf, from 0; or the size of the older tree */
	const char *extra, *note; /* in the text that was read */
	size_t extra_len, note_len;
	struct merkle_proof proof;
};

/**
 * checkpoint_proof_write(proof, extra, note, out):
 * Write ${proof} with the bytes ${extra} (NULL: none) and the checkpoint ${note} to ${out}.  Return
 * 0, or -1 where ${out} took no more.
 */
int checkpoint_proof_write(
    const struct checkpoint_proof *proof, const char *extra, const char *note, FILE *out);

/**
 * checkpoint_proof_read(text, len, proof, r):
 * Read ${text}[0..${len}) into ${proof}, whose extra (still base64) and note point into ${text};
 * the note is not read yet.  Return 0, or -1 with ${r}: proof.form.
 */
int checkpoint_proof_read(
    const char *text, size_t len, struct checkpoint_proof *proof, struct refusal *r);

#endif
