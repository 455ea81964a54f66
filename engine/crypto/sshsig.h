/* sshsig.h: approvals signed with an SSH key, as "ssh-keygen -Y sign -n bastion" makes them. */
#ifndef ENGINE_CRYPTO_SSHSIG_H
#define ENGINE_CRYPTO_SSHSIG_H

#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"

#define SSHSIG_NAMESPACE        "bastion"
#define SSHSIG_POINT_SIZE       32
#define SSHSIG_FINGERPRINT_SIZE 51   /* "SHA256:", 43 characters and a NUL */
#define SSHSIG_APPLICATION_MAX  255  /* bytes; "ssh:" unless the key was made with another */
#define SSHSIG_COMMENT_MAX      255  /* bytes */
#define SSHSIG_LINE_MAX         1024 /* bytes of a public key line */
#define SSHSIG_BLOB_MAX         1024 /* bytes of a signature out of its armor; it has at most 471 */
#define SSHSIG_ARMOR_MAX        2048 /* bytes of a signature in its armor */

#define SSHSIG_FLAG_PRESENT  0x01 /* somebody touched the token */
#define SSHSIG_FLAG_VERIFIED 0x04 /* and gave it a PIN or a finger */

enum sshsig_type {
	SSHSIG_ED25519,    /* ssh-ed25519 */
	SSHSIG_SK_ED25519, /* sk-ssh-ed25519@openssh.com: on a FIDO token */
};

/* A public key.  Type, point and application say which key it is; the rest is for people. */
struct sshsig_key {
	enum sshsig_type type;
	uint8_t point[SSHSIG_POINT_SIZE];
	char application[SSHSIG_APPLICATION_MAX + 1]; /* printable ASCII; "" if not on a token */
	char comment[SSHSIG_COMMENT_MAX + 1];         /* UTF-8 without control characters */
	char fingerprint[SSHSIG_FINGERPRINT_SIZE];    /* as ssh-keygen -l prints it */
};

/* What a token said of a signature; zeros for a key that is not on one. */
struct sshsig_proof {
	uint8_t flags;
	uint32_t
	    counter; /* grows with each use of a token, or stays 0 on one that does not count */
};

/**
 * sshsig_type_name(type):
 * Return the name of ${type} in key files, a constant.
 */
const char *sshsig_type_name(enum sshsig_type type);

/**
 * sshsig_key_parse(line, key, r):
 * Read ${line}, one line of a .pub file: type, one space, base64 and perhaps a space and a comment,
 * with or without a line end.  Options in front, as authorized_keys has them, a second line, bytes
 * after the key and points that are no Ed25519 key are refused.  Fill ${*key} and return 0; or
 * return -1 with ${r} set to sshkey.form or, for a key of another type, sshkey.type, and ${*key}
 * undefined.
 */
int sshsig_key_parse(const char *line, struct sshsig_key *key, struct refusal *r)
    __attribute__((warn_unused_result));

/**
 * sshsig_verify(key, msg, len, armored, proof, r):
 * Is the text ${armored} a signature (OpenSSH's PROTOCOL.sshsig, version 1, namespace "bastion",
 * hash sha256 or sha512, nothing in the reserved field) that ${key} made over ${msg}[0..${len})?
 * Lines end in LF or CRLF; the end of the last may be missing; nothing may stand before or after.
 * A key on a token must have been touched (PROTOCOL.u2f, user presence).  Return 0 with ${*proof}
 * filled; the caller refuses a counter that did not grow, where counters are kept.  Else return -1
 * with ${r} set to sshsig.form, sshsig.key (made by another key), sshsig.namespace, sshsig.hash,
 * sshsig.presence or sshsig.wrong (the signature is not of these bytes).
 */
int sshsig_verify(const struct sshsig_key *key, const void *msg, size_t len, const char *armored,
    struct sshsig_proof *proof, struct refusal *r) __attribute__((warn_unused_result));

#endif
