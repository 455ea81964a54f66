/* audit_search.c: the index, what stands behind it, and a person's words as FTS5 wants them. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/audit_search.h"

#define COLUMNS "who, entity, entity_id, action, pairing, body"

static const char SEARCH_INDEXED[] = "SELECT coalesce(max(id), 0) FROM audit_word_docsize";

static const char SEARCH_SEALED[] = "SELECT coalesce(max(seq), 0) FROM audit_seal";

/* 256 rows hold the gate for some 5 ms. */
static const char SEARCH_ADD[] = "INSERT INTO audit_word (rowid, " COLUMNS ")"
				 " SELECT seq, " COLUMNS " FROM audit"
				 "  WHERE seq > :indexed AND seq <= :sealed ORDER BY seq LIMIT 256";

static const char SEARCH_FIND[] =
    "SELECT a.seq FROM audit_word AS w JOIN audit AS a ON a.seq = w.rowid"
    " WHERE audit_word MATCH :words AND w.rowid >= :since AND w.rowid <= :until"
    "   AND (:entity IS NULL OR a.entity = :entity)"
    " ORDER BY w.rowid DESC LIMIT :rows";

/* What is not indexed yet goes into an index of its own, in memory, and is asked in the same way.
 */
static const char SEARCH_TAIL[] = "SELECT seq, " COLUMNS " FROM audit WHERE seq >= :since"
				  "  AND seq <= :until AND (:entity IS NULL OR entity = :entity)";

static const char TAIL_MAKE[] = "CREATE VIRTUAL TABLE tail USING fts5 (" COLUMNS ", content = '')";

static const char TAIL_ADD[] =
    "INSERT INTO tail (rowid, " COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

static const char TAIL_FIND[] =
    "SELECT rowid FROM tail WHERE tail MATCH ?1 ORDER BY rowid DESC LIMIT ?2";

int
audit_index(struct store *db)
{
	int64_t indexed, sealed;
	struct stmt *q;

	/* Look first: no writer waits behind the gate for nothing. */
	if ((indexed = stmt_value(store_sql(db, SEARCH_INDEXED), -1)) == -1 ||
	    (sealed = stmt_value(store_sql(db, SEARCH_SEALED), -1)) == -1)
		return -1;
	if (indexed >= sealed)
		return 0;
	if (store_begin_soft(db) != 0)
		return -1;
	/* Another process may have come first. */
	if ((indexed = stmt_value(store_sql(db, SEARCH_INDEXED), -1)) == -1 ||
	    (q = store_sql(db, SEARCH_ADD)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":indexed", indexed);
	stmt_int(q, ":sealed", sealed);
	if (stmt_run(q) != 0)
		return store_rollback(db);
	return store_commit(db) == 0 ? 1 : -1;
}

/*
 * A person's words.
 */

/* The expression so far. */
struct expression {
	char *out, *out_end;
	bool any;    /* a word to find was there */
	bool either; /* an OR waits for its second word */
	bool without;
	char left_out[4 * AUDIT_SEARCH_WORDS]; /* words that rows must not have */
};

static int
words_bad(struct refusal *r, const char *why)
{
	return refusal_set(r, "audit.search", "%s", why);
}

static bool
has_letter(const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (((unsigned char)text[i] & 0x80) != 0 || (text[i] >= '0' && text[i] <= '9') ||
		    ((text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'z'))
			return true;
	return false;
}

/* One word to find: groups of OR stand in parentheses, and AND between them. */
static void
put_find(struct expression *e, const char *text, size_t len, bool begin)
{
	const char *join = e->either ? " OR " : e->any ? ") AND (" : "(";

	e->out += snprintf(e->out, (size_t)(e->out_end - e->out), "%s\"%.*s\"%s", join, (int)len,
	    text, begin ? " *" : "");
	e->any = true;
	e->either = false;
}

static void
put_without(struct expression *e, const char *text, size_t len, bool begin)
{
	size_t used = strlen(e->left_out);

	snprintf(e->left_out + used, sizeof(e->left_out) - used, "%s\"%.*s\"%s",
	    used == 0 ? "" : " OR ", (int)len, text, begin ? " *" : "");
	e->without = false;
}

/* Take one word or phrase of ${len} bytes.  Return 0 or -1. */
static int
take_word(struct expression *e, const char *text, size_t len, bool phrase, struct refusal *r)
{
	bool begin = !phrase && len > 1 && text[len - 1] == '*';

	if (!phrase && len == 2 && memcmp(text, "OR", 2) == 0) {
		if (!e->any || e->either || e->without)
			return words_bad(r, "OR stands between two words to find");
		e->either = true;
		return 0;
	}
	if (!phrase && len == 3 && memcmp(text, "NOT", 3) == 0) {
		if (e->either || e->without)
			return words_bad(r, "NOT stands before one word to leave out");
		e->without = true;
		return 0;
	}
	/* Nothing is indexed of what has no letter or digit. */
	if (!has_letter(text, len))
		return 0;
	len -= begin;
	if (e->without)
		put_without(e, text, len, begin);
	else
		put_find(e, text, len, begin);
	return 0;
}

/* Take what stands at ${at}.  Return what is behind it, or NULL. */
static const char *
take_next(struct expression *e, const char *at, struct refusal *r)
{
	const char *end;

	if (*at == '-' && at[1] != '\0' && strchr(" \t\n-", at[1]) == NULL) {
		if (e->either || e->without) {
			words_bad(r, "a dash stands before one word to leave out");
			return NULL;
		}
		e->without = true;
		at++;
	}
	if (*at != '"') {
		end = at + strcspn(at, " \t\n\"");
		return take_word(e, at, (size_t)(end - at), false, r) == 0 ? end : NULL;
	}
	if ((end = strchr(++at, '"')) == NULL) {
		words_bad(r, "a quotation mark is not closed");
		return NULL;
	}
	return take_word(e, at, (size_t)(end - at), true, r) == 0 ? end + 1 : NULL;
}

int
audit_search_expression(const char *words, char *out, struct refusal *r)
{
	struct expression e = {.out = out, .out_end = out + 8 * AUDIT_SEARCH_WORDS};
	const char *at = words;

	if (strlen(words) > AUDIT_SEARCH_WORDS)
		return refusal_set(
		    r, "audit.search", "more than %d bytes to look for", AUDIT_SEARCH_WORDS);
	for (at += strspn(at, " \t\n"); *at != '\0'; at += strspn(at, " \t\n"))
		if ((at = take_next(&e, at, r)) == NULL)
			return -1;
	if (e.either)
		return words_bad(r, "OR stands between two words to find");
	if (e.without)
		return words_bad(r, "NOT stands before one word to leave out");
	if (!e.any)
		return words_bad(r, "there is no word to find");
	e.out += snprintf(e.out, (size_t)(e.out_end - e.out), ")");
	if (e.left_out[0] != '\0')
		snprintf(e.out, (size_t)(e.out_end - e.out), " NOT (%s)", e.left_out);
	return 0;
}

/*
 * Finding.
 */

/* Numbers of rows, as they are found. */
struct found {
	FILE *out;
	int n;
};

static void
found_add(struct found *found, int64_t seq)
{
	fprintf(found->out, found->n++ == 0 ? "%" PRId64 : ",%" PRId64, seq);
}

static int
tail_failed(struct store *db, sqlite3 *tail)
{
	return refusal_set(store_refusal(db), "store.failed", "the newest rows: %s",
	    tail == NULL ? "out of memory" : sqlite3_errmsg(tail));
}

static int
tail_fill(struct store *db, const struct audit_search *search, int64_t since, int64_t until,
    sqlite3 *tail)
{
	sqlite3_stmt *add;
	struct stmt *q;
	int i, n;

	if (sqlite3_prepare_v2(tail, TAIL_ADD, -1, &add, NULL) != SQLITE_OK)
		return tail_failed(db, tail);
	if ((q = store_sql(db, SEARCH_TAIL)) == NULL) {
		sqlite3_finalize(add);
		return -1;
	}
	stmt_int(q, ":since", since);
	stmt_int(q, ":until", until);
	stmt_text(q, ":entity", search->entity);
	while ((n = stmt_step(q)) == 1) {
		for (i = 0; i < 7; i++)
			sqlite3_bind_value(add, i + 1, sqlite3_column_value(stmt_handle(q), i));
		if (sqlite3_step(add) != SQLITE_DONE || sqlite3_reset(add) != SQLITE_OK) {
			stmt_done(q);
			n = tail_failed(db, tail);
			break;
		}
	}
	sqlite3_finalize(add);
	return n;
}

static int
tail_ask(struct store *db, sqlite3 *tail, const char *expression, int64_t rows, struct found *found)
{
	sqlite3_stmt *q;
	int rc;

	if (sqlite3_prepare_v2(tail, TAIL_FIND, -1, &q, NULL) != SQLITE_OK ||
	    sqlite3_bind_text(q, 1, expression, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(q, 2, rows) != SQLITE_OK) {
		sqlite3_finalize(q);
		return tail_failed(db, tail);
	}
	while ((rc = sqlite3_step(q)) == SQLITE_ROW)
		found_add(found, sqlite3_column_int64(q, 0));
	if (rc != SQLITE_DONE)
		tail_failed(db, tail);
	sqlite3_finalize(q);
	return rc == SQLITE_DONE ? 0 : -1;
}

/* The rows from ${since} on, which no index knows yet. */
static int
find_tail(struct store *db, const struct audit_search *search, int64_t since, int64_t until,
    const char *expression, struct found *found)
{
	sqlite3 *tail = NULL;
	int rc;

	if (sqlite3_open(":memory:", &tail) != SQLITE_OK ||
	    sqlite3_exec(tail, TAIL_MAKE, NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_exec(tail, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
		rc = tail_failed(db, tail);
	else if ((rc = tail_fill(db, search, since, until, tail)) == 0)
		rc = tail_ask(db, tail, expression, search->rows, found);
	sqlite3_close(tail);
	return rc;
}

static int
find_indexed(struct store *db, const struct audit_search *search, int64_t until,
    const char *expression, struct found *found)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(db, SEARCH_FIND)) == NULL)
		return -1;
	stmt_text(q, ":words", expression);
	stmt_int(q, ":since", search->since);
	stmt_int(q, ":until", until);
	stmt_text(q, ":entity", search->entity);
	stmt_int(q, ":rows", search->rows - found->n);
	while ((n = stmt_step(q)) == 1)
		found_add(found, stmt_get_int(q, 0));
	return n;
}

static int
find(struct store *db, const struct audit_search *search, const char *expression,
    struct found *found)
{
	int64_t until = search->until == 0 ? INT64_MAX : search->until, indexed, since;

	if ((indexed = stmt_value(store_sql(db, SEARCH_INDEXED), -1)) == -1)
		return -1;
	since = search->since > indexed ? search->since : indexed + 1;
	fputc('[', found->out);
	if (since <= until && find_tail(db, search, since, until, expression, found) != 0)
		return -1;
	if (found->n < search->rows &&
	    find_indexed(db, search, until < indexed ? until : indexed, expression, found) != 0)
		return -1;
	fputc(']', found->out);
	return 0;
}

int
audit_search(struct store *db, const struct audit_search *search, char **text)
{
	char expression[8 * AUDIT_SEARCH_WORDS];
	struct found found = {.n = 0};
	size_t len;
	int rc;

	*text = NULL;
	if (audit_search_expression(search->words, expression, store_refusal(db)) != 0)
		return -1;
	if ((found.out = open_memstream(text, &len)) == NULL)
		return refusal_errno(store_refusal(db), "store.failed", "the rows found");
	rc = find(db, search, expression, &found);
	if (fclose(found.out) != 0 && rc == 0)
		rc = refusal_errno(store_refusal(db), "store.failed", "the rows found");
	if (rc == 0)
		return found.n;
	free(*text);
	*text = NULL;
	return -1;
}
