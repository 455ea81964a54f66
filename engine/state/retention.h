/* retention.h: what is old enough goes, a little at a time (schema/retention.sql). */
#ifndef ENGINE_STATE_RETENTION_H
#define ENGINE_STATE_RETENTION_H

#include "engine/store/store.h"

/**
 * retention_step(db):
 * Take one step of what is due, in a transaction of its own that is short whatever waits: delete
 * frames of answers behind their mark, at most retention.frames and retention.bytes of them; or
 * move one mark by at most retention.batch rows, which removes them where they are short; or let
 * the audit begin later, which needs the machine's key; or give at most store.vacuum_pages free
 * pages back to the disk.  Return 1 when something was done, so that more may be due; 0 when
 * nothing is; or -1 with ${db}'s refusal.
 */
int retention_step(struct store *db);

#endif
