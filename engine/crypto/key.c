/* key.c: make, read and use the machine's master key. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "engine/crypto/key.h"

#define MASTER_SIZE crypto_kdf_KEYBYTES
#define PAIRS       2

_Static_assert(MASTER_SIZE == 32, "the file format");
_Static_assert(KEY_PUBLIC_SIZE == crypto_sign_PUBLICKEYBYTES, "Ed25519");
_Static_assert(KEY_SIGN_SIZE == crypto_sign_BYTES, "Ed25519");
_Static_assert(KEY_COLUMN_SIZE == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "XChaCha20");

/* Written for ever: another context or id is another key, and everything sealed is lost. */
static const char CONTEXT[crypto_kdf_CONTEXTBYTES + 1] = "bastion1";

enum {
	ID_IDENTITY = 1,
	ID_GRANT = 2,
	ID_COLUMN = 3,
	ID_WIRE = 4,
	ID_TOKEN = 5,
	ID_REMOTE = 6,
};

struct pair {
	uint8_t public[crypto_sign_PUBLICKEYBYTES];
	uint8_t secret[crypto_sign_SECRETKEYBYTES];
};

struct key {
	uint8_t master[MASTER_SIZE];        /* wiped once the others are derived */
	struct pair pair[PAIRS];            /* by enum key_which */
	uint8_t column[3][KEY_COLUMN_SIZE]; /* by enum key_sealer */
	uint8_t remote[crypto_generichash_KEYBYTES];
	/* KEY_COLUMN: holds all; else the key of that sealer (with KEY_WIRE, remote too) and
	 * nothing else. */
	enum key_sealer only;
};

/* Fill ${fd} with a new key, durably. */
static int
write_master(int fd)
{
	uint8_t master[MASTER_SIZE];
	ssize_t n;

	randombytes_buf(master, sizeof(master));
	do
		n = write(fd, master, sizeof(master));
	while (n == -1 && errno == EINTR);
	sodium_memzero(master, sizeof(master));
	if (n != (ssize_t)sizeof(master)) {
		if (n >= 0)
			errno = ENOSPC;
		return -1;
	}
	/* A umask may have taken more than it should. */
	if (fchmod(fd, 0600) == -1)
		return -1;
	return fsync(fd);
}

static int
sync_directory(const char *path)
{
	char copy[PATH_MAX];
	int fd, saved;

	/* dirname writes into its argument; the caller has checked that ${path} fits. */
	snprintf(copy, sizeof(copy), "%s", path);
	if ((fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		return -1;
	if (fsync(fd) == -1) {
		saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	close(fd);
	return 0;
}

int
key_create(const char *path, struct refusal *r)
{
	char temp[PATH_MAX];
	int fd, n;

	if (sodium_init() == -1)
		return refusal_set(r, "key.create", "the system gives no random numbers");
	n = snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
	if (n < 0 || (size_t)n >= sizeof(temp))
		return refusal_set(r, "key.create", "the path of the key is too long");
	if ((fd = mkostemp(temp, O_CLOEXEC)) == -1)
		return refusal_errno(r, "key.create", "cannot make the key file");
	if (write_master(fd) == -1) {
		refusal_errno(r, "key.create", "cannot write the key file");
		goto remove;
	}
	/* The name is taken in one step: a crash leaves no half key under it, and no other is lost.
	 */
	if (renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) == -1) {
		if (errno == EEXIST)
			refusal_set(r, "key.exists", "this machine already has a key");
		else
			refusal_errno(r, "key.create", "cannot name the key file");
		goto remove;
	}
	close(fd);
	if (sync_directory(path) == -1)
		return refusal_errno(r, "key.create", "cannot sync the directory of the key");
	return 0;

remove:
	close(fd);
	unlink(temp);
	return -1;
}

/* Refuse a file that is not ours alone, or not a key. */
static int
check_file(int fd, struct refusal *r)
{
	struct stat st;

	if (fstat(fd, &st) == -1)
		return refusal_errno(r, "key.unreadable", "cannot look at the key file");
	if (!S_ISREG(st.st_mode))
		return refusal_set(r, "key.damaged", "the key is not a regular file");
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return refusal_set(r, "key.open", "the key file belongs to another user");
	if ((st.st_mode & 07777 & ~0600) != 0)
		return refusal_set(r, "key.open", "the mode of the key file is wider than 0600");
	if (st.st_nlink != 1)
		return refusal_set(r, "key.open", "the key file has more than one name");
	if (st.st_size != MASTER_SIZE)
		return refusal_set(
		    r, "key.damaged", "the key file is not %u bytes long", (unsigned)MASTER_SIZE);
	return 0;
}

static int
read_master(int fd, uint8_t master[MASTER_SIZE], struct refusal *r)
{
	ssize_t n;

	do
		n = read(fd, master, MASTER_SIZE);
	while (n == -1 && errno == EINTR);
	if (n == -1)
		return refusal_errno(r, "key.unreadable", "cannot read the key file");
	if (n != MASTER_SIZE)
		return refusal_set(r, "key.damaged", "the key file ended early");
	/* What a file system leaves of a file that it lost; no generator gives it. */
	if (sodium_is_zero(master, MASTER_SIZE))
		return refusal_set(r, "key.damaged", "the key file holds only zeros");
	return 0;
}

static void
derive_pair(struct pair *pair, uint64_t id, const uint8_t master[MASTER_SIZE])
{
	uint8_t seed[crypto_sign_SEEDBYTES];

	crypto_kdf_derive_from_key(seed, sizeof(seed), id, CONTEXT, master);
	crypto_sign_seed_keypair(pair->public, pair->secret, seed);
	sodium_memzero(seed, sizeof(seed));
}

static void
derive(struct key *key)
{
	static const uint64_t ids[] = {
	    [KEY_COLUMN] = ID_COLUMN, [KEY_WIRE] = ID_WIRE, [KEY_TOKEN] = ID_TOKEN};
	size_t i;

	for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (key->only == KEY_COLUMN || key->only == i)
			crypto_kdf_derive_from_key(
			    key->column[i], KEY_COLUMN_SIZE, ids[i], CONTEXT, key->master);
	if (key->only == KEY_COLUMN || key->only == KEY_WIRE)
		crypto_kdf_derive_from_key(
		    key->remote, sizeof(key->remote), ID_REMOTE, CONTEXT, key->master);
	if (key->only == KEY_COLUMN) {
		derive_pair(&key->pair[KEY_IDENTITY], ID_IDENTITY, key->master);
		derive_pair(&key->pair[KEY_GRANT], ID_GRANT, key->master);
	}
	sodium_memzero(key->master, sizeof(key->master));
}

/* Open the file, or say which of the ways of not having it this is. */
static int
open_file(const char *path, struct refusal *r)
{
	int fd;

	/* O_NONBLOCK: a FIFO under this name must not hold us. */
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd != -1)
		return fd;
	if (errno == ENOENT)
		return refusal_set(r, "key.missing", "the key file of this machine is missing");
	if (errno == ELOOP)
		return refusal_set(r, "key.open", "the key file is a symbolic link");
	return refusal_errno(r, "key.unreadable", "cannot open the key file");
}

static struct key *
load(const char *path, enum key_sealer only, struct refusal *r)
{
	struct key *key;
	int fd;

	if (sodium_init() == -1) {
		refusal_set(r, "key.unreadable", "libsodium does not start");
		return NULL;
	}
	if ((fd = open_file(path, r)) == -1)
		return NULL;
	if (check_file(fd, r) == -1) {
		close(fd);
		return NULL;
	}
	if ((key = sodium_malloc(sizeof(*key))) == NULL) {
		refusal_errno(r, "key.unreadable", "no guarded memory for the key");
		close(fd);
		return NULL;
	}
	memset(key, 0, sizeof(*key));
	key->only = only;
	if (read_master(fd, key->master, r) == -1) {
		key_free(key);
		close(fd);
		return NULL;
	}
	close(fd);
	derive(key);
	sodium_mprotect_readonly(key);
	return key;
}

struct key *
key_load(const char *path, struct refusal *r)
{
	return load(path, KEY_COLUMN, r);
}

struct key *
key_load_wire(const char *path, struct refusal *r)
{
	return load(path, KEY_WIRE, r);
}

struct key *
key_load_token(const char *path, struct refusal *r)
{
	return load(path, KEY_TOKEN, r);
}

void
key_free(struct key *key)
{
	/* sodium_free makes the pages writable, wipes them and takes NULL. */
	sodium_free(key);
}

void
key_public(const struct key *key, enum key_which which, uint8_t pk[KEY_PUBLIC_SIZE])
{
	memcpy(pk, key->pair[which].public, KEY_PUBLIC_SIZE);
}

/* A line feed in a domain would let it borrow from the message. */
static int
domain_ok(const char *domain)
{
	size_t i;

	for (i = 0; domain[i] != '\0'; i++) {
		if (i == KEY_DOMAIN_MAX || domain[i] < 0x20 || domain[i] > 0x7e)
			return 0;
	}
	return i > 0;
}

/* Return the bytes that are signed, ${*size} of them, to be released with unframe; or NULL. */
static uint8_t *
frame(const char *domain, const void *msg, size_t len, size_t *size)
{
	size_t head;
	uint8_t *buf;

	if (!domain_ok(domain))
		return NULL;
	head = strlen(domain) + 1;
	if (len > SIZE_MAX - head || (buf = malloc(head + len)) == NULL)
		return NULL;
	memcpy(buf, domain, head - 1);
	buf[head - 1] = '\n';
	if (len > 0)
		memcpy(buf + head, msg, len);
	*size = head + len;
	return buf;
}

/* What is signed may be a secret of the caller. */
static void
unframe(uint8_t *buf, size_t size)
{
	sodium_memzero(buf, size);
	free(buf);
}

int
key_sign(const struct key *key, enum key_which which, const char *domain, const void *msg,
    size_t len, uint8_t sig[KEY_SIGN_SIZE])
{
	size_t size;
	uint8_t *buf;

	if (key->only != KEY_COLUMN || (buf = frame(domain, msg, len, &size)) == NULL)
		return -1;
	crypto_sign_detached(sig, NULL, buf, size, key->pair[which].secret);
	unframe(buf, size);
	return 0;
}

int
key_verify(const uint8_t pk[KEY_PUBLIC_SIZE], const char *domain, const void *msg, size_t len,
    const uint8_t sig[KEY_SIGN_SIZE])
{
	size_t size;
	uint8_t *buf;
	int rc;

	if ((buf = frame(domain, msg, len, &size)) == NULL)
		return -1;
	rc = crypto_sign_verify_detached(sig, buf, size, pk);
	unframe(buf, size);
	return rc == 0 ? 0 : -1;
}

const uint8_t *
key_sealer(const struct key *key, enum key_sealer sealer)
{
	return key->only != KEY_COLUMN && sealer != key->only ? NULL : key->column[sealer];
}

void
key_remote(const struct key *key, const void *secret, size_t len, uint8_t digest[KEY_REMOTE_SIZE])
{
	crypto_generichash(digest, KEY_REMOTE_SIZE, secret, len, key->remote, sizeof(key->remote));
}
