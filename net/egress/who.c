/* who.c: the kernel is asked for the socket at the other end. */
#include <sys/socket.h>
#include <sys/time.h>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "net/egress/who.h"

int
who_unix(int fd, uid_t *uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == -1)
		return -1;
	*uid = cred.uid;
	return 0;
}

int
who_open(void)
{
	const struct timeval patience = {.tv_sec = 1};
	int fd;

	if ((fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) == -1)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0)
		return fd;
	close(fd);
	return -1;
}

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 ask;
};

/* The socket is asked for as its owner has it: from its own address to the other. */
static void
question_fill(
    struct question *q, const struct sockaddr_in *at, const struct sockaddr_in *from, uint32_t seq)
{
	memset(q, 0, sizeof(*q));
	q->head = (struct nlmsghdr){.nlmsg_len = sizeof(*q),
	    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
	    .nlmsg_flags = NLM_F_REQUEST,
	    .nlmsg_seq = seq};
	q->ask.sdiag_family = AF_INET;
	q->ask.sdiag_protocol = IPPROTO_TCP;
	q->ask.idiag_states = ~0U;
	q->ask.id.idiag_sport = from->sin_port;
	q->ask.id.idiag_dport = at->sin_port;
	q->ask.id.idiag_src[0] = from->sin_addr.s_addr;
	q->ask.id.idiag_dst[0] = at->sin_addr.s_addr;
	q->ask.id.idiag_cookie[0] = q->ask.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
}

/* A socket without an inode is nobody's: closed already, or waiting its time out, as uid 0. */
static int
answer_read(const struct nlmsghdr *m, const struct question *q, uid_t *uid)
{
	const struct inet_diag_msg *found = NLMSG_DATA(m);

	if (m->nlmsg_type != SOCK_DIAG_BY_FAMILY || m->nlmsg_len < NLMSG_LENGTH(sizeof(*found)) ||
	    found->idiag_inode == 0 || found->id.idiag_sport != q->ask.id.idiag_sport ||
	    found->id.idiag_dport != q->ask.id.idiag_dport ||
	    found->id.idiag_src[0] != q->ask.id.idiag_src[0] ||
	    found->id.idiag_dst[0] != q->ask.id.idiag_dst[0])
		return -1;
	*uid = found->idiag_uid;
	return 0;
}

int
who_tcp(int diag, const struct sockaddr_in *at, const struct sockaddr_in *from, uid_t *uid)
{
	static uint32_t seq;
	char buffer[4096] __attribute__((aligned(8)));
	const struct nlmsghdr *m = (const struct nlmsghdr *)(const void *)buffer;
	struct question q;
	ssize_t n;

	question_fill(&q, at, from, ++seq);
	if (send(diag, &q, sizeof(q), 0) != (ssize_t)sizeof(q))
		return -1;
	do {
		if ((n = recv(diag, buffer, sizeof(buffer), 0)) <= 0 || !NLMSG_OK(m, (size_t)n))
			return -1;
	} while (m->nlmsg_seq != seq);
	return answer_read(m, &q, uid);
}
