/* inside.c: addresses that stand for names. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/netfilter_ipv4.h>

#include "net/egress/accept.h"
#include "net/egress/dns.h"
#include "net/egress/inside.h"

#define STAND     0xc6120000U /* 198.18.0.0/15 (RFC 2544): nobody is there, and no lane goes there */
#define STAND_MAX 0x1ffffU
#define TURN      64 /* questions or connections before others have their turn */

struct inside {
	struct inside_config config;
	struct acceptor caught;
	char **names;    /* of address STAND + 1 + index */
	uint32_t *table; /* index + 1, by hash of the name; 0: free */
	size_t count, slots;
};

/*
 * Names.
 */

static size_t
slot_of(const struct inside *in, const char *name)
{
	uint64_t h = 0xcbf29ce484222325U; /* FNV-1a: the program that asks slows down itself */
	const char *at;
	size_t i;

	for (at = name; *at != '\0'; at++)
		h = (h ^ (uint8_t)*at) * 0x100000001b3U;
	for (i = h & (in->slots - 1); in->table[i] != 0; i = (i + 1) & (in->slots - 1))
		if (strcmp(in->names[in->table[i] - 1], name) == 0)
			break;
	return i;
}

int
inside_address(struct inside *in, const char *name, struct address *address)
{
	size_t slot = slot_of(in, name);
	uint32_t ip;

	if (in->table[slot] == 0) {
		if (in->count == in->config.names || (in->names[in->count] = strdup(name)) == NULL)
			return -1;
		in->table[slot] = (uint32_t)++in->count;
	}
	ip = htonl(STAND + in->table[slot]);
	*address = (struct address){{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}};
	memcpy(address->b + 12, &ip, sizeof(ip));
	return 0;
}

const char *
inside_name(const struct inside *in, const struct address *address)
{
	uint32_t ip;

	if (!address_is_ipv4(address))
		return NULL;
	memcpy(&ip, address->b + 12, sizeof(ip));
	ip = ntohl(ip) - STAND;
	return ip >= 1 && ip <= in->count ? in->names[ip - 1] : NULL;
}

/*
 * Questions.
 */

static size_t
answer(struct inside *in, const uint8_t *message, size_t len, uint8_t out[DNS_MESSAGE_MAX])
{
	struct dns_question q;
	struct address address;

	if (dns_read(message, len, &q) != 0)
		return 0;
	if (q.host.text[0] == '\0')
		return dns_answer(message, &q, DNS_NO_NAME, NULL, out);
	if (q.type != DNS_A || q.class != 1)
		return dns_answer(message, &q, DNS_OK, NULL, out);
	if (inside_address(in, q.host.text, &address) != 0)
		return dns_answer(message, &q, DNS_FAILED, NULL, out);
	return dns_answer(message, &q, DNS_OK, &address, out);
}

/* Take one question and answer it from the address that was asked.  Return 0, or -1 where there is
 * none. */
static int
question(struct inside *in)
{
	uint8_t asked[DNS_MESSAGE_MAX + 1], said[DNS_MESSAGE_MAX];
	union {
		char buf[CMSG_SPACE(sizeof(struct in_pktinfo))];
		struct cmsghdr align;
	} control;
	struct sockaddr_in from;
	struct iovec iov = {.iov_base = asked, .iov_len = sizeof(asked)};
	struct msghdr m = {.msg_name = &from,
	    .msg_namelen = sizeof(from),
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.buf,
	    .msg_controllen = sizeof(control.buf)};
	struct in_pktinfo *info;
	ssize_t n = recvmsg(in->config.dns, &m, MSG_DONTWAIT);
	size_t len;

	if (n == -1)
		return errno == EINTR ? 0 : -1;
	if ((len = answer(in, asked, (size_t)n, said)) == 0 || CMSG_FIRSTHDR(&m) == NULL)
		return 0;
	info = (struct in_pktinfo *)(void *)CMSG_DATA(CMSG_FIRSTHDR(&m));
	info->ipi_spec_dst = info->ipi_addr;
	info->ipi_ifindex = 0;
	iov = (struct iovec){.iov_base = said, .iov_len = len};
	/* Who does not take it asks again. */
	if (sendmsg(in->config.dns, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == -1)
		return 0;
	return 0;
}

static void
on_question(void *ctx, uint32_t events)
{
	int i;

	(void)events;
	for (i = 0; i < TURN && question(ctx) == 0; i++)
		continue;
}

/*
 * Connections.
 */

/* Where ${fd} wanted to go, on the word of the kernel inside. */
static int
wanted(const struct inside *in, int fd, struct authority *to)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	const char *name;

	memset(to, 0, sizeof(*to));
	if (getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &at, &len) != 0 || at.sin_family != AF_INET)
		return -1;
	to->port = ntohs(at.sin_port);
	to->host.kind = ENDPOINT_IPV4;
	to->host.address = (struct address){{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}};
	memcpy(to->host.address.b + 12, &at.sin_addr, 4);
	if ((name = inside_name(in, &to->host.address)) != NULL)
		return host_read(name, strlen(name), &to->host, NULL);
	address_text(&to->host.address, to->host.text);
	return 0;
}

static void
on_caught(void *ctx, int fd, const struct sockaddr_in *from)
{
	struct inside *in = ctx;
	struct authority to;

	(void)from;
	if (wanted(in, fd, &to) == 0 && to.port != 0)
		proxy_catch(in->config.proxy, fd, &in->config.who, &to);
	else
		close(fd);
}

/*
 * Its life.
 */

static int
watch(struct inside *in)
{
	const struct inside_config *c = &in->config;

	if (c->dns != -1 && loop_add(c->loop, c->dns, EPOLLIN, on_question, in) != 0)
		return -1;
	return c->caught == -1 ? 0
			       : accept_begin(&in->caught, c->loop, c->caught, TURN, on_caught, in);
}

struct inside *
inside_new(const struct inside_config *config, struct refusal *r)
{
	struct inside *in = calloc(1, sizeof(*in));

	if (in != NULL) {
		in->config = *config;
		if (in->config.names > STAND_MAX - 1)
			in->config.names = STAND_MAX - 1;
		for (in->slots = 64; in->slots < 2 * in->config.names; in->slots *= 2)
			continue;
		in->names = calloc(in->config.names + 1, sizeof(*in->names));
		in->table = calloc(in->slots, sizeof(*in->table));
	}
	if (in == NULL || in->names == NULL || in->table == NULL || watch(in) != 0) {
		refusal_errno(r, "socket.bind", "names inside cannot be served");
		inside_free(in);
		return NULL;
	}
	return in;
}

static void
leave(struct inside *in, int fd)
{
	if (fd == -1)
		return;
	loop_del(in->config.loop, fd);
	close(fd);
}

void
inside_free(struct inside *in)
{
	size_t i;

	if (in == NULL)
		return;
	leave(in, in->config.dns);
	accept_end(&in->caught);
	leave(in, in->config.caught);
	for (i = 0; i < in->count; i++)
		free(in->names[i]);
	free(in->names);
	free(in->table);
	free(in);
}
