/* sign.c: signatures of requests. */
#include <ctype.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "net/host/sign.h"

static int
sign_text(const struct sign_request *request, char text[SIGN_TEXT_MAX])
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(digest) + 1];
	int n;

	crypto_hash_sha256(digest, request->body, request->len);
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	n = snprintf(text, SIGN_TEXT_MAX, "%s\n%s\n%" PRId64 "\n%s\n%s\n", request->method,
	    request->path, request->time, request->nonce, hex);
	return n > 0 && n < SIGN_TEXT_MAX ? n : -1;
}

int
sign_make(const struct key *key, const struct sign_request *request, char signature[SIGN_BASE64])
{
	unsigned char raw[64];
	char text[SIGN_TEXT_MAX];
	int len;

	if ((len = sign_text(request, text)) == -1 ||
	    key_sign(key, KEY_IDENTITY, SIGN_DOMAIN, text, (size_t)len, raw) != 0)
		return -1;
	sodium_bin2base64(signature, SIGN_BASE64, raw, sizeof(raw), sodium_base64_VARIANT_ORIGINAL);
	return 0;
}

int
sign_check(const unsigned char pk[32], const struct sign_request *request, const char *signature)
{
	unsigned char raw[64];
	char text[SIGN_TEXT_MAX];
	size_t n;
	int len;

	/* libsodium 1.0.18 takes bytes over 0x7f for '/', so one signature would have many
	 * spellings. */
	for (n = 0; signature[n] != '\0'; n++)
		if (!isascii((unsigned char)signature[n]))
			return -1;
	if ((len = sign_text(request, text)) == -1 ||
	    sodium_base642bin(raw, sizeof(raw), signature, strlen(signature), NULL, &n, NULL,
		sodium_base64_VARIANT_ORIGINAL) != 0 ||
	    n != sizeof(raw))
		return -1;
	return key_verify(pk, SIGN_DOMAIN, text, (size_t)len, raw);
}
