/* handed.c: descriptors that come over a unix socket, each with the Host that it is of. */
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/worker/runner_wire.h"
#include "net/egress/accept.h"
#include "net/egress/handed.h"
#include "net/egress/who.h"
#include "net/http/unixsock.h"

#define BACKLOG 256
#define TURN    64  /* connections before others have their turn */
#define COMING  256 /* that have connected and not said anything yet */

/* Whoever has connected, until it said for whom. */
struct giver {
	struct handed *handed;
	int fd;
	TAILQ_ENTRY(giver) entry;
};

struct handed {
	struct proxy *proxy;
	struct loop *loop;
	struct unixsock sock;
	struct acceptor acceptor;
	size_t n;
	TAILQ_HEAD(givers, giver) givers;
};

static void
giver_free(struct giver *g)
{
	TAILQ_REMOVE(&g->handed->givers, g, entry);
	g->handed->n--;
	loop_del(g->handed->loop, g->fd);
	free(g);
}

static void
on_giver(void *ctx, uint32_t events)
{
	struct giver *g = ctx;
	struct handed *handed = g->handed;
	struct proxy_who who = {.host = true};
	int passed[WIRE_FDS_MAX], told = g->fd, rc;
	size_t n;

	(void)events;
	rc = runner_wire_receive_all(told, &who.id, sizeof(who.id), passed, &n, MSG_DONTWAIT);
	giver_free(g);
	if (rc == 1 && n == 1 && who.id > 0 &&
	    fcntl(passed[0], F_SETFL, O_RDWR | O_NONBLOCK) == 0) {
		proxy_take_told(handed->proxy, passed[0], PROXY_BOTH, &who, told);
		return;
	}
	while (n > 0)
		close(passed[--n]);
	close(told);
}

static void
on_accepted(void *ctx, int fd, const struct sockaddr_in *from)
{
	struct handed *handed = ctx;
	struct giver *g;
	uid_t uid;

	(void)from;
	/* Who may speak for a Host is an actor of ours: nobody else, and not root by itself. */
	if (handed->n >= COMING || who_unix(fd, &uid) != 0 || uid != geteuid() ||
	    (g = calloc(1, sizeof(*g))) == NULL) {
		close(fd);
		return;
	}
	g->handed = handed;
	g->fd = fd;
	TAILQ_INSERT_TAIL(&handed->givers, g, entry);
	handed->n++;
	if (loop_add(handed->loop, fd, EPOLLIN, on_giver, g) == 0)
		return;
	giver_free(g);
	close(fd);
}

struct handed *
handed_listen(struct proxy *proxy, struct loop *loop, const struct home *home, struct refusal *r)
{
	char path[HOME_RUN_MAX + sizeof(HANDED_SOCKET) + 1];
	struct handed *handed;

	if ((handed = calloc(1, sizeof(*handed))) == NULL) {
		refusal_set(r, "http.memory", "there is no memory for a listener");
		return NULL;
	}
	handed->proxy = proxy;
	handed->loop = loop;
	TAILQ_INIT(&handed->givers);
	snprintf(path, sizeof(path), "%s/%s", home->run, HANDED_SOCKET);
	if (unixsock_bind(&handed->sock, path, 0600, r) != 0 ||
	    unixsock_publish(&handed->sock, BACKLOG, r) != 0) {
		free(handed);
		return NULL;
	}
	if (accept_begin(&handed->acceptor, loop, handed->sock.fd, TURN, on_accepted, handed) == 0)
		return handed;
	refusal_errno(r, "socket.bind", "cannot listen for connections of Hosts");
	unixsock_close(&handed->sock);
	free(handed);
	return NULL;
}

void
handed_free(struct handed *handed)
{
	struct giver *g;
	int fd;

	if (handed == NULL)
		return;
	while ((g = TAILQ_FIRST(&handed->givers)) != NULL) {
		fd = g->fd;
		giver_free(g);
		close(fd);
	}
	accept_end(&handed->acceptor);
	unixsock_close(&handed->sock);
	free(handed);
}

int
handed_give(const struct home *home, int fd, int64_t pairing, struct refusal *r)
{
	int to = home_dial(home, HANDED_SOCKET);

	if (to != -1 && runner_wire_send_all(to, &pairing, sizeof(pairing), &fd, 1) == 0)
		return to;
	refusal_errno(r, "parked.lane", "the internet lane of this machine does not answer");
	if (to != -1)
		close(to);
	return -1;
}
