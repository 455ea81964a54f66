/* digest.c: what a schema is, in 32 bytes (BLAKE2b: every start of a verb computes it). */
#include <sodium.h>
#include <sqlite3.h>

#include "engine/store/migrate.h"

#define COLUMNS 4 /* of SCHEMA */

/*
 * Everything but the indexes that SQLite makes for itself (they have no text) and what ANALYZE
 * leaves, in an order that does not depend on how it came about.  A name is no excuse: with
 * writable_schema another tool can call its trigger sqlite_x.
 */
static const char SCHEMA[] =
    "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    "   AND NOT (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4'))"
    " ORDER BY type, name";

/* A column, and the byte that stands between it and the next. */
static void
add_column(crypto_generichash_state *state, sqlite3_stmt *q, int column, char after)
{
	crypto_generichash_update(
	    state, sqlite3_column_text(q, column), (unsigned)sqlite3_column_bytes(q, column));
	crypto_generichash_update(state, (const unsigned char *)&after, 1);
}

int
migrate_digest(struct sqlite3 *handle, unsigned char digest[32])
{
	crypto_generichash_state state;
	sqlite3_stmt *q;
	int rc, column;

	if (sqlite3_prepare_v2(handle, SCHEMA, -1, &q, NULL) != SQLITE_OK)
		return -1;
	crypto_generichash_init(&state, NULL, 0, 32);
	while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
		for (column = 0; column < COLUMNS - 1; column++)
			add_column(&state, q, column, '\n');
		add_column(&state, q, column, '\0');
	}
	crypto_generichash_final(&state, digest, 32);
	return sqlite3_finalize(q) == SQLITE_OK && rc == SQLITE_DONE ? 0 : -1;
}
