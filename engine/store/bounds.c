/* bounds.c: bounds of grants as SQL functions. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/glob.h"
#include "engine/store/bounds.h"
#include "engine/window.h"

#define DIGITS_MAX 18

/* Bounds in plain words; texts of the Host stay JSON. */
static const char WORDS[] =
    "SELECT group_concat('- ' || line, char(10)) FROM (SELECT CASE b.key"
    "  WHEN '_window' THEN 'open: '"
    "    || (SELECT group_concat(value, ' ') FROM json_each(b.value, '$.days'))"
    "    || ', ' || (b.value ->> '$.from') || ' to ' || (b.value ->> '$.to')"
    "    || iif((b.value ->> '$.to') < (b.value ->> '$.from'), ' of the next day', '')"
    "    || ', ' || (b.value ->> '$.zone')"
    "  WHEN '_rate' THEN 'rate: ' || (SELECT group_concat(part, ' ') FROM (SELECT CASE key"
    "       WHEN 'max' THEN 'at most ' || value WHEN 'per_ms' THEN 'in any ' || span"
    "       ELSE iif(json_type(b.value, '$.max') IS NULL, '', 'and ') || span"
    "         || ' between two' END AS part"
    "     FROM (SELECT key, value, CASE WHEN value % 86400000 = 0 THEN (value / 86400000) || ' d'"
    "         WHEN value % 3600000 = 0 THEN (value / 3600000) || ' h'"
    "         WHEN value % 60000 = 0 THEN (value / 60000) || ' min'"
    "         WHEN value % 1000 = 0 THEN (value / 1000) || ' s' ELSE value || ' ms' END AS span"
    "       FROM json_each(b.value) ORDER BY key = 'apart_ms', key = 'per_ms')))"
    "  ELSE b.key || ': ' || (SELECT group_concat(CASE key"
    "       WHEN 'in' THEN 'one of ' || value WHEN 'min' THEN 'at least ' || value"
    "       WHEN 'max' THEN 'at most ' || value"
    "       WHEN 'prefix' THEN 'what begins with ' || json_quote(value)"
    "       WHEN 'like' THEN 'what is like ' || json_quote(value)"
    "       WHEN 'beneath' THEN 'a path beneath ' || json_quote(value) END, ' and ')"
    "     FROM json_each(b.value)) END AS line"
    "  FROM json_each(:bounds) AS b)";

/*
 * One value and one rule.
 */

/* A plain decimal integer, "-" before it or not, as it is written canonically. */
static int
integer(const char *text, size_t len, int64_t *value)
{
	size_t i = len > 0 && text[0] == '-', first = i;

	if (len == first || len - first > DIGITS_MAX || (text[first] == '0' && len > 1))
		return -1;
	for (; i < len; i++)
		if (text[i] < '0' || text[i] > '9')
			return -1;
	*value = strtoll(text, NULL, 10);
	return 0;
}

/* Absolute, and without a part that is empty, "." or "..". */
static bool
is_clean(const char *path, size_t len)
{
	size_t at, part;

	if (len == 0 || path[0] != '/' || memchr(path, '\0', len) != NULL)
		return false;
	for (at = 1; at < len; at += part + 1) {
		const char *end = memchr(path + at, '/', len - at);

		part = end != NULL ? (size_t)(end - path) - at : len - at;
		if (part == 0 || (part == 1 && path[at] == '.') ||
		    (part == 2 && path[at] == '.' && path[at + 1] == '.'))
			return false;
	}
	return len == 1 || path[len - 1] != '/';
}

static bool
is_beneath(const char *top, const char *path, size_t len)
{
	size_t n = strlen(top);

	if (!is_clean(top, n) || !is_clean(path, len))
		return false;
	return n == 1 || (len >= n && memcmp(path, top, n) == 0 && (len == n || path[n] == '/'));
}

bool
bounds_hold(const char *rule, const char *bound, const char *value, size_t len)
{
	size_t n = strlen(bound);
	int64_t limit, number;

	if (strcmp(rule, "is") == 0)
		return n == len && memcmp(bound, value, len) == 0;
	if (strcmp(rule, "min") == 0 || strcmp(rule, "max") == 0) {
		if (integer(value, len, &number) != 0 || integer(bound, n, &limit) != 0)
			return false;
		return rule[1] == 'i' ? number >= limit : number <= limit;
	}
	if (strcmp(rule, "prefix") == 0)
		return len >= n && memcmp(value, bound, n) == 0;
	if (strcmp(rule, "like") == 0)
		return glob_matches(bound, value, len);
	return strcmp(rule, "beneath") == 0 && is_beneath(bound, value, len);
}

/*
 * The same as SQL.
 */

static const char *
text_of(sqlite3_value *v)
{
	return (const char *)sqlite3_value_text(v);
}

/* What is absent keeps one rule alone: to be absent. */
static void
bound_holds(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *rule = text_of(v[0]), *bound = text_of(v[1]), *value = text_of(v[2]);

	(void)n;
	if (rule == NULL || bound == NULL || value == NULL)
		sqlite3_result_int(
		    c, rule != NULL && strcmp(rule, "is") == 0 && bound == NULL && value == NULL);
	else
		sqlite3_result_int(
		    c, bounds_hold(rule, bound, value, (size_t)sqlite3_value_bytes(v[2])));
}

static void
glob_is_valid(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *pattern = text_of(v[0]);

	(void)n;
	sqlite3_result_int(c, pattern != NULL && glob_valid(pattern));
}

static void
window_opens(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *days = text_of(v[0]), *from = text_of(v[1]), *to = text_of(v[2]);
	const char *zone = text_of(v[3]);
	struct window w;
	int64_t at;

	(void)n;
	if (days == NULL || from == NULL || to == NULL || zone == NULL ||
	    sqlite3_value_type(v[4]) != SQLITE_INTEGER ||
	    window_read(days, from, to, zone, &w) != 0)
		return;
	if ((at = window_next(&w, sqlite3_value_int64(v[4]))) != -1)
		sqlite3_result_int64(c, at);
}

static void
refuse(sqlite3_context *c, int n, sqlite3_value **v)
{
	char *text = sqlite3_mprintf(
	    "%s|%s|%lld", text_of(v[0]), text_of(v[1]), (long long)sqlite3_value_int64(v[2]));

	(void)n;
	if (text == NULL) {
		sqlite3_result_error_nomem(c);
		return;
	}
	sqlite3_result_error(c, text, -1);
	sqlite3_free(text);
}

static void
bounds_words(sqlite3_context *c, int n, sqlite3_value **v)
{
	sqlite3_stmt *q;

	(void)n;
	if (sqlite3_prepare_v2(sqlite3_context_db_handle(c), WORDS, -1, &q, NULL) != SQLITE_OK) {
		sqlite3_result_error(c, "bounds have no words here", -1);
		return;
	}
	sqlite3_bind_value(q, 1, v[0]);
	if (sqlite3_step(q) == SQLITE_ROW)
		sqlite3_result_value(c, sqlite3_column_value(q, 0));
	sqlite3_finalize(q);
}

int
bounds_register(struct sqlite3 *handle)
{
	static const struct {
		const char *name;
		int args, flags;
		void (*fn)(sqlite3_context *, int, sqlite3_value **);
	} all[] = {
	    {"bound_holds", 3, SQLITE_DETERMINISTIC, bound_holds},
	    {"glob_valid", 1, SQLITE_DETERMINISTIC, glob_is_valid},
	    {"window_opens", 5, SQLITE_DETERMINISTIC, window_opens},
	    {"bounds_words", 1, SQLITE_DETERMINISTIC, bounds_words},
	    {"refuse", 3, 0, refuse},
	};
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (sqlite3_create_function_v2(handle, all[i].name, all[i].args,
			SQLITE_UTF8 | SQLITE_INNOCUOUS | all[i].flags, NULL, all[i].fn, NULL, NULL,
			NULL) != SQLITE_OK)
			return -1;
	return 0;
}
