/* audit.c: sealing the chain's head, and checking the chain of a database. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/audit.h"
#include "engine/state/audit_line.h"
#include "engine/state/audit_tree.h"

static const char AUDIT_SEAL[] =
    "INSERT INTO audit_seal (seq, head, at, reason, signature)"
    " SELECT seq, hash, now_ms(), :reason,"
    "        seal_sign('audit', json_array('audit_seal', seq, lower(hex(hash)), now_ms(), :reason))"
    "   FROM audit WHERE seq = :seq AND seq > coalesce((SELECT max(seq) FROM audit_seal), 0)"
    " RETURNING seq";

static const char AUDIT_SIGN[] =
    "INSERT INTO audit_checkpoint (size, root, at, signature)"
    " SELECT :size, :root, now_ms(), checkpoint_sign(:size, :root)"
    "  WHERE :size > coalesce((SELECT max(size) FROM audit_checkpoint), 0)";

static const char AUDIT_HEAD[] = "SELECT coalesce(max(seq), 0) FROM audit";

static const char AUDIT_UNSEALED[] =
    "SELECT coalesce((SELECT max(seq) FROM audit), 0) - s.seq,"
    "       (SELECT at FROM audit WHERE seq = s.seq + 1)"
    "  FROM (SELECT coalesce(max(seq), 0) AS seq FROM audit_seal) AS s";

static const char AUDIT_CHECKPOINT[] =
    "SELECT size, root, signature FROM audit_checkpoint WHERE :size = 0 OR size = :size"
    " ORDER BY size DESC LIMIT 1";

/*
 * A function of ours looks at each row and stops the walk by answering 1: handing rows out to be
 * looked at takes as long as their hashes.  For the same reason the line is made in C from the
 * columns (audit_line.h).
 */
#define LOOKED_AT                                                           \
	" audit_stop(seq, at, prev, hash, stream, who, entity, entity_id, " \
	"            action, pairing, body) ORDER BY seq"
#define SEALS "SELECT seq, at, head, signature, seal_text FROM audit_seal"
#define BASE  " seq >= coalesce((SELECT max(seq) FROM audit_base), 0)"
static const char AUDIT_ROWS[] = "SELECT 1 FROM audit WHERE" BASE " AND" LOOKED_AT;

static const char AUDIT_SEALS[] = SEALS " WHERE" BASE " ORDER BY seq";

static const char AUDIT_BASE[] =
    "SELECT seq, at, head, signature, base_text FROM audit_base ORDER BY seq DESC LIMIT 1";

static const char AUDIT_CHECKPOINTS[] =
    "SELECT size, root, signature FROM audit_checkpoint ORDER BY size";

/* A copy from before version 2 has a chain and seals alone, from row 1 on. */
static const char AUDIT_HAS_TREE[] =
    "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'audit_checkpoint'";
static const char AUDIT_ROWS_ALONE[] = "SELECT 1 FROM audit WHERE" LOOKED_AT;
static const char AUDIT_SEALS_ALONE[] = SEALS " ORDER BY seq";

static const char AUDIT_COUNT[] = "SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM audit";

static const char AUDIT_TILES[] =
    "SELECT n, root, hashes FROM audit_tile WHERE level = :level ORDER BY n";

enum { PROGRESS_ROWS = 4096, LEVELS = 7, STOP_COLUMNS = 4 + AUDIT_TEXTS };

int64_t
audit_unsealed(struct store *db, int64_t *since)
{
	struct stmt *q;
	int64_t rows;

	*since = 0;
	if ((q = store_sql(db, AUDIT_UNSEALED)) == NULL || stmt_step(q) != 1)
		return -1;
	rows = stmt_get_int(q, 0);
	*since = stmt_get_int(q, 1);
	stmt_done(q);
	return rows;
}

/* The checkpoint goes with its seal, so that neither is there without the other. */
static int
seal_make(struct store *db, const char *reason, int64_t seq, const unsigned char *root)
{
	struct stmt *q;
	int made;

	if ((q = store_sql(db, AUDIT_SEAL)) == NULL)
		return -1;
	stmt_text(q, ":reason", reason);
	stmt_int(q, ":seq", seq);
	if ((made = stmt_step(q)) != 1)
		return made;
	stmt_done(q);
	if ((q = store_sql(db, AUDIT_SIGN)) == NULL)
		return -1;
	stmt_int(q, ":size", seq);
	stmt_blob(q, ":root", root, MERKLE_HASH);
	return stmt_run(q) == -1 ? -1 : 1;
}

int
audit_seal(struct store *db, const char *reason)
{
	unsigned char root[MERKLE_HASH];
	struct merkle_tree tree;
	int64_t rows, since, head;
	int made;

	/* Look first: no writer waits behind the gate for nothing. */
	if ((rows = audit_unsealed(db, &since)) <= 0)
		return rows == 0 ? 0 : -1;
	while ((made = audit_tree_extend(db)) == 1)
		;
	if (made == -1 || (head = stmt_value(store_sql(db, AUDIT_HEAD), -1)) == -1 ||
	    audit_tree_load(db, head, &tree) != 0)
		return -1;
	merkle_root(&tree, root);
	if (store_begin(db) == -1)
		return -1;
	if ((made = seal_make(db, reason, head, root)) == -1)
		return store_rollback(db);
	return store_commit(db) == -1 ? -1 : made;
}

int64_t
audit_checkpoint(
    struct store *db, const unsigned char *pk, int64_t size, char note[CHECKPOINT_TEXT])
{
	const unsigned char *root, *signature;
	struct checkpoint cp;
	struct stmt *q;
	int n;

	if ((q = store_sql(db, AUDIT_CHECKPOINT)) == NULL)
		return -1;
	stmt_int(q, ":size", size);
	if ((n = stmt_step(q)) != 1)
		return n;
	cp.size = (uint64_t)stmt_get_int(q, 0);
	root = stmt_get_blob(q, 1, MERKLE_HASH);
	signature = stmt_get_blob(q, 2, KEY_SIGN_SIZE);
	if (root != NULL && signature != NULL) {
		memcpy(cp.root, root, MERKLE_HASH);
		checkpoint_write(pk, &cp, signature, note);
	}
	stmt_done(q);
	return root != NULL && signature != NULL ? (int64_t)cp.size : 0;
}

/*
 * Checking.
 */

/* The tiles of one level, held against what the rows give. */
struct tiles {
	struct stmt *q;
	int state;     /* of its last step */
	int64_t whole; /* that the rows have given */
	int n;         /* hashes of the next */
	unsigned char hashes[AUDIT_TILE * MERKLE_HASH];
};

/* The walk over the rows, with the other statements beside it: all see the moment of the first. */
struct verify {
	struct store *db;
	struct audit_check check;
	const struct audit_progress *progress;
	int64_t total;
	struct audit_line line;
	bool has_tree, open;
	int rc; /* what stopped the walk */
	struct stmt *seals, *checkpoints;
	int seal, checkpoint; /* of their last steps: 1 where there is one */
	struct tiles tiles[LEVELS];
	bool bad; /* a tile is */
};

/* The tile of ${level} that has become whole; what is not stored yet is no fault. */
static void
tile_check(struct verify *v, unsigned level, const unsigned char root[MERKLE_HASH])
{
	struct tiles *t = &v->tiles[level];
	const unsigned char *stored, *hashes;
	int64_t n = t->whole++;

	t->n = 0;
	if (t->state != 1 || v->bad)
		return;
	stored = stmt_get_blob(t->q, 1, MERKLE_HASH);
	hashes = stmt_get_blob(t->q, 2, sizeof(t->hashes));
	if (stmt_get_int(t->q, 0) != n || stored == NULL || hashes == NULL ||
	    memcmp(stored, root, MERKLE_HASH) != 0 ||
	    memcmp(hashes, t->hashes, sizeof(t->hashes)) != 0) {
		v->bad = true;
		audit_check_bad(&v->check, v->check.report->last,
		    "tile %" PRId64 " of level %u is not what the rows up to %" PRId64 " give", n,
		    level, v->check.report->last);
	}
	t->state = stmt_step(t->q);
}

static void
tile_grow(void *ctx, unsigned height, const unsigned char hash[MERKLE_HASH])
{
	struct verify *v = ctx;
	unsigned level = height / 8;
	struct tiles *t;

	if (level > 0)
		tile_check(v, level - 1, hash);
	if (level >= LEVELS)
		return;
	t = &v->tiles[level];
	memcpy(t->hashes + t->n++ * MERKLE_HASH, hash, MERKLE_HASH);
}

static const unsigned char *
value_hash(struct sqlite3_value *value)
{
	const unsigned char *hash = sqlite3_value_blob(value);

	return sqlite3_value_bytes(value) == MERKLE_HASH ? hash : NULL;
}

static int
verify_row(struct verify *v, struct sqlite3_value **column)
{
	struct audit_text texts[AUDIT_TEXTS];
	struct audit_row row;
	int i;

	row.seq = sqlite3_value_int64(column[0]);
	row.at = sqlite3_value_int64(column[1]);
	row.prev = value_hash(column[2]);
	row.hash = value_hash(column[3]);
	for (i = 0; i < AUDIT_TEXTS; i++) {
		texts[i].text = (const char *)sqlite3_value_text(column[4 + i]);
		texts[i].len = (size_t)sqlite3_value_bytes(column[4 + i]);
	}
	if (audit_line_make(&v->line, row.seq, row.at, texts) != 0)
		return refusal_set(store_refusal(v->db), "store.failed", "out of memory");
	row.line = v->line.text;
	row.len = v->line.len;
	return audit_check_row(&v->check, &row) || v->bad ? AUDIT_BAD : 0;
}

static void
sealing_get(struct stmt *q, struct audit_sealing *seal)
{
	seal->seq = stmt_get_int(q, 0);
	seal->at = stmt_get_int(q, 1);
	seal->head = stmt_get_blob(q, 2, 32);
	seal->signature = stmt_get_blob(q, 3, 64);
	seal->text = stmt_get_text(q, 4);
}

static int
verify_seal(struct verify *v)
{
	struct audit_sealing seal;

	sealing_get(v->seals, &seal);
	if (audit_check_seal(&v->check, &seal))
		return AUDIT_BAD;
	v->seal = stmt_step(v->seals);
	return v->seal == -1 ? -1 : 0;
}

static int
verify_checkpoint(struct verify *v)
{
	if (audit_check_checkpoint(&v->check, stmt_get_int(v->checkpoints, 0),
		stmt_get_blob(v->checkpoints, 1, MERKLE_HASH),
		stmt_get_blob(v->checkpoints, 2, KEY_SIGN_SIZE)))
		return AUDIT_BAD;
	v->checkpoint = stmt_step(v->checkpoints);
	return v->checkpoint == -1 ? -1 : 0;
}

/* Seals and checkpoints that stand behind a row before ${seq}: in their order, a seal first. */
static int
verify_signed(struct verify *v, int64_t seq)
{
	int64_t seal, checkpoint;
	int rc;

	for (;;) {
		seal = v->seal == 1 ? stmt_get_int(v->seals, 0) : INT64_MAX;
		checkpoint = v->checkpoint == 1 ? stmt_get_int(v->checkpoints, 0) : INT64_MAX;
		if (seal >= seq && checkpoint >= seq)
			return 0;
		rc = seal <= checkpoint ? verify_seal(v) : verify_checkpoint(v);
		if (rc != 0)
			return rc;
	}
}

/* Copy the leaf of row ${seq}, which is gone, from its tile. */
static int
leaf_get(struct verify *v, int64_t seq, unsigned char leaf[MERKLE_HASH])
{
	const struct tiles *t = &v->tiles[0];
	const unsigned char *hashes;

	if (t->state != 1 || stmt_get_int(t->q, 0) != (seq - 1) / AUDIT_TILE ||
	    (hashes = stmt_get_blob(t->q, 2, sizeof(t->hashes))) == NULL)
		return audit_check_bad(&v->check, seq,
		    "row %" PRId64 " was given up, but the tile with its leaf is missing", seq);
	memcpy(leaf, hashes + (seq - 1) % AUDIT_TILE * MERKLE_HASH, MERKLE_HASH);
	return 0;
}

/* The tree over the rows before the base, from the tiles, held against every checkpoint of them. */
static int
verify_given_up(struct verify *v, int64_t base)
{
	unsigned char leaf[MERKLE_HASH];
	int64_t seq;
	int rc;

	for (seq = 1; seq < base; seq++) {
		if ((rc = verify_signed(v, seq)) != 0)
			return rc;
		if (leaf_get(v, seq, leaf) || audit_check_leaf(&v->check, leaf) || v->bad)
			return AUDIT_BAD;
		if (v->tiles[0].state == -1)
			return -1;
	}
	return 0;
}

/* Where the chain begins, if it is not at row 1. */
static int
verify_base(struct verify *v)
{
	struct audit_sealing base;
	struct stmt *q;
	int rc;

	if ((q = store_sql(v->db, AUDIT_BASE)) == NULL)
		return -1;
	if ((rc = stmt_step(q)) != 1)
		return rc;
	sealing_get(q, &base);
	rc = audit_check_base(&v->check, &base);
	stmt_done(q);
	return rc != 0 ? rc : verify_given_up(v, base.seq);
}

/* Return 0, AUDIT_BAD or -1. */
static int
verify_open(struct verify *v)
{
	int i;

	v->open = true;
	if ((v->seals = store_sql(v->db, v->has_tree ? AUDIT_SEALS : AUDIT_SEALS_ALONE)) == NULL ||
	    (v->seal = stmt_step(v->seals)) == -1)
		return -1;
	if (!v->has_tree)
		return 0;
	if ((v->checkpoints = store_sql(v->db, AUDIT_CHECKPOINTS)) == NULL ||
	    (v->checkpoint = stmt_step(v->checkpoints)) == -1)
		return -1;
	for (i = 0; i < LEVELS; i++) {
		if ((v->tiles[i].q = store_sql(v->db, AUDIT_TILES)) == NULL)
			return -1;
		stmt_int(v->tiles[i].q, ":level", i);
		if ((v->tiles[i].state = stmt_step(v->tiles[i].q)) == -1)
			return -1;
	}
	return verify_base(v);
}

static void
verify_close(struct verify *v)
{
	int i;

	sqlite3_create_function(
	    store_handle(v->db), "audit_stop", STOP_COLUMNS, SQLITE_UTF8, NULL, NULL, NULL, NULL);
	if (v->seal == 1)
		stmt_done(v->seals);
	if (v->checkpoint == 1)
		stmt_done(v->checkpoints);
	for (i = 0; i < LEVELS; i++)
		if (v->tiles[i].state == 1)
			stmt_done(v->tiles[i].q);
	free(v->line.text);
	free(v);
}

/* Tiles over rows that are not there. */
static int
verify_tiles_end(struct verify *v)
{
	unsigned i;

	for (i = 0; i < LEVELS; i++) {
		if (v->tiles[i].state == -1)
			return -1;
		if (v->tiles[i].state == 1)
			return audit_check_bad(&v->check, v->check.report->last + 1,
			    "tile %" PRId64 " of level %u is over rows that are missing",
			    stmt_get_int(v->tiles[i].q, 0), i);
	}
	return 0;
}

/* One row, with what stands before it. */
static int
verify_step(struct verify *v, struct sqlite3_value **column)
{
	const struct audit_report *report = v->check.report;
	int rc;

	if (!v->open && (rc = verify_open(v)) != 0)
		return rc;
	if ((v->seal == 1 || v->checkpoint == 1) &&
	    (rc = verify_signed(v, sqlite3_value_int64(column[0]))) != 0)
		return rc;
	if ((rc = verify_row(v, column)) != 0)
		return rc;
	if (v->progress != NULL && report->rows % PROGRESS_ROWS == 0)
		v->progress->fn(v->progress->ctx, report->rows, v->total);
	return 0;
}

static void
audit_stop(sqlite3_context *c, int n, sqlite3_value **column)
{
	struct verify *v = sqlite3_user_data(c);

	(void)n;
	if ((v->rc = verify_step(v, column)) != 0)
		sqlite3_result_int(c, 1);
}

static int
verify_walk(struct verify *v)
{
	struct stmt *q;
	int rc;

	if (sqlite3_create_function(store_handle(v->db), "audit_stop", STOP_COLUMNS,
		SQLITE_UTF8 | SQLITE_DIRECTONLY, v, audit_stop, NULL, NULL) != SQLITE_OK)
		return refusal_set(store_refusal(v->db), "store.failed", "out of memory");
	if (v->progress != NULL)
		v->total = stmt_value(store_sql(v->db, AUDIT_COUNT), 0);
	v->has_tree = stmt_value(store_sql(v->db, AUDIT_HAS_TREE), 0) != 0;
	q = store_sql(v->db, v->has_tree ? AUDIT_ROWS : AUDIT_ROWS_ALONE);
	if (q == NULL || (rc = stmt_step(q)) == -1)
		return -1;
	if (rc == 1) {
		stmt_done(q);
		return v->rc;
	}
	if (!v->open && (rc = verify_open(v)) != 0)
		return rc;
	if ((rc = verify_signed(v, INT64_MAX)) != 0 || (rc = verify_tiles_end(v)) != 0)
		return rc;
	return audit_check_end(&v->check);
}

int
audit_verify_kept(struct store *db, const unsigned char *key, const struct checkpoint *kept,
    const struct audit_progress *progress, struct audit_report *report)
{
	static const struct audit_start first;
	struct verify *v;
	int rc;

	if ((v = calloc(1, sizeof(*v))) == NULL)
		return refusal_set(store_refusal(db), "store.failed", "out of memory");
	v->db = db;
	audit_check_begin(&v->check, key, &first, kept, report);
	v->check.formed = tile_grow;
	v->check.ctx = v;
	v->progress = progress;
	rc = verify_walk(v);
	verify_close(v);
	return rc;
}

int
audit_verify(struct store *db, const unsigned char *key, const struct audit_progress *progress,
    struct audit_report *report)
{
	return audit_verify_kept(db, key, NULL, progress, report);
}
