/* test_key.c: the key file is made once, read strictly, and derived as written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sodium.h>

#include "engine/crypto/key.h"
#include "engine/crypto/seal.h"

static char dir[64];
static char path[128];

static int
setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/bastion-key-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/bastion.key", dir);
	return 0;
}

/* Empty the scratch directory, and count what was in it. */
static int
sweep(void)
{
	struct dirent *e;
	DIR *d = opendir(dir);
	int n = 0;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(d), e->d_name, 0) == -1)
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
		n++;
	}
	closedir(d);
	return n;
}

static int
teardown(void **state)
{
	(void)state;
	sweep();
	return rmdir(dir);
}

static void
put_file(const void *bytes, size_t len, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_not_equal(fd, -1);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void
put_counting(size_t len, mode_t mode)
{
	uint8_t bytes[64];
	size_t i;

	for (i = 0; i < len; i++)
		bytes[i] = (uint8_t)i;
	put_file(bytes, len, mode);
}

static void
load_refuses(const char *code)
{
	struct refusal r = {0};

	assert_null(key_load(path, &r));
	assert_string_equal(r.code, code);
	assert_true(r.why[0] != '\0');
}

static void
load_ok(void)
{
	struct refusal r = {0};
	struct key *key = key_load(path, &r);

	assert_string_equal(r.code, "");
	assert_non_null(key);
	key_free(key);
}

static void
same_hex(const uint8_t *bytes, const char *hex)
{
	char text[65];

	sodium_bin2hex(text, sizeof(text), bytes, 32);
	assert_string_equal(text, hex);
}

/* A new key is 32 bytes, 0600 under any umask, alone in its directory, and loads. */
static void
create_makes_a_key(void **state)
{
	struct refusal r = {0};
	struct stat st;
	mode_t old = umask(0777);

	(void)state;
	assert_int_equal(key_create(path, &r), 0);
	umask(old);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 32);
	assert_int_equal(st.st_nlink, 1);
	load_ok();
	assert_int_equal(sweep(), 1);
}

/* A key is never overwritten, whatever holds its name, and no other file is left behind. */
static void
create_never_overwrites(void **state)
{
	struct refusal r = {0};
	char back[8];
	int fd;

	(void)state;
	put_file("old", 3, 0600);
	assert_int_equal(key_create(path, &r), -1);
	assert_string_equal(r.code, "key.exists");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, back, sizeof(back)), 3);
	close(fd);
	assert_memory_equal(back, "old", 3);
	assert_int_equal(sweep(), 1);

	assert_int_equal(symlink("nowhere", path), 0);
	assert_int_equal(key_create(path, &r), -1);
	assert_string_equal(r.code, "key.exists");
	assert_int_equal(sweep(), 1);
}

/* Of eight processes that make the key at once, one does. */
static void
create_has_one_winner(void **state)
{
	struct refusal r = {0};
	int i, status, won = 0;
	pid_t pid;

	(void)state;
	for (i = 0; i < 8; i++) {
		pid = fork();
		assert_int_not_equal(pid, -1);
		if (pid == 0) {
			if (key_create(path, &r) == 0)
				_exit(0);
			_exit(strcmp(r.code, "key.exists") == 0 ? 1 : 2);
		}
	}
	for (i = 0; i < 8; i++) {
		assert_int_not_equal(wait(&status), -1);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
		won += WEXITSTATUS(status) == 0;
	}
	assert_int_equal(won, 1);
	load_ok();
	assert_int_equal(sweep(), 1);
}

static void
create_without_directory(void **state)
{
	struct refusal r = {0};

	(void)state;
	assert_int_equal(key_create("/nonexistent/bastion.key", &r), -1);
	assert_string_equal(r.code, "key.create");
}

/* Losing the key is its own error, and loading makes no new one. */
static void
missing_is_its_own(void **state)
{
	(void)state;
	load_refuses("key.missing");
	assert_int_equal(access(path, F_OK), -1);
}

static void
wrong_size_is_damage(void **state)
{
	static const size_t WRONG[] = {0, 1, 31, 33, 64};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++) {
		put_counting(WRONG[i], 0600);
		load_refuses("key.damaged");
	}
	put_counting(32, 0600);
	load_ok();
}

static void
zeros_are_damage(void **state)
{
	static const uint8_t zeros[32];

	(void)state;
	put_file(zeros, sizeof(zeros), 0600);
	load_refuses("key.damaged");
}

/* Every mode bit outside 0600 refuses, and every mode inside it that can be read loads. */
static void
wider_modes_are_open(void **state)
{
	mode_t bit;

	(void)state;
	for (bit = 1; bit <= 04000; bit <<= 1) {
		if ((bit & 0600) != 0)
			continue;
		put_counting(32, 0600);
		assert_int_equal(chmod(path, 0600 | bit), 0);
		load_refuses("key.open");
		unlink(path);
	}
	put_counting(32, 0400);
	load_ok();
}

static void
other_owner_is_open(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("only root can give a file away\n");
		skip();
	}
	put_counting(32, 0600);
	assert_int_equal(chown(path, 12345, 0), 0);
	load_refuses("key.open");
}

static void
second_name_is_open(void **state)
{
	char other[140];

	(void)state;
	put_counting(32, 0600);
	snprintf(other, sizeof(other), "%s.copy", path);
	assert_int_equal(link(path, other), 0);
	load_refuses("key.open");
	assert_int_equal(unlink(other), 0);
	load_ok();
}

static void
symbolic_link_is_open(void **state)
{
	char real[140];

	(void)state;
	put_counting(32, 0600);
	snprintf(real, sizeof(real), "%s.real", path);
	assert_int_equal(rename(path, real), 0);
	assert_int_equal(symlink(real, path), 0);
	load_refuses("key.open");
}

/* A FIFO neither loads nor holds the caller; a directory does not load. */
static void
other_kinds_are_damage(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	load_refuses("key.damaged");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0600), 0);
	load_refuses("key.damaged");
}

/*
 * The derived keys of the master 00 01 .. 1f, worked out by another implementation of BLAKE2b
 * and of Ed25519.  If this fails, existing machines lose their names and all that they sealed.
 */
static void
derivation_is_for_ever(void **state)
{
	uint8_t pk[KEY_PUBLIC_SIZE];
	struct refusal r;
	struct key *key;

	(void)state;
	put_counting(32, 0600);
	assert_non_null(key = key_load(path, &r));
	key_public(key, KEY_IDENTITY, pk);
	same_hex(pk, "e196fea9452be023804e40654894fd9d88f0aecdac541ec74a891d7aea5d3954");
	key_public(key, KEY_GRANT, pk);
	same_hex(pk, "84be750939dd3fa9b26fd2bcf0e5f86ec92fbba48781be8b06caa7996adb7b86");
	same_hex(key_sealer(key, KEY_COLUMN),
	    "3faa20a863f864e4b429e9c33db43e6f7d8412d03c3c9d20055808997f2ce1b2");
	same_hex(key_sealer(key, KEY_WIRE),
	    "98c75a41cfcccde1d0fa741303682e4685484124495da7cb2b933aa82cbf8e32");
	key_free(key);
}

/* Whoever serves the network opens the keys of certificates: it signs nothing, and opens nothing
 * else. */
static void
the_wire_key_is_nothing_else(void **state)
{
	static const struct seal_place place = {"factor", "secret", "1", 0, KEY_COLUMN};
	uint8_t sig[KEY_SIGN_SIZE], sealed[8 + SEAL_OVERHEAD], plain[8];
	struct key *key, *wire;
	struct refusal r;

	(void)state;
	put_counting(32, 0600);
	assert_non_null(key = key_load(path, &r));
	assert_non_null(wire = key_load_wire(path, &r));
	assert_memory_equal(key_sealer(wire, KEY_WIRE), key_sealer(key, KEY_WIRE), KEY_COLUMN_SIZE);
	assert_null(key_sealer(wire, KEY_COLUMN));
	assert_int_equal(key_sign(wire, KEY_IDENTITY, "d", "m", 1, sig), -1);
	assert_int_equal(key_sign(wire, KEY_GRANT, "d", "m", 1, sig), -1);
	assert_int_equal(seal_make(key, &place, "secret!", 8, sealed, sizeof(sealed), &r), 0);
	assert_int_equal(
	    seal_open(wire, &place, sealed, sizeof(sealed), plain, sizeof(plain), &r), -1);
	assert_string_equal(r.code, "seal.place");
	assert_int_equal(seal_make(wire, &place, "secret!", 8, sealed, sizeof(sealed), &r), -1);
	key_free(wire);
	key_free(key);
}

/* SEAL-1: with one bit of a sealed record flipped, or one of its seal, the seal does not hold. */
static void
flipped_bit_breaks_signature(void **state)
{
	uint8_t msg[] = "grant 7: op disk.free, max 2 a day", sig[KEY_SIGN_SIZE];
	uint8_t pk[KEY_PUBLIC_SIZE];
	struct key *key;
	size_t i;

	(void)state;
	put_counting(32, 0600);
	assert_non_null(key = key_load(path, NULL));
	key_public(key, KEY_GRANT, pk);
	assert_int_equal(key_sign(key, KEY_GRANT, "grant", msg, sizeof(msg), sig), 0);
	assert_int_equal(key_verify(pk, "grant", msg, sizeof(msg), sig), 0);
	for (i = 0; i < 8 * sizeof(msg); i++) {
		msg[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(key_verify(pk, "grant", msg, sizeof(msg), sig), -1);
		msg[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	for (i = 0; i < 8 * sizeof(sig); i++) {
		sig[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(key_verify(pk, "grant", msg, sizeof(msg), sig), -1);
		sig[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	for (i = 0; i < sizeof(msg); i++)
		assert_int_equal(key_verify(pk, "grant", msg, i, sig), -1);
	key_free(key);
}

/* A signature serves no other domain, no other key of the machine, and no shifted boundary. */
static void
domains_are_apart(void **state)
{
	uint8_t sig[KEY_SIGN_SIZE], pk[KEY_PUBLIC_SIZE];
	struct key *key;

	(void)state;
	put_counting(32, 0600);
	assert_non_null(key = key_load(path, NULL));
	key_public(key, KEY_IDENTITY, pk);
	assert_int_equal(key_sign(key, KEY_IDENTITY, "audit", "a\nb", 3, sig), 0);
	assert_int_equal(
	    crypto_sign_verify_detached(sig, (const uint8_t *)"audit\na\nb", 9, pk), 0);
	assert_int_equal(key_verify(pk, "lane", "a\nb", 3, sig), -1);
	assert_int_equal(key_verify(pk, "audit\na", "b", 1, sig), -1);
	assert_int_equal(key_verify(pk, "audi", "t\na\nb", 5, sig), -1);
	assert_int_equal(key_verify(pk, "audit", "", 0, sig), -1);
	key_public(key, KEY_GRANT, pk);
	assert_int_equal(key_verify(pk, "audit", "a\nb", 3, sig), -1);
	key_free(key);
}

static void
bad_domains_sign_nothing(void **state)
{
	static const char *const BAD[] = {"", "a\nb", "a\tb", "caf\xc3\xa9", "\x7f",
	    "0123456789012345678901234567890123456789012345678901234567890123x"};
	uint8_t sig[KEY_SIGN_SIZE];
	struct key *key;
	size_t i;

	(void)state;
	put_counting(32, 0600);
	assert_non_null(key = key_load(path, NULL));
	for (i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_int_equal(key_sign(key, KEY_GRANT, BAD[i], "m", 1, sig), -1);
	assert_int_equal(key_sign(key, KEY_GRANT, BAD[5] + 1, "m", 1, sig), 0);
	assert_int_equal(key_sign(key, KEY_GRANT, "grant", NULL, 0, sig), 0);
	key_free(key);
	key_free(NULL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(create_makes_a_key),
	    CASE(create_never_overwrites),
	    CASE(create_has_one_winner),
	    CASE(create_without_directory),
	    CASE(missing_is_its_own),
	    CASE(wrong_size_is_damage),
	    CASE(zeros_are_damage),
	    CASE(wider_modes_are_open),
	    CASE(other_owner_is_open),
	    CASE(second_name_is_open),
	    CASE(symbolic_link_is_open),
	    CASE(other_kinds_are_damage),
	    CASE(derivation_is_for_ever),
	    CASE(the_wire_key_is_nothing_else),
	    CASE(flipped_bit_breaks_signature),
	    CASE(domains_are_apart),
	    CASE(bad_domains_sign_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
