/* secret.c: what looks like a secret. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "engine/policy/secret.h"

#define LONG_WORD 20

bool
secret_word(const char *word, size_t len)
{
	static const char *const begins[] = {"sk-", "pk-", "rk_", "ghp_", "gho_", "ghu_", "ghs_",
	    "ghr_", "github_pat_", "glpat-", "xox", "AKIA", "ASIA", "eyJ", "npm_", "hf_", "AIza",
	    "bst_", "Bearer", "Basic ", "-----BEGIN"};
	const char *at;
	size_t i, digits = 0, letters = 0, run = 0;

	for (i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (len > strlen(begins[i]) && strncmp(word, begins[i], strlen(begins[i])) == 0)
			return true;
	/* scheme://user:password@host */
	if ((at = memchr(word, '@', len)) != NULL &&
	    memmem(word, (size_t)(at - word), "://", 3) != NULL)
		return true;
	for (i = 0; i < len; i++) {
		if (isalnum((unsigned char)word[i]) || strchr("+=_-", word[i]) != NULL) {
			run++;
			digits += isdigit((unsigned char)word[i]) != 0;
			letters += isalpha((unsigned char)word[i]) != 0;
		} else {
			run = digits = letters = 0;
		}
		if (run >= LONG_WORD && digits >= 4 && letters >= 4)
			return true;
	}
	return false;
}

bool
secret_name(const char *name, size_t len)
{
	static const char *const words[] = {
	    "key", "token", "secret", "passw", "auth", "cred", "cookie", "session"};
	size_t i, j, n;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		n = strlen(words[i]);
		for (j = 0; j + n <= len; j++)
			if (strncasecmp(name + j, words[i], n) == 0)
				return true;
	}
	return false;
}
