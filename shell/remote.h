/* remote.h: other machines that this user has a secret of, and how they are asked. */
#ifndef SHELL_REMOTE_H
#define SHELL_REMOTE_H

#include "engine/endpoint.h"
#include "engine/state/remote.h"
#include "net/http/client.h"
#include "shell/cli.h"

/*
 * A login is a file of the state directory, remotes/NAME: ours, 0600, read by nobody else.  It is
 * no row, since a machine that only asks others has no database; and no argument or variable, which
 * other users and children would see.
 */
struct remote_login {
	char name[REMOTE_NAME_MAX + 1];
	char address[ENDPOINT_TEXT_MAX + 1]; /* as endpoint_parse spells it */
	uint8_t pin[32];                     /* SHA-256 of its authority */
	char token[REMOTE_TOKEN_LEN + 1];
};

/**
 * remote_login_save(login, r), remote_login_load(name, login, r), remote_login_drop(name, r):
 * Keep ${login} in the place of what had its name; read it; forget it.  A file that others could
 * have read or written is not believed.  Return 0, or -1 with ${r}: remote.login (there is none),
 * remote.open, remote.name, store.directory, store.failed.
 */
int remote_login_save(const struct remote_login *login, struct refusal *r);
int remote_login_load(const char *name, struct remote_login *login, struct refusal *r);
int remote_login_drop(const char *name, struct refusal *r);

/**
 * remote_login_read(text, login):
 * Read the text of such a file into ${login}, but for its name.  Return 0, or -1 where it is none.
 */
int remote_login_read(const char *text, struct remote_login *login);

/**
 * remote_login_each(fn, ctx, r):
 * Call ${fn}(${ctx}, login) for each login that can be read.  Return 0 or -1 with ${r}.
 */
int remote_login_each(
    void (*fn)(void *ctx, const struct remote_login *login), void *ctx, struct refusal *r);

/* What is asked of another machine. */
struct remote_request {
	const char *method, *path; /* "/v1/sessions" */
	const void *body;          /* NULL: none */
	size_t len;
	const char *type; /* of the body */
	bool keep;        /* the connection, for the next such request of the same client */
	bool stream;      /* it takes as long as it takes; else as long as an answer may */

	/* As in http_request; NULL: an answer of remote_ask. */
	int (*chunk)(void *ctx, struct http_call *call, const char *data, size_t len);
	void (*done)(void *ctx, struct http_call *call, const struct refusal *refusal);
	void *ctx;
};

/**
 * remote_ask(login, request, answer, r):
 * As http_ask, of the machine of ${login}: under its pinned authority alone, with its secret.
 */
int remote_ask(const struct remote_login *login, const struct remote_request *request,
    struct http_answer *answer, struct refusal *r);

/**
 * remote_start(client, end, login, request, r):
 * The same as http_start; ${end}, of remote_tls, outlives the call.
 */
struct http_call *remote_start(struct http_client *client, struct tls_end *end,
    const struct remote_login *login, const struct remote_request *request, struct refusal *r);

/**
 * remote_tls(login, r):
 * Return our end of connections to the machine of ${login}, for tls_end_free; or NULL with ${r}.
 */
struct tls_end *remote_tls(const struct remote_login *login, struct refusal *r);

/**
 * remote_is_cut(r):
 * Whether it is the way that failed with ${r}, so that trying again is some use.
 */
bool remote_is_cut(const struct refusal *r);

/**
 * remote_refuse(cli, text):
 * Refuse as the other machine did in ${text}, the body of its answer: its words, its exit code, its
 * advice.  Return the exit code.
 */
int remote_refuse(struct cli *cli, const char *text);

#endif
