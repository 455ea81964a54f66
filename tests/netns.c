/* netns.c: two namespaces and a cable; or as many as a test wires up itself. */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <pty.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/address.h"
#include "tests/netns.h"

static int ours = -1, theirs = -1;

static bool
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd != -1 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd != -1)
		close(fd);
	return done;
}

static bool
isolate(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (uid == 0)
		return unshare(CLONE_NEWNET) == 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		return false;
	snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
	if (!write_file("/proc/self/uid_map", map) || !write_file("/proc/self/setgroups", "deny"))
		return false;
	snprintf(map, sizeof(map), "0 %u 1", (unsigned)gid);
	return write_file("/proc/self/gid_map", map);
}

static int
run(const char *const *words, int ns)
{
	int status;
	pid_t pid;

	if ((pid = fork()) == 0) {
		if (ns == -1 || setns(ns, CLONE_NEWNET) == 0)
			execvp(words[0], (char *const *)(uintptr_t)words);
		_exit(127);
	}
	return pid != -1 && waitpid(pid, &status, 0) == pid && WIFEXITED(status)
		   ? WEXITSTATUS(status)
		   : -1;
}

static bool
ip(int ns, const char *command)
{
	char copy[256];
	const char *words[24] = {"ip"};
	size_t n = 1;
	char *word, *rest = copy;

	snprintf(copy, sizeof(copy), "%s", command);
	while ((word = strsep(&rest, " ")) != NULL && n + 1 < sizeof(words) / sizeof(words[0]))
		words[n++] = word;
	words[n] = NULL;
	return run(words, ns) == 0;
}

/* The cable's other end goes to whoever has the other namespace, by its pid. */
static bool
cable(pid_t holder)
{
	static const char *const here[] = {"link set lo up", "addr add " NETNS_BOX "/24 dev bst0",
	    "addr add 2001:db8:9::1/64 dev bst0 nodad", "link set bst0 up",
	    "route add default via " NETNS_ROUTER, "-6 route add default via 2001:db8:9::2"};
	static const char *const there[] = {"link set lo up",
	    "addr add " NETNS_ROUTER "/24 dev bst1", "addr add 2001:db8:9::2/64 dev bst1 nodad",
	    "link set bst1 up", "addr add " NETNS_SITE "/32 dev lo",
	    "addr add " NETNS_OTHER "/32 dev lo", "addr add " NETNS_SIX "/128 dev lo nodad"};
	char link[96];
	size_t i;

	snprintf(
	    link, sizeof(link), "link add bst0 type veth peer name bst1 netns %d", (int)holder);
	if (!ip(ours, link))
		return false;
	for (i = 0; i < sizeof(there) / sizeof(there[0]); i++)
		if (!ip(theirs, there[i]))
			return false;
	for (i = 0; i < sizeof(here) / sizeof(here[0]); i++)
		if (!ip(ours, here[i]))
			return false;
	return true;
}

bool
netns_enter(void)
{
	char path[64], c;
	int ready[2];
	pid_t holder;
	bool done = false;

	if (!isolate() || pipe2(ready, O_CLOEXEC) != 0)
		return false;
	ours = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if ((holder = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNET) == 0 && write(ready[1], "r", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)holder);
	if (read(ready[0], &c, 1) == 1 && (theirs = open(path, O_RDONLY | O_CLOEXEC)) != -1)
		done = cable(holder);
	close(ready[0]);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	return done;
}

int
netns_listen(const char *address, uint16_t *port)
{
	struct sockaddr_storage at;
	struct address a;
	socklen_t len;
	int fd, one = 1;

	assert_int_equal(address_parse(address, &a), 0);
	len = address_sockaddr(&a, *port, &at);
	assert_int_equal(setns(theirs, CLONE_NEWNET), 0);
	fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setns(ours, CLONE_NEWNET), 0);
	assert_int_not_equal(fd, -1);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 1024), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	/* The port stands at the same place for both families. */
	memcpy(port, (char *)&at + 2, 2);
	*port = (uint16_t)(*port << 8 | *port >> 8);
	return fd;
}

int
netns_run(const char *const *words)
{
	return run(words, theirs);
}

/* ${pid} was made by a fork: the child goes over there, and ends with us. */
static pid_t
over_there(pid_t pid)
{
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setns(theirs, CLONE_NEWNET) != 0)
		_exit(1);
	return 0;
}

pid_t
netns_fork(void)
{
	return over_there(fork());
}

pid_t
netns_terminal(int *fd, unsigned short rows, unsigned short cols)
{
	struct winsize size = {.ws_row = rows, .ws_col = cols};

	return over_there(forkpty(fd, NULL, NULL, &size));
}

pid_t
netns_hold(void)
{
	int ready[2];
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_true((pid = fork()) != -1);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		c = unshare(CLONE_NEWNET) == 0;
		if (write(ready[1], &c, 1) == 1 && c != 0)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		c = 0;
	close(ready[0]);
	if (c != 0)
		return pid;
	waitpid(pid, NULL, 0);
	return -1;
}

void
netns_at(pid_t holder)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)holder);
	assert_true((fd = open(path, O_RDONLY | O_CLOEXEC)) != -1);
	assert_int_equal(setns(fd, CLONE_NEWNET), 0);
	close(fd);
}

bool
netns_shell(pid_t holder, const char *command)
{
	char line[1024];

	snprintf(line, sizeof(line), "nsenter -t %d -n sh -ec '%s' >/dev/null 2>&1", (int)holder,
	    command);
	return system(line) == 0;
}
