/* remote_typing.h: what is typed here, on its way to a session of another machine. */
#ifndef SHELL_REMOTE_TYPING_H
#define SHELL_REMOTE_TYPING_H

#include "shell/remote_follow.h"

struct typing;

/**
 * typing_new(loop, client, end, far, left, ctx):
 * Ask for the keyboard of the session ${far}; once it is ours, and has a terminal, make standard
 * input raw, and send what is typed there and how large it is.  While the way is cut, or the
 * session reads nothing, little is taken and nothing is lost or sent twice.  Where somebody else
 * types, or the credential does not send, that is said once, and we look on.  ${left}(${ctx}) is
 * called when the person has left, Ctrl-] or typing_leave.  Return a handle, or NULL without
 * memory.
 */
struct typing *typing_new(struct loop *loop, struct http_client *client, struct tls_end *end,
    struct far *far, void (*left)(void *ctx), void *ctx);

/**
 * typing_leave(t):
 * Send what was typed, give the keyboard back, and leave; at once where the way is cut.
 */
void typing_leave(struct typing *t);

/**
 * typing_resized(t):
 * The terminal has another size.
 */
void typing_resized(struct typing *t);

/**
 * typing_free(t):
 * Make the terminal what it was, and forget what was typed.  May be NULL.
 */
void typing_free(struct typing *t);

#endif
