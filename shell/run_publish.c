/* run_publish.c: connections from this machine into a network inside. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/egress/who.h"
#include "shell/run_publish.h"

#define CODE    "run.port"
#define BACKLOG 128
#define TURN    16 /* connections before others have their turn */
#define PIPES   16
#define EDGES   (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

struct published {
	struct publish *p;
	struct published *next, **at;
	int outside, inside;
	struct half in, out;
	uint64_t again;
};

/*
 * What is asked for.
 */

/* Read a port in digits alone, up to ${end}.  Return it, or -1. */
static int
port_read(const char *text, const char *end)
{
	int port = 0;

	if (text == end || end - text > 5)
		return -1;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		port = port * 10 + (*text - '0');
	}
	return port <= UINT16_MAX ? port : -1;
}

static int
listen_at(struct run_port *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
	    .sin_port = htons(port->port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd == -1)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, BACKLOG) == 0 &&
	    getsockname(fd, (struct sockaddr *)&at, &len) == 0) {
		port->port = ntohs(at.sin_port);
		return fd;
	}
	close(fd);
	return -1;
}

int
publish_add(struct publish *p, const char *text, struct refusal *refusal)
{
	const char *end = text + strlen(text), *colon = strchr(text, ':');
	int outside = port_read(text, colon != NULL ? colon : end);
	int inside = colon != NULL ? port_read(colon + 1, end) : outside;
	struct run_port *port = &p->ports[p->count];

	if (outside < 0 || inside < 1)
		return refusal_set(
		    refusal, CODE, "\"%.32s\" is no PORT and no OUTSIDE:INSIDE", text);
	if (p->count == PUBLISH_MAX)
		return refusal_set(refusal, CODE, "at most %d ports are published", PUBLISH_MAX);
	*port = (struct run_port){.port = (uint16_t)outside, .inside = (uint16_t)inside};
	if ((p->fds[p->count] = listen_at(port)) == -1)
		return refusal_set(
		    refusal, CODE, "127.0.0.1:%d cannot be had: %s", outside, strerror(errno));
	p->count++;
	return 0;
}

/*
 * A connection.
 */

static void
drop(struct published *c)
{
	struct publish *p = c->p;

	loop_cancel(p->loop, c->again);
	half_end(&c->in, p->pool);
	half_end(&c->out, p->pool);
	loop_del(p->loop, c->outside);
	loop_del(p->loop, c->inside);
	close(c->outside);
	close(c->inside);
	*c->at = c->next;
	if (c->next != NULL)
		c->next->at = c->at;
	p->open--;
	free(c);
}

static void carry(struct published *c);

static void
on_again(void *ctx)
{
	struct published *c = ctx;

	c->again = 0;
	carry(c);
}

static void
carry(struct published *c)
{
	enum half_state state = halves_pump(&c->in, &c->out, c->p->pool);

	if (state == HALF_ENDED)
		drop(c);
	else if (c->again == 0 && state == HALF_GOES_ON &&
		 (c->again = loop_after(c->p->loop, 0, on_again, c)) == 0)
		drop(c);
}

static void
on_outside(void *ctx, uint32_t events)
{
	struct published *c = ctx;

	half_edges(&c->in, &c->out, events);
	carry(c);
}

static void
on_inside(void *ctx, uint32_t events)
{
	struct published *c = ctx;

	half_edges(&c->out, &c->in, events);
	carry(c);
}

/* Return a socket that is connected, or is about to be, to ${port} inside; or -1. */
static int
dial(const struct publish *p, uint16_t port)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
	    .sin_port = htons(port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = sandbox_door_socket(&p->door);

	if (fd == -1)
		return -1;
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 || errno == EINPROGRESS)
		return fd;
	close(fd);
	return -1;
}

/* Carry ${fd} to ${port}; it is closed where that is not to be had. */
static void
take(struct publish *p, int fd, uint16_t port)
{
	struct published *c = NULL;
	int inside = -1;

	if (p->open == p->most || (inside = dial(p, port)) == -1 ||
	    (c = calloc(1, sizeof(*c))) == NULL) {
		if (inside != -1)
			close(inside);
		close(fd);
		return;
	}
	*c = (struct published){
	    .p = p, .next = p->first, .at = &p->first, .outside = fd, .inside = inside};
	if (p->first != NULL)
		p->first->at = &c->next;
	p->first = c;
	p->open++;
	half_begin(&c->in, fd, inside, HALF_ALL);
	half_begin(&c->out, inside, fd, HALF_ALL);
	/* It may not be there yet: the first edge says when. */
	c->in.writable = c->out.readable = false;
	if (loop_add(p->loop, fd, EDGES, on_outside, c) != 0 ||
	    loop_add(p->loop, inside, EDGES, on_inside, c) != 0)
		drop(c);
}

/* The port is the person's: no other user of this machine comes in there. */
static bool
is_ours(const struct publish *p, const struct sockaddr_in *at, const struct sockaddr_in *from)
{
	uid_t uid;

	return who_tcp(p->diag, at, from, &uid) == 0 && (uid == p->uid || uid == 0);
}

static void
on_accepted(void *ctx, int fd, const struct sockaddr_in *from)
{
	struct publish_way *way = ctx;
	struct publish *p = way->of;
	const struct run_port *port = &p->ports[way - p->ways];
	const struct sockaddr_in at = {.sin_family = AF_INET,
	    .sin_port = htons(port->port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	if (is_ours(p, &at, from))
		take(p, fd, port->inside);
	else
		close(fd);
}

int
publish_begin(
    struct publish *p, struct loop *loop, int listener, size_t most, struct refusal *refusal)
{
	size_t i;

	if (p->count == 0)
		return 0;
	p->loop = loop;
	p->most = most;
	p->uid = geteuid();
	p->door.fd = p->diag = -1;
	if (sandbox_door_open(&p->door, listener) != 0)
		return refusal_errno(refusal, CODE, "the network inside cannot be entered");
	if ((p->diag = who_open()) == -1 || (p->pool = relay_pool_new(PIPES)) == NULL)
		return refusal_errno(refusal, CODE, "who connects cannot be told");
	for (i = 0; i < p->count; i++) {
		p->ways[i].of = p;
		if (accept_begin(
			&p->ways[i].acceptor, loop, p->fds[i], TURN, on_accepted, &p->ways[i]) != 0)
			return refusal_errno(refusal, CODE, "a port cannot be waited for");
	}
	return 0;
}

void
publish_end(struct publish *p)
{
	size_t i;

	while (p->first != NULL)
		drop(p->first);
	for (i = 0; i < p->count; i++) {
		accept_end(&p->ways[i].acceptor);
		close(p->fds[i]);
	}
	p->count = 0;
	if (p->loop == NULL)
		return;
	sandbox_door_close(&p->door);
	if (p->diag != -1)
		close(p->diag);
	relay_pool_free(p->pool);
}
