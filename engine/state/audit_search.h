/* audit_search.h: rows of the audit by the words in them. */
#ifndef ENGINE_STATE_AUDIT_SEARCH_H
#define ENGINE_STATE_AUDIT_SEARCH_H

#include <stdint.h>

#include "engine/store/store.h"

#define AUDIT_SEARCH_WORDS 1024 /* bytes of what may be asked for */
#define AUDIT_SEARCH_ROWS  10000

/* What is looked for. */
struct audit_search {
	const char *words;    /* a person's: see audit_search */
	const char *entity;   /* rows of one kind; NULL: of all */
	int64_t since, until; /* first and last row; ${until} 0: all there are */
	int64_t rows;         /* at most so many, the newest: up to AUDIT_SEARCH_ROWS */
};

/**
 * audit_index(db):
 * Add the words of some rows that were sealed to the index, in a transaction of its own.  Return 1
 * where more are left, 0 where none is, or -1 with ${db}'s refusal set.
 */
int audit_index(struct store *db);

/**
 * audit_search(db, search, found):
 * Store the numbers of the rows of ${db} that have all the words in ${*found} as a JSON array, the
 * newest first, which the caller frees.  Rows that are not indexed yet are found too.  A word
 * stands for itself whatever its case and accents; "words in a row" for that; begin* for all that
 * begin so; OR between two for either; NOT or a dash before one for rows without it.  Return how
 * many there are, or -1 with ${db}'s refusal set: audit.search says in words what is wrong with the
 * words.
 */
int audit_search(struct store *db, const struct audit_search *search, char **found);

/**
 * audit_search_expression(words, out, r):
 * Write what FTS5 is asked for ${words} to ${out}, 8 * AUDIT_SEARCH_WORDS bytes: it never refuses
 * it.  Return 0, or -1 with ${r}: audit.search.
 */
int audit_search_expression(const char *words, char *out, struct refusal *r);

#endif
