/* merkle.c: hash trees: growing one, proving from one, checking a proof. */
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "engine/crypto/merkle.h"
#include "engine/crypto/sha256.h"

void
merkle_leaf(const void *entry, size_t len, unsigned char hash[MERKLE_HASH])
{
	static const unsigned char mark = 0x00;

	sha256_pair(&mark, 1, entry, len, hash);
}

static void
node(const unsigned char *left, const unsigned char *right, unsigned char hash[MERKLE_HASH])
{
	unsigned char both[1 + 2 * MERKLE_HASH];

	both[0] = 0x01;
	memcpy(both + 1, left, MERKLE_HASH);
	memcpy(both + 1 + MERKLE_HASH, right, MERKLE_HASH);
	sha256_pair(both, sizeof(both), NULL, 0, hash);
}

void
merkle_whole(const unsigned char *hashes, size_t n, unsigned char hash[MERKLE_HASH])
{
	unsigned char row[256 * MERKLE_HASH];
	size_t i;

	memcpy(row, hashes, n * MERKLE_HASH);
	for (; n > 1; n /= 2)
		for (i = 0; i < n / 2; i++)
			node(row + 2 * i * MERKLE_HASH, row + (2 * i + 1) * MERKLE_HASH,
			    row + i * MERKLE_HASH);
	memcpy(hash, row, MERKLE_HASH);
}

void
merkle_add(struct merkle_tree *tree, const unsigned char leaf[MERKLE_HASH], merkle_formed *formed,
    void *ctx)
{
	unsigned char hash[MERKLE_HASH];
	unsigned h;

	memcpy(hash, leaf, sizeof(hash));
	if (formed != NULL)
		formed(ctx, 0, hash);
	for (h = 0; (tree->size >> h & 1) != 0; h++) {
		node(tree->hash[h], hash, hash);
		if (formed != NULL && (h + 1) % 8 == 0)
			formed(ctx, h + 1, hash);
	}
	memcpy(tree->hash[h], hash, sizeof(hash));
	tree->size++;
}

void
merkle_root(const struct merkle_tree *tree, unsigned char root[MERKLE_HASH])
{
	bool begun = false;
	unsigned h;

	sha256_pair(NULL, 0, NULL, 0, root);
	for (h = 0; h < MERKLE_LEVELS; h++) {
		if ((tree->size >> h & 1) == 0)
			continue;
		if (begun)
			node(tree->hash[h], root, root);
		else
			memcpy(root, tree->hash[h], MERKLE_HASH);
		begun = true;
	}
}

int
merkle_load(struct merkle_tree *tree, uint64_t size, merkle_get *get, void *ctx)
{
	unsigned h;

	memset(tree, 0, sizeof(*tree));
	if (size >> (MERKLE_LEVELS - 1) != 0)
		return -1;
	/* The subtree of 2^h leaves stands behind those that the higher bits stand for. */
	for (h = 0; h < MERKLE_LEVELS; h++)
		if ((size >> h & 1) != 0 && get(ctx, h, (size >> h) - 1, tree->hash[h]) != 0)
			return -1;
	tree->size = size;
	return 0;
}

/* The largest power of two below ${n}, which is 2 or more: where a tree of ${n} leaves parts. */
static uint64_t
parting(uint64_t n)
{
	return (uint64_t)1 << (63 - __builtin_clzll(n - 1));
}

/* MTH(D[lo:hi]); the parting above has laid ${lo} where a whole subtree begins. */
static int
range_root(uint64_t lo, uint64_t hi, merkle_get *get, void *ctx, unsigned char hash[MERKLE_HASH])
{
	unsigned char right[MERKLE_HASH];
	uint64_t n = hi - lo;
	unsigned h;

	if ((n & (n - 1)) == 0) {
		h = (unsigned)__builtin_ctzll(n);
		return get(ctx, h, lo >> h, hash);
	}
	if (range_root(lo, lo + parting(n), get, ctx, hash) != 0 ||
	    range_root(lo + parting(n), hi, get, ctx, right) != 0)
		return -1;
	node(hash, right, hash);
	return 0;
}

/* The proof grows from the root down here, and is turned round at the end. */
static int
proof_add(struct merkle_proof *proof, uint64_t lo, uint64_t hi, merkle_get *get, void *ctx)
{
	if (proof->n == MERKLE_PROOF || range_root(lo, hi, get, ctx, proof->hash[proof->n]) != 0)
		return -1;
	proof->n++;
	return 0;
}

static void
proof_turn(struct merkle_proof *proof)
{
	unsigned char hash[MERKLE_HASH];
	size_t i;

	for (i = 0; i < proof->n / 2; i++) {
		memcpy(hash, proof->hash[i], sizeof(hash));
		memcpy(proof->hash[i], proof->hash[proof->n - 1 - i], sizeof(hash));
		memcpy(proof->hash[proof->n - 1 - i], hash, sizeof(hash));
	}
}

int
merkle_prove(uint64_t index, uint64_t size, merkle_get *get, void *ctx, struct merkle_proof *proof)
{
	uint64_t lo = 0, hi = size, middle;

	proof->n = 0;
	if (index >= size || size >> (MERKLE_LEVELS - 1) != 0)
		return -1;
	while (hi - lo > 1) {
		middle = lo + parting(hi - lo);
		if (index < middle ? proof_add(proof, middle, hi, get, ctx) != 0
				   : proof_add(proof, lo, middle, get, ctx) != 0)
			return -1;
		if (index < middle)
			hi = middle;
		else
			lo = middle;
	}
	proof_turn(proof);
	return 0;
}

int
merkle_extend(uint64_t old, uint64_t size, merkle_get *get, void *ctx, struct merkle_proof *proof)
{
	uint64_t lo = 0, hi = size, middle;

	proof->n = 0;
	if (old == 0 || old > size || size >> (MERKLE_LEVELS - 1) != 0)
		return -1;
	while (old != hi) {
		middle = lo + parting(hi - lo);
		if (old <= middle ? proof_add(proof, middle, hi, get, ctx) != 0
				  : proof_add(proof, lo, middle, get, ctx) != 0)
			return -1;
		if (old <= middle)
			hi = middle;
		else
			lo = middle;
	}
	/* Where the old tree is one whole subtree, its root is known to whoever checks. */
	if (lo != 0 && proof_add(proof, lo, hi, get, ctx) != 0)
		return -1;
	proof_turn(proof);
	return 0;
}

int
merkle_included(uint64_t index, uint64_t size, const unsigned char leaf[MERKLE_HASH],
    const struct merkle_proof *proof, const unsigned char root[MERKLE_HASH])
{
	unsigned char hash[MERKLE_HASH];
	uint64_t at, last;
	size_t i;

	if (index >= size)
		return -1;
	memcpy(hash, leaf, sizeof(hash));
	at = index;
	last = size - 1;
	for (i = 0; i < proof->n; i++, at >>= 1, last >>= 1) {
		if (last == 0)
			return -1;
		if ((at & 1) == 0 && at != last) {
			node(hash, proof->hash[i], hash);
			continue;
		}
		node(proof->hash[i], hash, hash);
		for (; (at & 1) == 0 && at != 0; at >>= 1)
			last >>= 1;
	}
	return last == 0 && sodium_memcmp(hash, root, sizeof(hash)) == 0 ? 0 : -1;
}

int
merkle_extended(uint64_t old, const unsigned char old_root[MERKLE_HASH], uint64_t size,
    const unsigned char root[MERKLE_HASH], const struct merkle_proof *proof)
{
	unsigned char before[MERKLE_HASH], now[MERKLE_HASH];
	uint64_t at = old - 1, last = size - 1;
	const unsigned char *first = old_root;
	size_t i = 0;

	if (old == 0 || old > size)
		return -1;
	if (old == size)
		return proof->n == 0 && memcmp(old_root, root, MERKLE_HASH) == 0 ? 0 : -1;
	if (proof->n == 0)
		return -1;
	if ((old & (old - 1)) != 0)
		first = proof->hash[i++];
	for (; (at & 1) != 0; at >>= 1)
		last >>= 1;
	memcpy(before, first, sizeof(before));
	memcpy(now, first, sizeof(now));
	for (; i < proof->n; i++, at >>= 1, last >>= 1) {
		if (last == 0)
			return -1;
		if ((at & 1) == 0 && at != last) {
			node(now, proof->hash[i], now);
			continue;
		}
		node(proof->hash[i], before, before);
		node(proof->hash[i], now, now);
		for (; (at & 1) == 0 && at != 0; at >>= 1)
			last >>= 1;
	}
	return last == 0 && memcmp(before, old_root, sizeof(before)) == 0 &&
		       memcmp(now, root, sizeof(now)) == 0
		   ? 0
		   : -1;
}
