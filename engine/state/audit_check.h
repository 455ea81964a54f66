/* audit_check.h: is this chain whole? Rows and seals go in, in order; a report comes out. */
#ifndef ENGINE_STATE_AUDIT_CHECK_H
#define ENGINE_STATE_AUDIT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUDIT_BAD 1 /* what a check returns for a chain that is not whole */

/*
 * What a check found.  Times are ms UTC, 0 where there is nothing to date.  The rows up to
 * ${sealed} are vouched for by the machine's key; the ${behind} rows after it only by the chain,
 * which anyone who can write the file can also write anew.
 */
struct audit_report {
	int64_t rows;           /* that were checked and are good */
	int64_t seals;          /* the same */
	int64_t first;          /* seq of the first row, 0: no row at all */
	int64_t first_at;       /* its time */
	int64_t last;           /* seq of the last good row */
	int64_t last_at;        /* its time */
	int64_t sealed;         /* seq of the last row under a good seal, 0: none */
	int64_t sealed_at;      /* when that seal was made */
	unsigned char head[32]; /* and the hash that it covers */
	int64_t behind;         /* good rows after it */
	int64_t base;           /* seq where the chain begins by retention, 0: at row 1 */
	int64_t base_at;        /* when rows before it were given up */
	int64_t bad;            /* seq of the first row that is wrong, 0: none */
	char what[192];         /* what is wrong, one sentence */
};

/* One row as it stands in the file.  A NULL among the hashes is one of a wrong length. */
struct audit_row {
	int64_t seq;
	int64_t at;
	const unsigned char *prev; /* 32 bytes */
	const unsigned char *hash; /* 32 bytes */
	const char *line;          /* of the view audit_line */
};

/* One seal as it stands in the file. */
struct audit_sealing {
	int64_t seq;
	int64_t at;
	const unsigned char *head;      /* 32 bytes */
	const char *text;               /* audit_seal.seal_text, made from the columns */
	const unsigned char *signature; /* 64 bytes */
};

/* A check under way. */
struct audit_check {
	const unsigned char *key;
	bool anchored;
	unsigned char head[32];
	unsigned char base[32]; /* hash of the row report->base */
	struct audit_report *report;
};

/**
 * audit_check_begin(check, key, whole, report):
 * Begin a check with the machine's public key ${key} (32 bytes, must outlive the check), filling
 * ${report} from now on.  With ${whole} the chain must begin at row 1; without, the first row is
 * taken at its word for what came before it.
 */
void audit_check_begin(
    struct audit_check *check, const unsigned char *key, bool whole, struct audit_report *report);

/**
 * audit_check_base(check, base):
 * Before any row: the chain begins at the row of ${base}, since the machine gave up those before it
 * and signed for that.  Return 0 or AUDIT_BAD.
 */
int audit_check_base(struct audit_check *check, const struct audit_sealing *base);

/**
 * audit_check_row(check, row):
 * Check that ${row} follows.  Return 0 or AUDIT_BAD.
 */
int audit_check_row(struct audit_check *check, const struct audit_row *row);

/**
 * audit_check_seal(check, seal):
 * Check that ${seal} covers the row that was checked last, by the machine's key.  Return 0 or
 * AUDIT_BAD.
 */
int audit_check_seal(struct audit_check *check, const struct audit_sealing *seal);

#endif
