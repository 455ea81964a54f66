/* scope.h: the workspace and what was added to it: where file tools may write. */
#ifndef ENGINE_POLICY_SCOPE_H
#define ENGINE_POLICY_SCOPE_H

#include <stddef.h>

#include "engine/policy/place.h"

#define SCOPE_ROOTS 64

/* What a path breaks: a code of "violation" (schema/policy.sql) and why; code NULL: nothing. */
struct violation {
	const char *code;
	char path[PLACE_MAX]; /* as it was asked for */
	char why[192];
};

struct scope {
	char *roots[SCOPE_ROOTS]; /* resolved; the first is the workspace */
	size_t count;
};

/**
 * violation_set(v, code, path, fmt, ...):
 * Fill ${v}; ${code} is static.
 */
void violation_set(struct violation *v, const char *code, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/**
 * scope_check_root(root, path, v):
 * Say in ${v} whether ${path}, joined to the resolved ${root} where it is relative, stays below it:
 * outside_workspace by its text, symlink_traversal by a link on its way.  Files that are not there
 * yet are fine.
 */
void scope_check_root(const char *root, const char *path, struct violation *v);

/**
 * scope_add(s, path, home, why, size):
 * Add the directory ${path} ("~" is ${home}); the first one is the workspace.  What is covered
 * already changes nothing.  Return 0; or -1 with ${why}: it has to be there, a directory, not the
 * root of all files, and there are SCOPE_ROOTS at most.
 */
int scope_add(struct scope *s, const char *path, const char *home, char *why, size_t size);

/**
 * scope_check(s, path, v):
 * As scope_check_root, for any of the roots; relative paths are of the workspace alone.  Without
 * roots everything is outside.
 */
void scope_check(const struct scope *s, const char *path, struct violation *v);

/**
 * scope_home(path, home, out):
 * Put ${home} for "~" and "~/" into ${out}.  Return 0, or -1 where it does not fit or there is
 * none.
 */
int scope_home(const char *path, const char *home, char out[PLACE_MAX]);

/**
 * scope_free(s):
 * Free the roots.
 */
void scope_free(struct scope *s);

#endif
