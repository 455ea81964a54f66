/* fuzz_beat.c: any beat, and any answer to one, with directives whose terms are any text, well
 * signed. */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/crypto/key.h"
#include "engine/state/beat.h"
#include "engine/store/migrate.h"
#include "net/http/json.h"

#define DEPTH 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char BOTH[] =
    "INSERT INTO box (id, name, role, identity_key, created_at) VALUES (1, 'a', '%s', x'%s', 1);";

static const char HOST[] =
    "INSERT INTO invitation (box_name, token_digest, created_at, expires_at)"
    "  VALUES ('a', zeroblob(32), now_ms(), now_ms() + 60000);"
    "UPDATE invitation SET state = 'redeemed', ended_at = now_ms();"
    "INSERT INTO host_box (name, box_key, lane, peer_uid, invitation_id, paired_at)"
    "  VALUES ('a', zeroblob(32), '/run/lane', 0, 1, now_ms())";

static const char BOX[] =
    "INSERT INTO pairing (host_name, transport, host_key, peer_uid, state, since)"
    " SELECT 'h', 'unix', identity_key, 0, 'active', 1 FROM box;"
    "INSERT INTO pairing_endpoint VALUES (1, 1, 'old.example:1');"
    "UPDATE setting SET value = high WHERE name = 'order.day';";

/* What must hold whatever was taken: what is tried is an endpoint, and what stands is an order. */
static const char WRONG[] =
    "SELECT (SELECT count(*) FROM rotation_endpoint WHERE endpoint IS NOT endpoint_text(endpoint))"
    " + (SELECT count(*) FROM directive WHERE json_type(terms) IS NOT 'object'"
    "     OR kind IS NOT terms ->> '$.kind' OR nonce IS NOT terms ->> '$.order'"
    "     OR (kind = 'contain' AND json_type(terms, '$.pid') IS NOT 'integer')"
    "     OR (state = 'refused' AND result ->> '$.code' NOT IN (SELECT code FROM refusal)))"
    " + (SELECT count(*) <> 1 FROM pairing_endpoint)";

static struct key *key;

/* A database of its own in memory-backed /tmp. */
static struct store *
database(const char *role, const char *sql, enum store_role opened)
{
	struct home home;
	struct refusal r;
	struct store *db;
	unsigned char pk[32];
	char dir[] = "/tmp/fuzz-beat-XXXXXX", state[64], run[64], path[96], both[512], hex[65];

	if (sodium_init() < 0 || mkdtemp(dir) == NULL)
		abort();
	snprintf(state, sizeof(state), "%s/state", dir);
	snprintf(run, sizeof(run), "%s/run", dir);
	snprintf(path, sizeof(path), "%s/key", dir);
	if (key == NULL && (key_create(path, &r) != 0 || (key = key_load(path, &r)) == NULL))
		abort();
	key_public(key, KEY_IDENTITY, pk);
	sodium_bin2hex(hex, sizeof(hex), pk, sizeof(pk));
	snprintf(both, sizeof(both), BOTH, role, hex);
	if (home_at(&home, state, run, strcmp(role, "box") == 0 ? HOME_BOX : HOME_HOST, true, &r) !=
		0 ||
	    migrate_up(&home, &r) < 0 || (db = store_open(&home, ROLE_MIGRATE, NULL, &r)) == NULL ||
	    store_begin(db) != 0 || store_exec(db, both) != 0 || store_exec(db, sql) != 0 ||
	    store_commit(db) != 0)
		abort();
	store_close(db);
	if ((db = store_open(&home, opened, NULL, &r)) == NULL)
		abort();
	return db;
}

static void
expected(const struct refusal *r)
{
	if (strncmp(r->code, "beat.", 5) != 0 && strncmp(r->code, "directive.", 10) != 0)
		abort();
}

static void
as_beat(struct store *db, const char *text, size_t len)
{
	char *answer = NULL;

	if (store_begin(db) != 0)
		abort();
	if (beat_take(db, 1, text, len, &answer) != 0)
		expected(store_refusal(db));
	free(answer);
	store_rollback(db);
}

static void
as_answer(struct store *db, const char *text, size_t len)
{
	struct directive_taken taken;

	if (directive_take(db, 1, text, len, &taken) != 0)
		expected(store_refusal(db));
	if (stmt_value(store_sql(db, WRONG), -1) != 0)
		abort();
}

/* The same bytes as terms that the Host did sign: {"heard":[],"directives":[{terms, signature}]}.
 */
static void
as_terms(struct store *db, const char *text, size_t len)
{
	unsigned char signature[64];
	char hex[129], *answer;
	struct stmt *q;

	if (memchr(text, '\0', len) != NULL ||
	    key_sign(key, KEY_IDENTITY, ORDER_DOMAIN, text, len, signature) != 0 ||
	    (q = store_sql(db, "SELECT json_object('heard', json_array(), 'directives', json_array("
			       "  json_object('terms', :terms, 'signature', :signature)))")) ==
		NULL)
		return;
	sodium_bin2hex(hex, sizeof(hex), signature, sizeof(signature));
	stmt_text_n(q, ":terms", text, len);
	stmt_text(q, ":signature", hex);
	if (stmt_step(q) != 1)
		return;
	answer = strdup(stmt_get_text(q, 0));
	stmt_done(q);
	if (answer == NULL)
		abort();
	as_answer(db, answer, strlen(answer));
	free(answer);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct store *host, *box;
	const char *text = (const char *)data;
	struct refusal r = {.code = ""};

	if (host == NULL)
		host = database("host", HOST, ROLE_NET);
	if (box == NULL)
		box = database("box", BOX, ROLE_LINK);
	as_terms(box, text, size);
	if (http_json_check(text, size, DEPTH, &r) != 0)
		return 0;
	as_beat(host, text, size);
	as_answer(box, text, size);
	return 0;
}
