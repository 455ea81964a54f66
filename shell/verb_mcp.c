/* verb_mcp.c: MCP over standard input and output, for the agent that started us. */
#include <sys/epoll.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/loop.h"
#include "net/host/mcp.h"
#include "net/http/unixclient.h"
#include "shell/answer.h"
#include "shell/cli.h"

#define DAEMON_MS 10000 /* for the daemon to take an ask, or take it back */

/* One agent. Its messages are lines on standard input, and nothing but messages leaves by standard
 * output; asks are made by the Host's daemon. */
struct stdio {
	struct cli *cli;
	struct loop *loop;
	struct mcp *mcp;
	struct mcp_session *session;
	char *line; /* what came of the next message */
	size_t len, size, max;
	bool skipping; /* the rest of a line that was too long */
	bool failed;   /* nobody reads us any more */
};

static void
say(struct stdio *io, const char *text, size_t len)
{
	if (text == NULL || io->failed)
		return;
	if (fwrite(text, 1, len, stdout) != len || putchar('\n') == EOF || fflush(stdout) != 0) {
		io->failed = true;
		loop_stop(io->loop);
	}
}

/*
 * Asks, through the daemon.
 */

/* One request of the daemon.  Return its status with the connection open, or -1 with it closed. */
static int
daemon_ask(struct stdio *io, struct unixclient *c, const char *method, const char *target,
    const char *body, size_t len, struct refusal *r)
{
	const struct home *home = &io->cli->home;
	char path[sizeof(home->run) + sizeof("/control.sock")];
	int status;

	snprintf(path, sizeof(path), "%s/control.sock", home->run);
	if (unixclient_dial(c, path, home->owner, unixclient_now() + DAEMON_MS, r) != 0) {
		if (strcmp(r->code, "http.unreachable") == 0)
			refusal_set(r, "call.offline",
			    "the Host is not serving, so nobody would carry this ask");
		return -1;
	}
	if ((status = unixclient_ask(c, method, target, body, len, r)) == -1)
		unixclient_close(c);
	return status;
}

/* The first line of the daemon's answer: the number of the ask, or why there is none. */
static int64_t
number_read(struct unixclient *c, int status, struct refusal *r)
{
	struct answer_view view = {.mode = CLI_JSON};
	struct answer_end end = {.exit_code = 0};
	int64_t id = 0;
	char *line;

	if (unixclient_line(c, &line, r) != 1)
		return refusal_set(r, "call.lost", "the Host stopped before it took the ask");
	if (status == 200 && sscanf(line, "{\"c\":%" SCNd64 "}", &id) == 1 && id > 0)
		return id;
	if (answer_refusal(&view, line, &end) == 0)
		*r = end.refusal;
	else
		refusal_set(r, "http.protocol", "the daemon answered with status %d", status);
	answer_drop(&view);
	return -1;
}

/* The ask goes on when we hang up: its answer is read from the database. */
static void
on_ask(void *ctx, struct mcp_call *call, const char *body, size_t len)
{
	struct stdio *io = ctx;
	struct refusal r = {.code = ""};
	struct unixclient c;
	int64_t id = -1;
	int status;

	if ((status = daemon_ask(io, &c, "POST", "/v1/calls", body, len, &r)) != -1) {
		id = number_read(&c, status, &r);
		unixclient_close(&c);
	}
	mcp_asked(call, id, id == -1 ? &r : NULL);
}

static void
on_forget(void *ctx, struct mcp_call *call)
{
	(void)ctx; /* an ask has its row, or none, when on_ask returns */
	(void)call;
}

static void
on_cancel(void *ctx, struct mcp_session *session, int64_t id)
{
	struct unixclient c;
	struct refusal r;
	char target[64];

	(void)session;
	snprintf(target, sizeof(target), "/v1/calls/%" PRId64, id);
	if (daemon_ask(ctx, &c, "DELETE", target, NULL, 0, &r) != -1)
		unixclient_close(&c);
	else
		fprintf(stderr, "bastion: mcp: %s\n", r.why);
}

static void
on_send(void *ctx, struct mcp_session *session, struct mcp_call *call, const char *text, size_t len,
    bool last)
{
	(void)session;
	(void)call;
	(void)last;
	say(ctx, text, len);
}

/*
 * Messages.
 */

static void
too_long(struct stdio *io)
{
	static const char fmt[] = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,"
				  "\"message\":\"a message is at most %zu bytes long\"}}";
	char text[sizeof(fmt) + 24] = "";

	snprintf(text, sizeof(text), fmt, io->max);
	say(io, text, strlen(text));
}

static void
take(struct stdio *io, const char *text, size_t len)
{
	struct mcp_call *call;
	char *answer;

	if (len > 0 && text[len - 1] == '\r')
		len--;
	if (len == 0)
		return;
	if (len > io->max) {
		too_long(io);
		return;
	}
	if (mcp_take(io->session, text, len, &answer, &call) == MCP_CALL)
		mcp_begin(call);
	else if (answer != NULL)
		say(io, answer, strlen(answer));
	free(answer);
}

/* Take the whole lines of what came. */
static void
lines_take(struct stdio *io)
{
	size_t at = 0;
	char *end;

	while ((end = memchr(io->line + at, '\n', io->len - at)) != NULL) {
		if (!io->skipping)
			take(io, io->line + at, (size_t)(end - io->line) - at);
		io->skipping = false;
		at = (size_t)(end - io->line) + 1;
	}
	io->len -= at;
	memmove(io->line, io->line + at, io->len);
	if (io->len <= io->max && !io->skipping)
		return;
	if (!io->skipping)
		too_long(io);
	io->skipping = true;
	io->len = 0;
}

/* Return 1, or 0 at the end of standard input. */
static int
input_read(struct stdio *io)
{
	ssize_t n = read(STDIN_FILENO, io->line + io->len, io->size - io->len);

	if (n == -1 && (errno == EINTR || errno == EAGAIN))
		return 1;
	if (n <= 0)
		return 0;
	io->len += (size_t)n;
	lines_take(io);
	return 1;
}

static void
on_input(void *ctx, uint32_t events)
{
	struct stdio *io = ctx;

	(void)events;
	if (input_read(io) == 0)
		loop_stop(io->loop);
}

static void
on_bell(void *ctx, uint32_t events)
{
	struct stdio *io = ctx;

	(void)events;
	store_bell_quiet(io->cli->db);
	mcp_wake(io->mcp);
}

static void
on_signal(void *ctx, int signo)
{
	struct stdio *io = ctx;

	(void)signo;
	loop_stop(io->loop);
}

/* A file is always ready, which epoll will not say. */
static int
listen_to(struct stdio *io)
{
	if (loop_add(io->loop, STDIN_FILENO, EPOLLIN, on_input, io) == 0)
		return 0;
	if (errno != EPERM)
		return refusal_errno(&io->cli->refusal, "store.failed", "standard input");
	while (input_read(io) == 1)
		;
	loop_stop(io->loop);
	return 0;
}

static const struct mcp_hooks hooks = {on_ask, on_forget, on_cancel, on_send};

static int
serve(struct stdio *io)
{
	struct store *db = io->cli->db;

	io->max = (size_t)store_setting(db, "http.body");
	io->size = io->max + 65536;
	if ((io->loop = loop_new()) == NULL || (io->line = malloc(io->size)) == NULL ||
	    (io->mcp = mcp_new(db, io->loop, &hooks, io)) == NULL ||
	    (io->session = mcp_session_new(io->mcp, io)) == NULL ||
	    loop_signal(io->loop, SIGTERM, on_signal, io) != 0 ||
	    loop_signal(io->loop, SIGINT, on_signal, io) != 0 ||
	    loop_add(io->loop, store_bell(db), EPOLLIN, on_bell, io) != 0)
		return refusal_errno(&io->cli->refusal, "store.failed", "beginning to listen");
	if (listen_to(io) != 0)
		return -1;
	return loop_run(io->loop);
}

static int
on_option(void *ctx, int val, const char *arg)
{
	struct cli *cli = ctx;

	(void)val;
	(void)arg;
	cli->role = HOME_BOX;
	return 0;
}

/*
 * VERB: mcp
 *
 * usage: bastion mcp [--machine]
 *
 * Serve MCP to the agent that starts this, on standard input and output. That is the Model Context
 * Protocol, 2025-11-25 or 2025-06-18, one JSON-RPC message a line. Each op of each machine that is
 * paired with this Host is a tool, MACHINE.OPERATION; bounds and approvals are those of bastion on.
 * A call that nobody approved yet waits for a person at the machine (setting mcp.wait_ms). Views of
 * the Host are resources (bastion://boxes, bastion://calls, bastion://audit/tail). --machine offers
 * the views of this machine instead, and no tools: operations are asked at a Host. Ends with its
 * standard input, and takes back what it still waits for. Agents that speak HTTP: bastion mcp
 * token.
 */
int
verb_mcp(struct cli *cli, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"machine", no_argument, NULL, 'm'}, {NULL, 0, NULL, 0}};
	struct stdio io = {.cli = cli};
	int first, rc;

	cli->role = HOME_HOST;
	if ((first = cli_options(cli, argc, argv, longopts, on_option, cli)) < 0)
		return first == -2 ? 0 : 2;
	if (first < argc)
		return cli_unexpected(cli, argv[first]);
	if (cli_open(cli, ROLE_READER) != 0)
		return cli_refuse(cli);
	rc = serve(&io);
	if (io.session != NULL)
		mcp_session_free(io.session);
	mcp_free(io.mcp);
	loop_free(io.loop);
	free(io.line);
	return rc == 0 ? 0 : cli_refuse(cli);
}
