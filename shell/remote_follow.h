/* remote_follow.h: a session of another machine, followed and typed to. */
#ifndef SHELL_REMOTE_FOLLOW_H
#define SHELL_REMOTE_FOLLOW_H

#include <sqlite3.h>

#include "shell/remote.h"
#include "shell/session_frame.h"

#define FAR_NAME 128

/* A session over there. */
struct far {
	struct cli *cli;
	struct remote_login login;
	char name[FAR_NAME + 1];
	struct session_view view;
	struct session_frames frames;
};

/**
 * far_query(far, sql, text, len):
 * Return the first row of ${sql} over ":f", the JSON ${text}, which was checked, for
 * sqlite3_finalize; or NULL where there is none, or it is no JSON.
 */
sqlite3_stmt *far_query(struct far *far, const char *sql, const char *text, size_t len);

/**
 * far_column(q, i):
 * Return the text of a column, "" for NULL, until the next step.
 */
const char *far_column(sqlite3_stmt *q, int i);

/**
 * far_follow(far, until, typing):
 * Show what the session says behind the row far->view.seq: to the row ${until}, or where that is
 * -1, to its end, however often the way is cut.  With ${typing}, and a terminal here, it is typed
 * to as well, where it takes that and we may: then Ctrl-] or a signal leaves it.  The terminal is
 * as it was at the end.  Return the exit code.
 */
int far_follow(struct far *far, int64_t until, bool typing);

#endif
