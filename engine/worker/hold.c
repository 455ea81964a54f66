/* hold.c: a network with nothing in it but a proxy to where the database said. */
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/destination.h"
#include "engine/worker/hold.h"
#include "engine/write.h"

#define PORT    3128
#define LIVE    32    /* connections at a time */
#define HEAD    4096  /* bytes of a request */
#define WAIT_MS 15000 /* for a request, and for an address to answer */

/* What the processes that carry tell the one that waits. */
struct hold_told {
	_Atomic int64_t in; /* bytes that came in */
	int64_t in_max;
	atomic_int over;
	atomic_int strayed; /* 1: being written; 2: there */
	char target[ENDPOINT_TEXT_MAX + 1];
};

static int
addresses_read(const char *text, const char *end, struct hold_place *place)
{
	char one[ADDRESS_TEXT_MAX + 1];
	size_t len, skip;

	for (place->count = 0; text < end && place->count < HOLD_ADDRESSES; text += len + 1) {
		len = strcspn(text, ", ");
		skip = text[0] == '[' ? 1 : 0;
		if (len <= 2 * skip || len - 2 * skip > ADDRESS_TEXT_MAX)
			return -1;
		snprintf(one, sizeof(one), "%.*s", (int)(len - 2 * skip), text + skip);
		if (address_parse(one, &place->address[place->count++]) != 0)
			return -1;
	}
	return place->count > 0 ? 0 : -1;
}

int
hold_find(const char *pin, const char *target, size_t len, struct hold_place *place)
{
	char begin[ENDPOINT_HOST_MAX + 16];
	struct destination d;
	size_t n;

	if (memchr(target, '/', len) != NULL || destination_read(target, len, &d) != 0)
		return -1;
	n = (size_t)snprintf(begin, sizeof(begin), "%s:%d:", d.host.text, d.port);
	place->port = d.port;
	for (; *pin != '\0'; pin += strcspn(pin, " "), pin += strspn(pin, " "))
		if (strncmp(pin, begin, n) == 0)
			return addresses_read(pin + n, pin + strcspn(pin, " "), place);
	return -1;
}

int
hold_target(const char *head, size_t len, const char **target, size_t *targetlen)
{
	static const char method[] = "CONNECT ", version[] = " HTTP/1.";
	const char *end = memchr(head, '\r', len);
	size_t skip = sizeof(method) - 1, line, tail = sizeof(version);

	if (end == NULL)
		return -1;
	line = (size_t)(end - head);
	if (line <= skip + tail || memcmp(head, method, skip) != 0 ||
	    memcmp(end - tail, version, tail - 1) != 0)
		return -1;
	*target = head + skip;
	*targetlen = line - skip - tail;
	return memchr(*target, ' ', *targetlen) == NULL ? 0 : -1;
}

/* The first that strays is told: it is what a person has to know. */
static void
tell_strayed(struct hold_told *told, const char *target, size_t len)
{
	struct destination d;
	int none = 0;

	if (destination_read(target, len, &d) != 0 ||
	    !atomic_compare_exchange_strong(&told->strayed, &none, 1))
		return;
	snprintf(told->target, sizeof(told->target),
	    d.host.kind == ENDPOINT_IPV6 ? "[%s]:%d" : "%s:%d", d.host.text, d.port);
	atomic_store(&told->strayed, 2);
}

/* The head of a request in ${head}.  Return its length, or 0: there is none. */
static size_t
head_read(int fd, char head[HEAD])
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t len = 0;
	ssize_t n;

	while (len < HEAD - 1) {
		if (poll(&p, 1, WAIT_MS) != 1 || (n = read(fd, head + len, HEAD - 1 - len)) <= 0)
			return 0;
		len += (size_t)n;
		head[len] = '\0';
		if (len >= 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0)
			return len;
	}
	return 0;
}

static int
dial_one(const struct address *a, uint16_t port)
{
	struct sockaddr_storage to;
	socklen_t len = address_sockaddr(a, port, &to), size = sizeof(int);
	int fd, error = 0;
	struct pollfd p;

	if ((fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) == -1)
		return -1;
	p = (struct pollfd){.fd = fd, .events = POLLOUT};
	if ((connect(fd, (struct sockaddr *)&to, len) == 0 ||
		(errno == EINPROGRESS && poll(&p, 1, WAIT_MS) == 1)) &&
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0 &&
	    fcntl(fd, F_SETFL, 0) == 0)
		return fd;
	close(fd);
	return -1;
}

static int
dial_any(const struct hold_place *place)
{
	int i, fd = -1;

	for (i = 0; i < place->count && fd == -1; i++)
		fd = dial_one(&place->address[i], place->port);
	return fd;
}

/* From ${from} to ${to} until there is no more. What comes in is counted (${told}), and may be too
 * much. */
static void
carry(int from, int to, struct hold_told *told)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) > 0 || (n == -1 && errno == EINTR)) {
		if (n == -1)
			continue;
		if (told != NULL && atomic_fetch_add(&told->in, n) + n > told->in_max) {
			atomic_store(&told->over, 1);
			break;
		}
		if (write_all(to, buf, (size_t)n) == -1)
			break;
	}
	shutdown(to, n == 0 ? SHUT_WR : SHUT_RDWR);
	if (n != 0)
		shutdown(from, SHUT_RDWR);
}

/* One connection: a process for each way, so that neither waits for the other. */
static void __attribute__((noreturn)) serve(int fd, const char *pin, struct hold_told *told)
{
	static const char yes[] = "HTTP/1.1 200 OK\r\n\r\n";
	static const char no[] = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
	static const char gone[] = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";
	struct hold_place place;
	const char *target;
	char head[HEAD];
	size_t len;
	int out;

	if ((len = head_read(fd, head)) == 0 || hold_target(head, len, &target, &len) != 0)
		_exit(1);
	if (hold_find(pin, target, len, &place) != 0) {
		tell_strayed(told, target, len);
		write_all(fd, no, sizeof(no) - 1);
		_exit(1);
	}
	if ((out = dial_any(&place)) == -1) {
		write_all(fd, gone, sizeof(gone) - 1);
		_exit(1);
	}
	if (write_all(fd, yes, sizeof(yes) - 1) == -1)
		_exit(1);
	switch (fork()) {
	case -1:
		_exit(1);
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		carry(out, fd, told);
		_exit(0);
	default:
		carry(fd, out, NULL);
		wait(NULL);
		_exit(0);
	}
}

/* The proxy: it listens in the network inside and dials in ${outside}. */
static void __attribute__((noreturn))
keep_door(int listener, int outside, const char *pin, struct hold_told *told)
{
	int fd, live = 0;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || setns(outside, CLONE_NEWNET) == -1 ||
	    (listener != 3 && dup2(listener, 3) == -1) || close_range(4, ~0U, 0) == -1)
		_exit(1);
	for (;;) {
		while (live > 0 && waitpid(-1, NULL, live >= LIVE ? 0 : WNOHANG) > 0)
			live--;
		if ((fd = accept4(3, NULL, NULL, SOCK_CLOEXEC)) == -1)
			continue;
		switch (fork()) {
		case 0:
			close(3);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			serve(fd, pin, told);
		case -1:
			break;
		default:
			live++;
		}
		close(fd);
	}
}

static int
listen_inside(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
	    .sin_port = htons(PORT),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd;

	if ((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) == -1)
		return -1;
	if (ioctl(fd, SIOCSIFFLAGS, &lo) == 0 &&
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, LIVE) == 0)
		return fd;
	close(fd);
	return -1;
}

int
hold_enter(struct hold *hold, const char *pin, int64_t bytes_max, struct refusal *refusal)
{
	int outside, listener = -1;
	pid_t pid = -1;

	hold->told = mmap(
	    NULL, sizeof(*hold->told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hold->told == MAP_FAILED)
		return refusal_errno(refusal, "act.failed", "memory");
	hold->told->in_max = bytes_max;
	if ((outside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) != -1 &&
	    unshare(CLONE_NEWNET) == 0 && (listener = listen_inside()) != -1 && (pid = fork()) == 0)
		keep_door(listener, outside, pin, hold->told);
	if (pid == -1)
		refusal_errno(refusal, "act.tool",
		    "this machine lets no program be held to a network of its own");
	if (outside != -1)
		close(outside);
	if (listener != -1)
		close(listener);
	return pid == -1 ? -1 : 0;
}

int
hold_strayed(const struct hold *hold, char target[ENDPOINT_TEXT_MAX + 1])
{
	if (atomic_load(&hold->told->strayed) != 2)
		return 0;
	snprintf(target, ENDPOINT_TEXT_MAX + 1, "%s", hold->told->target);
	return 1;
}

int
hold_over(const struct hold *hold)
{
	return atomic_load(&hold->told->over);
}
