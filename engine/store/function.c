/* function.c: now_ms(), acting(), digests, seals and calendars, as SQL. */
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "engine/actor/identity.h"
#include "engine/address.h"
#include "engine/clock.h"
#include "engine/cron.h"
#include "engine/crypto/checkpoint.h"
#include "engine/crypto/key.h"
#include "engine/crypto/sha256.h"
#include "engine/destination.h"
#include "engine/endpoint.h"
#include "engine/store/bounds.h"
#include "engine/store/function.h"

/* What the text of a seal is for; the key that makes it follows from that. */
static const struct {
	const char *kind, *domain;
	enum key_which use;
} seals[] = {
    {"grant", "bastion-grant-1", KEY_GRANT},
    {"audit", "bastion-audit-1", KEY_IDENTITY},
    {"folder", "bastion-folder-1", KEY_GRANT},
    {"contain", "bastion-contain-1", KEY_GRANT},
    {"order", "bastion-order-1", KEY_IDENTITY},
    {"tool_grant", "bastion-tool-grant-1", KEY_GRANT},
    {"manifest", "bastion-manifest-1", KEY_GRANT},
};

int64_t
function_now(const struct function_context *ctx)
{
	return ctx->now != 0 ? ctx->now : clock_now();
}

static void
now_ms(sqlite3_context *c, int n, sqlite3_value **v)
{
	(void)n;
	(void)v;
	sqlite3_result_int64(c, function_now(sqlite3_user_data(c)));
}

static void
nonce(sqlite3_context *c, int n, sqlite3_value **v)
{
	char text[33];

	(void)n;
	(void)v;
	nonce_hex(text);
	sqlite3_result_text(c, text, -1, SQLITE_TRANSIENT);
}

static void
acting(sqlite3_context *c, int n, sqlite3_value **v)
{
	const struct function_context *ctx = sqlite3_user_data(c);

	(void)n;
	(void)v;
	sqlite3_result_text(c, ctx->acting, -1, SQLITE_TRANSIENT);
}

static void
sha256(sqlite3_context *c, int n, sqlite3_value **v)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	const void *bytes;

	(void)n;
	if (sqlite3_value_type(v[0]) == SQLITE_NULL)
		return;
	bytes = sqlite3_value_blob(v[0]);
	crypto_hash_sha256(digest, bytes, (unsigned)sqlite3_value_bytes(v[0]));
	sqlite3_result_blob(c, digest, sizeof(digest), SQLITE_TRANSIENT);
}

static void
chain_hash(sqlite3_context *c, int n, sqlite3_value **v)
{
	unsigned char digest[SHA256_SIZE];
	const void *prev = sqlite3_value_blob(v[0]);
	const unsigned char *line = sqlite3_value_text(v[1]);

	(void)n;
	if (prev == NULL || sqlite3_value_bytes(v[0]) != 32 || line == NULL)
		return;
	sha256_pair(prev, 32, line, (size_t)sqlite3_value_bytes(v[1]), digest);
	sqlite3_result_blob(c, digest, sizeof(digest), SQLITE_TRANSIENT);
}

static void
process_alive(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *boot = (const char *)sqlite3_value_text(v[0]);

	(void)n;
	if (boot == NULL)
		return;
	sqlite3_result_int(c, identity_alive(boot, (pid_t)sqlite3_value_int64(v[1]),
				  (uint64_t)sqlite3_value_int64(v[2])));
}

static int
seal_find(const char *kind)
{
	size_t i;

	for (i = 0; kind != NULL && i < sizeof(seals) / sizeof(seals[0]); i++)
		if (strcmp(seals[i].kind, kind) == 0)
			return (int)i;
	return -1;
}

/* One digest names the whole claim, so the memory of good seals cannot confuse two of them. */
static void
seal_claim(int kind, const unsigned char *pk, const unsigned char *text, int len,
    const unsigned char seal[64], unsigned char claim[32])
{
	crypto_generichash_state state;
	unsigned char k = (unsigned char)kind;

	crypto_generichash_init(&state, NULL, 0, 32);
	crypto_generichash_update(&state, &k, 1);
	crypto_generichash_update(&state, pk, 32);
	crypto_generichash_update(&state, seal, 64);
	crypto_generichash_update(&state, text, (unsigned)len);
	crypto_generichash_final(&state, claim, 32);
}

static void
seal_ok(sqlite3_context *c, int n, sqlite3_value **v)
{
	struct function_context *ctx = sqlite3_user_data(c);
	int kind = seal_find((const char *)sqlite3_value_text(v[0]));
	const unsigned char *text = sqlite3_value_text(v[1]);
	const unsigned char *seal = sqlite3_value_blob(v[2]);
	const unsigned char *pk;
	unsigned char claim[32], *slot;
	int len = sqlite3_value_bytes(v[1]);

	(void)n;
	if (kind == -1 || !ctx->keys.present || text == NULL || seal == NULL ||
	    sqlite3_value_bytes(v[2]) != 64)
		return;
	pk = seals[kind].use == KEY_GRANT ? ctx->keys.grant : ctx->keys.identity;
	seal_claim(kind, pk, text, len, seal, claim);
	slot = ctx->good[claim[0] % FUNCTION_SEALS];
	if (memcmp(slot, claim, 32) == 0) {
		sqlite3_result_int(c, 1);
		return;
	}
	if (key_verify(pk, seals[kind].domain, text, (size_t)len, seal) != 0) {
		sqlite3_result_int(c, 0);
		return;
	}
	memcpy(slot, claim, 32);
	sqlite3_result_int(c, 1);
}

/* Whether the owner of the key signed the text, for the purpose that the domain names. */
static void
signed_by(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *domain = (const char *)sqlite3_value_text(v[0]);
	const unsigned char *pk = sqlite3_value_blob(v[1]);
	const unsigned char *text = sqlite3_value_text(v[2]);
	const unsigned char *signature = sqlite3_value_blob(v[3]);

	(void)n;
	if (domain == NULL || text == NULL || pk == NULL || signature == NULL ||
	    sqlite3_value_bytes(v[1]) != KEY_PUBLIC_SIZE ||
	    sqlite3_value_bytes(v[3]) != KEY_SIGN_SIZE)
		return;
	sqlite3_result_int(
	    c, key_verify(pk, domain, text, (size_t)sqlite3_value_bytes(v[2]), signature) == 0);
}

static void
seal_sign(sqlite3_context *c, int n, sqlite3_value **v)
{
	const struct function_context *ctx = sqlite3_user_data(c);
	int kind = seal_find((const char *)sqlite3_value_text(v[0]));
	const unsigned char *text = sqlite3_value_text(v[1]);
	unsigned char seal[64];

	(void)n;
	if (kind == -1 || text == NULL || ctx->keys.secret == NULL) {
		sqlite3_result_error(c, "grant.seal|this process holds no key to seal with", -1);
		return;
	}
	if (key_sign(ctx->keys.secret, seals[kind].use, seals[kind].domain, text,
		(size_t)sqlite3_value_bytes(v[1]), seal) != 0) {
		sqlite3_result_error(c, "grant.seal|the key would not sign", -1);
		return;
	}
	sqlite3_result_blob(c, seal, sizeof(seal), SQLITE_TRANSIENT);
}

/* The endpoint in its one spelling, or NULL for what is none. */
static void
endpoint_text(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *text = (const char *)sqlite3_value_text(v[0]);
	struct endpoint e;

	(void)n;
	if (text != NULL && endpoint_parse(text, (size_t)sqlite3_value_bytes(v[0]), &e, NULL) == 0)
		sqlite3_result_text(c, e.text, -1, SQLITE_TRANSIENT);
}

/* A host in its one spelling, or NULL for what is none. */
static void
host_text(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *text = (const char *)sqlite3_value_text(v[0]);
	struct host h;

	(void)n;
	if (text != NULL && host_read(text, (size_t)sqlite3_value_bytes(v[0]), &h, NULL) == 0)
		sqlite3_result_text(c, h.text, -1, SQLITE_TRANSIENT);
}

/* The last so many labels of a name that has more; NULL of others. */
static void
host_tail(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *text = (const char *)sqlite3_value_text(v[0]), *at;
	int64_t labels = sqlite3_value_int64(v[1]);
	struct address a;

	(void)n;
	if (text == NULL || labels < 1 || address_parse(text, &a) == 0)
		return;
	for (at = text + strlen(text); at > text; at--)
		if (at[-1] == '.' && --labels == 0) {
			sqlite3_result_text(c, at, -1, SQLITE_TRANSIENT);
			return;
		}
}

/* The host and the port that a text of the form HOST[:PORT][/…] begins with, or NULL. */
static void
destination_part(sqlite3_context *c, sqlite3_value *v, bool port)
{
	const char *text = (const char *)sqlite3_value_text(v);
	struct destination d;

	if (text == NULL || destination_read(text, (size_t)sqlite3_value_bytes(v), &d) != 0)
		return;
	if (port)
		sqlite3_result_int(c, d.port);
	else
		sqlite3_result_text(c, d.host.text, -1, SQLITE_TRANSIENT);
}

static void
destination_host(sqlite3_context *c, int n, sqlite3_value **v)
{
	(void)n;
	destination_part(c, v[0], false);
}

static void
destination_port(sqlite3_context *c, int n, sqlite3_value **v)
{
	(void)n;
	destination_part(c, v[0], true);
}

/* The sixteen bytes of an address, or NULL for what is none. */
static void
address_bytes(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *text = (const char *)sqlite3_value_text(v[0]);
	struct address a;

	(void)n;
	if (text != NULL && strlen(text) == (size_t)sqlite3_value_bytes(v[0]) &&
	    address_parse(text, &a) == 0)
		sqlite3_result_blob(c, a.b, sizeof(a.b), SQLITE_TRANSIENT);
}

/* The checkpoint that columns tell of.  Return 0, or -1 where they tell of none. */
static int
checkpoint_of(sqlite3_value **v, struct checkpoint *cp)
{
	if (sqlite3_value_type(v[0]) != SQLITE_INTEGER || sqlite3_value_int64(v[0]) < 1 ||
	    sqlite3_value_type(v[1]) != SQLITE_BLOB || sqlite3_value_bytes(v[1]) != MERKLE_HASH)
		return -1;
	cp->size = (uint64_t)sqlite3_value_int64(v[0]);
	memcpy(cp->root, sqlite3_value_blob(v[1]), MERKLE_HASH);
	return 0;
}

static void
checkpoint_ok(sqlite3_context *c, int n, sqlite3_value **v)
{
	const struct function_context *ctx = sqlite3_user_data(c);
	struct checkpoint cp;

	(void)n;
	if (!ctx->keys.present || checkpoint_of(v, &cp) != 0 ||
	    sqlite3_value_type(v[2]) != SQLITE_BLOB || sqlite3_value_bytes(v[2]) != KEY_SIGN_SIZE)
		return;
	sqlite3_result_int(
	    c, checkpoint_verify(ctx->keys.identity, &cp, sqlite3_value_blob(v[2])) == 0);
}

static void
checkpoint_seal(sqlite3_context *c, int n, sqlite3_value **v)
{
	const struct function_context *ctx = sqlite3_user_data(c);
	unsigned char signature[KEY_SIGN_SIZE];
	struct checkpoint cp;

	(void)n;
	if (ctx->keys.secret == NULL || checkpoint_of(v, &cp) != 0 ||
	    checkpoint_sign(ctx->keys.secret, &cp, signature) != 0) {
		sqlite3_result_error(
		    c, "audit.checkpoint|this process holds no key to sign with", -1);
		return;
	}
	sqlite3_result_blob(c, signature, sizeof(signature), SQLITE_TRANSIENT);
}

/* How long the character at ${p} is by RFC 3629; 0: it is none, or NUL. */
static size_t
utf8_len(const unsigned char *p, const unsigned char *end)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4, i;

	if (p[0] == 0 || p[0] > 0xf4 || n == 0 || (size_t)(end - p) < n)
		return 0;
	for (i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* utf8(bytes): the same bytes as text, or NULL where they are none. */
static void
utf8(sqlite3_context *c, int n, sqlite3_value **v)
{
	const unsigned char *p = sqlite3_value_blob(v[0]);
	size_t len = (size_t)sqlite3_value_bytes(v[0]), at, one;

	(void)n;
	for (at = 0; at < len; at += one)
		if ((one = utf8_len(p + at, p + len)) == 0)
			return;
	sqlite3_result_text(c, len == 0 ? "" : (const char *)p, (int)len, SQLITE_TRANSIENT);
}

/* base64(bytes), by RFC 4648 §4. */
static void
base64(sqlite3_context *c, int n, sqlite3_value **v)
{
	size_t len = (size_t)sqlite3_value_bytes(v[0]), size;
	const unsigned char *p = sqlite3_value_blob(v[0]);
	char *out;

	(void)n;
	size = sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL);
	if ((out = sqlite3_malloc64(size)) == NULL) {
		sqlite3_result_error_nomem(c);
		return;
	}
	sodium_bin2base64(out, size, p, len, sodium_base64_VARIANT_ORIGINAL);
	sqlite3_result_text(c, out, -1, sqlite3_free);
}

/* What is wrong with a calendar, or NULL; a NULL has nothing wrong with it. */
static void
cron_fault(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *text = (const char *)sqlite3_value_text(v[0]);
	struct cron cron;
	char why[160];

	(void)n;
	if (text != NULL && cron_read(text, &cron, why, sizeof(why)) != 0)
		sqlite3_result_text(c, why, -1, SQLITE_TRANSIENT);
}

/* The first of ${start}, ${start} + ${every}, ... and of those before it that is after ${at}. */
static void
interval_next(sqlite3_context *c, int64_t every, int64_t start, int64_t at)
{
	int64_t since, next;

	if (every <= 0 || __builtin_sub_overflow(at, start, &since) ||
	    __builtin_sub_overflow(at, (since % every + every) % every, &next) ||
	    __builtin_add_overflow(next, every, &next))
		return;
	sqlite3_result_int64(c, next);
}

/* due_next(cron, zone, every_ms, start_at, at): the first time after ${at}, of a calendar in a zone
 * or, where that is NULL, of an interval. */
static void
due_next(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *text = (const char *)sqlite3_value_text(v[0]);
	const char *name = (const char *)sqlite3_value_text(v[1]);
	struct cron cron;
	struct zone zone;
	char why[160];
	int64_t next;

	(void)n;
	if (sqlite3_value_type(v[4]) != SQLITE_INTEGER)
		return;
	if (text == NULL) {
		interval_next(c, sqlite3_value_int64(v[2]), sqlite3_value_int64(v[3]),
		    sqlite3_value_int64(v[4]));
		return;
	}
	if (name == NULL || zone_find(name, &zone) != 0 ||
	    cron_read(text, &cron, why, sizeof(why)) != 0)
		return;
	if ((next = cron_next(&cron, &zone, sqlite3_value_int64(v[4]))) != -1)
		sqlite3_result_int64(c, next);
}

int
function_register(struct sqlite3 *handle, struct function_context *ctx)
{
	static const struct {
		const char *name;
		int args, flags;
		void (*fn)(sqlite3_context *, int, sqlite3_value **);
	} all[] = {
	    {"now_ms", 0, SQLITE_INNOCUOUS, now_ms},
	    {"nonce", 0, SQLITE_INNOCUOUS, nonce},
	    {"acting", 0, SQLITE_INNOCUOUS, acting},
	    {"sha256", 1, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, sha256},
	    {"chain_hash", 2, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, chain_hash},
	    {"utf8", 1, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, utf8},
	    {"base64", 1, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, base64},
	    {"process_alive", 3, SQLITE_INNOCUOUS, process_alive},
	    {"endpoint_text", 1, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, endpoint_text},
	    {"host_text", 1, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, host_text},
	    {"host_tail", 2, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, host_tail},
	    {"destination_host", 1, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, destination_host},
	    {"destination_port", 1, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, destination_port},
	    {"address_bytes", 1, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, address_bytes},
	    {"seal_ok", 3, SQLITE_INNOCUOUS, seal_ok},
	    {"signed_by", 4, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, signed_by},
	    {"seal_sign", 2, SQLITE_DIRECTONLY, seal_sign},
	    {"checkpoint_ok", 3, SQLITE_INNOCUOUS, checkpoint_ok},
	    {"checkpoint_sign", 2, SQLITE_DIRECTONLY, checkpoint_seal},
	    {"cron_fault", 1, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, cron_fault},
	    {"due_next", 5, SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, due_next},
	};
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (sqlite3_create_function_v2(handle, all[i].name, all[i].args,
			SQLITE_UTF8 | all[i].flags, ctx, all[i].fn, NULL, NULL, NULL) != SQLITE_OK)
			return -1;
	return bounds_register(handle);
}
