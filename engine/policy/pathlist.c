/* pathlist.c: what the four lists say of a path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy/pathlist.h"

int
pathlists_add(struct pathlists *lists, enum pathlist_kind kind, const char *raw, const char *base,
    const char *home)
{
	struct pathlist *list = &lists->of[kind];
	char given[PLACE_MAX], at[PLACE_MAX], real[PLACE_MAX];
	size_t i;

	raw += strspn(raw, " \t\r\n");
	if (raw[0] == '\0' || scope_home(raw, home, given) != 0)
		return 0;
	for (i = strlen(given); i > 0 && strchr(" \t\r\n", given[i - 1]) != NULL; i--)
		given[i - 1] = '\0';
	if ((given[0] != '/' && base == NULL) ||
	    place_join(base == NULL ? "" : base, given, at) != 0)
		return 0;
	if (place_resolve(at, NULL, real) != PLACE_FOUND)
		return 0;
	if (kind == PATHLIST_ALLOW_WRITE && (strcmp(real, "/") == 0 || !place_directory(real, at)))
		return 0;
	for (i = 0; i < list->count; i++)
		if (strcmp(list->paths[i], real) == 0)
			return 0;
	if (list->count == PATHLIST_MAX || (list->paths[list->count] = strdup(real)) == NULL)
		return -1;
	list->count++;
	return 0;
}

/* Whether ${path} stands below ${root}, by whatever way it is spelled. */
static bool
stands_below(const char *path, const char *root)
{
	char at[PLACE_MAX], clean[PLACE_MAX];

	return place_resolve(path, root, at) != PLACE_FAILED && place_clean(at, clean) == 0 &&
	       place_inside(clean, root);
}

/* Whether it leads there, with all links followed. */
static bool
leads_below(const char *path, const char *root)
{
	char at[PLACE_MAX];
	enum place_end end = place_resolve(path, NULL, at);

	return (end == PLACE_FOUND || end == PLACE_MISSING) && place_inside(at, root);
}

static bool
hidden_by(const struct pathlists *lists, const char *root, const char *path)
{
	const struct pathlist *shown = &lists->of[PATHLIST_ALLOW_READ];
	size_t i;

	if (!stands_below(path, root) && !leads_below(path, root))
		return false;
	for (i = 0; i < shown->count; i++)
		if (place_inside(shown->paths[i], root) && leads_below(path, shown->paths[i]))
			return false;
	return true;
}

bool
pathlists_hides(const struct pathlists *lists, const char *base, const char *path)
{
	const struct pathlist *hidden = &lists->of[PATHLIST_DENY_READ];
	char at[PLACE_MAX];
	size_t i;

	if (path[0] != '/' && base == NULL)
		return false;
	if (place_join(base == NULL ? "" : base, path, at) != 0)
		return hidden->count > 0;
	for (i = 0; i < hidden->count; i++)
		if (hidden_by(lists, hidden->paths[i], at))
			return true;
	return false;
}

bool
pathlists_hides_all(const struct pathlists *lists, const char *base, const char *directory)
{
	const struct pathlist *shown = &lists->of[PATHLIST_ALLOW_READ];
	char at[PLACE_MAX], real[PLACE_MAX];
	size_t i;

	if (!pathlists_hides(lists, base, directory) ||
	    place_join(base == NULL ? "" : base, directory, at) != 0)
		return false;
	if (place_resolve(at, NULL, real) != PLACE_FOUND)
		return true;
	for (i = 0; i < shown->count; i++)
		if (place_inside(shown->paths[i], real))
			return false;
	return true;
}

static bool
kept(const struct pathlists *lists, const char *at)
{
	const struct pathlist *list = &lists->of[PATHLIST_DENY_WRITE];
	size_t i;

	for (i = 0; i < list->count; i++)
		if (stands_below(at, list->paths[i]) || leads_below(at, list->paths[i]))
			return true;
	return false;
}

/* Whether ALLOW_WRITE opens the absolute ${path}, which the workspace does not hold. */
static bool
opened(const struct pathlists *lists, const char *path)
{
	const struct pathlist *list = &lists->of[PATHLIST_ALLOW_WRITE];
	struct violation v;
	size_t i;

	for (i = 0; path[0] == '/' && i < list->count; i++) {
		scope_check_root(list->paths[i], path, &v);
		if (v.code == NULL)
			return true;
	}
	return false;
}

static void
check_write(const struct pathlists *lists, const struct scope *scope, bool enforce, const char *at,
    const char *path, struct violation *v)
{
	if (kept(lists, at)) {
		violation_set(v, "policy_denied", path, "deny_write keeps it as it is");
		return;
	}
	if (!enforce)
		return;
	scope_check(scope, path, v);
	if (v->code != NULL && opened(lists, path))
		v->code = NULL;
}

void
pathlists_check(const struct pathlists *lists, const struct scope *scope, bool enforce,
    enum side_effect effect, const char *path, struct violation *v)
{
	const char *base = scope->count > 0 ? scope->roots[0] : NULL;
	char at[PLACE_MAX];
	bool any = false;
	size_t i;

	v->code = NULL;
	for (i = 0; i < PATHLIST_KINDS; i++)
		any = any || lists->of[i].count > 0;
	if (base == NULL && path[0] != '/') {
		if (enforce || any)
			violation_set(v, "outside_workspace", path,
			    "it is relative, and there is no workspace");
		return;
	}
	if (place_join(base == NULL ? "" : base, path, at) != 0) {
		violation_set(v, "outside_workspace", path, "the path is too long");
		return;
	}
	/* The boundary is that of the workspace: without one there is none to enforce. */
	enforce = enforce && base != NULL;
	if (effect == SIDE_WRITE || effect == SIDE_OUT_OF_WORKSPACE) {
		check_write(lists, scope, enforce, at, path, v);
		return;
	}
	if (effect == SIDE_READ && pathlists_hides(lists, base, at))
		violation_set(v, "policy_denied", path, "deny_read hides it");
	else if (enforce)
		scope_check(scope, path, v);
}

void
pathlists_globs(const struct pathlists *lists, const char *workspace,
    void (*fn)(void *ctx, const char *option, const char *glob), void *ctx)
{
	const struct pathlist *hidden = &lists->of[PATHLIST_DENY_READ];
	char glob[2 * PLACE_MAX + 8];
	const char *rest;
	size_t i, n;

	for (i = 0; i < hidden->count; i++) {
		if (!place_inside(hidden->paths[i], workspace) ||
		    strcmp(hidden->paths[i], workspace) == 0)
			continue;
		rest = hidden->paths[i] + (strcmp(workspace, "/") == 0 ? 0 : strlen(workspace)) + 1;
		n = 0;
		glob[n++] = '!';
		for (; *rest != '\0'; rest++) {
			if (strchr("*?[]{}!\\", *rest) != NULL)
				glob[n++] = '\\';
			glob[n++] = *rest;
		}
		glob[n] = '\0';
		fn(ctx, "--glob", glob);
		strcpy(glob + n, "/**");
		fn(ctx, "--glob", glob);
	}
}

void
pathlists_free(struct pathlists *lists)
{
	size_t i;

	for (i = 0; i < PATHLIST_KINDS; i++)
		while (lists->of[i].count > 0)
			free(lists->of[i].paths[--lists->of[i].count]);
}
