/* privilege.h: giving root away: for a while in the supervisor, for good in an actor. */
#ifndef ENGINE_ACTOR_PRIVILEGE_H
#define ENGINE_ACTOR_PRIVILEGE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/refusal.h"

#define PRIVILEGE_GROUPS_MAX 32

/* Whom actors run as.  A plain value: it travels from the supervisor to its actors. */
struct privilege {
	uint32_t uid, gid;
	uint32_t group_count;
	uint32_t groups[PRIVILEGE_GROUPS_MAX]; /* supplementary */
};

/**
 * privilege_find(user, who, r):
 * Store in ${*who} the user that actors run as: as root the user ${user}, or "bastion" where
 * ${user} is NULL and there is one, or else root; otherwise ourselves, and ${user} may only name
 * that.  Return 0, or -1 with ${r}: usage.wrong.
 */
int privilege_find(const char *user, struct privilege *who, struct refusal *r);

/**
 * privilege_lend(who, r):
 * As root: be ${who} from now on for everything that is checked against the effective ids, so that
 * files get the right owner, while root can be had back.  Return 0 or -1.
 */
int privilege_lend(const struct privilege *who, struct refusal *r);

/**
 * privilege_regain(void):
 * Take back what privilege_lend gave.  Only system calls, so that it may stand between fork and
 * exec.  Return 0 or -1.
 */
int privilege_regain(void);

/**
 * privilege_drop(who, groups, r):
 * Become ${who} in all ids, for good, and check that there is no way back; with the supplementary
 * groups of ${who} only where ${groups}.  Return 0 or -1.
 */
int privilege_drop(const struct privilege *who, bool groups, struct refusal *r);

/**
 * privilege_no_capabilities(r):
 * Give up every capability, present and future: what is left of root is a user id.  Return 0 or
 * -1.
 */
int privilege_no_capabilities(struct refusal *r);

/**
 * privilege_seal(parent, r):
 * Die with the process ${parent}, gain nothing by exec, be opaque to debuggers and leave no core.
 * To be called again after any change of ids, which the kernel answers by undoing some of it.
 * Return 0, or -1 also where ${parent} is gone already.
 */
int privilege_seal(int64_t parent, struct refusal *r);

#endif
