/* sha256.c: one digest, two libraries. */

/* The functions of EVP take twice as long as these on texts of a block or two. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <sodium.h>

#include "engine/crypto/sha256.h"
#include "engine/library.h"

_Static_assert(SHA256_SIZE == crypto_hash_sha256_BYTES, "SHA-256");

static struct {
	typeof(&SHA256_Init) init;
	typeof(&SHA256_Update) update;
	typeof(&SHA256_Final) final;
} openssl;

static const struct library_symbol symbols[] = {
    {"SHA256_Init", 0 * sizeof(void *)},
    {"SHA256_Update", 1 * sizeof(void *)},
    {"SHA256_Final", 2 * sizeof(void *)},
    {NULL, 0},
};

_Static_assert(sizeof(openssl) == 3 * sizeof(void *), "a table of pointers");

static bool hurried;

static void
load(void)
{
	__atomic_store_n(&hurried,
	    library_load("libcrypto.so.3", "libssl3", symbols, &openssl, NULL) == 0,
	    __ATOMIC_RELEASE);
}

void
sha256_hurry(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
}

void
sha256_pair(
    const void *a, size_t a_len, const void *b, size_t b_len, unsigned char out[SHA256_SIZE])
{
	crypto_hash_sha256_state state;
	SHA256_CTX sum;

	if (__atomic_load_n(&hurried, __ATOMIC_ACQUIRE)) {
		openssl.init(&sum);
		openssl.update(&sum, a, a_len);
		openssl.update(&sum, b, b_len);
		openssl.final(out, &sum);
		return;
	}
	crypto_hash_sha256_init(&state);
	crypto_hash_sha256_update(&state, a, a_len);
	crypto_hash_sha256_update(&state, b, b_len);
	crypto_hash_sha256_final(&state, out);
}
