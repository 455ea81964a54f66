/* role.h: what each kind of process may do with the database. */
#ifndef ENGINE_STORE_ROLE_H
#define ENGINE_STORE_ROLE_H

#include "engine/store/store.h"

/**
 * role_install(handle, role):
 * Let the SQLite connection ${handle} do only what ${role} may: the authorizer of DESIGN §3.
 * Triggers and views of the schema are not held to it, since the schema's digest was checked.
 * Return 0 or -1.
 */
int role_install(struct sqlite3 *handle, enum store_role role);

/**
 * role_shows(role, sql):
 * Return whether the statements ${sql} keep clear of the one place where the authorizer is not
 * asked: SQLite 3.40 reads the columns of NATURAL and USING joins without it, and a FULL JOIN USING
 * (secret) would show what ${role} may not read.
 */
bool role_shows(enum store_role role, const char *sql);

#endif
