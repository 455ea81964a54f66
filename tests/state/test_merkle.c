/* test_merkle.c: the tree over the audit: its hashes, its tiles, its proofs, and bending them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/merkle.h"
#include "engine/crypto/sha256.h"
#include "engine/state/audit.h"
#include "engine/state/audit_line.h"
#include "engine/state/audit_tree.h"
#include "engine/store/function.h"
#include "tests/scratch.h"

#define SMALL 70 /* trees of every size up to this, each proof of each */

/* Leaves in an array; hashes of subtrees from the definition in RFC 6962 section 2.1 alone. */
static unsigned char leaves[SMALL][32];

static void
defined_root(size_t lo, size_t hi, unsigned char root[32])
{
	unsigned char both[65] = {0x01};
	size_t k = 1;

	if (hi - lo == 1) {
		memcpy(root, leaves[lo], 32);
		return;
	}
	while (2 * k < hi - lo)
		k *= 2;
	defined_root(lo, lo + k, both + 1);
	defined_root(lo + k, hi, both + 33);
	crypto_hash_sha256(root, both, sizeof(both));
}

static int
get_leaf(void *ctx, unsigned height, uint64_t n, unsigned char hash[32])
{
	(void)ctx;
	defined_root((size_t)(n << height), (size_t)((n + 1) << height), hash);
	return 0;
}

static void
make_leaves(void)
{
	size_t i;

	assert_true(sodium_init() >= 0);
	for (i = 0; i < SMALL; i++)
		merkle_leaf(&i, sizeof(i), leaves[i]);
}

/* The entries and roots that implementations of RFC 6962 share. */
static void
roots_are_those_of_others(void **state)
{
	static const char *const entries[] = {"", "00", "10", "2021", "3031", "40414243",
	    "5051525354555657", "606162636465666768696a6b6c6d6e6f"};
	static const char *const roots[] = {
	    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
	    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
	    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
	    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
	    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
	    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
	    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
	    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
	unsigned char entry[16], hash[32];
	struct merkle_tree tree = {0};
	char hex[65];
	size_t i, len;

	(void)state;
	merkle_root(&tree, hash);
	sodium_bin2hex(hex, sizeof(hex), hash, 32);
	assert_string_equal(
	    hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	for (i = 0; i < 8; i++) {
		assert_int_equal(sodium_hex2bin(entry, sizeof(entry), entries[i],
				     strlen(entries[i]), NULL, &len, NULL),
		    0);
		merkle_leaf(entry, len, hash);
		merkle_add(&tree, hash, NULL, NULL);
		merkle_root(&tree, hash);
		sodium_bin2hex(hex, sizeof(hex), hash, 32);
		assert_string_equal(hex, roots[i]);
	}
}

/* Both libraries say the same, over every length around a block and around what is put together. */
static void
both_digests_agree(void **state)
{
	static unsigned char text[2100];
	unsigned char slow[32], fast[300][32];
	size_t len;
	int round;

	(void)state;
	randombytes_buf(text, sizeof(text));
	for (round = 0; round < 2; round++, sha256_hurry())
		for (len = 0; len < 300; len++) {
			sha256_pair(
			    text, len * 7, text + 1, len % 9, round == 0 ? fast[len] : slow);
			if (round == 1)
				assert_memory_equal(slow, fast[len], 32);
		}
}

/* Bend ${proof} in each way that there is; none may pass. */
static void
none_passes(struct merkle_proof *proof, uint64_t a, uint64_t size, const unsigned char *first,
    const unsigned char *root,
    int (*check)(uint64_t, const unsigned char *, uint64_t, const unsigned char *,
	const struct merkle_proof *))
{
	struct merkle_proof bent;
	unsigned char other[32];
	size_t i;

	for (i = 0; i < proof->n; i++) {
		bent = *proof;
		bent.hash[i][i % 32] ^= 1;
		assert_int_equal(check(a, first, size, root, &bent), -1);
	}
	bent = *proof;
	bent.n++;
	memset(bent.hash[proof->n], 0, 32);
	assert_int_equal(check(a, first, size, root, &bent), -1);
	if (proof->n > 0) {
		bent.n = proof->n - 1;
		assert_int_equal(check(a, first, size, root, &bent), -1);
	}
	memcpy(other, root, 32);
	other[31] ^= 0x80;
	assert_int_equal(check(a, first, size, other, proof), -1);
	memcpy(other, first, 32);
	other[0] ^= 1;
	assert_int_equal(check(a, other, size, root, proof), -1);
}

static int
included(uint64_t index, const unsigned char *leaf, uint64_t size, const unsigned char *root,
    const struct merkle_proof *proof)
{
	return merkle_included(index, size, leaf, proof, root);
}

static int
extended(uint64_t old, const unsigned char *old_root, uint64_t size, const unsigned char *root,
    const struct merkle_proof *proof)
{
	return merkle_extended(old, old_root, size, root, proof);
}

/* RFC 6962 section 2.1.1: every leaf of every tree, and nothing else. */
static void
every_leaf_is_proved(void **state)
{
	struct merkle_proof proof;
	unsigned char root[32];
	uint64_t size, i;

	(void)state;
	make_leaves();
	for (size = 1; size <= SMALL; size++) {
		defined_root(0, size, root);
		for (i = 0; i < size; i++) {
			assert_int_equal(merkle_prove(i, size, get_leaf, NULL, &proof), 0);
			assert_int_equal(merkle_included(i, size, leaves[i], &proof, root), 0);
			none_passes(&proof, i, size, leaves[i], root, included);
			if (size > 1)
				assert_int_equal(
				    merkle_included((i + 1) % size, size, leaves[i], &proof, root),
				    -1);
			assert_int_equal(
			    merkle_included(i + size, size, leaves[i], &proof, root), -1);
		}
	}
	assert_int_equal(merkle_prove(5, 5, get_leaf, NULL, &proof), -1);
}

/* RFC 6962 section 2.1.2: every older tree of every tree, and nothing else. */
static void
every_older_tree_is_proved(void **state)
{
	unsigned char root[32], old_root[32];
	struct merkle_proof proof;
	struct merkle_tree tree;
	uint64_t size, old;

	(void)state;
	make_leaves();
	for (size = 1; size <= SMALL; size++) {
		defined_root(0, size, root);
		assert_int_equal(merkle_load(&tree, size, get_leaf, NULL), 0);
		merkle_root(&tree, old_root);
		assert_memory_equal(root, old_root, 32);
		for (old = 1; old <= size; old++) {
			defined_root(0, old, old_root);
			assert_int_equal(merkle_extend(old, size, get_leaf, NULL, &proof), 0);
			assert_int_equal(merkle_extended(old, old_root, size, root, &proof), 0);
			none_passes(&proof, old, size, old_root, root, extended);
			if (old < size)
				assert_int_equal(
				    merkle_extended(old + 1, old_root, size, root, &proof), -1);
		}
	}
	assert_int_equal(merkle_extend(0, 5, get_leaf, NULL, &proof), -1);
	assert_int_equal(merkle_extend(6, 5, get_leaf, NULL, &proof), -1);
	assert_int_equal(merkle_extended(0, root, 5, root, &proof), -1);
	assert_int_equal(merkle_extended(6, root, 5, root, &proof), -1);
}

/*
 * Over an audit.
 */

static void
add_rows(struct scratch *s, int n)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
	    "INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)"
	    " SELECT 'op', 'test', value, 'added', 'laptop', json_object('n', value)"
	    "   FROM (WITH RECURSIVE c (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM c"
	    "          WHERE value < %d) SELECT value FROM c)",
	    n);
	if (scratch_sql(s, sql) != 0)
		fail_msg("%s", s->error);
}

/* An audit of ${rows} rows with a seal and a checkpoint at ${first} and at the end. */
static void
make_audit(struct scratch *s, int first, int rows)
{
	int64_t born;

	scratch_make(s, HOME_BOX);
	assert_int_equal(
	    scratch_sql(s, "UPDATE setting SET value = 1 WHERE name = 'audit.outbox'"), 0);
	born = scratch_value(s, "SELECT max(seq) FROM audit");
	add_rows(s, first - (int)born);
	assert_int_equal(audit_seal(s->db, "interval"), 1);
	add_rows(s, rows - first);
	assert_int_equal(audit_seal(s->db, "interval"), 1);
}

/* The root of the first ${size} rows, from their hashes alone. */
static void
plain_root(struct scratch *s, int64_t size, unsigned char root[32])
{
	struct merkle_tree tree = {0};
	unsigned char leaf[32];
	struct stmt *q;

	assert_non_null(
	    q = store_sql(s->db, "SELECT hash FROM audit WHERE seq <= :size ORDER BY seq"));
	stmt_int(q, ":size", size);
	while (stmt_step(q) == 1) {
		merkle_leaf(stmt_get_blob(q, 0, 32), 32, leaf);
		merkle_add(&tree, leaf, NULL, NULL);
	}
	merkle_root(&tree, root);
}

static void
leaf_of(struct scratch *s, int64_t seq, unsigned char leaf[32])
{
	struct stmt *q;

	assert_non_null(q = store_sql(s->db, "SELECT hash FROM audit WHERE seq = :seq"));
	stmt_int(q, ":seq", seq);
	assert_int_equal(stmt_step(q), 1);
	merkle_leaf(stmt_get_blob(q, 0, 32), 32, leaf);
	stmt_done(q);
}

static void
proofs_hold(struct scratch *s, int64_t size, const int64_t *places, size_t n)
{
	unsigned char root[32], old_root[32], leaf[32];
	struct merkle_proof proof;
	struct merkle_tree tree;
	size_t i;

	plain_root(s, size, root);
	assert_int_equal(audit_tree_load(s->db, size, &tree), 0);
	merkle_root(&tree, leaf);
	assert_memory_equal(leaf, root, 32);
	for (i = 0; i < n && places[i] <= size; i++) {
		leaf_of(s, places[i], leaf);
		if (audit_tree_prove(s->db, places[i], size, &proof) != 0)
			fail_msg("%s", store_refusal(s->db)->why);
		assert_int_equal(
		    merkle_included((uint64_t)places[i] - 1, (uint64_t)size, leaf, &proof, root),
		    0);
		plain_root(s, places[i], old_root);
		assert_int_equal(audit_tree_follow(s->db, places[i], size, &proof), 0);
		assert_int_equal(
		    merkle_extended((uint64_t)places[i], old_root, (uint64_t)size, root, &proof),
		    0);
	}
}

/* Whole tiles are stored, a last part is not, and proofs at every edge come out right. */
static void
tiles_carry_the_tree(void **state)
{
	static const int64_t places[] = {
	    1, 2, 255, 256, 257, 511, 512, 513, 767, 768, 1000, 1299, 1300};
	struct audit_report report;
	struct scratch s;

	(void)state;
	make_audit(&s, 700, 1300);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_tile"), 5);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_checkpoint"), 2);
	scratch_open(&s, ROLE_READER);
	proofs_hold(&s, 1300, places, sizeof(places) / sizeof(places[0]));
	proofs_hold(&s, 700, places, sizeof(places) / sizeof(places[0]));
	proofs_hold(&s, 512, places, sizeof(places) / sizeof(places[0]));
	assert_int_equal(audit_verify(s.db, s.keys.identity, NULL, &report), 0);
	assert_int_equal(report.checkpoints, 2);
	assert_int_equal(report.size, 1300);
	scratch_drop(&s);
}

/* Level 1 begins at 65536 rows; rows that no tile has yet are found below it. */
static void
tiles_have_levels(void **state)
{
	static const int64_t places[] = {1, 256, 4097, 65535, 65536, 65537, 66000, 66700};
	struct audit_report report;
	struct scratch s;

	(void)state;
	make_audit(&s, 66000, 66048);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_tile WHERE level = 0"), 258);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_tile WHERE level = 1"), 1);
	add_rows(&s, 700);
	scratch_open(&s, ROLE_READER);
	proofs_hold(&s, 66748, places, sizeof(places) / sizeof(places[0]));
	assert_int_equal(audit_verify(s.db, s.keys.identity, NULL, &report), 0);
	assert_int_equal(report.behind, 700);
	scratch_drop(&s);
}

/* The insert path pays nothing: no tile, no checkpoint, no word before somebody seals. */
static void
inserting_costs_no_tree(void **state)
{
	struct scratch s;

	(void)state;
	make_audit(&s, 100, 300);
	add_rows(&s, 1000);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_tile"), 1);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_checkpoint"), 2);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_word_docsize"), 0);
	scratch_drop(&s);
}

static void
the_tree_only_grows(void **state)
{
	struct scratch s;

	(void)state;
	make_audit(&s, 300, 600);
#define TILE(level, n) \
	"INSERT INTO audit_tile VALUES (" level ", " n ", zeroblob(32), zeroblob(8192))"
	scratch_refused(&s, "audit.tile", TILE("0", "0"));
	scratch_refused(&s, "audit.tile", TILE("0", "3"));
	scratch_refused(&s, "audit.tile", TILE("0", "2")); /* of 768 rows */
	scratch_refused(&s, "audit.tile", TILE("1", "0"));
	scratch_refused(&s, "audit.append_only", "UPDATE audit_tile SET root = zeroblob(32)");
	scratch_refused(&s, "audit.append_only", "DELETE FROM audit_tile");
	scratch_refused(&s, "audit.append_only", "UPDATE audit_checkpoint SET at = 1");
	scratch_refused(&s, "audit.append_only", "DELETE FROM audit_checkpoint");
#define CHECKPOINT(size, sig) \
	"INSERT INTO audit_checkpoint VALUES (" size ", zeroblob(32), 1, " sig ")"
#define SIGNED "checkpoint_sign(599, zeroblob(32))"
	scratch_refused(&s, "audit.checkpoint", CHECKPOINT("599", SIGNED));
	scratch_refused(&s, "audit.checkpoint", CHECKPOINT("601", SIGNED));
	add_rows(&s, 1);
	scratch_refused(&s, "audit.checkpoint", CHECKPOINT("601", SIGNED));
	scratch_refused(&s, "audit.checkpoint", CHECKPOINT("601", "zeroblob(64)"));
	scratch_drop(&s);
}

/* What someone may do who holds the file and a tool of their own. */
static void
tamper(struct scratch *s, const char *sql, char path[PATH_MAX])
{
	struct function_context ctx;
	char into[PATH_MAX + 32];
	sqlite3 *raw;
	char *error = NULL;

	home_path(&s->home, "copy.db", path);
	remove(path);
	scratch_open(s, ROLE_MIGRATE);
	snprintf(into, sizeof(into), "VACUUM INTO '%s'", path);
	assert_int_equal(sqlite3_exec(store_handle(s->db), into, NULL, NULL, NULL), SQLITE_OK);
	memset(&ctx, 0, sizeof(ctx));
	assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
	assert_int_equal(function_register(raw, &ctx), 0);
	sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	if (sqlite3_exec(raw, "PRAGMA ignore_check_constraints = ON", NULL, NULL, NULL) ||
	    sqlite3_exec(raw, sql, NULL, NULL, &error) != SQLITE_OK)
		fail_msg("%s: %s", sql, error);
	sqlite3_close(raw);
}

static int
verify_copy(
    struct scratch *s, const char *path, const struct checkpoint *kept, struct audit_report *report)
{
	struct refusal r = {0};
	struct store *copy;
	int rc;

	if ((copy = store_open_file(path, ROLE_READER, NULL, &r)) == NULL)
		fail_msg("%s: %s", r.code, r.why);
	rc = audit_verify_kept(copy, s->keys.identity, kept, NULL, report);
	store_close(copy);
	return rc;
}

static const struct {
	const char *sql;
	int64_t bad;
	const char *what;
} tamperings[] = {
    {"UPDATE audit_tile SET root = zeroblob(32) WHERE n = 1", 512, "tile 1 of level 0 is not"},
    {"UPDATE audit_tile SET hashes = zeroblob(8192) WHERE n = 0", 256, "tile 0 of level 0"},
    {"UPDATE audit_tile SET hashes = x'00' WHERE n = 0", 256, "tile 0 of level 0"},
    {"DELETE FROM audit_tile WHERE n = 0", 256, "tile 0 of level 0"},
    {"DELETE FROM audit_tile WHERE n = 0; UPDATE audit_tile SET n = 0 WHERE n = 1", 256, "tile 0"},
    {"INSERT INTO audit_tile VALUES (0, 3, zeroblob(32), zeroblob(8192))", 701,
	"tile 3 of level 0 is over rows that are missing"},
    {"INSERT INTO audit_tile VALUES (1, 0, zeroblob(32), zeroblob(8192))", 701,
	"tile 0 of level 1"},
    {"UPDATE audit_checkpoint SET root = zeroblob(32) WHERE size = 300", 300,
	"the checkpoint of row 300 is not of this machine's key"},
    {"UPDATE audit_checkpoint SET signature = x'00' WHERE size = 600", 600,
	"the checkpoint of row 600"},
    {"UPDATE audit_checkpoint SET size = 601 WHERE size = 600", 601, "the checkpoint of row 601"},
    {"UPDATE audit_checkpoint SET size = 900 WHERE size = 600", 701, "rows 701 to 900 are missing"},
};

static void
a_bent_tree_is_noticed(void **state)
{
	struct audit_report report;
	struct scratch s;
	char path[PATH_MAX];
	size_t i;

	(void)state;
	make_audit(&s, 300, 600);
	add_rows(&s, 100);
	for (i = 0; i < sizeof(tamperings) / sizeof(tamperings[0]); i++) {
		tamper(&s, tamperings[i].sql, path);
		if (verify_copy(&s, path, NULL, &report) != AUDIT_BAD ||
		    report.bad != tamperings[i].bad ||
		    strncmp(report.what, tamperings[i].what, strlen(tamperings[i].what)) != 0)
			fail_msg("row %lld, %s: %s", (long long)report.bad, report.what,
			    tamperings[i].sql);
	}
	scratch_drop(&s);
}

/* A database from before there was a tree is a chain with seals, and checked as that. */
static void
an_older_schema_is_a_chain(void **state)
{
	struct audit_report report;
	struct scratch s;

	(void)state;
	make_audit(&s, 300, 600);
	scratch_open(&s, ROLE_MIGRATE);
	assert_int_equal(store_begin(s.db), 0);
	assert_int_equal(store_exec(s.db, "DROP TABLE audit_checkpoint; DROP TABLE audit_tile"), 0);
	assert_int_equal(audit_verify(s.db, s.keys.identity, NULL, &report), 0);
	assert_int_equal(report.rows, 600);
	assert_int_equal(report.seals, 2);
	assert_int_equal(report.checkpoints, 0);
	store_rollback(s.db);
	scratch_drop(&s);
}

/* What the file alone cannot show, a checkpoint that was kept does: an end that was cut off with
 * its seals, and a chain written anew behind what it covers, by whoever holds the key. */
static void
a_kept_checkpoint_shows_more(void **state)
{
	struct audit_report report;
	struct checkpoint kept = {.size = 600};
	struct scratch s;
	char path[PATH_MAX];

	(void)state;
	make_audit(&s, 300, 600);
	scratch_open(&s, ROLE_READER);
	plain_root(&s, 600, kept.root);
	assert_int_equal(audit_verify_kept(s.db, s.keys.identity, &kept, NULL, &report), 0);
	tamper(&s,
	    "DELETE FROM audit_seal WHERE seq = 600; DELETE FROM audit_checkpoint WHERE size = 600;"
	    "DELETE FROM audit WHERE seq > 550",
	    path);
	assert_int_equal(verify_copy(&s, path, NULL, &report), 0);
	assert_int_equal(verify_copy(&s, path, &kept, &report), AUDIT_BAD);
	assert_int_equal(report.bad, 551);
	assert_non_null(strstr(report.what, "the newest were cut off"));
	kept.root[0] ^= 1;
	assert_int_equal(audit_verify_kept(s.db, s.keys.identity, &kept, NULL, &report), AUDIT_BAD);
	assert_int_equal(report.bad, 600);
	assert_non_null(strstr(report.what, "was written anew"));
	scratch_drop(&s);
}

/* The line that C makes is the view's, whatever stands in the columns. */
static void
lines_are_those_of_the_view(void **state)
{
	struct audit_line line = {NULL, 0, 0};
	struct audit_text texts[AUDIT_TEXTS];
	struct scratch s;
	struct sqlite3_stmt *h;
	struct stmt *q;
	int i, n = 0;

	(void)state;
	scratch_make(&s, HOME_BOX);
	if (scratch_sql(&s,
		"INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)"
		" WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 400)"
		" SELECT 'op', char(n % 255 + 1, n), printf('%.*c', n % 40, 'x') || char(n % 128 + 1),"
		"        char(9, 34, 92, n), printf('%.*c', n % 17, '\"') || char(n * 300 + 1),"
		"        json_object('t', char(n, n % 32 + 1) || hex(randomblob(n % 90))) FROM c") !=
	    0)
		fail_msg("%s", s.error);
	assert_non_null(
	    q = store_sql(s.db,
		"SELECT a.seq, a.at, a.stream, a.who, a.entity, a.entity_id, a.action,"
		" a.pairing, a.body, l.line FROM audit AS a JOIN audit_line AS l USING (seq)"));
	h = stmt_handle(q);
	while (stmt_step(q) == 1) {
		for (i = 0; i < AUDIT_TEXTS; i++) {
			texts[i].text = (const char *)sqlite3_column_text(h, 2 + i);
			texts[i].len = (size_t)sqlite3_column_bytes(h, 2 + i);
		}
		assert_int_equal(
		    audit_line_make(&line, stmt_get_int(q, 0), stmt_get_int(q, 1), texts), 0);
		assert_int_equal(line.len, sqlite3_column_bytes(h, 9));
		assert_memory_equal(line.text, sqlite3_column_text(h, 9), line.len);
		n++;
	}
	assert_true(n > 400);
	for (i = 0; i < AUDIT_TEXTS; i++)
		texts[i] = (struct audit_text){"", 0};
	assert_int_equal(audit_line_make(&line, INT64_MIN, INT64_MAX, texts), 0);
	line.text[line.len] = '\0';
	assert_string_equal(line.text,
	    "[-9223372036854775808,9223372036854775807,\"\",\"\",\"\",\"\",\"\",\"\",\"\"]");
	assert_int_equal(audit_line_make(&line, 0, -7, texts), 0);
	assert_int_equal(strncmp(line.text, "[0,-7,", 6), 0);
	free(line.text);
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(both_digests_agree),
	    cmocka_unit_test(roots_are_those_of_others),
	    cmocka_unit_test(every_leaf_is_proved),
	    cmocka_unit_test(every_older_tree_is_proved),
	    cmocka_unit_test(tiles_carry_the_tree),
	    cmocka_unit_test(tiles_have_levels),
	    cmocka_unit_test(inserting_costs_no_tree),
	    cmocka_unit_test(the_tree_only_grows),
	    cmocka_unit_test(a_bent_tree_is_noticed),
	    cmocka_unit_test(an_older_schema_is_a_chain),
	    cmocka_unit_test(a_kept_checkpoint_shows_more),
	    cmocka_unit_test(lines_are_those_of_the_view),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
