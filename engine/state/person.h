/* person.h: what the user directory calls a user, without waiting for it for ever. */
#ifndef ENGINE_STATE_PERSON_H
#define ENGINE_STATE_PERSON_H

#include <pwd.h>
#include <stddef.h>
#include <sys/types.h>

#include "engine/refusal.h"

#define PERSON_NAME_MAX 64
#define PERSON_WAIT_MS  2000

/**
 * person_name(uid, name, r):
 * Store the login name of ${uid}, which the kernel vouched for, in ${name}; "uid 1000" where there
 * is no account or its name does not fit.  The directory may be a server that hangs: after
 * PERSON_WAIT_MS, or at once while an earlier look-up still hangs, return -1 with ${r} set to
 * approval.person and "uid 1000" in ${name}.  Else return 0.
 */
int person_name(uid_t uid, char name[PERSON_NAME_MAX + 1], struct refusal *r);

/**
 * person_lookup_fix(lookup):
 * For tests: look names up with ${lookup}, of getpwuid_r's form; NULL goes back to the system.
 */
void person_lookup_fix(int (*lookup)(uid_t, struct passwd *, char *, size_t, struct passwd **));

#endif
