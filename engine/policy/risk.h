/* risk.h: categories of what is asked, and the level that they come to. */
#ifndef ENGINE_POLICY_RISK_H
#define ENGINE_POLICY_RISK_H

#include "engine/policy/command.h"
#include "engine/policy/pathlist.h"

/* Of a tool that is a network tool itself: "network" as well, but not as bad as a command's. */
#define RISK_NETWORK_TOOL 8192

#define RISK_NAMES_MAX 320

/**
 * risk_effect(effect):
 * Return the category of a tool with that ${effect}.
 */
unsigned risk_effect(enum side_effect effect);

/**
 * risk_path(scope, path):
 * Return the categories of a ${path} that a tool is given; ${scope} may have no roots.
 */
unsigned risk_path(const struct scope *scope, const char *path);

/**
 * risk_level(categories):
 * Return "low", "medium", "high" or "critical": the worst of ${categories}.
 */
const char *risk_level(unsigned categories);

/**
 * risk_names(categories, out):
 * Store the names in the order of the alphabet as a JSON array in ${out}.
 */
void risk_names(unsigned categories, char out[RISK_NAMES_MAX]);

#endif
