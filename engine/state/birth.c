/* birth.c: key first, database second, the machine's row last. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/state/birth.h"
#include "engine/store/migrate.h"
#include "engine/store/store.h"

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

	for (i = 0; name[i] != '\0'; i++) {
		if (!is_name_character(name[i]) || i >= BIRTH_NAME_MAX)
			return false;
	}
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

static int
birth_key(const struct home *home, struct refusal *r)
{
	char path[PATH_MAX];

	if (is_there(home, "bastion.key"))
		return 0;
	home_path(home, "bastion.key", path);
	if (is_there(home, "bastion.db"))
		return refusal_set(r, "key.missing",
				   "there is a database in %s, but its key is gone", home->state);
	return key_create(path, r);
}

static int
birth_row(const struct home *home, const char *name, const unsigned char key[32], struct refusal *r)
{
	struct store *db;
	struct stmt *q;
	int failed = 1;

	if ((db = store_open(home, ROLE_MIGRATE, NULL, r)) == NULL)
		return -1;
	store_acting(db, "system:birth(%u)", (unsigned)getuid());
	if (store_begin(db) == -1 || (q = store_sql(db, BOX_BORN)) == NULL)
		goto done;
	stmt_text(q, ":name", name);
	stmt_text(q, ":role", role_name(home));
	stmt_blob(q, ":key", key, 32);
	if (stmt_run_one(q) == -1 || store_commit(db) == -1)
		goto done;
	failed = 0;

done:
	if (failed)
		*r = *store_refusal(db);
	store_close(db);
	return failed ? -1 : 0;
}

/* The row that is there must be of this role and of this key. */
static int
is_ours(const struct home *home, struct stmt *q, const unsigned char key[32], struct refusal *r)
{
	const void *identity = stmt_get_blob(q, 1, 32);

	if (strcmp(stmt_get_text(q, 0), role_name(home)) != 0)
		return refusal_set(r, "box.identity", "the state in %s is that of a %s",
				   home->state, stmt_get_text(q, 0));
	if (identity == NULL || memcmp(identity, key, 32) != 0)
		return refusal_set(r, "key.other", "the key in %s is not that of its database",
				   home->state);
	return 0;
}

/* Return whether the machine has its row, or -1; the schema is checked on the way. */
static int
birth_known(const struct home *home, const unsigned char key[32], struct refusal *r)
{
	struct store *db;
	struct stmt *q;
	int n;

	if ((db = store_open(home, ROLE_READER, NULL, r)) == NULL)
		return -1;
	if ((q = store_sql(db, BOX_FIND)) == NULL || (n = stmt_step(q)) == -1) {
		*r = *store_refusal(db);
		n = -1;
	} else if (n == 1) {
		n = is_ours(home, q, key, r) == -1 ? -1 : 1;
		stmt_done(q);
	}
	store_close(db);
	return n;
}

int
birth_create(const struct home *home, const char *name, struct refusal *r)
{
	char path[PATH_MAX], own[BIRTH_NAME_MAX + 1];
	unsigned char identity[32];
	struct key *key;
	int version, known;

	system_name(home, own);
	if (name != NULL && !birth_name(name))
		return refusal_set(r, "box.name", "a machine cannot have this name");
	if (birth_key(home, r) == -1)
		return -1;
	home_path(home, "bastion.key", path);
	if ((key = key_load(path, r)) == NULL)
		return -1;
	key_public(key, KEY_IDENTITY, identity);
	key_free(key);
	if (migrate_version(home, &version, r) == -1 ||
	    (version == 0 && migrate_up(home, r) == -1) ||
	    (known = birth_known(home, identity, r)) == -1)
		return -1;
	if (known == 1)
		return 0;
	return birth_row(home, name == NULL ? own : name, identity, r) == -1 ? -1 : 1;
}
