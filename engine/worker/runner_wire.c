/* runner_wire.c: messages with descriptors. */
#include <sys/socket.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/runner_wire.h"

/* Room for more descriptors than are ever sent: what is too many is closed, not lost. */
#define PASSED_MAX (WIRE_FDS_MAX + 4)

union control {
	char buf[CMSG_SPACE(PASSED_MAX * sizeof(int))];
	struct cmsghdr align;
};

int
runner_wire_send_all(int fd, const void *message, size_t len, const int *pass, size_t n)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)message, .iov_len = len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	union control control;
	ssize_t sent;

	if (n > 0) {
		memset(&control, 0, sizeof(control));
		m.msg_control = control.buf;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), pass, n * sizeof(int));
	}
	do {
		sent = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent == -1 && errno == EINTR);
	return sent == (ssize_t)len ? 0 : -1;
}

int
runner_wire_send(int fd, const struct runner_wire_request *request, int pass)
{
	return runner_wire_send_all(fd, request, sizeof(*request), &pass, pass != -1);
}

/* Keep at most ${max} of the descriptors that came with ${m}, and close the others. */
static void
take_fds(struct msghdr *m, int *passed, size_t max, size_t *count)
{
	struct cmsghdr *c;
	size_t i, n;
	int one;

	*count = 0;
	for (c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof(one));
			if (*count < max)
				passed[(*count)++] = one;
			else
				close(one);
		}
	}
}

/* As runner_wire_receive_all, keeping at most ${max} descriptors. */
static int
receive(int fd, void *message, size_t len, int *passed, size_t max, size_t *n, int flags)
{
	struct iovec iov = {.iov_base = message, .iov_len = len};
	union control control;
	struct msghdr m = {
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.buf,
	    .msg_controllen = sizeof(control.buf),
	};
	ssize_t got;

	*n = 0;
	got = recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC);
	if (got == -1 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0)
		return -1;
	take_fds(&m, passed, max, n);
	if (got == (ssize_t)len && (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
		return 1;
	while (*n > 0)
		close(passed[--*n]);
	return 0;
}

int
runner_wire_receive_all(
    int fd, void *message, size_t len, int passed[WIRE_FDS_MAX], size_t *n, int flags)
{
	return receive(fd, message, len, passed, WIRE_FDS_MAX, n, flags);
}

int
runner_wire_receive(int fd, struct runner_wire_request *request, int *passed, int flags)
{
	size_t n;
	int rc = receive(fd, request, sizeof(*request), passed, 1, &n, flags);

	if (n == 0)
		*passed = -1;
	return rc;
}
