/* audit_tree.c: tiles from rows, hashes from tiles. */
#include <inttypes.h>
#include <string.h>

#include "engine/crypto/sha256.h"
#include "engine/state/audit_tree.h"

#define BATCH                                                                              \
	32 /* tiles of level 0 that one transaction adds: it holds the gate for some 10 ms \
	    */

static const char TREE_NEXT[] =
    "SELECT coalesce(max(n), -1) + 1 FROM audit_tile WHERE level = :level";

static const char TREE_WHOLE[] = "SELECT coalesce(max(seq), 0) / 256 FROM audit";

static const char TREE_ROWS[] =
    "SELECT hash FROM audit WHERE seq > :first AND seq <= :first + :n ORDER BY seq";

static const char TREE_ROOTS[] =
    "SELECT root FROM audit_tile WHERE level = :level - 1 AND n >= :first AND n < :first + :n"
    " ORDER BY n";

static const char TREE_TILE[] = "SELECT hashes FROM audit_tile WHERE level = :level AND n = :n";

static const char TREE_ADD[] =
    "INSERT INTO audit_tile (level, n, root, hashes) VALUES (:level, :n, :root, :hashes)";

/*
 * Store the ${n} hashes of ${level} from number ${first} on, which are leaves or roots of tiles, in
 * ${hashes}.  Return how many there are.
 */
static int
level_read(struct store *db, int64_t level, int64_t first, int n, unsigned char *hashes)
{
	const unsigned char *hash;
	struct stmt *q;
	int i = 0;

	if ((q = store_sql(db, level == 0 ? TREE_ROWS : TREE_ROOTS)) == NULL)
		return -1;
	if (level > 0)
		stmt_int(q, ":level", level);
	stmt_int(q, ":first", first);
	stmt_int(q, ":n", n);
	while (stmt_step(q) == 1) {
		if ((hash = stmt_get_blob(q, 0, MERKLE_HASH)) == NULL || i == n) {
			stmt_done(q);
			return i;
		}
		if (level == 0)
			merkle_leaf(hash, MERKLE_HASH, hashes + i * MERKLE_HASH);
		else
			memcpy(hashes + i * MERKLE_HASH, hash, MERKLE_HASH);
		i++;
	}
	return i;
}

static int
tile_missing(struct store *db, int64_t level, int64_t n)
{
	return refusal_set(store_refusal(db), "audit.tile",
	    "what tile %" PRId64 " of level %" PRId64 " is made from is not all there", n, level);
}

static int
tile_add(struct store *db, int64_t level, int64_t n)
{
	unsigned char hashes[AUDIT_TILE * MERKLE_HASH], root[MERKLE_HASH];
	struct stmt *q;

	if (level_read(db, level, n * AUDIT_TILE, AUDIT_TILE, hashes) != AUDIT_TILE)
		return tile_missing(db, level, n);
	merkle_whole(hashes, AUDIT_TILE, root);
	if ((q = store_sql(db, TREE_ADD)) == NULL)
		return -1;
	stmt_int(q, ":level", level);
	stmt_int(q, ":n", n);
	stmt_blob(q, ":root", root, sizeof(root));
	stmt_blob(q, ":hashes", hashes, sizeof(hashes));
	return stmt_run_one(q);
}

/* The tile ${n} of level 0, and each above it that is whole with it. */
static int
tiles_add(struct store *db, int64_t n)
{
	int64_t level;

	if (tile_add(db, 0, n) != 0)
		return -1;
	for (level = 1; (n + 1) % AUDIT_TILE == 0; level++) {
		n /= AUDIT_TILE;
		if (tile_add(db, level, n) != 0)
			return -1;
	}
	return 0;
}

static int64_t
tiles_of(struct store *db, int64_t level)
{
	struct stmt *q;

	if ((q = store_sql(db, TREE_NEXT)) == NULL)
		return -1;
	stmt_int(q, ":level", level);
	return stmt_value(q, -1);
}

int
audit_tree_extend(struct store *db)
{
	int64_t next, whole, end;

	/* Look first: no writer waits behind the gate for nothing. */
	if ((next = tiles_of(db, 0)) == -1 ||
	    (whole = stmt_value(store_sql(db, TREE_WHOLE), -1)) == -1)
		return -1;
	if (next >= whole)
		return 0;
	if (whole - next > BATCH)
		sha256_hurry();
	if (store_begin_soft(db) != 0)
		return -1;
	/* Another process may have come first. */
	if ((next = tiles_of(db, 0)) == -1)
		return store_rollback(db);
	for (end = next + BATCH < whole ? next + BATCH : whole; next < end; next++)
		if (tiles_add(db, next) != 0)
			return store_rollback(db);
	if (store_commit(db) != 0)
		return -1;
	return next < whole;
}

/* Copy ${n} hashes of a tile, from number ${first} of its level on.  Return 1, or 0 without it. */
static int
tile_read(struct store *db, int64_t level, int64_t first, int n, unsigned char *hashes)
{
	const unsigned char *all;
	struct stmt *q;
	int found;

	if ((q = store_sql(db, TREE_TILE)) == NULL)
		return -1;
	stmt_int(q, ":level", level);
	stmt_int(q, ":n", first / AUDIT_TILE);
	if ((found = stmt_step(q)) != 1)
		return found;
	if ((all = stmt_get_blob(q, 0, AUDIT_TILE * MERKLE_HASH)) != NULL)
		memcpy(hashes, all + first % AUDIT_TILE * MERKLE_HASH, (size_t)n * MERKLE_HASH);
	stmt_done(q);
	return all != NULL;
}

/* A merkle_get.  Subtrees that no tile has yet are made from the two below them. */
static int
tree_get(void *ctx, unsigned height, uint64_t n, unsigned char hash[MERKLE_HASH])
{
	unsigned char hashes[AUDIT_TILE / 2 * MERKLE_HASH];
	struct store *db = ctx;
	int64_t level = height / 8, first = (int64_t)(n << height % 8);
	int count = 1 << height % 8, found;

	if ((found = tile_read(db, level, first, count, hashes)) == -1)
		return -1;
	if (found == 1 || level_read(db, level, first, count, hashes) == count) {
		merkle_whole(hashes, (size_t)count, hash);
		return 0;
	}
	if (height < 8)
		return tile_missing(db, 0, first / AUDIT_TILE);
	if (tree_get(ctx, height - 1, 2 * n, hashes) != 0 ||
	    tree_get(ctx, height - 1, 2 * n + 1, hashes + MERKLE_HASH) != 0)
		return -1;
	merkle_whole(hashes, 2, hash);
	return 0;
}

int
audit_tree_load(struct store *db, int64_t size, struct merkle_tree *tree)
{
	return merkle_load(tree, (uint64_t)size, tree_get, db);
}

int
audit_tree_prove(struct store *db, int64_t seq, int64_t size, struct merkle_proof *proof)
{
	return merkle_prove((uint64_t)seq - 1, (uint64_t)size, tree_get, db, proof);
}

int
audit_tree_follow(struct store *db, int64_t old, int64_t size, struct merkle_proof *proof)
{
	return merkle_extend((uint64_t)old, (uint64_t)size, tree_get, db, proof);
}
