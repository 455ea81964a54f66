/* key.c: the machine's key. */
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/key.h"

struct key {
	unsigned char master[32];
};

int
key_create(const char *path, struct refusal *r)
{
	unsigned char m[32];
	int fd;

	randombytes_buf(m, 32);
	if ((fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) == -1)
		return refusal_errno(r, "key.open", path);
	if (write(fd, m, 32) != 32 || fsync(fd) != 0) {
		close(fd);
		return refusal_errno(r, "key.open", path);
	}
	return close(fd);
}

struct key *
key_load(const char *path, struct refusal *r)
{
	struct key *k = sodium_malloc(sizeof(*k));
	int fd;

	if ((fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)) == -1 ||
	    read(fd, k->master, 32) != 32) {
		refusal_errno(r, "key.missing", path);
		sodium_free(k);
		return NULL;
	}
	close(fd);
	return k;
}

void
key_free(struct key *key)
{
	sodium_free(key);
}

static void
pair(const struct key *key, enum key_use use, unsigned char *pk, unsigned char *sk)
{
	unsigned char seed[32];

	crypto_kdf_derive_from_key(seed, 32, use, "bastion1", key->master);
	crypto_sign_seed_keypair(pk, sk, seed);
}

int
key_public(const struct key *key, enum key_use use, unsigned char pk[32])
{
	unsigned char sk[64];

	pair(key, use, pk, sk);
	return 0;
}

static unsigned char *
framed(const char *domain, const void *msg, size_t len, size_t *n)
{
	unsigned char *b;

	*n = strlen(domain) + 1 + len;
	b = malloc(*n);
	memcpy(b, domain, strlen(domain));
	b[strlen(domain)] = '\n';
	memcpy(b + strlen(domain) + 1, msg, len);
	return b;
}

int
key_sign(const struct key *key, enum key_use use, const char *domain, const void *msg, size_t len,
	 unsigned char sig[64])
{
	unsigned char pk[32], sk[64], *b;
	size_t n;

	pair(key, use, pk, sk);
	b = framed(domain, msg, len, &n);
	crypto_sign_detached(sig, NULL, b, n, sk);
	free(b);
	return 0;
}

int
key_verify(const unsigned char pk[32], const char *domain, const void *msg, size_t len,
	   const unsigned char sig[64])
{
	unsigned char *b;
	size_t n;
	int rc;

	b = framed(domain, msg, len, &n);
	rc = crypto_sign_verify_detached(sig, b, n, pk);
	free(b);
	return rc;
}
