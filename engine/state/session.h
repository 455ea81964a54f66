/* session.h: long work as rows: begin a session, send to it, have it end. */
#ifndef ENGINE_STATE_SESSION_H
#define ENGINE_STATE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/store/store.h"

struct session_ask {
	const char *name;   /* "": made of ${base} and a number */
	const char *base;   /* letters, digits, ".", "-" and "_" */
	const char *worker; /* "": a command of its own */
	const char *argv;   /* a JSON array: the command, or what comes behind the worker's */
	const char *cwd;    /* absolute */
	uid_t uid;          /* who asks, by the kernel's word; runs it, too */
	bool terminal, input;
	bool sandbox; /* a command of its own is held, too: it reaches ${cwd} alone */
	int64_t rows, cols;
	int64_t attempts; /* 0: as the worker has it, or once */
};

/**
 * session_new(db, ask):
 * In the transaction that is open: queue the session.  Return its id, or -1 with the refusal of
 * schema/session.sql.
 */
int64_t session_new(struct store *db, const struct session_ask *ask);

/**
 * session_send(db, id, kind, data, len):
 * In the transaction that is open: have the session ${id} given ${len} bytes ("data"), its input's
 * end
 * ("end"), or a terminal's size ("size", as 80x24).  Return 0 or -1.
 */
int session_send(struct store *db, int64_t id, const char *kind, const void *data, size_t len);

/**
 * session_type(db, id, typist, n, kind, data, len):
 * In the transaction that is open: whoever calls itself ${typist} (32 hex digits) has the keyboard
 * of the session ${id} from now on, for the setting session.typist_ms, and types its piece number
 * ${n}, as session_send; one that was taken before is not taken again.  With ${kind} NULL it only
 * keeps the keyboard, and has typed up to ${n}.  Return 0, or -1 with the refusal of
 * schema/session_typist.sql.
 */
int session_type(struct store *db, int64_t id, const char *typist, int64_t n, const char *kind,
    const void *data, size_t len);

/**
 * session_leave(db, id, typist):
 * In the transaction that is open: ${typist} gives the keyboard of the session ${id} back, if it
 * has it.  Return 0 or -1.
 */
int session_leave(struct store *db, int64_t id, const char *typist);

/**
 * session_cancel(db, id):
 * In the transaction that is open: ask for the end of the session ${id}.  One that is over, or
 * whose end was asked for, stays as it is.  Return 0 or -1.
 */
int session_cancel(struct store *db, int64_t id);

#endif
