/* rig.c: a thread with the lane, a thread with names, and sockets by hand. */
#include <sys/socket.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/address.h"
#include "net/egress/proxy.h"
#include "tests/rig.h"

#define PATIENCE_S 20
#define NAMES_MAX  32

int rig_http, rig_socks;
char rig_unix[108];
enum proxy_inspect rig_inspect;
char rig_roots[128], rig_pem[16384];
void (*rig_unknown)(void *ctx, const struct authority *to);

static pthread_t rig_thread, names_thread;
static struct loop *loop;
static struct proxy *proxy;
static int ready[2];
static char servers[32];

/*
 * Names.
 */

static struct name {
	char name[128], addresses[256];
	int ttl, times;
} names[NAMES_MAX];

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static int nnames, asked, names_fd = -1;

void
rig_name(const char *name, const char *addresses, int ttl, int times)
{
	pthread_mutex_lock(&names_lock);
	assert_true(nnames < NAMES_MAX);
	snprintf(names[nnames].name, sizeof(names[0].name), "%s", name);
	snprintf(names[nnames].addresses, sizeof(names[0].addresses), "%s", addresses);
	names[nnames].ttl = ttl;
	names[nnames++].times = times == 0 ? -1 : times * 2; /* A and AAAA */
	pthread_mutex_unlock(&names_lock);
}

int
rig_asked(void)
{
	int n;

	pthread_mutex_lock(&names_lock);
	n = asked;
	pthread_mutex_unlock(&names_lock);
	return n;
}

void
rig_names_hold(bool hold)
{
	if (hold)
		pthread_mutex_lock(&names_lock);
	else
		pthread_mutex_unlock(&names_lock);
}

void
rig_names_forget(void)
{
	pthread_mutex_lock(&names_lock);
	nnames = asked = 0;
	pthread_mutex_unlock(&names_lock);
}

/* The question's name in ${out}; return what is behind it. */
static size_t
question_name(const unsigned char *q, size_t len, char *out, size_t size)
{
	size_t at = 12, n = 0, label;

	while (at < len && (label = q[at]) != 0 && at + label < len && n + label + 2 < size) {
		if (n > 0)
			out[n++] = '.';
		memcpy(out + n, q + at + 1, label);
		n += label;
		at += label + 1;
	}
	out[n] = '\0';
	return at + 5;
}

static size_t
answer_add(unsigned char *a, const struct address *address, int ttl)
{
	int four = address_is_ipv4(address);
	const unsigned char head[12] = {0xc0, 12, 0, four ? 1 : 28, 0, 1, 0, 0,
	    (unsigned char)(ttl >> 8), (unsigned char)ttl, 0, four ? 4 : 16};

	memcpy(a, head, sizeof(head));
	memcpy(a + sizeof(head), address->b + (four ? 12 : 0), four ? 4 : 16);
	return sizeof(head) + (four ? 4 : 16);
}

static void
names_answer(int fd, unsigned char *q, size_t len, const struct sockaddr *to, socklen_t to_len)
{
	unsigned char a[2048];
	char name[256], copy[256], *word, *rest = copy;
	size_t end = question_name(q, len, name, sizeof(name)), n;
	struct address address;
	int i, type = q[end - 3];

	memcpy(a, q, n = end);
	a[2] = 0x85;
	a[3] = 3; /* no such name, unless there is */
	memset(a + 6, 0, 6);
	pthread_mutex_lock(&names_lock);
	asked++;
	for (i = 0; i < nnames && (strcmp(names[i].name, name) != 0 || names[i].times == 0); i++)
		;
	if (i < nnames) {
		names[i].times -= names[i].times > 0;
		a[3] = 0;
		snprintf(copy, sizeof(copy), "%s", names[i].addresses);
		while ((word = strsep(&rest, " ")) != NULL)
			if (address_parse(word, &address) == 0 &&
			    (type == 1) ==
				(address_is_ipv4(&address) && strchr(word, ':') == NULL)) {
				n += answer_add(a + n, &address, names[i].ttl);
				a[7]++;
			}
	}
	pthread_mutex_unlock(&names_lock);
	sendto(fd, a, n, 0, to, to_len);
}

static void *
names_serve(void *ctx)
{
	unsigned char q[512];
	struct sockaddr_in from;
	socklen_t len;
	ssize_t n;

	(void)ctx;
	for (;;) {
		len = sizeof(from);
		n = recvfrom(names_fd, q, sizeof(q), 0, (struct sockaddr *)&from, &len);
		/* An empty packet of ours is the end. */
		if (n <= 0)
			return NULL;
		if (n > 16)
			names_answer(names_fd, q, (size_t)n, (struct sockaddr *)&from, len);
	}
}

static void
names_begin(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);

	names_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(names_fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(names_fd, (struct sockaddr *)&at, &len), 0);
	snprintf(servers, sizeof(servers), "127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(pthread_create(&names_thread, NULL, names_serve, NULL), 0);
}

static void
names_end(void)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);

	assert_int_equal(getsockname(names_fd, (struct sockaddr *)&at, &len), 0);
	sendto(names_fd, "", 0, 0, (struct sockaddr *)&at, len);
	pthread_join(names_thread, NULL);
	close(names_fd);
	rig_names_forget();
}

/*
 * The lane.
 */

static void *
rig_serve(void *ctx)
{
	struct scratch *s = ctx;
	struct proxy_config config = {.home = &s->home,
	    .keys = &s->keys,
	    .servers = servers,
	    .unknown = rig_unknown,
	    .inspect = rig_inspect,
	    .tokens = s->key,
	    .roots = rig_roots[0] != '\0' ? rig_roots : NULL};
	const char *pem;
	struct refusal r = {0};
	struct store *db = NULL;
	char ok = 0;

	loop = config.loop = loop_new();
	if (loop != NULL &&
	    (db = config.db = store_open(&s->home, ROLE_EGRESS, &s->keys, &r)) != NULL &&
	    (proxy = proxy_new(&config, &r)) != NULL &&
	    (rig_http = proxy_listen_tcp(proxy, 0, PROXY_HTTP, &r)) > 0 &&
	    (rig_socks = proxy_listen_tcp(proxy, 0, PROXY_SOCKS, &r)) > 0 &&
	    proxy_listen_unix(proxy, rig_unix, PROXY_BOTH, &r) == 0)
		ok = 1;
	else
		print_error("%s: %s\n", r.code, r.why);
	pem = ok ? proxy_authority(proxy, &r) : NULL;
	snprintf(rig_pem, sizeof(rig_pem), "%s", pem != NULL ? pem : "");
	if (write(ready[1], &ok, 1) == 1 && ok)
		loop_run(loop);
	proxy_free(proxy);
	store_close(db);
	loop_free(loop);
	return NULL;
}

static void
drained(void *ctx)
{
	loop_stop(ctx);
}

static void
drain(void *ctx)
{
	(void)ctx;
	proxy_drain(proxy, drained, loop);
}

void
rig_start(struct scratch *s)
{
	char ok = 0;

	if (scratch_value(s, "SELECT count(*) FROM egress_rule") == 0)
		assert_int_equal(
		    scratch_sql(s, "INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
				   " VALUES ('allow', '*', now_ms(), 0)"),
		    0);
	store_close(s->db);
	s->db = NULL;
	snprintf(rig_unix, sizeof(rig_unix), "%s/egress.sock", s->home.run);
	names_begin();
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pthread_create(&rig_thread, NULL, rig_serve, s), 0);
	assert_int_equal(read(ready[0], &ok, 1), 1);
	assert_int_equal(ok, 1);
}

void
rig_stop(struct scratch *s)
{
	(void)s;
	assert_int_equal(loop_post(loop, drain, NULL), 0);
	pthread_join(rig_thread, NULL);
	proxy = NULL;
	close(ready[0]);
	close(ready[1]);
	names_end();
}

static void
wake(void *ctx)
{
	(void)ctx;
	proxy_wake(proxy);
}

void
rig_awaken(void)
{
	assert_int_equal(loop_post(loop, wake, NULL), 0);
}

/*
 * Sockets.
 */

static void
patience_set(int fd)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
}

int
rig_dial(int port)
{
	struct sockaddr_in tcp = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	int fd = socket(port != 0 ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(local.sun_path, sizeof(local.sun_path), "%s", rig_unix);
	assert_int_not_equal(fd, -1);
	assert_int_equal(port != 0 ? connect(fd, (struct sockaddr *)&tcp, sizeof(tcp))
				   : connect(fd, (struct sockaddr *)&local, sizeof(local)),
	    0);
	patience_set(fd);
	return fd;
}

/* A connection that comes from elsewhere. */
struct visit {
	struct proxy_who who;
	struct authority to; /* port 0: it says so itself */
	int fd;
};

static void
visit(void *ctx)
{
	struct visit *v = ctx;

	if (v->to.port == 0)
		proxy_take(proxy, v->fd, PROXY_HTTP, &v->who);
	else
		proxy_catch(proxy, v->fd, &v->who, &v->to);
	free(v);
}

int
rig_catch(struct proxy_who who, const char *host, uint16_t port)
{
	struct visit *v = calloc(1, sizeof(*v));
	int ends[2];

	assert_non_null(v);
	v->who = who;
	v->to.port = port;
	if (port != 0)
		assert_int_equal(host_read(host, strlen(host), &v->to.host, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	patience_set(ends[0]);
	assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	v->fd = ends[1];
	assert_int_equal(loop_post(loop, visit, v), 0);
	return ends[0];
}

int
rig_take(struct proxy_who who)
{
	return rig_catch(who, NULL, 0);
}

void
rig_send(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;
	ssize_t n;

	for (; len > 0 && (n = send(fd, at, len, MSG_NOSIGNAL)) > 0; at += n)
		len -= (size_t)n;
}

void
rig_say(int fd, const char *text)
{
	rig_send(fd, text, strlen(text));
}

size_t
rig_hear(int fd, char *out, size_t size)
{
	size_t n = 0;
	ssize_t k;

	while (n + 1 < size && (k = recv(fd, out + n, size - n - 1, 0)) > 0)
		n += (size_t)k;
	if (n + 1 < size && k == -1 && errno == EAGAIN)
		fail_msg("the lane says nothing, and does not close");
	out[n] = '\0';
	return n;
}

int
rig_hear_until(int fd, const char *end, char *out, size_t size)
{
	size_t n = 0, len = strlen(end);
	ssize_t k;

	while (n + 1 < size && (k = recv(fd, out + n, 1, 0)) == 1) {
		out[++n] = '\0';
		if (n >= len && strcmp(out + n - len, end) == 0)
			return 0;
	}
	out[n] = '\0';
	return -1;
}

int
rig_contacted(int listener)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

int
rig_accept(int listener)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	int fd;

	assert_int_equal(poll(&p, 1, PATIENCE_S * 1000), 1);
	assert_int_not_equal(fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), -1);
	patience_set(fd);
	return fd;
}

size_t
rig_ask(int port, const char *text, char *out, size_t size)
{
	int fd = rig_dial(port);
	size_t n;

	rig_say(fd, text);
	n = rig_hear(fd, out, size);
	close(fd);
	return n;
}

void
rig_until(struct scratch *s, int64_t value, const char *sql)
{
	const struct timespec rest = {.tv_nsec = 5000000};
	int64_t is = -1;
	int i;

	scratch_open(s, ROLE_READER);
	for (i = 0; i < PATIENCE_S * 200; i++) {
		if ((is = stmt_value(store_sql(s->db, sql), -1)) == value)
			break;
		nanosleep(&rest, NULL);
	}
	store_close(s->db);
	s->db = NULL;
	if (is != value)
		fail_msg("%s is %lld, not %lld", sql, (long long)is, (long long)value);
}
