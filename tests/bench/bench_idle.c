/*
 * bench_idle.c: ten thousand tunnels that say nothing, beside microsocks, dante and squid in the
 * same run.
 *
 * Everybody is in a network namespace of their own and reaches a server in another one. The tunnels
 * are real: each was asked for, stands, and is held open at both ends. What one costs in memory is
 * told, and how long a new one beside them takes to bring an answer. Two descriptors go into each,
 * so where a process may have fewer than 20,100 there are fewer tunnels, and how many is told.
 */
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
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

#define MANY    10000
#define SPARE   100       /* descriptors of a proxy for other things */
#define NEW     20        /* that come beside them; the slowest is told */
#define NEW_MS  250       /* that it may take with us, its durable row among it */
#define AT_ONCE 64        /* are asked for */
#define OPEN_S  60        /* for a proxy to take them all; then what it took counts */
#define MOST_KB (1 << 20) /* nor more memory than that */
#define PORT    18100
#define WAIT_MS 10000

struct proxy_here {
	const char *name;
	int port;
	const char *const *words; /* NULL: ours, which serves already */
	pid_t pid;
};

struct result {
	int n;
	double kb, slowest_ms;
};

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Hold what comes; answer what speaks. */
static void
origin(int listener)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener}, got[128];
	int ep = epoll_create1(EPOLL_CLOEXEC), n, i, fd;
	char in[512];

	fcntl(listener, F_SETFL, O_NONBLOCK);
	epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
	while ((n = epoll_wait(ep, got, 128, -1)) >= 0)
		for (i = 0; i < n; i++) {
			fd = got[i].data.fd;
			if (fd == listener) {
				if ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) == -1)
					continue;
				ev.data.fd = fd;
				epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
			} else if (recv(fd, in, sizeof(in), 0) <= 0 ||
				   send(fd, "ok", 2, MSG_NOSIGNAL) != 2) {
				close(fd);
			}
		}
}

static int
dial(int port)
{
	const struct timeval patience = {.tv_sec = 10};
	struct sockaddr_in to = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

/*
 * Ask for ${n} tunnels at once, and be told that they stand.  Return how many do, in ${fds}.
 */
static int
tunnels(const struct proxy_here *p, int *fds, int n)
{
	static const char head[] =
	    "CONNECT " NETNS_SITE ":18100 HTTP/1.1\r\nHost: " NETNS_SITE ":18100\r\n\r\n";
	static const unsigned char socks[] = {
	    5, 1, 0, 5, 1, 0, 1, 198, 51, 100, 8, PORT >> 8, PORT & 255};
	bool http = strcmp(p->name, "squid") == 0;
	int i, stand = 0;
	char in[1024];

	for (i = 0; i < n; i++)
		if ((fds[i] = dial(p->port)) != -1 &&
		    send(fds[i], http ? head : (const char *)socks, http ? sizeof(head) - 1 : 3,
			MSG_NOSIGNAL) < 0)
			perror("client");
	for (i = 0; i < n && !http; i++)
		if (fds[i] != -1 && recv(fds[i], in, 2, MSG_WAITALL) == 2 &&
		    send(fds[i], socks + 3, sizeof(socks) - 3, MSG_NOSIGNAL) < 0)
			perror("client");
	for (i = 0; i < n; i++) {
		if (fds[i] == -1)
			continue;
		if (http ? recv(fds[i], in, sizeof(in), 0) > 12 && memcmp(in + 8, " 200", 4) == 0
			 : recv(fds[i], in, 10, MSG_WAITALL) == 10 && in[1] == 0)
			fds[stand++] = fds[i];
		else
			close(fds[i]);
	}
	return stand;
}

/* The slowest of some that come now and ask for an answer, in milliseconds; 0 where one had none
 * (squid keeps a hundred descriptors back and has no others left).
 */
static double
slowest(const struct proxy_here *p)
{
	double most = 0, began, took;
	char in[2];
	int i, fd;
	bool answered;

	for (i = 0; i < NEW; i++) {
		began = now();
		if (tunnels(p, &fd, 1) != 1)
			return 0;
		answered = send(fd, "?", 1, MSG_NOSIGNAL) == 1 && recv(fd, in, 2, MSG_WAITALL) == 2;
		took = (now() - began) * 1000;
		close(fd);
		if (!answered)
			return 0;
		most = took > most ? took : most;
	}
	return most;
}

static void
measure(const struct proxy_here *p, int many, struct result *r)
{
	static int fds[MANY];
	long before = peer_sum(p->pid, 2, peer_memory);
	double until = now() + OPEN_S;
	int n = 0, more = 1, want;

	while (n < many && more > 0 && now() < until &&
	       (n % (AT_ONCE * 8) != 0 || peer_sum(p->pid, 2, peer_memory) - before < MOST_KB)) {
		want = many - n < AT_ONCE ? many - n : AT_ONCE;
		n += more = tunnels(p, fds + n, want);
	}
	r->n = n;
	r->kb = n == 0 ? 0 : (double)(peer_sum(p->pid, 2, peer_memory) - before) / n;
	r->slowest_ms = slowest(p);
	while (n-- > 0)
		close(fds[n]);
	fprintf(stderr, "%-12s %5d tunnels, %7.1f kB each, the slowest new one %6.1f ms\n", p->name,
	    r->n, r->kb, r->slowest_ms);
}

/* How many there can be: both ends of each are a descriptor of the proxy. */
static int
as_many_as_may_be(void)
{
	struct rlimit files;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_max < 2 * MANY + SPARE) {
		files.rlim_cur = files.rlim_max = 2 * MANY + 10 * SPARE;
		if (setrlimit(RLIMIT_NOFILE, &files) != 0)
			getrlimit(RLIMIT_NOFILE, &files);
	}
	files.rlim_cur = files.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	return files.rlim_max >= 2 * MANY + SPARE ? MANY : (int)(files.rlim_max - SPARE) / 2;
}

int
main(void)
{
	static const char danted[] = "/tmp/bst-idle-danted.conf",
			  squid[] = "/tmp/bst-idle-squid.conf";
	static const char *const micro_words[] = {
	    "microsocks", "-i", "127.0.0.1", "-p", "12101", NULL};
	static const char *const dante_words[] = {"danted", "-f", danted, NULL};
	static const char *const squid_words[] = {"squid", "-N", "-f", squid, NULL};
	struct proxy_here peers[] = {{"microsocks", 12101, micro_words, 0},
	    {"dante", 12102, dante_words, 0}, {"squid", 12104, squid_words, 0}};
	struct proxy_here ours = {"bastion", 11080, NULL, 0};
	const char *words[] = {program_path(), "serve", NULL};
	struct result mine = {.n = 0}, r;
	double kb = 0, ms = 0;
	uint16_t port = PORT;
	struct scratch s;
	int listener, many = as_many_as_may_be();
	pid_t server;
	size_t i;

	if (!netns_enter()) {
		printf("egress, idle tunnels | not measured | no namespaces here | |\n");
		return 0;
	}
	listener = netns_listen(NETNS_SITE, &port);
	if ((server = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		origin(listener);
		_exit(0);
	}
	peer_file(danted,
	    "logoutput: /dev/null\ninternal: 127.0.0.1 port = 12102\nexternal: bst0\n"
	    "socksmethod: none\nclientmethod: none\nuser.privileged: root\nuser.unprivileged: nobody\n"
	    "client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n"
	    "socks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }\n");
	peer_file(squid, "http_port 127.0.0.1:12104\nhttp_access allow all\ncache deny all\n"
			 "access_log none\ncache_log /dev/null\npid_filename none\n"
			 "netdb_filename none\nshutdown_lifetime 1 seconds\ncoredump_dir /tmp\n");
	scratch_make(&s, HOME_BOX);
	scratch_sql(&s,
	    "UPDATE setting SET value = 11080 WHERE name = 'egress.socks_port';"
	    "UPDATE setting SET value = 12000 WHERE name IN ('egress.live_each', 'egress.live');"
	    "INSERT INTO egress_rule (verdict, suffix, made_at, made_by_uid)"
	    " VALUES ('allow', '*', now_ms(), 0)");
	setenv("BASTION_STATE", s.home.state, 1);
	setenv("BASTION_RUN", s.home.run, 1);
	ours.pid = peer_start(words);
	assert_true(peer_comes_up(ours.port, WAIT_MS));
	measure(&ours, many, &mine);
	kill(ours.pid, SIGTERM);
	waitpid(ours.pid, NULL, 0);
	for (i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
		peers[i].pid = peer_start(peers[i].words);
		if (peer_comes_up(peers[i].port, WAIT_MS)) {
			measure(&peers[i], many, &r);
			kb = r.n > 0 && (kb == 0 || r.kb < kb) ? r.kb : kb;
			ms = r.slowest_ms > 0 && (ms == 0 || r.slowest_ms < ms) ? r.slowest_ms : ms;
		} else {
			fprintf(stderr, "%s does not come up\n", peers[i].name);
		}
		kill(-peers[i].pid, SIGKILL);
		waitpid(peers[i].pid, NULL, 0);
	}
	kill(server, SIGKILL);
	scratch_drop(&s);
	printf("egress, each of %d idle tunnels | %.1f kB | %.1f kB | %.2f | ahead of the best\n",
	    mine.n, mine.kb, kb, mine.kb / kb);
	printf("egress, the slowest new one beside them | %.1f ms | %.1f ms | %.2f | <= %d ms\n",
	    mine.slowest_ms, ms, mine.slowest_ms / ms, NEW_MS);
	return mine.n < many || (kb > 0 && mine.kb > kb) || mine.slowest_ms == 0 ||
	       mine.slowest_ms > NEW_MS;
}
