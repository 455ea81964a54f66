/* remote.h: sessions from other machines: where this one listens, who may come, and what was tried.
 */
#ifndef ENGINE_STATE_REMOTE_H
#define ENGINE_STATE_REMOTE_H

#include <stdbool.h>

#include "engine/crypto/key.h"
#include "engine/state/listen.h"
#include "engine/store/store.h"

/* "brs_", a selector by which the row is found, "_", and the secret: both in hex. */
#define REMOTE_SELECTOR   16
#define REMOTE_SECRET     64
#define REMOTE_TOKEN_LEN  (4 + REMOTE_SELECTOR + 1 + REMOTE_SECRET)
#define REMOTE_ORIGIN_MAX 64
#define REMOTE_NAME_MAX   64

/* What a credential allows. */
struct remote_ask {
	const char *name;
	const char *verbs, *roots; /* JSON arrays */
	uid_t uid;                 /* whose sessions they are: who asks, by the kernel's word */
	int64_t ttl_ms;            /* 0: the setting remote.ttl_ms */
};

/**
 * remote_listen(db, place), remote_listen_off(db):
 * Have this box listen for sessions at ${place}, and nowhere else; or nowhere.  Return 0, or -1
 * with the refusal of ${db}: listen.invalid, remote.role, remote.port.
 */
int remote_listen(struct store *db, const struct listen_place *place);
int remote_listen_off(struct store *db);

/**
 * remote_add(db, key, ask, token):
 * Make a credential, with a digest by ${key}, in a transaction of its own, and store what is shown
 * once in ${token}.  Return 0, or -1 with the refusal of schema/remote.sql.
 */
int remote_add(struct store *db, const struct key *key, const struct remote_ask *ask,
    char token[REMOTE_TOKEN_LEN + 1]);

/**
 * remote_rotate(db, key, name, ttl_ms, token):
 * End the live credential ${name}, and make one that allows the same, for ${ttl_ms} from now (0: as
 * long as the first was made for).  Return 0, or -1 with the refusal of ${db}: remote.unknown.
 */
int remote_rotate(struct store *db, const struct key *key, const char *name, int64_t ttl_ms,
    char token[REMOTE_TOKEN_LEN + 1]);

/**
 * remote_revoke(db, name):
 * End the live credential ${name}.  Return 0, or -1 with the refusal of ${db}: remote.unknown.
 */
int remote_revoke(struct store *db, const char *name);

/**
 * remote_right(db, key, token, id):
 * Whether ${token} is that of a live credential.  What is compared has always the same size, in
 * constant time, and the same is done for a token that names none.  Store the credential that it
 * names in ${*id}, right or not; 0 for none.
 */
bool remote_right(struct store *db, const struct key *key, const char *token, int64_t *id);

/**
 * remote_origin(address, origin):
 * Store what wrong secrets from ${address} (text) are held against: itself, or the /64 of IPv6.
 */
void remote_origin(const char *address, char origin[REMOTE_ORIGIN_MAX + 1]);

/**
 * remote_held(db, origin, r):
 * Return 0 where ${origin} is heard now, or -1 with ${r} remote.held and when it will be.
 */
int remote_held(struct store *db, const char *origin, struct refusal *r);

/**
 * remote_tried(db, origin, id, right):
 * In the transaction that is open: write down that ${origin} showed a secret, that of ${id} (0: of
 * none).  Return 0, or -1 with the refusal of ${db}: remote.held, remote.token (it ended
 * meanwhile).
 */
int remote_tried(struct store *db, const char *origin, int64_t id, bool right);

/**
 * remote_who(db, id, name, uid):
 * Store the name of the live credential ${id} and whose its sessions are.  Return 0 or -1, with the
 * refusal of ${db}.
 */
int remote_who(struct store *db, int64_t id, char name[REMOTE_NAME_MAX + 1], uid_t *uid);

/**
 * remote_reaches(db, id, session, verb):
 * Return 0 where the credential ${id} may do ${verb} with ${session}; else -1 with the refusal of
 * ${db}: remote.verb, or session.unknown for one that it cannot even see.
 */
int remote_reaches(struct store *db, int64_t id, int64_t session, const char *verb);

#endif
