/* directive.c: what a Host orders, taken and kept on the box. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state/beat.h"

/* How many directives there are, and whether the answer has its form. */
static const char FORM[] =
    "SELECT json_array_length(:answer, '$.directives'),"
    "  json_type(:answer) = 'object' AND json_type(:answer, '$.directives') = 'array'"
    "  AND json_type(:answer, '$.heard') = 'array'"
    "  AND json_array_length(:answer, '$.directives')"
    "      <= (SELECT high FROM setting WHERE name = 'order.batch')"
    "  AND NOT EXISTS (SELECT 1 FROM json_each(:answer, '$.heard')"
    "                   WHERE type <> 'text' OR length(value) <> 32)"
    "  AND NOT EXISTS (SELECT 1 FROM json_each(:answer, '$.directives')"
    "    WHERE CASE WHEN type = 'object' THEN json_type(value, '$.terms') IS NOT 'text'"
    "       OR json_type(value, '$.signature') IS NOT 'text' OR length(value ->> '$.signature') <> 128"
    "      ELSE 1 END)";

static const char ACTING[] = "SELECT acting()";

static const char SERVED[] = "SELECT s.active, s.state, s.host FROM pairing_status AS s"
			     " WHERE s.id = :pairing";

static const char HEARD[] =
    "DELETE FROM directive_untold WHERE directive_id IN (SELECT d.id FROM directive AS d"
    "  JOIN json_each(:answer, '$.heard') AS h ON h.value = d.nonce WHERE d.pairing_id = :pairing)";

static const char ONE[] = "SELECT value ->> '$.terms', value ->> '$.signature'"
			  "  FROM json_each(:answer, '$.directives') WHERE key = :i";

/* What is no JSON has no order in it; the trigger says so. */
static const char TAKE[] =
    "INSERT INTO directive (pairing_id, nonce, kind, terms, signature, signer, taken_at)"
    " SELECT id, coalesce(CASE WHEN json_valid(:terms) THEN :terms ->> '$.order' END, ''),"
    "    coalesce(CASE WHEN json_valid(:terms) THEN :terms ->> '$.kind' END, ''),"
    "    :terms, :signature, host_key, now_ms()"
    "  FROM pairing WHERE id = :pairing";

static const char TRY[] =
    "INSERT INTO rotation_endpoint (pairing_id, ord, endpoint, directive_id)"
    " SELECT d.pairing_id, e.key + 1, coalesce(endpoint_text(e.value), ''), d.id"
    "  FROM directive AS d JOIN json_each(d.terms, '$.endpoints') AS e"
    " WHERE d.id = :id AND d.kind = 'rotate' ORDER BY e.key";

static const char REFUSE[] = "UPDATE directive SET state = 'refused', ended_at = now_ms(),"
			     "  result = json_object('code', :code, 'why', :why) WHERE id = :id";

static const char REFUSED[] =
    "INSERT INTO refused (at, pairing_id, surface, asked, code, why)"
    " SELECT now_ms(), :pairing, 'lane', 'order', code, :why FROM refusal WHERE code = :code";

static const char UNTOLD[] = "SELECT count(*) FROM directive_untold WHERE pairing_id = :pairing";

static const char FRESH[] =
    "SELECT EXISTS (SELECT 1 FROM rotation_endpoint"
    "  WHERE pairing_id = :pairing AND endpoint = endpoint_text(:endpoint))";

static const char REACHED[] =
    "UPDATE directive SET state = 'done', ended_at = now_ms(),"
    "    result = json_object('endpoint', endpoint_text(:endpoint))"
    " WHERE id = (SELECT directive_id FROM rotation_endpoint"
    "              WHERE pairing_id = :pairing AND endpoint = endpoint_text(:endpoint))";

/* An answer on its way. */
struct answer {
	int64_t pairing_id;
	const char *text;
	size_t len;
	struct directive_taken *taken;
};

static struct stmt *
of_pairing(struct store *db, const char *sql, int64_t pairing_id)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) != NULL)
		stmt_int(q, ":pairing", pairing_id);
	return q;
}

/* Return how many directives there are, or -1. */
static int
answer_check(struct store *db, const struct answer *a)
{
	struct stmt *q;
	int64_t good, n;

	if (a->len > (size_t)store_setting(db, "beat.bytes"))
		return refusal_set(store_refusal(db), "directive.size",
		    "the answer to a beat is longer than the setting beat.bytes allows");
	if ((q = store_sql(db, FORM)) == NULL)
		return -1;
	stmt_text_n(q, ":answer", a->text, a->len);
	if (stmt_step(q) != 1)
		return refusal_set(
		    store_refusal(db), "directive.form", "the answer to a beat is no JSON");
	n = stmt_get_int(q, 0);
	good = stmt_get_int(q, 1);
	stmt_done(q);
	return good ? (int)n
		    : refusal_set(
			  store_refusal(db), "directive.form", "this is no answer to a beat");
}

/* Who acts from now on is the Host, where it is one that is served. */
static int
host_acts(struct store *db, int64_t pairing_id)
{
	struct refusal *r = store_refusal(db);
	struct stmt *q;
	int rc = 0;

	if ((q = of_pairing(db, SERVED, pairing_id)) == NULL || (rc = stmt_step(q)) == -1)
		return -1;
	if (rc == 0)
		return refusal_set(r, "pairing.inactive", "this Host has no active pairing here");
	if (stmt_get_int(q, 0) == 1)
		store_acting(db, "host:%s", stmt_get_text(q, 2));
	else if (strcmp(stmt_get_text(q, 1), "invalid") == 0)
		rc = refusal_set(r, "pairing.invalid", "this pairing is not served");
	else
		rc = refusal_set(r, "pairing.inactive", "this Host has no active pairing here");
	stmt_done(q);
	return rc == 1 ? 0 : -1;
}

static int
insert_one(struct store *db, const struct answer *a, const char *terms, const char *hex)
{
	unsigned char signature[64];
	struct stmt *q;
	size_t n = 0;

	if (sodium_hex2bin(signature, sizeof(signature), hex, strlen(hex), NULL, &n, NULL) != 0 ||
	    n != sizeof(signature))
		return refusal_set(
		    store_refusal(db), "directive.form", "a signature is 128 hexadecimal digits");
	if ((q = of_pairing(db, TAKE, a->pairing_id)) == NULL)
		return -1;
	stmt_text(q, ":terms", terms);
	stmt_blob(q, ":signature", signature, sizeof(signature));
	return stmt_run_one(q);
}

static int
refuse_write(struct store *db, const char *sql, const char *name, int64_t id)
{
	struct refusal r = *store_refusal(db);
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return -1;
	stmt_int(q, name, id);
	stmt_text(q, ":code", r.code);
	stmt_text(q, ":why", r.why);
	return stmt_run(q);
}

/* The endpoints of an order that stands are tried from now on, all of them or none. */
static int
endpoints_try(struct store *db, int64_t id)
{
	struct stmt *q;

	if (store_savepoint(db) != 0 || (q = store_sql(db, TRY)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	if (stmt_run(q) == 0)
		return store_release(db);
	store_undo(db);
	return refuse_write(db, REFUSE, ":id", id);
}

/* Take one; what holds nothing leaves its row among the refused, unless it is here already. */
static int
take_one(struct store *db, const struct answer *a, const char *terms, const char *hex)
{
	if (store_savepoint(db) != 0)
		return -1;
	if (insert_one(db, a, terms, hex) == 0) {
		int64_t id = store_last_id(db);

		a->taken->taken++;
		return store_release(db) != 0 ? -1 : endpoints_try(db, id);
	}
	store_undo(db);
	if (!refusal_decides(store_refusal(db)))
		return -1;
	if (strcmp(store_refusal(db)->code, "directive.again") == 0) {
		a->taken->again++;
		return 0;
	}
	a->taken->refused++;
	return refuse_write(db, REFUSED, ":pairing", a->pairing_id);
}

static int
take_nth(struct store *db, const struct answer *a, int i)
{
	char hex[129], *terms;
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, ONE)) == NULL)
		return -1;
	stmt_text_n(q, ":answer", a->text, a->len);
	stmt_int(q, ":i", i);
	if (stmt_step(q) != 1)
		return -1;
	terms = strdup(stmt_get_text(q, 0));
	snprintf(hex, sizeof(hex), "%s", stmt_get_text(q, 1));
	stmt_done(q);
	if (terms == NULL)
		return refusal_set(store_refusal(db), "store.failed", "out of memory");
	rc = take_one(db, a, terms, hex);
	free(terms);
	return rc;
}

static int
untold(struct store *db, const struct answer *a)
{
	return (int)stmt_value(of_pairing(db, UNTOLD, a->pairing_id), 0);
}

/* A Host that hears nothing of what it is told is told again with time, not at once. */
static int
take_all(struct store *db, const struct answer *a, int n)
{
	int i, before = untold(db, a), unheard, now;
	struct stmt *q;

	if ((q = of_pairing(db, HEARD, a->pairing_id)) == NULL)
		return -1;
	stmt_text_n(q, ":answer", a->text, a->len);
	if (stmt_run(q) != 0)
		return -1;
	unheard = untold(db, a);
	for (i = 0; i < n; i++)
		if (take_nth(db, a, i) != 0)
			return -1;
	now = untold(db, a);
	a->taken->results = unheard < before || now > unheard ? now : 0;
	return 0;
}

static int
answer_take(struct store *db, const struct answer *a)
{
	int n;

	if (host_acts(db, a->pairing_id) != 0 || (n = answer_check(db, a)) == -1 ||
	    store_begin(db) != 0)
		return -1;
	if (take_all(db, a, n) != 0)
		return store_rollback(db);
	return store_commit(db);
}

int
directive_take(struct store *db, int64_t pairing_id, const char *answer, size_t len,
    struct directive_taken *taken)
{
	struct answer a = {pairing_id, answer, len, taken};
	char acting[176];
	struct stmt *q;
	int rc;

	memset(taken, 0, sizeof(*taken));
	if ((q = store_sql(db, ACTING)) == NULL || stmt_step(q) != 1)
		return -1;
	snprintf(acting, sizeof(acting), "%s", stmt_get_text(q, 0));
	stmt_done(q);
	rc = answer_take(db, &a);
	store_acting(db, "%s", acting);
	return rc;
}

int
endpoint_reached(struct store *db, int64_t pairing_id, const char *endpoint)
{
	struct stmt *q;

	if ((q = of_pairing(db, FRESH, pairing_id)) == NULL)
		return -1;
	stmt_text(q, ":endpoint", endpoint);
	if (stmt_value(q, 0) != 1)
		return 0;
	if (store_begin(db) != 0)
		return -1;
	if ((q = of_pairing(db, REACHED, pairing_id)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":endpoint", endpoint);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	return store_commit(db) == 0 ? 1 : -1;
}
