/* audit_export.h: the chain as lines of text that anyone can check, or that a SIEM takes
 * (audit_export.md). */
#ifndef ENGINE_STATE_AUDIT_EXPORT_H
#define ENGINE_STATE_AUDIT_EXPORT_H

#include <stdint.h>
#include <stdio.h>

#include "engine/state/audit.h"

#define AUDIT_EXPORT_LINE 4194304 /* bytes of the longest line that is read */

enum audit_format {
	AUDIT_JSONL, /* rows, seals and checkpoints: the one that can be checked */
	AUDIT_CSV,   /* rows; RFC 4180, with a header */
	AUDIT_CEF,   /* rows; ArcSight Common Event Format 0 */
	AUDIT_ECS    /* rows; Elastic Common Schema 8, one JSON object a line */
};

/* What is exported, and how far it has come.  It begins with ${begun} false. */
struct audit_export {
	enum audit_format format;
	int64_t since, until; /* first and last row; ${until} 0: all there are */
	bool sealed;          /* no row behind the last seal, so that a later one has its place */
	bool begun;           /* the first line was written */
};

/**
 * audit_format_read(word, format):
 * Read "jsonl", "csv", "cef" or "ecs" into ${*format}.  Return 0 or -1.
 */
int audit_format_read(const char *word, enum audit_format *format);

/**
 * audit_export(db, export, out):
 * Write the rows of ${db} that ${export} names and that are there to ${out}, a line each, and in
 * AUDIT_JSONL each seal and checkpoint behind the row that it covers.  ${export} then names what
 * follows, for the next call.  Return the number of rows, or -1 with ${db}'s refusal set
 * (store.failed too where ${out} took no more).
 */
int64_t audit_export(struct store *db, struct audit_export *export, FILE *out);

/**
 * audit_export_row(db, seq, out):
 * Write the line of row ${seq}, without its line feed.  Return 1, 0 without such a row, or -1 with
 * ${db}'s refusal set.
 */
int audit_export_row(struct store *db, int64_t seq, FILE *out);

/**
 * audit_export_verify(in, key, kept, progress, report, r):
 * As audit_verify_kept, for lines of AUDIT_JSONL.  A file may begin at any row: it says in its
 * first line what came before, and that is checked by the checkpoints that follow.  A line that is
 * not byte for byte what audit_export would write is bad, and so is one over AUDIT_EXPORT_LINE.
 * Return 0 for a good chain, AUDIT_BAD, or -1 with ${r}: store.failed.
 */
int audit_export_verify(FILE *in, const unsigned char *key, const struct checkpoint *kept,
    const struct audit_progress *progress, struct audit_report *report, struct refusal *r);

/**
 * audit_export_hash(line, len, seq, hash, r):
 * Read the line of one row and compute its hash anew.  Return 0 with its number and hash; AUDIT_BAD
 * where it is no such line, or the hash is not that of the row; or -1 with ${r}: store.failed.
 */
int audit_export_hash(
    const char *line, size_t len, int64_t *seq, unsigned char hash[32], struct refusal *r);

#endif
