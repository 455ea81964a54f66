/* sql_complete.h: what could follow what was typed. */
#ifndef SHELL_SQL_COMPLETE_H
#define SHELL_SQL_COMPLETE_H

#include "shell/sql.h"

struct completion {
	char **word; /* sorted, each once; a function ends with ( */
	size_t count, size;
	size_t typed; /* bytes of each that were typed already, in small or large letters */
};

/**
 * sql_complete(s, text, c):
 * Fill ${c} with the words that can end ${text}, the statement up to the cursor: commands, also
 * where nothing was typed, and what they take; tables behind FROM and JOIN; the columns of a table
 * or its alias behind a full stop; elsewhere columns of the tables that were named, functions,
 * keywords and tables.  Free it with completion_free.
 */
void sql_complete(struct sql *s, const char *text, struct completion *c);
void completion_free(struct completion *c);

/**
 * completion_common(c):
 * Return how many bytes all words have in common, whatever their letters' size.
 */
size_t completion_common(const struct completion *c);

/**
 * completion_list(out, c, width):
 * Write the words in columns that fit ${width}, as many as a person may want to read.
 */
void completion_list(FILE *out, const struct completion *c, int width);

#endif
