/* amendment.c: run a person's SQL under the rules, see what it does, and make it or not. */
#define SQLITE_ENABLE_PREUPDATE_HOOK
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/clock.h"
#include "engine/state/amendment.h"
#include "engine/state/factor.h"
#include "engine/store/role.h"

#define PROGRESS_STEPS 1000               /* of SQLite's machine between two looks at the clock */
#define VALUE_BYTES    (16 * 1024 * 1024) /* of one value: making a larger one takes no steps */

/* Columns as a changed row has them: generated ones are not kept, so they are not among them. */
static const char COLUMNS[] = "SELECT t.name, c.name, c.pk > 0"
			      "  FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c"
			      " WHERE t.type = 'table' AND t.name NOT GLOB 'audit_*'"
			      "   AND t.name NOT GLOB 'sqlite_*' ORDER BY t.name, c.cid";

static const char ASK[] = "INSERT INTO amendment (nonce, box_name, reason, statement, asked_at,"
			  "    expires_at)"
			  " SELECT :nonce, name, :reason, :statement, now_ms(), now_ms() + (SELECT"
			  "    value FROM setting WHERE name = 'amendment.ttl_ms') FROM box";

static const char OPEN[] = "SELECT state = 'pending', expires_at > now_ms(), sha256(terms) IS "
			   ":digest, terms, statement FROM amendment WHERE id = :id";

static const char DROP[] =
    "UPDATE amendment SET state = 'dropped', ended_at = now_ms() WHERE id = :id";

static const char RUN[] =
    "UPDATE amendment SET state = 'running', factor_id = :factor, decided_digest = :digest,"
    "    decided_by_uid = :uid, decided_by = :by,"
    "    after_seq = (SELECT coalesce(max(seq), 0) FROM audit) WHERE id = :id";

static const char COUNT[] = "SELECT json_set(:changes, '$.' || json_quote(:table),"
			    "    json_object('inserted', :inserted, 'updated', :updated,"
			    "                'deleted', :deleted))";

static const char DONE[] = "UPDATE amendment SET state = 'done', changes = :changes,"
			   "    ended_at = now_ms() WHERE id = :id";

/* The trigger that says ${text}; where several do, any is as good. */
static const char TRIGGER[] =
    "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'trigger'"
    "   AND instr(sql, '''' || replace(:text, '''', '''''') || '''') > 0 ORDER BY name";

/* One run of a text. */
struct run {
	struct store *db;
	struct amendment_change *change;
	crypto_generichash_state digest;
	int64_t now, until_ms; /* of the transaction; of a clock that only goes on */
	bool expired;
};

static int64_t
steady_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static struct amendment_table *
table_named(struct amendment_change *change, const char *name)
{
	size_t i;

	for (i = 0; i < change->count; i++)
		if (strcmp(change->tables[i].name, name) == 0)
			return &change->tables[i];
	return NULL;
}

/* The tables and columns that there are; while SQLite tells of a change it cannot be asked. */
static int
columns_load(struct store *db, struct amendment_change *change)
{
	struct amendment_table *t = NULL;
	struct amendment_column *c;
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, COLUMNS)) == NULL)
		return -1;
	while ((rc = stmt_step(q)) == 1) {
		if (t == NULL || strcmp(t->name, stmt_get_text(q, 0)) != 0) {
			if (change->count == AMENDMENT_TABLES)
				break;
			t = &change->tables[change->count++];
			snprintf(t->name, sizeof(t->name), "%s", stmt_get_text(q, 0));
		}
		if (t->count == AMENDMENT_CELLS)
			break;
		c = &t->columns[t->count++];
		snprintf(c->name, sizeof(c->name), "%s", stmt_get_text(q, 1));
		c->key = stmt_get_int(q, 2) != 0;
		c->secret = !role_reads(ROLE_AMEND, t->name, c->name);
	}
	if (rc == 1) {
		stmt_done(q);
		return refusal_set(store_refusal(db), "store.failed",
		    "the schema has more tables or columns than an amendment can show");
	}
	return rc;
}

static void
digest_value(struct run *run, sqlite3_value *v)
{
	unsigned char type = v == NULL ? 0 : (unsigned char)sqlite3_value_type(v);
	const void *bytes;
	int n;

	if (type == SQLITE_INTEGER && sqlite3_value_int64(v) == run->now)
		type = 'n';
	crypto_generichash_update(&run->digest, &type, 1);
	if (v == NULL || type == 'n')
		return;
	bytes = type == SQLITE_BLOB ? sqlite3_value_blob(v) : (const void *)sqlite3_value_text(v);
	n = sqlite3_value_bytes(v);
	crypto_generichash_update(&run->digest, (const unsigned char *)&n, sizeof(n));
	if (n > 0)
		crypto_generichash_update(&run->digest, bytes, (unsigned)n);
}

static bool
values_equal(sqlite3_value *a, sqlite3_value *b)
{
	int type, n;

	if (a == NULL || b == NULL)
		return a == b;
	if ((type = sqlite3_value_type(a)) != sqlite3_value_type(b))
		return false;
	if (type == SQLITE_NULL)
		return true;
	if (type == SQLITE_INTEGER)
		return sqlite3_value_int64(a) == sqlite3_value_int64(b);
	if (type == SQLITE_FLOAT)
		return sqlite3_value_double(a) == sqlite3_value_double(b);
	n = sqlite3_value_bytes(a);
	return n == sqlite3_value_bytes(b) &&
	       (n == 0 || memcmp(sqlite3_value_blob(a), sqlite3_value_blob(b), (size_t)n) == 0);
}

/* Keep what is shown of a changed row; a secret is not. */
static void
cell_keep(struct amendment_row *row, const struct amendment_column *c, sqlite3_value *from,
    sqlite3_value *to)
{
	struct amendment_cell *cell = &row->cells[row->count++];

	cell->column = c->name;
	cell->key = c->key;
	cell->changed = !values_equal(from, to);
	cell->from = c->secret || from == NULL ? NULL : sqlite3_value_dup(from);
	cell->to = c->secret || to == NULL ? NULL : sqlite3_value_dup(to);
}

static void
row_changes(void *ctx, sqlite3 *handle, int op, const char *database, const char *name,
    sqlite3_int64 from_rowid, sqlite3_int64 to_rowid)
{
	struct run *run = ctx;
	struct amendment_table *t = table_named(run->change, name);
	struct amendment_row *row = NULL;
	int i, n = sqlite3_preupdate_count(handle);

	(void)database;
	(void)from_rowid;
	(void)to_rowid;
	if (t == NULL) /* of the audit's family */
		return;
	*(op == SQLITE_INSERT     ? &t->inserted
	    : op == SQLITE_UPDATE ? &t->updated
				  : &t->deleted) += 1;
	if (strcmp(name, "audit") == 0)
		return;
	run->change->rows++;
	if (op == SQLITE_UPDATE && t->shown < AMENDMENT_ROWS)
		row = &t->rows[t->shown++];
	crypto_generichash_update(&run->digest, (const unsigned char *)name, strlen(name) + 1);
	crypto_generichash_update(&run->digest, (const unsigned char *)&op, sizeof(op));
	for (i = 0; i < n && (size_t)i < t->count; i++) {
		sqlite3_value *from = NULL, *to = NULL;

		if (op != SQLITE_INSERT)
			sqlite3_preupdate_old(handle, i, &from);
		if (op != SQLITE_DELETE)
			sqlite3_preupdate_new(handle, i, &to);
		digest_value(run, from);
		digest_value(run, to);
		if (row != NULL)
			cell_keep(row, &t->columns[i], from, to);
	}
}

void
amendment_free(struct amendment_change *change)
{
	struct amendment_table *t;
	size_t i, j;

	for (t = change->tables; t < change->tables + change->count; t++)
		for (i = 0; i < t->shown; i++)
			for (j = 0; j < t->rows[i].count; j++) {
				sqlite3_value_free(t->rows[i].cells[j].from);
				sqlite3_value_free(t->rows[i].cells[j].to);
			}
	memset(change, 0, sizeof(*change));
}

static int
look_at_clock(void *ctx)
{
	struct run *run = ctx;

	return run->expired = run->expired || steady_ms() > run->until_ms;
}

static int
refuse_amendment(struct run *run, int number, const char *why)
{
	char tables[256];

	role_amends(tables, sizeof(tables));
	return refusal_set(store_refusal(run->db), "amendment.refused",
	    "statement %d: %s; an amendment may only UPDATE %s", number, why, tables);
}

/* A rule held it: say which, by name. */
static int
refuse_rule(struct run *run, int number, const char *text)
{
	struct refusal *r = store_refusal(run->db);
	const char *bar = strchr(text, '|');
	char code[REFUSAL_CODE_MAX];
	struct stmt *q;
	int rc = -1;

	if (bar == NULL)
		return refusal_set(r, "amendment.constraint", "statement %d: %s", number, text);
	snprintf(code, sizeof(code), "%.*s", (int)(bar - text), text);
	if ((q = store_sql(run->db, TRIGGER)) != NULL) {
		stmt_text(q, ":text", text);
		if (stmt_step(q) == 1) {
			rc = refusal_set(r, code, "statement %d: %s (trigger %s on %s)", number,
			    bar + 1, stmt_get_text(q, 0), stmt_get_text(q, 1));
			stmt_done(q);
			return rc;
		}
	}
	return refusal_set(r, code, "statement %d: %s", number, bar + 1);
}

/* A write that was denied has a name; SQLite says the others'. */
static const char *
denied_by_role(const char *text)
{
	static char why[128];

	if (strcmp(text, "not authorized") != 0 || role_denied()[0] == '\0')
		return text;
	snprintf(why, sizeof(why), "%s is refused", role_denied());
	return why;
}

/* What SQLite says to the statement, in our words. */
static int
statement_failed(struct run *run, int number, int rc)
{
	struct refusal *r = store_refusal(run->db);
	char text[REFUSAL_WHY_MAX];

	snprintf(text, sizeof(text), "%s", sqlite3_errmsg(store_handle(run->db)));
	switch (rc & 0xff) {
	case SQLITE_INTERRUPT:
		return refusal_set(r, "amendment.time",
		    "statement %d: it did not end within the setting amendment.time_ms", number);
	case SQLITE_CONSTRAINT:
		return refuse_rule(run, number, text);
	case SQLITE_AUTH:
		return refuse_amendment(run, number, denied_by_role(text));
	case SQLITE_ERROR:
		/* Some of what is held comes as a plain error, and only its words tell. */
		if (strncmp(text, "not authorized", 14) == 0 ||
		    strstr(text, "prohibited") != NULL || strstr(text, "may not be") != NULL)
			return refuse_amendment(run, number, text);
		return refusal_set(r, "sql.error", "statement %d: %s", number, text);
	case SQLITE_FULL:
		return refusal_set(r, "store.full", "the database answered: %s", text);
	default:
		return refusal_set(r, "store.failed", "the database answered: %s", text);
	}
}

/* What is not shown cannot be approved; what is not a change is none. */
static int
statement_allowed(struct run *run, int number, sqlite3_stmt *stmt)
{
	if (sqlite3_bind_parameter_count(stmt) > 0)
		return refuse_amendment(run, number, "it has parameters, which nobody could see");
	if (sqlite3_stmt_readonly(stmt))
		return refuse_amendment(run, number, "it changes nothing");
	if (sqlite3_column_count(stmt) > 0)
		return refuse_amendment(run, number, "it answers rows (RETURNING)");
	return 0;
}

/* Run the statement at ${at}; store where the next one is. */
static int
statement_run(struct run *run, int number, const char *at, const char **next)
{
	sqlite3 *handle = store_handle(run->db);
	sqlite3_stmt *stmt;
	int rc;

	if ((rc = sqlite3_prepare_v2(handle, at, -1, &stmt, next)) != SQLITE_OK)
		return statement_failed(run, number, rc);
	if (stmt == NULL)
		return 0;
	if (statement_allowed(run, number, stmt) != 0) {
		sqlite3_finalize(stmt);
		return -1;
	}
	if ((rc = sqlite3_step(stmt)) != SQLITE_DONE)
		statement_failed(run, number, rc);
	sqlite3_finalize(stmt);
	if (rc != SQLITE_DONE)
		return -1;
	return sqlite3_get_autocommit(handle) == 0
		   ? 0
		   : refuse_amendment(run, number, "it ended the transaction");
}

static int
text_run(struct run *run, const char *text)
{
	const char *at = text, *next = text;
	int number, rc = 0;

	if (store_shows(run->db, text) != 0)
		return -1;
	if (role_forces(text))
		return refuse_amendment(run, 1, "OR IGNORE and its like would hold for the rules");
	for (number = 1; rc == 0 && *at != '\0'; number++, at = next)
		rc = statement_run(run, number, at, &next);
	return rc;
}

/* Within a transaction, see to it that nothing but the statements runs with the rights of one. */
static int
amendment_run(struct store *db, const char *text, struct amendment_change *change)
{
	sqlite3 *handle = store_handle(db);
	struct run run = {.db = db, .change = change, .now = store_now(db)};
	int rc, most;

	memset(change, 0, sizeof(*change));
	if (columns_load(db, change) != 0)
		return -1;
	run.until_ms = steady_ms() + store_setting(db, "amendment.time_ms");
	crypto_generichash_init(&run.digest, NULL, 0, AMENDMENT_DIGEST);
	most = sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, VALUE_BYTES);
	store_become(db, ROLE_AMEND);
	sqlite3_preupdate_hook(handle, row_changes, &run);
	sqlite3_progress_handler(handle, PROGRESS_STEPS, look_at_clock, &run);
	rc = text_run(&run, text);
	sqlite3_progress_handler(handle, 0, NULL, NULL);
	sqlite3_preupdate_hook(handle, NULL, NULL);
	store_become(db, ROLE_PERSON);
	sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, most);
	crypto_generichash_final(&run.digest, change->digest, AMENDMENT_DIGEST);
	if (rc == 0 && change->rows == 0)
		rc = refusal_set(
		    store_refusal(db), "amendment.nothing", "no row would be another than it is");
	if (rc != 0)
		amendment_free(change);
	return rc;
}

int
amendment_try(struct store *db, const char *statement, struct amendment_change *change)
{
	int rc;

	if (store_begin(db) != 0)
		return -1;
	rc = amendment_run(db, statement, change);
	store_rollback(db);
	return rc;
}

int
amendment_ask(struct store *db, const char *reason, const char *statement, int64_t *id)
{
	char nonce[33];
	struct stmt *q;

	random_hex(nonce);
	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, ASK)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":nonce", nonce);
	stmt_text(q, ":reason", reason);
	stmt_text(q, ":statement", statement);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	*id = store_last_id(db);
	return store_commit(db);
}

int
amendment_drop(struct store *db, int64_t id)
{
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, DROP)) == NULL)
		return store_rollback(db);
	stmt_int(q, ":id", id);
	return stmt_run_one(q) == 0 ? store_commit(db) : store_rollback(db);
}

/* What stands in the way, before a proof is looked at; the triggers say it again. */
static int
terms_refused(struct store *db, struct stmt *q)
{
	struct refusal *r = store_refusal(db);

	if (stmt_get_int(q, 0) == 0)
		return refusal_set(r, "amendment.decided", "this amendment was made or given up");
	if (stmt_get_int(q, 1) == 0)
		return refusal_set(
		    r, "amendment.expired", "this amendment ran out before it was approved");
	if (stmt_get_int(q, 2) == 0)
		return refusal_set(r, "amendment.terms", "what was shown is not what is asked");
	return 0;
}

/* Look at the amendment; store copies of its terms and statement, for the caller to free. */
static int
terms_look(struct store *db, const struct approval_answer *answer, char **terms, char **statement)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, OPEN)) == NULL)
		return -1;
	stmt_int(q, ":id", answer->id);
	stmt_blob(q, ":digest", answer->digest, AMENDMENT_DIGEST);
	if ((rc = stmt_step(q)) != 1)
		return rc == -1 ? -1
				: refusal_set(store_refusal(db), "amendment.unknown",
				      "there is no amendment of this number");
	if ((rc = terms_refused(db, q)) == 0) {
		*terms = strdup(stmt_get_text(q, 3));
		*statement = strdup(stmt_get_text(q, 4));
		if (*terms == NULL || *statement == NULL)
			rc = refusal_set(store_refusal(db), "store.failed", "out of memory");
	}
	stmt_done(q);
	return rc;
}

/* On failure of the proof no transaction is open any more. */
static int
answer_prove(
    struct store *db, const struct approval_answer *answer, const char *terms, int64_t *factor)
{
	return answer->code != NULL
		   ? factor_prove_totp(db, answer->key, answer->code, factor)
		   : factor_prove_ssh(db, terms, strlen(terms), answer->signature, factor);
}

static int
amendment_begin(struct store *db, const struct approval_answer *answer, int64_t factor)
{
	struct stmt *q;

	if ((q = store_sql(db, RUN)) == NULL)
		return -1;
	stmt_int(q, ":id", answer->id);
	stmt_int(q, ":factor", factor);
	stmt_blob(q, ":digest", answer->digest, AMENDMENT_DIGEST);
	stmt_int(q, ":uid", answer->uid);
	stmt_text(q, ":by", answer->name);
	return stmt_run_one(q);
}

/* The counts of ${t}, put into the object ${*changes}, which is freed for a new one. */
static int
count_add(struct store *db, const struct amendment_table *t, char **changes)
{
	char *more = NULL;
	struct stmt *q;

	if ((q = store_sql(db, COUNT)) == NULL)
		return -1;
	stmt_text(q, ":changes", *changes);
	stmt_text(q, ":table", t->name);
	stmt_int(q, ":inserted", t->inserted);
	stmt_int(q, ":updated", t->updated);
	stmt_int(q, ":deleted", t->deleted);
	if (stmt_step(q) != 1)
		return -1;
	more = strdup(stmt_get_text(q, 0));
	stmt_done(q);
	if (more == NULL)
		return refusal_set(store_refusal(db), "store.failed", "out of memory");
	free(*changes);
	*changes = more;
	return 0;
}

static int
amendment_end(struct store *db, int64_t id, const struct amendment_change *change)
{
	const struct amendment_table *t;
	char *changes = strdup("{}");
	struct stmt *q;
	int rc = changes == NULL ? -1 : 0;

	for (t = change->tables; rc == 0 && t < change->tables + change->count; t++)
		if (t->inserted + t->updated + t->deleted > 0 && strcmp(t->name, "audit") != 0)
			rc = count_add(db, t, &changes);
	if (rc == 0 && (q = store_sql(db, DONE)) != NULL) {
		stmt_int(q, ":id", id);
		stmt_text(q, ":changes", changes);
		rc = stmt_run_one(q);
	} else {
		rc = -1;
	}
	free(changes);
	return rc;
}

/* In the open transaction, with the person proved. */
static int
amendment_carry(struct store *db, const struct approval_answer *answer, int64_t factor,
    const char *statement, const unsigned char seen[AMENDMENT_DIGEST],
    struct amendment_change *change)
{
	if (amendment_begin(db, answer, factor) != 0 || amendment_run(db, statement, change) != 0)
		return -1;
	if (memcmp(change->digest, seen, AMENDMENT_DIGEST) != 0)
		return refusal_set(store_refusal(db), "amendment.changed",
		    "it would not do any more what was shown: somebody else wrote meanwhile");
	return amendment_end(db, answer->id, change);
}

int
amendment_make(struct store *db, const struct approval_answer *answer,
    const unsigned char seen[AMENDMENT_DIGEST], struct amendment_change *change)
{
	char *terms = NULL, *statement = NULL;
	int64_t factor;
	int rc = -1;

	memset(change, 0, sizeof(*change));
	if (answer->name == NULL)
		return refusal_set(store_refusal(db), "approval.person",
		    "the user directory did not say in time who you are");
	if (store_begin(db) != 0)
		return -1;
	if (terms_look(db, answer, &terms, &statement) != 0)
		store_rollback(db);
	else if (answer_prove(db, answer, terms, &factor) == 0)
		rc = amendment_carry(db, answer, factor, statement, seen, change) == 0
			 ? store_commit(db)
			 : store_rollback(db);
	free(terms);
	free(statement);
	return rc;
}
