/* server.c: listeners, connections and libmicrohttpd's daemon on our loop. */
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/http/internal.h"
#include "net/http/tls_pump.h"
#include "net/http/unixsock.h"

#define BACKLOG         SOMAXCONN /* a unix socket's client is refused, not queued, above it */
#define ACCEPTS         16        /* a wake-up: others have their turn in between */
#define ACCEPT_PAUSE_MS 100       /* when descriptors or memory have run out */
#define LEFTOVERS_MAX   16
#define POOL_EXTRA      24576 /* with 8 KiB of headers: the most it takes by malloc, not mmap */
#define LINGER_MS       1000
#define LINGER_BYTES    (1 << 20)

struct listener {
	struct http_server *server;
	struct unixsock sock; /* only ${fd} is set for a socket that was handed in; -1: closed */
	unsigned surface;
	uint64_t pause;
	struct tls_end *tls; /* NULL: plain */
	struct tls_pump *pump;
	struct listener *next;
};

/* A connection that was refused: what still arrives is dropped. */
struct leftover {
	struct http_server *server;
	int fd;
	size_t left;
	uint64_t timer;
	struct leftover *next;
};

/* Refused connections. */

static void
linger_end(void *ctx)
{
	struct leftover *l = ctx, **p;

	for (p = &l->server->leftovers; *p != l; p = &(*p)->next)
		continue;
	*p = l->next;
	l->server->nleftovers--;
	loop_cancel(l->server->loop, l->timer);
	loop_del(l->server->loop, l->fd);
	close(l->fd);
	free(l);
}

static void
linger_read(void *ctx, uint32_t events)
{
	struct leftover *l = ctx;
	char drop[16384];
	ssize_t n;

	(void)events;
	n = recv(l->fd, drop, sizeof(drop), MSG_DONTWAIT);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (size_t)n >= l->left) {
		linger_end(l);
		return;
	}
	l->left -= (size_t)n;
}

/* Without a place, memory or descriptor to linger, the caller's close has to do. */
static void
linger_begin(struct http_server *server, int fd)
{
	struct leftover *l;

	shutdown(fd, SHUT_WR);
	if (server->nleftovers == LEFTOVERS_MAX || (l = calloc(1, sizeof(*l))) == NULL)
		return;
	l->server = server;
	l->left = LINGER_BYTES;
	if ((l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) == -1) {
		free(l);
		return;
	}
	l->next = server->leftovers;
	server->leftovers = l;
	server->nleftovers++;
	l->timer = loop_after(server->loop, LINGER_MS, linger_end, l);
	if (l->timer == 0 || loop_add(server->loop, l->fd, EPOLLIN, linger_read, l) == -1)
		linger_end(l);
}

void
server_refuse_raw(struct http_server *server, int fd, unsigned status,
    const struct refusal *refusal, const char *extra, const char *allow, bool body)
{
	char head[512];
	size_t len;
	char *json;
	int n;

	if ((json = exchange_refusal_json(refusal, extra, &len)) == NULL)
		return;
	n = snprintf(head, sizeof(head),
	    "HTTP/1.1 %u Refused\r\nConnection: close\r\nContent-Type: application/json\r\n"
	    "X-Bastion-Refused: %s\r\n%s%s%sContent-Length: %zu\r\n\r\n",
	    status, refusal->code, allow ? "Allow: " : "", allow ? allow : "", allow ? "\r\n" : "",
	    len);
	/* A new answer fits an empty socket buffer; if not, the client just sees the close. */
	if (n > 0 && (size_t)n < sizeof(head) &&
	    send(fd, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n && body)
		(void)!send(fd, json, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	free(json);
	linger_begin(server, fd);
}

/* Connections. */

static void
on_deadline(void *ctx)
{
	struct conn *c = ctx;
	struct refusal r;

	c->timer = 0;
	if (c->x != NULL && c->x->phase == PHASE_BODY) {
		refusal_set(&r, "http.timeout", "the request did not arrive in time");
		server_refuse_raw(c->server, c->fd, 408, &r, NULL, NULL, !c->x->is_head);
	}
	shutdown(c->fd, SHUT_RDWR); /* libmicrohttpd reads the end and closes */
}

void
conn_deadline(struct conn *c, int64_t ms)
{
	loop_cancel(c->server->loop, c->timer);
	c->timer = 0;
	c->since = loop_now();
	if (ms > 0 && (c->timer = loop_after(c->server->loop, ms, on_deadline, c)) == 0)
		shutdown(c->fd, SHUT_RDWR);
}

/* While a connection is suspended, only we see its client hang up. */
static void
on_hang_up(void *ctx, uint32_t events)
{
	struct conn *c = ctx;

	(void)events;
	c->hung_up = true;
	if (c->x != NULL && c->x->suspended)
		exchange_abandon(c->x);
}

static void
drained(void *ctx)
{
	struct http_server *server = ctx;

	server->drain_timer = 0;
	server->drained(server->drained_ctx);
}

/* Connections, and those under TLS whose last bytes are still on their way. */
static bool
is_empty(const struct http_server *server)
{
	const struct listener *l;

	for (l = server->listeners; l != NULL; l = l->next)
		if (l->pump != NULL && tls_pump_count(l->pump) > 0)
			return false;
	return server->nconns == 0;
}

static void
check_drained(struct http_server *server)
{
	if (is_empty(server) && server->drained != NULL && server->drain_timer == 0)
		server->drain_timer = loop_after(server->loop, 0, drained, server);
}

static void
conn_free(struct conn *c)
{
	struct http_server *server = c->server;

	conn_deadline(c, 0);
	loop_del(server->loop, c->fd);
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		server->conns = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	server->nconns--;
	tls_peer_free(c->peer.tls);
	free(c);
	check_drained(server);
}

/* The STARTED of a connection comes from inside MHD_add_connection: conns is the new one then. */
static void
on_connection(void *ctx, struct MHD_Connection *mhd, void **socket_context,
    enum MHD_ConnectionNotificationCode code)
{
	struct http_server *server = ctx;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		server->conns->mhd = mhd;
		*socket_context = server->conns;
		return;
	}
	conn_free(*socket_context);
}

/* Connections that became something else. */

int
http_upgraded_fd(const struct http_upgraded *u)
{
	return u->conn->fd;
}

void
http_upgraded_close(struct http_upgraded *u)
{
	struct conn *c = u->conn;

	c->upgraded = NULL;
	c->server->mhd->upgrade_action(u->handle, MHD_UPGRADE_ACTION_CLOSE);
	free(u);
	server_wake(c->server);
}

/* The server ends: so does what its connection became. */
static void
conn_end_upgraded(struct conn *c)
{
	struct http_upgraded *u = c->upgraded;

	u->ended(u->ctx);
	http_upgraded_close(u);
}

static struct conn *
conn_new(struct http_server *server, int fd, const struct http_peer *peer)
{
	struct conn *c;

	if ((c = calloc(1, sizeof(*c))) == NULL)
		return NULL;
	c->server = server;
	c->fd = fd;
	c->peer = *peer;
	if (loop_add(server->loop, fd, EPOLLET, on_hang_up, c) == -1) {
		free(c);
		return NULL;
	}
	if ((c->next = server->conns) != NULL)
		c->next->prev = c;
	server->conns = c;
	server->nconns++;
	return c;
}

int
http_serve_fd(struct http_server *server, int fd, const struct http_peer *peer)
{
	const struct sockaddr none = {.sa_family = AF_UNIX};
	struct conn *c;
	int flags;

	if (server->draining || (flags = fcntl(fd, F_GETFL)) == -1 ||
	    fcntl(fd, F_SETFL, flags | O_NONBLOCK) == -1 ||
	    (c = conn_new(server, fd, peer)) == NULL) {
		tls_peer_free(peer->tls);
		close(fd);
		return -1;
	}

	/* It closes the socket when it fails; whether we were told of it, c->mhd says. */
	if (server->mhd->add_connection(server->daemon, fd, &none, sizeof(none)) != MHD_YES) {
		if (server->conns == c && c->mhd == NULL)
			conn_free(c);
		return -1;
	}
	c->passed = (server->config.guarded & peer->surface) == 0;
	conn_deadline(c, c->passed ? server->config.limits.idle_ms : server->config.guard_ms);
	return 0;
}

/* Room: of connections that make room for others only those are counted that stay. */

static bool
is_local(const struct conn *c, const struct http_peer *like)
{
	(void)like;
	return c->peer.uid != HTTP_NOBODY;
}

static bool
is_of_user(const struct conn *c, const struct http_peer *like)
{
	return c->peer.uid == like->uid;
}

static bool
is_on_surface(const struct conn *c, const struct http_peer *like)
{
	return c->peer.surface == like->surface;
}

static bool
is_of_peer(const struct conn *c, const struct http_peer *like)
{
	return c->peer.surface == like->surface && c->peer.tag == like->tag;
}

static unsigned
count(const struct http_server *server, bool (*is)(const struct conn *, const struct http_peer *),
    const struct http_peer *like)
{
	const struct conn *c;
	unsigned n = 0;

	for (c = server->conns; c != NULL; c = c->next)
		n += !c->leaving && is(c, like);
	return n;
}

/* Whether it has not sent a whole request; what has come and was not looked at yet may be one. */
static bool
is_waiting(const struct conn *c)
{
	int unread = 0;

	if (c->leaving || c->upgraded != NULL)
		return false;
	if (c->x != NULL)
		return c->x->phase <= PHASE_BODY;
	return ioctl(c->fd, FIONREAD, &unread) == 0 && unread == 0;
}

/* Cut off the one that waits longest without a whole request.  Return whether there was one. */
static bool
cut_waiting(struct http_server *server, bool (*is)(const struct conn *, const struct http_peer *),
    const struct http_peer *like)
{
	struct conn *c, *oldest = NULL;

	/* The newest come first. */
	for (c = server->conns; c != NULL; c = c->next)
		if (is(c, like) && (oldest == NULL || c->since <= oldest->since) && is_waiting(c))
			oldest = c;
	if (oldest == NULL)
		return false;
	oldest->leaving = true;
	shutdown(oldest->fd, SHUT_RDWR);
	return true;
}

/* Whether there are fewer than ${most} like ${peer}, or, where it ${cuts}, one made room. */
static bool
has_room(struct http_server *server, unsigned most, bool cuts,
    bool (*is)(const struct conn *, const struct http_peer *), const struct http_peer *peer)
{
	return server->nconns < most || count(server, is, peer) < most ||
	       (cuts && cut_waiting(server, is, peer));
}

/*
 * Return 0, or -1 with why ${peer} gets no further connection.  Each kind has places of its own, so
 * that none keeps another out: this machine's users, each port, and under TLS, where the port
 * counts for itself (struct tls_limits), each peer that has a tag.  On this machine those that say
 * nothing are in nobody's way: an honest client asks as soon as it has connected.  Where a
 * connection is for one request the deadline is short, and each keeps its place until then.
 */
static int
find_room(struct http_server *server, const struct http_peer *peer, bool tls, struct refusal *r)
{
	const struct http_limits *limits = &server->config.limits;
	bool local = peer->uid != HTTP_NOBODY, cuts = !server->config.once;

	if (tls && limits->peer_connections > 0 && peer->tag != 0 &&
	    !has_room(server, limits->peer_connections, true, is_of_peer, peer))
		return refusal_set(
		    r, "http.busy", "busy: too many connections of this peer are open");
	if (local && !has_room(server, limits->uid_connections, cuts, is_of_user, peer))
		return refusal_set(
		    r, "http.busy", "busy: too many connections of user %u are open", peer->uid);
	if (!tls && !has_room(server, limits->connections, local && cuts,
			local ? is_local : is_on_surface, peer))
		return refusal_set(r, "http.busy", "busy: too many connections are open");
	return 0;
}

static int
peer_of(int fd, struct http_peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred), domain_len = sizeof(int);
	int domain;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len) == -1)
		return -1;
	if (domain != AF_UNIX)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == -1)
		return -1;
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	peer->gid = cred.gid;
	return 0;
}

/* Serve ${peer} on ${fd}, if it may.  Return 0; or -1, with both given up. */
static int
admit(struct http_server *server, int fd, struct http_peer *peer, bool tls)
{
	struct refusal r;

	if (server->config.authorise(server->config.ctx, peer) != 0) {
		tls_peer_free(peer->tls);
		close(fd);
		return -1;
	}
	if (find_room(server, peer, tls, &r) == -1) {
		server_refuse_raw(server, fd, 503, &r, NULL, NULL, true);
		tls_peer_free(peer->tls);
		close(fd);
		return 0;
	}
	return http_serve_fd(server, fd, peer);
}

static void
admit_plain(struct listener *l, int fd)
{
	struct http_peer peer = {.uid = HTTP_NOBODY, .gid = (gid_t)-1, .surface = l->surface};

	if (peer_of(fd, &peer) == -1)
		close(fd);
	else
		admit(l->server, fd, &peer, false);
}

static int
on_handshake(void *ctx, struct tls_conn *conn, int plain, struct tls_peer *tls)
{
	struct listener *l = ctx;
	struct http_peer peer = {
	    .uid = HTTP_NOBODY, .gid = (gid_t)-1, .surface = l->surface, .tls = tls};

	snprintf(peer.address, sizeof(peer.address), "%s", tls_address(conn));
	return admit(l->server, plain, &peer, true);
}

static void reap_soon(struct http_server *server);

static void
on_tls_gone(void *ctx, const struct refusal *why)
{
	struct listener *l = ctx;

	(void)why;
	check_drained(l->server);
	if (l->sock.fd == -1)
		reap_soon(l->server);
}

static void
admit_tls(struct listener *l, int fd, const struct sockaddr_storage *from)
{
	const struct tls_hooks hooks = {.ready = on_handshake, .gone = on_tls_gone, .ctx = l};

	tls_accept(l->pump, l->tls, fd, from, &hooks, NULL);
}

/* Listeners. */

static void
resume_listener(void *ctx)
{
	struct listener *l = ctx;

	l->pause = 0;
	loop_mod(l->server->loop, l->sock.fd, EPOLLIN);
}

static void
on_accept(void *ctx, uint32_t events)
{
	struct listener *l = ctx;
	struct sockaddr_storage from;
	socklen_t len;
	int i, fd;

	(void)events;
	for (i = 0; i < ACCEPTS; i++) {
		from.ss_family = AF_UNSPEC;
		len = sizeof(from);
		fd = accept4(
		    l->sock.fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0 && l->tls != NULL)
			admit_tls(l, fd, &from);
		else if (fd >= 0)
			admit_plain(l, fd);
		if (fd >= 0)
			continue;
		if (errno == EAGAIN)
			return;
		if (errno == EINTR || errno == ECONNABORTED)
			continue;

		/* Out of something: a short pause instead of a busy loop. */
		l->pause = loop_after(l->server->loop, ACCEPT_PAUSE_MS, resume_listener, l);
		if (l->pause != 0)
			loop_mod(l->server->loop, l->sock.fd, 0);
		return;
	}
}

/* Accept no more.  What is open under TLS stays. */
static void
listener_close(struct listener *l)
{
	loop_cancel(l->server->loop, l->pause);
	l->pause = 0;
	if (l->sock.fd != -1)
		loop_del(l->server->loop, l->sock.fd);
	unixsock_close(&l->sock);
	if (l->pump != NULL)
		tls_pump_close(l->pump);
}

static void
listener_free(struct listener *l)
{
	listener_close(l);
	tls_pump_free(l->pump);
	tls_end_free(l->tls);
	free(l);
}

/* Those that accept nothing more go with the last connection: each has a key and what OpenSSL
 * keeps. */
static void
reap(void *ctx)
{
	struct http_server *server = ctx;
	struct listener *l, **p = &server->listeners;

	server->reap_timer = 0;
	while ((l = *p) != NULL) {
		if (l->sock.fd != -1 || (l->pump != NULL && tls_pump_count(l->pump) > 0)) {
			p = &l->next;
			continue;
		}
		*p = l->next;
		listener_free(l);
	}
}

/* From the loop: a pump cannot be freed from inside its hooks. */
static void
reap_soon(struct http_server *server)
{
	if (server->reap_timer == 0)
		server->reap_timer = loop_after(server->loop, 0, reap, server);
}

static struct listener *
listener_new(struct http_server *server, const struct unixsock *sock, unsigned surface,
    struct refusal *refusal)
{
	struct listener *l;
	struct unixsock lost = *sock;

	if ((l = calloc(1, sizeof(*l))) == NULL) {
		unixsock_close(&lost);
		refusal_set(refusal, "http.memory", "no memory for a listener");
		return NULL;
	}
	l->server = server;
	l->sock = *sock;
	l->surface = surface;
	return l;
}

static int
listener_start(struct listener *l, struct refusal *refusal)
{
	struct http_server *server = l->server;

	if (loop_add(server->loop, l->sock.fd, EPOLLIN, on_accept, l) == -1) {
		refusal_errno(refusal, "socket.bind", "waiting for connections");
		listener_free(l);
		return -1;
	}
	l->next = server->listeners;
	server->listeners = l;
	return 0;
}

int
http_listen_unix(struct http_server *server, const char *path, unsigned surface, mode_t mode,
    struct refusal *refusal)
{
	struct listener *l;
	struct unixsock sock;

	if (unixsock_bind(&sock, path, mode, refusal) == -1 ||
	    unixsock_publish(&sock, BACKLOG, refusal) == -1 ||
	    (l = listener_new(server, &sock, surface, refusal)) == NULL)
		return -1;
	return listener_start(l, refusal);
}

static struct listener *
listener_of(struct http_server *server, int fd, unsigned surface, struct refusal *refusal)
{
	struct unixsock sock = {.fd = fd, .dir = -1};
	int flags;

	if ((flags = fcntl(fd, F_GETFL)) == -1 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) == -1) {
		refusal_errno(refusal, "socket.bind", "the listening socket");
		close(fd);
		return NULL;
	}
	return listener_new(server, &sock, surface, refusal);
}

int
http_listen_fd(struct http_server *server, int fd, unsigned surface, struct refusal *refusal)
{
	struct listener *l;

	if ((l = listener_of(server, fd, surface, refusal)) == NULL)
		return -1;
	return listener_start(l, refusal);
}

int
http_listen_tls(struct http_server *server, int fd, unsigned surface,
    const struct tls_config *config, const struct tls_limits *limits, struct refusal *refusal)
{
	struct listener *l;

	if ((l = listener_of(server, fd, surface, refusal)) == NULL)
		return -1;
	if ((l->tls = tls_server_end(config, refusal)) == NULL ||
	    (l->pump = tls_pump_new(server->loop, limits, refusal)) == NULL) {
		listener_free(l);
		return -1;
	}
	return listener_start(l, refusal);
}

void
http_listen_end(struct http_server *server, unsigned surface)
{
	struct listener *l;

	for (l = server->listeners; l != NULL; l = l->next)
		if (l->surface == surface)
			listener_close(l);
	reap_soon(server);
}

/* The daemon. */

static void pump(void *ctx);

static void
on_daemon(void *ctx, uint32_t events)
{
	(void)events;
	pump(ctx);
}

/* Let libmicrohttpd do what is due, and come back when it says so. */
static void
pump(void *ctx)
{
	struct http_server *server = ctx;
	unsigned MHD_LONG_LONG ms;

	loop_cancel(server->loop, server->timer);
	server->timer = 0;
	server->mhd->run(server->daemon);
	if (server->timer == 0 && server->mhd->get_timeout(server->daemon, &ms) == MHD_YES)
		server->timer =
		    loop_after(server->loop, ms < INT_MAX ? (int64_t)ms : INT_MAX, pump, server);
}

/* Without a listening socket its epoll set does not have the pipe that tells of a resume. */
void
server_wake(struct http_server *server)
{
	loop_cancel(server->loop, server->timer);
	server->timer = loop_after(server->loop, 0, pump, server);
}

static int
start_daemon(struct http_server *server)
{
	const struct http_limits *limits = &server->config.limits;
	const union MHD_DaemonInfo *info;

	/*
	 * Its pool holds the request's headers and a block of the answer; what is over our own
	 * limit but fits the pool is refused in our form.
	 */
	server->daemon = server->mhd->start_daemon(
	    MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE,
	    0, NULL, NULL, exchange_request, server, MHD_OPTION_CONNECTION_LIMIT, UINT_MAX,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits->header_bytes + POOL_EXTRA,
	    MHD_OPTION_URI_LOG_CALLBACK, exchange_begin, server, MHD_OPTION_NOTIFY_COMPLETED,
	    exchange_end, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
	    MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	if (server->daemon == NULL)
		return -1;
	info = server->mhd->get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (info == NULL)
		return -1;
	server->epoll = info->epoll_fd;
	return loop_add(server->loop, server->epoll, EPOLLIN, on_daemon, server);
}

struct http_server *
http_server_new(struct loop *loop, const struct http_server_config *config, struct refusal *refusal)
{
	const struct lazy_mhd *mhd;
	struct http_server *server;

	if ((mhd = lazy_mhd(refusal)) == NULL)
		return NULL;
	if ((server = calloc(1, sizeof(*server))) == NULL) {
		refusal_set(refusal, "http.memory", "no memory for a server");
		return NULL;
	}
	server->loop = loop;
	server->config = *config;
	server->mhd = mhd;
	server->epoll = -1;
	if (start_daemon(server) == -1) {
		refusal_set(refusal, "http.memory", "libmicrohttpd does not start");
		http_server_free(server);
		return NULL;
	}
	return server;
}

void
http_server_drain(struct http_server *server, void (*done)(void *), void *ctx)
{
	struct listener *l;
	struct conn *c, *next;

	for (l = server->listeners; l != NULL; l = l->next)
		listener_close(l);
	server->draining = true;
	server->drained = done;
	server->drained_ctx = ctx;
	for (c = server->conns; c != NULL; c = next) {
		next = c->next;
		if (c->upgraded != NULL)
			conn_end_upgraded(c);
		else if (c->x == NULL || c->x->phase == PHASE_HEAD)
			shutdown(c->fd, SHUT_RDWR);
	}
	check_drained(server);
}

unsigned
http_server_listeners(const struct http_server *server)
{
	const struct listener *l;
	unsigned n = 0;

	for (l = server->listeners; l != NULL; l = l->next)
		n++;
	return n;
}

unsigned
http_server_connections(const struct http_server *server)
{
	return server->nconns;
}

unsigned
http_server_connections_of(const struct http_server *server, unsigned surface)
{
	return count(server, is_on_surface, &(struct http_peer){.surface = surface});
}

bool
http_server_make_room(struct http_server *server, unsigned surface)
{
	return cut_waiting(server, is_on_surface, &(struct http_peer){.surface = surface});
}

void
http_close_unless(struct http_server *server, unsigned surface,
    bool (*keep)(void *ctx, const struct http_peer *peer), void *ctx)
{
	struct conn *c, *next;

	for (c = server->conns; c != NULL; c = next) {
		next = c->next;
		if (c->peer.surface != surface || keep(ctx, &c->peer))
			continue;
		if (c->upgraded != NULL)
			conn_end_upgraded(c);
		else
			shutdown(c->fd, SHUT_RDWR);
	}
}

int64_t
http_server_idle_ms(const struct http_server *server)
{
	return server->config.limits.idle_ms;
}

void
http_server_free(struct http_server *server)
{
	struct listener *l;
	struct conn *c;

	if (server == NULL)
		return;
	for (l = server->listeners; l != NULL; l = l->next)
		listener_close(l);
	server->draining = true; /* what upgrades from now on ends at once */
	server->drained = NULL;
	if (server->epoll != -1)
		loop_del(server->loop, server->epoll);

	/* It must not be stopped over suspended connections. */
	for (c = server->conns; c != NULL; c = c->next) {
		if (c->upgraded != NULL)
			conn_end_upgraded(c);
		else if (c->x != NULL)
			exchange_abandon(c->x);
	}
	if (server->daemon != NULL) {
		server->mhd->run(server->daemon);
		server->mhd->stop_daemon(server->daemon);
	}
	while (server->leftovers != NULL)
		linger_end(server->leftovers);
	while ((l = server->listeners) != NULL) {
		server->listeners = l->next;
		listener_free(l);
	}
	loop_cancel(server->loop, server->timer);
	loop_cancel(server->loop, server->drain_timer);
	loop_cancel(server->loop, server->reap_timer);
	free(server);
}
