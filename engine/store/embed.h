/* embed.h: the SQL of migrations/ and schema/, compiled in. */
#ifndef ENGINE_STORE_EMBED_H
#define ENGINE_STORE_EMBED_H

#include <stddef.h>

struct embedded {
	const char *name; /* "0001_first_day", "grant" */
	const char *text; /* NUL-terminated */
	const char *end;
};

extern const struct embedded embedded_migration[]; /* in order, ends with a NULL name */
extern const struct embedded embedded_schema[]; /* tables and triggers, then rows; the same end */

/* What all migrations together make of nothing, in one step. */
extern const struct embedded embedded_beginning;

/* The BLAKE2b-256 of sqlite_schema after each migration, in order. */
extern const unsigned char embedded_digest[][32];
extern const int
    embedded_versions; /* how many migrations there are: the schema version of this build */

#endif
