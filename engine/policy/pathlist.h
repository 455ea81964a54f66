/* pathlist.h: four lists of paths that stand above the workspace: hide, show again, keep, open. */
#ifndef ENGINE_POLICY_PATHLIST_H
#define ENGINE_POLICY_PATHLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/policy/scope.h"

#define PATHLIST_MAX 256

enum pathlist_kind {
	PATHLIST_ALLOW_READ, /* shows again a part of what deny_read hides, and nothing else */
	PATHLIST_DENY_READ,
	PATHLIST_ALLOW_WRITE, /* directories outside the workspace */
	PATHLIST_DENY_WRITE,
	PATHLIST_KINDS
};

/* What a tool does with a path. */
enum side_effect {
	SIDE_READ,
	SIDE_WRITE,
	SIDE_SHELL,
	SIDE_NETWORK,
	SIDE_OUT_OF_WORKSPACE,
	SIDE_NONE
};

struct pathlist {
	char *paths[PATHLIST_MAX]; /* resolved */
	size_t count;
};

struct pathlists {
	struct pathlist of[PATHLIST_KINDS];
};

/**
 * pathlists_add(lists, kind, raw, base, home):
 * Add the entry ${raw}, relative to ${base} (NULL: relative entries are dropped), "~" being
 * ${home}.  An entry that leads nowhere now is not in force, and is dropped; ALLOW_WRITE takes
 * directories alone, and not the root.  Return 0, or -1 past PATHLIST_MAX or without memory: then
 * nothing may be decided by these lists.
 */
int pathlists_add(struct pathlists *lists, enum pathlist_kind kind, const char *raw,
    const char *base, const char *home);

/**
 * pathlists_hides(lists, base, path):
 * Return whether reading ${path} is denied: it is below an entry of DENY_READ, and not below one of
 * ALLOW_READ that is itself inside that entry.  A link counts as where it stands and as where it
 * leads.
 */
bool pathlists_hides(const struct pathlists *lists, const char *base, const char *path);

/**
 * pathlists_hides_all(lists, base, directory):
 * Return whether nothing below ${directory} may be read, so that a search may skip it.
 */
bool pathlists_hides_all(const struct pathlists *lists, const char *base, const char *directory);

/**
 * pathlists_check(lists, scope, enforce, effect, path, v):
 * Say in ${v} what is wrong with ${path} for a tool with that ${effect}: reads and writes go by the
 * lists, and with ${enforce} all of them by ${scope}, whose first root is the base of relative
 * paths.
 */
void pathlists_check(const struct pathlists *lists, const struct scope *scope, bool enforce,
    enum side_effect effect, const char *path, struct violation *v);

/**
 * pathlists_globs(lists, workspace, fn, ctx):
 * Call ${fn} with each pair of arguments that makes ripgrep leave out what is hidden below
 * ${workspace}: two for each entry, "!secret" and the same with all below it.  Characters that a
 * glob would take for its own are escaped.
 */
void pathlists_globs(const struct pathlists *lists, const char *workspace,
    void (*fn)(void *ctx, const char *option, const char *glob), void *ctx);

/**
 * pathlists_free(lists):
 * Free the entries.
 */
void pathlists_free(struct pathlists *lists);

#endif
