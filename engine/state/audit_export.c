/* audit_export.c: the chain as lines of text, written and read back. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>
#include <sqlite3.h>

#include "engine/state/audit_export.h"

/* The body stands as text, since the hash covers its exact bytes. */
static const char EXPORT_LINES[] =
    "SELECT seq, 0,"
    "       json_object('seq', seq, 'at', at, 'stream', stream, 'who', who, 'entity', entity,"
    "                   'id', entity_id, 'action', action, 'pairing', pairing, 'body', body,"
    "                   'prev', lower(hex(prev)), 'hash', lower(hex(hash)))"
    "  FROM audit WHERE seq >= :since"
    " UNION ALL "
    "SELECT seq, 1,"
    "       json_object('seal', seq, 'at', at, 'reason', reason, 'head', lower(hex(head)),"
    "                   'signature', lower(hex(signature)))"
    "  FROM audit_seal WHERE seq >= :since"
    " ORDER BY 1, 2";

/* Both readers say whether the line is what we would write, and give what the check wants. */
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

enum { PROGRESS_LINES = 4096 };

/* An export that is being read. */
struct export_reader {
	sqlite3 *json; /* in memory: JSON is SQLite's */
	sqlite3_stmt *row, *seal;
	char *line;
	size_t size;
	struct audit_check check;
};

int64_t
audit_export(struct store *db, int64_t since, FILE *out)
{
	struct stmt *q;
	int64_t rows;
	int rc;

	if ((q = store_sql(db, EXPORT_LINES)) == NULL)
		return -1;
	stmt_int(q, ":since", since);
	rows = 0;
	while ((rc = stmt_step(q)) == 1) {
		if (fprintf(out, "%s\n", stmt_get_text(q, 2)) < 0)
			break;
		rows += stmt_get_int(q, 1) == 0;
	}
	if (rc == 1)
		stmt_done(q);
	if (rc == -1)
		return -1;
	if (rc == 1 || fflush(out) != 0)
		return refusal_errno(store_refusal(db), "store.failed", "the export");
	return rows;
}

static int
reader_open(struct export_reader *rd, struct refusal *r)
{
	memset(rd, 0, sizeof(*rd));
	if (sqlite3_open_v2(":memory:", &rd->json, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
		NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(rd->json, EXPORT_READ_ROW, -1, &rd->row, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(rd->json, EXPORT_READ_SEAL, -1, &rd->seal, NULL) != SQLITE_OK)
		return refusal_set(
		    r, "store.failed", "the reader of exports: %s", sqlite3_errmsg(rd->json));
	return 0;
}

static void
reader_close(struct export_reader *rd)
{
	sqlite3_finalize(rd->row);
	sqlite3_finalize(rd->seal);
	sqlite3_close(rd->json);
	free(rd->line);
}

/* Bytes from column ${i}, exactly ${len} of them, into ${out}; NULL when it holds anything else. */
static const unsigned char *
reader_hex(sqlite3_stmt *q, int i, unsigned char *out, size_t len)
{
	const char *text;
	size_t n;

	text = (const char *)sqlite3_column_text(q, i);
	if (text == NULL || strlen(text) != 2 * len ||
	    sodium_hex2bin(out, len, text, 2 * len, NULL, &n, NULL) != 0 || n != len)
		return NULL;
	return out;
}

static int
reader_row(struct export_reader *rd, sqlite3_stmt *q)
{
	unsigned char prev[32], hash[32];
	struct audit_row row;

	row.seq = sqlite3_column_int64(q, 1);
	row.at = sqlite3_column_int64(q, 2);
	row.prev = reader_hex(q, 3, prev, sizeof(prev));
	row.hash = reader_hex(q, 4, hash, sizeof(hash));
	row.line = (const char *)sqlite3_column_text(q, 5);
	return audit_check_row(&rd->check, &row);
}

static int
reader_seal(struct export_reader *rd, sqlite3_stmt *q)
{
	unsigned char head[32], signature[64];
	struct audit_sealing seal;

	seal.seq = sqlite3_column_int64(q, 1);
	seal.at = sqlite3_column_int64(q, 2);
	seal.head = reader_hex(q, 3, head, sizeof(head));
	seal.signature = reader_hex(q, 4, signature, sizeof(signature));
	seal.text = (const char *)sqlite3_column_text(q, 5);
	return audit_check_seal(&rd->check, &seal);
}

/* A line of another form: where it stands is all that can be said of it. */
static int
reader_bad(struct export_reader *rd)
{
	struct audit_report *report;

	report = rd->check.report;
	report->bad = report->last + 1;
	snprintf(report->what, sizeof(report->what),
	    "what stands behind row %" PRId64 " is not a line of an audit export", report->last);
	return AUDIT_BAD;
}

static int
reader_line(struct export_reader *rd, size_t len)
{
	sqlite3_stmt *q;
	int rc;

	q = strncmp(rd->line, "{\"seal\":", 8) == 0 ? rd->seal : rd->row;
	if (strlen(rd->line) != len || len > INT32_MAX ||
	    sqlite3_bind_text(q, 1, rd->line, (int)len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(q) != SQLITE_ROW || sqlite3_column_int(q, 0) != 1)
		rc = reader_bad(rd);
	else
		rc = q == rd->seal ? reader_seal(rd, q) : reader_row(rd, q);
	sqlite3_reset(q);
	return rc;
}

static int
reader_run(
    struct export_reader *rd, FILE *in, const struct audit_progress *progress, struct refusal *r)
{
	struct audit_report *report;
	ssize_t len;

	report = rd->check.report;
	while ((len = getline(&rd->line, &rd->size, in)) > 0) {
		if (rd->line[len - 1] == '\n')
			rd->line[--len] = '\0';
		if (reader_line(rd, (size_t)len))
			return AUDIT_BAD;
		if (progress != NULL && report->rows % PROGRESS_LINES == 0)
			progress->fn(progress->ctx, report->rows, 0);
	}
	if (!feof(in))
		return refusal_errno(r, "store.failed", "the export");
	return report->rows == 0 ? reader_bad(rd) : 0;
}

int
audit_export_verify(FILE *in, const unsigned char *key, const struct audit_progress *progress,
    struct audit_report *report, struct refusal *r)
{
	struct export_reader rd;
	int rc;

	if ((rc = reader_open(&rd, r)) == 0) {
		audit_check_begin(&rd.check, key, false, report);
		rc = reader_run(&rd, in, progress, r);
	}
	reader_close(&rd);
	return rc;
}
