/* seal.h: sealed columns, which open only on this machine and only in the place they were made for.
 */
#ifndef ENGINE_CRYPTO_SEAL_H
#define ENGINE_CRYPTO_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "engine/crypto/key.h"
#include "engine/refusal.h"

/* Nonce (24 bytes, in front) and tag (16 bytes, at the end). */
#define SEAL_OVERHEAD 40
#define SEAL_NAME_MAX 64
#define SEAL_ROW_MAX  1024

/*
 * Where a sealed value lives.  A value moved to another table, column or row, or kept from an
 * older generation of its row, does not open.  ${row} is the primary key as text, as CAST(key AS
 * TEXT) gives it; ${generation} grows with each new secret of the row (0 where rows have none).
 */
struct seal_place {
	const char *table;  /* 1 to SEAL_NAME_MAX bytes */
	const char *column; /* 1 to SEAL_NAME_MAX bytes */
	const char *row;    /* 1 to SEAL_ROW_MAX bytes */
	int64_t generation;
	enum key_sealer sealer; /* KEY_COLUMN, where nothing is said */
};

/**
 * seal_size(plain_len):
 * Return the size of ${plain_len} bytes once sealed, or 0 if that is too much to seal.
 */
size_t seal_size(size_t plain_len);

/**
 * seal_plain_size(sealed_len):
 * Return the size of the value inside ${sealed_len} sealed bytes; 0 for an empty value, and also
 * for bytes too few to be sealed (which seal_open refuses).
 */
size_t seal_plain_size(size_t sealed_len);

/**
 * seal_make(key, place, plain, len, out, out_size, r):
 * Seal ${plain}[0..${len}) for ${place} with the key of its sealer: XChaCha20-Poly1305 with a
 * random nonce.  Store seal_size(${len}) bytes in ${out}, which has room for ${out_size} and does
 * not overlap ${plain}.  The plain text stays the caller's to wipe.  Return 0; or -1 with ${r} set
 * to seal.place (a name of ${place} is empty or too long, or ${key} lacks the key of its sealer) or
 * seal.size.
 */
int seal_make(const struct key *key, const struct seal_place *place, const void *plain, size_t len,
    uint8_t *out, size_t out_size, struct refusal *r) __attribute__((warn_unused_result));

/**
 * seal_open(key, place, sealed, len, out, out_size, r):
 * Open ${sealed}[0..${len}), which must have been made by seal_make with the same key and place.
 * Store seal_plain_size(${len}) bytes in ${out}, which has room for ${out_size} and does not
 * overlap
 * ${sealed}; the caller wipes them.  Return 0; or -1 with ${r} set to seal.broken (another key,
 * another place, or changed bytes: which one cannot be told), seal.place or seal.size, and nothing
 * of the value in ${out}.
 */
int seal_open(const struct key *key, const struct seal_place *place, const uint8_t *sealed,
    size_t len, void *out, size_t out_size, struct refusal *r) __attribute__((warn_unused_result));

#endif
