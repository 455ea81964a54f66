/* runner_wire.c: messages with a descriptor. */
#include <sys/socket.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/runner_wire.h"

/* Room for more descriptors than are ever sent: what is too many is closed, not lost. */
#define PASSED_MAX 4

union control {
	char buf[CMSG_SPACE(PASSED_MAX * sizeof(int))];
	struct cmsghdr align;
};

int
runner_wire_send(int fd, const struct runner_wire_request *request, int pass)
{
	struct runner_wire_request copy = *request;
	struct iovec iov = {.iov_base = &copy, .iov_len = sizeof(copy)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	union control control;
	ssize_t n;

	if (pass != -1) {
		memset(&control, 0, sizeof(control));
		m.msg_control = control.buf;
		m.msg_controllen = CMSG_SPACE(sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass, sizeof(pass));
	}
	do {
		n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n == -1 && errno == EINTR);
	return n == (ssize_t)sizeof(copy) ? 0 : -1;
}

/* The first descriptor that came with ${m}, or -1. */
static int
take_fd(struct msghdr *m)
{
	struct cmsghdr *c;
	int fd = -1, one;
	size_t i, n;

	for (c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof(one));
			if (fd == -1)
				fd = one;
			else
				close(one);
		}
	}
	return fd;
}

int
runner_wire_receive(int fd, struct runner_wire_request *request, int *passed, int flags)
{
	struct iovec iov = {.iov_base = request, .iov_len = sizeof(*request)};
	union control control;
	struct msghdr m = {
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.buf,
	    .msg_controllen = sizeof(control.buf),
	};
	ssize_t n;

	*passed = -1;
	n = recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	*passed = take_fd(&m);
	if (n == (ssize_t)sizeof(*request) && (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
		return 1;
	if (*passed != -1)
		close(*passed);
	*passed = -1;
	return 0;
}
