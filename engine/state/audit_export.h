/* audit_export.h: the chain as lines of text that anyone can check (audit_export.md). */
#ifndef ENGINE_STATE_AUDIT_EXPORT_H
#define ENGINE_STATE_AUDIT_EXPORT_H

#include <stdint.h>
#include <stdio.h>

#include "engine/state/audit.h"

/**
 * audit_export(db, since, out):
 * Write the rows of ${db} from number ${since} on to ${out}, one JSON object a line, each seal
 * behind the row that it covers.  Return the number of rows, or -1 with ${db}'s refusal set
 * (store.failed too where ${out} took no more).
 */
int64_t audit_export(struct store *db, int64_t since, FILE *out);

/**
 * audit_export_verify(in, key, progress, report, r):
 * As audit_verify, for lines that audit_export wrote.  A file may begin at any row; then what came
 * before that row is not checked.  A line that is not byte for byte what audit_export would write
 * is bad.  Return 0 for a good chain, AUDIT_BAD, or -1 with ${r}: store.failed.
 */
int audit_export_verify(FILE *in, const unsigned char *key, const struct audit_progress *progress,
    struct audit_report *report, struct refusal *r);

#endif
