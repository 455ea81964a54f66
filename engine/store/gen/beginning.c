/*
 * beginning.c: run at build time, takes all migrations: print the digest of the schema after each,
 * as C, and write what they come to into a file, as SQL that makes the same of nothing.
 */
#include <sqlite3.h>
#include <stdio.h>

#include "engine/store/embed.h"
#include "engine/store/function.h"
#include "engine/store/migrate.h"

/* Rows may refer to rows that come later; triggers are for what comes after the beginning. */
static const char *const PARTS[] = {"SELECT 'PRAGMA defer_foreign_keys = ON'",
    "SELECT sql FROM sqlite_schema AS s WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
    "   AND (SELECT type FROM pragma_table_list WHERE name = s.name) <> 'shadow' ORDER BY rowid",
    NULL, /* the rows */
    "SELECT sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL ORDER BY rowid"};

/* For each table what selects its rows, as SQL. */
static const char ROWS[] =
    "SELECT printf('SELECT printf(''INSERT INTO %s (%s) VALUES (%s)'', %s) FROM %s', s.name,"
    "   group_concat(c.name, ', '), group_concat('%s', ', '), group_concat('quote(' || c.name || ')', ', '),"
    "   s.name)"
    "  FROM sqlite_schema AS s JOIN pragma_table_list AS t ON t.name = s.name"
    "  JOIN pragma_table_info(s.name) AS c"
    " WHERE s.type = 'table' AND t.type = 'table' AND s.name NOT GLOB 'sqlite_*'"
    " GROUP BY s.rowid ORDER BY s.rowid";

/* Hand each text that ${sql} selects to ${fn}.  Return 0 or -1. */
static int
each(sqlite3 *handle, const char *sql, int (*fn)(sqlite3 *handle, const char *text, FILE *out),
    FILE *out)
{
	sqlite3_stmt *q;
	int rc;

	if (sqlite3_prepare_v2(handle, sql, -1, &q, NULL) != SQLITE_OK)
		return -1;
	while ((rc = sqlite3_step(q)) == SQLITE_ROW)
		if (fn(handle, (const char *)sqlite3_column_text(q, 0), out) != 0)
			break;
	return sqlite3_finalize(q) == SQLITE_OK && rc == SQLITE_DONE ? 0 : -1;
}

static int
put(sqlite3 *handle, const char *text, FILE *out)
{
	(void)handle;
	return fprintf(out, "%s;\n", text) < 0 ? -1 : 0;
}

static int
put_rows(sqlite3 *handle, const char *select, FILE *out)
{
	return each(handle, select, put, out);
}

static int
write_beginning(sqlite3 *handle, const char *path)
{
	FILE *out = fopen(path, "w");
	size_t i;
	int rc = 0;

	if (out == NULL)
		return -1;
	for (i = 0; rc == 0 && i < sizeof(PARTS) / sizeof(PARTS[0]); i++)
		rc = PARTS[i] != NULL ? each(handle, PARTS[i], put, out)
				      : each(handle, ROWS, put_rows, out);
	return fclose(out) == 0 ? rc : -1;
}

static void
print_digest(const unsigned char digest[32])
{
	size_t i;

	printf("    {");
	for (i = 0; i < 32; i++)
		printf("%s0x%02x", i == 0 ? "" : ", ", digest[i]);
	printf("},\n");
}

int
main(int argc, char **argv)
{
	static struct function_context context = {.acting = "build"};
	const struct embedded *step;
	unsigned char digest[32];
	sqlite3 *handle;
	int versions = 0;

	if (argc != 2 || sqlite3_open(":memory:", &handle) != SQLITE_OK ||
	    function_register(handle, &context) != 0)
		return 1;
	printf("#include \"engine/store/embed.h\"\n\n"
	       "__asm__(\".section .rodata\\nbeginning_begin: .incbin \\\"%s\\\"\\n"
	       "beginning_end: .byte 0\\n.previous\");\n"
	       "extern const char beginning_begin[], beginning_end[];\n"
	       "const struct embedded embedded_beginning = {\"beginning\", beginning_begin,"
	       " beginning_end};\n"
	       "const unsigned char embedded_digest[][32] = {\n",
	    argv[1]);
	for (step = embedded_migration; step->name != NULL; step++, versions++) {
		if (sqlite3_exec(handle, step->text, NULL, NULL, NULL) != SQLITE_OK ||
		    migrate_digest(handle, digest) != 0) {
			fprintf(
			    stderr, "migrations/%s.sql: %s\n", step->name, sqlite3_errmsg(handle));
			return 1;
		}
		print_digest(digest);
	}
	printf("};\nconst int embedded_versions = %d;\n", versions);
	if (write_beginning(handle, argv[1]) != 0) {
		fprintf(stderr, "%s: %s\n", argv[1], sqlite3_errmsg(handle));
		return 1;
	}
	return sqlite3_close(handle) == SQLITE_OK ? 0 : 1;
}
