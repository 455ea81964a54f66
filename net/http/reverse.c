/* reverse.c: the box's end: dial, upgrade, serve, and again. */
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/actor/backoff.h"
#include "net/http/reverse.h"

#define HEAD_MAX 4096 /* bytes of the Host's answer to the upgrade */

enum stage {
	STAGE_DIAL,   /* TCP */
	STAGE_SHAKE,  /* TLS */
	STAGE_ASK,    /* 101 is awaited */
	STAGE_SERVED, /* the server has the socket */
};

/* One connection, from its dialling on. */
struct line {
	struct reverse *reverse;
	enum stage stage;
	struct http_call *call;
	struct tls_conn *conn;
	struct tls_peer *peer; /* until the server has it */
	int plain;             /* likewise; -1: not ours */
	unsigned at;           /* of the addresses */
	uint64_t timer;
	int64_t since;      /* when it was served: loop_now */
	struct refusal why; /* of our own, why it is given up; empty code: none */
	TAILQ_ENTRY(line) entry;
};

struct reverse {
	struct loop *loop;
	struct reverse_config config;
	char **addresses, *name, *path;
	unsigned naddresses, at,
	    tried; /* the one to dial; how many failed since the last success */
	struct http_client *client;
	struct tls_pump *pump;
	struct reverse_plan plan;
	uint64_t timer;
	TAILQ_HEAD(lines, line) lines;
};

/* The plan. */

int64_t
reverse_plan_next(const struct reverse_plan *plan, int64_t now)
{
	if (plan->dialling + plan->up >= plan->wanted || (plan->failures > 0 && plan->dialling > 0))
		return -1;
	return plan->not_before > now ? plan->not_before - now : 0;
}

void
reverse_plan_dial(struct reverse_plan *plan)
{
	plan->dialling++;
}

void
reverse_plan_aside(struct reverse_plan *plan)
{
	plan->dialling--;
}

void
reverse_plan_up(struct reverse_plan *plan)
{
	plan->dialling--;
	plan->up++;
}

void
reverse_plan_down(struct reverse_plan *plan, int64_t now, int64_t lived_ms)
{
	if (lived_ms < 0)
		plan->dialling--;
	else
		plan->up--;
	if (lived_ms >= plan->steady_ms)
		plan->failures = 0;
	else if (now >= plan->not_before && plan->failures < INT32_MAX)
		plan->failures++; /* what is lost together is one failure */
	if (now < plan->not_before)
		return;
	plan->not_before =
	    now + backoff_jitter(backoff_base(plan->failures - 1, plan->first_ms, plan->cap_ms));
}

/* Lines. */

static void dial_due(struct reverse *reverse);

static void
close_plain(struct line *l)
{
	if (l->plain == -1)
		return;
	loop_del(l->reverse->loop, l->plain);
	close(l->plain);
	l->plain = -1;
}

static void
line_free(struct line *l)
{
	TAILQ_REMOVE(&l->reverse->lines, l, entry);
	loop_cancel(l->reverse->loop, l->timer);
	close_plain(l);
	tls_peer_free(l->peer);
	free(l);
}

/*
 * A dial of the address ${at} has failed.  Return whether there is another one to try before that
 * counts: once all have failed, they are tried again ever more slowly.
 */
static bool
another(struct reverse *reverse, unsigned at)
{
	if (at != reverse->at)
		return true;
	reverse->at = (at + 1) % reverse->naddresses;
	reverse->tried = (reverse->tried + 1) % reverse->naddresses;
	return reverse->tried != 0;
}

/* ${l} has failed or is lost.  Whatever held it is gone already. */
static void
line_down(struct line *l, const struct refusal *why)
{
	struct reverse *reverse = l->reverse;
	int64_t lived = l->stage == STAGE_SERVED ? loop_now() - l->since : -1;
	unsigned at = l->at;
	struct refusal closed;

	line_free(l);
	if (lived < 0 && another(reverse, at))
		reverse_plan_aside(&reverse->plan);
	else
		reverse_plan_down(&reverse->plan, loop_now(), lived);
	if (why == NULL) {
		refusal_set(&closed, "http.unreachable", "the connection was closed");
		why = &closed;
	}
	if (reverse->config.changed != NULL)
		reverse->config.changed(reverse->config.ctx, reverse->plan.up, why);
	dial_due(reverse);
}

/* Give ${l} up from our side. */
static void
line_fail(struct line *l, const struct refusal *why)
{
	tls_drop(l->conn);
	line_down(l, why);
}

static void
on_gone(void *ctx, const struct refusal *why)
{
	const struct line *l = ctx;
	struct refusal ours = l->why;

	if (why == NULL && ours.code[0] == '\0' && l->stage == STAGE_ASK)
		refusal_set(&ours, "reverse.refused", "the Host closed instead of upgrading");
	line_down(ctx, ours.code[0] != '\0' ? &ours : why);
}

/* The upgrade. */

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
check_head(const char *head, struct refusal *r)
{
	char value[64];
	int status = 0;

	if (sscanf(head, "HTTP/1.1 %3d ", &status) != 1)
		return refusal_set(r, "reverse.refused", "what answers is not HTTP/1.1");
	if (status != 101)
		return refusal_set(r, "reverse.refused", "the Host answers %d: %s", status,
		    code_of(head, value, sizeof(value)));
	if (strcasecmp(header_of(head, "Upgrade", value, sizeof(value)), REVERSE_PROTOCOL) != 0)
		return refusal_set(
		    r, "reverse.refused", "the Host upgrades to something that was not asked for");
	return 0;
}

static void
serve(struct line *l)
{
	struct reverse *reverse = l->reverse;
	struct http_peer peer = reverse->config.peer;
	struct refusal r;
	int plain = l->plain;

	loop_cancel(reverse->loop, l->timer);
	l->timer = 0;
	loop_del(reverse->loop, plain);
	peer.pid = 0;
	peer.uid = HTTP_NOBODY;
	peer.gid = (gid_t)-1;
	peer.tls = l->peer;
	snprintf(peer.address, sizeof(peer.address), "%s", reverse->addresses[l->at]);
	l->plain = -1;
	l->peer = NULL;
	if (http_serve_fd(reverse->config.server, plain, &peer) == -1) {
		refusal_set(&r, "http.busy", "our server takes no more connections");
		line_fail(l, &r);
		return;
	}
	l->stage = STAGE_SERVED;
	l->since = loop_now();
	reverse->at = l->at;
	reverse->tried = 0;
	reverse_plan_up(&reverse->plan);
	if (reverse->config.changed != NULL)
		reverse->config.changed(reverse->config.ctx, reverse->plan.up, NULL);
	dial_due(reverse);
}

/* Take the head of the answer and no byte more: the first request may stand behind it. */
static void
on_answer(void *ctx, uint32_t events)
{
	struct line *l = ctx;
	char head[HEAD_MAX + 1];
	struct refusal r;
	const char *end;
	ssize_t n;

	(void)events;
	n = recv(l->plain, head, HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		/* If TLS knows more of it, on_gone says so. */
		close_plain(l);
		return;
	}
	head[n] = '\0';
	if ((end = strstr(head, "\r\n\r\n")) == NULL) {
		if (n == HEAD_MAX || memchr(head, '\0', (size_t)n) != NULL) {
			refusal_set(&r, "reverse.refused", "the Host's answer has no end");
			line_fail(l, &r);
		}
		return;
	}
	head[end + 2 - head] = '\0';
	if (check_head(head, &r) == -1 ||
	    recv(l->plain, head, (size_t)(end + 4 - head), MSG_DONTWAIT) != end + 4 - head)
		line_fail(l, &r);
	else
		serve(l);
}

static void
on_no_answer(void *ctx)
{
	struct line *l = ctx;
	struct refusal r;

	l->timer = 0;
	refusal_set(&r, "http.timeout", "the Host did not answer the upgrade in time");
	line_fail(l, &r);
}

static int
ask(struct line *l)
{
	struct reverse *reverse = l->reverse;
	char proof[REVERSE_PROOF_MAX + 1], text[2048 + REVERSE_PROOF_MAX];
	bool v6 = strchr(reverse->name, ':') != NULL;
	int n;

	proof[0] = '\0';
	if (reverse->config.prove != NULL &&
	    reverse->config.prove(reverse->config.ctx, proof, &l->why) == -1)
		return -1;
	n = snprintf(text, sizeof(text),
	    "GET %s HTTP/1.1\r\nHost: %s%s%s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"
	    "%s: %" PRId64 "\r\n%s%s%s\r\n",
	    reverse->path, v6 ? "[" : "", reverse->name, v6 ? "]" : "", REVERSE_PROTOCOL,
	    REVERSE_IDLE, http_server_idle_ms(reverse->config.server),
	    proof[0] != '\0' ? REVERSE_PROOF ": " : "", proof, proof[0] != '\0' ? "\r\n" : "");
	/* It fits into a new socket's buffer. */
	if (n >= (int)sizeof(text) ||
	    send(l->plain, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
		return -1;
	l->timer = loop_after(reverse->loop, reverse->config.answer_ms, on_no_answer, l);
	if (l->timer == 0 || loop_add(reverse->loop, l->plain, EPOLLIN, on_answer, l) == -1)
		return -1;
	l->stage = STAGE_ASK;
	return 0;
}

static int
on_ready(void *ctx, struct tls_conn *conn, int plain, struct tls_peer *peer)
{
	struct line *l = ctx;

	(void)conn;
	l->plain = plain;
	l->peer = peer;
	return ask(l);
}

static void
on_dialled(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct line *l = ctx;
	struct reverse *reverse = l->reverse;
	const struct tls_hooks hooks = {.ready = on_ready, .gone = on_gone, .ctx = l};
	struct refusal r;
	int fd;

	l->call = NULL;
	if (refusal != NULL) {
		line_down(l, refusal);
		return;
	}
	if ((fd = http_call_socket(call)) == -1) {
		refusal_errno(&r, "http.unreachable", "the new connection");
		line_down(l, &r);
		return;
	}
	l->stage = STAGE_SHAKE;
	l->conn = tls_connect(reverse->pump, reverse->config.tls, fd, reverse->name, &hooks, &r);
	if (l->conn == NULL)
		line_down(l, &r);
}

/* Dialling. */

static int
dial(struct reverse *reverse, struct refusal *r)
{
	struct http_request request = {.connect_ms = reverse->config.connect_ms,
	    .total_ms = reverse->config.connect_ms,
	    .done = on_dialled};
	char url[512];
	struct line *l;

	snprintf(url, sizeof(url), "http://%s", reverse->addresses[reverse->at]);
	if ((l = calloc(1, sizeof(*l))) == NULL)
		return refusal_set(r, "http.memory", "no memory for a connection");
	l->reverse = reverse;
	l->plain = -1;
	l->at = reverse->at;
	request.url = url;
	request.ctx = l;
	TAILQ_INSERT_TAIL(&reverse->lines, l, entry);
	if ((l->call = http_start(reverse->client, &request, r)) != NULL)
		return 0;
	line_free(l);
	return -1;
}

static void
on_due(void *ctx)
{
	struct reverse *reverse = ctx;
	struct refusal r;

	reverse->timer = 0;
	while (reverse_plan_next(&reverse->plan, loop_now()) == 0) {
		reverse_plan_dial(&reverse->plan);
		if (dial(reverse, &r) == -1)
			reverse_plan_down(&reverse->plan, loop_now(), -1);
	}
	dial_due(reverse);
}

/* Set the timer for the next dial. */
static void
dial_due(struct reverse *reverse)
{
	int64_t ms = reverse_plan_next(&reverse->plan, loop_now());

	loop_cancel(reverse->loop, reverse->timer);
	reverse->timer = ms >= 0 ? loop_after(reverse->loop, ms, on_due, reverse) : 0;
}

static int
copy_addresses(struct reverse *reverse, const char *const *addresses)
{
	unsigned n = 0;

	while (n < REVERSE_ADDRESSES_MAX && addresses[n] != NULL)
		n++;
	if (n == 0 || (reverse->addresses = calloc(n, sizeof(*reverse->addresses))) == NULL)
		return -1;
	for (; reverse->naddresses < n; reverse->naddresses++)
		if ((reverse->addresses[reverse->naddresses] =
			    strdup(addresses[reverse->naddresses])) == NULL)
			return -1;
	return 0;
}

static int
copy_config(struct reverse *reverse, const struct reverse_config *config)
{
	reverse->config = *config;
	reverse->plan = (struct reverse_plan){.wanted = config->connections,
	    .first_ms = config->first_ms,
	    .cap_ms = config->cap_ms,
	    .steady_ms = config->steady_ms};
	return copy_addresses(reverse, config->addresses) == 0 &&
		       (reverse->name = strdup(config->name)) != NULL &&
		       (reverse->path = strdup(config->path)) != NULL
		   ? 0
		   : -1;
}

struct reverse *
reverse_start(struct loop *loop, const struct reverse_config *config, struct refusal *r)
{
	struct reverse *reverse;

	if ((reverse = calloc(1, sizeof(*reverse))) == NULL) {
		refusal_set(r, "http.memory", "no memory for connections");
		return NULL;
	}
	reverse->loop = loop;
	TAILQ_INIT(&reverse->lines);
	if (copy_config(reverse, config) == -1)
		refusal_set(r, "http.memory", "no memory for connections");
	else if ((reverse->client = http_client_new(loop, r)) != NULL &&
		 (reverse->pump = tls_pump_new(loop, config->limits, r)) != NULL) {
		dial_due(reverse);
		return reverse;
	}
	reverse_stop(reverse);
	return NULL;
}

void
reverse_look(struct reverse *reverse)
{
	if (reverse->timer == 0)
		dial_due(reverse);
}

void
reverse_drain(struct reverse *reverse)
{
	reverse->plan.wanted = 0;
	loop_cancel(reverse->loop, reverse->timer);
	reverse->timer = 0;
}

const char *
reverse_where(const struct reverse *reverse)
{
	return reverse->addresses[reverse->at];
}

void
reverse_stop(struct reverse *reverse)
{
	if (reverse == NULL)
		return;
	loop_cancel(reverse->loop, reverse->timer);
	http_client_free(reverse->client);
	tls_pump_free(reverse->pump);
	while (!TAILQ_EMPTY(&reverse->lines))
		line_free(TAILQ_FIRST(&reverse->lines));
	while (reverse->naddresses > 0)
		free(reverse->addresses[--reverse->naddresses]);
	free(reverse->addresses);
	free(reverse->name);
	free(reverse->path);
	free(reverse);
}
