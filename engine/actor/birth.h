/* birth.h: a home becomes a machine: its key, its database, its name. */
#ifndef ENGINE_ACTOR_BIRTH_H
#define ENGINE_ACTOR_BIRTH_H

#include <stdbool.h>

#include "engine/store/store.h"

/**
 * birth_key(home, keys, r):
 * Read the public keys of the key file of ${home} into ${*keys}, which gets no secret.  The file is
 * made only where there is no database yet: beside one, a missing key is key.missing, since a new
 * key would make all seals worthless without a word.  Return 0, or -1 with ${r}: key.*.
 */
int birth_key(const struct home *home, struct store_keys *keys, struct refusal *r);

/**
 * birth_database(home, keys, migrate, r):
 * Make the database where there is none, or with ${migrate} bring an older one up to date, and make
 * sure that its box is this machine: the row is born with the host's name and the identity in
 * ${keys}.  The caller holds the kernel's lock.  Return 0; or -1 with ${r}: store.older,
 * store.newer, key.other where the key is not the one that the database was born with,
 * box.identity where it is that of the other role, or what the store says.
 */
int birth_database(const struct home *home, const struct store_keys *keys, bool migrate,
		   struct refusal *r);

#endif
