/* birth.c: key first, database second, the machine's row last. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/state/birth.h"
#include "engine/store/migrate.h"
#include "engine/store/store.h"

static const char BOX_ROLE[] = "SELECT role FROM box";
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

/* Store in ${*born} whether the machine has its row; the schema is checked on the way. */
static int
birth_known(const struct home *home, bool *born, struct refusal *r)
{
	struct store *db;
	struct stmt *q;
	int n;

	if ((db = store_open(home, ROLE_READER, NULL, r)) == NULL)
		return -1;
	n = (q = store_sql(db, BOX_ROLE)) == NULL ? -1 : stmt_step(q);
	*born = n == 1;
	if (n == 1 && strcmp(stmt_get_text(q, 0), role_name(home)) != 0)
		n = refusal_set(store_refusal(db), "box.role", "the state in %s is that of a %s",
				home->state, stmt_get_text(q, 0));
	if (*born)
		stmt_done(q);
	if (n == -1)
		*r = *store_refusal(db);
	store_close(db);
	return n == -1 ? -1 : 0;
}

int
birth_create(const struct home *home, const char *name, struct refusal *r)
{
	char path[PATH_MAX], own[BIRTH_NAME_MAX + 1];
	unsigned char identity[32];
	struct key *key;
	bool born;
	int version;

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
	    (version == 0 && migrate_up(home, r) == -1) || birth_known(home, &born, r) == -1)
		return -1;
	if (born)
		return 0;
	return birth_row(home, name == NULL ? own : name, identity, r) == -1 ? -1 : 1;
}
