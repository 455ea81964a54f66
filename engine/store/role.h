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

#endif
