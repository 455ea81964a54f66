/* upgrade.c: dial, shake hands, ask for another protocol, hand over. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/http/upgrade.h"

#define HEAD_MAX 4096 /* bytes of the answer's head */
#define ASK_MAX  4096

enum stage {
	STAGE_DIAL,  /* TCP, then TLS */
	STAGE_ASK,   /* 101 is awaited */
	STAGE_TAKEN, /* somebody has the socket */
};

struct upgrade {
	struct loop *loop;
	struct upgrade_config config;
	enum stage stage;
	struct http_call *call;
	struct tls_conn *conn;
	struct tls_peer *peer; /* until somebody has it */
	int plain;             /* likewise; -1: not ours */
	uint64_t timer;
	struct refusal why; /* of our own, why it is given up; empty code: none */
};

static void
close_plain(struct upgrade *u)
{
	if (u->plain == -1)
		return;
	loop_del(u->loop, u->plain);
	close(u->plain);
	u->plain = -1;
}

static void
upgrade_free(struct upgrade *u)
{
	loop_cancel(u->loop, u->timer);
	close_plain(u);
	tls_peer_free(u->peer);
	free(u);
}

/* It has failed or is lost.  Whatever held it is gone already. */
static void
gone(struct upgrade *u, const struct refusal *why)
{
	void (*fn)(void *, const struct refusal *) = u->config.gone;
	void *ctx = u->config.ctx;
	struct refusal copy;

	if (why != NULL)
		copy = *why;
	upgrade_free(u);
	fn(ctx, why != NULL ? &copy : NULL);
}

/* Give it up from our side. */
static void
fail(struct upgrade *u, const struct refusal *why)
{
	tls_drop(u->conn);
	gone(u, why);
}

static void
on_gone(void *ctx, const struct refusal *why)
{
	struct upgrade *u = ctx;
	struct refusal ours = u->why;

	if (why == NULL && ours.code[0] == '\0' && u->stage == STAGE_ASK)
		refusal_set(&ours, "reverse.refused", "the Host closed instead of upgrading");
	gone(u, ours.code[0] != '\0' ? &ours : why);
}

/* Return the value of the header ${name} in ${head}, NUL-terminated, cut to ${size}; or "". */
static const char *
header_of(const char *head, const char *name, char *value, size_t size)
{
	size_t len = strlen(name);
	const char *line;

	value[0] = '\0';
	for (line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, len) != 0 || line[len] != ':')
			continue;
		line += len + 1 + strspn(line + len + 1, " \t");
		snprintf(value, size, "%.*s", (int)strcspn(line, "\r\n"), line);
		break;
	}
	return value;
}

/* A code of the Host's, if it looks like one. */
static const char *
code_of(const char *head, char *code, size_t size)
{
	header_of(head, "X-Bastion-Refused", code, size);
	if (code[0] == '\0' || code[strspn(code, "abcdefghijklmnopqrstuvwxyz._")] != '\0')
		snprintf(code, size, "no reason");
	return code;
}

static int
check_head(const struct upgrade *u, const char *head, struct refusal *r)
{
	char value[64];
	int status = 0;

	if (sscanf(head, "HTTP/1.1 %3d ", &status) != 1)
		return refusal_set(r, "reverse.refused", "what answers is not HTTP/1.1");
	if (status != 101)
		return refusal_set(r, "reverse.refused", "the Host answers %d: %s", status,
		    code_of(head, value, sizeof(value)));
	if (strcasecmp(header_of(head, "Upgrade", value, sizeof(value)), u->config.protocol) != 0)
		return refusal_set(
		    r, "reverse.refused", "the Host upgrades to something that was not asked for");
	return 0;
}

static void
take(struct upgrade *u)
{
	int plain = u->plain;
	struct tls_peer *peer = u->peer;
	struct refusal r = {.code = ""};

	loop_cancel(u->loop, u->timer);
	u->timer = 0;
	loop_del(u->loop, plain);
	u->plain = -1;
	u->peer = NULL;
	u->stage = STAGE_TAKEN;
	if (u->config.taken(u->config.ctx, plain, peer, &r) == -1)
		fail(u, &r);
}

/*
 * Take the head of the answer and no byte more: what is spoken then may stand behind it.  What has
 * come of it stays in the socket until then, so we are told of what is new alone (EPOLLET).
 */
static void
on_answer(void *ctx, uint32_t events)
{
	struct upgrade *u = ctx;
	char head[HEAD_MAX + 1];
	struct refusal r;
	const char *end;
	ssize_t n;

	(void)events;
	n = recv(u->plain, head, HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		/* If TLS knows more of it, on_gone says so. */
		close_plain(u);
		return;
	}
	head[n] = '\0';
	if ((end = strstr(head, "\r\n\r\n")) == NULL) {
		if (n == HEAD_MAX || memchr(head, '\0', (size_t)n) != NULL) {
			refusal_set(&r, "reverse.refused", "the Host's answer has no end");
			fail(u, &r);
		}
		return;
	}
	head[end + 2 - head] = '\0';
	if (check_head(u, head, &r) == -1) {
		fail(u, &r);
		return;
	}
	if (recv(u->plain, head, (size_t)(end + 4 - head), MSG_DONTWAIT) == end + 4 - head) {
		take(u);
		return;
	}
	refusal_set(&r, "http.unreachable", "the answer to the upgrade cannot be read");
	fail(u, &r);
}

static void
on_no_answer(void *ctx)
{
	struct upgrade *u = ctx;
	struct refusal r;

	u->timer = 0;
	refusal_set(&r, "http.timeout", "the Host did not answer the upgrade in time");
	fail(u, &r);
}

static int
ask(struct upgrade *u)
{
	const struct upgrade_config *config = &u->config;
	char more[ASK_MAX / 2], text[ASK_MAX];
	bool v6 = strchr(config->name, ':') != NULL;
	int n;

	more[0] = '\0';
	if (config->head != NULL && config->head(config->ctx, more, sizeof(more), &u->why) == -1)
		return -1;
	n = snprintf(text, sizeof(text),
	    "GET %s HTTP/1.1\r\nHost: %s%s%s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s\r\n",
	    config->path, v6 ? "[" : "", config->name, v6 ? "]" : "", config->protocol, more);
	/* It fits into a new socket's buffer. */
	if (n >= (int)sizeof(text) ||
	    send(u->plain, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
		return -1;
	u->timer = loop_after(u->loop, config->answer_ms, on_no_answer, u);
	if (u->timer == 0 || loop_add(u->loop, u->plain, EPOLLIN | EPOLLET, on_answer, u) == -1)
		return -1;
	u->stage = STAGE_ASK;
	return 0;
}

static int
on_ready(void *ctx, struct tls_conn *conn, int plain, struct tls_peer *peer)
{
	struct upgrade *u = ctx;

	(void)conn;
	u->plain = plain;
	u->peer = peer;
	return ask(u);
}

static void
on_dialled(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct upgrade *u = ctx;
	const struct tls_hooks hooks = {.ready = on_ready, .gone = on_gone, .ctx = u};
	struct refusal r;
	int fd;

	u->call = NULL;
	if (refusal != NULL) {
		gone(u, refusal);
		return;
	}
	if ((fd = http_call_socket(call)) == -1) {
		refusal_errno(&r, "http.unreachable", "the new connection");
		gone(u, &r);
		return;
	}
	u->conn = tls_connect(u->config.pump, u->config.tls, fd, u->config.name, &hooks, &r);
	if (u->conn == NULL)
		gone(u, &r);
}

struct upgrade *
upgrade_start(struct loop *loop, const struct upgrade_config *config, struct refusal *r)
{
	struct http_request request = {
	    .connect_ms = config->connect_ms, .total_ms = config->connect_ms, .done = on_dialled};
	char url[512];
	struct upgrade *u;

	snprintf(url, sizeof(url), "http://%s", config->address);
	if ((u = calloc(1, sizeof(*u))) == NULL) {
		refusal_set(r, "http.memory", "no memory for a connection");
		return NULL;
	}
	u->loop = loop;
	u->config = *config;
	u->config.address = NULL;
	u->plain = -1;
	request.url = url;
	request.ctx = u;
	if ((u->call = http_start(config->client, &request, r)) != NULL)
		return u;
	free(u);
	return NULL;
}

void
upgrade_drop(struct upgrade *u)
{
	if (u == NULL)
		return;
	if (u->call != NULL)
		http_abort(u->call);
	if (u->conn != NULL)
		tls_drop(u->conn);
	upgrade_free(u);
}
