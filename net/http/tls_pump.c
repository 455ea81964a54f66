/* tls_pump.c: handshakes, and bytes carried between TLS on TCP and a plain socket pair. */
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/crypto/openssl.h"
#include "net/http/tls_pump.h"

#define RECORD       16384     /* the most that one record carries (RFC 8446 §5.1) */
#define ROUNDS       16        /* records a wake-up: others have their turn in between */
#define PLAIN_BUFFER 65536     /* of each direction in the kernel, which doubles it */
#define LINGER_MS    1000      /* for the other end to close as well */
#define LINGER_BYTES (4 << 20) /* that it may still send meanwhile */
#define KEEPALIVES   4         /* probes within dead_ms */

enum stage {
	STAGE_SHAKING,
	STAGE_OPEN,
	STAGE_CLOSING, /* our last byte is sent; what still comes is dropped */
	STAGES
};

/* What could not be passed on at once: ${len} bytes from ${at}. */
struct rest {
	uint8_t *data;
	size_t at, len;
};

struct tls_conn {
	struct tls_pump *pump;
	struct tls_end *end;
	struct tls_hooks hooks;
	SSL *ssl; /* a server's is made when the first byte is there */
	int tcp, plain;
	enum stage stage;
	uint32_t tcp_events, plain_events; /* that the loop watches for */
	uint64_t timer;
	struct rest in, out;
	bool in_over;    /* the other end has said that it sends no more */
	bool out_over;   /* we have said so */
	bool deaf;       /* nobody at the plain end reads any more */
	bool plain_over; /* nor writes, and it is read to its end */
	bool plain_hup;  /* it is closed; out of the loop */
	bool read_needs_write, write_needs_read;
	bool tcp_ready, plain_ready; /* may have something to read: saves asking in vain */
	struct refusal *why;         /* it failed; NULL: it did not */
	size_t dropped;
	struct in6_addr net; /* IPv4 mapped, IPv6 cut to its /64; "::" for clients */
	char address[TLS_ADDRESS_MAX];
	TAILQ_ENTRY(tls_conn) entry;
};

TAILQ_HEAD(conns, tls_conn);

struct tls_pump {
	struct loop *loop;
	struct tls_limits limits;
	const struct openssl_crypto *c;
	const struct openssl_ssl *s;
	struct conns conns[STAGES]; /* in the order in which they came to their stage */
	unsigned n[STAGES];
	bool closed;
	uint8_t scratch[RECORD];
};

static void on_tcp(void *ctx, uint32_t events);
static void on_plain(void *ctx, uint32_t events);

/* The end of a connection. */

static void
rest_free(struct rest *rest)
{
	if (rest->data != NULL)
		sodium_memzero(rest->data, RECORD);
	free(rest->data);
	*rest = (struct rest){.data = NULL};
}

static void
close_plain(struct tls_conn *c)
{
	if (c->plain == -1)
		return;
	loop_del(c->pump->loop, c->plain);
	close(c->plain);
	c->plain = -1;
}

void
tls_drop(struct tls_conn *c)
{
	struct tls_pump *pump = c->pump;

	TAILQ_REMOVE(&pump->conns[c->stage], c, entry);
	pump->n[c->stage]--;
	loop_cancel(pump->loop, c->timer);
	close_plain(c);
	loop_del(pump->loop, c->tcp);
	close(c->tcp);
	pump->s->SSL_free(c->ssl);
	rest_free(&c->in);
	rest_free(&c->out);
	free(c->why);
	free(c);
}

/* Drop ${c} and say ${why}, or for what it failed before. */
static void
end(struct tls_conn *c, const struct refusal *why)
{
	struct tls_hooks hooks = c->hooks;
	struct refusal earlier;

	if (c->why != NULL) {
		earlier = *c->why;
		why = &earlier;
	}
	tls_drop(c);
	if (hooks.gone != NULL)
		hooks.gone(hooks.ctx, why);
}

static void
end_for(struct tls_conn *c, const char *code, const char *why)
{
	struct refusal r;

	refusal_set(&r, code, "%s", why);
	end(c, &r);
}

static void
enter(struct tls_conn *c, enum stage stage)
{
	struct tls_pump *pump = c->pump;

	TAILQ_REMOVE(&pump->conns[c->stage], c, entry);
	pump->n[c->stage]--;
	c->stage = stage;
	TAILQ_INSERT_TAIL(&pump->conns[stage], c, entry);
	pump->n[stage]++;
	loop_cancel(pump->loop, c->timer);
	c->timer = 0;
}

static void
on_late(void *ctx)
{
	struct tls_conn *c = ctx;

	c->timer = 0;
	if (c->stage == STAGE_SHAKING)
		end_for(c, "http.timeout", "no handshake in time");
	else if (c->stage == STAGE_OPEN)
		end_for(c, "http.timeout", "the other side takes nothing any more");
	else
		end(c, NULL);
}

/* A timer that cannot be had ends the connection: nothing here waits without one. */
static int
set_timer(struct tls_conn *c, int64_t ms)
{
	loop_cancel(c->pump->loop, c->timer);
	return (c->timer = loop_after(c->pump->loop, ms, on_late, c)) != 0 ? 0 : -1;
}

/* What the loop watches for. */

static int
watch(struct tls_conn *c, int fd, uint32_t *now, uint32_t events)
{
	if (*now == events)
		return 0;
	*now = events;
	return loop_mod(c->pump->loop, fd, events);
}

static uint32_t
tcp_wants(const struct tls_conn *c)
{
	uint32_t events = 0;

	if ((!c->in_over && !c->deaf && c->in.len == 0 && !c->read_needs_write) ||
	    c->write_needs_read)
		events |= EPOLLIN;
	/* Nothing more is read, so that only this tells of a client that goes. */
	if (c->in_over)
		events |= EPOLLRDHUP;
	/* Of a plain end that is out of the loop, the rest is read as TCP takes it. */
	if (c->read_needs_write ||
	    (c->out.len > 0 ? !c->write_needs_read
			    : (c->plain_over || c->plain_hup) && !c->out_over))
		events |= EPOLLOUT;
	return events;
}

static uint32_t
plain_wants(const struct tls_conn *c)
{
	return (c->in.len > 0 ? (uint32_t)EPOLLOUT : 0) |
	       (c->out.len == 0 && !c->plain_over ? (uint32_t)EPOLLIN : 0);
}

static int
watch_both(struct tls_conn *c)
{
	if (watch(c, c->tcp, &c->tcp_events, tcp_wants(c)) == -1)
		return -1;
	if (c->plain == -1 || c->plain_hup)
		return 0;
	return watch(c, c->plain, &c->plain_events, plain_wants(c));
}

/* Carrying. */

enum moved {
	MOVED_NOTHING,
	MOVED_SOME,
	MOVED_END, /* the connection is gone, or closing */
};

/* Keep what could not be passed on. */
static int
keep(struct rest *rest, const uint8_t *data, size_t len)
{
	if (rest->data == NULL && (rest->data = malloc(RECORD)) == NULL)
		return -1;
	memcpy(rest->data, data, len);
	rest->at = 0;
	rest->len = len;
	return 0;
}

static void
consume(struct rest *rest, size_t n)
{
	rest->at += n;
	rest->len -= n;
	if (rest->len == 0)
		rest_free(rest);
}

/*
 * Our last byte is sent: wait for the other side to close before we do, since to close over bytes
 * that were not read could destroy what we said.
 */
static enum moved
linger(struct tls_conn *c)
{
	shutdown(c->tcp, SHUT_WR);
	close_plain(c);
	enter(c, STAGE_CLOSING);
	if (set_timer(c, LINGER_MS) == 0 && watch(c, c->tcp, &c->tcp_events, EPOLLIN) == 0)
		return MOVED_NOTHING;
	end(c, NULL);
	return MOVED_END;
}

/* TLS failed: tell why, with an alert from the other side if there was one, or send ours. */
static enum moved
failed(struct tls_conn *c, int error)
{
	if (error == SSL_ERROR_SYSCALL) {
		c->pump->c->ERR_clear_error();
		end_for(c, "http.unreachable", "the connection was cut");
		return MOVED_END;
	}
	if ((c->why = malloc(sizeof(*c->why))) == NULL) {
		end_for(c, "http.memory", "no memory for a reason");
		return MOVED_END;
	}
	tls_explain(c->ssl, c->why);
	linger(c);
	return MOVED_END;
}

/* Pass ${len} bytes of plain text on to the plain end; keep what it does not take. */
static enum moved
give_plain(struct tls_conn *c, const uint8_t *data, size_t len)
{
	ssize_t n = send(c->plain, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n == -1 && errno != EAGAIN && errno != EINTR) {
		c->deaf = true;
		return MOVED_SOME;
	}
	if (n < 0)
		n = 0;
	if ((size_t)n < len && keep(&c->in, data + n, len - (size_t)n) == -1) {
		end_for(c, "http.memory", "no memory for a connection");
		return MOVED_END;
	}
	return MOVED_SOME;
}

static enum moved
retry_plain(struct tls_conn *c)
{
	ssize_t n = send(c->plain, c->in.data + c->in.at, c->in.len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return MOVED_NOTHING;
	if (n == -1) {
		c->deaf = true;
		rest_free(&c->in);
		return MOVED_SOME;
	}
	consume(&c->in, (size_t)n);
	return MOVED_SOME;
}

/* Carry one record from TCP to the plain end. */
static enum moved
carry_in(struct tls_conn *c)
{
	struct tls_pump *pump = c->pump;
	int n;

	if (c->in.len > 0)
		return retry_plain(c);
	if (c->in_over || c->deaf || !c->tcp_ready)
		return MOVED_NOTHING;
	c->read_needs_write = false;
	if ((n = pump->s->SSL_read(c->ssl, pump->scratch, sizeof(pump->scratch))) > 0)
		return give_plain(c, pump->scratch, (size_t)n);
	switch (n = pump->s->SSL_get_error(c->ssl, n)) {
	case SSL_ERROR_WANT_WRITE:
		c->read_needs_write = true;
		return MOVED_NOTHING;
	case SSL_ERROR_WANT_READ:
		c->tcp_ready = false;
		return MOVED_NOTHING;
	case SSL_ERROR_ZERO_RETURN:
		c->in_over = true;
		shutdown(c->plain, SHUT_WR);
		return MOVED_SOME;
	default:
		return failed(c, n);
	}
}

/* Encrypt ${len} bytes; the number taken, 0 for none now, or -1: see MOVED_END. */
static int
encrypt(struct tls_conn *c, const uint8_t *data, size_t len)
{
	int n;

	c->write_needs_read = false;
	if ((n = c->pump->s->SSL_write(c->ssl, data, (int)len)) > 0)
		return n;
	switch (n = c->pump->s->SSL_get_error(c->ssl, n)) {
	case SSL_ERROR_WANT_READ:
		c->write_needs_read = true;
		return 0;
	case SSL_ERROR_WANT_WRITE:
		return 0;
	default:
		failed(c, n);
		return -1;
	}
}

/* Carry what is kept, or one more record, from the plain end to TCP. */
static enum moved
carry_out(struct tls_conn *c)
{
	struct tls_pump *pump = c->pump;
	ssize_t n;
	int sent;

	if (c->out.len > 0) {
		if ((sent = encrypt(c, c->out.data + c->out.at, c->out.len)) == -1)
			return MOVED_END;
		consume(&c->out, (size_t)sent);
		return sent > 0 ? MOVED_SOME : MOVED_NOTHING;
	}
	if (c->plain_over || !c->plain_ready)
		return MOVED_NOTHING;
	n = recv(c->plain, pump->scratch, sizeof(pump->scratch), MSG_DONTWAIT);
	if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
		c->plain_ready = false;
		return MOVED_NOTHING;
	}
	/* Closed, or closed over bytes that it did not read: ECONNRESET. */
	if (n <= 0) {
		c->plain_over = true;
		return MOVED_SOME;
	}
	if ((sent = encrypt(c, pump->scratch, (size_t)n)) == -1)
		return MOVED_END;
	if (sent < n && keep(&c->out, pump->scratch + sent, (size_t)(n - sent)) == -1) {
		end_for(c, "http.memory", "no memory for a connection");
		return MOVED_END;
	}
	return MOVED_SOME;
}

/* Nothing more comes from the plain end: say so, and close if nothing goes to it either. */
static enum moved
finish(struct tls_conn *c)
{
	int n, error;

	if (!c->out_over && (n = c->pump->s->SSL_shutdown(c->ssl)) < 0) {
		error = c->pump->s->SSL_get_error(c->ssl, n);
		if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ)
			return MOVED_NOTHING;
		return failed(c, error);
	}
	loop_cancel(c->pump->loop, c->timer);
	c->timer = 0;
	c->out_over = true;
	return c->plain_hup || c->deaf || c->in_over ? linger(c) : MOVED_NOTHING;
}

/* Carry both ways for a while. */
static enum moved
carry(struct tls_conn *c)
{
	enum moved in, out;
	bool sent = false;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		if ((in = carry_in(c)) == MOVED_END || (out = carry_out(c)) == MOVED_END)
			return MOVED_END;
		sent |= out == MOVED_SOME;
		if (in == MOVED_NOTHING && out == MOVED_NOTHING)
			break;
	}
	if (c->plain_over && c->out.len == 0)
		return finish(c);
	if (!c->plain_over && !c->plain_hup)
		return MOVED_SOME;
	if ((sent || c->timer == 0) && set_timer(c, c->pump->limits.flush_ms) == -1) {
		end_for(c, "http.memory", "no memory for a timer");
		return MOVED_END;
	}
	return MOVED_SOME;
}

static void
carry_and_watch(struct tls_conn *c)
{
	if (carry(c) != MOVED_END && c->stage == STAGE_OPEN && watch_both(c) == -1)
		end_for(c, "http.memory", "no memory for a connection");
}

static void
drop_rest(struct tls_conn *c)
{
	ssize_t n = recv(c->tcp, c->pump->scratch, sizeof(c->pump->scratch), MSG_DONTWAIT);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (c->dropped += (size_t)n) > LINGER_BYTES)
		end(c, NULL);
}

/* Shaking hands. */

static int
open_plain(struct tls_conn *c, int *theirs)
{
	const int room = PLAIN_BUFFER;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == -1)
		return -1;
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	c->plain_events = EPOLLIN;
	if (loop_add(c->pump->loop, fds[0], EPOLLIN, on_plain, c) == -1) {
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	c->plain = fds[0];
	*theirs = fds[1];
	return 0;
}

static void
open_conn(struct tls_conn *c)
{
	struct refusal r = {.code = ""};
	struct tls_peer *peer;
	int theirs;

	peer = tls_end_is_web(c->end) ? NULL : tls_peer_of(c->ssl, &r);
	if (r.code[0] != '\0') {
		end(c, &r);
		return;
	}
	if (open_plain(c, &theirs) == -1) {
		tls_peer_free(peer);
		end_for(c, "http.memory", "no memory or descriptor for a connection");
		return;
	}
	/* A client that holds its request until the end of the handshake is acknowledged need not
	 * wait. */
	setsockopt(c->tcp, IPPROTO_TCP, TCP_QUICKACK, &(const int){1}, sizeof(int));
	enter(c, STAGE_OPEN);
	c->tcp_ready = true; /* the first request may have come with it */
	if (c->hooks.ready(c->hooks.ctx, c, theirs, peer) == -1) {
		end(c, NULL);
		return;
	}
	carry_and_watch(c);
}

static void
shake(struct tls_conn *c)
{
	struct tls_pump *pump = c->pump;
	uint32_t events = 0;
	int n;

	if (c->ssl == NULL && ((c->ssl = tls_end_new_ssl(c->end, NULL)) == NULL ||
				  pump->s->SSL_set_fd(c->ssl, c->tcp) != 1)) {
		end_for(c, "http.memory", "no memory for a connection");
		return;
	}
	if ((n = pump->s->SSL_do_handshake(c->ssl)) == 1) {
		open_conn(c);
		return;
	}
	switch (n = pump->s->SSL_get_error(c->ssl, n)) {
	case SSL_ERROR_WANT_READ:
		events = EPOLLIN;
		break;
	case SSL_ERROR_WANT_WRITE:
		events = EPOLLOUT;
		break;
	default:
		failed(c, n);
		return;
	}
	if (watch(c, c->tcp, &c->tcp_events, events) == -1)
		end_for(c, "http.memory", "no memory for a connection");
}

/* Events. */

static void
on_tcp(void *ctx, uint32_t events)
{
	struct tls_conn *c = ctx;

	c->pump->c->ERR_clear_error();
	if (c->stage == STAGE_CLOSING)
		drop_rest(c);
	else if (c->stage == STAGE_SHAKING)
		shake(c);
	else if ((events & EPOLLRDHUP) != 0 && c->out_over)
		end(c, NULL);
	else if ((events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0)
		end_for(c, "http.unreachable", "the other side has closed the connection");
	else {
		c->tcp_ready = true;
		carry_and_watch(c);
	}
}

static void
on_plain(void *ctx, uint32_t events)
{
	struct tls_conn *c = ctx;

	/* It would be reported for ever while TCP takes nothing. */
	if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
		loop_del(c->pump->loop, c->plain);
		c->plain_hup = true;
	}
	c->plain_ready = true;
	c->pump->c->ERR_clear_error();
	carry_and_watch(c);
}

/* Coming in. */

static void
set_keepalive(const struct tls_conn *c)
{
	const int on = 1, count = KEEPALIVES, dead = (int)c->pump->limits.dead_ms;
	int gap = dead / 1000 / (KEEPALIVES + 1);

	if (gap < 1)
		gap = 1;
	setsockopt(c->tcp, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(c->tcp, IPPROTO_TCP, TCP_KEEPIDLE, &gap, sizeof(gap));
	setsockopt(c->tcp, IPPROTO_TCP, TCP_KEEPINTVL, &gap, sizeof(gap));
	setsockopt(c->tcp, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(c->tcp, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead, sizeof(dead));
	setsockopt(c->tcp, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static struct tls_conn *
conn_new(struct tls_pump *pump, struct tls_end *tls_end, int fd, const struct tls_hooks *hooks,
    uint32_t events, struct refusal *r)
{
	struct tls_conn *c;
	int flags;

	if ((c = calloc(1, sizeof(*c))) == NULL || (flags = fcntl(fd, F_GETFL)) == -1 ||
	    fcntl(fd, F_SETFL, flags | O_NONBLOCK) == -1 ||
	    loop_add(pump->loop, fd, events, on_tcp, c) == -1) {
		refusal_set(r, "http.memory", "no memory for a connection");
		free(c);
		close(fd);
		return NULL;
	}
	c->pump = pump;
	c->end = tls_end;
	c->hooks = *hooks;
	c->tcp = fd;
	c->plain = -1;
	c->tcp_events = events;
	TAILQ_INSERT_TAIL(&pump->conns[STAGE_SHAKING], c, entry);
	pump->n[STAGE_SHAKING]++;
	set_keepalive(c);
	if (set_timer(c, pump->limits.handshake_ms) == 0)
		return c;
	tls_drop(c);
	refusal_set(r, "http.memory", "no memory for a timer");
	return NULL;
}

/* Make room for one more, if need be at the cost of who only lingers, or has shaken hands for
 * longest. */
static int
make_room(struct tls_pump *pump, struct refusal *r)
{
	if (pump->closed)
		return refusal_set(r, "http.busy", "no more connections are taken");
	if (pump->n[STAGE_SHAKING] >= pump->limits.handshakes)
		end_for(TAILQ_FIRST(&pump->conns[STAGE_SHAKING]), "http.busy",
		    "too many handshakes at once");
	if (tls_pump_count(pump) < pump->limits.connections)
		return 0;
	if (pump->n[STAGE_CLOSING] > 0)
		end(TAILQ_FIRST(&pump->conns[STAGE_CLOSING]), NULL);
	else if (pump->n[STAGE_SHAKING] > 0)
		end_for(TAILQ_FIRST(&pump->conns[STAGE_SHAKING]), "http.busy",
		    "too many connections are open");
	else
		return refusal_set(r, "http.busy", "too many connections are open");
	return 0;
}

/* By what connections are counted. */
static void
net_of(const struct sockaddr_storage *from, struct in6_addr *net, char address[TLS_ADDRESS_MAX])
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;

	*net = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
	address[0] = '\0';
	if (from->ss_family == AF_INET) {
		memcpy(&net->s6_addr[12], &v4->sin_addr, 4);
		inet_ntop(AF_INET, &v4->sin_addr, address, TLS_ADDRESS_MAX);
	} else if (from->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, address, TLS_ADDRESS_MAX);
		*net = v6->sin6_addr;
		if (!IN6_IS_ADDR_V4MAPPED(net))
			memset(&net->s6_addr[8], 0, 8);
	}
}

static unsigned
count_net(const struct tls_pump *pump, const struct in6_addr *net)
{
	const struct tls_conn *c;
	unsigned n = 0;
	int i;

	for (i = 0; i < STAGES; i++)
		TAILQ_FOREACH(c, &pump->conns[i], entry)
	n += memcmp(&c->net, net, sizeof(*net)) == 0;
	return n;
}

struct tls_conn *
tls_accept(struct tls_pump *pump, struct tls_end *tls_end, int fd,
    const struct sockaddr_storage *from, const struct tls_hooks *hooks, struct refusal *r)
{
	char address[TLS_ADDRESS_MAX];
	struct in6_addr net;
	struct tls_conn *c;

	net_of(from, &net, address);
	if (count_net(pump, &net) >= pump->limits.per_address) {
		close(fd);
		refusal_set(r, "http.busy", "too many connections from one address");
		return NULL;
	}
	if (make_room(pump, r) == -1) {
		close(fd);
		return NULL;
	}
	if ((c = conn_new(pump, tls_end, fd, hooks, EPOLLIN, r)) == NULL)
		return NULL;
	c->net = net;
	memcpy(c->address, address, sizeof(address));
	return c;
}

struct tls_conn *
tls_connect(struct tls_pump *pump, struct tls_end *tls_end, int fd, const char *name,
    const struct tls_hooks *hooks, struct refusal *r)
{
	struct tls_conn *c;

	if (make_room(pump, r) == -1) {
		close(fd);
		return NULL;
	}
	if ((c = conn_new(pump, tls_end, fd, hooks, EPOLLOUT, r)) == NULL)
		return NULL;
	if ((c->ssl = tls_end_new_ssl(tls_end, name)) != NULL &&
	    pump->s->SSL_set_fd(c->ssl, fd) == 1)
		return c;
	tls_drop(c);
	refusal_set(r, "http.memory", "no memory for a connection");
	return NULL;
}

const char *
tls_address(const struct tls_conn *c)
{
	return c->address;
}

/* Pumps. */

struct tls_pump *
tls_pump_new(struct loop *loop, const struct tls_limits *limits, struct refusal *r)
{
	struct tls_pump *pump;
	int i;

	if ((pump = calloc(1, sizeof(*pump))) == NULL) {
		refusal_set(r, "http.memory", "no memory for TLS");
		return NULL;
	}
	pump->loop = loop;
	pump->limits = *limits;
	for (i = 0; i < STAGES; i++)
		TAILQ_INIT(&pump->conns[i]);
	if ((pump->c = openssl_crypto(r)) != NULL && (pump->s = openssl_ssl(r)) != NULL)
		return pump;
	free(pump);
	return NULL;
}

void
tls_pump_close(struct tls_pump *pump)
{
	pump->closed = true;
	while (pump->n[STAGE_SHAKING] > 0)
		tls_drop(TAILQ_FIRST(&pump->conns[STAGE_SHAKING]));
}

void
tls_pump_free(struct tls_pump *pump)
{
	int i;

	if (pump == NULL)
		return;
	for (i = 0; i < STAGES; i++)
		while (pump->n[i] > 0)
			tls_drop(TAILQ_FIRST(&pump->conns[i]));
	sodium_memzero(pump->scratch, sizeof(pump->scratch));
	free(pump);
}

unsigned
tls_pump_count(const struct tls_pump *pump)
{
	return pump->n[STAGE_SHAKING] + pump->n[STAGE_OPEN] + pump->n[STAGE_CLOSING];
}
