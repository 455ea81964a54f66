/* via.c: send, then read to the end of the answer. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/http/via.h"

#define READS 16 /* pieces a wake-up: others have their turn in between */

struct via {
	struct loop *loop;
	struct via_hooks hooks;
	int fd;
	char *text; /* NULL: sent */
	size_t len, sent;
	bool paused;
	struct reply reply;
	char piece[16384];
};

static void
text_free(struct via *via)
{
	if (via->text != NULL)
		sodium_memzero(via->text, via->len);
	free(via->text);
	via->text = NULL;
}

void
via_free(struct via *via)
{
	if (via == NULL)
		return;
	loop_del(via->loop, via->fd);
	close(via->fd);
	text_free(via);
	free(via);
}

const struct reply *
via_reply(const struct via *via)
{
	return &via->reply;
}

/* Return 0; or -1 where the other end is gone. */
static int
send_some(struct via *via)
{
	ssize_t n =
	    send(via->fd, via->text + via->sent, via->len - via->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n == -1)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	via->sent += (size_t)n;
	if (via->sent < via->len)
		return 0;
	text_free(via);
	return via->paused ? 0 : loop_mod(via->loop, via->fd, EPOLLIN);
}

static void
fail(struct via *via, const char *code, const char *why)
{
	struct refusal r;

	refusal_set(&r, code, "%s", why);
	via->hooks.over(via->hooks.ctx, &r);
}

/* Read one piece.  Return 1 to go on, 0 when there is nothing more now or it is over. */
static int
read_some(struct via *via)
{
	struct refusal r = {.code = ""};
	ssize_t n = recv(via->fd, via->piece, sizeof(via->piece), MSG_DONTWAIT);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		fail(via, "http.unreachable", "the connection was cut before the answer was whole");
		return 0;
	}
	if (reply_feed(&via->reply, via->piece, (size_t)n, via->hooks.body, via->hooks.ctx, &r) ==
	    -1) {
		via->hooks.over(via->hooks.ctx, &r);
		return 0;
	}
	if (via->reply.stage != REPLY_COMPLETE)
		return 1;
	via->hooks.over(via->hooks.ctx, NULL);
	return 0;
}

static void
on_event(void *ctx, uint32_t events)
{
	struct via *via = ctx;
	int i;

	if (via->text != NULL && (events & EPOLLOUT) != 0 && send_some(via) == -1) {
		fail(via, "http.unreachable", "the connection was cut before the request was sent");
		return;
	}
	if ((events & ~(uint32_t)EPOLLOUT) == 0)
		return;
	for (i = 0; i < READS && !via->paused && read_some(via) == 1; i++)
		continue;
}

/* A hang-up is told whatever is asked for, so a paused socket is in no loop. */
int
via_pause(struct via *via, bool on)
{
	if (via->paused == on)
		return 0;
	via->paused = on;
	if (!on)
		return loop_add(via->loop, via->fd,
		    EPOLLIN | (via->text != NULL ? (uint32_t)EPOLLOUT : 0), on_event, via);
	loop_del(via->loop, via->fd);
	return 0;
}

struct via *
via_start(
    struct loop *loop, int fd, char *text, size_t len, bool to_head, const struct via_hooks *hooks)
{
	struct via *via;

	if ((via = malloc(sizeof(*via))) == NULL ||
	    loop_add(loop, fd, EPOLLIN | EPOLLOUT, on_event, via) == -1) {
		sodium_memzero(text, len);
		free(text);
		free(via);
		close(fd);
		return NULL;
	}
	via->loop = loop;
	via->hooks = *hooks;
	via->fd = fd;
	via->text = text;
	via->len = len;
	via->sent = 0;
	via->paused = false;
	reply_init(&via->reply, to_head);
	return via;
}
