/* remote.c: the rows of sessions from other machines; schema/remote.sql decides. */
#include <arpa/inet.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/state/remote.h"

#define TOKEN_PREFIX "brs_"

static const char CLEAR[] = "DELETE FROM remote_listen";
static const char LISTEN[] = "INSERT INTO remote_listen (id, address, port, set_at)"
			     " VALUES (1, :address, :port, now_ms())";
static const char ADD[] =
    "INSERT INTO remote_credential (name, found_by, digest, by_uid, verbs, roots, created_at, expires_at)"
    " VALUES (:name, :selector, :digest, :uid, :verbs, :roots, now_ms(), now_ms()"
    "  + coalesce(nullif(:ttl, 0), (SELECT value FROM setting WHERE name = 'remote.ttl_ms')))";
/* The newest of the name is the one that was ended just now. */
static const char AGAIN[] =
    "INSERT INTO remote_credential (name, found_by, digest, by_uid, verbs, roots, created_at, expires_at)"
    " SELECT name, :selector, :digest, by_uid, verbs, roots, now_ms(),"
    "        now_ms() + coalesce(nullif(:ttl, 0), expires_at - created_at)"
    "   FROM remote_credential WHERE name = :name ORDER BY id DESC LIMIT 1";
static const char LIVE[] =
    "SELECT count(*) FROM remote_credential WHERE name = :name AND state = 'active'";
static const char END[] =
    "UPDATE remote_credential SET state = :state, digest = NULL, ended_at = now_ms()"
    " WHERE name = :name AND state = 'active'";
static const char DIGEST[] = "SELECT id, digest FROM remote_credential WHERE found_by = :selector"
			     " AND state = 'active' AND expires_at > now_ms()";
static const char HELD[] = "SELECT until_at FROM remote_held WHERE origin = :origin";
static const char TRIED[] = "INSERT INTO remote_try (at, origin, credential_id, result)"
			    " VALUES (now_ms(), :origin, nullif(:id, 0), :result)";
static const char WHO[] = "SELECT name, by_uid FROM remote_credential"
			  " WHERE id = :id AND state = 'active' AND expires_at > now_ms()";
static const char REACH[] = "SELECT coalesce(max(verb = :verb), -1) FROM remote_reach"
			    " WHERE credential_id = :id AND session_id = :session";

int
remote_listen(struct store *db, const struct listen_place *place)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if (stmt_run(store_sql(db, CLEAR)) != 0 || (q = store_sql(db, LISTEN)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":address", place->address);
	stmt_int(q, ":port", place->port);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
remote_listen_off(struct store *db)
{
	if (store_begin(db) != 0)
		return -1;
	if (stmt_run(store_sql(db, CLEAR)) != 0)
		return store_rollback(db);
	return store_commit(db);
}

/* Make a token and its digest. */
static void
token_make(const struct key *key, char token[REMOTE_TOKEN_LEN + 1], char selector[],
    uint8_t digest[KEY_REMOTE_SIZE])
{
	uint8_t bytes[(REMOTE_SELECTOR + REMOTE_SECRET) / 2];
	char secret[REMOTE_SECRET + 1];

	random_fill(bytes, sizeof(bytes));
	sodium_bin2hex(selector, REMOTE_SELECTOR + 1, bytes, REMOTE_SELECTOR / 2);
	sodium_bin2hex(secret, sizeof(secret), bytes + REMOTE_SELECTOR / 2, REMOTE_SECRET / 2);
	snprintf(token, REMOTE_TOKEN_LEN + 1, TOKEN_PREFIX "%s_%s", selector, secret);
	key_remote(key, token, REMOTE_TOKEN_LEN, digest);
	sodium_memzero(bytes, sizeof(bytes));
	sodium_memzero(secret, sizeof(secret));
}

int
remote_add(struct store *db, const struct key *key, const struct remote_ask *ask,
    char token[REMOTE_TOKEN_LEN + 1])
{
	char selector[REMOTE_SELECTOR + 1];
	uint8_t digest[KEY_REMOTE_SIZE];
	struct stmt *q;

	token_make(key, token, selector, digest);
	if ((q = store_sql(db, ADD)) != NULL) {
		stmt_text(q, ":name", ask->name);
		stmt_text(q, ":selector", selector);
		stmt_blob(q, ":digest", digest, sizeof(digest));
		stmt_int(q, ":uid", ask->uid);
		stmt_text(q, ":verbs", ask->verbs);
		stmt_text(q, ":roots", ask->roots);
		stmt_int(q, ":ttl", ask->ttl_ms);
	}
	return stmt_run_alone(q);
}

/* Within a transaction: end the live credential ${name} as ${state}. */
static int
credential_end(struct store *db, const char *name, const char *state)
{
	struct stmt *q;

	if ((q = store_sql(db, LIVE)) == NULL)
		return -1;
	stmt_text(q, ":name", name);
	if (stmt_value(q, 0) != 1)
		return refusal_set(
		    store_refusal(db), "remote.unknown", "no live credential has this name");
	if ((q = store_sql(db, END)) == NULL)
		return -1;
	stmt_text(q, ":name", name);
	stmt_text(q, ":state", state);
	return stmt_run_one(q);
}

int
remote_rotate(struct store *db, const struct key *key, const char *name, int64_t ttl_ms,
    char token[REMOTE_TOKEN_LEN + 1])
{
	char selector[REMOTE_SELECTOR + 1];
	uint8_t digest[KEY_REMOTE_SIZE];
	struct stmt *q;

	token_make(key, token, selector, digest);
	if (store_begin(db) != 0)
		return -1;
	if (credential_end(db, name, "rotated") != 0 || (q = store_sql(db, AGAIN)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":name", name);
	stmt_text(q, ":selector", selector);
	stmt_blob(q, ":digest", digest, sizeof(digest));
	stmt_int(q, ":ttl", ttl_ms);
	return stmt_run_one(q) == 0 ? store_commit(db) : store_rollback(db);
}

int
remote_revoke(struct store *db, const char *name)
{
	if (store_begin(db) != 0)
		return -1;
	return credential_end(db, name, "revoked") == 0 ? store_commit(db) : store_rollback(db);
}

/* The form of a token, and its selector.  Length and form are no secret. */
static bool
token_form(const char *token, char selector[REMOTE_SELECTOR + 1])
{
	static const char hex[] = "0123456789abcdef";
	const char *secret = token + 4 + REMOTE_SELECTOR + 1;

	if (strnlen(token, REMOTE_TOKEN_LEN + 1) != REMOTE_TOKEN_LEN ||
	    strncmp(token, TOKEN_PREFIX, 4) != 0)
		return false;
	memcpy(selector, token + 4, REMOTE_SELECTOR);
	selector[REMOTE_SELECTOR] = '\0';
	return strspn(selector, hex) == REMOTE_SELECTOR && secret[-1] == '_' &&
	       strspn(secret, hex) == REMOTE_SECRET;
}

bool
remote_right(struct store *db, const struct key *key, const char *token, int64_t *id)
{
	uint8_t shown[KEY_REMOTE_SIZE], kept[KEY_REMOTE_SIZE] = {0};
	char selector[REMOTE_SELECTOR + 1];
	const void *digest;
	struct stmt *q;

	*id = 0;
	if (!token_form(token, selector))
		return false;
	key_remote(key, token, REMOTE_TOKEN_LEN, shown);
	if ((q = store_sql(db, DIGEST)) == NULL)
		return false;
	stmt_text(q, ":selector", selector);
	if (stmt_step(q) == 1) {
		if ((digest = stmt_get_blob(q, 1, sizeof(kept))) != NULL) {
			memcpy(kept, digest, sizeof(kept));
			*id = stmt_get_int(q, 0);
		}
		stmt_done(q);
	}
	return (sodium_memcmp(shown, kept, sizeof(kept)) == 0) & (*id != 0);
}

void
remote_origin(const char *address, char origin[REMOTE_ORIGIN_MAX + 1])
{
	struct in6_addr six;
	char text[INET6_ADDRSTRLEN];

	if (inet_pton(AF_INET6, address, &six) != 1) {
		snprintf(origin, REMOTE_ORIGIN_MAX + 1, "%s", address);
		return;
	}
	if (IN6_IS_ADDR_V4MAPPED(&six)) {
		inet_ntop(AF_INET, six.s6_addr + 12, text, sizeof(text));
		snprintf(origin, REMOTE_ORIGIN_MAX + 1, "%s", text);
		return;
	}
	memset(six.s6_addr + 8, 0, 8);
	inet_ntop(AF_INET6, &six, text, sizeof(text));
	snprintf(origin, REMOTE_ORIGIN_MAX + 1, "%s/64", text);
}

int
remote_held(struct store *db, const char *origin, struct refusal *r)
{
	struct stmt *q;
	int64_t until;

	if ((q = store_sql(db, HELD)) == NULL) {
		*r = *store_refusal(db);
		return -1;
	}
	stmt_text(q, ":origin", origin);
	if ((until = stmt_value(q, 0)) == 0)
		return 0;
	refusal_set(r, "remote.held", "too many wrong secrets came from there");
	r->retry_at = until;
	return -1;
}

int
remote_tried(struct store *db, const char *origin, int64_t id, bool right)
{
	struct stmt *q;

	if ((q = store_sql(db, TRIED)) == NULL)
		return -1;
	stmt_text(q, ":origin", origin);
	stmt_int(q, ":id", id);
	stmt_text(q, ":result", right ? "ok" : "wrong");
	return stmt_run_one(q);
}

int
remote_who(struct store *db, int64_t id, char name[REMOTE_NAME_MAX + 1], uid_t *uid)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, WHO)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "remote.token",
				      "no live credential has this secret");
	snprintf(name, REMOTE_NAME_MAX + 1, "%s", stmt_get_text(q, 0));
	*uid = (uid_t)stmt_get_int(q, 1);
	stmt_done(q);
	return 0;
}

int
remote_reaches(struct store *db, int64_t id, int64_t session, const char *verb)
{
	struct stmt *q;
	int64_t may;

	if ((q = store_sql(db, REACH)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_int(q, ":session", session);
	stmt_text(q, ":verb", verb);
	if ((may = stmt_value(q, 0)) == 1)
		return 0;
	if (may == 0)
		return refusal_set(
		    store_refusal(db), "remote.verb", "this credential does not allow that");
	return refusal_set(
	    store_refusal(db), "session.unknown", "there is no session of this name");
}
