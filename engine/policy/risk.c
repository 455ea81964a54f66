/* risk.c: categories, names, levels. */
#include <stdio.h>
#include <string.h>

#include "engine/policy/risk.h"

static const char *const levels[] = {"low", "medium", "high", "critical"};

/* In the order of their names. */
static const struct {
	const char *name;
	unsigned categories;
	unsigned level; /* of levels[] */
} risks[] = {
    {"absolute_path", RISK_ABSOLUTE_PATH, 1},
    {"destructive", RISK_DESTRUCTIVE, 3},
    {"network", RISK_NETWORK, 3},
    {"network", RISK_NETWORK_TOOL, 2},
    {"out_of_workspace", RISK_OUT_OF_WORKSPACE, 3},
    {"path_escape", RISK_PATH_ESCAPE, 3},
    {"piped_installer", RISK_PIPED_INSTALLER, 3},
    {"read", RISK_READ, 0},
    {"shell", RISK_SHELL, 2},
    {"symlink_traversal", RISK_SYMLINK_TRAVERSAL, 3},
    {"unknown_program", RISK_UNKNOWN_PROGRAM, 2},
    {"unparseable_command", RISK_UNPARSEABLE, 2},
    {"unseen_script", RISK_UNSEEN_SCRIPT, 2},
    {"write", RISK_WRITE, 1},
};

#define COUNT (sizeof(risks) / sizeof(risks[0]))

unsigned
risk_effect(enum side_effect effect)
{
	static const unsigned of[] = {
	    RISK_READ, RISK_WRITE, RISK_SHELL, RISK_NETWORK_TOOL, RISK_OUT_OF_WORKSPACE, 0};

	return of[effect];
}

/* Whether the relative ${path} climbs above where it begins. */
static bool
climbs(const char *path)
{
	int level = 0;
	size_t n;

	while (*path != '\0') {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 2 && memcmp(path, "..", 2) == 0)
			level--;
		else if (n > 0 && !(n == 1 && *path == '.'))
			level++;
		if (level < 0)
			return true;
		path += n;
	}
	return false;
}

unsigned
risk_path(const struct scope *scope, const char *path)
{
	unsigned categories = 0;
	struct violation v;

	if (path[0] == '/')
		categories |= RISK_ABSOLUTE_PATH;
	else if (climbs(path))
		categories |= RISK_PATH_ESCAPE;
	if (scope->count == 0)
		return categories;
	scope_check(scope, path, &v);
	if (v.code != NULL)
		categories |= strcmp(v.code, "symlink_traversal") == 0 ? RISK_SYMLINK_TRAVERSAL
								       : RISK_OUT_OF_WORKSPACE;
	return categories;
}

const char *
risk_level(unsigned categories)
{
	unsigned level = 0;
	size_t i;

	for (i = 0; i < COUNT; i++)
		if ((categories & risks[i].categories) != 0 && risks[i].level > level)
			level = risks[i].level;
	return levels[level];
}

void
risk_names(unsigned categories, char out[RISK_NAMES_MAX])
{
	const char *last = "";
	size_t i, n = 0;

	out[n++] = '[';
	for (i = 0; i < COUNT; i++) {
		if ((categories & risks[i].categories) == 0 || strcmp(last, risks[i].name) == 0)
			continue;
		last = risks[i].name;
		n += (size_t)snprintf(
		    out + n, RISK_NAMES_MAX - n, "%s\"%s\"", n > 1 ? "," : "", risks[i].name);
	}
	snprintf(out + n, RISK_NAMES_MAX - n, "]");
}
