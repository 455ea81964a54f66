/* say.h: what is said to a client that is refused: one line, for its header, its body and a person.
 */
#ifndef NET_EGRESS_SAY_H
#define NET_EGRESS_SAY_H

#include "engine/store/store.h"

#define SAY_TEXT_MAX (REFUSAL_WHY_MAX + REFUSAL_CODE_MAX + 160)
#define SAY_HTTP_MAX (REFUSAL_WHY_MAX * 4)

/**
 * say_text(db, refusal, text):
 * Write "WHY [CODE]; ADVICE" as one line, with blanks for what would break it.  Return the status
 * that it has over HTTP.
 */
int say_text(struct store *db, const struct refusal *refusal, char text[SAY_TEXT_MAX]);

/**
 * say_http(db, refusal, out):
 * Write the same as an answer over HTTP, after which the connection is closed.  Return its length.
 */
size_t say_http(struct store *db, const struct refusal *refusal, char out[SAY_HTTP_MAX]);

#endif
