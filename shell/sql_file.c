/* sql_file.c: read scripts; write results to files of the person. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shell/sql_file.h"

/* Everything up to the end of ${fd}, ended by a NUL; NULL with errno, EILSEQ for a NUL in it. */
static char *
read_all(int fd)
{
	char *text = NULL, *larger;
	size_t len = 0, size = 0;
	ssize_t n;

	do {
		if (size - len < 2) {
			size = size == 0 ? 65536 : size * 2;
			if ((larger = realloc(text, size)) == NULL)
				break;
			text = larger;
		}
		if ((n = read(fd, text + len, size - len - 1)) == -1)
			break;
		if (n == 0 && memchr(text, '\0', len) == NULL) {
			text[len] = '\0';
			return text;
		}
		len += (size_t)n;
		errno = EILSEQ;
	} while (n > 0);
	free(text);
	return NULL;
}

char *
sql_file_read(const char *path, struct refusal *r)
{
	char *text = NULL;
	int fd = STDIN_FILENO;

	if (strcmp(path, "-") != 0)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd != -1)
		text = read_all(fd);
	if (text == NULL && fd != -1 && errno == EILSEQ)
		refusal_set(r, "sql.error", "%s holds a NUL byte", path);
	else if (text == NULL)
		refusal_errno(r, "file.missing", path);
	if (fd > STDIN_FILENO)
		close(fd);
	return text;
}

int
sql_file_write(struct sql *s, const char *path, bool once)
{
	FILE **file = once ? &s->once : &s->kept, *made = NULL;

	if (path != NULL && (made = fopen(path, "we")) == NULL)
		return refusal_errno(s->refusal, "file.write", path);
	if (*file != NULL)
		fclose(*file);
	*file = made;
	return 0;
}

void
sql_out_begin(struct sql *s)
{
	FILE *page;

	s->taken = s->once;
	s->once = NULL;
	s->to_file = s->taken != NULL || s->kept != NULL;
	if (s->to_file)
		s->out = s->taken != NULL ? s->taken : s->kept;
	else
		s->out = s->pages && (page = sql_page()) != NULL ? page : stdout;
}

/* A command that shows nothing, as .mode, leaves the file of .once to what follows. */
static bool
still_waits(const struct sql *s)
{
	return s->once == NULL && ftello(s->taken) == 0;
}

static int
end_taken(struct sql *s)
{
	FILE *file = s->taken;
	bool failed;

	s->taken = NULL;
	errno = 0;
	failed = ferror(file) || fclose(file) != 0;
	return failed ? refusal_errno(s->refusal, "file.write", "the file of .once") : 0;
}

/* Where .output has just closed what was s->out, it is not looked at again. */
int
sql_out_end(struct sql *s, bool statement)
{
	FILE *out = s->out;

	s->out = stdout;
	if (s->taken != NULL && !statement && still_waits(s)) {
		s->once = s->taken;
		s->taken = NULL;
		return 0;
	}
	if (s->taken != NULL)
		return end_taken(s);
	if (!s->to_file && out != stdout)
		fclose(out);
	errno = 0;
	if (s->to_file && s->kept != NULL && (fflush(s->kept) != 0 || ferror(s->kept)))
		return refusal_errno(s->refusal, "file.write", "the file of .output");
	fflush(stdout);
	return 0;
}
