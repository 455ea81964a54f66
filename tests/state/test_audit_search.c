/* test_audit_search.c: rows by their words, indexed or not, and words that want to be something
 * else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/audit.h"
#include "engine/state/audit_search.h"
#include "tests/scratch.h"

#define ENTRY "INSERT INTO audit_entry (stream, entity, entity_id, action, pairing, body) VALUES "

static void
add(struct scratch *s, const char *sql)
{
	if (scratch_sql(s, sql) != 0)
		fail_msg("%s", s->error);
}

static void
index_all(struct scratch *s)
{
	int n;

	scratch_open(s, ROLE_KEEPER);
	assert_true(audit_seal(s->db, "interval") >= 0);
	while ((n = audit_index(s->db)) == 1)
		;
	if (n != 0)
		fail_msg("%s", store_refusal(s->db)->why);
}

/* What ${search} finds, "[seq,...]"; it must be ${want}. */
static void
finds_with(struct scratch *s, const struct audit_search *search, const char *want)
{
	char *found;

	scratch_open(s, ROLE_READER);
	if (audit_search(s->db, search, &found) == -1)
		fail_msg("%s: %s", search->words, store_refusal(s->db)->why);
	if (strcmp(found, want) != 0)
		fail_msg("%s: %s, not %s", search->words, found, want);
	free(found);
}

static void
finds(struct scratch *s, const char *words, const char *want)
{
	const struct audit_search search = {.words = words, .since = 10, .rows = 100};

	finds_with(s, &search, want);
}

/* Rows 10 to 15, after those of the birth. */
static void
make(struct scratch *s)
{
	scratch_make(s, HOME_BOX);
	while (scratch_value(s, "SELECT max(seq) FROM audit") < 9)
		add(s, ENTRY "('op', 'filler', '1', 'done', '', '{}')");
	add(s, ENTRY
	    "('op', 'grant', '3', 'expired', 'laptop', '{\"op\":\"observe:cert\",\"reason\":\"ran out\"}'),"
	    "('op', 'grant', '4', 'dropped', 'laptop', '{\"reason\":\"out of favour\"}'),"
	    "('pairing', 'pairing', '1', 'active', 'Müller', '{}')");
}

static void
add_more(struct scratch *s)
{
	add(s, ENTRY
	    "('op', 'op_run', '9', 'done', 'laptop', '{\"op\":\"observe:certificate\"}'),"
	    "('op', 'grant', '5', 'expired', 'desk', '{\"reason\":\"ran out\"}'),"
	    "('management', 'setting', 'audit.seal_ms', 'changed', '', '{\"from\":60000,\"to\":100}')");
}

static void
all_words(struct scratch *s)
{
	finds(s, "expired", "[14,10]");
	finds(s, "EXPIRED grant", "[14,10]");
	finds(s, "ran out", "[14,10]");
	finds(s, "\"out of\"", "[11]");
	finds(s, "\"of out\"", "[]");
	finds(s, "muller", "[12]");
	finds(s, "cert", "[10]");
	finds(s, "cert*", "[13,10]");
	finds(s, "observe:cert", "[10]");
	finds(s, "audit.seal_ms", "[15]");
	finds(s, "dropped OR changed", "[15,11]");
	finds(s, "grant dropped OR desk", "[14,11]");
	finds(s, "grant -laptop", "[14]");
	finds(s, "laptop NOT grant NOT nothing", "[13]");
	finds(s, "60000", "[15]");
	finds(s, "absent", "[]");
	finds(s, "test:scratch", "[15,14,13,12,11,10]");
}

/* The same answers, whether all rows, some or none are indexed. */
static void
words_find_rows(void **state)
{
	struct scratch s;

	(void)state;
	make(&s);
	index_all(&s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_word_docsize"), 12);
	add_more(&s);
	all_words(&s);
	index_all(&s);
	assert_int_equal(scratch_value(&s, "SELECT count(*) FROM audit_word_docsize"), 15);
	all_words(&s);
	scratch_drop(&s);

	make(&s);
	add_more(&s);
	all_words(&s);
	/* FTS5 itself says that the index is that of the audit. */
	index_all(&s);
	add(&s, "INSERT INTO audit_word (audit_word, rank) VALUES ('integrity-check', 1)");
	scratch_drop(&s);
}

/* Rows, kinds and numbers bound what is found, on both sides of the index's end. */
static void
bounds_hold(void **state)
{
	struct audit_search search = {.words = "out", .since = 1, .rows = 2};
	struct scratch s;

	(void)state;
	make(&s);
	index_all(&s);
	add_more(&s);
	finds_with(&s, &search, "[14,11]");
	search.rows = 1;
	finds_with(&s, &search, "[14]");
	search.until = 13;
	finds_with(&s, &search, "[11]");
	search.rows = 10;
	search.since = 11;
	finds_with(&s, &search, "[11]");
	search =
	    (struct audit_search){.words = "laptop", .entity = "op_run", .since = 1, .rows = 9};
	finds_with(&s, &search, "[13]");
	search.entity = "grant";
	finds_with(&s, &search, "[11,10]");
	scratch_drop(&s);
}

/* A person is told in words what is wrong; nobody sees SQL, and nothing becomes FTS5's syntax. */
static void
wrong_words_are_told(void **state)
{
	static const char *const wrong[] = {
	    "",
	    " ",
	    "\"open",
	    "a OR",
	    "OR a",
	    "a OR OR b",
	    "NOT",
	    "a NOT",
	    "a NOT OR b",
	    "a OR NOT b",
	    "-a",
	    "NOT a",
	    "***",
	    "\"\"",
	};
	static const char *const harmless[] = {"body:x", "^a", "a^b", "{a b}:c", "NEAR(a b)", "a+b",
	    "a AND b", "(a", "a)", "'; DROP TABLE audit; --", "a\\b", "rank:1", "\"a\" * b", "a**",
	    "audit_word MATCH 'x'", "--a", "ü*", "\xff\xfe 1", "a OR (b", "NEAR", "\"a\"\"b\"",
	    "a \"...\"", "- a"};
	char expression[8 * AUDIT_SEARCH_WORDS], longest[AUDIT_SEARCH_WORDS + 2];
	struct audit_search search = {.since = 1, .rows = 5};
	struct refusal r;
	struct scratch s;
	char *found;
	size_t i;

	(void)state;
	make(&s);
	index_all(&s);
	add_more(&s);
	scratch_open(&s, ROLE_READER);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		search.words = wrong[i];
		if (audit_search(s.db, &search, &found) != -1)
			fail_msg("taken: %s", wrong[i]);
		assert_string_equal(store_refusal(s.db)->code, "audit.search");
		assert_null(strstr(store_refusal(s.db)->why, "fts5"));
	}
	for (i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
		search.words = harmless[i];
		if (audit_search(s.db, &search, &found) == -1)
			fail_msg("%s: %s", harmless[i], store_refusal(s.db)->why);
		free(found);
	}
	/* As much as may be asked for fits; a byte more is refused. */
	for (i = 0; i < sizeof(longest) - 1; i++)
		longest[i] = i % 2 == 0 ? 'a' : ' ';
	longest[AUDIT_SEARCH_WORDS] = '\0';
	assert_int_equal(audit_search_expression(longest, expression, &r), 0);
	assert_int_equal(expression[strlen(expression) - 1], ')');
	longest[AUDIT_SEARCH_WORDS] = 'a';
	longest[AUDIT_SEARCH_WORDS + 1] = '\0';
	assert_int_equal(audit_search_expression(longest, expression, &r), -1);
	for (i = 0; i + 2 < sizeof(longest); i++)
		longest[i] = "-a "[i % 3];
	longest[0] = 'b';
	longest[AUDIT_SEARCH_WORDS - 4] = '\0';
	search.words = longest;
	if (audit_search(s.db, &search, &found) == -1)
		fail_msg("%s", store_refusal(s.db)->why);
	free(found);
	scratch_drop(&s);
}

/* Nobody but the keeper writes the index, and nobody its tables below. */
static void
the_index_is_the_keepers(void **state)
{
	struct scratch s;

	(void)state;
	make(&s);
	scratch_open(&s, ROLE_PERSON);
	assert_int_equal(audit_seal(s.db, "request"), 1);
	assert_int_equal(audit_index(s.db), -1);
	assert_string_equal(store_refusal(s.db)->code, "store.role");
	scratch_open(&s, ROLE_KEEPER);
	assert_null(store_sql(s.db, "DELETE FROM audit_word_docsize"));
	assert_null(store_sql(s.db, "DELETE FROM audit_word"));
	scratch_drop(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(words_find_rows),
	    cmocka_unit_test(bounds_hold),
	    cmocka_unit_test(wrong_words_are_told),
	    cmocka_unit_test(the_index_is_the_keepers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
