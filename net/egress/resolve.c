/* resolve.c: c-ares in our loop, and a table of what it said. */
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include <ares.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/library.h"
#include "net/egress/resolve.h"

#define TRIES     2
#define WAITS     3 /* c-ares doubles its patience: one time, and two times */
#define SHARES    4 /* of the lookups at once: nobody who asks has more than one of them */
#define MS_PER_S  1000
#define RESOLVERS "/etc/resolv.conf"

static struct {
	typeof(&ares_library_init) library_init;
	typeof(&ares_init_options) init_options;
	typeof(&ares_set_servers_ports_csv) set_servers_ports_csv;
	typeof(&ares_get_servers_ports) get_servers_ports;
	typeof(&ares_free_data) free_data;
	typeof(&ares_getaddrinfo) getaddrinfo;
	typeof(&ares_freeaddrinfo) freeaddrinfo;
	typeof(&ares_process_fd) process_fd;
	typeof(&ares_timeout) timeout;
	typeof(&ares_destroy) destroy;
	typeof(&ares_strerror) strerror;
} ares;

#define SYMBOL(name)                                                        \
	{                                                                   \
		"ares_" #name, (size_t)((char *)&ares.name - (char *)&ares) \
	}

struct known {
	int64_t until; /* on loop_now's clock */
	size_t n;
	struct address *addresses;
	char name[];
};

/* Whoever waits for a query. */
struct lookup {
	void (*done)(void *, const struct address *, size_t, const struct refusal *);
	void *ctx;
	LIST_ENTRY(lookup) entry;
};

/* A name that is looked up, also when nobody waits for it any more: c-ares has it still. */
struct query {
	struct resolver *resolver;
	int64_t asker; /* who asked first: it is of that one's share */
	LIST_HEAD(lookups, lookup) lookups;
	LIST_ENTRY(query) entry;
	bool pending;   /* c-ares has it */
	bool asking;    /* and was not left yet */
	uint64_t later; /* the timer that tells what was known at once */
	int status, ttl;
	size_t n;
	struct address *addresses;
	char name[];
};

struct watched;

struct resolver {
	struct loop *loop;
	struct resolver_config config;
	ares_channel channel;
	struct stat file; /* RESOLVERS as it was when the channel was made */
	uint64_t timer;
	size_t pending;
	struct watched *watched;
	LIST_HEAD(queries, query) queries;
	struct known **table; /* config.cache places; a name has one, whoever came last has it */
	bool ending, renewing;
};

/*
 * What is remembered.
 */

static struct known **
place_of(struct resolver *r, const char *name)
{
	uint64_t hash = 1469598103934665603ULL;

	if (r->config.cache == 0)
		return NULL;
	for (; *name != '\0'; name++)
		hash = (hash ^ (unsigned char)*name) * 1099511628211ULL;
	return &r->table[hash % r->config.cache];
}

static void
known_free(struct known *k)
{
	if (k != NULL)
		free(k->addresses);
	free(k);
}

size_t
resolver_recall(struct resolver *r, const char *name, const struct address **addresses)
{
	struct known **place = place_of(r, name), *k;

	if (place == NULL || (k = *place) == NULL || strcmp(k->name, name) != 0 ||
	    k->until <= loop_now())
		return 0;
	*addresses = k->addresses;
	return k->n;
}

static void
remember(struct resolver *r, const struct query *q)
{
	struct known **place = place_of(r, q->name), *k;
	size_t len = strlen(q->name) + 1;
	int64_t ms = (int64_t)q->ttl * MS_PER_S;

	if (ms > r->config.cache_ms)
		ms = r->config.cache_ms;
	if (place == NULL || ms <= 0 || (k = calloc(1, sizeof(*k) + len)) == NULL)
		return;
	if ((k->addresses = calloc(q->n, sizeof(*k->addresses))) == NULL) {
		free(k);
		return;
	}
	memcpy(k->name, q->name, len);
	memcpy(k->addresses, q->addresses, q->n * sizeof(*k->addresses));
	k->n = q->n;
	k->until = loop_now() + ms;
	known_free(*place);
	*place = k;
}

/*
 * Lookups.
 */

void
lookup_cancel(struct lookup *l)
{
	if (l == NULL)
		return;
	LIST_REMOVE(l, entry);
	free(l);
}

static void
query_free(struct query *q)
{
	struct lookup *l;

	while ((l = LIST_FIRST(&q->lookups)) != NULL)
		lookup_cancel(l);
	LIST_REMOVE(q, entry);
	loop_cancel(q->resolver->loop, q->later);
	free(q->addresses);
	free(q);
}

/* Whoever is told may cancel the others. */
static void
query_tell(void *ctx)
{
	struct query *q = ctx;
	struct lookup *l, told;
	struct refusal why;

	q->later = 0;
	if (q->n == 0)
		refusal_set(&why, "egress.resolve", "could not resolve that name: %s",
		    q->status == ARES_SUCCESS ? "it has no address" : ares.strerror(q->status));
	while ((l = LIST_FIRST(&q->lookups)) != NULL) {
		told = *l;
		lookup_cancel(l);
		told.done(told.ctx, q->addresses, q->n, q->n > 0 ? NULL : &why);
	}
	query_free(q);
}

static int
node_address(const struct ares_addrinfo_node *node, struct address *a)
{
	static const struct address none = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}};

	*a = none;
	if (node->ai_family == AF_INET)
		memcpy(a->b + 12,
		    &((const struct sockaddr_in *)(const void *)node->ai_addr)->sin_addr, 4);
	else if (node->ai_family == AF_INET6)
		memcpy(a->b, &((const struct sockaddr_in6 *)(const void *)node->ai_addr)->sin6_addr,
		    16);
	else
		return -1;
	return 0;
}

/* All addresses, and the shortest TTL.  More than the setting allows are none. */
static void
nodes_take(struct query *q, const struct ares_addrinfo *info)
{
	const struct ares_addrinfo_node *node;
	size_t most = q->resolver->config.addresses, n = 0;

	q->ttl = INT32_MAX;
	if ((q->addresses = calloc(most, sizeof(*q->addresses))) == NULL) {
		q->status = ARES_ENOMEM;
		return;
	}
	for (node = info->nodes; node != NULL; node = node->ai_next) {
		if (n == most) {
			q->status = ARES_EBADRESP;
			return;
		}
		n += node_address(node, &q->addresses[n]) == 0;
		if (node->ai_ttl < q->ttl)
			q->ttl = node->ai_ttl;
	}
	q->n = n;
}

static void
on_answer(void *ctx, int status, int timeouts, struct ares_addrinfo *info)
{
	struct query *q = ctx;
	struct resolver *r = q->resolver;

	(void)timeouts;
	if (r->renewing)
		return; /* it is asked anew */
	q->pending = false;
	r->pending--;
	q->status = status;
	if (info != NULL) {
		nodes_take(q, info);
		ares.freeaddrinfo(info);
	}
	if (r->ending) {
		query_free(q);
		return;
	}
	if (q->n > 0)
		remember(r, q);
	if (!q->asking) {
		query_tell(q);
		return;
	}
	if ((q->later = loop_after(r->loop, 0, query_tell, q)) == 0)
		abort(); /* whoever asked would wait for good */
}

/*
 * c-ares and the loop.
 */

/* A socket of c-ares'. */
struct watched {
	struct resolver *resolver;
	struct watched *next;
	int fd;
};

static void on_timeout(void *ctx);

static void
timer_set(struct resolver *r)
{
	struct timeval tv, *next;

	loop_cancel(r->loop, r->timer);
	r->timer = 0;
	if (r->pending > 0 && (next = ares.timeout(r->channel, NULL, &tv)) != NULL)
		r->timer = loop_after(r->loop,
		    (int64_t)next->tv_sec * MS_PER_S + next->tv_usec / 1000 + 1, on_timeout, r);
}

static void
on_timeout(void *ctx)
{
	struct resolver *r = ctx;

	r->timer = 0;
	ares.process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	timer_set(r);
}

static void
on_socket(void *ctx, uint32_t events)
{
	struct watched *w = ctx;
	struct resolver *r = w->resolver;
	int fd = w->fd;

	ares.process_fd(r->channel, (events & ~(uint32_t)EPOLLOUT) != 0 ? fd : ARES_SOCKET_BAD,
	    (events & EPOLLOUT) != 0 ? fd : ARES_SOCKET_BAD);
	timer_set(r);
}

static void
on_state(void *ctx, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = ctx;
	struct watched **at = &r->watched, *w;
	uint32_t events = (readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0);

	while (*at != NULL && (*at)->fd != fd)
		at = &(*at)->next;
	if ((w = *at) != NULL && events != 0) {
		loop_mod(r->loop, fd, events);
	} else if (w != NULL) {
		loop_del(r->loop, fd);
		*at = w->next;
		free(w);
	} else if (events != 0 && (w = calloc(1, sizeof(*w))) != NULL) {
		/* Without it the lookup ends by its timeout. */
		*w = (struct watched){r, r->watched, fd};
		r->watched = w;
		loop_add(r->loop, fd, events, on_socket, w);
	}
}

/* Return how many servers a channel asks, one after the other. */
static int
servers_count(ares_channel channel)
{
	struct ares_addr_port_node *list = NULL, *at;
	int n = 0;

	if (ares.get_servers_ports(channel, &list) != ARES_SUCCESS)
		return 1;
	for (at = list; at != NULL; at = at->next)
		n++;
	ares.free_data(list);
	return n > 0 ? n : 1;
}

static int
channel_make(struct resolver *r, int servers)
{
	const int most = (int)(r->config.wait_ms / WAITS / servers);
	struct ares_options options = {.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
	    .timeout = most > 0 ? most : 1,
	    .tries = TRIES,
	    .sock_state_cb = on_state,
	    .sock_state_cb_data = r};
	int rc = ares.init_options(&r->channel, &options,
	    ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);

	if (rc != ARES_SUCCESS) {
		r->channel = NULL;
		return rc;
	}
	if (r->config.servers != NULL &&
	    (rc = ares.set_servers_ports_csv(r->channel, r->config.servers)) != ARES_SUCCESS) {
		ares.destroy(r->channel);
		r->channel = NULL;
	}
	return rc;
}

/* Each server is given its part of the time.  How many there are a channel alone tells. */
static int
channel_open(struct resolver *r)
{
	int rc, servers;

	memset(&r->file, 0, sizeof(r->file));
	if (stat(RESOLVERS, &r->file) != 0)
		r->file.st_ino = 0;
	if ((rc = channel_make(r, 1)) != ARES_SUCCESS || (servers = servers_count(r->channel)) == 1)
		return rc;
	ares.destroy(r->channel);
	return channel_make(r, servers);
}

/* What is known at once is told later. */
static void
query_begin(struct query *q)
{
	static const struct ares_addrinfo_hints hints = {
	    .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

	q->asking = true;
	if (q->resolver->channel != NULL)
		ares.getaddrinfo(q->resolver->channel, q->name, NULL, &hints, on_answer, q);
	else
		on_answer(q, ARES_ENOTINITIALIZED, 0, NULL);
	q->asking = false;
}

/*
 * The machine may have come to another network since; a channel reads its servers once.  What is
 * under way is asked of the new ones.
 */
static void
channel_refresh(struct resolver *r)
{
	struct query *q;
	struct stat now;

	if (stat(RESOLVERS, &now) != 0 ||
	    (now.st_ino == r->file.st_ino && now.st_mtim.tv_sec == r->file.st_mtim.tv_sec &&
		now.st_mtim.tv_nsec == r->file.st_mtim.tv_nsec))
		return;
	r->renewing = true;
	ares.destroy(r->channel);
	r->renewing = false;
	(void)channel_open(r);
	LIST_FOREACH(q, &r->queries, entry)
	if (q->pending)
		query_begin(q);
}

static size_t
share_used(const struct resolver *r, int64_t asker)
{
	const struct query *q;
	size_t n = 0;

	LIST_FOREACH(q, &r->queries, entry)
	n += q->pending && q->asker == asker;
	return n;
}

/* Return 0, or -1 with the refusal. */
static int
share_take(const struct resolver *r, int64_t asker, struct refusal *refusal)
{
	size_t each = r->config.lookups / SHARES;

	if (r->pending >= r->config.lookups)
		return refusal_set(refusal, "egress.names",
		    "%zu names are looked up, and that is the limit", r->config.lookups);
	if (each == 0)
		each = 1;
	if (share_used(r, asker) >= each)
		return refusal_set(refusal, "egress.names",
		    "%zu names are looked up for whoever asks, and that is the limit", each);
	return 0;
}

/* Return the query for ${name}, which is begun where there is none yet; or NULL. */
static struct query *
query_of(struct resolver *r, int64_t asker, const char *name, struct refusal *refusal)
{
	size_t len = strlen(name) + 1;
	struct query *q;

	LIST_FOREACH(q, &r->queries, entry)
	if (strcmp(q->name, name) == 0)
		return q;
	if (share_take(r, asker, refusal) != 0)
		return NULL;
	if ((q = calloc(1, sizeof(*q) + len)) == NULL) {
		refusal_set(refusal, "http.memory", "there is no memory to look a name up");
		return NULL;
	}
	*q = (struct query){.resolver = r, .asker = asker, .pending = true};
	LIST_INIT(&q->lookups);
	memcpy(q->name, name, len);
	LIST_INSERT_HEAD(&r->queries, q, entry);
	r->pending++;
	query_begin(q);
	return q;
}

struct lookup *
resolver_ask(struct resolver *r, int64_t asker, const char *name,
    void (*done)(void *, const struct address *, size_t, const struct refusal *), void *ctx,
    struct refusal *refusal)
{
	struct lookup *l;
	struct query *q;

	if (r->channel != NULL)
		channel_refresh(r);
	if (r->channel == NULL && channel_open(r) != ARES_SUCCESS) {
		refusal_set(refusal, "egress.resolve",
		    "could not resolve that name: the resolver of this machine cannot be used");
		return NULL;
	}
	if ((l = calloc(1, sizeof(*l))) == NULL) {
		refusal_set(refusal, "http.memory", "there is no memory to look a name up");
		return NULL;
	}
	if ((q = query_of(r, asker, name, refusal)) == NULL) {
		free(l);
		return NULL;
	}
	*l = (struct lookup){.done = done, .ctx = ctx};
	LIST_INSERT_HEAD(&q->lookups, l, entry);
	timer_set(r);
	return l;
}

static int
library_begin(struct refusal *refusal)
{
	if (ares.library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS)
		return 0;
	return refusal_set(refusal, "egress.resolve", "libc-ares does not work here");
}

static const struct library_symbol symbols[] = {SYMBOL(library_init), SYMBOL(init_options),
    SYMBOL(set_servers_ports_csv), SYMBOL(get_servers_ports), SYMBOL(free_data),
    SYMBOL(getaddrinfo), SYMBOL(freeaddrinfo), SYMBOL(process_fd), SYMBOL(timeout), SYMBOL(destroy),
    SYMBOL(strerror), {NULL, 0}};

static struct library library = {.soname = "libcares.so.2",
    .package = "libc-ares2",
    .symbols = symbols,
    .table = &ares,
    .begin = library_begin};

struct resolver *
resolver_new(struct loop *loop, const struct resolver_config *config, struct refusal *refusal)
{
	struct resolver *r;

	if (library_once(&library, refusal) == NULL)
		return NULL;
	if ((r = calloc(1, sizeof(*r))) == NULL ||
	    (config->cache > 0 && (r->table = calloc(config->cache, sizeof(*r->table))) == NULL)) {
		free(r);
		refusal_set(refusal, "egress.resolve", "out of memory");
		return NULL;
	}
	r->loop = loop;
	r->config = *config;
	LIST_INIT(&r->queries);
	if (channel_open(r) == ARES_SUCCESS)
		return r;
	refusal_set(refusal, "egress.resolve", "the resolver of this machine cannot be used");
	resolver_free(r);
	return NULL;
}

void
resolver_free(struct resolver *r)
{
	size_t i;

	if (r == NULL)
		return;
	r->ending = true;
	if (r->channel != NULL)
		ares.destroy(r->channel);
	while (!LIST_EMPTY(&r->queries))
		query_free(LIST_FIRST(&r->queries));
	loop_cancel(r->loop, r->timer);
	for (i = 0; i < r->config.cache; i++)
		known_free(r->table[i]);
	free(r->table);
	free(r);
}
