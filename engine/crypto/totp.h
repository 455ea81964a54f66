/* totp.h: codes of an authenticator app, each good once. */
#ifndef ENGINE_CRYPTO_TOTP_H
#define ENGINE_CRYPTO_TOTP_H

#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"

#define TOTP_STEP_MS    30000
#define TOTP_DIGITS     6
#define TOTP_DIGITS_MAX 8
#define TOTP_SECRET_MIN 16 /* RFC 4226 §4, R6 */
#define TOTP_SECRET_MAX 64
#define TOTP_WINDOW_MAX 10
#define TOTP_LABEL_MAX  128
#define TOTP_URI_SIZE   640 /* the longest label, all of it escaped, and the longest secret */

/**
 * totp_code(secret, len, counter, digits, code):
 * Write the code of ${digits} digits (TOTP_DIGITS to TOTP_DIGITS_MAX) for ${counter} under
 * ${secret}[0..${len}) to ${code}, with a NUL (RFC 4226 §5.3, HMAC-SHA-1).  Return 0; or -1 if
 * ${len} is outside TOTP_SECRET_MIN to TOTP_SECRET_MAX or ${digits} outside its range.
 */
int totp_code(const uint8_t *secret, size_t len, uint64_t counter, unsigned digits,
    char code[TOTP_DIGITS_MAX + 1]) __attribute__((warn_unused_result));

/**
 * totp_match(secret, len, now_ms, code, window, last_counter, counter, r):
 * Is ${code}, six ASCII digits and nothing else, the code (RFC 6238, SHA-1, steps of 30 s) of a
 * step that is at most ${window} (to TOTP_WINDOW_MAX) away from ${now_ms}, ms UTC, and later than
 * ${last_counter} (-1: none was used yet)?  The time this takes does not depend on which step
 * matched or how much of a code was right.  Return 0 with the step in ${*counter}: the caller
 * stores it as the next ${last_counter} in the transaction that uses the code.  Else return -1
 * with ${r} set to totp.form, totp.used (the code was right, but it or a later one was used; its
 * retry_at is the next step) or totp.wrong.
 */
int totp_match(const uint8_t *secret, size_t len, int64_t now_ms, const char *code, unsigned window,
    int64_t last_counter, int64_t *counter, struct refusal *r) __attribute__((warn_unused_result));

/**
 * totp_uri(secret, len, label, uri):
 * Write the address that an authenticator app reads as a QR code,
 * otpauth://totp/bastion:LABEL?secret=...&issuer=bastion, to ${uri}, which the caller wipes.
 * ${label} is 1 to TOTP_LABEL_MAX bytes; what is not unreserved in RFC 3986 is escaped.  Return 0;
 * or -1 if ${label} or ${len} is out of bounds.
 */
int totp_uri(const uint8_t *secret, size_t len, const char *label, char uri[TOTP_URI_SIZE])
    __attribute__((warn_unused_result));

#endif
