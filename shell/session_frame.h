/* session_frame.h: rows of a session as a daemon sends them, one JSON value a line. */
#ifndef SHELL_SESSION_FRAME_H
#define SHELL_SESSION_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/refusal.h"
#include "shell/session_view.h"

struct sqlite3;
struct sqlite3_stmt;

/* Whoever reads frames. Zeros begin one; session_frame_drop ends it. */
struct session_frames {
	struct sqlite3 *json; /* takes them apart; opened when it is first needed */
	int64_t id;           /* the session that they are of; 0: none came yet */
	bool over;            /* the last one came, and with it: */
	int code;             /* what to exit with */
	char state[16], reason[32];
};

/**
 * session_frame_show(frames, view, text, len, r):
 * Take apart the frame of ${len} bytes at ${text} (openapi.json, /v1/sessions/{name}/output), which
 * a NUL follows, and show in ${view} what it says.  Return 0, or -1 with ${r}: http.protocol where
 * it is no frame, of another session than the one before it, or behind one that came already;
 * session.watch where it cannot be shown.
 */
int session_frame_show(struct session_frames *frames, struct session_view *view, const char *text,
    size_t len, struct refusal *r);

/**
 * session_frame_query(frames, sql, text, len, r):
 * Return ${sql}, standing at its first row, over the JSON ${text}, for sqlite3_finalize; NULL where
 * it is no JSON within our bounds or has no row.
 */
struct sqlite3_stmt *session_frame_query(struct session_frames *frames, const char *sql,
    const char *text, size_t len, struct refusal *r);

/**
 * session_frame_drop(frames):
 * Free what ${frames} holds.
 */
void session_frame_drop(struct session_frames *frames);

#endif
