/* bundle.h: rows of repositories that another machine copies here; schema/session_bundle.sql
 * decides. */
#ifndef ENGINE_STATE_BUNDLE_H
#define ENGINE_STATE_BUNDLE_H

#include "engine/store/store.h"

struct bundle_ask {
	int64_t credential;
	const char *name, *folder, *sha256;
	int64_t size;
	const char *program; /* of bastion, whole path: what the copy's session runs */
};

/**
 * bundle_ask(db, ask):
 * In the transaction that is open, whose actor is the credential: begin a copy, or find the one of
 * the same bytes to the same place that this credential has under way.  Return its id, or -1 with
 * the refusal of ${db}.
 */
int64_t bundle_ask(struct store *db, const struct bundle_ask *ask);

/**
 * bundle_take(db, credential, id, at, data, len):
 * In the same way: hand the ${len} bytes from ${at} on to the copy ${id}; with the last of them its
 * input ends.  Return 0, or -1 with the refusal of ${db}: bundle.unknown, bundle.offset (other
 * bytes are next), bundle.size, bundle.over, session.input (it has not read what was sent yet).
 */
int bundle_take(
    struct store *db, int64_t credential, int64_t id, int64_t at, const void *data, size_t len);

#endif
