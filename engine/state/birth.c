/* birth.c: key first, database second, the machine's row last. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/state/birth.h"
#include "engine/store/embed.h"
#include "engine/store/migrate.h"

static const char BOX_FIND[] = "SELECT role, identity_key FROM box";
static const char BOX_BORN[] = "INSERT INTO box (id, name, role, identity_key, created_at)"
			       " VALUES (1, :name, :role, :key, now_ms())";

static const char *
role_name(const struct home *home)
{
	return home->role == HOME_HOST ? "host" : "box";
}

static bool
is_name_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '-';
}

bool
birth_name(const char *name)
{
	size_t i;

	for (i = 0; name[i] != '\0'; i++)
		if (!is_name_character(name[i]) || i >= BIRTH_NAME_MAX)
			return false;
	return i > 0 && name[0] != '-';
}

/* The system's own name; where it cannot be ours, the name of the role. */
static void
system_name(const struct home *home, char out[BIRTH_NAME_MAX + 1])
{
	char *dot;

	if (gethostname(out, BIRTH_NAME_MAX + 1) == -1)
		out[0] = '\0';
	out[BIRTH_NAME_MAX] = '\0';
	if ((dot = strchr(out, '.')) != NULL)
		*dot = '\0';
	if (!birth_name(out))
		strcpy(out, role_name(home));
}

static bool
is_there(const struct home *home, const char *file)
{
	return faccessat(home->fd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool
birth_began(const struct home *home)
{
	return is_there(home, "bastion.db");
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
	if (!is_there(home, "bastion.key")) {
		if (birth_began(home))
			return refusal_set(r, "key.missing",
			    "there is a database in %s, but its key is gone", home->state);
		if (key_create(path, r) == -1)
			return -1;
	}
	if ((key = key_load(path, r)) == NULL)
		return -1;
	memset(keys, 0, sizeof(*keys));
	key_public(key, KEY_IDENTITY, keys->identity);
	key_public(key, KEY_GRANT, keys->grant);
	keys->present = true;
	key_free(key);
	return 0;
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
		    "the database has schema version %d, this bastion needs %d", version,
		    embedded_versions);
	return migrate_up(home, r) < 0 ? -1 : 0;
}

static int
box_born(const struct home *home, struct store *db, const char *name, const struct store_keys *keys)
{
	char own[BIRTH_NAME_MAX + 1];
	struct stmt *q;

	system_name(home, own);
	if (store_begin(db) == -1)
		return -1;
	if ((q = store_sql(db, BOX_BORN)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":name", name == NULL ? own : name);
	stmt_text(q, ":role", role_name(home));
	stmt_blob(q, ":key", keys->identity, sizeof(keys->identity));
	if (stmt_run_one(q) == -1)
		return store_rollback(db);
	return store_commit(db) == -1 ? -1 : 1;
}

/* The row that is there must be of this role and of this key. */
static int
box_is_ours(
    const struct home *home, struct store *db, struct stmt *q, const struct store_keys *keys)
{
	const void *identity = stmt_get_blob(q, 1, sizeof(keys->identity));
	int rc = 0;

	if (strcmp(stmt_get_text(q, 0), role_name(home)) != 0)
		rc = refusal_set(store_refusal(db), "box.identity",
		    "the state in %s is that of a %s", home->state, stmt_get_text(q, 0));
	else if (identity == NULL || memcmp(identity, keys->identity, sizeof(keys->identity)) != 0)
		rc = refusal_set(store_refusal(db), "key.other",
		    "the key in %s is not the one that its database was born with", home->state);
	stmt_done(q);
	return rc;
}

/* 1: it is this machine's; 0: it has no box yet; -1: refused. */
static int
box_find(
    const struct home *home, struct store *db, const struct store_keys *keys, struct refusal *r)
{
	struct stmt *q;
	int n = -1;

	if ((q = store_sql(db, BOX_FIND)) != NULL && (n = stmt_step(q)) == 1)
		n = box_is_ours(home, db, q, keys) == -1 ? -1 : 1;
	if (n == -1)
		*r = *store_refusal(db);
	return n;
}

/* A machine that was born is only looked at: its disk may be full or read-only. */
static int
box_known(const struct home *home, const struct store_keys *keys, struct refusal *r)
{
	struct store *db;
	int n;

	if ((db = store_open(home, ROLE_READER, keys, r)) == NULL)
		return -1;
	n = box_find(home, db, keys, r);
	store_close(db);
	return n;
}

static bool
can_be_made(const struct refusal *r)
{
	return strcmp(r->code, "store.missing") == 0 || strcmp(r->code, "store.older") == 0;
}

int
birth_database(const struct home *home, const char *name, const struct store_keys *keys,
    bool migrate, struct refusal *r)
{
	struct store *db;
	int rc;

	if (name != NULL && !birth_name(name))
		return refusal_set(r, "box.name", "a machine cannot have this name");
	/* A machine of this version, which is the rule, is opened once. */
	if ((rc = box_known(home, keys, r)) == -1) {
		if (!can_be_made(r))
			return -1;
		if (bring_up(home, migrate, r) == -1 || (rc = box_known(home, keys, r)) == -1)
			return -1;
	}
	if (rc == 1)
		return 0;
	if ((db = store_open(home, ROLE_MIGRATE, keys, r)) == NULL)
		return -1;
	store_acting(db, "system:birth(%u)", (unsigned)getuid());
	if ((rc = box_born(home, db, name, keys)) == -1)
		*r = *store_refusal(db);
	store_close(db);
	return rc;
}

struct store *
birth_open(const struct home *home, enum store_role role, const struct store_keys *keys,
    bool migrate, struct refusal *r)
{
	struct store *db;
	int rc;

	if ((db = store_open(home, role, keys, r)) != NULL) {
		if ((rc = box_find(home, db, keys, r)) == 1)
			return db;
		store_close(db);
		if (rc == -1)
			return NULL;
	} else if (!can_be_made(r))
		return NULL;
	if (birth_database(home, NULL, keys, migrate, r) == -1)
		return NULL;
	return store_open(home, role, keys, r);
}

int
birth_create(const struct home *home, const char *name, struct refusal *r)
{
	struct store_keys keys;

	if (name != NULL && !birth_name(name))
		return refusal_set(r, "box.name", "a machine cannot have this name");
	if (birth_key(home, &keys, r) == -1)
		return -1;
	return birth_database(home, name, &keys, false, r);
}
