/* scope.c: inside or outside. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy/scope.h"

void
violation_set(struct violation *v, const char *code, const char *path, const char *fmt, ...)
{
	va_list ap;

	v->code = code;
	snprintf(v->path, sizeof(v->path), "%s", path);
	va_start(ap, fmt);
	vsnprintf(v->why, sizeof(v->why), fmt, ap);
	va_end(ap);
}

static void
outside(struct violation *v, const char *path)
{
	violation_set(v, "outside_workspace", path,
	    "it is outside the workspace; to write there: --add-dir DIR");
}

void
scope_check_root(const char *root, const char *path, struct violation *v)
{
	char at[PLACE_MAX], clean[PLACE_MAX], real[PLACE_MAX];
	enum place_end end;

	v->code = NULL;
	/* Links on the way to the root may be another spelling of it. */
	if (place_join(root, path, at) != 0 ||
	    (end = place_resolve(at, root, real)) == PLACE_FAILED ||
	    place_clean(real, clean) != 0 || !place_inside(clean, root)) {
		outside(v, path);
		return;
	}
	end = place_resolve(real, NULL, clean);
	if (end == PLACE_BROKEN)
		violation_set(v, "symlink_traversal", path, "a link on its way leads to nothing");
	else if (end == PLACE_FAILED)
		violation_set(
		    v, "outside_workspace", path, "it cannot be followed: %s", strerror(errno));
	else if (!place_inside(clean, root))
		violation_set(
		    v, "symlink_traversal", path, "a link on its way leads out of %s", root);
}

int
scope_home(const char *path, const char *home, char out[PLACE_MAX])
{
	int n;

	if (path[0] != '~')
		n = snprintf(out, PLACE_MAX, "%s", path);
	else if (home == NULL || home[0] != '/' || (path[1] != '\0' && path[1] != '/'))
		return -1;
	else
		n = snprintf(out, PLACE_MAX, "%s%s", home, path + 1);
	return n < 0 || n >= PLACE_MAX ? -1 : 0;
}

/* Without the blanks around it. */
static int
trim(const char *path, char out[PLACE_MAX])
{
	size_t n;

	path += strspn(path, " \t\r\n");
	for (n = strlen(path); n > 0 && strchr(" \t\r\n", path[n - 1]) != NULL; n--)
		;
	if (n == 0 || n >= PLACE_MAX)
		return -1;
	memcpy(out, path, n);
	out[n] = '\0';
	return 0;
}

int
scope_add(struct scope *s, const char *path, const char *home, char *why, size_t size)
{
	char given[PLACE_MAX], at[PLACE_MAX], real[PLACE_MAX];
	size_t i;

	if (trim(path, given) != 0 || scope_home(given, home, at) != 0 || at[0] != '/') {
		snprintf(why, size, "write root \"%.96s\": it is no absolute path", path);
		return -1;
	}
	if (!place_directory(at, real)) {
		snprintf(why, size, "write root \"%.96s\": there is no such directory", path);
		return -1;
	}
	if (strcmp(real, "/") == 0) {
		snprintf(
		    why, size, "write root \"%.96s\": the root of all files is no workspace", path);
		return -1;
	}
	for (i = 0; i < s->count; i++)
		if (place_inside(real, s->roots[i]))
			return 0;
	if (s->count == SCOPE_ROOTS || (s->roots[s->count] = strdup(real)) == NULL) {
		snprintf(
		    why, size, "write root \"%.96s\": there are %d at most", path, SCOPE_ROOTS);
		return -1;
	}
	s->count++;
	return 0;
}

void
scope_check(const struct scope *s, const char *path, struct violation *v)
{
	struct violation *link = NULL, one;
	size_t i;

	outside(v, path);
	for (i = 0; i < s->count && (path[0] == '/' || i == 0); i++) {
		scope_check_root(s->roots[i], path, &one);
		if (one.code == NULL) {
			v->code = NULL;
			return;
		}
		if (link == NULL && strcmp(one.code, "symlink_traversal") == 0) {
			*v = one;
			link = v;
		}
	}
}

void
scope_free(struct scope *s)
{
	while (s->count > 0)
		free(s->roots[--s->count]);
}
