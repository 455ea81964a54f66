/* escape.h: what hostile programs share.  They are built alone, without bastion or a sanitizer. */
#ifndef TESTS_WORKER_ESCAPE_ESCAPE_H
#define TESTS_WORKER_ESCAPE_ESCAPE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A program is called with the name of an attempt and what it is about.  It prints one line:
 * "held ERRNO" where the last way failed with that, or "ESCAPED what"; and its exit code says the
 * same.
 */
struct attempt {
	const char *name;
	int (*run)(const char *about);
};

/* The way failed, with errno. */
static inline int
held(void)
{
	printf("held %s\n", strerrorname_np(errno));
	return 0;
}

/* The way failed, and no errno tells how. */
static inline int
held_by(const char *what)
{
	printf("held %s\n", what);
	return 0;
}

static inline int
escaped(const char *what)
{
	printf("ESCAPED %s\n", what);
	return 1;
}

static inline int
attempt(const struct attempt *list, int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; argc > 1 && list->name != NULL; list++)
		if (strcmp(list->name, argv[1]) == 0)
			return list->run(argc > 2 ? argv[2] : "");
	return escaped("there is no such attempt");
}

#endif
