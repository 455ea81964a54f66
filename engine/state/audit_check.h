/* audit_check.h: is this chain whole? Rows, seals and checkpoints go in, in order; a report comes
 * out. */
#ifndef ENGINE_STATE_AUDIT_CHECK_H
#define ENGINE_STATE_AUDIT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/crypto/checkpoint.h"
#include "engine/crypto/merkle.h"

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
	int64_t checkpoints;    /* that are signed and have the root of the rows before them */
	int64_t size;           /* rows that the last of them is of, 0: none */
	unsigned char root[32]; /* and its root */
	int64_t base;           /* seq where the chain begins by retention, 0: at row 1 */
	int64_t base_at;        /* when the rows before it were given up */
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
	size_t len;
};

/* One seal, or the beginning of a chain that retention cut, as it stands in the file. */
struct audit_sealing {
	int64_t seq;
	int64_t at;
	const unsigned char *head;      /* 32 bytes */
	const char *text;               /* seal_text or base_text, made from the columns */
	const unsigned char *signature; /* 64 bytes */
};

/*
 * The row that a chain goes on behind, where the rows up to it were left out of an export.  All
 * zeros: the chain begins with row 1.
 */
struct audit_start {
	int64_t seq;
	unsigned char hash[32];  /* of that row */
	struct merkle_tree tree; /* of the rows up to it */
};

/* A check under way. */
struct audit_check {
	const unsigned char *key;
	int64_t from; /* rows whose tree was taken at its word */
	unsigned char head[32];
	unsigned char base[32]; /* hash of the row report->base */
	struct merkle_tree tree;
	merkle_formed *formed; /* may be set after audit_check_begin: told of whole subtrees */
	void *ctx;
	const struct checkpoint *kept;
	struct audit_report *report;
};

/**
 * audit_check_begin(check, key, start, kept, report):
 * Begin a check behind ${start}, which is taken at its word, with the machine's public key ${key}
 * (32 bytes), filling ${report} from now on.  ${kept} is a checkpoint that was kept elsewhere and
 * must be one of this chain, or NULL.  Key, kept and report must outlive the check.
 */
void audit_check_begin(struct audit_check *check, const unsigned char *key,
    const struct audit_start *start, const struct checkpoint *kept, struct audit_report *report);

/**
 * audit_check_base(check, base):
 * Before any row: the chain begins at the row of ${base}, since the machine gave up those before it
 * and signed for that.  Return 0 or AUDIT_BAD.
 */
int audit_check_base(struct audit_check *check, const struct audit_sealing *base);

/**
 * audit_check_leaf(check, leaf):
 * The next row was given up, and ${leaf} (32 bytes) is what the tree kept of it.  That it is the
 * right one is for the checkpoints behind it to say.  Return 0 or AUDIT_BAD.
 */
int audit_check_leaf(struct audit_check *check, const unsigned char *leaf);

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

/**
 * audit_check_checkpoint(check, size, root, signature):
 * Check that the checkpoint (root: 32 bytes, signature: 64, NULL where they are of another length)
 * is of all rows up to the one that was checked last, by the machine's key.  Return 0 or AUDIT_BAD.
 */
int audit_check_checkpoint(struct audit_check *check, int64_t size, const unsigned char *root,
    const unsigned char *signature);

/**
 * audit_check_end(check):
 * Check that the kept checkpoint was met, and that rows which were given up are under a checkpoint.
 * Return 0 or AUDIT_BAD.
 */
int audit_check_end(struct audit_check *check);

/**
 * audit_check_bad(check, seq, fmt, ...):
 * Report that ${seq} is wrong, and how.  Return AUDIT_BAD.
 */
int audit_check_bad(struct audit_check *check, int64_t seq, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
