/* dry.h: what this box would make of an ask, with nothing made of it. */
#ifndef NET_HOST_DRY_H
#define NET_HOST_DRY_H

#include "engine/store/store.h"

#define DRY_MAX 4096 /* bytes of the answer, with its NUL */

/**
 * dry_ask(db, decide, ctx, answer):
 * Have ${decide}(${db}, ${ctx}) decide as it does for an ask, whose op_run is the row that it
 * inserts last, inside a step that is undone whatever came of it: no use is spent, no question put,
 * no row of audit left.  Store the frames of the answer in ${answer}: a result with "dry"
 * (allowed, approval, refused), and the exit 0, 77 or 126.  Within the caller's transaction.
 * Return 0, or -1 with the refusal of ${db}.
 */
int dry_ask(
    struct store *db, int (*decide)(struct store *db, void *ctx), void *ctx, char answer[DRY_MAX]);

#endif
