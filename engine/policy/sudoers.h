/* sudoers.h: whom the rules of sudo name. */
#ifndef ENGINE_POLICY_SUDOERS_H
#define ENGINE_POLICY_SUDOERS_H

#include "engine/policy/owner.h"

#define SUDOERS_NAMES 512
#define SUDOERS_FILES 64
#define SUDOERS_DEEP  8

/* Principals of rules, as they stand there: "bob", "%wheel", "#1000", "%#27", "ALL". */
struct sudoers {
	char *names[SUDOERS_NAMES];
	size_t count;
	unsigned files;
	bool partly; /* something was not read or not understood */
};

/**
 * sudoers_text(s, text):
 * Add whom the rules of ${text} name.  Directives that include other files are noted as partly
 * read; sudoers_read follows them.  What is not understood (netgroups, exceptions, aliases of
 * users) makes it partly read as well.
 */
void sudoers_text(struct sudoers *s, const char *text);

/**
 * sudoers_read(root, s):
 * Read /etc/sudoers below ${root} and what it includes (sudoers(5), GRAMMAR).  Return 0 where all
 * of it was read, or where there is no sudo; -1 otherwise.
 */
int sudoers_read(int root, struct sudoers *s);

/**
 * sudoers_user(s, name, uid), sudoers_group(s, name, gid):
 * Whether a rule names the account, FACT_NO where none does; or the group.
 */
enum owner_fact sudoers_user(const struct sudoers *s, const char *name, uint32_t uid);
bool sudoers_group(const struct sudoers *s, const char *name, uint32_t gid);

/**
 * sudoers_free(s):
 * Free the names.
 */
void sudoers_free(struct sudoers *s);

#endif
