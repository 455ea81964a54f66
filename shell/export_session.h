/* export_session.h: what a session said, for other programs. */
#ifndef SHELL_EXPORT_SESSION_H
#define SHELL_EXPORT_SESSION_H

#include "shell/cli.h"

enum session_form {
	SESSION_TEXT,  /* the bytes as they came, errors and remarks left out */
	SESSION_JSONL, /* a row a line: line, lines, kind, attempt, at, text or base64 */
	SESSION_CAST,  /* asciicast, version 2 (docs.asciinema.org/manual/asciicast/v2) */
};

/**
 * session_export(cli, id, form):
 * Write what is kept of the session ${id} to standard output.  A cast has times in seconds from the
 * first attempt, and U+FFFD for bytes that are no UTF-8.  Return 0, or -1 with the store's refusal.
 */
int session_export(struct cli *cli, int64_t id, enum session_form form);

#endif
