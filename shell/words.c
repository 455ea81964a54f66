/* words.c: argv as JSON. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shell/text.h"
#include "shell/words.h"

static int
is_text(const char *word)
{
	const char *end = word + strlen(word);
	int32_t rune;

	while (word < end) {
		word += text_next(word, end, &rune);
		if (rune == -1)
			return 0;
	}
	return 1;
}

char *
words_json(struct store *db, char *const *argv)
{
	char *text = NULL;
	size_t len, i;
	FILE *f;

	for (i = 0; argv[i] != NULL; i++)
		if (!is_text(argv[i])) {
			refusal_set(store_refusal(db), "usage.wrong",
			    "word %zu of the command is not UTF-8", i + 1);
			return NULL;
		}
	if ((f = open_memstream(&text, &len)) == NULL) {
		refusal_errno(store_refusal(db), "store.failed", "the command");
		return NULL;
	}
	putc('[', f);
	for (i = 0; argv[i] != NULL; i++) {
		if (i > 0)
			putc(',', f);
		text_json(f, argv[i], strlen(argv[i]));
	}
	putc(']', f);
	if (fclose(f) == 0)
		return text;
	free(text);
	refusal_errno(store_refusal(db), "store.failed", "the command");
	return NULL;
}

void
words_free(char *words)
{
	free(words);
}
