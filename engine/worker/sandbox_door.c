/* sandbox_door.c: a process that enters the network of a sandbox and makes sockets there. */
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>

#include "engine/worker/runner_wire.h"
#include "engine/worker/sandbox_door.h"

/* Enter the network of ${listener}, by way of the user namespace that owns it.  Return 0 or -1. */
static int
enter(int listener)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}, {0}};
	int net, owner;

	if ((net = ioctl(listener, SIOCGSKNS)) == -1 || (owner = ioctl(net, NS_GET_USERNS)) == -1 ||
	    setns(owner, CLONE_NEWUSER) == -1 || setns(net, CLONE_NEWNET) == -1)
		return -1;
	/* The rights that came with it are of no use for what is left to do. */
	return (int)syscall(SYS_capset, &head, none);
}

static void __attribute__((noreturn)) serve(int listener, int fd)
{
	sigset_t all;
	int sock;
	char c;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || enter(listener) == -1)
		_exit(1);
	/* Two descriptors are left, and no more is ever needed than one beside them. */
	if (dup3(fd, 0, O_CLOEXEC) == -1 || close_range(1, ~0U, 0) == -1 ||
	    send(0, "", 1, MSG_NOSIGNAL) != 1)
		_exit(1);
	while (recv(0, &c, 1, 0) == 1) {
		sock = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (runner_wire_send_all(0, "", 1, &sock, sock != -1) != 0)
			break;
		if (sock != -1)
			close(sock);
	}
	_exit(0);
}

int
sandbox_door_open(struct sandbox_door *door, int listener)
{
	int pair[2];
	char c;

	door->fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		return -1;
	if ((door->pid = fork()) == 0) {
		close(pair[0]);
		serve(listener, pair[1]);
	}
	close(pair[1]);
	if (door->pid == -1) {
		close(pair[0]);
		return -1;
	}
	door->fd = pair[0];
	if (recv(door->fd, &c, 1, 0) == 1)
		return 0;
	sandbox_door_close(door);
	errno = EPERM;
	return -1;
}

int
sandbox_door_socket(const struct sandbox_door *door)
{
	int passed[WIRE_FDS_MAX];
	size_t n = 0;
	char c;

	if (send(door->fd, "", 1, MSG_NOSIGNAL) != 1 ||
	    runner_wire_receive_all(door->fd, &c, 1, passed, &n, 0) != 1 || n != 1)
		return -1;
	return passed[0];
}

void
sandbox_door_close(struct sandbox_door *door)
{
	if (door->fd == -1)
		return;
	close(door->fd);
	door->fd = -1;
	while (waitpid(door->pid, NULL, 0) == -1 && errno == EINTR)
		continue;
}
