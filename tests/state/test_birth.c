/* test_birth.c: how a machine comes to its state, and how it does not lose it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/crypto/key.h"
#include "engine/state/birth.h"
#include "engine/store/migrate.h"
#include "tests/scratch.h"

struct cradle {
	char dir[64];
	struct home home;
	struct refusal r;
};

static int
setup(void **state)
{
	struct cradle *c = calloc(1, sizeof(*c));
	char at[80], run[80];

	assert_non_null(c);
	snprintf(c->dir, sizeof(c->dir), "/tmp/bastion-test-XXXXXX");
	assert_non_null(mkdtemp(c->dir));
	snprintf(at, sizeof(at), "%s/state", c->dir);
	snprintf(run, sizeof(run), "%s/run", c->dir);
	assert_int_equal(home_at(&c->home, at, run, HOME_HOST, true, &c->r), 0);
	*state = c;
	return 0;
}

static int
teardown(void **state)
{
	struct cradle *c = *state;
	char command[128];

	home_close(&c->home);
	snprintf(command, sizeof(command), "rm -rf %s", c->dir);
	assert_int_equal(system(command), 0);
	free(c);
	return 0;
}

static void
row(struct cradle *c, char out[256])
{
	struct store *db;
	struct stmt *q;

	assert_non_null(db = store_open(&c->home, ROLE_READER, NULL, &c->r));
	assert_non_null(q = store_sql(db, "SELECT name || ' ' || role || ' ' ||"
					  " lower(hex(identity_key)) || ' ' || (SELECT count(*)"
					  " FROM audit WHERE entity = 'box') FROM box"));
	if (stmt_step(q) == 1) {
		snprintf(out, 256, "%s", stmt_get_text(q, 0));
		stmt_done(q);
	} else {
		out[0] = '\0';
	}
	store_close(db);
}

static void
born(struct cradle *c, const char *name, const char *as)
{
	char path[PATH_MAX], is[256], should[256], hex[65];
	unsigned char pk[32];
	struct key *key;

	assert_int_equal(birth_create(&c->home, name, &c->r), 1);
	home_path(&c->home, "bastion.key", path);
	assert_non_null(key = key_load(path, &c->r));
	key_public(key, KEY_IDENTITY, pk);
	key_free(key);
	sodium_bin2hex(hex, sizeof(hex), pk, sizeof(pk));
	snprintf(should, sizeof(should), "%s host %s 1", as, hex);
	row(c, is);
	assert_string_equal(is, should);
}

static void
once_and_for_all(void **state)
{
	struct cradle *c = *state;
	char before[256], after[256];
	struct stat st;

	born(c, "laptop", "laptop");
	assert_int_equal(fstatat(c->home.fd, "bastion.key", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(fstatat(c->home.fd, "bastion.db", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	row(c, before);
	assert_int_equal(birth_create(&c->home, "other", &c->r), 0);
	row(c, after);
	assert_string_equal(before, after);
}

/* A key beside a database that lost its own would make every seal worthless without a word. */
static void
no_key_beside_a_database(void **state)
{
	struct cradle *c = *state;

	born(c, "laptop", "laptop");
	assert_int_equal(unlinkat(c->home.fd, "bastion.key", 0), 0);
	assert_int_equal(birth_create(&c->home, "laptop", &c->r), -1);
	assert_string_equal(c->r.code, "key.missing");
	assert_int_equal(faccessat(c->home.fd, "bastion.key", F_OK, 0), -1);
}

static void
another_key_is_noticed(void **state)
{
	struct cradle *c = *state;
	char path[PATH_MAX];

	born(c, "laptop", "laptop");
	assert_int_equal(unlinkat(c->home.fd, "bastion.key", 0), 0);
	home_path(&c->home, "bastion.key", path);
	assert_int_equal(key_create(path, &c->r), 0);
	assert_int_equal(birth_create(&c->home, "laptop", &c->r), -1);
	assert_string_equal(c->r.code, "key.other");
}

static void
another_role_is_noticed(void **state)
{
	struct cradle *c = *state;

	born(c, "laptop", "laptop");
	c->home.role = HOME_BOX;
	assert_int_equal(birth_create(&c->home, "laptop", &c->r), -1);
	assert_string_equal(c->r.code, "box.identity");
}

/* Cut short after the key, or after the database, the next call goes on. */
static void
a_birth_cut_short_goes_on(void **state)
{
	struct cradle *c = *state;
	char path[PATH_MAX];

	home_path(&c->home, "bastion.key", path);
	assert_int_equal(key_create(path, &c->r), 0);
	assert_true(migrate_up(&c->home, &c->r) > 0);
	born(c, "laptop", "laptop");
}

static void
names(void **state)
{
	static const char *const bad[] = {"", "-a", "a b", "a/b", "a_b", "\xc3\xa9", "a\n",
	    "0123456789012345678901234567890123456789"
	    "0123456789012345678901234"};
	struct cradle *c = *state;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(birth_create(&c->home, bad[i], &c->r), -1);
		assert_string_equal(c->r.code, "box.name");
	}
	assert_int_equal(faccessat(c->home.fd, "bastion.key", F_OK, 0), -1);
	assert_int_equal(faccessat(c->home.fd, "bastion.db", F_OK, 0), -1);
	born(c, "A.b-9", "A.b-9");
}

static void
the_systems_name_serves(void **state)
{
	struct cradle *c = *state;
	char is[256];

	assert_int_equal(birth_create(&c->home, NULL, &c->r), 1);
	row(c, is);
	*strchr(is, ' ') = '\0';
	assert_true(birth_name(is));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(once_and_for_all, setup, teardown),
	    cmocka_unit_test_setup_teardown(no_key_beside_a_database, setup, teardown),
	    cmocka_unit_test_setup_teardown(another_key_is_noticed, setup, teardown),
	    cmocka_unit_test_setup_teardown(another_role_is_noticed, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_birth_cut_short_goes_on, setup, teardown),
	    cmocka_unit_test_setup_teardown(names, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_systems_name_serves, setup, teardown),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
