/* dial.c: attempts side by side. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/egress/dial.h"

struct attempt {
	struct dial *dial;
	int fd; /* -1: not begun, or over */
};

struct dial {
	struct loop *loop;
	struct dial_how how;
	const struct address *addresses;
	size_t n, begun, open;
	uint16_t port;
	int error;      /* of the attempt that failed last */
	uint64_t timer; /* the next attempt, or the end of one that failed at once */
	struct attempt attempts[];
};

static int
dial_tcp(const struct address *address, uint16_t port)
{
	struct sockaddr_storage to;
	socklen_t len = address_sockaddr(address, port, &to);
	int fd, one = 1;

	if ((fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) == -1)
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (const struct sockaddr *)&to, len) == 0 || errno == EINPROGRESS)
		return fd;
	one = errno;
	close(fd);
	errno = one;
	return -1;
}

static void
attempt_close(struct attempt *a)
{
	if (a->fd == -1)
		return;
	loop_del(a->dial->loop, a->fd);
	close(a->fd);
	a->fd = -1;
	a->dial->open--;
}

void
dial_cancel(struct dial *d)
{
	size_t i;

	if (d == NULL)
		return;
	loop_cancel(d->loop, d->timer);
	for (i = 0; i < d->begun; i++)
		attempt_close(&d->attempts[i]);
	free(d);
}

/* The winner's socket leaves the dial before the others are closed. */
static void
dial_over(struct dial *d, int fd, size_t which, bool readable)
{
	struct dial_how how = d->how;
	int error = d->error;

	dial_cancel(d);
	how.done(how.ctx, fd, which, readable, error);
}

static void dial_next(struct dial *d);

static void
on_timer(void *ctx)
{
	struct dial *d = ctx;

	d->timer = 0;
	if (d->begun < d->n)
		dial_next(d);
	else if (d->open == 0)
		dial_over(d, -1, 0, false);
}

static void
on_attempt(void *ctx, uint32_t events)
{
	struct attempt *a = ctx;
	struct dial *d = a->dial;
	int fd = a->fd, error = 0;
	socklen_t len = sizeof(error);

	if ((events & (EPOLLERR | EPOLLHUP)) != 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error == 0) {
		a->fd = -1;
		d->open--;
		dial_over(d, fd, (size_t)(a - d->attempts), (events & ~(uint32_t)EPOLLOUT) != 0);
		return;
	}
	d->error = error;
	attempt_close(a);
	dial_next(d);
}

static int
attempt_begin(struct dial *d, struct attempt *a, const struct address *address)
{
	a->dial = d;
	a->fd = d->how.open != NULL ? d->how.open(d->how.ctx, address, d->port)
				    : dial_tcp(address, d->port);
	if (a->fd == -1)
		return -1;
	d->open++;
	if (loop_add(d->loop, a->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, on_attempt, a) == 0)
		return 0;
	attempt_close(a);
	return -1;
}

/* Begin with the next address that can be begun with; the timer then waits for its answer. */
static void
dial_next(struct dial *d)
{
	loop_cancel(d->loop, d->timer);
	d->timer = 0;
	while (d->begun < d->n) {
		struct attempt *a = &d->attempts[d->begun];

		if (attempt_begin(d, a, &d->addresses[d->begun++]) == 0)
			break;
		d->error = errno;
	}
	if (d->begun < d->n)
		d->timer = loop_after(d->loop, d->how.stagger_ms, on_timer, d);
	else if (d->open == 0)
		d->timer = loop_after(d->loop, 0, on_timer, d);
}

struct dial *
dial_start(struct loop *loop, const struct dial_how *how, const struct address *addresses, size_t n,
    uint16_t port)
{
	struct dial *d;
	size_t i;

	if (n == 0) {
		errno = EDESTADDRREQ;
		return NULL;
	}
	if ((d = calloc(1, sizeof(*d) + n * sizeof(d->attempts[0]))) == NULL)
		return NULL;
	d->loop = loop;
	d->how = *how;
	d->addresses = addresses;
	d->n = n;
	d->port = port;
	for (i = 0; i < n; i++)
		d->attempts[i].fd = -1;
	dial_next(d);
	return d;
}
