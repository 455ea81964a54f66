/* digests.c: run at build time: print the digest of the schema after each migration, as C. */
#include <sqlite3.h>
#include <stdio.h>

#include "engine/store/embed.h"
#include "engine/store/function.h"
#include "engine/store/migrate.h"

int
main(void)
{
	static struct function_context context = {.acting = "build"};
	const struct embedded *step;
	unsigned char digest[32];
	sqlite3 *handle;
	int versions = 0;
	size_t i;

	if (sqlite3_open(":memory:", &handle) != SQLITE_OK ||
	    function_register(handle, &context) != 0)
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
