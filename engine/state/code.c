/* code.c: pairing codes, taken apart and built by SQLite's JSON. */
#include <ctype.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/state/code.h"

#define PREFIX  "bst_"
#define VARIANT sodium_base64_VARIANT_URLSAFE_NO_PADDING

#define JSON_MAX ((CODE_MAX - sizeof(PREFIX)) / 4 * 3)

static const char MAKE[] =
    "SELECT json_object('v', 1, 't', :token, 'u', 'unix:' || :path, 'k', :key, 'h', :host)";

static const char MAKE_TLS[] = "SELECT json_object('v', 1, 't', :token, 'u', 'tls:' || :endpoints,"
			       " 'c', :authority, 'k', :key, 'h', :host)";

static const char VALID[] = "SELECT json_valid(:json) AND instr(:json, '\\') = 0";

/* Built again from its parts, the text must be the same: so nothing is doubled, added or left out.
 */
static const char READ[] =
    "SELECT t, u, k, h, c"
    "  FROM (SELECT :json ->> '$.t' AS t, :json ->> '$.u' AS u, :json ->> '$.k' AS k,"
    "               :json ->> '$.h' AS h, :json ->> '$.c' AS c)"
    " WHERE :json = iif(c IS NULL, json_object('v', 1, 't', t, 'u', u, 'k', k, 'h', h),"
    "                   json_object('v', 1, 't', t, 'u', u, 'c', c, 'k', k, 'h', h))"
    "   AND typeof(t) = 'text' AND length(t) = 64 AND t NOT GLOB '*[^0-9a-f]*'"
    "   AND typeof(k) = 'text' AND length(k) = 64 AND k NOT GLOB '*[^0-9a-f]*'"
    "   AND typeof(u) = 'text'"
    "   AND iif(c IS NULL, u GLOB 'unix:/?*' AND length(CAST(u AS BLOB)) <= 108,"
    "           typeof(c) = 'text' AND length(c) = 64 AND c NOT GLOB '*[^0-9a-f]*'"
    "           AND u GLOB 'tls:?*')"
    "   AND typeof(h) = 'text' AND length(h) BETWEEN 1 AND 64 AND h NOT GLOB '*[^A-Za-z0-9.-]*'"
    "   AND h NOT GLOB '-*'";

static int
code_invalid(struct store *db)
{
	return refusal_set(store_refusal(db), "code.invalid", "this is no whole pairing code");
}

/* libsodium 1.0.18 takes bytes over 0x7f for '_', so one code would have many spellings. */
static bool
code_is_ascii(const char *code, size_t len)
{
	size_t i;

	for (i = 0; i < len && isascii((unsigned char)code[i]); i++)
		;
	return i == len;
}

/* Take the list ${text} of endpoints apart: each in its one spelling, none twice. */
static int
endpoints_read(const char *text, struct pairing_code *facts)
{
	struct endpoint endpoint;
	unsigned i;
	size_t len;

	for (;; text += len + 1) {
		len = strcspn(text, ",");
		if (facts->nendpoints == CODE_ENDPOINTS ||
		    endpoint_parse(text, len, &endpoint, NULL) != 0 ||
		    strlen(endpoint.text) != len || memcmp(endpoint.text, text, len) != 0)
			return -1;
		for (i = 0; i < facts->nendpoints; i++)
			if (strcmp(facts->endpoint[i], endpoint.text) == 0)
				return -1;
		memcpy(facts->endpoint[facts->nendpoints++], endpoint.text, len + 1);
		if (text[len] == '\0')
			return 0;
	}
}

/* Where the Host is: ${q} has the parts of READ. */
static int
place_read(struct stmt *q, struct pairing_code *facts)
{
	const char *u = stmt_get_text(q, 1);

	if (stmt_is_null(q, 4)) {
		snprintf(facts->path, sizeof(facts->path), "%s", u + strlen("unix:"));
		return 0;
	}
	sodium_hex2bin(facts->authority, CERT_FP_SIZE, stmt_get_text(q, 4), 64, NULL, NULL, NULL);
	return endpoints_read(u + strlen("tls:"), facts);
}

/* Read the parts of the canonical text ${json}. */
static int
facts_read(struct store *db, const char *json, size_t len, struct pairing_code *facts)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, VALID)) == NULL)
		return -1;
	stmt_text_n(q, ":json", json, len);
	if (stmt_value(q, 0) != 1)
		return code_invalid(db);
	if ((q = store_sql(db, READ)) == NULL)
		return -1;
	stmt_text_n(q, ":json", json, len);
	if ((rc = stmt_step(q)) != 1)
		return rc == 0 ? code_invalid(db) : -1;
	sodium_hex2bin(facts->token, CODE_TOKEN, stmt_get_text(q, 0), 64, NULL, NULL, NULL);
	sodium_hex2bin(facts->host_key, 32, stmt_get_text(q, 2), 64, NULL, NULL, NULL);
	snprintf(facts->host, sizeof(facts->host), "%s", stmt_get_text(q, 3));
	rc = place_read(q, facts);
	stmt_done(q);
	return rc == 0 ? 0 : code_invalid(db);
}

int
code_read(struct store *db, const char *code, size_t len, struct pairing_code *facts)
{
	char json[JSON_MAX + 1];
	size_t json_len, prefix = strlen(PREFIX);
	int rc = -1;

	sodium_memzero(facts, sizeof(*facts));
	if (len > CODE_MAX || len <= prefix || memcmp(code, PREFIX, prefix) != 0 ||
	    !code_is_ascii(code, len) ||
	    sodium_base642bin((unsigned char *)json, JSON_MAX, code + prefix, len - prefix, NULL,
		&json_len, NULL, VARIANT) != 0 ||
	    memchr(json, '\0', json_len) != NULL)
		code_invalid(db);
	else
		rc = facts_read(db, json, json_len, facts);
	sodium_memzero(json, sizeof(json));
	if (rc != 0)
		sodium_memzero(facts, sizeof(*facts));
	return rc;
}

/* Write the code of ${json}, and read it back: what would be refused is not given out. */
static int
code_write(struct store *db, const char *json, char code[CODE_MAX + 1])
{
	struct pairing_code back;
	size_t len = strlen(json);
	int rc;

	if (len > JSON_MAX)
		return code_invalid(db);
	memcpy(code, PREFIX, strlen(PREFIX));
	sodium_bin2base64(code + strlen(PREFIX), CODE_MAX + 1 - strlen(PREFIX),
	    (const unsigned char *)json, len, VARIANT);
	rc = code_read(db, code, strlen(code), &back);
	sodium_memzero(&back, sizeof(back));
	return rc;
}

/* The endpoints of ${facts} with commas between them. */
static void
endpoints_write(const struct pairing_code *facts, char list[CODE_MAX])
{
	size_t n = 0;
	unsigned i;

	list[0] = '\0';
	for (i = 0; i < facts->nendpoints && n < CODE_MAX; i++)
		n += (size_t)snprintf(
		    list + n, CODE_MAX - n, "%s%s", i == 0 ? "" : ",", facts->endpoint[i]);
}

int
code_make(struct store *db, const struct pairing_code *facts, char code[CODE_MAX + 1])
{
	char token[2 * CODE_TOKEN + 1], key[65], authority[65], endpoints[CODE_MAX];
	struct stmt *q;
	int rc = -1;

	sodium_bin2hex(token, sizeof(token), facts->token, CODE_TOKEN);
	sodium_bin2hex(key, sizeof(key), facts->host_key, 32);
	sodium_bin2hex(authority, sizeof(authority), facts->authority, CERT_FP_SIZE);
	endpoints_write(facts, endpoints);
	if ((q = store_sql(db, facts->nendpoints == 0 ? MAKE : MAKE_TLS)) == NULL)
		goto out;
	stmt_text(q, ":token", token);
	if (facts->nendpoints == 0) {
		stmt_text(q, ":path", facts->path);
	} else {
		stmt_text(q, ":endpoints", endpoints);
		stmt_text(q, ":authority", authority);
	}
	stmt_text(q, ":key", key);
	stmt_text(q, ":host", facts->host);
	if (stmt_step(q) != 1)
		goto out;
	rc = code_write(db, stmt_get_text(q, 0), code);
	stmt_done(q);
out:
	sodium_memzero(token, sizeof(token));
	if (rc != 0)
		sodium_memzero(code, CODE_MAX + 1);
	return rc;
}
