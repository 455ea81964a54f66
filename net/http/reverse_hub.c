/* reverse_hub.c: the Host's end: connections that boxes made, and requests on them. */
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "net/http/reverse.h"

enum state {
	STATE_COMING, /* the 101 is on its way */
	STATE_IDLE,
	STATE_BUSY, /* a request is on it */
};

struct link {
	struct reverse_hub *hub;
	int64_t box;
	enum state state;
	struct http_upgraded *upgraded; /* NULL: gone, or not there yet */
	int64_t ping_ms;
	uint64_t timer; /* for the next ping */
	TAILQ_ENTRY(link) entry;
};

/* Idle links stand in the order in which they became idle. */
struct reverse_hub {
	struct loop *loop;
	struct reverse_hub_config config;
	TAILQ_HEAD(links, link) links;
};

static void on_ping_due(void *ctx);

/* Links. */

static unsigned
count(const struct reverse_hub *hub, int64_t box, enum state state)
{
	const struct link *l;
	unsigned n = 0;

	TAILQ_FOREACH(l, &hub->links, entry)
	n += l->box == box && l->state == state;
	return n;
}

static void
tell(struct reverse_hub *hub, int64_t box)
{
	unsigned idle = count(hub, box, STATE_IDLE);

	if (hub->config.changed != NULL)
		hub->config.changed(hub->config.ctx, box, idle + count(hub, box, STATE_BUSY), idle);
}

static void
link_free(struct link *l)
{
	TAILQ_REMOVE(&l->hub->links, l, entry);
	free(l);
}

/* Take ${l} out of idleness, before it is used or closed. */
static void
disturb(struct link *l)
{
	loop_cancel(l->hub->loop, l->timer);
	l->timer = 0;
	loop_del(l->hub->loop, http_upgraded_fd(l->upgraded));
}

static void
close_idle(struct link *l)
{
	struct reverse_hub *hub = l->hub;
	int64_t box = l->box;

	disturb(l);
	http_upgraded_close(l->upgraded);
	link_free(l);
	tell(hub, box);
}

/* A box says nothing of itself: it has gone, or is none. */
static void
on_noise(void *ctx, uint32_t events)
{
	(void)events;
	close_idle(ctx);
}

/* ${l} can be asked on. */
static void
become_idle(struct link *l)
{
	struct reverse_hub *hub = l->hub;

	TAILQ_REMOVE(&hub->links, l, entry);
	TAILQ_INSERT_TAIL(&hub->links, l, entry);
	l->state = STATE_IDLE;
	l->timer = loop_after(hub->loop, l->ping_ms, on_ping_due, l);
	if (loop_add(hub->loop, http_upgraded_fd(l->upgraded), EPOLLIN | EPOLLRDHUP, on_noise, l) ==
		-1 ||
	    l->timer == 0)
		close_idle(l);
	else
		tell(hub, l->box);
}

/* Asking. */

/* The call has a descriptor of its own, so that the link may go under it. */
static int
take(void *ctx)
{
	const struct link *l = ctx;

	return l->upgraded != NULL ? fcntl(http_upgraded_fd(l->upgraded), F_DUPFD_CLOEXEC, 0) : -1;
}

static void
over(void *ctx, bool clean)
{
	struct link *l = ctx;
	struct reverse_hub *hub = l->hub;
	int64_t box = l->box;

	if (l->upgraded != NULL && clean) {
		become_idle(l);
		return;
	}
	if (l->upgraded != NULL)
		http_upgraded_close(l->upgraded);
	link_free(l);
	tell(hub, box);
}

static struct http_call *
ask(struct link *l, const struct http_request *request, struct refusal *r)
{
	const struct http_via via = {.take = take, .over = over, .ctx = l};
	struct http_request q = *request;

	disturb(l);
	l->state = STATE_BUSY;
	q.via = &via;
	return http_start(l->hub->config.client, &q, r);
}

/* The idle link of ${box} that showed life last; NULL without one. */
static struct link *
freshest(const struct reverse_hub *hub, int64_t box)
{
	struct link *l;

	TAILQ_FOREACH_REVERSE(l, &hub->links, links, entry)
	if (l->box == box && l->state == STATE_IDLE)
		return l;
	return NULL;
}

struct http_call *
reverse_hub_ask(
    struct reverse_hub *hub, int64_t box, const struct http_request *request, struct refusal *r)
{
	struct link *l;

	if ((l = freshest(hub, box)) != NULL)
		return ask(l, request, r);
	if (count(hub, box, STATE_BUSY) > 0)
		refusal_set(r, "reverse.busy", "every connection of the box is in use");
	else
		refusal_set(r, "reverse.offline", "the box is not connected");
	return NULL;
}

static void
on_ping_answer(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	(void)ctx;
	(void)call;
	(void)refusal;
}

/* Whatever it answers, an answer shows that it lives.  What becomes of the link, over decides. */
static void
on_ping_due(void *ctx)
{
	struct link *l = ctx;
	const struct reverse_hub_config *config = &l->hub->config;
	const struct http_request request = {.method = "HEAD",
	    .url = "http://box/",
	    .connect_ms = config->ping_wait_ms,
	    .total_ms = config->ping_wait_ms,
	    .done = on_ping_answer};

	l->timer = 0;
	ask(l, &request, NULL);
}

/* Coming. */

static void
on_taken(void *ctx, struct http_upgraded *upgraded)
{
	struct link *l = ctx;

	l->upgraded = upgraded;
	become_idle(l);
}

/* The server closes the socket after this.  A call that is on it sees that, and ends. */
static void
on_ended(void *ctx)
{
	struct link *l = ctx;
	struct reverse_hub *hub = l->hub;
	int64_t box = l->box;

	if (l->state == STATE_BUSY) {
		shutdown(http_upgraded_fd(l->upgraded), SHUT_RDWR);
		l->upgraded = NULL;
		return;
	}
	if (l->state == STATE_IDLE)
		disturb(l);
	link_free(l);
	tell(hub, box);
}

/*
 * How often ${x}'s box needs a sign of life: it gives up after a time of its own, within which a
 * sign may be lost and another one be late.  Return -1 where it does not say, or is too hasty.
 */
static int64_t
ping_of(const struct reverse_hub *hub, struct http_exchange *x)
{
	const char *text = http_header(x, REVERSE_IDLE);
	int64_t idle;

	if (text == NULL || strlen(text) > 9 || text[strspn(text, "0123456789")] != '\0' ||
	    (idle = strtoll(text, NULL, 10)) < REVERSE_IDLE_MIN)
		return -1;
	return idle / 3 < hub->config.ping_ms ? idle / 3 : hub->config.ping_ms;
}

/* A box that was cut off comes again before we notice: its oldest idle connection gives way. */
static int
make_room(struct reverse_hub *hub, int64_t box)
{
	struct link *l, *oldest = NULL;
	unsigned n = 0;

	for (l = TAILQ_FIRST(&hub->links); l != NULL; l = TAILQ_NEXT(l, entry)) {
		if (l->box != box)
			continue;
		n++;
		if (oldest == NULL && l->state == STATE_IDLE)
			oldest = l;
	}
	if (n < hub->config.per_box)
		return 0;
	if (oldest == NULL)
		return -1;
	close_idle(oldest);
	return 0;
}

void
reverse_hub_take(struct reverse_hub *hub, int64_t box, struct http_exchange *x)
{
	int64_t ping_ms = ping_of(hub, x);
	struct refusal r;
	struct link *l;

	if (ping_ms == -1 || !http_asks_upgrade(x, REVERSE_PROTOCOL)) {
		refusal_set(&r, "reverse.upgrade",
		    "this path is for Upgrade: " REVERSE_PROTOCOL ", with " REVERSE_IDLE
		    ": milliseconds, at least %d",
		    REVERSE_IDLE_MIN);
		http_refuse(x, 426, &r, NULL);
		return;
	}
	if (make_room(hub, box) == -1) {
		refusal_set(&r, "reverse.busy", "every connection of the box is in use");
		http_refuse(x, 429, &r, NULL);
		return;
	}
	if ((l = calloc(1, sizeof(*l))) == NULL) {
		refusal_set(&r, "http.memory", "no memory for a connection");
		http_refuse(x, 503, &r, NULL);
		return;
	}
	l->hub = hub;
	l->box = box;
	l->ping_ms = ping_ms;
	TAILQ_INSERT_TAIL(&hub->links, l, entry);
	http_upgrade(x, REVERSE_PROTOCOL, on_taken, on_ended, l);
}

/* Hubs. */

void
reverse_hub_drop(struct reverse_hub *hub, int64_t box)
{
	struct link *l, *next;

	for (l = TAILQ_FIRST(&hub->links); l != NULL; l = next) {
		next = TAILQ_NEXT(l, entry);
		if (l->box != box || l->upgraded == NULL)
			continue;
		if (l->state == STATE_IDLE)
			close_idle(l);
		else
			shutdown(http_upgraded_fd(l->upgraded), SHUT_RDWR);
	}
}

struct reverse_hub *
reverse_hub_new(struct loop *loop, const struct reverse_hub_config *config, struct refusal *r)
{
	struct reverse_hub *hub;

	if ((hub = calloc(1, sizeof(*hub))) == NULL) {
		refusal_set(r, "http.memory", "no memory for connections");
		return NULL;
	}
	hub->loop = loop;
	hub->config = *config;
	TAILQ_INIT(&hub->links);
	return hub;
}

/* Each link has gone with the server, or with the last call on it. */
void
reverse_hub_free(struct reverse_hub *hub)
{
	free(hub);
}
