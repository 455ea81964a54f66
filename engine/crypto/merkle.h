/* merkle.h: the hash tree of RFC 6962 section 2.1 over SHA-256, and its proofs. */
#ifndef ENGINE_CRYPTO_MERKLE_H
#define ENGINE_CRYPTO_MERKLE_H

#include <stddef.h>
#include <stdint.h>

#define MERKLE_HASH   32
#define MERKLE_LEVELS 63                  /* heights of a tree of less than 2^62 leaves */
#define MERKLE_PROOF  (MERKLE_LEVELS + 1) /* most hashes of a proof */

/* One proof: hashes in the order of RFC 6962 section 2.1.1 or 2.1.2. */
struct merkle_proof {
	size_t n;
	unsigned char hash[MERKLE_PROOF][MERKLE_HASH];
};

/*
 * A tree that only grows, known by the roots of its whole subtrees: hash[h] is that of 2^h leaves
 * where bit h of ${size} is set.  All zeros: the empty tree.
 */
struct merkle_tree {
	uint64_t size;
	unsigned char hash[MERKLE_LEVELS][MERKLE_HASH];
};

/* Gives the hash of the whole subtree over the leaves ${n} << ${height} and so on.  Return 0 or -1.
 */
typedef int merkle_get(void *ctx, unsigned height, uint64_t n, unsigned char hash[MERKLE_HASH]);

/* Told of each whole subtree of a height that 8 divides, when its last leaf is added. */
typedef void merkle_formed(void *ctx, unsigned height, const unsigned char hash[MERKLE_HASH]);

/**
 * merkle_leaf(entry, len, hash):
 * Store the hash of the leaf for the bytes ${entry}[0..${len}) in ${hash}.
 */
void merkle_leaf(const void *entry, size_t len, unsigned char hash[MERKLE_HASH]);

/**
 * merkle_whole(hashes, n, hash):
 * Store the root over the ${n} ${hashes} (a power of two, at most 256) in ${hash}.
 */
void merkle_whole(const unsigned char *hashes, size_t n, unsigned char hash[MERKLE_HASH]);

/**
 * merkle_add(tree, leaf, formed, ctx):
 * Add the hash ${leaf} to ${tree}.  ${formed} may be NULL.
 */
void merkle_add(struct merkle_tree *tree, const unsigned char leaf[MERKLE_HASH],
    merkle_formed *formed, void *ctx);

/**
 * merkle_root(tree, root):
 * Store the root of ${tree} in ${root}; that of the empty tree is the SHA-256 of nothing.
 */
void merkle_root(const struct merkle_tree *tree, unsigned char root[MERKLE_HASH]);

/**
 * merkle_load(tree, size, get, ctx):
 * Make ${tree} the one of the first ${size} leaves that ${get} knows.  Return 0 or -1.
 */
int merkle_load(struct merkle_tree *tree, uint64_t size, merkle_get *get, void *ctx);

/**
 * merkle_prove(index, size, get, ctx, proof):
 * Store the proof that leaf ${index} (from 0) is in the tree of ${size} leaves in ${proof}.  Return
 * 0, or -1 where ${get} failed or there is no such leaf.
 */
int merkle_prove(
    uint64_t index, uint64_t size, merkle_get *get, void *ctx, struct merkle_proof *proof);

/**
 * merkle_extend(old, size, get, ctx, proof):
 * Store the proof that the tree of ${size} leaves begins with the one of ${old} leaves, 1 or more,
 * in ${proof}.  Return as merkle_prove.
 */
int merkle_extend(
    uint64_t old, uint64_t size, merkle_get *get, void *ctx, struct merkle_proof *proof);

/**
 * merkle_included(index, size, leaf, proof, root):
 * Return 0 if ${proof} shows that the tree of ${size} leaves and the root ${root} has ${leaf} at
 * ${index} (RFC 9162 section 2.1.3.2), else -1.
 */
int merkle_included(uint64_t index, uint64_t size, const unsigned char leaf[MERKLE_HASH],
    const struct merkle_proof *proof, const unsigned char root[MERKLE_HASH]);

/**
 * merkle_extended(old, old_root, size, root, proof):
 * Return 0 if ${proof} shows that the tree of ${size} leaves and the root ${root} begins with that
 * of ${old} leaves, 1 or more, and the root ${old_root} (RFC 9162 section 2.1.4.2), else -1.
 */
int merkle_extended(uint64_t old, const unsigned char old_root[MERKLE_HASH], uint64_t size,
    const unsigned char root[MERKLE_HASH], const struct merkle_proof *proof);

#endif
