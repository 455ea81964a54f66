/* park_host.c: the Host's end of parked connections: ports of this machine, and what goes out of
 * boxes. */
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/state/tls_identity.h"
#include "net/egress/accept.h"
#include "net/egress/say.h"
#include "net/egress/relay.h"
#include "net/egress/who.h"
#include "net/host/park.h"
#include "net/http/tls.h"

#define BACKLOG 128
#define ACCEPTS 16 /* connections taken from one port before others have their turn */
#define PIPES   64 /* kept for the next that carries much */
#define SOCKS   5  /* its first byte */

static const char NONE[] = "DELETE FROM box_parked";

static const char COUNTS[] =
    "INSERT INTO box_parked (box_id, parked, busy, waiting, changed_at)"
    " VALUES (:box, :parked, :busy, :waiting, now_ms())"
    " ON CONFLICT (box_id) DO UPDATE SET parked = excluded.parked, busy = excluded.busy,"
    "  waiting = excluded.waiting, changed_at = excluded.changed_at";

static const char PORTS[] = "SELECT box_id, port FROM egress_port";

enum berth_state {
	COMING, /* the 101 is on its way */
	PARKED,
	BUSY, /* a client is on it */
};

struct counts {
	unsigned parked, busy, waiting;
};

/* A box that has something parked here, or a port. */
struct bay {
	struct commit_job job; /* first */
	struct bay *next;
	struct berths *berths;
	int64_t id;
	struct counts now, writing, written;
	bool busy;     /* the job is with the committer */
	bool counting; /* there is something to be told, at the end of this turn */
	int port, fd;  /* 0, -1: it has none */
	struct acceptor acceptor;
	int failed; /* the port that was said to be none; 0: none was */
	bool found; /* seen in this look */
};

struct client;

/* A connection that a box parked. */
struct berth {
	struct bay *bay;
	enum berth_state state;
	struct http_upgraded *upgraded; /* NULL: not there yet */
	struct client *client;          /* of BUSY */
	TAILQ_ENTRY(berth) entry;
};

/* Somebody who connected to a box's port. */
struct client {
	struct bay *bay;
	int fd;
	uint64_t timer;      /* until when it waits; or for the next turn */
	struct berth *berth; /* NULL: it waits for one */
	struct half up, down;
	TAILQ_ENTRY(client) entry;
};

/* Berths stand in the order in which they were parked, clients in the order in which they came. */
struct berths {
	struct net *net;
	struct bay *bays;
	struct relay_pool *pool;
	int diag;
	bool ending;
	TAILQ_HEAD(berth_list, berth) parked;
	TAILQ_HEAD(client_list, client) clients;
};

/*
 * How many there are, in the database.
 */

static int
bay_run(struct store *db, struct commit_job *job)
{
	const struct bay *b = (const struct bay *)job;
	struct stmt *q;

	if ((q = store_sql(db, COUNTS)) == NULL)
		return -1;
	stmt_int(q, ":box", b->id);
	stmt_int(q, ":parked", b->writing.parked);
	stmt_int(q, ":busy", b->writing.busy);
	stmt_int(q, ":waiting", b->writing.waiting);
	return stmt_run(q);
}

static void
bay_write(struct bay *b)
{
	if (b->busy || b->berths->ending || memcmp(&b->now, &b->written, sizeof(b->now)) == 0)
		return;
	b->busy = true;
	b->writing = b->now;
	committer_submit(b->berths->net->committer, &b->job);
}

static void
bay_done(struct commit_job *job)
{
	struct bay *b = (struct bay *)job;

	b->busy = false;
	b->written = b->writing;
	bay_write(b);
}

static void
bay_count(struct bay *b)
{
	const struct berth *berth;
	const struct client *c;

	memset(&b->now, 0, sizeof(b->now));
	for (berth = TAILQ_FIRST(&b->berths->parked); berth != NULL;
	     berth = TAILQ_NEXT(berth, entry)) {
		b->now.parked += berth->bay == b && berth->state == PARKED;
		b->now.busy += berth->bay == b && berth->state == BUSY;
	}
	for (c = TAILQ_FIRST(&b->berths->clients); c != NULL; c = TAILQ_NEXT(c, entry))
		b->now.waiting += c->bay == b && c->berth == NULL;
	bay_write(b);
}

static void
on_count(void *ctx)
{
	struct bay *b = ctx;

	b->counting = false;
	bay_count(b);
}

/* What changes together is counted once. */
static void
bay_changed(struct bay *b)
{
	if (!b->counting && !b->berths->ending)
		b->counting = loop_post(b->berths->net->env->loop, on_count, b) == 0;
}

static struct bay *
bay_of(struct berths *berths, int64_t id)
{
	struct bay *b;

	for (b = berths->bays; b != NULL; b = b->next)
		if (b->id == id)
			return b;
	if ((b = calloc(1, sizeof(*b))) == NULL)
		return NULL;
	*b = (struct bay){.job = {.run = bay_run, .done = bay_done},
	    .next = berths->bays,
	    .berths = berths,
	    .id = id,
	    .fd = -1};
	berths->bays = b;
	return b;
}

/*
 * Ends.
 */

static void
berth_free(struct berth *berth)
{
	TAILQ_REMOVE(&berth->bay->berths->parked, berth, entry);
	bay_changed(berth->bay);
	free(berth);
}

static void
berth_close(struct berth *berth)
{
	loop_del(berth->bay->berths->net->env->loop, http_upgraded_fd(berth->upgraded));
	http_upgraded_close(berth->upgraded);
	berth_free(berth);
}

static void
client_free(struct client *c)
{
	struct berths *berths = c->bay->berths;
	struct loop *loop = berths->net->env->loop;

	TAILQ_REMOVE(&berths->clients, c, entry);
	bay_changed(c->bay);
	loop_cancel(loop, c->timer);
	if (c->berth != NULL) {
		half_end(&c->up, berths->pool);
		half_end(&c->down, berths->pool);
		c->berth->client = NULL;
	}
	loop_del(loop, c->fd);
	close(c->fd);
	free(c);
}

/* Both sides close. */
static void
client_end(struct client *c)
{
	struct berth *berth = c->berth;

	client_free(c);
	if (berth != NULL)
		berth_close(berth);
}

/* Say why to a client of HTTP, whose request has come by now; one of SOCKS sees a close. */
static void
client_refuse(struct client *c, const struct refusal *why)
{
	char text[SAY_HTTP_MAX], request[4096];
	size_t len = say_http(c->bay->berths->net->env->db, why, text);
	ssize_t n = recv(c->fd, request, sizeof(request), MSG_DONTWAIT);

	if (n > 0 && request[0] != SOCKS)
		(void)send(c->fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	client_end(c);
}

/*
 * Carrying.
 */

static void client_pump(struct client *c);

static void
on_again(void *ctx)
{
	struct client *c = ctx;

	c->timer = 0;
	client_pump(c);
}

static void
client_pump(struct client *c)
{
	struct berths *berths = c->bay->berths;
	enum half_state state = halves_pump(&c->up, &c->down, berths->pool);

	if (state == HALF_ENDED)
		client_end(c);
	else if (c->timer == 0 && state == HALF_GOES_ON &&
		 (c->timer = loop_after(berths->net->env->loop, 0, on_again, c)) == 0)
		client_end(c);
}

static void
on_client(void *ctx, uint32_t events)
{
	struct client *c = ctx;

	half_edges(&c->up, &c->down, events);
	client_pump(c);
}

static void
on_berth(void *ctx, uint32_t events)
{
	struct client *c = ctx;

	half_edges(&c->down, &c->up, events);
	client_pump(c);
}

/* ${c} goes out over ${berth}. */
static void
client_join(struct client *c, struct berth *berth)
{
	const uint32_t all = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	struct loop *loop = c->bay->berths->net->env->loop;
	int there = http_upgraded_fd(berth->upgraded);

	loop_cancel(loop, c->timer);
	c->timer = 0;
	c->berth = berth;
	berth->client = c;
	berth->state = BUSY;
	half_begin(&c->up, c->fd, there, HALF_ALL);
	half_begin(&c->down, there, c->fd, HALF_ALL);
	bay_changed(c->bay);
	loop_del(loop, c->fd);
	loop_del(loop, there);
	if (loop_add(loop, c->fd, all, on_client, c) == -1 ||
	    loop_add(loop, there, all, on_berth, c) == -1)
		client_end(c);
}

/* The oldest that waits for something of ${b}, and what it may have; else nothing. */
static void
bay_match(struct bay *b)
{
	struct berth *berth;
	struct client *c;

	c = TAILQ_FIRST(&b->berths->clients);
	while (c != NULL && (c->bay != b || c->berth != NULL))
		c = TAILQ_NEXT(c, entry);
	berth = TAILQ_FIRST(&b->berths->parked);
	while (berth != NULL && (berth->bay != b || berth->state != PARKED))
		berth = TAILQ_NEXT(berth, entry);
	if (c != NULL && berth != NULL)
		client_join(c, berth);
}

/*
 * Clients.
 */

static void
on_waited(void *ctx)
{
	struct client *c = ctx;
	struct refusal why;

	c->timer = 0;
	if (c->bay->now.busy > 0)
		refusal_set(
		    &why, "parked.busy", "every connection that the box has parked here is in use");
	else
		refusal_set(&why, "parked.none", "the box has parked no connection here");
	client_refuse(c, &why);
}

/* Only that it has gone is of interest while it waits. */
static void
on_left(void *ctx, uint32_t events)
{
	(void)events;
	client_end(ctx);
}

static void
client_new(struct bay *b, int fd)
{
	struct berths *berths = b->berths;
	struct actor_env *env = berths->net->env;
	const struct client *other;
	struct client *c;
	int64_t waiting = 0;
	int one = 1;

	for (other = TAILQ_FIRST(&berths->clients); other != NULL; other = TAILQ_NEXT(other, entry))
		waiting += other->berth == NULL;
	if (waiting >= store_setting(env->db, "parked.queue") ||
	    (c = calloc(1, sizeof(*c))) == NULL) {
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->bay = b;
	c->fd = fd;
	TAILQ_INSERT_TAIL(&berths->clients, c, entry);
	bay_changed(b);
	c->timer = loop_after(env->loop, store_setting(env->db, "parked.wait_ms"), on_waited, c);
	if (c->timer == 0 || loop_add(env->loop, fd, 0, on_left, c) == -1) {
		client_end(c);
		return;
	}
	bay_match(b);
}

/* A port is open to everybody on the machine: only our own user and root are served. */
static void
on_port(void *ctx, int fd, const struct sockaddr_in *from)
{
	struct bay *b = ctx;
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	uid_t uid;

	if (getsockname(fd, (struct sockaddr *)&at, &len) == 0 &&
	    who_tcp(b->berths->diag, &at, from, &uid) == 0 && (uid == geteuid() || uid == 0))
		client_new(b, fd);
	else
		close(fd);
}

/*
 * Ports.
 */

static void
port_close(struct bay *b)
{
	if (b->fd == -1)
		return;
	accept_end(&b->acceptor);
	close(b->fd);
	b->fd = -1;
	b->port = 0;
}

static void
port_open(struct bay *b, int port)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd != -1 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, BACKLOG) == 0 &&
	    accept_begin(&b->acceptor, b->berths->net->env->loop, fd, ACCEPTS, on_port, b) == 0) {
		b->fd = fd;
		b->port = port;
		b->failed = 0;
		return;
	}
	if (b->failed != port)
		fprintf(stderr,
		    "bastion: net: cannot listen on 127.0.0.1:%d for box %" PRId64 ": %s\n", port,
		    b->id, strerror(errno));
	b->failed = port;
	if (fd != -1)
		close(fd);
}

static void
port_look(struct berths *berths, int64_t box, int port)
{
	struct bay *b = bay_of(berths, box);

	if (b == NULL)
		return;
	b->found = true;
	if (b->port == port)
		return;
	port_close(b);
	port_open(b, port);
}

/* Whoever waits at a port that is closed has nothing to wait for. */
static void
bay_leave(struct bay *b)
{
	struct client *c, *next;
	struct refusal why;

	port_close(b);
	refusal_set(&why, "parked.none", "the port of this box was closed");
	for (c = TAILQ_FIRST(&b->berths->clients); c != NULL; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (c->bay == b && c->berth == NULL)
			client_refuse(c, &why);
		else if (c->bay == b)
			client_end(c);
	}
}

void
berths_wake(struct net *net)
{
	struct berths *berths = net->berths;
	struct bay *b;
	struct stmt *q;
	int more;

	if (berths == NULL || berths->ending || (q = store_sql(net->env->db, PORTS)) == NULL)
		return;
	for (b = berths->bays; b != NULL; b = b->next)
		b->found = false;
	while ((more = stmt_step(q)) == 1)
		port_look(berths, stmt_get_int(q, 0), (int)stmt_get_int(q, 1));
	for (b = berths->bays; b != NULL && more == 0; b = b->next)
		if (!b->found && b->fd != -1)
			bay_leave(b);
}

/*
 * Boxes park.
 */

/* What is parked is silent: what it says, or its end, is the end of it. */
static void
on_noise(void *ctx, uint32_t events)
{
	(void)events;
	berth_close(ctx);
}

static void
on_taken(void *ctx, struct http_upgraded *upgraded)
{
	struct berth *berth = ctx;
	struct bay *b = berth->bay;

	berth->upgraded = upgraded;
	berth->state = PARKED;
	bay_changed(b);
	if (loop_add(b->berths->net->env->loop, http_upgraded_fd(upgraded), EPOLLIN | EPOLLRDHUP,
		on_noise, berth) == -1)
		berth_close(berth);
	else
		bay_match(b);
}

/* The server closes the socket after this. */
static void
on_ended(void *ctx)
{
	struct berth *berth = ctx;

	if (berth->client != NULL)
		client_free(berth->client);
	if (berth->upgraded != NULL)
		loop_del(berth->bay->berths->net->env->loop, http_upgraded_fd(berth->upgraded));
	berth_free(berth);
}

/* Whose certificate it is, among the boxes of this Host.  Return NULL with ${r}. */
static struct bay *
bay_that_asks(struct net *net, const struct http_peer *peer, struct refusal *r)
{
	struct bay *b;
	int64_t id;
	int n = peer->tls != NULL ? tls_box_of(net->env->db, peer->tls->cert.fp, &id) : 0;

	if (n == 1 && (b = bay_of(net->berths, id)) != NULL)
		return b;
	refusal_set(r, "box.unpaired", "no box is paired here with this certificate");
	if (n == -1)
		*r = *store_refusal(net->env->db);
	return NULL;
}

static unsigned
berths_of(const struct bay *b)
{
	const struct berth *berth;
	unsigned n = 0;

	for (berth = TAILQ_FIRST(&b->berths->parked); berth != NULL;
	     berth = TAILQ_NEXT(berth, entry))
		n += berth->bay == b;
	return n;
}

int
berths_take(struct http_exchange *x, void *ctx)
{
	struct net *net = ctx;
	struct refusal r = {.code = "http.memory", .why = "no memory for a connection"};
	struct berth *berth = NULL;
	struct bay *b = NULL;

	if (net->berths == NULL || net->berths->ending)
		refusal_set(&r, "http.route", "there is nothing at this path");
	else if (!http_asks_upgrade(x, PARK_PROTOCOL))
		refusal_set(&r, "reverse.upgrade", "this path is for Upgrade: " PARK_PROTOCOL);
	else if ((b = bay_that_asks(net, http_peer(x), &r)) != NULL &&
		 berths_of(b) >= store_setting(net->env->db, "parked.per_box"))
		refusal_set(&r, "parked.slots", "the box has parked as many as this Host takes");
	else if (b != NULL)
		berth = calloc(1, sizeof(*berth));
	if (berth == NULL) {
		net_refuse(net, x, &r, NULL);
		return 0;
	}
	berth->bay = b;
	TAILQ_INSERT_TAIL(&net->berths->parked, berth, entry);
	http_upgrade(x, PARK_PROTOCOL, on_taken, on_ended, berth);
	return 0;
}

/*
 * All of it.
 */

int
berths_start(struct net *net, struct refusal *r)
{
	struct berths *berths;

	if (store_run_soft(net->env->db, NONE, r) != 0)
		return -1;
	if ((berths = net->berths = calloc(1, sizeof(*berths))) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	berths->net = net;
	TAILQ_INIT(&berths->parked);
	TAILQ_INIT(&berths->clients);
	if ((berths->diag = who_open()) == -1)
		return refusal_errno(r, "socket.bind", "cannot ask the kernel who connects");
	if ((berths->pool = relay_pool_new(PIPES)) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	return 0;
}

/* What is parked goes with the server: on_ended. */
void
berths_end(struct net *net)
{
	struct bay *b;

	if (net->berths == NULL)
		return;
	net->berths->ending = true;
	for (b = net->berths->bays; b != NULL; b = b->next)
		port_close(b);
	while (!TAILQ_EMPTY(&net->berths->clients))
		client_end(TAILQ_FIRST(&net->berths->clients));
}

void
berths_free(struct net *net)
{
	struct berths *berths = net->berths;
	struct refusal r;
	struct bay *b;

	if (berths == NULL)
		return;
	store_run_soft(net->env->db, NONE, &r);
	while ((b = berths->bays) != NULL) {
		berths->bays = b->next;
		free(b);
	}
	if (berths->diag != -1)
		close(berths->diag);
	relay_pool_free(berths->pool);
	free(berths);
	net->berths = NULL;
}
