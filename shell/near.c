/* near.c: edits between words. */
#include <stdio.h>
#include <string.h>

#include "shell/near.h"

#define NEAR     2  /* edits that a slip of the finger takes */
#define WORD_MAX 32 /* longer words are near to nothing */

static size_t
least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Edits between two words: letters put in, left out, changed, or swapped with their neighbour. */
static size_t
distance(const char *a, const char *b)
{
	size_t d[WORD_MAX + 1][WORD_MAX + 1], n = strlen(a), m = strlen(b), i, j;

	if (n > WORD_MAX || m > WORD_MAX)
		return n + m;
	for (i = 0; i <= n; i++)
		d[i][0] = i;
	for (j = 0; j <= m; j++)
		d[0][j] = j;
	for (i = 1; i <= n; i++) {
		for (j = 1; j <= m; j++) {
			d[i][j] = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			d[i][j] = least(d[i][j], least(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[n][m];
}

bool
near_to(const char *name, const char *typed)
{
	if (strlen(typed) >= 2 && strncmp(name, typed, strlen(typed)) == 0)
		return true;
	return distance(name, typed) <= (strlen(typed) > 3 ? NEAR : 1);
}

void
near_add(char list[NEAR_MAX], const char *name, const char *typed)
{
	size_t n = strlen(list);

	if (near_to(name, typed) && n + strlen(name) + sizeof("; near it: ") < NEAR_MAX)
		snprintf(list + n, NEAR_MAX - n, "%s%s", n == 0 ? "; near it: " : ", ", name);
}
