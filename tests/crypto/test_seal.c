/* test_seal.c: a sealed value opens in its own place with its own key, and nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "engine/crypto/seal.h"

static const struct seal_place PLACE = {"login", "access", "provider:example", 3, KEY_COLUMN};
static const char SECRET[] = "a token that no agent sees";

static struct key *key, *other;

static struct key *
new_key(void)
{
	char dir[] = "/tmp/bastion-seal-XXXXXX", path[64];
	struct key *k;

	if (mkdtemp(dir) == NULL)
		return NULL;
	snprintf(path, sizeof(path), "%s/bastion.key", dir);
	k = key_create(path, NULL) == 0 ? key_load(path, NULL) : NULL;
	unlink(path);
	rmdir(dir);
	return k;
}

static int
setup(void **state)
{
	(void)state;
	key = new_key();
	other = new_key();
	return key != NULL && other != NULL ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	key_free(key);
	key_free(other);
	return 0;
}

static void
make(uint8_t sealed[sizeof(SECRET) + SEAL_OVERHEAD])
{
	assert_int_equal(seal_make(key, &PLACE, SECRET, sizeof(SECRET), sealed,
			     sizeof(SECRET) + SEAL_OVERHEAD, NULL),
	    0);
}

/* Opening must fail, say so, and leave nothing of the value. */
static void
broken(const struct key *k, const struct seal_place *place, const uint8_t *sealed, size_t len)
{
	char out[sizeof(SECRET)];
	struct refusal r = {0};
	size_t i;

	memset(out, '!', sizeof(out));
	assert_int_equal(seal_open(k, place, sealed, len, out, sizeof(out), &r), -1);
	assert_string_equal(r.code, "seal.broken");
	for (i = 0; i < sizeof(out); i++)
		assert_true(out[i] == '!' || out[i] == 0);
}

static void
opens_again(void **state)
{
	uint8_t sealed[sizeof(SECRET) + SEAL_OVERHEAD];
	char out[sizeof(SECRET)];

	(void)state;
	assert_int_equal(seal_size(sizeof(SECRET)), sizeof(sealed));
	assert_int_equal(seal_plain_size(sizeof(sealed)), sizeof(SECRET));
	make(sealed);
	assert_null(memmem(sealed, sizeof(sealed), "token", 5));
	assert_int_equal(seal_open(key, &PLACE, sealed, sizeof(sealed), out, sizeof(out), NULL), 0);
	assert_memory_equal(out, SECRET, sizeof(SECRET));
}

static void
empty_value_is_sealed_too(void **state)
{
	uint8_t sealed[SEAL_OVERHEAD];
	struct refusal r = {0};

	(void)state;
	assert_int_equal(seal_make(key, &PLACE, NULL, 0, sealed, sizeof(sealed), NULL), 0);
	assert_int_equal(seal_open(key, &PLACE, sealed, sizeof(sealed), NULL, 0, NULL), 0);
	sealed[30] ^= 1;
	assert_int_equal(seal_open(key, &PLACE, sealed, sizeof(sealed), NULL, 0, &r), -1);
	assert_string_equal(r.code, "seal.broken");
}

/* The same value twice gives different bytes: a reader of the file cannot tell that they agree. */
static void
nonces_differ(void **state)
{
	uint8_t a[sizeof(SECRET) + SEAL_OVERHEAD], b[sizeof(SECRET) + SEAL_OVERHEAD];

	(void)state;
	make(a);
	make(b);
	assert_memory_not_equal(a, b, 24);
	assert_memory_not_equal(a + 24, b + 24, sizeof(SECRET));
}

/* SEAL-1: one flipped bit anywhere in a sealed column, and it does not open. */
static void
flipped_bit_breaks(void **state)
{
	uint8_t sealed[sizeof(SECRET) + SEAL_OVERHEAD];
	size_t i;

	(void)state;
	make(sealed);
	for (i = 0; i < 8 * sizeof(sealed); i++) {
		sealed[i / 8] ^= (uint8_t)(1 << i % 8);
		broken(key, &PLACE, sealed, sizeof(sealed));
		sealed[i / 8] ^= (uint8_t)(1 << i % 8);
	}
}

static void
cut_value_breaks(void **state)
{
	uint8_t sealed[sizeof(SECRET) + SEAL_OVERHEAD];
	size_t i;

	(void)state;
	make(sealed);
	for (i = 0; i < sizeof(sealed); i++)
		broken(key, &PLACE, sealed, i);
}

static void
another_machine_cannot(void **state)
{
	uint8_t sealed[sizeof(SECRET) + SEAL_OVERHEAD];

	(void)state;
	make(sealed);
	broken(other, &PLACE, sealed, sizeof(sealed));
}

/* A sealed value that another tool moves to another place, or keeps from before, is of no use. */
static void
moved_value_breaks(void **state)
{
	static const struct seal_place MOVED[] = {
	    {"logins", "access", "provider:example", 3, KEY_COLUMN},
	    {"login", "refresh", "provider:example", 3, KEY_COLUMN},
	    {"login", "access", "provider:other", 3, KEY_COLUMN},
	    {"login", "access", "provider:example", 2, KEY_COLUMN},
	    {"login", "access", "provider:example", -3, KEY_COLUMN},
	    {"loginaccess", "a", "provider:example", 3, KEY_COLUMN}, /* shifted boundaries */
	    {"logi", "naccess", "provider:example", 3, KEY_COLUMN},
	    {"login", "accessp", "rovider:example", 3, KEY_COLUMN},
	    {"login", "access", "provider:example", 3, KEY_WIRE},
	};
	uint8_t sealed[sizeof(SECRET) + SEAL_OVERHEAD];
	size_t i;

	(void)state;
	make(sealed);
	for (i = 0; i < sizeof(MOVED) / sizeof(MOVED[0]); i++)
		broken(key, &MOVED[i], sealed, sizeof(sealed));
}

/* The format as written in the header, built here by hand: what is sealed today opens later. */
static void
format_is_for_ever(void **state)
{
	static const char AD[] = "\0\0\0\5login\0\0\0\6access\0\0\0\20provider:example"
				 "\0\0\0\0\0\0\0\3";
	uint8_t sealed[5 + SEAL_OVERHEAD] = "a nonce of 24 bytes.....";
	char out[5];

	(void)state;
	crypto_aead_xchacha20poly1305_ietf_encrypt(sealed + 24, NULL, (const uint8_t *)"hello", 5,
	    (const uint8_t *)AD, sizeof(AD) - 1, NULL, sealed, key_sealer(key, KEY_COLUMN));
	assert_int_equal(seal_open(key, &PLACE, sealed, sizeof(sealed), out, 5, NULL), 0);
	assert_memory_equal(out, "hello", 5);
}

static void
bounds_are_kept(void **state)
{
	char name[SEAL_NAME_MAX + 2], row[SEAL_ROW_MAX + 2];
	struct seal_place place = PLACE;
	uint8_t sealed[5 + SEAL_OVERHEAD];
	struct refusal r = {0};
	char out[5];

	(void)state;
	memset(name, 'n', sizeof(name));
	memset(row, 'r', sizeof(row));
	name[SEAL_NAME_MAX] = row[SEAL_ROW_MAX] = '\0';
	place.table = place.column = name;
	place.row = row;
	assert_int_equal(seal_make(key, &place, "hello", 5, sealed, sizeof(sealed), &r), 0);
	assert_int_equal(seal_open(key, &place, sealed, sizeof(sealed), out, 5, &r), 0);
	assert_int_equal(seal_open(key, &place, sealed, sizeof(sealed), out, 4, &r), -1);
	assert_string_equal(r.code, "seal.size");
	assert_int_equal(seal_make(key, &place, "hello", 5, sealed, sizeof(sealed) - 1, &r), -1);
	assert_string_equal(r.code, "seal.size");
	assert_int_equal(seal_size(SIZE_MAX), 0);
	assert_int_equal(seal_plain_size(SEAL_OVERHEAD - 1), 0);

	row[SEAL_ROW_MAX] = 'r';
	row[SEAL_ROW_MAX + 1] = '\0';
	assert_int_equal(seal_make(key, &place, "hello", 5, sealed, sizeof(sealed), &r), -1);
	assert_string_equal(r.code, "seal.place");
	place.row = "";
	assert_int_equal(seal_open(key, &place, sealed, sizeof(sealed), out, 5, &r), -1);
	assert_string_equal(r.code, "seal.place");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(opens_again),
	    cmocka_unit_test(empty_value_is_sealed_too),
	    cmocka_unit_test(nonces_differ),
	    cmocka_unit_test(flipped_bit_breaks),
	    cmocka_unit_test(cut_value_breaks),
	    cmocka_unit_test(another_machine_cannot),
	    cmocka_unit_test(moved_value_breaks),
	    cmocka_unit_test(format_is_for_ever),
	    cmocka_unit_test(bounds_are_kept),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
