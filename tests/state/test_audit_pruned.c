/* test_audit_pruned.c: an audit whose older rows are gone, and all that is still proved of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/audit.h"
#include "engine/state/audit_export.h"
#include "engine/state/audit_search.h"
#include "engine/state/audit_tree.h"
#include "engine/state/retention.h"
#include "engine/store/function.h"
#include "tests/program.h"
#include "tests/scratch.h"

#define DAY     INT64_C(86400000)
#define MORNING INT64_C(1800000015000)
#define BASE    421 /* in the middle of the second tile */

static struct scratch s;

static int
make(void **state)
{
	(void)state;
	clock_fix(MORNING);
	scratch_make(&s, HOME_BOX);
	return 0;
}

static int
drop(void **state)
{
	(void)state;
	scratch_drop(&s);
	return 0;
}

static void
sql(const char *text)
{
	if (scratch_sql(&s, text) != 0)
		fail_msg("%s: %s", text, s.error);
}

/* Rows up to number ${last}, sealed and indexed; each has a word of its own in its body. */
static void
history(int day, int last)
{
	char text[512];
	int n;

	clock_fix(MORNING + day * DAY);
	snprintf(text, sizeof(text),
	    "WITH RECURSIVE n (i) AS (SELECT max(seq) + 1 FROM audit"
	    " UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
	    " INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body)"
	    " SELECT 'op', 'test', i, 'added', '', json_object('w', 'word' || i) FROM n",
	    last);
	sql(text);
	scratch_open(&s, ROLE_KEEPER);
	assert_int_equal(audit_seal(s.db, "interval"), 1);
	while ((n = audit_index(s.db)) == 1)
		;
	assert_int_equal(n, 0);
	scratch_open(&s, ROLE_MIGRATE);
}

/* Take the steps of retention that are due, at most ${most}.  Return how many there were. */
static int
retain(int most)
{
	int rc = 0, n;

	scratch_open(&s, ROLE_KEEPER);
	store_acting(s.db, "actor:keeper");
	for (n = 0; n < most && (rc = retention_step(s.db)) == 1; n++)
		;
	if (rc == -1)
		fail_msg("%s: %s", store_refusal(s.db)->code, store_refusal(s.db)->why);
	scratch_open(&s, ROLE_MIGRATE);
	return n;
}

/* Seals at 21, 421 and 721: tiles are whole up to 512, so the audit may begin at 421. */
static void
three_days(void)
{
	history(0, 21);
	history(1, BASE);
	history(2, 721);
	sql("UPDATE setting SET value = 60 WHERE name = 'retention.audit';"
	    "UPDATE audit_sink SET sent = 721 WHERE name = 'export'");
	clock_fix(MORNING + 100 * DAY);
}

static void
prune(void)
{
	three_days();
	assert_int_equal(retain(100), 2);
	assert_int_equal(scratch_value(&s, "SELECT min(seq) FROM audit"), BASE);
}

static int
verify(const struct checkpoint *kept, struct audit_report *report)
{
	scratch_open(&s, ROLE_READER);
	return audit_verify_kept(s.db, s.keys.identity, kept, NULL, report);
}

/* The path of ${name} in the scratch directory, in one of a few buffers. */
static const char *
at(const char *name)
{
	static char paths[4][PATH_MAX];
	static int next;

	next = (next + 1) % 4;
	snprintf(paths[next], sizeof(paths[next]), "%s/%s", s.dir, name);
	return paths[next];
}

/* The program over the state, then ${text} in what it says.  A word "@FILE" is
 * one in the scratch directory; ">FILE" keeps the output there. */
static void
audit(int code, const char *text, const char *line)
{
	const char *words[16] = {"audit"};
	char copy[512], *save = NULL, *word;
	const char *to = NULL;
	struct program p;
	size_t n = 1;
	FILE *f;

	snprintf(copy, sizeof(copy), "%s", line);
	for (word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
		if (*word == '>')
			to = word + 1;
		else
			words[n++] = *word == '@' ? at(word + 1) : word;
	store_close(s.db);
	s.db = NULL;
	program_run(&p, &s, NULL, words);
	if (p.code != code || (strstr(p.out, text) == NULL && strstr(p.err, text) == NULL))
		fail_msg(
		    "%s: exit %d, not %d with '%s': %s%s", line, p.code, code, text, p.out, p.err);
	if (to != NULL) {
		assert_non_null(f = fopen(at(to), "we"));
		assert_int_equal(fwrite(p.out, 1, p.len, f), p.len);
		assert_int_equal(fclose(f), 0);
	}
	program_free(&p);
}

/* And the verifier that shares nothing with the program. */
static void
python(const char *what, const char *file, const char *kept)
{
	char command[PATH_MAX * 3], key[CHECKPOINT_KEY];

	if (system("python3 -c 'import cryptography' 2> /dev/null") != 0)
		return;
	checkpoint_key_write(s.keys.identity, key);
	snprintf(command, sizeof(command), "python3 tests/verify_audit.py %s %s %s %s > %s", key,
	    what, at(file), kept == NULL ? "" : at(kept), at("said"));
	if (system(command) != 0)
		fail_msg("%s", command);
}

/* Checking says where the audit begins, and holds what the tree kept against old checkpoints. */
static void
a_check_begins_at_the_base(void **state)
{
	struct audit_report report;
	struct checkpoint kept = {.size = 21};
	struct merkle_tree tree;

	(void)state;
	prune();
	audit(0, "the audit begins at row 421: what came before was exported", "verify");
	audit(0, "\"base\":421,\"base_at\":\"2027-", "verify --json");
	assert_int_equal(verify(NULL, &report), 0);
	assert_int_equal(report.first, BASE);
	assert_int_equal(report.checkpoints, 3);
	assert_int_equal(audit_tree_load(s.db, 21, &tree), 0);
	merkle_root(&tree, kept.root);
	assert_int_equal(verify(&kept, &report), 0);
	kept.root[0] ^= 1;
	assert_int_equal(verify(&kept, &report), AUDIT_BAD);
	assert_int_equal(report.bad, 21);
	/* And the audit goes on, up to the next beginning. */
	history(101, 1100);
	sql("UPDATE audit_sink SET sent = 1100 WHERE name = 'export'");
	clock_fix(MORNING + 300 * DAY);
	assert_true(retain(100) >= 2);
	assert_int_equal(scratch_value(&s, "SELECT min(seq) FROM audit"), 721);
	assert_int_equal(verify(NULL, &report), 0);
	assert_int_equal(report.base, 721);
}

/* Rows that are there are proved; one that is gone is not, in words; the old leads to the new. */
static void
proofs_outlive_rows(void **state)
{
	(void)state;
	three_days();
	audit(0, "\n21\n", "checkpoint 21 >old");
	audit(0, "index 4\n", "prove 5 >gone");
	assert_int_equal(retain(100), 2);
	audit(2, "row 5 was exported and removed: the audit begins at row 421", "prove 5");
	audit(2, "row 420 was exported and removed", "prove 420");
	audit(2, "row 9999 is not in the audit", "prove 9999");
	audit(0, "index 420\n", "prove 421 >first");
	audit(0, "index 599\n", "prove 600 >row");
	audit(0, "old 21\n", "consistency 21 >between");
	audit(0, "old 300\n", "consistency 300 421");
	audit(0, "row 421 is in the audit of 721", "verify @first");
	audit(0, "row 600 is in the audit of 721", "verify @row");
	audit(0, "row 5 is in the audit of 721", "verify @gone");
	audit(0, "goes on, unchanged, to the one of 721 rows", "verify @between --checkpoint @old");
	audit(0, "the audit begins at row 421", "verify --checkpoint @old");
	python("inclusion", "first", NULL);
	python("inclusion", "row", NULL);
	python("consistency", "between", "old");
}

/* An export of what is left says in its first line what came before; both verifiers take it. */
static void
an_export_carries_its_start(void **state)
{
	(void)state;
	three_days();
	audit(0, "\n421\n", "checkpoint 421 >old");
	assert_int_equal(retain(100), 2);
	audit(0, "{\"base\":420,\"head\":\"", "export >left");
	audit(0, "{\"base\":420,\"head\":\"", "export --since 5 --until 721 >same");
	audit(0, "{\"base\":599,\"head\":\"", "export --since 600 >part");
	audit(0, "from 2027-", "verify @left --checkpoint @old");
	audit(0, "the file begins at row 421", "verify @same");
	audit(0, "the file begins at row 600", "verify @part");
	python("export", "left", "old");
	python("export", "same", NULL);
	python("export", "part", NULL);
}

/* An export is whole, and the chain good, however far the mark has come to the new beginning. */
static void
every_step_leaves_a_whole_audit(void **state)
{
	struct audit_report report;
	struct refusal r = {0};
	int steps;
	FILE *f;

	(void)state;
	three_days();
	sql("UPDATE setting SET value = 60 WHERE name = 'retention.batch'");
	for (steps = 0; retain(1) == 1; steps++) {
		struct audit_export whole = {.format = AUDIT_JSONL, .since = 1};

		assert_int_equal(verify(NULL, &report), 0);
		assert_non_null(f = tmpfile());
		assert_int_equal(audit_export(s.db, &whole, f),
		    stmt_value(store_sql(s.db, "SELECT count(*) FROM audit"), -1));
		rewind(f);
		if (audit_export_verify(f, s.keys.identity, NULL, NULL, &report, &r) != 0)
			fail_msg("step %d: %s", steps, report.what);
		fclose(f);
	}
	/* To 21 and 421, each in a step; 20 rows, and 400 in steps of 60. */
	assert_int_equal(steps, 2 + 1 + 7);
	assert_int_equal(scratch_value(&s, "SELECT min(seq) FROM audit"), BASE);
}

/* Words go with their rows, from the index as well. */
static void
search_finds_what_is_there(void **state)
{
	struct audit_search search = {.words = "word50", .since = 1, .rows = 10};
	char *found;

	(void)state;
	three_days();
	scratch_open(&s, ROLE_READER);
	assert_int_equal(audit_search(s.db, &search, &found), 1);
	free(found);
	assert_int_equal(retain(100), 2);
	scratch_open(&s, ROLE_READER);
	assert_int_equal(audit_search(s.db, &search, &found), 0);
	free(found);
	search.words = "word421";
	assert_int_equal(audit_search(s.db, &search, &found), 1);
	assert_string_equal(found, "[421]");
	free(found);
	history(101, 740);
	assert_int_equal(scratch_value(&s, "SELECT min(id) FROM audit_word_docsize"), BASE);
	sql("INSERT INTO audit_word (audit_word, rank) VALUES ('integrity-check', 1)");
	audit(0, "test 740 added", "search word740");
	audit(1, "no row has these words", "search word300");
}

/* Rows stay while the tree over them is not kept whole: nothing could be proved of them. */
static void
no_leaf_goes_with_its_row(void **state)
{
	(void)state;
	prune();
	/* 721 is sealed, exported and old; tiles reach to 512. */
	assert_int_equal(scratch_value(&s, "SELECT max(n) FROM audit_tile WHERE level = 0"), 1);
	scratch_refused(&s, "audit.base",
	    "INSERT INTO audit_base (seq, head, at, signature) SELECT seq, head, now_ms(),"
	    " seal_sign('audit', json_array('audit_base', seq, lower(hex(head)), now_ms()))"
	    "   FROM audit_seal WHERE seq = 721");
	scratch_refused(&s, "audit.append_only", "DELETE FROM audit_tile");
	history(101, 768);
	assert_int_equal(retain(100), 2);
	assert_int_equal(scratch_value(&s, "SELECT max(seq) FROM audit_base"), 721);
}

static const struct {
	const char *sql;
	int64_t bad;
	const char *what;
} tamperings[] = {
    {"UPDATE audit_tile SET hashes = zeroblob(8192) WHERE n = 0", 21, "the rows up to 21 are not"},
    {"UPDATE audit_tile SET root = zeroblob(32) WHERE n = 0", 256, "tile 0 of level 0 is not"},
    {"UPDATE audit_tile SET hashes = x'00' WHERE n = 1", 257,
	"row 257 was given up, but the tile with its leaf is missing"},
    {"DELETE FROM audit_tile", 1, "row 1 was given up"},
    {"UPDATE audit_checkpoint SET root = zeroblob(32) WHERE size = 21", 21,
	"the checkpoint of row 21 is not of this machine's key"},
    {"DELETE FROM audit_checkpoint", BASE, "no checkpoint covers row 421"},
    {"DELETE FROM audit_checkpoint; UPDATE audit_tile SET hashes = zeroblob(8192) WHERE n = 0", 256,
	"tile 0 of level 0 is not"},
    {"DELETE FROM audit WHERE seq = 421", BASE, "row 421, where the audit begins, is missing"},
    {"DELETE FROM audit_seal; DELETE FROM audit_checkpoint; DELETE FROM audit", BASE,
	"tile 1 of level 0 is over rows that are missing"},
    {"UPDATE audit SET hash = zeroblob(32) WHERE seq = 421", BASE,
	"row 421, where the audit begins, is not the one that was signed"},
    {"UPDATE audit SET prev = zeroblob(32) WHERE seq = 421", BASE,
	"row 421 does not match its hash"},
    {"UPDATE audit SET who = 'nobody' WHERE seq = 421", BASE, "row 421 does not match its hash"},
    {"DELETE FROM audit_base", 1, "rows 1 to 21 are missing"},
    {"UPDATE audit_base SET at = at - 1", BASE, "rows before 421 are missing, and not by the word"},
};

/* What someone may do who holds the file and a tool of their own. */
static void
tamper(const char *change)
{
	char text[PATH_MAX + 32], *error = NULL;
	struct function_context ctx;
	sqlite3 *raw;

	remove(at("copy.db"));
	scratch_open(&s, ROLE_MIGRATE);
	snprintf(text, sizeof(text), "VACUUM INTO '%s'", at("copy.db"));
	assert_int_equal(sqlite3_exec(store_handle(s.db), text, NULL, NULL, NULL), SQLITE_OK);
	memset(&ctx, 0, sizeof(ctx));
	assert_int_equal(sqlite3_open(at("copy.db"), &raw), SQLITE_OK);
	assert_int_equal(function_register(raw, &ctx), 0);
	sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	if (sqlite3_exec(raw, "PRAGMA ignore_check_constraints = ON", NULL, NULL, NULL) ||
	    sqlite3_exec(raw, change, NULL, NULL, &error) != SQLITE_OK)
		fail_msg("%s: %s", change, error);
	sqlite3_close(raw);
}

static void
a_bent_beginning_is_noticed(void **state)
{
	struct audit_report report;
	struct refusal r = {0};
	struct store *copy;
	size_t i;
	int rc;

	(void)state;
	prune();
	for (i = 0; i < sizeof(tamperings) / sizeof(tamperings[0]); i++) {
		tamper(tamperings[i].sql);
		copy = store_open_file(at("copy.db"), ROLE_READER, NULL, &r);
		if (copy == NULL)
			fail_msg("%s: %s", r.code, r.why);
		rc = audit_verify(copy, s.keys.identity, NULL, &report);
		store_close(copy);
		if (rc != AUDIT_BAD || report.bad != tamperings[i].bad ||
		    strncmp(report.what, tamperings[i].what, strlen(tamperings[i].what)) != 0)
			fail_msg("row %lld, %s: %s", (long long)report.bad, report.what,
			    tamperings[i].sql);
	}
}

/* Behind 65536 rows the tree has a second level of tiles, of which the base needs a part. */
static void
a_long_audit_is_pruned(void **state)
{
	struct merkle_proof proof;
	struct merkle_tree tree;
	struct audit_report report;
	unsigned char root[2][32];
	int i;

	(void)state;
	history(0, 66000);
	history(1, 66700);
	sql("UPDATE setting SET value = 60 WHERE name = 'retention.audit';"
	    "UPDATE setting SET value = 100000 WHERE name = 'retention.batch';"
	    "UPDATE audit_sink SET sent = 66700 WHERE name = 'export'");
	clock_fix(MORNING + 100 * DAY);
	assert_true(retain(100) >= 2); /* pages go back as well */
	assert_int_equal(scratch_value(&s, "SELECT min(seq) FROM audit"), 66000);
	assert_int_equal(verify(NULL, &report), 0);
	assert_int_equal(report.base, 66000);
	assert_int_equal(report.checkpoints, 2);
	for (i = 0; i < 2; i++) {
		assert_int_equal(audit_tree_load(s.db, i == 0 ? 65999 : 66700, &tree), 0);
		merkle_root(&tree, root[i]);
	}
	assert_int_equal(audit_tree_follow(s.db, 65999, 66700, &proof), 0);
	assert_int_equal(merkle_extended(65999, root[0], 66700, root[1], &proof), 0);
}

/* Only what is wholly kept elsewhere counts as kept, and exactly that. */
static void
a_mark_is_exact(void **state)
{
	(void)state;
	history(0, 100);
	audit(2, "--mark needs jsonl", "export --format csv --mark @a");
	audit(2, "--mark needs a file", "export --mark --follow");
	audit(0, "30 rows", "export --until 30 --mark @a");
	assert_int_equal(
	    scratch_value(&s, "SELECT sent FROM audit_sink WHERE name = 'export'"), 30);
	audit(126, "rows before 40 were not exported", "export --since 40 --mark @b");
	audit(2, "File exists", "export --since 31 --mark @a");
	assert_int_equal(
	    scratch_value(&s, "SELECT sent FROM audit_sink WHERE name = 'export'"), 30);
	audit(0, "20 rows", "export --since 31 --until 50 --mark @c");
	assert_int_equal(
	    scratch_value(&s, "SELECT sent FROM audit_sink WHERE name = 'export'"), 50);
}

/* A copy of a pruned database is a whole one. */
static void
a_pruned_audit_is_backed_up(void **state)
{
	const char *words[] = {"backup", NULL, NULL};
	struct program p;

	(void)state;
	prune();
	store_close(s.db);
	s.db = NULL;
	words[1] = at("backup.db");
	program_run(&p, &s, NULL, words);
	if (p.code != 0)
		fail_msg("%s%s", p.out, p.err);
	program_free(&p);
	audit(0, "the audit begins at row 421", "verify @backup.db");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_check_begins_at_the_base, make, drop),
	    cmocka_unit_test_setup_teardown(proofs_outlive_rows, make, drop),
	    cmocka_unit_test_setup_teardown(an_export_carries_its_start, make, drop),
	    cmocka_unit_test_setup_teardown(every_step_leaves_a_whole_audit, make, drop),
	    cmocka_unit_test_setup_teardown(search_finds_what_is_there, make, drop),
	    cmocka_unit_test_setup_teardown(no_leaf_goes_with_its_row, make, drop),
	    cmocka_unit_test_setup_teardown(a_bent_beginning_is_noticed, make, drop),
	    cmocka_unit_test_setup_teardown(a_long_audit_is_pruned, make, drop),
	    cmocka_unit_test_setup_teardown(a_mark_is_exact, make, drop),
	    cmocka_unit_test_setup_teardown(a_pruned_audit_is_backed_up, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
