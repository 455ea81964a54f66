/* sha256.c: one digest, two libraries. */

/* The functions of EVP take twice as long as these on texts of a block or two. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <endian.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <sodium.h>

#include "engine/crypto/sha256.h"
#include "engine/library.h"

#define SHORT 1024 /* bytes of a text, with its padding, that is put together first */

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

/* Whole blocks with their padding, so that nothing is buffered between. */
static void
blocks_pair(
    const void *a, size_t a_len, const void *b, size_t b_len, unsigned char out[SHA256_SIZE])
{
	unsigned char blocks[SHORT];
	size_t len = a_len + b_len, padded = (len + 9 + 63) / 64 * 64;
	uint64_t bits = htobe64((uint64_t)len * 8);
	SHA256_CTX sum;
	uint32_t word;
	int i;

	if (a_len > 0)
		memcpy(blocks, a, a_len);
	if (b_len > 0)
		memcpy(blocks + a_len, b, b_len);
	blocks[len] = 0x80;
	memset(blocks + len + 1, 0, padded - 8 - len - 1);
	memcpy(blocks + padded - 8, &bits, 8);
	openssl.init(&sum);
	openssl.update(&sum, blocks, padded);
	for (i = 0; i < 8; i++) {
		word = htobe32(sum.h[i]);
		memcpy(out + 4 * i, &word, 4);
	}
}

void
sha256_pair(
    const void *a, size_t a_len, const void *b, size_t b_len, unsigned char out[SHA256_SIZE])
{
	crypto_hash_sha256_state state;
	SHA256_CTX sum;

	if (__atomic_load_n(&hurried, __ATOMIC_ACQUIRE)) {
		if (a_len <= SHORT && b_len <= SHORT && a_len + b_len + 9 <= SHORT) {
			blocks_pair(a, a_len, b, b_len, out);
			return;
		}
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
