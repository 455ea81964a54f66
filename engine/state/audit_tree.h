/* audit_tree.h: the hash tree over the audit's rows: kept as tiles, and what is proved from it. */
#ifndef ENGINE_STATE_AUDIT_TREE_H
#define ENGINE_STATE_AUDIT_TREE_H

#include <stdint.h>

#include "engine/crypto/checkpoint.h"
#include "engine/crypto/merkle.h"
#include "engine/store/store.h"

#define AUDIT_TILE 256 /* hashes of a tile */

/**
 * audit_tree_extend(db):
 * Add some of the tiles that are whole by now, in a transaction of its own.  Return 1 where more
 * are left, 0 where none is, or -1 with ${db}'s refusal set.
 */
int audit_tree_extend(struct store *db);

/**
 * audit_tree_load(db, size, tree):
 * Make ${tree} that of the first ${size} rows.  Tiles are read where they are there, and rows
 * where they are not.  Return 0, or -1 with ${db}'s refusal set: audit.tile where rows or tiles are
 * missing.
 */
int audit_tree_load(struct store *db, int64_t size, struct merkle_tree *tree);

/**
 * audit_tree_prove(db, seq, size, proof), audit_tree_follow(db, old, size, proof):
 * Prove that row ${seq} is in the tree of the first ${size} rows; that this tree begins with that
 * of the first ${old}, 1 or more.  Return 0, or -1 with ${db}'s refusal set.
 */
int audit_tree_prove(struct store *db, int64_t seq, int64_t size, struct merkle_proof *proof);
int audit_tree_follow(struct store *db, int64_t old, int64_t size, struct merkle_proof *proof);

#endif
