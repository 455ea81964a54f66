/*
 * fuzz_manifest.c: manifests from any bytes, through the gate for JSON and the schema itself; and
 * words that are put to an op which was taken.
 *
 * What is taken has a name that no op of ours has, no path that is not clean, no verb that is none;
 * and words that are taken are of the number and the lengths that it says.
 */
#include <sodium.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/store/embed.h"
#include "engine/store/function.h"
#include "net/http/json.h"

#define TEXT_MAX 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct function_context context = {.acting = "test:fuzz", .now = 1800000000000};

/* The form alone: on whose word is another matter. */
static const char READY[] =
    "DROP TRIGGER op_manifest_on_a_persons_word; DROP VIEW added_ops;"
    "CREATE VIEW added_ops AS SELECT name, 'yes' AS holds FROM op_manifest;";

static const char ADD[] =
    "INSERT INTO op_manifest (name, manifest, program_sha256, interpreter_sha256, factor_id, by_uid,"
    "  created_at, seal) SELECT coalesce(:text ->> '$.name', ''), json(:text),"
    "  iif(:text ->> '$.interpreter' IS 'none', NULL, printf('%064d', 1)),"
    "  iif(coalesce(:text ->> '$.interpreter', 'none') = 'none', NULL, printf('%064d', 1)),"
    "  1, 0, now_ms(), zeroblob(64)";

static const char GOOD[] =
    "SELECT name GLOB 'run:[a-z]*' AND (SELECT class FROM op WHERE op.name = m.name) = 'action'"
    "  AND NOT EXISTS (SELECT 1 FROM json_tree(m.manifest) AS t WHERE t.type = 'text'"
    "    AND t.path IN ('$.reads', '$.writes') AND (t.value NOT GLOB '/*' OR t.value GLOB '*/../*'))"
    "  AND NOT EXISTS (SELECT 1 FROM json_each(m.manifest, '$.verbs') AS v"
    "    WHERE v.value ->> 0 NOT IN (SELECT op FROM verb))"
    "  AND (m.manifest ->> '$.interpreter' IS 'none') = (json_type(m.manifest, '$.program') IS NULL)"
    " FROM op_manifest AS m";

static const char ASK[] = "INSERT INTO added_op_ask (op, args) SELECT name, :args FROM op_manifest";

static const char FITS[] =
    "SELECT json_array_length(:args) <= coalesce(json_array_length(manifest, '$.params'), 0)"
    "  AND NOT EXISTS (SELECT 1 FROM json_each(:args) WHERE type <> 'text') FROM op_manifest";

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

/* Run ${sql} with ${text} for its parameter.  Return 1 where it was taken, or its first column. */
static int
run(sqlite3 *db, const char *sql, const char *text, size_t len)
{
	sqlite3_stmt *q;
	int rc, value = 1;

	must(sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK);
	if (sqlite3_bind_parameter_count(q) > 0)
		sqlite3_bind_text(q, 1, text, (int)len, SQLITE_STATIC);
	if ((rc = sqlite3_step(q)) == SQLITE_ROW)
		value = sqlite3_column_int(q, 0);
	sqlite3_finalize(q);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? value : 0;
}

static void
try_words(sqlite3 *db, const char *text, size_t len)
{
	if (http_json_check(text, len, 2, NULL) == 0 && len > 0 && text[0] == '[' &&
	    run(db, ASK, text, len))
		must(run(db, FITS, text, len));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static sqlite3 *db;
	char text[TEXT_MAX + 1];
	const char *words;
	size_t len;

	if (size > TEXT_MAX)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	/* Words stand behind a line feed: JSON of one line has none. */
	words = memchr(text, '\n', size);
	len = words != NULL ? (size_t)(words - text) : size;
	if (http_json_check(text, len, 4, NULL) != 0)
		return 0;
	if (db == NULL)
		db = database();
	must(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK);
	if (run(db, ADD, text, len)) {
		must(run(db, GOOD, NULL, 0));
		if (words != NULL)
			try_words(db, words + 1, size - len - 1);
	}
	/* (RAISE(ABORT) leaves the transaction open.) */
	must(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
	return 0;
}
