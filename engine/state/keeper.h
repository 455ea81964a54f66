/* keeper.h: the actor that does what is due: expiry, seals, the system log, checkpoints, retention.
 */
#ifndef ENGINE_STATE_KEEPER_H
#define ENGINE_STATE_KEEPER_H

#include "engine/actor/actor.h"

/*
 * At every wake, and at the time that the next thing is due, the keeper
 *   ends approvals, grants and invitations whose time ran out;
 *   seals the audit once its oldest unsealed row is audit.seal_ms old, and at the end; before each
 *   seal its tree grows, and after it the words of what was sealed go into the index;
 *   ships audit rows to the system log, for OUTBOX_FLUSH_MS more at the end;
 *   folds the write-ahead log into the database, store.checkpoint_ms after a change, or once the
 *   database grew by half of STORE_LOG_PAGES;
 *   at its start and then every retention.look_ms, removes what was kept for long enough.
 * What fails is said once on standard error and tried again store.tick_ms later.
 */
extern const struct actor actor_keeper;

/**
 * keeper_log(path):
 * For tests: let keepers that start from now on ship to the datagram socket ${path}, which must
 * live as long as they do.
 */
void keeper_log(const char *path);

#endif
