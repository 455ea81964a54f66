/*
 * bench_egress.c: the internet lane beside microsocks, dante and tinyproxy, in the same run.
 *
 * Everybody is in a network namespace of their own and reaches a server in another one. Clients ask
 * for a tunnel, get one small answer through it, and begin anew, 64 at once; and one fetches much.
 * Each of our connections is two rows, the first of them durable before the server is dialled.
 */
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/netns.h"
#include "tests/peers.h"
#include "tests/program.h"
#include "tests/scratch.h"

#define AT_ONCE 64
#define SHAKES  6000
#define BULK    (1ULL << 30)
#define ROUNDS  3
#define PORT    18100
#define WAIT_MS 10000
#define MANY    400 /* idle tunnels; memory is told for one */
#define OURS    2   /* the first of the peers */
#define PEERS   5
#define OURS_H  13128
#define OURS_S  11080

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/*
 * The server: "GET /" gets a small answer, "GET /b" much.
 */

static void
serve(int listener)
{
	static char piece[262144];
	static const char small[] =
	    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener}, got[128];
	int ep = epoll_create1(EPOLL_CLOEXEC), n, i, fd, one = 1;
	char in[512];
	uint64_t left;
	ssize_t k;

	fcntl(listener, F_SETFL, O_NONBLOCK);
	epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
	for (;;) {
		n = epoll_wait(ep, got, 128, -1);
		for (i = 0; i < n; i++) {
			if (got[i].data.fd == listener) {
				while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) != -1) {
					setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
					ev.data.fd = fd;
					epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
				}
				continue;
			}
			fd = got[i].data.fd;
			if ((k = recv(fd, in, sizeof(in), 0)) > 5 && in[5] == 'b')
				for (left = BULK; left > 0 && (k = send(fd, piece, sizeof(piece),
								   MSG_NOSIGNAL)) > 0;)
					left -= (uint64_t)k > left ? left : (uint64_t)k;
			else if (k > 0 && send(fd, small, sizeof(small) - 1, MSG_NOSIGNAL) == -1)
				perror("origin");
			close(fd);
		}
	}
}

/*
 * Proxies.
 */

struct peer {
	const char *name;
	bool socks;
	int port;
	const char *const *words;
	pid_t pid;
};

static int
dial(int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

/*
 * Clients.
 */

static const char connect_head[] =
    "CONNECT " NETNS_SITE ":18100 HTTP/1.1\r\nHost: " NETNS_SITE ":18100\r\n\r\n";
static const unsigned char socks_head[] = {
    5, 1, 0, 5, 1, 0, 1, 198, 51, 100, 8, PORT >> 8, PORT & 255};

struct client {
	int fd, step;
	double began;
	size_t got;
};

static void
say(int fd, const void *bytes, size_t len)
{
	if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		perror("client");
}

static int
client_begin(struct client *c, int ep, const struct peer *peer)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};

	c->began = now();
	c->step = c->got = 0;
	if ((c->fd = dial(peer->port)) == -1)
		return -1;
	if (peer->socks)
		say(c->fd, socks_head, 3);
	else
		say(c->fd, connect_head, sizeof(connect_head) - 1);
	return epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
}

/* Return 1 when it has its answer, -1 where it was refused. */
static int
client_step(struct client *c, const struct peer *peer)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	char in[1024];
	ssize_t n = recv(c->fd, in, sizeof(in), 0);

	if (n <= 0)
		return -1;
	if (peer->socks && c->step == 0) {
		say(c->fd, socks_head + 3, sizeof(socks_head) - 3);
		c->step = 1;
		return 0;
	}
	if (c->step < 2) {
		c->step = 2;
		if (peer->socks ? in[1] != 0 : strstr(in, " 200") == NULL)
			return -1;
		say(c->fd, get, sizeof(get) - 1);
		return 0;
	}
	return memmem(in, (size_t)n, "ok", 2) != NULL ? 1 : 0;
}

/* Processor time, in ticks, with that of children that ended. */
static long
ticks(const char *proc)
{
	long user = 0, sys = 0, ended_user = 0, ended_sys = 0;
	char path[96], line[1024], *at;
	FILE *f;

	snprintf(path, sizeof(path), "%s/stat", proc);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	if (fgets(line, sizeof(line), f) != NULL && (at = strrchr(line, ')')) != NULL)
		(void)sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld %ld %ld",
		    &user, &sys, &ended_user, &ended_sys);
	fclose(f);
	return user + sys + ended_user + ended_sys;
}

static double took[SHAKES];

static int
by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct result {
	double rate, p99, bulk, memory;
	double cpu; /* microseconds of a processor for one connection */
	int failed;
};

static void
shakes(const struct peer *peer, struct result *r)
{
	struct client clients[AT_ONCE];
	struct epoll_event got[AT_ONCE];
	int ep = epoll_create1(EPOLL_CLOEXEC), i, n, begun, over = 0, rc;
	long before = peer_sum(peer->pid, 2, ticks);
	double start_at = now();

	for (begun = 0; begun < AT_ONCE; begun++)
		if (client_begin(&clients[begun], ep, peer) != 0)
			r->failed++;
	while (over < SHAKES && (n = epoll_wait(ep, got, AT_ONCE, WAIT_MS)) > 0)
		for (i = 0; i < n; i++) {
			struct client *c = got[i].data.ptr;

			if ((rc = client_step(c, peer)) == 0)
				continue;
			r->failed += rc == -1;
			if (over < SHAKES)
				took[over++] = now() - c->began;
			close(c->fd);
			if (begun < SHAKES && ++begun && client_begin(c, ep, peer) != 0)
				r->failed++;
		}
	r->rate = over / (now() - start_at);
	r->cpu = (double)(peer_sum(peer->pid, 2, ticks) - before) * 1e6 /
		 (double)sysconf(_SC_CLK_TCK) / over;
	qsort(took, (size_t)over, sizeof(took[0]), by_time);
	r->p99 = took[over * 99 / 100] * 1000;
	close(ep);
}

static int
tunnel(const struct peer *peer)
{
	struct client c = {.step = 0};
	char in[1024];
	int fd;

	if ((fd = c.fd = dial(peer->port)) == -1)
		return -1;
	if (peer->socks) {
		say(fd, socks_head, 3);
		if (recv(fd, in, 2, MSG_WAITALL) != 2)
			return -1;
		say(fd, socks_head + 3, sizeof(socks_head) - 3);
		return recv(fd, in, 10, MSG_WAITALL) == 10 && in[1] == 0 ? fd : -1;
	}
	say(fd, connect_head, sizeof(connect_head) - 1);
	return recv(fd, in, sizeof(in), 0) > 0 ? fd : -1;
}

static void
bulk(const struct peer *peer, struct result *r)
{
	static char in[1 << 20];
	double start_at;
	uint64_t all = 0;
	ssize_t n;
	int fd = tunnel(peer);

	if (fd == -1)
		return;
	say(fd, "GET /b", 6);
	for (start_at = now(); (n = recv(fd, in, sizeof(in), 0)) > 0;)
		all += (uint64_t)n;
	r->bulk = (double)all / (now() - start_at) / 1e9;
	close(fd);
}

static void
idle(const struct peer *peer, struct result *r)
{
	static int fds[MANY];
	long before = peer_sum(peer->pid, 2, peer_memory);
	int n;

	for (n = 0; n < MANY && (fds[n] = tunnel(peer)) != -1; n++)
		;
	r->memory = n == 0 ? 0 : (double)(peer_sum(peer->pid, 2, peer_memory) - before) / n;
	r->failed += n < MANY;
	while (n-- > 0)
		close(fds[n]);
}

static double
better(double a, double b, bool less)
{
	return b == 0 || (a != 0 && (less ? a < b : a > b)) ? a : b;
}

static void
take_best(struct result *best, const struct result *r)
{
	best->rate = better(best->rate, r->rate, false);
	best->p99 = better(best->p99, r->p99, true);
	best->cpu = better(best->cpu, r->cpu, true);
	best->bulk = better(best->bulk, r->bulk, false);
	best->memory = better(best->memory, r->memory, true);
	best->failed += r->failed;
}

/*
 * Each in turn, round by round: what else a machine does meanwhile, and how fast it happens to be,
 * is the same for all.
 */
static void
measure(const struct peer *peers, size_t n, struct result *best)
{
	struct result r;
	size_t i;
	int round;

	for (round = 0; round < ROUNDS; round++)
		for (i = 0; i < n; i++) {
			r = (struct result){.failed = 0};
			shakes(&peers[i], &r);
			bulk(&peers[i], &r);
			take_best(&best[i], &r);
		}
	for (i = 0; i < n; i++) {
		r = (struct result){.failed = 0};
		idle(&peers[i], &r);
		take_best(&best[i], &r);
		fprintf(stderr,
		    "%-18s %7.0f/s  p99 %6.1f ms  %4.0f us  %5.2f GB/s  %6.1f kB  failed %d\n",
		    peers[i].name, best[i].rate, best[i].p99, best[i].cpu, best[i].bulk,
		    best[i].memory, best[i].failed);
	}
}

/* One line of the table; return whether the target is missed. */
static bool
row(const char *what, const char *unit, double ours, double peer, bool less)
{
	double ratio = less ? ours / peer : peer / ours;

	printf("egress, %s | %.*f %s | %.*f %s | %.2f | ahead of the best\n", what,
	    ours < 10 ? 2 : 0, ours, unit, ours < 10 ? 2 : 0, peer, unit, ratio);
	return ratio > 1;
}

int
main(void)
{
	static const char danted[] = "/tmp/bst-danted.conf", tiny[] = "/tmp/bst-tiny.conf";
	static const char *const micro_words[] = {
	    "microsocks", "-i", "127.0.0.1", "-p", "12001", NULL};
	static const char *const dante_words[] = {"danted", "-f", danted, NULL};
	static const char *const tiny_words[] = {"tinyproxy", "-d", "-c", tiny, NULL};
	/* Ours come first. */
	struct peer peers[] = {{"bastion, CONNECT", false, OURS_H, NULL, 0},
	    {"bastion, SOCKS5", true, OURS_S, NULL, 0}, {"microsocks", true, 12001, micro_words, 0},
	    {"dante", true, 12002, dante_words, 0}, {"tinyproxy", false, 12003, tiny_words, 0}};
	const char *words[] = {program_path(), "serve", NULL};
	struct scratch s;
	struct result r[PEERS] = {{.failed = 0}}, best = {.failed = 0}, mine = {.failed = 0};
	uint16_t port = PORT;
	int listener;
	bool missed;
	size_t i;
	pid_t origin, serving;

	if (!netns_enter()) {
		printf("egress: connections a second | not measured | no namespaces here | |\n");
		return 0;
	}
	listener = netns_listen(NETNS_SITE, &port);
	if ((origin = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(listener);
	}
	peer_file(danted,
	    "logoutput: /dev/null\ninternal: 127.0.0.1 port = 12002\nexternal: bst0\n"
	    "socksmethod: none\nclientmethod: none\nuser.privileged: root\nuser.unprivileged: nobody\n"
	    "client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n"
	    "socks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n");
	peer_file(tiny,
	    "Port 12003\nListen 127.0.0.1\nTimeout 600\nMaxClients 1000\nLogLevel Critical\n");
	scratch_make(&s, HOME_BOX);
	scratch_sql(&s, "UPDATE setting SET value = 13128 WHERE name = 'egress.http_port';"
			"UPDATE setting SET value = 11080 WHERE name = 'egress.socks_port';"
			"INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
			" VALUES ('allow', '*', now_ms(), 0)");
	setenv("BASTION_STATE", s.home.state, 1);
	setenv("BASTION_RUN", s.home.run, 1);
	serving = peer_start(words);
	for (i = 0; i < PEERS; i++) {
		peers[i].pid = i < OURS ? serving : peer_start(peers[i].words);
		assert_true(peer_comes_up(peers[i].port, WAIT_MS));
	}
	measure(peers, PEERS, r);
	for (i = 0; i < PEERS; i++) {
		if (i < OURS || r[i].failed == 0)
			take_best(i < OURS ? &mine : &best, &r[i]);
		if (i >= OURS) {
			kill(-peers[i].pid, SIGTERM);
			waitpid(peers[i].pid, NULL, 0);
		}
	}
	kill(serving, SIGTERM);
	waitpid(serving, NULL, 0);
	kill(origin, SIGKILL);
	scratch_drop(&s);
	missed = row("new connections", "/s", mine.rate, best.rate, false);
	missed |= row("p99 of them", "ms", mine.p99, best.p99, true);
	printf("egress, processor time of a connection | %.0f us | %.0f us | %.2f | told\n",
	    mine.cpu, best.cpu, mine.cpu / best.cpu);
	missed |= row("bulk", "GB/s", mine.bulk, best.bulk, false);
	missed |= row("memory of an idle tunnel", "kB", mine.memory, best.memory, true);
	return missed || mine.failed > 0;
}
