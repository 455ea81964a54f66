/* token.c: keep, renew, drop and open tokens. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/crypto/seal.h"
#include "engine/state/token.h"

#define PLACEHOLDER_BYTES 16
#define ROW_TEXT          24

/* The id is needed before the row is there: the secret is sealed to it. */
static const char NEXT[] = "SELECT coalesce(max(id), 0) + 1 FROM token";
static const char ADD[] =
    "INSERT INTO token (id, name, header, scheme, placeholder, secret, made_at, made_by_uid)"
    " VALUES (:id, :name, coalesce(:header, 'Authorization'), coalesce(:scheme, 'Bearer'),"
    "  :placeholder, :secret, now_ms(), :by)";
static const char ADD_HOST[] = "INSERT INTO token_host (token_id, suffix) VALUES (:id, :suffix)";
static const char LIVE[] =
    "SELECT id, generation FROM token WHERE name = :name AND state = 'active'";
static const char ROTATE[] = "UPDATE token SET secret = :secret, generation = generation + 1,"
			     " rotated_at = now_ms() WHERE id = :id";
static const char DROP[] =
    "UPDATE token SET state = 'dropped', dropped_at = now_ms(), secret = NULL"
    " WHERE name = :name AND state = 'active'";
static const char OPEN[] = "SELECT header, scheme, placeholder, generation, secret, length(secret)"
			   "  FROM token WHERE id = :id AND state = 'active'";

/* What goes into a header has no byte that ends one. */
static int
secret_check(struct store *db, const char *secret)
{
	size_t i, len = strlen(secret);

	for (i = 0; i < len && secret[i] > ' ' && secret[i] < 0x7f; i++)
		;
	if (i == len && len >= TOKEN_SECRET_MIN && len <= TOKEN_SECRET_MAX)
		return 0;
	return refusal_set(store_refusal(db), "token.secret",
	    "a secret is one line of %d to %d printable characters without spaces",
	    TOKEN_SECRET_MIN, TOKEN_SECRET_MAX);
}

static struct seal_place
place_of(int64_t id, int64_t generation, char row[ROW_TEXT])
{
	snprintf(row, ROW_TEXT, "%lld", (long long)id);
	return (struct seal_place){.table = "token",
	    .column = "secret",
	    .row = row,
	    .generation = generation,
	    .sealer = KEY_TOKEN};
}

/* Seal ${secret}; ${sealed} has room for TOKEN_SECRET_MAX and SEAL_OVERHEAD. */
static int
secret_seal(struct store *db, const struct key *key, int64_t id, int64_t generation,
    const char *secret, uint8_t *sealed)
{
	char row[ROW_TEXT];
	const struct seal_place place = place_of(id, generation, row);

	return seal_make(key, &place, secret, strlen(secret), sealed,
	    TOKEN_SECRET_MAX + SEAL_OVERHEAD, store_refusal(db));
}

static void
placeholder_make(char placeholder[TOKEN_PLACEHOLDER_LEN + 1])
{
	unsigned char bytes[PLACEHOLDER_BYTES];

	random_fill(bytes, sizeof(bytes));
	memcpy(placeholder, "bastion-", 8);
	sodium_bin2hex(placeholder + 8, 2 * sizeof(bytes) + 1, bytes, sizeof(bytes));
}

static int
hosts_add(struct store *db, const struct token_wish *wish, int64_t id)
{
	struct stmt *q;
	size_t i;

	if (wish->nhosts == 0)
		return refusal_set(
		    store_refusal(db), "token.host", "a token is for some host: --host HOST");
	for (i = 0; i < wish->nhosts; i++) {
		if ((q = store_sql(db, ADD_HOST)) == NULL)
			return -1;
		stmt_int(q, ":id", id);
		stmt_text(q, ":suffix", wish->hosts[i]);
		if (stmt_run_one(q) != 0)
			return -1;
	}
	return 0;
}

static int
add_rows(struct store *db, const struct key *key, const struct token_wish *wish, const char *secret,
    int64_t *id)
{
	uint8_t sealed[TOKEN_SECRET_MAX + SEAL_OVERHEAD];
	char placeholder[TOKEN_PLACEHOLDER_LEN + 1];
	struct stmt *q;

	if ((*id = stmt_value(store_sql(db, NEXT), 0)) == 0 ||
	    secret_seal(db, key, *id, 1, secret, sealed) != 0 || (q = store_sql(db, ADD)) == NULL)
		return -1;
	placeholder_make(placeholder);
	stmt_int(q, ":id", *id);
	stmt_text(q, ":name", wish->name);
	stmt_text(q, ":header", wish->header);
	stmt_text(q, ":scheme", wish->scheme);
	stmt_text(q, ":placeholder", placeholder);
	stmt_blob(q, ":secret", sealed, seal_size(strlen(secret)));
	stmt_int(q, ":by", wish->by_uid);
	return stmt_run_one(q) != 0 ? -1 : hosts_add(db, wish, *id);
}

int
token_add(struct store *db, const struct key *key, const struct token_wish *wish,
    const char *secret, int64_t *id)
{
	if (secret_check(db, secret) != 0 || store_begin(db) != 0)
		return -1;
	if (wish->scheme != NULL && strcmp(wish->scheme, "Basic") == 0 &&
	    strchr(secret, ':') == NULL) {
		refusal_set(store_refusal(db), "token.secret",
		    "the secret of the scheme Basic is user:password");
		return store_rollback(db);
	}
	return add_rows(db, key, wish, secret, id) == 0 ? store_commit(db) : store_rollback(db);
}

/* Return 0 with the live token of that name, or -1. */
static int
token_find(struct store *db, const char *name, int64_t *id, int64_t *generation)
{
	struct stmt *q;
	int found;

	if ((q = store_sql(db, LIVE)) == NULL)
		return -1;
	stmt_text(q, ":name", name);
	if ((found = stmt_step(q)) == 1) {
		*id = stmt_get_int(q, 0);
		*generation = stmt_get_int(q, 1);
		stmt_done(q);
		return 0;
	}
	return found == -1
		   ? -1
		   : refusal_set(store_refusal(db), "token.unknown", "no live token has this name");
}

int
token_rotate(struct store *db, const struct key *key, const char *name, const char *secret)
{
	uint8_t sealed[TOKEN_SECRET_MAX + SEAL_OVERHEAD];
	int64_t id, generation;
	struct stmt *q;

	if (secret_check(db, secret) != 0 || store_begin(db) != 0)
		return -1;
	if (token_find(db, name, &id, &generation) != 0 ||
	    secret_seal(db, key, id, generation + 1, secret, sealed) != 0 ||
	    (q = store_sql(db, ROTATE)) == NULL)
		return store_rollback(db);
	stmt_blob(q, ":secret", sealed, seal_size(strlen(secret)));
	stmt_int(q, ":id", id);
	return stmt_run_one(q) == 0 ? store_commit(db) : store_rollback(db);
}

int
token_drop(struct store *db, const char *name)
{
	int64_t id, generation;
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if (token_find(db, name, &id, &generation) != 0 || (q = store_sql(db, DROP)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":name", name);
	return stmt_run_one(q) == 0 ? store_commit(db) : store_rollback(db);
}

static int
token_fill(struct store *db, const struct key *key, struct stmt *q, int64_t id, struct token *t)
{
	char row[ROW_TEXT];
	const struct seal_place place = place_of(id, stmt_get_int(q, 3), row);
	size_t len = (size_t)stmt_get_int(q, 5);
	const void *sealed = stmt_get_blob(q, 4, len);

	snprintf(t->header, sizeof(t->header), "%s", stmt_get_text(q, 0));
	snprintf(t->scheme, sizeof(t->scheme), "%s", stmt_get_text(q, 1));
	snprintf(t->placeholder, sizeof(t->placeholder), "%s", stmt_get_text(q, 2));
	if (sealed == NULL || (t->len = seal_plain_size(len)) > TOKEN_SECRET_MAX)
		return refusal_set(store_refusal(db), "seal.broken", "the token cannot be opened");
	return seal_open(key, &place, sealed, len, t->secret, TOKEN_SECRET_MAX, store_refusal(db));
}

struct token *
token_open(struct store *db, const struct key *key, int64_t id)
{
	struct token *t;
	struct stmt *q;
	int found;

	if (key == NULL) {
		refusal_set(store_refusal(db), "token.key", "this lane holds no key for tokens");
		return NULL;
	}
	if ((q = store_sql(db, OPEN)) == NULL)
		return NULL;
	stmt_int(q, ":id", id);
	if ((found = stmt_step(q)) != 1) {
		if (found == 0)
			refusal_set(store_refusal(db), "token.dropped", "the token was dropped");
		return NULL;
	}
	if ((t = sodium_malloc(sizeof(*t))) != NULL) {
		memset(t, 0, sizeof(*t));
		if (token_fill(db, key, q, id, t) != 0) {
			token_free(t);
			t = NULL;
		}
	} else {
		refusal_set(store_refusal(db), "http.memory", "there is no memory for a token");
	}
	stmt_done(q);
	return t;
}

void
token_free(struct token *token)
{
	/* sodium_free wipes, and takes NULL. */
	sodium_free(token);
}
