/* digests.c: run at build time: print the digest of the schema after each migration, as C. */
#include <sqlite3.h>
#include <stdio.h>

#include "engine/store/embed.h"
#include "engine/store/migrate.h"

/* ALTER TABLE looks whether triggers still make sense, so what they call has to have a name. */
static const char *const functions[] = {"now_ms", "acting", "sha256", "chain_hash", "process_alive",
    "endpoint_text", "seal_ok", "signed_by", "checkpoint_ok", "bound_holds", "glob_valid",
    "window_opens", "bounds_words", "refuse"};

static void
nothing(sqlite3_context *c, int n, sqlite3_value **v)
{
	(void)c;
	(void)n;
	(void)v;
}

int
main(void)
{
	const struct embedded *step;
	unsigned char digest[32];
	sqlite3 *handle;
	int versions = 0;
	size_t i;

	if (sqlite3_open(":memory:", &handle) != SQLITE_OK)
		return 1;
	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (sqlite3_create_function_v2(handle, functions[i], -1,
			SQLITE_UTF8 | SQLITE_INNOCUOUS, NULL, nothing, NULL, NULL,
			NULL) != SQLITE_OK)
			return 1;
	printf(
	    "#include \"engine/store/embed.h\"\n\nconst unsigned char embedded_digest[][32] = {\n");
	for (step = embedded_migration; step->name != NULL; step++, versions++) {
		if (sqlite3_exec(handle, step->text, NULL, NULL, NULL) != SQLITE_OK ||
		    migrate_digest(handle, digest) != 0) {
			fprintf(
			    stderr, "migrations/%s.sql: %s\n", step->name, sqlite3_errmsg(handle));
			return 1;
		}
		printf("    {");
		for (i = 0; i < sizeof(digest); i++)
			printf("%s0x%02x", i == 0 ? "" : ", ", digest[i]);
		printf("},\n");
	}
	printf("};\nconst int embedded_versions = %d;\n", versions);
	return sqlite3_close(handle) == SQLITE_OK ? 0 : 1;
}
