/* key.h: the machine's master key, and what is derived from it. */
#ifndef ENGINE_CRYPTO_KEY_H
#define ENGINE_CRYPTO_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"

#define KEY_PUBLIC_SIZE 32
#define KEY_SIGN_SIZE   64
#define KEY_COLUMN_SIZE 32
#define KEY_DOMAIN_MAX  64
#define KEY_REMOTE_SIZE 32

/*
 * The file holds 32 random bytes and nothing else.  They never sign or seal: each use has its own
 * key, crypto_kdf(master, context "bastion1", id), with these ids for ever:
 *
 *   1  identity  Ed25519 seed: audit seals, lane requests; its public key names the machine
 *   2  grant     Ed25519 seed: seals of grants
 *   3  column    XChaCha20-Poly1305 key of sealed columns (seal.h)
 *   4  wire      the same, of the keys of TLS certificates alone: whoever serves the network has
 *                this one and 6 and no other
 *   5  token     the same, of tokens alone: that of the internet lane, which has no other
 *   6  remote    BLAKE2b key of the digests of secrets by which other machines come
 */
enum key_which {
	KEY_IDENTITY,
	KEY_GRANT,
};

/* Who opens a sealed column. */
enum key_sealer {
	KEY_COLUMN, /* who holds the machine's secret */
	KEY_WIRE,   /* who serves the network as well */
	KEY_TOKEN,  /* who sends tokens to the hosts they are for */
};

/* Derived keys in guarded memory that is not swapped, not dumped, and read-only. */
struct key;

/**
 * key_create(path, r):
 * Make the file ${path}, mode 0600, with a new master key.  The file appears whole or not at all,
 * never replaces anything, and is on disk with its directory entry before this returns.  Return 0;
 * or -1 with ${r} set to key.exists, or to key.create for any failure of the system.  After a
 * key.create that names the directory the file is there, but may not outlive a power cut.
 */
int key_create(const char *path, struct refusal *r);

/**
 * key_load(path, r):
 * Read the master key in ${path} and derive its keys.  The file must be a regular file (no symbolic
 * link) of exactly 32 bytes, owned by the effective user or root, with no access for anybody but
 * the owner, no execute or special bits, and one link.  Return a key that the caller frees with
 * key_free; or NULL with ${r} set to key.missing (no file: never a reason to make a new one
 * silently), key.damaged (wrong size or kind, or all zeros), key.open (others may read it, own it
 * or hold it by another name) or key.unreadable (the system's own error).
 */
struct key *key_load(const char *path, struct refusal *r);

/**
 * key_load_wire(path, r):
 * As key_load, but of all keys derive only that of KEY_WIRE and that of key_remote: what is
 * returned opens the keys of certificates; it signs nothing, and opens no other column.
 */
struct key *key_load_wire(const char *path, struct refusal *r);

/**
 * key_load_token(path, r):
 * As key_load_wire, with the key of KEY_TOKEN alone.
 */
struct key *key_load_token(const char *path, struct refusal *r);

/**
 * key_free(key):
 * Wipe and free ${key}.  ${key} may be NULL.
 */
void key_free(struct key *key);

/**
 * key_public(key, which, pk):
 * Store the Ed25519 public key of ${which} in ${pk}.
 */
void key_public(const struct key *key, enum key_which which, uint8_t pk[KEY_PUBLIC_SIZE]);

/**
 * key_sign(key, which, domain, msg, len, sig):
 * Sign (Ed25519, RFC 8032) the bytes ${domain}, 0x0a, ${msg}[0..${len}) with the key ${which}, so
 * that a signature made for one purpose serves no other.  ${domain} is 1 to KEY_DOMAIN_MAX
 * printable ASCII characters, a constant of the caller.  Store 64 bytes in ${sig}.  Return 0; or
 * -1 if ${domain} is none, ${key} is of key_load_wire or key_load_token, or memory ran out.
 */
int key_sign(const struct key *key, enum key_which which, const char *domain, const void *msg,
    size_t len, uint8_t sig[KEY_SIGN_SIZE]) __attribute__((warn_unused_result));

/**
 * key_verify(pk, domain, msg, len, sig):
 * Return 0 if ${sig} is what the owner of ${pk} made by key_sign for ${domain} and ${msg}; else -1.
 */
int key_verify(const uint8_t pk[KEY_PUBLIC_SIZE], const char *domain, const void *msg, size_t len,
    const uint8_t sig[KEY_SIGN_SIZE]) __attribute__((warn_unused_result));

/**
 * key_remote(key, secret, len, digest):
 * Store the keyed digest (BLAKE2b, RFC 7693) of the ${len} bytes of ${secret} in ${digest}: without
 * the machine's key nobody can tell of which secret it is.  Also with a key of key_load_wire.
 */
void key_remote(
    const struct key *key, const void *secret, size_t len, uint8_t digest[KEY_REMOTE_SIZE]);

/**
 * key_sealer(key, sealer):
 * Return the KEY_COLUMN_SIZE bytes of the key of ${sealer}, which live as long as ${key}; or NULL
 * where ${key} does not hold it.  For seal.c; others call seal_make and seal_open.
 */
const uint8_t *key_sealer(const struct key *key, enum key_sealer sealer);

#endif
