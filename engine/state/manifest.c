/* manifest.c: rows of ops that a person adds. */
#include <stdio.h>
#include <string.h>

#include "engine/state/factor.h"
#include "engine/state/manifest.h"

static const char FILES[] =
    "SELECT coalesce(json_type(:text) = 'object', 0), iif(json_type(:text, '$.program') = 'text',"
    "    :text ->> '$.program', ''),"
    "  iif(coalesce(:text ->> '$.interpreter', 'none') = 'none'"
    "      OR json_type(:text, '$.interpreter') <> 'text', '', :text ->> '$.interpreter')";

/* All that comes from the manifest stands as JSON, so it cannot pose as a line. */
static const char TERMS[] =
    "SELECT 'bastion op 2' || char(10) || 'machine: ' || b.name || char(10)"
    "    || 'key: ' || lower(hex(b.identity_key)) || char(10)"
    "    || 'op: ' || coalesce(m.t -> '$.name', 'null') || char(10)"
    "    || 'program: ' || iif(:program = '', 'none', (m.t -> '$.program') || ', sha256 '"
    "           || iif(:source = '', :program, :source)) || char(10)"
    "    || iif(:source = '', '', 'builder: ' || (m.t -> '$.builder') || ', sha256 ' || :builder || char(10)"
    "           || 'built: sha256 ' || :program || char(10))"
    "    || 'interpreter: ' || iif(:interpreter = '', 'none',"
    "           (m.t -> '$.interpreter') || ', sha256 ' || :interpreter) || char(10)"
    "    || 'sees: ' || coalesce(m.t -> '$.reads', '[]') || char(10)"
    "    || 'changes: ' || coalesce(m.t -> '$.writes', '[]') || char(10)"
    "    || 'reaches: ' || coalesce(m.t -> '$.destinations', '[]') || char(10)"
    "    || 'credential: ' || coalesce(m.t -> '$.credential', 'none') || char(10)"
    "    || 'verbs: ' || coalesce(m.t -> '$.verbs', '[]') || char(10)"
    "    || 'words: ' || coalesce(m.t -> '$.params', '[]') || char(10)"
    "    || 'manifest: ' || m.t || char(10)"
    "    || 'change: ' || (SELECT coalesce(max(id), 0) + 1 FROM op_manifest) || char(10)"
    "    || (SELECT text FROM restored_line)"
    "  FROM box AS b, (SELECT json(:text) AS t) AS m";

static const char ADD[] =
    "INSERT INTO op_manifest (name, manifest, program_sha256, interpreter_sha256, factor_id, by_uid,"
    "    created_at, seal)"
    " SELECT m.name, m.t, m.p, m.i, :factor, :by, now_ms(),"
    "    seal_sign('manifest', json_array('manifest', m.name, m.t, m.p, m.i, :factor, :by, now_ms()))"
    "  FROM (SELECT json(:text) AS t, coalesce(:text ->> '$.name', '') AS name,"
    "               nullif(:program, '') AS p, nullif(:interpreter, '') AS i) AS m";

static const char BUILT[] =
    "INSERT INTO op_built (manifest_id, source_sha256, builder_sha256, program)"
    " VALUES (:id, :source, :builder, :built)";

/* (The form is looked at when it is added: what is run before that is no more than words.) */
static const char BUILDER[] =
    "SELECT iif(type = 'text' AND length(value) BETWEEN 1 AND 255, value, '')"
    "  FROM json_each(:text, '$.builder')";

static const char DROP[] = "UPDATE op_manifest SET state = 'dropped', ended_at = now_ms(),"
			   "  end_reason = 'dropped at this machine'"
			   " WHERE name = :name AND state = 'active' RETURNING id";

static int
is_object(struct store *db, struct stmt *q)
{
	return stmt_get_int(q, 0) != 0
		   ? 0
		   : refusal_set(store_refusal(db), "manifest.form", "a manifest is a JSON object");
}

int
manifest_files(struct store *db, const char *text, char *program, char *interpreter, size_t size)
{
	struct stmt *q;
	int rc;

	if ((q = store_sql(db, FILES)) == NULL)
		return -1;
	stmt_text(q, ":text", text);
	if (stmt_step(q) != 1)
		return refusal_set(
		    store_refusal(db), "manifest.form", "a manifest is a JSON object");
	if ((rc = is_object(db, q)) == 0 &&
	    ((size_t)snprintf(program, size, "%s", stmt_get_text(q, 1)) >= size ||
		(size_t)snprintf(interpreter, size, "%s", stmt_get_text(q, 2)) >= size))
		rc = refusal_set(store_refusal(db), "manifest.program", "the path is too long");
	stmt_done(q);
	return rc;
}

static void
draft_bind(struct stmt *q, const struct manifest_draft *draft)
{
	stmt_text(q, ":text", draft->text);
	stmt_text(q, ":program", draft->program_sha256);
	stmt_text(q, ":interpreter", draft->interpreter_sha256);
}

int
manifest_builder(
    struct store *db, const char *text, char words[MANIFEST_WORDS_MAX][MANIFEST_WORD_MAX])
{
	struct stmt *q;
	int n = 0, rc;

	if ((q = store_sql(db, BUILDER)) == NULL)
		return -1;
	stmt_text(q, ":text", text);
	while ((rc = stmt_step(q)) == 1 && n < MANIFEST_WORDS_MAX) {
		snprintf(words[n], MANIFEST_WORD_MAX, "%s", stmt_get_text(q, 0));
		if (words[n++][0] == '\0')
			break;
	}
	if (rc == 1)
		stmt_done(q);
	if (rc == -1)
		return -1;
	if (rc == 0 && (n == 0 || (n > 2 && words[0][0] == '/')))
		return n;
	return refusal_set(store_refusal(db), "manifest.builder",
	    "a builder is 3 to %d words: the absolute path of a program, and what it is told",
	    MANIFEST_WORDS_MAX);
}

int
manifest_terms(struct store *db, const struct manifest_draft *draft, char *terms)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(db, TERMS)) == NULL)
		return -1;
	draft_bind(q, draft);
	stmt_text(q, ":source", draft->source_sha256);
	stmt_text(q, ":builder", draft->builder_sha256);
	if (stmt_step(q) != 1)
		return refusal_set(
		    store_refusal(db), "manifest.form", "a manifest is a JSON object");
	n = snprintf(terms, MANIFEST_TERMS_MAX, "%s", stmt_get_text(q, 0));
	stmt_done(q);
	return n < MANIFEST_TERMS_MAX ? 0
				      : refusal_set(store_refusal(db), "manifest.form",
					    "a manifest is at most %d bytes", MANIFEST_MAX);
}

/* Keep what was built, with the op ${id} that was just added. */
static int
keep_built(struct store *db, const struct manifest_draft *draft, int64_t id)
{
	struct stmt *q;

	if (draft->built == NULL)
		return 0;
	if ((q = store_sql(db, BUILT)) == NULL)
		return -1;
	stmt_int(q, ":id", id);
	stmt_text(q, ":source", draft->source_sha256);
	stmt_text(q, ":builder", draft->builder_sha256);
	stmt_blob(q, ":built", draft->built, draft->built_len);
	return stmt_run_one(q);
}

/* Prove the person; a refusal has ended the transaction (factor.h). */
static int
prove(struct store *db, const char *terms, const struct manifest_proof *proof, int64_t *factor)
{
	if (proof->code != NULL)
		return factor_prove_totp(db, proof->key, proof->code, factor);
	if (proof->signature != NULL)
		return factor_prove_ssh(db, terms, strlen(terms), proof->signature, factor);
	refusal_set(store_refusal(db), "manifest.factor", "a factor has to prove who adds an op");
	return store_rollback(db);
}

int
manifest_add(struct store *db, const struct manifest_draft *draft,
    const struct manifest_proof *proof, int64_t *id)
{
	static char terms[MANIFEST_TERMS_MAX];
	int64_t factor;
	struct stmt *q;

	if (store_begin(db) != 0)
		return -1;
	if (manifest_terms(db, draft, terms) != 0)
		return store_rollback(db);
	if (prove(db, terms, proof, &factor) != 0)
		return -1;
	if ((q = store_sql(db, ADD)) == NULL)
		return store_rollback(db);
	draft_bind(q, draft);
	stmt_int(q, ":factor", factor);
	stmt_int(q, ":by", proof->by_uid);
	if (stmt_run_one(q) != 0)
		return store_rollback(db);
	*id = store_last_id(db);
	return keep_built(db, draft, *id) == 0 ? store_commit(db) : store_rollback(db);
}

int
manifest_drop(struct store *db, const char *name)
{
	struct stmt *q;
	int n;

	if (store_begin(db) != 0)
		return -1;
	if ((q = store_sql(db, DROP)) == NULL)
		return store_rollback(db);
	stmt_text(q, ":name", name);
	if ((n = stmt_step(q)) == 1) {
		stmt_done(q);
		return store_commit(db);
	}
	if (n == 0)
		refusal_set(
		    store_refusal(db), "manifest.unknown", "no op of this name was added here");
	return store_rollback(db);
}
