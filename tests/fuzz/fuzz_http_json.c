/* fuzz_http_json.c: any bytes through the JSON gate; what passes must be JSON to SQLite as well,
 * whose paths find each plain key as it is named. */
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/http/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char VALID[] =
    "SELECT json_valid(?1) AND NOT EXISTS (SELECT 1 FROM json_tree(?1) WHERE typeof(key) = 'text'"
    "  AND key <> '' AND key NOT GLOB '*[^-A-Za-z0-9_.]*'"
    "  AND key NOT IN (substr(fullkey, -length(key)),"
    "    rtrim(substr(fullkey, -length(key) - 1), '\"')))";

static sqlite3_stmt *valid;

static void
open_sqlite(void)
{
	sqlite3 *db;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK ||
	    sqlite3_prepare_v2(db, VALID, -1, &valid, NULL) != SQLITE_OK)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct refusal r;
	char *text;

	if (valid == NULL)
		open_sqlite();

	/* A copy of the exact size, so that the sanitizer sees a read behind it. */
	if ((text = malloc(size)) == NULL && size > 0)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	if (http_json_check(text, size, 32, &r) == 0) {
		sqlite3_bind_text(valid, 1, text, (int)size, SQLITE_STATIC);
		if (sqlite3_step(valid) != SQLITE_ROW || sqlite3_column_int(valid, 0) != 1)
			abort();
		sqlite3_reset(valid);
	} else if (strncmp(r.code, "json.", 5) != 0) {
		abort();
	}
	free(text);
	return 0;
}
