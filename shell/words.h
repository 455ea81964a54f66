/* words.h: the words of a command line as the JSON array that rows hold. */
#ifndef SHELL_WORDS_H
#define SHELL_WORDS_H

#include "engine/store/store.h"

/**
 * words_json(db, argv):
 * Return the words of ${argv}, up to its NULL, as a JSON array, for words_free.  Words that are not
 * UTF-8 are refused: a row is text.  Return NULL with the refusal of ${db}: usage.wrong,
 * store.failed.
 */
char *words_json(struct store *db, char *const *argv);

/**
 * words_free(words):
 * Free what words_json returned.
 */
void words_free(char *words);

#endif
