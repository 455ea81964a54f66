/* sandbox_effect.h: what a program in a sandbox changed: a list, applied or thrown away. */
#ifndef ENGINE_WORKER_SANDBOX_EFFECT_H
#define ENGINE_WORKER_SANDBOX_EFFECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "engine/refusal.h"
#include "engine/worker/sandbox.h"

#define EFFECT_DIGEST 32

enum effect_change {
	EFFECT_CREATED,
	EFFECT_MODIFIED, /* another content, or another link */
	EFFECT_MODE,     /* other permissions alone */
	EFFECT_DELETED,  /* a folder with all that is in it: ${count} entries */
	EFFECT_LEFT_OUT, /* never applied; ${why} says why */
};

struct effect_entry {
	enum effect_change change;
	char type;  /* 'f' a file, 'd' a folder, 'l' a link, '?' anything else */
	char *path; /* below the folder, without a slash in front */
	const char *why;
	mode_t mode;   /* permissions alone */
	int64_t bytes; /* of a file, as it is now */
	int64_t count; /* of what a deleted folder held, itself too */
	unsigned char
	    content[EFFECT_DIGEST]; /* of a file or a link's text; of what a deleted folder held */
	struct stat was;            /* what lay there before; st_ino 0: nothing */
	bool
	    fresh; /* in a folder that is new, or in the place of what goes: nothing can be there */
};

/* The changes of one folder, in an order in which they can be made. */
struct effect {
	int upper; /* the layer of changes; the caller's */
	int lower; /* the folder; the caller's */
	struct effect_entry *entries;
	size_t count, room;
	size_t most;
	size_t left_out;
	unsigned char digest[EFFECT_DIGEST]; /* of all of it, contents too */
};

/**
 * effect_open(folder, refusal):
 * Open ${folder}, whose changes are to be gathered, before its sandbox is started: who owns a
 * folder above it may put another in its place while the program runs.  No component may be a link.
 * Return a descriptor, closed on exec, or -1 with ${refusal} sandbox.plan.
 */
int effect_open(const char *folder, struct refusal *refusal);

/**
 * effect_read(e, folder, overlaid, upper, most, refusal):
 * List in ${e} what the layer of changes ${upper}, a descriptor from sandbox_ready, makes of
 * ${folder}, from effect_open, after the sandbox has ended.  ${overlaid} is of the report of that
 * sandbox.  Times and extended attributes are no change.  Left out are pipes, sockets and devices;
 * links that lead out of the folder; what cannot be read; and set-ID bits.  Return 0; or -1 with
 * ${refusal} sandbox.effect: the sandbox stood over another folder, there are more than ${most}
 * changes, or the folder cannot be read.  effect_free in both cases.
 */
int effect_read(struct effect *e, int folder, const struct sandbox_folder *overlaid, int upper,
    size_t most, struct refusal *refusal);

/**
 * effect_apply(e, applied, refusal):
 * Make the changes of ${e} in the folder, each beneath handles, files whole or not at all.  Nothing
 * is done where something that would be replaced or removed is not any more what it was when the
 * list was made: ${refusal} sandbox.applied.  Store how many changes were made in ${*applied}.
 * Return 0 or -1.
 */
int effect_apply(const struct effect *e, size_t *applied, struct refusal *refusal);

/**
 * effect_keep(e, folder, kept, refusal):
 * Copy what ${e} created and modified into the new folder ${folder}, as a person may look at it.
 * Store how many in ${*kept}.  Return 0 or -1.
 */
int effect_keep(const struct effect *e, const char *folder, size_t *kept, struct refusal *refusal);

/**
 * effect_change_name(change), effect_type_name(type):
 * "created", "modified", "mode", "deleted", "left out"; "file", "folder", "link", "other".
 */
const char *effect_change_name(enum effect_change change);
const char *effect_type_name(char type);

/**
 * effect_free(e):
 * Free ${e}.
 */
void effect_free(struct effect *e);

#endif
