/* role.h: what each kind of process may do with the database. */
#ifndef ENGINE_STORE_ROLE_H
#define ENGINE_STORE_ROLE_H

#include <stddef.h>

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

/**
 * role_reads(role, table, column):
 * Return whether ${role} reads the column, or NULL in its place.
 */
bool role_reads(enum store_role role, const char *table, const char *column);

/**
 * role_amends(out, size):
 * Store the names of the tables that ROLE_AMEND may update in ${out}: "setting, grant".
 */
void role_amends(char *out, size_t size);

/**
 * role_forces(sql):
 * Return whether ${sql} says UPDATE OR IGNORE, or OR and another way out.  These would hold in the
 * triggers as well: OR IGNORE drops an audit row that a CHECK refuses.
 */
bool role_forces(const char *sql);

/**
 * role_denied():
 * Return the write that was denied last in this thread, as "DELETE FROM audit"; "" where none was
 * since role_install.
 */
const char *role_denied(void);

#endif
