/* resolve.c: c-ares in our loop, and a table of what it said. */
#include <sys/epoll.h>
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
#define MS_PER_S  1000
#define RESOLVERS "/etc/resolv.conf"

static struct {
	typeof(&ares_library_init) library_init;
	typeof(&ares_init_options) init_options;
	typeof(&ares_set_servers_ports_csv) set_servers_ports_csv;
	typeof(&ares_getaddrinfo) getaddrinfo;
	typeof(&ares_freeaddrinfo) freeaddrinfo;
	typeof(&ares_process_fd) process_fd;
	typeof(&ares_timeout) timeout;
	typeof(&ares_destroy) destroy;
	typeof(&ares_strerror) strerror;
	bool loaded;
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

struct lookup {
	struct resolver *resolver;
	void (*done)(void *, const struct address *, size_t, const struct refusal *);
	void *ctx;
	struct lookup *prev, *next;
	bool asking;    /* still within resolver_ask */
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
	struct lookup *all;
	struct known **table; /* config.cache places; a name has one, whoever came last has it */
	bool ending;
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
remember(struct resolver *r, const struct lookup *l)
{
	struct known **place = place_of(r, l->name), *k;
	size_t len = strlen(l->name) + 1;
	int64_t ms = (int64_t)l->ttl * MS_PER_S;

	if (ms > r->config.cache_ms)
		ms = r->config.cache_ms;
	if (place == NULL || ms <= 0 || (k = calloc(1, sizeof(*k) + len)) == NULL)
		return;
	if ((k->addresses = calloc(l->n, sizeof(*k->addresses))) == NULL) {
		free(k);
		return;
	}
	memcpy(k->name, l->name, len);
	memcpy(k->addresses, l->addresses, l->n * sizeof(*k->addresses));
	k->n = l->n;
	k->until = loop_now() + ms;
	known_free(*place);
	*place = k;
}

/*
 * Lookups.
 */

static void
lookup_free(struct lookup *l)
{
	struct resolver *r = l->resolver;

	if (l->prev != NULL)
		l->prev->next = l->next;
	else
		r->all = l->next;
	if (l->next != NULL)
		l->next->prev = l->prev;
	loop_cancel(r->loop, l->later);
	free(l->addresses);
	free(l);
}

void
lookup_cancel(struct lookup *l)
{
	if (l == NULL)
		return;
	l->done = NULL;
	/* One that c-ares still has is freed when it comes back. */
	if (l->later != 0)
		lookup_free(l);
}

static void
lookup_tell(void *ctx)
{
	struct lookup *l = ctx;
	struct refusal why;

	l->later = 0;
	if (l->done != NULL && l->n > 0)
		l->done(l->ctx, l->addresses, l->n, NULL);
	else if (l->done != NULL) {
		refusal_set(&why, "egress.resolve", "could not resolve that name: %s",
		    l->status == ARES_SUCCESS ? "it has no address" : ares.strerror(l->status));
		l->done(l->ctx, NULL, 0, &why);
	}
	lookup_free(l);
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
nodes_take(struct lookup *l, const struct ares_addrinfo *info)
{
	const struct ares_addrinfo_node *node;
	size_t most = l->resolver->config.addresses, n = 0;

	l->ttl = INT32_MAX;
	if ((l->addresses = calloc(most, sizeof(*l->addresses))) == NULL) {
		l->status = ARES_ENOMEM;
		return;
	}
	for (node = info->nodes; node != NULL; node = node->ai_next) {
		if (n == most) {
			l->status = ARES_EBADRESP;
			return;
		}
		n += node_address(node, &l->addresses[n]) == 0;
		if (node->ai_ttl < l->ttl)
			l->ttl = node->ai_ttl;
	}
	l->n = n;
}

static void
on_answer(void *ctx, int status, int timeouts, struct ares_addrinfo *info)
{
	struct lookup *l = ctx;
	struct resolver *r = l->resolver;

	(void)timeouts;
	r->pending--;
	l->status = status;
	if (info != NULL) {
		nodes_take(l, info);
		ares.freeaddrinfo(info);
	}
	if (r->ending) {
		lookup_free(l);
		return;
	}
	if (l->n > 0)
		remember(r, l);
	if (!l->asking) {
		lookup_tell(l);
		return;
	}
	if ((l->later = loop_after(r->loop, 0, lookup_tell, l)) == 0)
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

static int
channel_open(struct resolver *r)
{
	struct ares_options options = {.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
	    .timeout = (int)(r->config.wait_ms / WAITS),
	    .tries = TRIES,
	    .sock_state_cb = on_state,
	    .sock_state_cb_data = r};
	int rc;

	memset(&r->file, 0, sizeof(r->file));
	if (stat(RESOLVERS, &r->file) != 0)
		r->file.st_ino = 0;
	rc = ares.init_options(&r->channel, &options,
	    ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
	if (rc == ARES_SUCCESS && r->config.servers != NULL)
		rc = ares.set_servers_ports_csv(r->channel, r->config.servers);
	return rc;
}

/* The machine may have come to another network since; a channel reads its servers once. */
static void
channel_refresh(struct resolver *r)
{
	struct stat now;

	if (r->pending > 0 || stat(RESOLVERS, &now) != 0 ||
	    (now.st_ino == r->file.st_ino && now.st_mtim.tv_sec == r->file.st_mtim.tv_sec &&
		now.st_mtim.tv_nsec == r->file.st_mtim.tv_nsec))
		return;
	ares.destroy(r->channel);
	if (channel_open(r) != ARES_SUCCESS)
		r->channel = NULL;
}

struct lookup *
resolver_ask(struct resolver *r, const char *name,
    void (*done)(void *, const struct address *, size_t, const struct refusal *), void *ctx,
    struct refusal *refusal)
{
	static const struct ares_addrinfo_hints hints = {
	    .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	size_t len = strlen(name) + 1;
	struct lookup *l;

	if (r->channel != NULL)
		channel_refresh(r);
	if (r->channel == NULL && channel_open(r) != ARES_SUCCESS)
		r->channel = NULL;
	if (r->channel == NULL || r->pending >= r->config.lookups ||
	    (l = calloc(1, sizeof(*l) + len)) == NULL) {
		refusal_set(refusal, "egress.busy", "too many names are looked up");
		return NULL;
	}
	*l = (struct lookup){
	    .resolver = r, .done = done, .ctx = ctx, .next = r->all, .asking = true};
	memcpy(l->name, name, len);
	if (r->all != NULL)
		r->all->prev = l;
	r->all = l;
	r->pending++;
	ares.getaddrinfo(r->channel, l->name, NULL, &hints, on_answer, l);
	l->asking = false;
	timer_set(r);
	return l;
}

static int
library_ready(struct refusal *refusal)
{
	static const struct library_symbol symbols[] = {SYMBOL(library_init), SYMBOL(init_options),
	    SYMBOL(set_servers_ports_csv), SYMBOL(getaddrinfo), SYMBOL(freeaddrinfo),
	    SYMBOL(process_fd), SYMBOL(timeout), SYMBOL(destroy), SYMBOL(strerror), {NULL, 0}};

	if (ares.loaded)
		return 0;
	if (library_load("libcares.so.2", "libc-ares2", symbols, &ares, refusal) != 0)
		return -1;
	if (ares.library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
		return refusal_set(refusal, "egress.resolve", "libc-ares does not work here");
	ares.loaded = true;
	return 0;
}

struct resolver *
resolver_new(struct loop *loop, const struct resolver_config *config, struct refusal *refusal)
{
	struct resolver *r;

	if (library_ready(refusal) != 0)
		return NULL;
	if ((r = calloc(1, sizeof(*r))) == NULL ||
	    (config->cache > 0 && (r->table = calloc(config->cache, sizeof(*r->table))) == NULL)) {
		free(r);
		refusal_set(refusal, "egress.resolve", "out of memory");
		return NULL;
	}
	r->loop = loop;
	r->config = *config;
	if (channel_open(r) == ARES_SUCCESS)
		return r;
	refusal_set(refusal, "egress.resolve", "the resolver of this machine cannot be used");
	r->channel = NULL;
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
	while (r->all != NULL)
		lookup_free(r->all);
	loop_cancel(r->loop, r->timer);
	for (i = 0; i < r->config.cache; i++)
		known_free(r->table[i]);
	free(r->table);
	free(r);
}
