/*
 * fuzz_sshsig.c: no bytes from outside may crash the parsers of SSH keys and signatures, and none
 * may pass as a signature of a key whose secret nobody has.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined ... tests/fuzz/fuzz_sshsig.c
 * engine/crypto/sshsig.c
 *
 * The first byte chooses: 0 a key line, 1 an armored signature, 2 a signature blob, 3 a blob after
 * the right public key of the plain kind, 4 of the token kind.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "engine/crypto/sshsig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_MAX 4096

/* A point that comes from a hash: its secret is not known to anybody. */
static void
orphan(struct sshsig_key *key, enum sshsig_type type)
{
	uint8_t seed[crypto_core_ed25519_UNIFORMBYTES];

	memset(key, 0, sizeof(*key));
	crypto_hash_sha256(seed, (const uint8_t *)"bastion fuzz", 12);
	crypto_core_ed25519_from_uniform(key->point, seed);
	key->type = type;
	if (type == SSHSIG_SK_ED25519)
		snprintf(key->application, sizeof(key->application), "ssh:");
}

static size_t
put_string(uint8_t *out, const void *bytes, size_t len)
{
	out[0] = out[1] = out[2] = 0;
	out[3] = (uint8_t)len;
	memcpy(out + 4, bytes, len);
	return 4 + len;
}

/* Write the start of a signature of ${key}, up to its namespace. */
static size_t
put_head(uint8_t *out, const struct sshsig_key *key)
{
	const char *type = sshsig_type_name(key->type);
	size_t n = 14;

	memcpy(out, "SSHSIG\0\0\0\1\0\0\0", 13);
	n += put_string(out + n, type, strlen(type));
	n += put_string(out + n, key->point, sizeof(key->point));
	if (key->type == SSHSIG_SK_ED25519)
		n += put_string(out + n, key->application, strlen(key->application));
	out[13] = (uint8_t)(n - 14);
	return n;
}

static void
try_armored(const struct sshsig_key *key, const char *text)
{
	struct sshsig_proof proof;
	struct refusal r = {0};

	if (sshsig_verify(key, "message", 7, text, &proof, &r) == 0)
		abort();
	if (strncmp(r.code, "sshsig.", 7) != 0 || r.why[0] == '\0')
		abort();
}

static void
try_blob(const struct sshsig_key *key, const uint8_t *blob, size_t len)
{
	char base64[2 * FUZZ_MAX], text[2 * FUZZ_MAX + 128];

	sodium_bin2base64(base64, sizeof(base64), blob, len, sodium_base64_VARIANT_ORIGINAL);
	snprintf(text, sizeof(text),
	    "-----BEGIN SSH SIGNATURE-----\n%s\n-----END SSH SIGNATURE-----\n", base64);
	try_armored(key, text);
}

/* A key that is read must hold its own promises. */
static void
try_line(const char *line)
{
	struct sshsig_key key;
	struct refusal r = {0};

	if (sshsig_key_parse(line, &key, &r) == -1) {
		if (strncmp(r.code, "sshkey.", 7) != 0)
			abort();
		return;
	}
	if (strlen(key.fingerprint) != SSHSIG_FINGERPRINT_SIZE - 1 ||
	    strlen(key.comment) > SSHSIG_COMMENT_MAX ||
	    (key.type == SSHSIG_SK_ED25519) != (key.application[0] != '\0'))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t blob[FUZZ_MAX + 128];
	char text[FUZZ_MAX + 1];
	struct sshsig_key key;
	size_t n = 0;
	int how;

	if (size == 0 || size > FUZZ_MAX || sodium_init() == -1)
		return 0;
	how = data[0] % 5;
	data++;
	size--;
	memcpy(text, data, size);
	text[size] = '\0';
	orphan(&key, how == 4 ? SSHSIG_SK_ED25519 : SSHSIG_ED25519);
	if (how == 0)
		try_line(text);
	if (how == 1)
		try_armored(&key, text);
	if (how < 2)
		return 0;
	if (how > 2)
		n = put_head(blob, &key);
	memcpy(blob + n, data, size);
	try_blob(&key, blob, n + size);
	return 0;
}
