/* accept.c: one way to accept. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include <errno.h>

#include "net/egress/accept.h"

#define PAUSE_MS 100

static void on_listener(void *ctx, uint32_t events);

static void
on_pause(void *ctx)
{
	struct acceptor *a = ctx;

	a->pause = 0;
	loop_add(a->loop, a->fd, EPOLLIN, on_listener, a);
}

static void
pause_begin(struct acceptor *a)
{
	loop_del(a->loop, a->fd);
	a->pause = loop_after(a->loop, PAUSE_MS, on_pause, a);
	if (a->pause == 0)
		on_pause(a);
}

static void
on_listener(void *ctx, uint32_t events)
{
	struct acceptor *a = ctx;
	struct sockaddr_in from;
	socklen_t len;
	size_t i;
	int fd;

	(void)events;
	for (i = 0; i < a->most; i++) {
		len = sizeof(from);
		fd = accept4(a->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd == -1)
			break;
		a->fn(a->ctx, fd, &from);
	}
	if (i < a->most &&
	    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
		pause_begin(a);
}

int
accept_begin(struct acceptor *a, struct loop *loop, int fd, size_t most,
    void (*fn)(void *ctx, int fd, const struct sockaddr_in *from), void *ctx)
{
	*a = (struct acceptor){.loop = loop, .fd = fd, .most = most, .fn = fn, .ctx = ctx};
	return loop_add(loop, fd, EPOLLIN, on_listener, a);
}

void
accept_end(struct acceptor *a)
{
	if (a->loop == NULL)
		return;
	loop_cancel(a->loop, a->pause);
	loop_del(a->loop, a->fd);
	a->loop = NULL;
}
