/* work.h: what verbs share that have other programs do their work. */
#ifndef ENGINE_WORKER_WORK_H
#define ENGINE_WORKER_WORK_H

#include <stdbool.h>

#include "engine/worker/answer.h"
#include "engine/worker/observe.h"
#include "engine/worker/tool.h"

#define WORK_NAME 128 /* bytes of a name, with its NUL */
#define WORK_LINE TOOL_ARG_MAX

/* What a run holds while it works. */
struct work {
	const struct observe_args *args;
	const struct observe_limits *limits;
	const struct observe_env *env;
	struct answer *out;
	struct refusal refusal;
	int failed;
	char first[WORK_LINE]; /* the first line of a short answer */
};

/**
 * work_of(args, limits, env, out):
 * Return a run that has done nothing yet.
 */
struct work work_of(const struct observe_args *args, const struct observe_limits *limits,
    const struct observe_env *env, struct answer *out);

/**
 * work_run(w, which, fill, take):
 * Run ${which} on ${fill}, with ${take}(${w}, line, len) for each line.  Return 0, TOOL_ABSENT as
 * tool_run does, or -1 with why in ${w}->refusal.
 */
int work_run(struct work *w, enum tool which, const struct tool_fill *fill,
    int (*take)(void *, const char *, size_t));

/**
 * work_first(w, line, len):
 * A take for work_run: keep the first line in ${w}->first.
 */
int work_first(void *w, const char *line, size_t len);

/**
 * work_lacks(w, op):
 * Whether this machine has not what ${op} needs, which is nobody's fault: act.tool.
 */
bool work_lacks(struct work *w, const char *op);

/**
 * work_items(w), work_item(w, change, name):
 * Begin the table item (change, name) of the answer; add a row to it.  Return 0, or not.
 */
int work_items(struct work *w);
int work_item(struct work *w, const char *change, const char *name);

/**
 * work_ends(w, rc):
 * Return the exit code of a run that ended with ${rc}, after telling its refusal where that is not
 * 0.
 */
int work_ends(struct work *w, int rc);

/**
 * work_word(text, more, most):
 * Whether ${text} is 1 to ${most} letters and digits of ASCII and characters of ${more}, the first
 * of them none of these.
 */
bool work_word(const char *text, const char *more, size_t most);

#endif
