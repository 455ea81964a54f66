/* tool_grant.h: what a person always allows or always denies a tool. */
#ifndef ENGINE_POLICY_TOOL_GRANT_H
#define ENGINE_POLICY_TOOL_GRANT_H

#include <stdint.h>

#include "engine/policy/place.h"
#include "engine/store/store.h"

struct tool_grant_terms {
	const char *tool;
	const char *path;     /* NULL: the whole tool */
	const char *kind;     /* "file", "dir"; NULL: whichever ${path} is */
	const char *decision; /* "allow", "deny" */
	const char *autonomy; /* up to which an allow counts; NULL: low */
	const char *reason;   /* NULL: none */
};

/**
 * tool_grant_scope(base, path, out):
 * Store where the grant for ${path}, relative to ${base}, is kept: with its links followed as far
 * as there are any, and absolute.  Return 0, or -1 for an empty path or one that does not fit.
 */
int tool_grant_scope(const char *base, const char *path, char out[PLACE_MAX]);

/**
 * tool_grant_give(db, terms, base, id):
 * Keep the grant, in the place of an active one for the same tool and path.  Relative paths are of
 * ${base}.  ${db} is the person's, with the key.  Return 0 with its number, or -1.
 */
int tool_grant_give(
    struct store *db, const struct tool_grant_terms *terms, const char *base, int64_t *id);

/**
 * tool_grant_revoke(db, tool, path, base, count):
 * Take back what ${tool} was granted; with ${path}, for that file or directory alone; with ${tool}
 * NULL everything.  Return 0 with the number of grants that ended, or -1.
 */
int tool_grant_revoke(
    struct store *db, const char *tool, const char *path, const char *base, int64_t *count);

#endif
