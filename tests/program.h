/* program.h: for tests: the program itself, run as a person runs it. */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include <sys/types.h>

#include "tests/scratch.h"

struct program {
	int code;   /* exit code; 128 and the signal where one ended it */
	char *out;  /* standard output, whole */
	char *err;  /* standard error */
	size_t len; /* of out */
};

/* A conversation on a terminal of its own. */
struct program_talk {
	pid_t pid;
	int fd;           /* the terminal's other end */
	char seen[65536]; /* what was shown since the last program_expect */
	size_t len;
};

/**
 * program_path():
 * Return the path of the program: $BASTION, or the one that was built beside the running suite.
 */
const char *program_path(void);

/**
 * program_run(p, s, input, words):
 * Run the program with ${words} (ended by NULL, without the program's own name) over the state of
 * ${s}, which is that of the box and of the Host at once, with ${input} (or NULL) as standard
 * input.  Fill ${p}; free it with program_free.
 */
void program_run(
    struct program *p, struct scratch *s, const char *input, const char *const words[]);
void program_free(struct program *p);

/**
 * program_of(p, s, words):
 * The same for another program, words[0], as one that runs ours in a place that it makes.
 */
void program_of(struct program *p, struct scratch *s, const char *const words[]);

/**
 * program_talk(t, s, words), program_type(t, text), program_expect(t, text):
 * Run the program on a terminal of 80 columns, over the state of ${s}, or where that is NULL over
 * the one that the environment names; type ${text}; wait, at most 20 s, until ${text} is shown, and
 * fail the test otherwise.
 */
void program_talk(struct program_talk *t, struct scratch *s, const char *const words[]);
void program_type(struct program_talk *t, const char *text);
void program_expect(struct program_talk *t, const char *text);

/**
 * program_over(t), program_ends(t, code):
 * Wait for the end of the program and return its exit code; or fail the test, with what was said
 * last, where that is not ${code}.
 */
int program_over(struct program_talk *t);
void program_ends(struct program_talk *t, int code);

#endif
