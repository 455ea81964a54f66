/* input.c: numbers and small files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shell/cli.h"
#include "shell/input.h"
#include "shell/text.h"

static const char NUMBER[] = "it takes a number from 1 on";

int
input_number(const char *text, int64_t *number)
{
	if (*text == '\0' || strspn(text, "0123456789") != strlen(text))
		return cli_wrong(NUMBER);
	errno = 0;
	*number = strtoimax(text, NULL, 10);
	return errno == 0 && *number >= 1 ? 0 : cli_wrong(NUMBER);
}

int
input_file(const char *path, char *out, size_t size, struct refusal *r)
{
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	size_t len;
	int rc = 0;

	if (f == NULL)
		return refusal_errno(r, "file.missing", path);
	len = fread(out, 1, size, f);
	if (ferror(f))
		rc = refusal_errno(r, "file.missing", path);
	else if (len == size)
		rc = refusal_set(r, "usage.wrong", "%s holds more than belongs here", path);
	else if (memchr(out, '\0', len) != NULL)
		rc = refusal_set(r, "usage.wrong", "%s is no text", path);
	else
		out[len] = '\0';
	if (f != stdin)
		fclose(f);
	return rc;
}

void
input_show_terms(FILE *out, const char *terms)
{
	size_t len;

	for (; *terms != '\0'; terms += len + (terms[len] == '\n')) {
		len = strcspn(terms, "\n");
		fputs("    ", out);
		text_show(out, terms, len);
		putc('\n', out);
	}
}

void
input_show_signed(FILE *out, const char *what, int64_t id, const char *terms)
{
	fprintf(out, "%s %" PRId64 ", as it is signed:\n", what, id);
	input_show_terms(out, terms);
}
