/* birth.h: a home becomes a machine: its key, its database, its name. */
#ifndef ENGINE_STATE_BIRTH_H
#define ENGINE_STATE_BIRTH_H

#include <stdbool.h>

#include "engine/refusal.h"
#include "engine/store/store.h"

#define BIRTH_NAME_MAX 64

/**
 * birth_key(home, keys, r):
 * Read the public keys of the key file of ${home} into ${*keys}, which gets no secret. The file is
 * made only where there is no database yet: beside one, a missing key is key.missing, since a new
 * key would make every seal worthless without a word. Return 0, or -1 with ${r}: key.*.
 */
int birth_key(const struct home *home, struct store_keys *keys, struct refusal *r);

/**
 * birth_began(home):
 * Return whether ${home} has a database, be it of which version it may.
 */
bool birth_began(const struct home *home);

/**
 * birth_database(home, name, keys, migrate, r):
 * Make the database where there is none, or with ${migrate} bring an older one up to date, and make
 * sure that its box is this machine: the row is born with ${name} (NULL: the system's) and the
 * identity in
 * ${keys}; whoever was born keeps name and role. Return 1 if the machine was born now, 0 if it had
 * been before, or -1 with ${r}: box.name; store.older; key.other where the key is not the one that
 * the database was born with; box.identity where it is that of the other role; or what the store
 * says.
 */
int birth_database(const struct home *home, const char *name, const struct store_keys *keys,
    bool migrate, struct refusal *r);

/**
 * birth_open(home, role, keys, migrate, r):
 * Do what birth_database does, with the system's name, and open the database in ${role}.  A machine
 * of this version, which is the rule, is opened once.  Return the store, or NULL with ${r} as
 * there.
 */
struct store *birth_open(const struct home *home, enum store_role role,
    const struct store_keys *keys, bool migrate, struct refusal *r);

/**
 * birth_create(home, name, r):
 * Both in turn, without migrating: in an order that a crash anywhere lets the next call go on from.
 * Return as birth_database.
 */
int birth_create(const struct home *home, const char *name, struct refusal *r);

/**
 * birth_name(name):
 * Return whether a machine can be called ${name}: 1 to 64 letters, digits, dots and dashes, no dash
 * first.
 */
bool birth_name(const char *name);

#endif
