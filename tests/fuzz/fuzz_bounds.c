/*
 * fuzz_bounds.c: bounds of grants, windows, zones and patterns, from any bytes at any time.
 *
 * The first byte picks the target.  Bounds go through the schema itself: what its trigger takes has
 * a length, a zone and a day, a rate within the ceilings, and can be judged at any moment (GB-1 to
 * GB-3).
 */
#include <sodium.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/glob.h"
#include "engine/store/embed.h"
#include "engine/store/function.h"
#include "engine/window.h"

#define TEXT_MAX 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct function_context context = {.acting = "test:fuzz"};

/* The rules for bounds alone: who asks and on whose word is another matter. */
static const char READY[] =
    "DROP TRIGGER approval_born; DROP TRIGGER approval_audit_birth; DROP TRIGGER grant_on_a_persons_word;"
    "DROP TRIGGER grant_burns_its_approval; DROP TRIGGER grant_use_within_uses;"
    "DROP TRIGGER grant_use_spends;";

static const char ASK[] =
    "INSERT INTO approval (id, nonce, box_name, pairing_id, host_name, op, args, bounds, words, uses,"
    "  ttl_ms, asked_at, expires_at) VALUES (1, '0123456789abcdef0123456789abcdef', 'b', 1, 'h',"
    "  'observe:folders', '[\"/srv/a\",\"2\"]', json(:bounds), bounds_words(json(:bounds)), 9, 1000, 1, 2)";

static const char GRANT[] =
    "INSERT INTO grant (id, pairing_id, op, args, uses, created_at, expires_at, factor_id, approval_id,"
    "  seal, bounds) SELECT 1, 1, op, args, 9, 1, 9e17, 1, 1, zeroblob(64), bounds FROM approval;"
    "INSERT INTO grant_use VALUES (1, 1, 1, 1761739200000), (1, 2, 2, 1761739500000)";

static const char JUDGE[] =
    "SELECT n.at, n.code, n.why, g.bounds ->> '$._window.from' IS g.bounds ->> '$._window.to'"
    "    AND json_type(g.bounds, '$._window') IS NOT NULL,"
    "  coalesce(g.bounds ->> '$._rate.max', 1) NOT BETWEEN 1 AND 1000,"
    "  (SELECT count(*) FROM grant_bound) <> (SELECT count(*) FROM grant_bound WHERE grant_id = 1)"
    " FROM grant AS g JOIN grant_not_now AS n ON n.id = g.id";

static void
must(int holds)
{
	if (!holds)
		abort();
}

static sqlite3 *
database(void)
{
	const struct embedded *part;
	sqlite3 *db;

	must(sodium_init() >= 0 && sqlite3_open(":memory:", &db) == SQLITE_OK &&
	     function_register(db, &context) == 0);
	for (part = embedded_schema; part->name != NULL; part++)
		must(sqlite3_exec(db, part->text, NULL, NULL, NULL) == SQLITE_OK);
	must(sqlite3_exec(db, READY, NULL, NULL, NULL) == SQLITE_OK);
	return db;
}

static void
judge(sqlite3 *db)
{
	sqlite3_stmt *q;

	must(sqlite3_exec(db, GRANT, NULL, NULL, NULL) == SQLITE_OK);
	must(sqlite3_prepare_v2(db, JUDGE, -1, &q, NULL) == SQLITE_OK);
	must(sqlite3_step(q) == SQLITE_ROW);
	must(sqlite3_column_type(q, 0) == SQLITE_NULL || sqlite3_column_int64(q, 0) >= context.now);
	/* Held is held for a reason that can be said. */
	must(sqlite3_column_int64(q, 0) == context.now ||
	     (sqlite3_column_text(q, 1) != NULL && sqlite3_column_text(q, 2) != NULL));
	must(sqlite3_column_int(q, 3) == 0 && sqlite3_column_int(q, 4) == 0);
	must(sqlite3_column_int(q, 5) == 0);
	sqlite3_finalize(q);
}

static void
try_bounds(const char *text, size_t len, int64_t at)
{
	static sqlite3 *db;
	sqlite3_stmt *q;

	if (db == NULL)
		db = database();
	context.now = at;
	must(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK);
	must(sqlite3_prepare_v2(db, ASK, -1, &q, NULL) == SQLITE_OK);
	sqlite3_bind_text(q, 1, text, (int)len, SQLITE_STATIC);
	if (sqlite3_step(q) == SQLITE_DONE && sqlite3_finalize(q) == SQLITE_OK)
		judge(db);
	else
		sqlite3_finalize(q);
	must(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
}

static void
try_window(char *text, int64_t at)
{
	char *part[4], *rest = text;
	struct window w;
	int64_t next;
	int i;

	for (i = 0; i < 4; i++)
		if ((part[i] = strsep(&rest, "\n")) == NULL)
			return;
	if (window_read(part[0], part[1], part[2], part[3], &w) != 0)
		return;
	must(w.days != 0 && w.from != w.to);
	next = window_next(&w, at);
	must(next == -1 || (next >= at && window_next(&w, next) == next));
}

static void
try_zone(const char *text, int64_t at)
{
	int64_t turns[64];
	struct zone z;
	int32_t o;

	if (zone_rule(text, &z) != 0 && zone_find(text, &z) != 0)
		return;
	o = zone_offset(&z, at / 1000);
	must(o > -8 * 86400 && o < 8 * 86400);
	must(zone_turns(&z, at / 1000, at / 1000 + 31536000, turns, 64) <= 64);
}

static void
try_glob(char *text, size_t len)
{
	size_t n = strlen(text);
	const char *rest = n < len ? text + n + 1 : "";
	size_t left = n < len ? len - n - 1 : 0;
	bool matches = glob_matches(text, rest, left);

	must(!matches || glob_valid(text));
	must(!glob_valid(text) || strcmp(text, "**") != 0 || matches);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[TEXT_MAX + 1];
	int64_t at = 0;
	uint8_t which;

	if (size < 6 || size - 6 > TEXT_MAX)
		return 0;
	which = data[0];
	memcpy(&at, data + 1, 5); /* up to 34 years */
	at += INT64_C(1735689600000);
	memcpy(text, data + 6, size - 6);
	text[size - 6] = '\0';
	switch (which % 4) {
	case 0:
		try_bounds(text, size - 6, at);
		break;
	case 1:
		try_window(text, at);
		break;
	case 2:
		try_zone(text, at);
		break;
	default:
		try_glob(text, size - 6);
		break;
	}
	return 0;
}
