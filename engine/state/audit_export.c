/* audit_export.c: the chain as lines of text, written and read back. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>
#include <sqlite3.h>

#include "engine/crypto/base64.h"
#include "engine/crypto/sha256.h"
#include "engine/state/audit_export.h"
#include "engine/state/audit_tree.h"

/* The body stands as text, since the hash covers its exact bytes. */
#define ROW_LINE                                                                            \
	"json_object('seq', seq, 'at', at, 'stream', stream, 'who', who, 'entity', entity," \
	"            'id', entity_id, 'action', action, 'pairing', pairing, 'body', body,"  \
	"            'prev', lower(hex(prev)), 'hash', lower(hex(hash)))"
#define RANGE " seq >= :since AND seq <= :until"

static const char EXPORT_JSONL[] =
    "SELECT seq, 0 AS kind, " ROW_LINE ", NULL, NULL FROM audit WHERE" RANGE " UNION ALL "
    "SELECT seq, 1,"
    "       json_object('seal', seq, 'at', at, 'reason', reason, 'head', lower(hex(head)),"
    "                   'signature', lower(hex(signature))), NULL, NULL"
    "  FROM audit_seal WHERE" RANGE " UNION ALL "
    "SELECT size, 2, NULL, root, signature FROM audit_checkpoint"
    " WHERE size >= max(:since, (SELECT min(seq) FROM audit)) AND size <= :until"
    " ORDER BY 1, 2";

static const char EXPORT_NOTE[] = "SELECT json_object('checkpoint', :size, 'note', :note)";

static const char EXPORT_ROW[] = "SELECT " ROW_LINE " FROM audit WHERE seq = :seq";

static const char EXPORT_BASE[] =
    "SELECT json_object('base', seq - 1, 'head', lower(hex(prev)), 'tree', json(:tree))"
    "  FROM audit WHERE seq = :seq";

#define TIME           "strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch')"
#define QUOTED(column) "'\"' || replace(" column ", '\"', '\"\"') || '\"'"

static const char EXPORT_CSV[] =
    "SELECT seq, 0, seq || ',' || " TIME
    " || ',' || stream || ',' || " QUOTED("who") " || ',' || " QUOTED("entity") " || ',' || " QUOTED("entity_id") " || ',' || " QUOTED(
	"action") " || ',' || " QUOTED("pairing") " || ',' || " QUOTED("body") " || ',' || lower(hex(prev)) || ',' || lower(hex(hash)) || char(13)"
									       "  FROM audit WHERE" RANGE
									       " ORDER BY seq";

static const char CSV_HEADER[] = "seq,at,stream,who,entity,id,action,pairing,body,prev,hash\r\n";

/* What became of it, as far as the action says. */
#define OUTCOME                                                                           \
	"CASE WHEN action IN ('failed', 'lost', 'refused', 'denied', 'behind', 'forked')" \
	"     THEN 'failure'"                                                             \
	"     WHEN action IN ('starting', 'queued', 'pending', 'asked', 'sent', 'open',"  \
	"                     'running', 'draining', 'reading', 'stuck') THEN 'unknown'"  \
	"     ELSE 'success' END"

/* CEF escapes: a backslash and a bar in the header, a backslash, an equals sign and line ends
 * behind. */
#define CEF_HEADER(text)                                                        \
	"replace(replace(replace(replace(" text ", '\\', '\\\\'), '|', '\\|')," \
	" char(10), ' '), char(13), ' ')"
#define CEF_VALUE(text)                                                         \
	"replace(replace(replace(replace(" text ", '\\', '\\\\'), '=', '\\=')," \
	" char(10), '\\n'), char(13), '\\r')"
#define CEF_FIELD(key, text) " || iif(" text " = '', '', ' " key "=' || " CEF_VALUE(text) ")"
#define CEF_CUSTOM(n, label, text) \
	" || iif(" text " = '', '', ' cs" n "Label=" label " cs" n "=' || " CEF_VALUE(text) ")"

/* 4000 characters is what the format allows a custom string. */
static const char EXPORT_CEF[] = "SELECT seq, 0, 'CEF:0|bastion|bastion|' || " CEF_HEADER(
    ":version") " || '|'"
		" || " CEF_HEADER(
		    "entity || '.' || action") " || '|'"
					       " || " CEF_HEADER(
						   "entity || ' ' || action") " || '|'"
									      " || iif((" OUTCOME
									      ") = 'failure', 6, 3) || '|rt=' || at || ' externalId=' || seq"
									      " || ' cat=' || stream || ' outcome=' || (" OUTCOME
									      ")" CEF_FIELD("act",
										  "action") CEF_FIELD("suser",
										  "who") CEF_FIELD("dvchost",
										  "box") CEF_CUSTOM("1",
										  "entity",
										  "entity") CEF_CUSTOM("2",
										  "entityId",
										  "entity_id") CEF_CUSTOM("3",
										  "pairing",
										  "pairing") CEF_CUSTOM("4",
										  "hash",
										  "lower(hex(hash))")
										  CEF_CUSTOM("5",
										      "prev",
										      "lower(hex(prev))")
										      CEF_CUSTOM(
											  "6",
											  "body",
											  "substr(body, 1, 4000)") "  FROM audit, (SELECT coalesce((SELECT name FROM box), '') AS box)"
														   " WHERE" RANGE
														   " ORDER BY seq";

/* Allowed values of event.category and, for each, of event.type. */
#define CATEGORY                                                                       \
	"CASE WHEN entity IN ('op_run', 'call', 'instance', 'actor')"                  \
	"     THEN 'process'"                                                          \
	"     WHEN entity = 'refused' THEN 'api'"                                      \
	"     WHEN entity IN ('pairing', 'factor', 'approval', 'grant', 'invitation'," \
	"                     'host_box', 'box', 'box_witness', 'pairing_tls',"        \
	"                     'tls_authority', 'tls_identity', 'box_certificate')"     \
	"     THEN 'iam'"                                                              \
	"     ELSE 'configuration' END"
#define TYPE                                                                               \
	"CASE " CATEGORY " WHEN 'process' THEN CASE"                                       \
	"      WHEN action IN ('starting', 'running', 'sent', 'reading') THEN 'start'"     \
	"      WHEN action IN ('done', 'failed', 'lost', 'cancelled', 'refused', 'ended')" \
	"      THEN 'end' ELSE 'info' END"                                                 \
	" WHEN 'api' THEN 'denied'"                                                        \
	" WHEN 'iam' THEN CASE"                                                            \
	"      WHEN action IN ('created', 'open', 'pending') THEN 'creation'"              \
	"      WHEN action IN ('dropped', 'revoked', 'withdrawn', 'gone') THEN 'deletion'" \
	"      ELSE 'change' END"                                                          \
	" ELSE iif(action = 'changed', 'change', 'info') END"

static const char EXPORT_ECS[] =
    "SELECT seq, 0, json_object('@timestamp', " TIME ", 'ecs', json_object('version', '8.11.0'),"
    " 'message', entity || ' ' || entity_id || ' ' || action,"
    " 'event', json_object('kind', 'event', 'category', json_array(" CATEGORY "),"
    "   'type', json_array(" TYPE "), 'action', entity || '-' || action, 'outcome', " OUTCOME ","
    "   'sequence', seq, 'id', lower(hex(hash)), 'module', 'bastion', 'dataset', 'bastion.audit',"
    "   'hash', lower(hex(hash)), 'original',"
    "   json_array(seq, at, stream, who, entity, entity_id, action, pairing, body) || ''),"
    " 'host', json_object('name', (SELECT name FROM box)),"
    " 'observer', json_object('vendor', 'bastion', 'product', 'bastion', 'version', :version),"
    " 'user', iif(who GLOB 'person:*(*)',"
    "   json_object('name', substr(who, 8, instr(who, '(') - 8),"
    "               'id', rtrim(substr(who, instr(who, '(') + 1), ')')),"
    "   json_object('name', who)),"
    " 'labels', json_patch((SELECT json_group_object('body_' || replace(key, '.', '_'),"
    "                                                CAST(value AS TEXT))"
    "                         FROM json_each(body) WHERE type NOT IN ('null', 'object', 'array')),"
    "   json_object('stream', stream, 'entity', entity, 'entity_id', entity_id,"
    "               'pairing', pairing, 'prev', lower(hex(prev)))))"
    "  FROM audit WHERE" RANGE " ORDER BY seq";

static const char EXPORT_SEALED[] = "SELECT coalesce(max(seq), 0) FROM audit_seal";

static const char EXPORT_KEY[] = "SELECT identity_key FROM box";

/* The readers say whether the line is what we would write, and give what the check wants. */
static const char EXPORT_READ_ROW[] =
    "WITH f AS MATERIALIZED ("
    " SELECT :line ->> 'seq' AS seq, :line ->> 'at' AS at, :line ->> 'stream' AS stream,"
    "        :line ->> 'who' AS who, :line ->> 'entity' AS entity, :line ->> 'id' AS id,"
    "        :line ->> 'action' AS action, :line ->> 'pairing' AS pairing,"
    "        :line ->> 'body' AS body, :line ->> 'prev' AS prev, :line ->> 'hash' AS hash)"
    "SELECT json_object('seq', seq, 'at', at, 'stream', stream, 'who', who, 'entity', entity,"
    "                   'id', id, 'action', action, 'pairing', pairing, 'body', body,"
    "                   'prev', prev, 'hash', hash) = :line,"
    "       seq, at, prev, hash,"
    "       json_array(seq, at, stream, who, entity, id, action, pairing, body)"
    "  FROM f";

static const char EXPORT_READ_SEAL[] =
    "WITH f AS MATERIALIZED ("
    " SELECT :line ->> 'seal' AS seq, :line ->> 'at' AS at, :line ->> 'reason' AS reason,"
    "        :line ->> 'head' AS head, :line ->> 'signature' AS signature)"
    "SELECT json_object('seal', seq, 'at', at, 'reason', reason, 'head', head,"
    "                   'signature', signature) = :line,"
    "       seq, at, head, signature, json_array('audit_seal', seq, head, at, reason)"
    "  FROM f";

static const char EXPORT_READ_CHECKPOINT[] =
    "WITH f AS MATERIALIZED (SELECT :line ->> 'checkpoint' AS size, :line ->> 'note' AS note)"
    "SELECT json_object('checkpoint', size, 'note', note) = :line, size, note FROM f";

static const char EXPORT_READ_BASE[] =
    "WITH f AS MATERIALIZED (SELECT :line ->> 'base' AS seq, :line ->> 'head' AS head,"
    "                               :line -> 'tree' AS tree)"
    "SELECT json_object('base', seq, 'head', head, 'tree', json(tree)) = :line"
    "       AND json_type(tree) = 'array', seq, head,"
    "       (SELECT group_concat(value, '') FROM json_each(tree)), json_array_length(tree)"
    "  FROM f";

enum { PROGRESS_LINES = 4096 };

/* The readers, by how their lines begin. */
enum reading { READ_ROW, READ_SEAL, READ_CHECKPOINT, READ_BASE, READINGS };

static const struct {
	const char *begins, *sql;
} readings[READINGS] = {
    [READ_ROW] = {"{\"seq\":", EXPORT_READ_ROW},
    [READ_SEAL] = {"{\"seal\":", EXPORT_READ_SEAL},
    [READ_CHECKPOINT] = {"{\"checkpoint\":", EXPORT_READ_CHECKPOINT},
    [READ_BASE] = {"{\"base\":", EXPORT_READ_BASE},
};

/* An export that is being read. */
struct export_reader {
	sqlite3 *json; /* in memory: JSON is SQLite's */
	sqlite3_stmt *q[READINGS];
	char *line;
	size_t size;
	bool begun;
	const unsigned char *key;
	const struct checkpoint *kept;
	struct audit_check check;
};

/*
 * Writing.
 */

int
audit_format_read(const char *word, enum audit_format *format)
{
	static const char *const words[] = {"jsonl", "csv", "cef", "ecs"};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(word, words[i]) == 0) {
			*format = (enum audit_format)i;
			return 0;
		}
	return -1;
}

/* The hashes that ${tree} is known by, the one of the most leaves first, as a JSON array. */
static void
tree_text(const struct merkle_tree *tree, char text[MERKLE_LEVELS * 67 + 3])
{
	char *out = text;
	int h;

	*out++ = '[';
	for (h = MERKLE_LEVELS - 1; h >= 0; h--) {
		if ((tree->size >> h & 1) == 0)
			continue;
		if (out[-1] != '[')
			*out++ = ',';
		*out++ = '"';
		sodium_bin2hex(out, 65, tree->hash[h], MERKLE_HASH);
		out += 64;
		*out++ = '"';
	}
	*out++ = ']';
	*out = '\0';
}

/* What an export begins with whose first row, ${seq}, is not row 1. */
static int
base_write(struct store *db, int64_t seq, FILE *out)
{
	char text[MERKLE_LEVELS * 67 + 3];
	struct merkle_tree tree;
	struct stmt *q;
	int n;

	if (audit_tree_load(db, seq - 1, &tree) != 0)
		return -1;
	tree_text(&tree, text);
	if ((q = store_sql(db, EXPORT_BASE)) == NULL)
		return -1;
	stmt_int(q, ":seq", seq);
	stmt_text(q, ":tree", text);
	if (stmt_step(q) != 1)
		return -1;
	n = fprintf(out, "%s\n", stmt_get_text(q, 0));
	stmt_done(q);
	return n < 0 ? -1 : 0;
}

static int
note_write(struct store *db, struct stmt *row, FILE *out)
{
	const unsigned char *pk, *root, *signature;
	char note[CHECKPOINT_TEXT];
	struct checkpoint cp = {.size = (uint64_t)stmt_get_int(row, 0)};
	struct stmt *q;
	int n;

	root = stmt_get_blob(row, 3, MERKLE_HASH);
	signature = stmt_get_blob(row, 4, KEY_SIGN_SIZE);
	if ((q = store_sql(db, EXPORT_KEY)) == NULL || (n = stmt_step(q)) != 1)
		return -1;
	pk = stmt_get_blob(q, 0, KEY_PUBLIC_SIZE);
	if (pk != NULL && root != NULL && signature != NULL) {
		memcpy(cp.root, root, sizeof(cp.root));
		checkpoint_write(pk, &cp, signature, note);
	}
	stmt_done(q);
	if (pk == NULL || root == NULL || signature == NULL)
		return refusal_set(store_refusal(db), "audit.checkpoint",
		    "the checkpoint of %" PRIu64 " rows is damaged", cp.size);
	if ((q = store_sql(db, EXPORT_NOTE)) == NULL)
		return -1;
	stmt_int(q, ":size", (int64_t)cp.size);
	stmt_text(q, ":note", note);
	if (stmt_step(q) != 1)
		return -1;
	n = fprintf(out, "%s\n", stmt_get_text(q, 0));
	stmt_done(q);
	return n < 0 ? refusal_errno(store_refusal(db), "store.failed", "the export") : 0;
}

static struct stmt *
export_query(struct store *db, const struct audit_export *export, int64_t until)
{
	static const char *const queries[] = {EXPORT_JSONL, EXPORT_CSV, EXPORT_CEF, EXPORT_ECS};
	struct stmt *q;

	if ((q = store_sql(db, queries[export->format])) == NULL)
		return NULL;
	stmt_int(q, ":since", export->since);
	stmt_int(q, ":until", until);
	if (export->format == AUDIT_CEF || export->format == AUDIT_ECS)
		stmt_text(q, ":version", BASTION_VERSION);
	return q;
}

/* One line, and before the first what it takes to check it. */
static int
line_write(struct store *db, struct audit_export *export, struct stmt *q, FILE *out)
{
	int64_t seq = stmt_get_int(q, 0);

	if (!export->begun && export->format == AUDIT_JSONL && seq > 1 &&
	    base_write(db, seq, out) != 0)
		return -1;
	export->begun = true;
	if (stmt_get_int(q, 1) == 2)
		return note_write(db, q, out);
	return fprintf(out, "%s\n", stmt_get_text(q, 2)) < 0 ? -1 : 0;
}

/* Return the number of rows written, or -1. */
static int64_t
lines_write(struct store *db, struct audit_export *export, struct stmt *q, FILE *out)
{
	int64_t rows = 0;
	int rc;

	while ((rc = stmt_step(q)) == 1) {
		if (line_write(db, export, q, out) != 0) {
			if (ferror(out))
				refusal_errno(store_refusal(db), "store.failed", "the export");
			stmt_done(q);
			return -1;
		}
		rows += stmt_get_int(q, 1) == 0;
		export->since = stmt_get_int(q, 0) + 1;
	}
	return rc == -1 ? -1 : rows;
}

int64_t
audit_export(struct store *db, struct audit_export *export, FILE *out)
{
	int64_t until, sealed, rows;
	struct stmt *q;

	until = export->until == 0 ? INT64_MAX : export->until;
	if (export->sealed) {
		if ((sealed = stmt_value(store_sql(db, EXPORT_SEALED), -1)) == -1)
			return -1;
		until = sealed < until ? sealed : until;
	}
	if (!export->begun && export->format == AUDIT_CSV) {
		fputs(CSV_HEADER, out);
		export->begun = true;
	}
	if ((q = export_query(db, export, until)) == NULL ||
	    (rows = lines_write(db, export, q, out)) == -1)
		return -1;
	if (fflush(out) != 0)
		return refusal_errno(store_refusal(db), "store.failed", "the export");
	return rows;
}

int
audit_export_row(struct store *db, int64_t seq, FILE *out)
{
	struct stmt *q;
	int n;

	if ((q = store_sql(db, EXPORT_ROW)) == NULL)
		return -1;
	stmt_int(q, ":seq", seq);
	if ((n = stmt_step(q)) != 1)
		return n;
	fputs(stmt_get_text(q, 0), out);
	stmt_done(q);
	return 1;
}

/*
 * Reading.
 */

static int
reader_open(struct export_reader *rd, struct refusal *r)
{
	int i;

	memset(rd, 0, sizeof(*rd));
	if (sqlite3_open_v2(":memory:", &rd->json, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
		NULL) != SQLITE_OK)
		return refusal_set(r, "store.failed", "the reader of exports: out of memory");
	for (i = 0; i < READINGS; i++)
		if (sqlite3_prepare_v2(rd->json, readings[i].sql, -1, &rd->q[i], NULL) != SQLITE_OK)
			return refusal_set(r, "store.failed", "the reader of exports: %s",
			    sqlite3_errmsg(rd->json));
	return 0;
}

static void
reader_close(struct export_reader *rd)
{
	int i;

	for (i = 0; i < READINGS; i++)
		sqlite3_finalize(rd->q[i]);
	sqlite3_close(rd->json);
	free(rd->line);
}

/* Bytes from ${text}, exactly ${len} of them, into ${out}; NULL when it holds anything else. */
static const unsigned char *
hex_read(const char *text, unsigned char *out, size_t len)
{
	size_t n;

	if (text == NULL || strlen(text) != 2 * len ||
	    sodium_hex2bin(out, len, text, 2 * len, NULL, &n, NULL) != 0 || n != len)
		return NULL;
	return out;
}

static const char *
column(sqlite3_stmt *q, int i)
{
	return (const char *)sqlite3_column_text(q, i);
}

static int
reader_row(struct export_reader *rd, sqlite3_stmt *q)
{
	unsigned char prev[32], hash[32];
	struct audit_row row;

	row.seq = sqlite3_column_int64(q, 1);
	row.at = sqlite3_column_int64(q, 2);
	row.prev = hex_read(column(q, 3), prev, sizeof(prev));
	row.hash = hex_read(column(q, 4), hash, sizeof(hash));
	row.line = column(q, 5);
	row.len = (size_t)sqlite3_column_bytes(q, 5);
	return audit_check_row(&rd->check, &row);
}

static int
reader_seal(struct export_reader *rd, sqlite3_stmt *q)
{
	unsigned char head[32], signature[64];
	struct audit_sealing seal;

	seal.seq = sqlite3_column_int64(q, 1);
	seal.at = sqlite3_column_int64(q, 2);
	seal.head = hex_read(column(q, 3), head, sizeof(head));
	seal.signature = hex_read(column(q, 4), signature, sizeof(signature));
	seal.text = column(q, 5);
	return audit_check_seal(&rd->check, &seal);
}

/* A line of another form: where it stands is all that can be said of it. */
static int
reader_bad(struct export_reader *rd)
{
	struct audit_report *report = rd->check.report;

	if (!rd->begun)
		return audit_check_bad(
		    &rd->check, 1, "the first line is not one of an audit export");
	return audit_check_bad(&rd->check, report->last + 1,
	    "what stands behind row %" PRId64 " is not a line of an audit export", report->last);
}

/* The note must be what we would write of what it says: its signature then says the rest. */
static int
reader_checkpoint(struct export_reader *rd, sqlite3_stmt *q)
{
	const char *note = column(q, 2), *line;
	unsigned char signed_by[4 + KEY_SIGN_SIZE];
	char again[CHECKPOINT_TEXT];
	struct checkpoint cp;
	struct refusal r;

	if (note == NULL ||
	    checkpoint_read(rd->key, note, (size_t)sqlite3_column_bytes(q, 2), &cp, &r) != 0)
		return audit_check_bad(&rd->check, rd->check.report->last,
		    "behind row %" PRId64 ": %s", rd->check.report->last,
		    note == NULL ? "no note" : r.why);
	if ((line = strrchr(note, ' ')) == NULL ||
	    base64_read(line + 1, strlen(line) - 2, NULL, signed_by, sizeof(signed_by)) !=
		(ssize_t)sizeof(signed_by))
		return reader_bad(rd);
	checkpoint_write(rd->key, &cp, signed_by + 4, again);
	if (strcmp(again, note) != 0 || (int64_t)cp.size != sqlite3_column_int64(q, 1))
		return reader_bad(rd);
	return audit_check_checkpoint(&rd->check, (int64_t)cp.size, cp.root, signed_by + 4);
}

/* What came before the first line. */
static int
base_read(sqlite3_stmt *q, struct audit_start *start)
{
	const char *hashes = column(q, 3);
	int h;

	start->seq = sqlite3_column_int64(q, 1);
	if (start->seq < 1 || start->seq >> (MERKLE_LEVELS - 1) != 0 ||
	    hex_read(column(q, 2), start->hash, sizeof(start->hash)) == NULL || hashes == NULL ||
	    sqlite3_column_int(q, 4) != __builtin_popcountll((uint64_t)start->seq) ||
	    strlen(hashes) != (size_t)sqlite3_column_int(q, 4) * 64)
		return -1;
	start->tree.size = (uint64_t)start->seq;
	for (h = MERKLE_LEVELS - 1; h >= 0; h--) {
		char hex[65];

		if ((start->seq >> h & 1) == 0)
			continue;
		memcpy(hex, hashes, 64);
		hex[64] = '\0';
		if (hex_read(hex, start->tree.hash[h], MERKLE_HASH) == NULL)
			return -1;
		hashes += 64;
	}
	return 0;
}

/* The first line says where the chain begins: a base, or row 1. */
static int
reader_begin(struct export_reader *rd, enum reading kind)
{
	struct audit_start start;

	memset(&start, 0, sizeof(start));
	if (kind == READ_BASE && base_read(rd->q[kind], &start) != 0)
		return -1;
	audit_check_begin(&rd->check, rd->key, &start, rd->kept, rd->check.report);
	rd->begun = true;
	return 0;
}

static int
reader_line(struct export_reader *rd, size_t len)
{
	enum reading kind = READ_ROW;
	sqlite3_stmt *q;
	int i, rc;

	for (i = 0; i < READINGS; i++)
		if (strncmp(rd->line, readings[i].begins, strlen(readings[i].begins)) == 0)
			kind = (enum reading)i;
	q = rd->q[kind];
	if (strlen(rd->line) != len ||
	    sqlite3_bind_text(q, 1, rd->line, (int)len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(q) != SQLITE_ROW || sqlite3_column_int(q, 0) != 1)
		rc = reader_bad(rd);
	else if (rd->begun ? kind == READ_BASE : reader_begin(rd, kind) != 0)
		rc = reader_bad(rd);
	else if (kind == READ_ROW)
		rc = reader_row(rd, q);
	else if (kind == READ_SEAL)
		rc = reader_seal(rd, q);
	else if (kind == READ_CHECKPOINT)
		rc = reader_checkpoint(rd, q);
	else
		rc = 0;
	sqlite3_reset(q);
	return rc;
}

/* Read a line without its line feed.  Return 1, 0 at the end, -1 for one that is too long or on
 * failure of the system, which ${in} then tells. */
static int
reader_next(struct export_reader *rd, FILE *in, size_t *len)
{
	char *more;
	int c;

	for (*len = 0; (c = getc_unlocked(in)) != EOF && c != '\n';) {
		if (*len + 2 > rd->size) {
			if (rd->size >= AUDIT_EXPORT_LINE)
				return -1;
			rd->size = rd->size == 0 ? 4096 : 2 * rd->size;
			if ((more = realloc(rd->line, rd->size)) == NULL)
				return -1;
			rd->line = more;
		}
		rd->line[(*len)++] = (char)c;
	}
	if (c == EOF && (*len == 0 || ferror(in)))
		return ferror(in) ? -1 : 0;
	if (rd->line == NULL && (rd->line = malloc(rd->size = 4096)) == NULL)
		return -1;
	rd->line[*len] = '\0';
	return 1;
}

static int
reader_run(
    struct export_reader *rd, FILE *in, const struct audit_progress *progress, struct refusal *r)
{
	struct audit_report *report = rd->check.report;
	size_t len;
	int n;

	while ((n = reader_next(rd, in, &len)) == 1) {
		if (reader_line(rd, len))
			return AUDIT_BAD;
		if (progress != NULL && report->rows % PROGRESS_LINES == 0)
			progress->fn(progress->ctx, report->rows, 0);
	}
	if (n == -1 && ferror(in))
		return refusal_errno(r, "store.failed", "the export");
	if (n == -1 || report->rows == 0)
		return reader_bad(rd);
	return audit_check_end(&rd->check);
}

int
audit_export_verify(FILE *in, const unsigned char *key, const struct checkpoint *kept,
    const struct audit_progress *progress, struct audit_report *report, struct refusal *r)
{
	static const struct audit_start none;
	struct export_reader rd;
	int rc;

	if ((rc = reader_open(&rd, r)) == 0) {
		rd.key = key;
		rd.kept = kept;
		audit_check_begin(&rd.check, key, &none, kept, report);
		rc = reader_run(&rd, in, progress, r);
	}
	reader_close(&rd);
	return rc;
}

int
audit_export_hash(
    const char *line, size_t len, int64_t *seq, unsigned char hash[32], struct refusal *r)
{
	unsigned char prev[32], said[32];
	struct export_reader rd;
	sqlite3_stmt *q;
	int rc = AUDIT_BAD;

	if (reader_open(&rd, r) == 0) {
		q = rd.q[READ_ROW];
		if (len <= AUDIT_EXPORT_LINE && memchr(line, '\0', len) == NULL &&
		    sqlite3_bind_text(q, 1, line, (int)len, SQLITE_STATIC) == SQLITE_OK &&
		    sqlite3_step(q) == SQLITE_ROW && sqlite3_column_int(q, 0) == 1 &&
		    hex_read(column(q, 3), prev, sizeof(prev)) != NULL &&
		    hex_read(column(q, 4), said, sizeof(said)) != NULL) {
			*seq = sqlite3_column_int64(q, 1);
			sha256_pair(prev, sizeof(prev), column(q, 5),
			    (size_t)sqlite3_column_bytes(q, 5), hash);
			rc = memcmp(hash, said, sizeof(said)) == 0 ? 0 : AUDIT_BAD;
		}
	} else {
		rc = -1;
	}
	reader_close(&rd);
	return rc;
}
