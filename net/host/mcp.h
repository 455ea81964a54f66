/* mcp.h: the Model Context Protocol, the server's end: messages in, messages out, no sockets. */
#ifndef NET_HOST_MCP_H
#define NET_HOST_MCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/actor/loop.h"
#include "engine/refusal.h"
#include "engine/store/store.h"

/*
 * Revisions 2025-11-25 and 2025-06-18 of the protocol over JSON-RPC 2.0.  Tools are the rows of
 * mcp_tool, resources are read-only views; there are no prompts.  What a tool does is an ask of a
 * box like any other: its row is made by the hook ${ask}, its frames are read from the database.
 */
#define MCP_LATEST "2025-11-25"
#define MCP_ID_MAX 256 /* characters of a request's id or a progress token */

struct mcp;         /* what all sessions share */
struct mcp_session; /* one agent */
struct mcp_call;    /* a tool that was called and has not answered */

struct mcp_hooks {
	/* Make the row of the ask ${body}; then, or at once, mcp_asked is called. */
	void (*ask)(void *ctx, struct mcp_call *call, const char *body, size_t len);
	/* ${call} is gone, and mcp_asked is not to be called for it any more. */
	void (*forget)(void *ctx, struct mcp_call *call);
	/* Take the ask ${id} back. */
	void (*cancel)(void *ctx, struct mcp_session *session, int64_t id);
	/*
	 * Send ${text} to the agent of ${session}: about ${call}, or NULL for what concerns no
	 * call. ${last}: it is the answer to ${call}, which is gone afterwards; ${text} is NULL
	 * where there is none, since the agent took the call back.
	 */
	void (*send)(void *ctx, struct mcp_session *session, struct mcp_call *call,
	    const char *text, size_t len, bool last);
};

/* What mcp_take made of a message. */
enum mcp_taken {
	MCP_NOTHING, /* a notification, or an answer: there is nothing to answer */
	MCP_ANSWER,  /* the answer is there */
	MCP_WRONG,   /* it is no message: the answer is an error without an id */
	MCP_CALL     /* a tool: mcp_begin is to be called, and the hook ${send} gives the answer */
};

/**
 * mcp_new(db, loop, hooks, ctx):
 * Return a server over ${db}, which it only reads; or NULL without memory.  ${hooks} and what they
 * are given outlive it.
 */
struct mcp *mcp_new(struct store *db, struct loop *loop, const struct mcp_hooks *hooks, void *ctx);

/**
 * mcp_free(mcp):
 * Free ${mcp}, whose sessions were freed before.  ${mcp} may be NULL.
 */
void mcp_free(struct mcp *mcp);

/**
 * mcp_wake(mcp):
 * The database may have changed: go on with the calls, and tell agents of new tools.
 */
void mcp_wake(struct mcp *mcp);

/**
 * mcp_session_new(mcp, ctx), mcp_session_free(session):
 * A conversation with one agent, which begins with its initialize.  The end takes back what it
 * still waits for.
 */
struct mcp_session *mcp_session_new(struct mcp *mcp, void *ctx);
void mcp_session_free(struct mcp_session *session);

/**
 * mcp_session_ctx(session), mcp_session_version(session), mcp_session_calls(session):
 * What it was made with; the revision that was agreed on, or NULL before; how many calls are open.
 */
void *mcp_session_ctx(const struct mcp_session *session);
const char *mcp_session_version(const struct mcp_session *session);
int64_t mcp_session_calls(const struct mcp_session *session);

/**
 * mcp_take(session, text, len, answer, call):
 * Take one message.  It passes http_json_check with the setting http.depth first; how long it may
 * be is for the caller.  Store in ${*answer} the answer, to be freed (NULL: memory ran out), for
 * MCP_ANSWER and MCP_WRONG; and in ${*call} the call for MCP_CALL.
 */
enum mcp_taken mcp_take(struct mcp_session *session, const char *text, size_t len, char **answer,
    struct mcp_call **call);

/**
 * mcp_begin(call), mcp_drop(call):
 * Start ${call}, which may be answered, and gone, when this returns; or give it up before that.
 */
void mcp_begin(struct mcp_call *call);
void mcp_drop(struct mcp_call *call);

/**
 * mcp_call_ctx(call), mcp_call_set(call, ctx):
 * A pointer of the caller's that goes with ${call}; NULL at first.
 */
void *mcp_call_ctx(const struct mcp_call *call);
void mcp_call_set(struct mcp_call *call, void *ctx);

/**
 * mcp_call_session(call):
 * Return whose call it is.
 */
struct mcp_session *mcp_call_session(const struct mcp_call *call);

/**
 * mcp_asked(call, id, refusal):
 * The ask of ${call} has the row ${id}; or none, for the reason ${refusal}.
 */
void mcp_asked(struct mcp_call *call, int64_t id, const struct refusal *refusal);

#endif
