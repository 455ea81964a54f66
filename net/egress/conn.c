/* conn.c: what a connection goes through. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/egress/conn.h"
#include "net/egress/inspect.h"

#define READ_SIZE   65536
#define LINGER_MOST (1 << 20) /* bytes that a refused client may still send */
#define TOUCH_MS    1000      /* how exactly it is known when something moved */

enum { SOCKS_VERSION = 5, SOCKS_CONNECT = 1, SOCKS_IPV4 = 1, SOCKS_NAME = 3, SOCKS_IPV6 = 4 };
enum { SOCKS_OK = 0, SOCKS_FAILED = 1, SOCKS_REFUSED = 2, SOCKS_NO_COMMAND = 7 };

static const char ESTABLISHED[] = "HTTP/1.1 200 Connection established\r\n\r\n";

static void conn_pump(struct conn *c);

/*
 * Its end.
 */

static void
server_close(struct conn *c)
{
	lookup_cancel(c->lookup);
	dial_cancel(c->dial);
	c->lookup = NULL;
	c->dial = NULL;
	loop_cancel(c->proxy->config.loop, c->again);
	c->again = 0;
	half_end(&c->up, c->proxy->pool);
	half_end(&c->down, c->proxy->pool);
	inspect_end(c->inspect);
	if (c->server == -1)
		return;
	loop_close(c->proxy->config.loop, c->server);
	c->server = -1;
}

static void
client_close(struct conn *c)
{
	if (c->client == -1)
		return;
	loop_close(c->proxy->config.loop, c->client);
	c->client = -1;
}

/* Whoever handed it over hears whether it went anywhere. */
static void
conn_tell(struct conn *c)
{
	if (c->told == -1)
		return;
	/* Without a word it went nowhere; nobody may be there to hear it. */
	if (c->dialled[0] != '\0')
		(void)send(c->told, PROXY_TAKEN, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(c->told);
}

static void
conn_free(struct conn *c)
{
	conn_tell(c);
	proxy_gone(c);
	head_free(&c->head);
	head_answer_free(&c->answer);
	free(c->in);
	free(c->addresses);
	free(c->chunk);
	free(c->list);
	free(c->why);
	free(c->left);
	free(c->waits);
	free(c);
}

/* The first reason holds.  While the committer has the row, its reason is the committer's. */
static void
why_set(struct conn *c, const struct refusal *why)
{
	struct refusal **to = c->busy ? &c->left : &c->why;

	if (*to == NULL && why != NULL && (*to = malloc(sizeof(*why))) != NULL)
		**to = *why;
}

static void
why_join(struct conn *c)
{
	if (c->why == NULL)
		c->why = c->left;
	else
		free(c->left);
	c->left = NULL;
}

/* Where nobody waits for anything any more, the row is ended and then all is freed. */
static void
conn_settle(struct conn *c)
{
	struct refusal left;

	if (c->busy)
		return;
	why_join(c);
	if (c->flow == FLOW_ASKED && c->why == NULL) {
		refusal_set(&left, "http.aborted", "whoever asked has gone");
		why_set(c, &left);
	}
	if (c->flow == FLOW_ASKED || c->flow == FLOW_OPEN)
		flow_submit(c, JOB_END);
	else if (c->client == -1)
		conn_free(c);
}

void
conn_end(struct conn *c, const struct refusal *refusal)
{
	if (c->closing)
		return;
	c->closing = true;
	why_set(c, refusal);
	server_close(c);
	client_close(c);
	conn_settle(c);
}

/* Everything that is ours to say was said: the client reads it, and then closes, or is closed. */
static void
conn_linger(struct conn *c)
{
	char buffer[READ_SIZE];
	ssize_t n = 0;
	size_t all = 0;

	if (c->phase != LINGERING) {
		c->phase = LINGERING;
		server_close(c);
		shutdown(c->client, SHUT_WR);
		conn_wait(c, FOR_LINGER);
		conn_settle(c);
	}
	while (all < LINGER_MOST && (n = recv(c->client, buffer, sizeof(buffer), 0)) > 0)
		all += (size_t)n;
	if (all >= LINGER_MOST || n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR))
		conn_end(c, NULL);
}

/*
 * A refusal.
 */

static void
client_say(const struct conn *c, const char *text, size_t len)
{
	/* Little, and the first that is said: it has room. */
	if (send(c->client, text, len, MSG_NOSIGNAL) == -1)
		return;
}

static void
socks_say(const struct conn *c, char reply)
{
	const char bytes[10] = {SOCKS_VERSION, reply, 0, SOCKS_IPV4};

	client_say(c, bytes, sizeof(bytes));
}

void
conn_established(const struct conn *c)
{
	if (c->socks)
		socks_say(c, SOCKS_OK);
	else if (!c->caught)
		client_say(c, ESTABLISHED, sizeof(ESTABLISHED) - 1);
}

size_t
conn_answer(const struct conn *c, const struct refusal *refusal, char out[CONN_ANSWER_MAX])
{
	return say_http(c->proxy->config.db, refusal, out);
}

/* The owner of the lane, where it wants to know. */
static void
refusal_tell(const struct conn *c, const struct refusal *refusal)
{
	const struct proxy_config *config = &c->proxy->config;
	char text[SAY_TEXT_MAX];
	const char *advice;

	if (config->refused == NULL || c->surface == NULL || c->to.host.text[0] == '\0')
		return;
	say_text(config->db, refusal, text);
	advice = strstr(text, "]; ");
	config->refused(config->ctx, &c->to, refusal, advice != NULL ? advice + 3 : "");
}

static void
conn_say(const struct conn *c, const struct refusal *refusal)
{
	static const struct linger at_once = {.l_onoff = 1};
	char text[SAY_TEXT_MAX], answer[CONN_ANSWER_MAX];
	int status;

	/* Who knows of no lane hears that the connection failed; on the port of HTTP, also why. */
	if (c->caught && c->to.port != 80) {
		setsockopt(c->client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	} else if (!c->socks) {
		client_say(c, answer, conn_answer(c, refusal, answer));
	} else {
		status = say_text(c->proxy->config.db, refusal, text);
		socks_say(c, status == 400 || status == 403 ? SOCKS_REFUSED : SOCKS_FAILED);
	}
}

void
conn_refuse(struct conn *c, const struct refusal *refusal)
{
	if (c->closing || c->phase == LINGERING)
		return;
	refusal_tell(c, refusal);
	if (c->inspect != NULL) {
		inspect_refuse(c->inspect, refusal);
		return;
	}
	conn_say(c, refusal);
	why_set(c, refusal);
	if (!c->busy && c->surface != NULL && (c->flow == FLOW_NONE || c->flow == FLOW_ASKED))
		flow_submit(c, JOB_REFUSE);
	if (c->caught && c->to.port != 80)
		conn_end(c, NULL);
	else
		conn_linger(c);
}

/*
 * What was read and is not understood yet.
 */

static int
in_append(struct conn *c, const char *bytes, size_t len)
{
	char *grown = realloc(c->in, c->in_len + len);

	if (grown == NULL)
		return -1;
	memcpy(grown + c->in_len, bytes, len);
	c->in = grown;
	c->in_len += len;
	return 0;
}

/* Take ${n} bytes off the front. */
static void
in_drop(struct conn *c, size_t n)
{
	c->in_len -= n;
	memmove(c->in, c->in + n, c->in_len);
	c->in_looked = 0;
}

static void
in_free(struct conn *c)
{
	free(c->in);
	c->in = NULL;
	c->in_len = c->in_looked = 0;
}

/*
 * The exchange of one request, and tunnels.
 */

/* Both may have to be told when a socket can be read or written again. */
static void
on_server(void *ctx, uint32_t events)
{
	struct conn *c = ctx;

	c->proxy->now = loop_now();
	half_edges(&c->down, &c->up, events);
	conn_pump(c);
}

static void
on_again(void *ctx)
{
	struct conn *c = ctx;

	c->again = 0;
	c->proxy->now = loop_now();
	conn_pump(c);
}

/* Put the answer's head on its way.  Return 1 where its body follows, 0 where another head does. */
static int
answer_take(struct conn *c, size_t end, struct refusal *why)
{
	struct head_answer *a = &c->answer;

	if (head_answer_read(
		c->in, end, c->proxy->fields, strcmp(c->head.method, "HEAD") == 0, a, why) != 0 ||
	    half_put(&c->down, a->out, a->out_len) != 0)
		return -1;
	head_answer_free(a);
	in_drop(c, end);
	c->down.moved += end;
	if (a->status < 200)
		return conn_informed(c, end, why);
	c->down.keep = true;
	c->down.kind = a->body == HEAD_NO_BODY || a->sized ? HALF_SIZED : HALF_ALL;
	c->down.left = a->body == HEAD_NO_BODY ? 0 : a->length;
	if (half_feed(&c->down, c->in, c->in_len) != 0)
		return -1;
	in_free(c);
	c->half_head = false;
	return 1;
}

/*
 * Return 0 where more is needed, what was read is to go on first, or the body follows; -1 where
 * there is no answer.
 */
static int
answer_read(struct conn *c, struct refusal *why)
{
	char buffer[READ_SIZE];
	size_t end;
	ssize_t n;
	int rc = 0;

	refusal_set(why, "egress.answer", "the server closed the connection without an answer");
	while (c->half_head && c->down.readable && c->down.len == 0) {
		if ((n = recv(c->server, buffer, sizeof(buffer), 0)) <= 0) {
			if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
				c->down.readable = errno == EINTR;
				continue;
			}
			return -1;
		}
		if (in_append(c, buffer, (size_t)n) != 0)
			return -1;
		while (rc == 0 && (end = head_end(c->in, c->in_len, c->in_looked)) != 0)
			rc = answer_take(c, end, why);
		if (rc == -1)
			return -1;
		c->in_looked = c->in_len;
		if (c->half_head && c->in_len > c->proxy->answer_head)
			return refusal_set(
			    why, "egress.answer", "the head of the server's answer is too long");
	}
	return 0;
}

/*
 * Until the body of the answer comes: heads of answers to come (100 Continue) go on, and no more is
 * read until they have.
 */
static enum half_state
heads_pump(struct conn *c, struct refusal *why)
{
	enum half_state state;
	bool readable;

	do {
		if (answer_read(c, why) != 0)
			return HALF_BROKEN;
		if (!c->half_head)
			return half_pump(&c->down, c->proxy->pool);
		/* Nothing goes on that was not read here. */
		readable = c->down.readable;
		c->down.readable = false;
		state = half_pump(&c->down, c->proxy->pool);
		c->down.readable = readable;
	} while (state == HALF_WAITS && readable && c->down.len == 0);
	return state;
}

void
conn_touch(struct conn *c)
{
	if (c->proxy->now - c->touched >= TOUCH_MS)
		conn_wait(c, FOR_BYTES);
}

int
conn_informed(struct conn *c, size_t len, struct refusal *why)
{
	if ((c->informed += len) <= c->proxy->answer_head)
		return 0;
	return refusal_set(
	    why, "egress.answer", "the server announces an answer, and announces it again");
}

/* What the two halves have come to. */
static void
pumped(struct conn *c, enum half_state up, enum half_state down)
{
	struct refusal why;

	/* A server that takes no more of the request may have answered it all the same. */
	if (up == HALF_GONE && c->head.out != NULL) {
		c->up.shut = true;
		up = HALF_ENDED;
	}
	if (up == HALF_SURPLUS || (up == HALF_BROKEN && c->chunk != NULL)) {
		refusal_set(&why, "egress.request", "%s",
		    up == HALF_SURPLUS ? "more came behind the one request of a connection"
				       : CONN_BROKEN_BODY);
		conn_end(c, &why);
	} else if (c->head.out != NULL && (down == HALF_ENDED || down == HALF_SURPLUS)) {
		conn_linger(c);
	} else if (up == HALF_BROKEN || up == HALF_GONE || down == HALF_BROKEN ||
		   down == HALF_GONE || (up == HALF_ENDED && down == HALF_ENDED)) {
		conn_end(c, NULL);
	} else if (c->again == 0 && (up == HALF_GOES_ON || down == HALF_GOES_ON)) {
		c->again = loop_after(c->proxy->config.loop, 0, on_again, c);
	}
}

static void
conn_pump(struct conn *c)
{
	uint64_t moved = c->up.moved + c->down.moved;
	enum half_state up, down;
	struct refusal why;

	/* Whom the other half has left needs not be told of an end: it is closed. */
	c->up.keep = c->head.out == NULL && c->down.shut;
	up = half_pump(&c->up, c->proxy->pool);
	down = c->half_head ? heads_pump(c, &why) : half_pump(&c->down, c->proxy->pool);
	if (c->half_head && down == HALF_BROKEN) {
		conn_refuse(c, &why);
		return;
	}
	if (c->up.moved + c->down.moved != moved)
		conn_touch(c);
	pumped(c, up, down);
}

static int
halves_begin(struct conn *c)
{
	static const char socks_ok[10] = {SOCKS_VERSION, SOCKS_OK, 0, SOCKS_IPV4};
	enum half_kind kind = HALF_ALL;

	if (c->head.out != NULL)
		kind = c->head.body == HEAD_CHUNKED ? HALF_CHUNKED : HALF_SIZED;
	half_begin(&c->up, c->client, c->server, kind);
	half_begin(&c->down, c->server, c->client, HALF_ALL);
	c->up.left = c->head.body == HEAD_LENGTH ? c->head.length : 0;
	if (kind == HALF_CHUNKED && (c->up.chunk = c->chunk = calloc(1, sizeof(*c->chunk))) == NULL)
		return -1;
	c->half_head = c->head.out != NULL;
	if (c->half_head)
		return half_put(&c->up, c->head.out, c->head.out_len);
	if (c->caught)
		return 0;
	return c->socks ? half_put(&c->down, socks_ok, sizeof(socks_ok))
			: half_put(&c->down, ESTABLISHED, sizeof(ESTABLISHED) - 1);
}

/* The first bytes leave. */
static void
relay_begin(struct conn *c, int fd, bool readable)
{
	struct refusal why;

	c->server = fd;
	c->phase = RELAYING;
	if (halves_begin(c) != 0 || loop_pass(c->proxy->config.loop, fd, on_server, c) != 0) {
		refusal_set(&why, "http.memory", "there is no memory for the connection");
		conn_refuse(c, &why);
		return;
	}
	if (half_feed(&c->up, c->in, c->in_len) != 0) {
		refusal_set(&why, "egress.request", "%s", CONN_BROKEN_BODY);
		conn_refuse(c, &why);
		return;
	}
	in_free(c);
	/* What was seen before: edges tell of the rest. */
	c->up.readable = c->client_in || c->client_last;
	c->up.last = c->client_last;
	c->down.readable = readable;
	conn_wait(c, FOR_BYTES);
	conn_pump(c);
}

static void
on_dialled(void *ctx, int fd, size_t which, bool readable, int error)
{
	struct conn *c = ctx;
	struct refusal why;

	c->dial = NULL;
	c->proxy->now = loop_now();
	if (fd == -1) {
		refusal_set(
		    &why, "egress.dial", "the server cannot be reached: %s", strerror(error));
		conn_refuse(c, &why);
		return;
	}
	address_text(&c->addresses[which], c->dialled);
	if (c->inspect != NULL)
		inspect_dialled(c->inspect, fd);
	else
		relay_begin(c, fd, readable);
}

void
conn_dial(struct conn *c)
{
	struct dial_how how = {.done = on_dialled, .ctx = c, .stagger_ms = c->proxy->stagger_ms};
	struct refusal why;

	c->phase = DIALLING;
	conn_wait(c, FOR_DIAL);
	c->dial = dial_start(c->proxy->config.loop, &how, c->addresses, c->naddresses, c->to.port);
	if (c->dial != NULL)
		return;
	refusal_errno(&why, "egress.dial", "the server cannot be dialled");
	conn_refuse(c, &why);
}

int
conn_vet(struct conn *c, struct refusal *why)
{
	const struct vet vet = {.classes = c->proxy->classes, .own = &c->proxy->own};

	proxy_look(c->proxy);
	return vet_addresses(&vet, c->addresses, c->naddresses, why);
}

/*
 * From a destination to addresses.
 */

static int
addresses_take(struct conn *c, const struct address *addresses, size_t n, struct refusal *why)
{
	size_t len = 0, i;

	if ((c->addresses = calloc(n, sizeof(*addresses))) == NULL ||
	    (c->list = malloc(n * (ADDRESS_TEXT_MAX + 3) + 3)) == NULL)
		return refusal_set(why, "http.memory", "there is no memory for its addresses");
	memcpy(c->addresses, addresses, n * sizeof(*addresses));
	c->naddresses = n;
	if (conn_vet(c, why) != 0)
		return -1;
	for (i = 0; i < n; i++) {
		char text[ADDRESS_TEXT_MAX + 1];

		address_text(&addresses[i], text);
		len += (size_t)sprintf(c->list + len, "%s\"%s\"", i == 0 ? "[" : ",", text);
	}
	memcpy(c->list + len, "]", 2);
	return 0;
}

static void
on_looked_up(void *ctx, const struct address *addresses, size_t n, const struct refusal *why)
{
	struct conn *c = ctx;
	struct refusal bad;

	c->lookup = NULL;
	c->proxy->now = loop_now();
	if (n == 0 || addresses_take(c, addresses, n, &bad) != 0) {
		conn_refuse(c, n == 0 ? why : &bad);
		return;
	}
	c->phase = OPENING;
	flow_submit(c, JOB_OPEN);
}

static void
conn_look_up(struct conn *c)
{
	const struct proxy_who *who = &c->user->who;
	const int64_t asker = who->host ? -who->id : who->id;
	struct refusal why;

	c->phase = LOOKING;
	conn_wait(c, FOR_DIAL);
	if (c->proxy->resolver == NULL) {
		conn_refuse(c, &c->proxy->no_names);
		return;
	}
	c->lookup = resolver_ask(c->proxy->resolver, asker, c->to.host.text, on_looked_up, c, &why);
	if (c->lookup == NULL)
		conn_refuse(c, &why);
}

/* The destination is read: what is known to be refused is, the rest is asked for. */
static void
conn_go(struct conn *c)
{
	const struct address *known = &c->to.host.address;
	struct refusal why;
	size_t n = 1;

	if (vet_host(&c->to.host, &why) != 0) {
		conn_refuse(c, &why);
		return;
	}
	if (c->to.host.kind == ENDPOINT_NAME)
		n = c->proxy->resolver == NULL
			? 0
			: resolver_recall(c->proxy->resolver, c->to.host.text, &known);
	if (n > 0 && addresses_take(c, known, n, &why) != 0) {
		conn_refuse(c, &why);
		return;
	}
	c->phase = ASKING;
	conn_wait(c, FOR_DIAL);
	flow_submit(c, JOB_ASK);
}

static void
conn_hold(struct conn *c)
{
	const struct proxy_config *config = &c->proxy->config;

	c->held = false;
	/* What was answered since may have been about this. */
	if (c->answers != c->proxy->answers) {
		conn_ask_again(c);
		return;
	}
	c->asked = true;
	c->phase = HOLDING;
	conn_wait(c, FOR_PERSON);
	if (c->waits == NULL)
		config->unknown(config->ctx, &c->to);
}

void
conn_ask_again(struct conn *c)
{
	c->phase = ASKING;
	conn_wait(c, FOR_DIAL);
	flow_submit(c, JOB_ASK);
}

void
conn_catch(struct conn *c, const struct authority *to)
{
	c->caught = true;
	c->surface = "caught";
	c->to = *to;
	conn_go(c);
}

/* Its row is open: the destination is dialled, or what is for it looked into first. */
static void
conn_open(struct conn *c)
{
	struct refusal why;
	int wanted = c->head.out != NULL ? 0 : inspect_wanted(c, &why);

	if (wanted == -1 || (wanted == 1 && inspect_begin(c, &why) != 0))
		conn_refuse(c, &why);
	else if (wanted == 0)
		conn_dial(c);
}

void
conn_decided(struct conn *c)
{
	c->proxy->now = loop_now();
	if (c->closing || c->phase == LINGERING) {
		conn_settle(c);
		return;
	}
	if (c->job.result != 0)
		conn_refuse(c, &c->job.refusal);
	else if (c->held)
		conn_hold(c);
	else if (c->flow == FLOW_OVER)
		conn_refuse(c, c->why);
	else if (c->flow == FLOW_OPEN)
		conn_open(c);
	else
		conn_look_up(c);
}

/*
 * Reading.
 */

/* Each returns whether more is to be read; where it is not, the connection may be gone. */
static bool
http_read(struct conn *c)
{
	struct refusal why;
	size_t end;

	if ((end = head_end(c->in, c->in_len, c->in_looked)) == 0 && c->in_len <= c->proxy->head) {
		c->in_looked = c->in_len;
		return true;
	}
	if (end == 0 || end > c->proxy->head || !head_is_one(c->in, end)) {
		conn_end(c, NULL);
		return false;
	}
	c->surface = "http";
	if (head_read(c->in, end, c->proxy->fields, &c->head, &why) != 0) {
		conn_refuse(c, &why);
		return false;
	}
	if (c->head.connect)
		c->surface = "connect";
	c->to = c->head.to;
	in_drop(c, end);
	conn_go(c);
	return false;
}

/* Return 1 where it is whole, 0 where more is to come, -1 where it was answered. */
static int
socks_greeting(struct conn *c)
{
	const unsigned char *b = (const unsigned char *)c->in;
	const char none[2] = {SOCKS_VERSION, (char)0xff}, plain[2] = {SOCKS_VERSION, 0};
	size_t len;

	if (b[0] != SOCKS_VERSION) {
		conn_end(c, NULL);
		return -1;
	}
	if (c->in_len < 2 || c->in_len < (len = 2 + (size_t)b[1]))
		return 0;
	if (memchr(b + 2, 0, b[1]) == NULL) {
		client_say(c, none, sizeof(none));
		conn_linger(c);
		return -1;
	}
	client_say(c, plain, sizeof(plain));
	in_drop(c, len);
	c->greeted = true;
	return 1;
}

static size_t
socks_length(const unsigned char *b, size_t len)
{
	if (len < 5)
		return 5;
	return b[3] == SOCKS_IPV4 ? 10 : b[3] == SOCKS_IPV6 ? 22 : 7 + (size_t)b[4];
}

/* The host of a whole request.  Return 0 or -1. */
static int
socks_host(const unsigned char *b, struct host *h, struct refusal *why)
{
	struct address a = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}};

	if (b[3] == SOCKS_NAME) {
		/* A colon would make a port or an address of it, which have kinds of their own. */
		if (memchr(b + 5, ':', b[4]) != NULL)
			return refusal_set(
			    why, "egress.authority", "the host cannot be read: it has a colon");
		return host_read((const char *)b + 5, b[4], h, why);
	}
	if (b[3] == SOCKS_IPV4)
		memcpy(a.b + 12, b + 4, 4);
	else
		memcpy(a.b, b + 4, 16);
	h->address = a;
	h->kind = address_is_ipv4(&a) ? ENDPOINT_IPV4 : ENDPOINT_IPV6;
	address_text(&a, h->text);
	return 0;
}

static bool
socks_answer(struct conn *c, char reply)
{
	socks_say(c, reply);
	conn_linger(c);
	return false;
}

static bool
socks_destination(struct conn *c, size_t len)
{
	const unsigned char *b = (const unsigned char *)c->in;
	struct refusal why;
	int rc;

	c->surface = "socks5";
	c->to.port = (uint16_t)(b[len - 2] << 8 | b[len - 1]);
	rc = socks_host(b, &c->to.host, &why);
	if (rc == 0 && c->to.port == 0)
		rc = refusal_set(&why, "egress.authority",
		    "the destination cannot be read: a port is a number from 1 to 65535");
	if (rc != 0) {
		c->to.host.text[0] = '\0';
		conn_refuse(c, &why);
		return false;
	}
	in_drop(c, len);
	conn_go(c);
	return false;
}

static bool
socks_request(struct conn *c)
{
	const unsigned char *b = (const unsigned char *)c->in;
	size_t len;

	if (c->in_len >= 1 && b[0] != SOCKS_VERSION) {
		conn_end(c, NULL);
		return false;
	}
	if (c->in_len < 4)
		return true;
	if (b[1] != SOCKS_CONNECT)
		return socks_answer(c, SOCKS_NO_COMMAND);
	if (b[3] != SOCKS_IPV4 && b[3] != SOCKS_IPV6 && b[3] != SOCKS_NAME)
		return socks_answer(c, SOCKS_FAILED);
	len = socks_length(b, c->in_len);
	return c->in_len >= len ? socks_destination(c, len) : true;
}

static bool
conn_parse(struct conn *c)
{
	int rc = 1;

	if (!c->socks && !c->greeted) {
		c->socks = (c->speaks & PROXY_SOCKS) != 0 &&
			   (c->in[0] == SOCKS_VERSION || (c->speaks & PROXY_HTTP) == 0);
		c->greeted = !c->socks;
	}
	if (!c->socks)
		return http_read(c);
	if (!c->greeted)
		rc = socks_greeting(c);
	return rc == 1 ? socks_request(c) : rc == 0;
}

static void
conn_read(struct conn *c)
{
	char buffer[READ_SIZE];
	ssize_t n;

	do {
		if ((n = recv(c->client, buffer, sizeof(buffer), 0)) == -1 &&
		    (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0 || in_append(c, buffer, (size_t)n) != 0) {
			conn_end(c, NULL);
			return;
		}
		c->client_in = n == (ssize_t)sizeof(buffer);
	} while (n == -1 ? errno == EINTR : conn_parse(c));
}

static void
on_client(void *ctx, uint32_t events)
{
	struct conn *c = ctx;
	struct refusal why;

	c->proxy->now = loop_now();
	half_edges(&c->up, &c->down, events);
	c->client_in |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	c->client_last |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	if (c->phase == READING) {
		conn_read(c);
	} else if (c->phase == RELAYING) {
		conn_pump(c);
	} else if (c->phase == LINGERING) {
		conn_linger(c);
	} else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
		refusal_set(&why, "http.aborted", "whoever asked has gone");
		conn_end(c, &why);
	}
}

void
conn_expire(struct conn *c)
{
	struct refusal why;

	refusal_set(&why, "egress.timeout", "it took too long");
	if (c->busy && c->phase != LINGERING) {
		conn_wait(c, c->patience); /* a commit is under way, which tells */
		return;
	}
	switch (c->phase) {
	case HOLDING:
		if (c->waits != NULL && c->proxy->now >= c->until) {
			c->flow = FLOW_OVER; /* its row says so */
			conn_refuse(c, c->waits);
			return;
		}
		conn_wait(c, c->patience); /* whoever asks a person has a bound for it */
		return;
	case LOOKING:
		refusal_set(&why, "egress.resolve", "could not resolve that name in time");
		conn_refuse(c, &why);
		return;
	case DIALLING:
		refusal_set(
		    &why, "egress.dial", "the server cannot be reached: it does not answer");
		conn_refuse(c, &why);
		return;
	case RELAYING:
		conn_end(c, &why);
		return;
	default:
		conn_end(c, NULL);
	}
}

void
conn_new(struct proxy *proxy, int fd, enum proxy_speaks speaks, struct proxy_user *user)
{
	const uint32_t edges = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	struct conn *c;

	if ((c = calloc(1, sizeof(*c))) == NULL) {
		close(fd);
		return;
	}
	c->proxy = proxy;
	c->user = user;
	c->client = fd;
	c->server = c->told = -1;
	c->speaks = speaks;
	c->since = proxy->now = loop_now();
	c->up.pipe[0] = c->up.pipe[1] = c->down.pipe[0] = c->down.pipe[1] = -1;
	c->patience = PATIENCES;
	user->n++;
	proxy->n++;
	conn_wait(c, FOR_HEAD);
	if (loop_add(proxy->config.loop, fd, edges, on_client, c) != 0)
		conn_end(c, NULL);
}
