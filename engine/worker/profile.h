/* profile.h: what a session's sandbox shows: its folder, what its worker may reach, the programs.
 */
#ifndef ENGINE_WORKER_PROFILE_H
#define ENGINE_WORKER_PROFILE_H

#include "engine/store/home.h"
#include "engine/worker/sandbox.h"
#include "engine/worker/sandbox_system.h"

#define PROFILE_TEXTS (2 * SANDBOX_PATHS_MAX)

struct profile {
	struct sandbox_plan plan;
	struct sandbox_path paths[SANDBOX_PATHS_MAX];
	char *texts[PROFILE_TEXTS]; /* of those that are ours */
	size_t text_count;
	struct sandbox_system system;
};

/**
 * profile_begin(p):
 * Make ${p} an empty profile.
 */
void profile_begin(struct profile *p);

/**
 * profile_add(p, kind, path, refusal):
 * Have ${path} in it.  The first word about a path counts.  Return 0, or -1 with ${refusal}
 * sandbox.plan.
 */
int profile_add(
    struct profile *p, enum sandbox_kind kind, const char *path, struct refusal *refusal);

/**
 * profile_show(p, source, target, refusal):
 * Have the file ${source} of this machine in it as ${target}, for reading.  Return as profile_add.
 */
int profile_show(
    struct profile *p, const char *source, const char *target, struct refusal *refusal);

/**
 * profile_close(p, home, uid, refusal):
 * Complete p->plan for a program of the user ${uid}, by sandbox_system.  The command, its
 * environment, descriptors, network and limits are the caller's to fill in.  Return 0, or -1 with
 * ${refusal} sandbox.plan.
 */
int profile_close(struct profile *p, const struct home *home, uid_t uid, struct refusal *refusal);

/**
 * profile_shows(p, path):
 * Return whether ${path} is in a folder that was added.
 */
bool profile_shows(const struct profile *p, const char *path);

/**
 * profile_free(p):
 * Free what ${p} holds.
 */
void profile_free(struct profile *p);

#endif
