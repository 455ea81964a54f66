/* birth.c: the first start, and what later starts check of it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/birth.h"
#include "engine/crypto/key.h"
#include "engine/store/embed.h"
#include "engine/store/migrate.h"

#define BOX_NAME_MAX 64

static const char BOX_FIND[] = "SELECT role, identity_key FROM box";
static const char BOX_BORN[] = "INSERT INTO box (id, name, role, identity_key, created_at)"
			       " VALUES (1, :name, :role, :key, now_ms())";

static const char *
role_name(enum home_role role)
{
	return role == HOME_HOST ? "host" : "box";
}

static bool
is_there(const struct home *home, const char *name)
{
	return faccessat(home->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * The key comes before the database, so a birth that is cut short leaves a key alone, which the
 * next start takes up; never a database without one.
 */
int
birth_key(const struct home *home, struct store_keys *keys, struct refusal *r)
{
	char path[PATH_MAX];
	struct key *key;

	home_path(home, "bastion.key", path);
	if (!is_there(home, "bastion.db") && !is_there(home, "bastion.key") &&
	    key_create(path, r) == -1)
		return -1;
	if ((key = key_load(path, r)) == NULL)
		return -1;
	memset(keys, 0, sizeof(*keys));
	key_public(key, KEY_IDENTITY, keys->identity);
	key_public(key, KEY_GRANT, keys->grant);
	keys->present = true;
	key_free(key);
	return 0;
}

/* The name of the host as a box may bear it: what the schema does not take becomes '-'. */
static void
box_name(enum home_role role, char name[BOX_NAME_MAX + 1])
{
	static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				   "0123456789.-";
	char host[BOX_NAME_MAX + 1], *at;

	if (gethostname(host, sizeof(host)) == -1)
		host[0] = '\0';
	host[BOX_NAME_MAX] = '\0';
	for (at = host; *at != '\0'; at++)
		if (strchr(good, *at) == NULL)
			*at = '-';
	at = host + strspn(host, "-.");
	snprintf(name, BOX_NAME_MAX + 1, "%s", *at != '\0' ? at : role_name(role));
}

static int
box_born(struct store *db, enum home_role role, const struct store_keys *keys)
{
	char name[BOX_NAME_MAX + 1];
	struct stmt *q;

	box_name(role, name);
	if (store_begin(db) == -1)
		return -1;
	if ((q = store_sql(db, BOX_BORN)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":name", name);
	stmt_text(q, ":role", role_name(role));
	stmt_blob(q, ":key", keys->identity, sizeof(keys->identity));
	return stmt_run_one(q) == -1 ? store_rollback(db) : store_commit(db);
}

static int
box_is_ours(struct stmt *q, struct store *db, enum home_role role, const struct store_keys *keys)
{
	const void *identity;
	int rc = 0;

	identity = stmt_get_blob(q, 1, sizeof(keys->identity));
	if (strcmp(stmt_get_text(q, 0), role_name(role)) != 0)
		rc = refusal_set(store_refusal(db), "box.identity", "this state is that of a %s",
				 stmt_get_text(q, 0));
	else if (identity == NULL || memcmp(identity, keys->identity, sizeof(keys->identity)) != 0)
		rc = refusal_set(store_refusal(db), "key.other",
				 "the key is not the one that this database was born with");
	stmt_done(q);
	return rc;
}

static int
box_check(struct store *db, enum home_role role, const struct store_keys *keys)
{
	struct stmt *q;
	int got;

	if ((q = store_sql(db, BOX_FIND)) == NULL || (got = stmt_step(q)) == -1)
		return -1;
	return got == 1 ? box_is_ours(q, db, role, keys) : box_born(db, role, keys);
}

static int
bring_up(const struct home *home, bool migrate, struct refusal *r)
{
	int version;

	if (migrate_version(home, &version, r) == -1)
		return -1;
	if (version == embedded_versions)
		return 0;
	if (version != 0 && version < embedded_versions && !migrate)
		return refusal_set(r, "store.older",
				   "the database has schema version %d, this bastion needs %d",
				   version, embedded_versions);
	return migrate_up(home, r) < 0 ? -1 : 0;
}

int
birth_database(const struct home *home, const struct store_keys *keys, bool migrate,
	       struct refusal *r)
{
	struct store *db;
	int rc;

	if (bring_up(home, migrate, r) == -1 ||
	    (db = store_open(home, ROLE_MIGRATE, keys, r)) == NULL)
		return -1;
	store_acting(db, "actor:supervisor");
	if ((rc = box_check(db, home->role, keys)) == -1)
		*r = *store_refusal(db);
	store_close(db);
	return rc;
}
