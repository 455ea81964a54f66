/* totp.c: RFC 4226 and RFC 6238. */
#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "engine/crypto/base32.h"
#include "engine/crypto/openssl.h"
#include "engine/crypto/totp.h"

#define SHA1_SIZE 20

static int
secret_ok(size_t len)
{
	return len >= TOTP_SECRET_MIN && len <= TOTP_SECRET_MAX;
}

/* The 31 bits that RFC 4226 takes from the MAC.  SHA-1 is the one thing here that sodium lacks. */
static int
truncated_mac(const uint8_t *secret, size_t len, uint64_t counter, uint32_t *bits)
{
	const struct openssl_crypto *crypto = openssl_crypto(NULL);
	uint8_t text[8], mac[EVP_MAX_MD_SIZE], *at;
	unsigned i, size = 0;

	for (i = 0; i < 8; i++)
		text[i] = (uint8_t)(counter >> (56 - 8 * i));
	if (crypto == NULL ||
	    crypto->HMAC(crypto->EVP_sha1(), secret, (int)len, text, sizeof(text), mac, &size) ==
		NULL ||
	    size != SHA1_SIZE)
		return -1;
	at = mac + (mac[SHA1_SIZE - 1] & 15);
	*bits =
	    (uint32_t)(at[0] & 127) << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
	sodium_memzero(mac, sizeof(mac));
	return 0;
}

int
totp_code(const uint8_t *secret, size_t len, uint64_t counter, unsigned digits,
    char code[TOTP_DIGITS_MAX + 1])
{
	uint32_t bits;
	unsigned i;

	if (!secret_ok(len) || digits < TOTP_DIGITS || digits > TOTP_DIGITS_MAX ||
	    truncated_mac(secret, len, counter, &bits) == -1)
		return -1;
	code[digits] = '\0';
	for (i = digits; i-- > 0; bits /= 10)
		code[i] = (char)('0' + bits % 10);
	return 0;
}

static int
six_digits(const char *code)
{
	size_t i;

	for (i = 0; i < TOTP_DIGITS; i++) {
		if (code[i] < '0' || code[i] > '9')
			return 0;
	}
	return code[i] == '\0';
}

/*
 * Try every step of the window, however early one matches.  Store the latest that matches, or -1:
 * with the latest, the same digits cannot match once more in this window.
 */
static int
find_step(const uint8_t *secret, size_t len, int64_t first, int64_t last, const char *code,
    int64_t *found)
{
	char want[TOTP_DIGITS_MAX + 1];
	int64_t step;
	int rc = 0;

	*found = -1;
	for (step = first; step <= last; step++) {
		if ((rc = totp_code(secret, len, (uint64_t)step, TOTP_DIGITS, want)) == -1)
			break;
		if (sodium_memcmp(want, code, TOTP_DIGITS) == 0)
			*found = step;
	}
	sodium_memzero(want, sizeof(want));
	return rc;
}

int
totp_match(const uint8_t *secret, size_t len, int64_t now_ms, const char *code, unsigned window,
    int64_t last_counter, int64_t *counter, struct refusal *r)
{
	int64_t now, first, found;

	if (!six_digits(code))
		return refusal_set(r, "totp.form", "a code is six digits");
	if (now_ms < 0 || window > TOTP_WINDOW_MAX)
		return refusal_set(r, "totp.wrong", "the clock or the window is out of bounds");
	now = now_ms / TOTP_STEP_MS;
	first = now > window ? now - window : 0;
	if (find_step(secret, len, first, now + window, code, &found) == -1)
		return refusal_set(r, "totp.wrong", "the secret of this authenticator is not one");
	if (found == -1)
		return refusal_set(r, "totp.wrong", "the code is not that of this minute");
	if (found <= last_counter) {
		refusal_set(r, "totp.used", "this code, or a later one, was used before");
		if (r != NULL)
			r->retry_at = (now + 1) * TOTP_STEP_MS;
		return -1;
	}
	*counter = found;
	return 0;
}

/* RFC 3986 §2.3 */
static int
unreserved(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("-._~", c) != NULL);
}

static void
escape(const char *in, char out[3 * TOTP_LABEL_MAX + 1])
{
	static const char HEX[] = "0123456789ABCDEF";

	for (; *in != '\0'; in++) {
		if (unreserved(*in)) {
			*out++ = *in;
			continue;
		}
		*out++ = '%';
		*out++ = HEX[(uint8_t)*in >> 4];
		*out++ = HEX[(uint8_t)*in & 15];
	}
	*out = '\0';
}

int
totp_uri(const uint8_t *secret, size_t len, const char *label, char uri[TOTP_URI_SIZE])
{
	char name[3 * TOTP_LABEL_MAX + 1], text[TOTP_SECRET_MAX * 2];
	size_t label_len = strnlen(label, TOTP_LABEL_MAX + 1);
	int n;

	if (!secret_ok(len) || label_len == 0 || label_len > TOTP_LABEL_MAX ||
	    base32_encode(secret, len, text, sizeof(text)) == -1)
		return -1;
	escape(label, name);
	n = snprintf(
	    uri, TOTP_URI_SIZE, "otpauth://totp/bastion:%s?secret=%s&issuer=bastion", name, text);
	sodium_memzero(text, sizeof(text));
	return n > 0 && n < TOTP_URI_SIZE ? 0 : -1;
}
