/* seal.c: seal and open column values. */
#include <string.h>

#include <sodium.h>

#include "engine/crypto/seal.h"

#define NONCE_SIZE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_SIZE   crypto_aead_xchacha20poly1305_ietf_ABYTES

_Static_assert(SEAL_OVERHEAD == NONCE_SIZE + TAG_SIZE, "the format of a sealed column");

/*
 * The associated data: length (4 bytes, big endian) and bytes of table, column and row, then the
 * generation (8 bytes, big endian).  With the lengths in front no two places read the same.
 */
struct label {
	uint8_t bytes[3 * 4 + 2 * SEAL_NAME_MAX + SEAL_ROW_MAX + 8];
	size_t len;
};

static void
put_be(struct label *l, uint64_t v, size_t size)
{
	while (size-- > 0)
		l->bytes[l->len++] = (uint8_t)(v >> (8 * size));
}

static int
put_text(struct label *l, const char *text, size_t max)
{
	size_t len = strnlen(text, max + 1);

	if (len == 0 || len > max)
		return -1;
	put_be(l, len, 4);
	memcpy(l->bytes + l->len, text, len);
	l->len += len;
	return 0;
}

static int
label_make(struct label *l, const struct seal_place *place, struct refusal *r)
{
	l->len = 0;
	if (put_text(l, place->table, SEAL_NAME_MAX) == -1 ||
	    put_text(l, place->column, SEAL_NAME_MAX) == -1 ||
	    put_text(l, place->row, SEAL_ROW_MAX) == -1)
		return refusal_set(r, "seal.place", "a sealed value needs a table, column and row");
	put_be(l, (uint64_t)place->generation, 8);
	return 0;
}

static const uint8_t *
sealer_of(const struct key *key, const struct seal_place *place, struct refusal *r)
{
	const uint8_t *with = key_sealer(key, place->sealer);

	if (with == NULL)
		refusal_set(r, "seal.place", "this process does not hold the key of this place");
	return with;
}

size_t
seal_size(size_t plain_len)
{
	if (plain_len > SIZE_MAX - SEAL_OVERHEAD)
		return 0;
	return plain_len + SEAL_OVERHEAD;
}

size_t
seal_plain_size(size_t sealed_len)
{
	return sealed_len < SEAL_OVERHEAD ? 0 : sealed_len - SEAL_OVERHEAD;
}

int
seal_make(const struct key *key, const struct seal_place *place, const void *plain, size_t len,
    uint8_t *out, size_t out_size, struct refusal *r)
{
	struct label l;
	size_t size = seal_size(len);
	const uint8_t *with;

	if (size == 0 || size > out_size)
		return refusal_set(r, "seal.size", "no room for the sealed value");
	if ((with = sealer_of(key, place, r)) == NULL || label_make(&l, place, r) == -1)
		return -1;
	randombytes_buf(out, NONCE_SIZE);
	crypto_aead_xchacha20poly1305_ietf_encrypt(
	    out + NONCE_SIZE, NULL, plain, len, l.bytes, l.len, NULL, out, with);
	return 0;
}

int
seal_open(const struct key *key, const struct seal_place *place, const uint8_t *sealed, size_t len,
    void *out, size_t out_size, struct refusal *r)
{
	const uint8_t *with;
	struct label l;

	if (len < SEAL_OVERHEAD)
		return refusal_set(r, "seal.broken", "the sealed value is too short");
	if (seal_plain_size(len) > out_size)
		return refusal_set(r, "seal.size", "no room for the opened value");
	if ((with = sealer_of(key, place, r)) == NULL || label_make(&l, place, r) == -1)
		return -1;
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, sealed + NONCE_SIZE,
		len - NONCE_SIZE, l.bytes, l.len, sealed, with) != 0)
		return refusal_set(r, "seal.broken",
		    "the sealed value was not made by this machine's key for this place");
	return 0;
}
