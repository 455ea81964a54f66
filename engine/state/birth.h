/* birth.h: how a machine comes to its state: key, database, name. */
#ifndef ENGINE_STATE_BIRTH_H
#define ENGINE_STATE_BIRTH_H

#include <stdbool.h>

#include "engine/refusal.h"
#include "engine/store/home.h"

#define BIRTH_NAME_MAX 64

/**
 * birth_create(home, name, r):
 * Make what ${home} lacks, in an order that a crash anywhere lets the next call go on from: the
 * key, the database of this build's version, the row of this machine with ${name} (NULL: the name
 * of the system) and the role of ${home}.  A key is never made beside an existing database, an
 * older database is not migrated, and whoever was born keeps name and role.  Return 1 if the
 * machine was born now, 0 if it had been before; or -1 with ${r}: box.name, box.identity where the
 * state is of the other role, key.missing, key.other where the database was born with another key,
 * or what keys and stores refuse.
 */
int birth_create(const struct home *home, const char *name, struct refusal *r);

/**
 * birth_name(name):
 * Return whether a machine can be called ${name}: 1 to 64 letters, digits, dots and dashes, no dash
 * first.
 */
bool birth_name(const char *name);

#endif
