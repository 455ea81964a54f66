/* acting.h: for tests: run verbs within the test's own process, below a folder of its own. */
#ifndef TESTS_WORKER_ACTING_H
#define TESTS_WORKER_ACTING_H

#include "tests/worker/recorded.h"

/* Where the database said that a verb may reach; "": it has not been asked. */
static const char *acting_pin = "";

/* A path below the test's own folder. */
static inline const char *
at(const char *name)
{
	static char path[4][256];
	static unsigned turn;

	snprintf(path[++turn % 4], sizeof(path[0]), "%s/%s", root, name);
	return path[turn % 4];
}

static inline const char *
content(const char *path)
{
	static char text[8192];
	FILE *f = fopen(path, "re");
	size_t n;

	if (f == NULL)
		return "(none)";
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static inline void
act(struct ask *a, const char *op, const char *one, const char *two, int dry, int code)
{
	const char *const words[] = {one, two, NULL};
	int fd = memfd_create("answer", MFD_CLOEXEC);
	static struct observe_args canon;
	struct refusal refusal;
	struct answer *out;
	struct stat st;

	if (ask_check(op, words, &canon, &refusal) != 0)
		fail_msg("%s: %s", op, refusal.why);
	canon.dry = dry;
	snprintf(canon.pin, sizeof(canon.pin), "%s", acting_pin);
	assert_non_null(out = answer_new(fd, limits.frame_max));
	assert_true(observe_find(op)->acts);
	a->code = observe_find(op)->run(&canon, &limits, &env, out);
	answer_free(out);
	assert_int_equal(fstat(fd, &st), 0);
	assert_non_null(a->frames = calloc(1, (size_t)st.st_size + 1));
	assert_int_equal(pread(fd, a->frames, (size_t)st.st_size, 0), st.st_size);
	close(fd);
	ask_result(a);
	if (a->code != code)
		fail_msg("%s ends with %d: %s", op, a->code, a->frames);
	free(a->frames);
}

static inline void
refused(struct ask *a, const char *op, const char *one, const char *two, const char *want, int code)
{
	act(a, op, one, two, 0, code);
	ask_is(a->result, "SELECT ?1 ->> '$.refused.code'", want);
}

static inline void
shell(const char *format, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("%s", command);
}

#endif
