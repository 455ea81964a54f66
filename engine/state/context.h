/* context.h: users of this machine ask to share a folder with a Host; a person answers. */
#ifndef ENGINE_STATE_CONTEXT_H
#define ENGINE_STATE_CONTEXT_H

#include <limits.h>
#include <stdint.h>

#include "engine/state/approval.h"
#include "engine/store/store.h"

#define CONTEXT_NAME_MAX 256 /* bytes: 64 characters */

/* What a user asks.  Longer texts are cut by nobody: the caller refuses them. */
struct context_request {
	int64_t uid; /* on the kernel's word */
	char root[PATH_MAX];
	char name[CONTEXT_NAME_MAX + 1]; /* "": the last part of root */
	char host[65];                   /* "": the one Host that is served */
};

/**
 * context_ask(db, request, id):
 * Put the question whether the folder ${request}->root may be shared, and store its id in ${*id}.
 * A step of the caller's transaction.  Nothing is looked for on the disk: whoever serves the
 * network cannot see a user's folder.  Return 0, or -1 with the refusal of ${db}: context.host,
 * context.path, context.name, context.exists, context.yours, context.busy, context.rate,
 * pairing.inactive, pairing.invalid.
 */
int context_ask(struct store *db, const struct context_request *request, int64_t *id);

/**
 * context_withdraw(db, uid, id):
 * The user ${uid} takes back the ask ${id}, or what it was allowed.  A step of the caller's
 * transaction.  Return 0, or -1 with the refusal of ${db}: context.unknown, also for another user's
 * ask, context.decided.
 */
int context_withdraw(struct store *db, int64_t uid, int64_t id);

/* The folder that stands at a path. */
struct context_folder {
	int64_t dev, ino, uid;
};

/**
 * context_look(root, uid, folder, refusal):
 * Find the folder ${root} without following any link, and make sure that it is one of ${uid}'s.
 * Return 0 with ${folder} filled, or -1 with ${refusal}: context.folder, context.link,
 * context.owner.
 */
int context_look(
    const char *root, int64_t uid, struct context_folder *folder, struct refusal *refusal);

/**
 * context_allow(db, answer):
 * Allow the ask ${answer}->id: look at the folder as this process may see it, prove the person, and
 * seal what was allowed, in one durable transaction.  All but the proof is looked at first, so its
 * refusal spends no code.  Return 0, or -1 with the refusal of ${db} and nothing changed but the
 * try: context.unknown, context.decided, context.expired, context.terms, those of context_look,
 * approval.person, or those of factor_prove_totp and factor_prove_ssh.
 */
int context_allow(struct store *db, const struct approval_answer *answer);

/**
 * context_deny(db, answer), context_drop(db, id):
 * Deny an ask, or take back what was allowed.  Neither needs a proof.  Return 0, or -1 with the
 * refusal of ${db}: context.unknown, context.decided, context.expired.
 */
int context_deny(struct store *db, const struct approval_answer *answer);
int context_drop(struct store *db, int64_t id);

#endif
