/* proxy.c: listeners, users, patience, and what the lane knows of this machine. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/egress/accept.h"
#include "net/egress/conn.h"
#include "net/egress/inspect.h"
#include "net/egress/who.h"
#include "net/http/unixsock.h"

#define TICK_MS   100  /* how exactly patience is kept */
#define CALM_MS   50   /* commits that come together are looked at once */
#define BACKLOG   4096 /* the kernel cuts it to somaxconn */
#define PIPES     256  /* kept for the next that carries much */
#define OVER_MOST 64   /* connections above the bound, to be told so */

static const char PRUNE[] =
    "DELETE FROM egress_flow WHERE id IN (SELECT f.id FROM egress_flow AS f"
    "  JOIN setting AS s ON s.name = 'egress.keep_days'"
    " WHERE f.ended_at < now_ms() - 86400000 * s.value"
    "   AND f.id < (SELECT max(id) FROM egress_flow) ORDER BY f.id LIMIT 1000)";
static const char OLD[] =
    "SELECT count(*) FROM (SELECT ended_at FROM egress_flow ORDER BY id LIMIT 1) AS f"
    "  JOIN setting AS s ON s.name = 'egress.keep_days'"
    " WHERE f.ended_at < now_ms() - 86400000 * s.value";

static const char REPORT[] =
    "UPDATE egress_flow SET up = :up, down = :down WHERE id = :id AND state = 'open'";

/* What changes when a rule or whoever has it does; and what is over by them then. */
static const char RULES[] = "SELECT mark FROM egress_rules_mark";
static const char OVER[] = "SELECT id, over FROM egress_overruled WHERE over OR narrowed";

struct listener {
	struct proxy *proxy;
	int fd;
	bool tcp;
	bool fixed; /* whoever connects is ${who} */
	struct proxy_who who;
	struct sockaddr_in at;
	enum proxy_speaks speaks;
	struct unixsock unix_sock;
	struct acceptor acceptor;
	struct listener *next;
};

/*
 * Lists.
 */

static struct conn_link *
link_of(struct conn *c, bool all)
{
	return all ? &c->in_all : &c->in_waiting;
}

static void
list_remove(struct conn_list *list, struct conn *c, bool all)
{
	struct conn_link *link = link_of(c, all);

	if (link->prev != NULL)
		link_of(link->prev, all)->next = link->next;
	else
		list->first = link->next;
	if (link->next != NULL)
		link_of(link->next, all)->prev = link->prev;
	else
		list->last = link->prev;
	link->prev = link->next = NULL;
}

static void
list_append(struct conn_list *list, struct conn *c, bool all)
{
	struct conn_link *link = link_of(c, all);

	link->prev = list->last;
	link->next = NULL;
	if (list->last != NULL)
		link_of(list->last, all)->next = c;
	else
		list->first = c;
	list->last = c;
}

static void on_tick(void *ctx);
static void report(struct proxy *proxy);

void
conn_wait(struct conn *c, enum patience patience)
{
	struct proxy *proxy = c->proxy;

	if (c->patience == PATIENCES)
		list_append(&proxy->all, c, true);
	else
		list_remove(&proxy->waiting[c->patience], c, false);
	c->patience = patience;
	c->touched = proxy->now;
	list_append(&proxy->waiting[patience], c, false);
	if (proxy->timer == 0)
		proxy->timer = loop_after(proxy->config.loop, TICK_MS, on_tick, proxy);
}

/* Whoever waits longest stands first, and what ends one takes it off. */
static void
expire(struct proxy *proxy, enum patience patience)
{
	struct conn *c, *next, *last = proxy->waiting[patience].last;

	for (c = proxy->waiting[patience].first;
	     c != NULL && proxy->now - c->touched >= proxy->patience[patience]; c = next) {
		next = c == last ? NULL : c->in_waiting.next;
		conn_expire(c);
	}
}

static void
on_tick(void *ctx)
{
	struct proxy *proxy = ctx;
	struct refusal why;
	struct conn *c, *next;
	int i;

	proxy->timer = 0;
	proxy->now = loop_now();
	for (i = 0; i < PATIENCES; i++)
		expire(proxy, (enum patience)i);
	refusal_set(&why, "egress.timeout", "it lasted as long as a connection may");
	for (c = proxy->all.first; c != NULL && proxy->now - c->since >= proxy->total_ms;
	     c = next) {
		next = c->in_all.next;
		conn_end(c, &why);
	}
	report(proxy);
	if (proxy->all.first != NULL && proxy->timer == 0)
		proxy->timer = loop_after(proxy->config.loop, TICK_MS, on_tick, proxy);
}

/*
 * Ends.
 */

void
proxy_ends(struct proxy *proxy, size_t most)
{
	struct conn *c;

	while (most-- > 0 && (c = proxy->ends) != NULL) {
		if ((proxy->ends = c->next_end) == NULL)
			proxy->last_end = NULL;
		committer_submit(proxy->committer, &c->job);
	}
}

static void
on_gathered(void *ctx)
{
	struct proxy *proxy = ctx;

	proxy->gathering = 0;
	proxy_ends(proxy, SIZE_MAX);
}

bool
proxy_gather(struct conn *c)
{
	struct proxy *proxy = c->proxy;

	if (proxy->ending)
		return false;
	if (proxy->gathering == 0)
		proxy->gathering =
		    loop_after(proxy->config.loop, proxy->gather_ms, on_gathered, proxy);
	if (proxy->gathering == 0)
		return false;
	c->next_end = NULL;
	if (proxy->last_end != NULL)
		proxy->last_end->next_end = c;
	else
		proxy->ends = c;
	proxy->last_end = c;
	return true;
}

/*
 * The bell.  Each commit that rings it wakes every actor, and none of them waits for our rows.
 */

static void
on_ring(void *ctx)
{
	struct proxy *proxy = ctx;

	proxy->ringing = 0;
	store_ring(proxy->config.db);
}

void
proxy_tell(struct proxy *proxy)
{
	if (proxy->ringing == 0)
		proxy->ringing = loop_after(proxy->config.loop, TICK_MS, on_ring, proxy);
}

/*
 * Users.
 */

static struct proxy_user *
user_of(struct proxy *proxy, const struct proxy_who *who)
{
	struct proxy_user *u;

	for (u = proxy->users; u != NULL; u = u->next)
		if (u->who.host == who->host && u->who.id == who->id && u->who.run == who->run)
			return u;
	if ((u = calloc(1, sizeof(*u))) == NULL)
		return NULL;
	u->who = *who;
	u->next = proxy->users;
	proxy->users = u;
	return u;
}

static void
user_leave(struct proxy *proxy, struct proxy_user *u)
{
	struct proxy_user **at = &proxy->users;

	if (--u->n > 0)
		return;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	free(u);
}

static void
drained(struct proxy *proxy)
{
	void (*done)(void *) = proxy->drained;

	if (done == NULL || proxy->n > 0 || proxy->own_pending || proxy->pruning ||
	    proxy->reporting)
		return;
	proxy->drained = NULL;
	done(proxy->drained_ctx);
}

void
proxy_gone(struct conn *c)
{
	struct proxy *proxy = c->proxy;

	list_remove(&proxy->waiting[c->patience], c, false);
	list_remove(&proxy->all, c, true);
	user_leave(proxy, c->user);
	proxy->n--;
	drained(proxy);
}

/* Return the new connection, or NULL where it was refused or closed. */
static struct conn *
take(struct proxy *proxy, int fd, enum proxy_speaks speaks, const struct proxy_who *who)
{
	struct proxy_user *user;
	struct refusal why;
	struct conn *newest;

	if (proxy->n >= proxy->most + OVER_MOST || (user = user_of(proxy, who)) == NULL) {
		close(fd);
		return NULL;
	}
	/* Nothing stays of a user for whose first connection there is no memory. */
	user->n++;
	conn_new(proxy, fd, speaks, user);
	user_leave(proxy, user);
	if ((newest = proxy->all.last) == NULL || newest->client != fd)
		return NULL;
	if (proxy->n <= proxy->most && newest->user->n <= proxy->each)
		return newest;
	refusal_set(&why, "egress.busy", "%zu connections are served, and that is the limit",
	    proxy->n > proxy->most ? proxy->most : proxy->each);
	newest->socks = speaks == PROXY_SOCKS;
	conn_refuse(newest, &why);
	return NULL;
}

void
proxy_take(struct proxy *proxy, int fd, enum proxy_speaks speaks, const struct proxy_who *who)
{
	take(proxy, fd, speaks, who);
}

void
proxy_take_told(
    struct proxy *proxy, int fd, enum proxy_speaks speaks, const struct proxy_who *who, int told)
{
	struct conn *c = take(proxy, fd, speaks, who);

	if (c != NULL)
		c->told = told;
	else
		close(told);
}

void
proxy_catch(struct proxy *proxy, int fd, const struct proxy_who *who, const struct authority *to)
{
	struct conn *c = take(proxy, fd, PROXY_HTTP, who);

	if (c != NULL)
		conn_catch(c, to);
}

void
proxy_answered(struct proxy *proxy, const struct authority *to)
{
	struct conn *c;

	proxy->answers++;
	for (c = proxy->all.first; c != NULL; c = c->in_all.next)
		if (c->phase == HOLDING && !c->closing && c->to.port == to->port &&
		    strcmp(c->to.host.text, to->host.text) == 0)
			conn_ask_again(c);
}

size_t
proxy_connections(const struct proxy *proxy)
{
	return proxy->n;
}

/*
 * Listeners.
 */

static int
who_is(const struct listener *l, int fd, const struct sockaddr_in *from, struct proxy_who *who)
{
	uid_t uid;

	if (l->fixed) {
		*who = l->who;
		return 0;
	}
	if ((l->tcp ? who_tcp(l->proxy->diag, &l->at, from, &uid) : who_unix(fd, &uid)) != 0)
		return -1;
	*who = (struct proxy_who){.host = false, .id = (int64_t)uid};
	return 0;
}

static void
on_accepted(void *ctx, int fd, const struct sockaddr_in *from)
{
	struct listener *l = ctx;
	struct proxy_who who;

	if (who_is(l, fd, from, &who) == 0)
		proxy_take(l->proxy, fd, l->speaks, &who);
	else
		close(fd);
}

static int
listener_begin(struct listener *l)
{
	struct proxy *proxy = l->proxy;

	return accept_begin(
	    &l->acceptor, proxy->config.loop, l->fd, proxy->accepts, on_accepted, l);
}

static struct listener *
listener_new(struct proxy *proxy, enum proxy_speaks speaks, bool tcp, struct refusal *r)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	l->proxy = proxy;
	l->fd = l->unix_sock.fd = -1;
	l->tcp = tcp;
	l->speaks = speaks;
	l->next = proxy->listeners;
	proxy->listeners = l;
	return l;
}

int
proxy_listen_tcp(struct proxy *proxy, uint16_t port, enum proxy_speaks speaks, struct refusal *r)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
	    .sin_port = htons(port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	struct listener *l;
	int one = 1;

	if ((l = listener_new(proxy, speaks, true, r)) == NULL)
		return -1;
	if ((l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) == -1 ||
	    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    /* Each connection has it from here. */
	    setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
	    bind(l->fd, (const struct sockaddr *)&at, sizeof(at)) != 0 ||
	    listen(l->fd, BACKLOG) != 0 ||
	    getsockname(l->fd, (struct sockaddr *)&l->at, &len) != 0 || listener_begin(l) != 0)
		return refusal_errno(r, "socket.bind", "cannot listen for the internet lane");
	return ntohs(l->at.sin_port);
}

int
proxy_listen_unix(
    struct proxy *proxy, const char *path, enum proxy_speaks speaks, struct refusal *r)
{
	struct listener *l;

	if ((l = listener_new(proxy, speaks, false, r)) == NULL ||
	    unixsock_bind(&l->unix_sock, path, 0666, r) != 0 ||
	    unixsock_publish(&l->unix_sock, BACKLOG, r) != 0)
		return -1;
	l->fd = l->unix_sock.fd;
	if (listener_begin(l) == 0)
		return 0;
	return refusal_errno(r, "socket.bind", "cannot listen for the internet lane");
}

int
proxy_listen_fd(struct proxy *proxy, int fd, enum proxy_speaks speaks, const struct proxy_who *who,
    struct refusal *r)
{
	struct listener *l;

	if ((l = listener_new(proxy, speaks, true, r)) == NULL) {
		close(fd);
		return -1;
	}
	l->fd = fd;
	l->fixed = true;
	l->who = *who;
	if (listener_begin(l) == 0)
		return 0;
	return refusal_errno(r, "socket.bind", "cannot listen for the internet lane");
}

static void
listeners_close(struct proxy *proxy)
{
	struct listener *l;

	while ((l = proxy->listeners) != NULL) {
		proxy->listeners = l->next;
		accept_end(&l->acceptor);
		if (l->tcp && l->fd != -1)
			close(l->fd);
		if (!l->tcp)
			unixsock_close(&l->unix_sock);
		free(l);
	}
}

/*
 * This machine's addresses.
 */

struct own_job {
	struct commit_job job; /* first: the committer gives it back */
	struct proxy *proxy;
	struct own own; /* a copy, for the committer's thread */
};

static void own_refresh(struct proxy *proxy);

static int
own_run(struct store *db, struct commit_job *job)
{
	return own_store(db, &((struct own_job *)job)->own);
}

static void
own_done(struct commit_job *job)
{
	struct own_job *o = (struct own_job *)job;
	struct proxy *proxy = o->proxy;

	if (job->result != 0)
		fprintf(stderr, "egress: %s: %s\n", job->refusal.code, job->refusal.why);
	own_free(&o->own);
	free(o);
	proxy_tell(proxy);
	proxy->own_pending = false;
	if (proxy->own_again)
		own_refresh(proxy);
	drained(proxy);
}

/* What is asked for from now on is held against the new rows: jobs run in their order. */
static void
own_refresh(struct proxy *proxy)
{
	struct refusal why;
	struct own_job *o;

	if (own_read(&proxy->own, &why) != 0)
		fprintf(stderr, "egress: %s: %s\n", why.code, why.why);
	proxy->own_again = proxy->own_pending;
	/* Mostly it is what it was, also across a start. */
	if (proxy->own_pending || own_is_stored(proxy->config.db, &proxy->own))
		return;
	if ((o = calloc(1, sizeof(*o))) == NULL)
		abort(); /* the rows would tell of another machine */
	o->job = (struct commit_job){.run = own_run, .done = own_done};
	o->proxy = proxy;
	o->own = proxy->own;
	if ((o->own.ranges = calloc(proxy->own.n + 1, sizeof(*o->own.ranges))) == NULL)
		abort();
	if (proxy->own.n > 0)
		memcpy(o->own.ranges, proxy->own.ranges, proxy->own.n * sizeof(*o->own.ranges));
	proxy->own_pending = true;
	committer_submit(proxy->committer, &o->job);
}

void
proxy_look(struct proxy *proxy)
{
	if (own_changed(proxy->watch))
		own_refresh(proxy);
}

static void
on_own(void *ctx, uint32_t events)
{
	(void)events;
	proxy_look(ctx);
}

/*
 * Old rows.
 */

struct prune_job {
	struct commit_job job; /* first: the committer gives it back */
	struct proxy *proxy;
};

static int
prune_run(struct store *db, struct commit_job *job)
{
	struct stmt *q = store_sql(db, PRUNE);

	(void)job;
	return q != NULL ? stmt_run(q) : -1;
}

static void
prune_done(struct commit_job *job)
{
	struct proxy *proxy = ((struct prune_job *)job)->proxy;

	free(job);
	proxy_tell(proxy);
	proxy->pruning = false;
	drained(proxy);
}

static void
prune(struct proxy *proxy)
{
	struct prune_job *p;

	if (proxy->pruning || stmt_value(store_sql(proxy->config.db, OLD), 0) == 0 ||
	    (p = calloc(1, sizeof(*p))) == NULL)
		return;
	p->job = (struct commit_job){.run = prune_run, .done = prune_done};
	p->proxy = proxy;
	proxy->pruning = true;
	committer_submit(proxy->committer, &p->job);
}

/*
 * How much was carried so far.
 */

#define REPORT_MOST 256 /* connections in one report: the others come with the next */

struct report_job {
	struct commit_job job; /* first: the committer gives it back */
	struct proxy *proxy;
	size_t n;
	struct {
		int64_t id, up, down;
	} flows[REPORT_MOST];
};

/* One that has ended meanwhile is over, and its row with it. */
static int
report_run(struct store *db, struct commit_job *job)
{
	const struct report_job *r = (struct report_job *)job;
	struct stmt *q;
	size_t i;

	for (i = 0; i < r->n; i++) {
		if ((q = store_sql(db, REPORT)) == NULL)
			return -1;
		stmt_int(q, ":id", r->flows[i].id);
		stmt_int(q, ":up", r->flows[i].up);
		stmt_int(q, ":down", r->flows[i].down);
		if (stmt_run(q) != 0)
			return -1;
	}
	return 0;
}

static void
report_done(struct commit_job *job)
{
	struct proxy *proxy = ((struct report_job *)job)->proxy;

	free(job);
	proxy_tell(proxy);
	proxy->reporting = false;
	drained(proxy);
}

static void
report_add(struct report_job *r, struct conn *c)
{
	if (c->phase != RELAYING || c->busy || c->up.moved + c->down.moved == c->reported)
		return;
	c->reported = c->up.moved + c->down.moved;
	r->flows[r->n].id = c->flow_id;
	r->flows[r->n].up = (int64_t)c->up.moved;
	r->flows[r->n++].down = (int64_t)c->down.moved;
}

/* Those that moved last stand last. */
static void
report(struct proxy *proxy)
{
	struct report_job *r;
	struct conn *c;

	if (proxy->reporting || proxy->ending || proxy->waiting[FOR_BYTES].last == NULL ||
	    proxy->now - proxy->reported < proxy->report_ms || (r = calloc(1, sizeof(*r))) == NULL)
		return;
	c = proxy->waiting[FOR_BYTES].last;
	for (; c != NULL && r->n < REPORT_MOST && c->touched >= proxy->reported - TICK_MS;
	     c = c->in_waiting.prev)
		report_add(r, c);
	proxy->reported = proxy->now;
	if (r->n == 0) {
		free(r);
		return;
	}
	r->job = (struct commit_job){.run = report_run, .done = report_done};
	r->proxy = proxy;
	proxy->reporting = true;
	committer_submit(proxy->committer, &r->job);
}

/*
 * What somebody decided since.
 */

/*
 * End the connection of the row ${id}; if it is not ${over}, only where it is a tunnel that nobody
 * looks into.  Return false where a commit about it is under way, whose outcome it waits for.
 */
static bool
withdraw(struct proxy *proxy, int64_t id, bool over)
{
	struct refusal why;
	bool asking = false;
	struct conn *c;

	/* (Which row is whose is written while it is asked for, elsewhere.) */
	for (c = proxy->all.first; c != NULL; c = c->in_all.next) {
		if (c->busy && c->what == JOB_ASK)
			asking = true;
		else if (c->flow_id == id)
			break;
	}
	if (c == NULL)
		return !asking;
	if (c->closing)
		return true;
	if (c->busy)
		return false;
	if (!over && (c->inspect != NULL || c->head.out != NULL))
		return true;
	refusal_set(&why, "egress.denied", "what allowed it was taken back");
	conn_end(c, &why);
	return true;
}

/* What is held because no rule spoke of it is put to them again. */
static void
held_again(struct proxy *proxy)
{
	struct conn *c;

	proxy->answers++;
	for (c = proxy->all.first; c != NULL; c = c->in_all.next)
		if (c->phase == HOLDING && !c->closing && c->waits != NULL)
			conn_ask_again(c);
}

/* A rule that is new or gone, a grant or pairing that ended, hold also what is under way. */
static void
rules_apply(struct proxy *proxy)
{
	struct stmt *q = store_sql(proxy->config.db, RULES);
	char rules[sizeof(proxy->rules)] = "";

	if (q != NULL && stmt_step(q) == 1) {
		snprintf(rules, sizeof(rules), "%s", stmt_get_text(q, 0));
		stmt_done(q);
	}
	if (strcmp(rules, proxy->rules) == 0 || (q = store_sql(proxy->config.db, OVER)) == NULL)
		return;
	memcpy(proxy->rules, rules, sizeof(rules));
	held_again(proxy);
	while (stmt_step(q) == 1)
		if (!withdraw(proxy, stmt_get_int(q, 0), stmt_get_int(q, 1) != 0))
			proxy->woken = true;
	/* Those are looked at once more, soon. */
	if (proxy->woken)
		proxy->rules[0] = '\0';
}

static void
on_calm(void *ctx)
{
	struct proxy *proxy = ctx;

	proxy->calm = 0;
	if (proxy->woken)
		proxy_wake(proxy);
}

/*
 * What was taken back ends at once: who else hears of it may end it too, and the row would say that
 * it was done.
 */
void
proxy_wake(struct proxy *proxy)
{
	proxy->woken = proxy->calm != 0;
	if (proxy->woken)
		return;
	proxy->now = loop_now();
	rules_apply(proxy);
	inspector_look(proxy);
	prune(proxy);
	proxy->calm = loop_after(proxy->config.loop, CALM_MS, on_calm, proxy);
}

/*
 * The lane.
 */

static void
bounds_read(struct proxy *proxy)
{
	struct store *db = proxy->config.db;

	proxy->most = (size_t)store_setting(db, "egress.connections");
	proxy->each = (size_t)store_setting(db, "egress.live_each");
	proxy->accepts = (size_t)store_setting(db, "egress.accepts");
	proxy->report_ms = store_setting(db, "egress.report_ms");
	proxy->gather_ms = store_setting(db, "egress.gather_ms");
	proxy->head = (size_t)store_setting(db, "egress.head");
	proxy->answer_head = (size_t)store_setting(db, "egress.answer_head");
	proxy->fields = (size_t)store_setting(db, "egress.fields");
	proxy->patience[FOR_HEAD] = store_setting(db, "egress.head_ms");
	proxy->patience[FOR_DIAL] = store_setting(db, "egress.dial_ms");
	proxy->patience[FOR_BYTES] = store_setting(db, "egress.idle_ms");
	proxy->patience[FOR_LINGER] = store_setting(db, "egress.linger_ms");
	proxy->patience[FOR_PERSON] = TICK_MS;
	proxy->total_ms = store_setting(db, "egress.total_ms");
	proxy->stagger_ms = store_setting(db, "egress.stagger_ms");
}

/* Without one, addresses can be reached all the same. */
static void
resolver_make(struct proxy *proxy)
{
	struct store *db = proxy->config.db;
	const struct resolver_config config = {
	    .lookups = (size_t)store_setting(db, "egress.lookups"),
	    .addresses = (size_t)store_setting(db, "egress.addresses"),
	    .cache = (size_t)store_setting(db, "egress.cache"),
	    .cache_ms = store_setting(db, "egress.cache_ms"),
	    .wait_ms = store_setting(db, "egress.resolve_ms"),
	    .servers = proxy->config.servers};

	proxy->resolver = resolver_new(proxy->config.loop, &config, &proxy->no_names);
	if (proxy->resolver == NULL)
		fprintf(stderr, "egress: names cannot be looked up: %s: %s\n", proxy->no_names.code,
		    proxy->no_names.why);
}

static int
proxy_fill(struct proxy *proxy, struct refusal *r)
{
	const struct proxy_config *config = &proxy->config;

	bounds_read(proxy);
	resolver_make(proxy);
	if ((proxy->classes = class_load(config->db, r)) == NULL)
		return -1;
	if ((proxy->pool = relay_pool_new(PIPES)) == NULL)
		return refusal_set(r, "store.failed", "out of memory");
	if ((proxy->diag = who_open()) == -1)
		return refusal_errno(r, "socket.bind", "cannot ask the kernel who connects");
	if ((proxy->watch = own_watch(r)) == -1 ||
	    (proxy->committer = committer_start(
		 config->home, ROLE_EGRESS, config->keys, "actor:egress", config->loop, r)) == NULL)
		return -1;
	if (loop_add(config->loop, proxy->watch, EPOLLIN, on_own, proxy) != 0)
		return refusal_errno(r, "socket.bind", "cannot watch this machine's addresses");
	committer_quiet(proxy->committer);
	committer_brisk(proxy->committer);
	own_refresh(proxy);
	inspector_look(proxy);
	return 0;
}

struct proxy *
proxy_new(const struct proxy_config *config, struct refusal *r)
{
	struct proxy *proxy;

	if ((proxy = calloc(1, sizeof(*proxy))) == NULL) {
		refusal_set(r, "store.failed", "out of memory");
		return NULL;
	}
	proxy->config = *config;
	proxy->diag = proxy->watch = -1;
	if (proxy_fill(proxy, r) == 0)
		return proxy;
	proxy_free(proxy);
	return NULL;
}

static void
all_end(struct proxy *proxy, const char *why_text)
{
	struct conn *c, *next;
	struct refusal why;

	proxy->ending = true;
	loop_cancel(proxy->config.loop, proxy->gathering);
	proxy_ends(proxy, SIZE_MAX);
	refusal_set(&why, "egress.timeout", "%s", why_text);
	for (c = proxy->all.first; c != NULL; c = next) {
		next = c->in_all.next;
		conn_end(c, &why);
	}
}

void
proxy_drain(struct proxy *proxy, void (*done)(void *ctx), void *ctx)
{
	listeners_close(proxy);
	proxy->drained = done;
	proxy->drained_ctx = ctx;
	all_end(proxy, "the lane closes");
	drained(proxy);
}

void
proxy_free(struct proxy *proxy)
{
	if (proxy == NULL)
		return;
	listeners_close(proxy);
	all_end(proxy, "the lane closes");
	committer_stop(proxy->committer);
	inspector_free(proxy->inspector);
	resolver_free(proxy->resolver);
	relay_pool_free(proxy->pool);
	loop_cancel(proxy->config.loop, proxy->timer);
	loop_cancel(proxy->config.loop, proxy->calm);
	if (proxy->ringing != 0) {
		loop_cancel(proxy->config.loop, proxy->ringing);
		on_ring(proxy);
	}
	if (proxy->watch != -1) {
		loop_del(proxy->config.loop, proxy->watch);
		close(proxy->watch);
	}
	if (proxy->diag != -1)
		close(proxy->diag);
	class_free(proxy->classes);
	own_free(&proxy->own);
	free(proxy);
}
