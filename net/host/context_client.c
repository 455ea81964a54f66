/* context_client.c: find the bastion that answers users, ask it, and understand its refusal. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/store/home.h"
#include "net/host/context_client.h"
#include "net/http/json.h"
#include "net/http/unixsock.h"

#define SYSTEM_SOCKET "/run/bastion-ask/ask.sock"
#define DEPTH         8
#define REPLY_MAX     (1 << 20)
#define WAIT_MS       30000

static const char REFUSED[] = "SELECT ?1 ->> '$.error.code', ?1 ->> '$.error.why'";

static int
socket_find(char path[UNIXSOCK_PATH_MAX + 1], struct refusal *refusal)
{
	const char *run, *user = getenv("XDG_RUNTIME_DIR");
	int n;

	if (home_variable("BASTION_RUN", &run, refusal) != 0)
		return -1;
	if (run != NULL)
		n = snprintf(path, UNIXSOCK_PATH_MAX + 1, "%s-ask/ask.sock", run);
	else if (access(SYSTEM_SOCKET, F_OK) == 0 || user == NULL || *user != '/')
		n = snprintf(path, UNIXSOCK_PATH_MAX + 1, "%s", SYSTEM_SOCKET);
	else
		n = snprintf(path, UNIXSOCK_PATH_MAX + 1, "%s/bastion-ask/ask.sock", user);
	return n > 0 && n <= UNIXSOCK_PATH_MAX
		   ? 0
		   : refusal_set(refusal, "socket.path", "the socket's path is too long");
}

/* Store in ${refusal} what the error ${answer} says. */
static int
refused(const struct http_answer *answer, struct refusal *refusal)
{
	sqlite3 *memory = NULL;
	sqlite3_stmt *q = NULL;
	const char *code, *why;

	refusal_set(refusal, "http.protocol", "the answer is none of a bastion");
	if (http_json_check(answer->body, answer->len, DEPTH, NULL) == 0 &&
	    sqlite3_open(":memory:", &memory) == SQLITE_OK &&
	    sqlite3_prepare_v2(memory, REFUSED, -1, &q, NULL) == SQLITE_OK &&
	    sqlite3_bind_text(q, 1, answer->body, (int)answer->len, SQLITE_STATIC) == SQLITE_OK &&
	    sqlite3_step(q) == SQLITE_ROW &&
	    (code = (const char *)sqlite3_column_text(q, 0)) != NULL &&
	    (why = (const char *)sqlite3_column_text(q, 1)) != NULL)
		refusal_set(refusal, code, "%s", why);
	sqlite3_finalize(q);
	sqlite3_close(memory);
	return -1;
}

int
context_call(const char *method, const char *path, const char *body, struct http_answer *answer,
    struct refusal *refusal)
{
	static const struct http_field json[] = {
	    {"Content-Type", "application/json"}, {NULL, NULL}};
	char socket[UNIXSOCK_PATH_MAX + 1], url[128];
	struct http_request request = {.socket_path = socket,
	    .method = method,
	    .url = url,
	    .headers = json,
	    .body = body,
	    .body_len = body != NULL ? strlen(body) : 0,
	    .total_ms = WAIT_MS,
	    .reply_max = REPLY_MAX};

	snprintf(url, sizeof(url), "http://bastion%s", path);
	if (socket_find(socket, refusal) != 0)
		return -1;
	if (http_ask(&request, answer, refusal) != 0)
		return strcmp(refusal->code, "http.unreachable") != 0
			   ? -1
			   : refusal_set(
				 refusal, "context.offline", "no bastion answers at %s", socket);
	if (answer->status == 200 &&
	    http_json_check(answer->body, answer->len, DEPTH, refusal) == 0)
		return 0;
	refused(answer, refusal);
	free(answer->body);
	return -1;
}
