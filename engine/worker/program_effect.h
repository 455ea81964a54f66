/* program_effect.h: what a program changed, looked at and applied beside the worker's loop. */
#ifndef ENGINE_WORKER_PROGRAM_EFFECT_H
#define ENGINE_WORKER_PROGRAM_EFFECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/worker/sandbox.h"
#include "engine/worker/sandbox_effect.h"

/* One program's changes.  What goes in is set by the caller; the rest is what came of it. */
struct program_effects {
	char *folders[SANDBOX_EFFECTS]; /* in the order of the plan's */
	int opened[SANDBOX_EFFECTS];    /* they, as they were before it started */
	size_t folder_count;
	struct sandbox_folder overlaid[SANDBOX_EFFECTS]; /* of the sandbox's report */
	int layers[SANDBOX_EFFECTS]; /* of changes; closed by program_effects_free */
	size_t layer_count;
	size_t most;   /* changes that may be */
	size_t listed; /* of them, in ${json} */
	size_t bytes;  /* of ${json}, about */
	bool apply;

	int rc; /* 0, or -1 with ${refusal} */
	struct refusal refusal;
	char *json; /* members of an object: changes, more, left_out, applied, digest */
	size_t json_len;
	int64_t changes, left_out;
	int64_t applied; /* -1: thrown away */
	unsigned char digest[EFFECT_DIGEST];
};

/**
 * program_effects_add(e, folder, refusal):
 * Have the changes of ${folder} gathered in ${e}: the folder that is there now, whatever is called
 * so by then.  Return 0, or -1 with ${refusal}.
 */
int program_effects_add(struct program_effects *e, const char *folder, struct refusal *refusal);

/**
 * program_effects_take(e):
 * List the changes, and make them where ${apply} is set.  May take long, and uses nothing but ${e}:
 * it is called from a thread of its own.
 */
void program_effects_take(struct program_effects *e);

/**
 * program_effects_free(e):
 * Free and close what ${e} holds.
 */
void program_effects_free(struct program_effects *e);

#endif
