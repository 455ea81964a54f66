/*
 * sandbox_net.c: the network inside: a loopback, listeners on it, and, where the plan says so,
 * every address of the internet on it, so that what is meant for them comes to a listener.
 */
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <net/if.h>
#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <unistd.h>

#include "engine/worker/sandbox_job.h"

#define TABLE   "bastion"
#define CHAIN   "out"
#define MESSAGE 2048
#define BACKLOG 4096

/* A netlink message, or several, as they are written. */
struct writer {
	char bytes[MESSAGE] __attribute__((aligned(8)));
	size_t len, message; /* where the last message begins */
	uint32_t seq;
};

static void *
put(struct writer *w, const void *bytes, size_t len)
{
	void *at = w->bytes + w->len;

	if (w->len + NLMSG_ALIGN(len) > MESSAGE)
		__builtin_trap(); /* all that is written is of this file */
	if (bytes != NULL)
		memcpy(at, bytes, len);
	w->len += NLMSG_ALIGN(len);
	return at;
}

static struct nlmsghdr *
head_of(struct writer *w)
{
	return (struct nlmsghdr *)(void *)(w->bytes + w->message);
}

static void
begin(struct writer *w, uint16_t type, uint16_t flags, const void *head, size_t len)
{
	struct nlmsghdr h = {.nlmsg_type = type,
	    .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
	    .nlmsg_seq = ++w->seq};

	w->message = w->len;
	put(w, &h, sizeof(h));
	put(w, head, len);
}

static void
end(struct writer *w)
{
	head_of(w)->nlmsg_len = (uint32_t)(w->len - w->message);
}

static void
attribute(struct writer *w, uint16_t type, const void *bytes, size_t len)
{
	struct nlattr a = {.nla_type = type, .nla_len = (uint16_t)(NLA_HDRLEN + len)};

	put(w, &a, sizeof(a));
	put(w, bytes, len);
}

static void
attribute_text(struct writer *w, uint16_t type, const char *text)
{
	attribute(w, type, text, strlen(text) + 1);
}

static void
attribute_u32(struct writer *w, uint16_t type, uint32_t value)
{
	value = htonl(value);
	attribute(w, type, &value, sizeof(value));
}

static size_t
nest(struct writer *w, uint16_t type)
{
	size_t at = w->len;

	attribute(w, (uint16_t)(type | NLA_F_NESTED), NULL, 0);
	return at;
}

static void
nest_end(struct writer *w, size_t at)
{
	struct nlattr *a = (struct nlattr *)(void *)(w->bytes + at);

	a->nla_len = (uint16_t)(w->len - at);
}

/* Send what was written and hear what the kernel says of each message that asked for an answer. */
static int
talk(const struct writer *w, int protocol, int answers)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	char heard[4096] __attribute__((aligned(8)));
	const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)heard;
	const struct nlmsgerr *e = NLMSG_DATA(h);
	int fd, rc = 0;
	ssize_t n;

	if ((fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)) == -1)
		return -1;
	if (sendto(fd, w->bytes, w->len, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) == -1)
		rc = -1;
	for (; rc == 0 && answers > 0; answers--)
		if ((n = recv(fd, heard, sizeof(heard), 0)) < (ssize_t)NLMSG_LENGTH(sizeof(*e)) ||
		    h->nlmsg_type != NLMSG_ERROR || e->error != 0)
			rc = -1;
	close(fd);
	return rc;
}

/*
 * Every address.
 */

static int
route_all(int index)
{
	const struct rtmsg r = {.rtm_family = AF_INET,
	    .rtm_table = RT_TABLE_LOCAL,
	    .rtm_protocol = RTPROT_STATIC,
	    .rtm_scope = RT_SCOPE_HOST,
	    .rtm_type = RTN_LOCAL};
	struct writer w = {.seq = 0};

	begin(&w, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK, &r, sizeof(r));
	attribute(&w, RTA_OIF, &index, sizeof(index));
	end(&w);
	return talk(&w, NETLINK_ROUTE, 1);
}

/*
 * nftables: nat output, tcp, not to 127.0.0.0/8: redirect to a port.
 */

static void
nft(struct writer *w, uint16_t type, uint16_t flags)
{
	const struct nfgenmsg g = {.nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0};

	begin(w, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &g, sizeof(g));
}

static void
nft_batch(struct writer *w, uint16_t type)
{
	const struct nfgenmsg g = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};

	begin(w, type, 0, &g, sizeof(g));
	end(w);
}

/* An expression of a rule: its name, then its own attributes, up to expression_end. */
struct expression {
	size_t element, data;
};

static struct expression
expression(struct writer *w, const char *name)
{
	struct expression e = {.element = nest(w, NFTA_LIST_ELEM)};

	attribute_text(w, NFTA_EXPR_NAME, name);
	e.data = nest(w, NFTA_EXPR_DATA);
	return e;
}

static void
expression_end(struct writer *w, struct expression e)
{
	nest_end(w, e.data);
	nest_end(w, e.element);
}

static void
value(struct writer *w, uint16_t type, const void *bytes, size_t len)
{
	size_t at = nest(w, type);

	attribute(w, NFTA_DATA_VALUE, bytes, len);
	nest_end(w, at);
}

static void
compare(struct writer *w, uint32_t op, const void *bytes, size_t len)
{
	struct expression e = expression(w, "cmp");

	attribute_u32(w, NFTA_CMP_SREG, NFT_REG_1);
	attribute_u32(w, NFTA_CMP_OP, op);
	value(w, NFTA_CMP_DATA, bytes, len);
	expression_end(w, e);
}

static void
is_tcp(struct writer *w)
{
	static const uint8_t tcp = IPPROTO_TCP;
	struct expression e = expression(w, "meta");

	attribute_u32(w, NFTA_META_KEY, NFT_META_L4PROTO);
	attribute_u32(w, NFTA_META_DREG, NFT_REG_1);
	expression_end(w, e);
	compare(w, NFT_CMP_EQ, &tcp, sizeof(tcp));
}

static void
is_not_loopback(struct writer *w)
{
	static const uint8_t loopback[1] = {127};
	struct expression e = expression(w, "payload");

	attribute_u32(w, NFTA_PAYLOAD_DREG, NFT_REG_1);
	attribute_u32(w, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	attribute_u32(w, NFTA_PAYLOAD_OFFSET, 16); /* of the destination in an IPv4 header */
	attribute_u32(w, NFTA_PAYLOAD_LEN, sizeof(loopback));
	expression_end(w, e);
	compare(w, NFT_CMP_NEQ, loopback, sizeof(loopback));
}

static void
redirect(struct writer *w, uint16_t port)
{
	const uint16_t wire = htons(port);
	struct expression e = expression(w, "immediate");

	attribute_u32(w, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	value(w, NFTA_IMMEDIATE_DATA, &wire, sizeof(wire));
	expression_end(w, e);
	e = expression(w, "redir");
	attribute_u32(w, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
	expression_end(w, e);
}

static void
chain(struct writer *w)
{
	size_t hook;

	nft(w, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK);
	attribute_text(w, NFTA_CHAIN_TABLE, TABLE);
	attribute_text(w, NFTA_CHAIN_NAME, CHAIN);
	hook = nest(w, NFTA_CHAIN_HOOK);
	attribute_u32(w, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
	attribute_u32(w, NFTA_HOOK_PRIORITY, (uint32_t)NF_IP_PRI_NAT_DST);
	nest_end(w, hook);
	attribute_text(w, NFTA_CHAIN_TYPE, "nat");
	end(w);
}

static int
catch_to(uint16_t port)
{
	struct writer w = {.seq = 0};
	size_t list;

	nft_batch(&w, NFNL_MSG_BATCH_BEGIN);
	nft(&w, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_ACK);
	attribute_text(&w, NFTA_TABLE_NAME, TABLE);
	end(&w);
	chain(&w);
	nft(&w, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK);
	attribute_text(&w, NFTA_RULE_TABLE, TABLE);
	attribute_text(&w, NFTA_RULE_CHAIN, CHAIN);
	list = nest(&w, NFTA_RULE_EXPRESSIONS);
	is_tcp(&w);
	is_not_loopback(&w);
	redirect(&w, port);
	nest_end(&w, list);
	end(&w);
	nft_batch(&w, NFNL_MSG_BATCH_END);
	return talk(&w, NETLINK_NETFILTER, 3);
}

/*
 * Listeners.
 */

static int
listener_open(const struct sandbox_listener *l)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
	    .sin_port = htons(l->port),
	    .sin_addr.s_addr = htonl(l->any ? INADDR_ANY : INADDR_LOOPBACK)};
	int one = 1, type = l->datagram ? SOCK_DGRAM : SOCK_STREAM;
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd == -1)
		return -1;
	/* Where an answer has to come from. */
	if ((!l->datagram || setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one)) == 0) &&
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
	    (l->datagram || listen(fd, BACKLOG) == 0))
		return fd;
	close(fd);
	return -1;
}

/* Return its index, or -1. */
static int
loopback_up(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd, index = -1;

	if ((fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) == -1)
		return -1;
	if (ioctl(fd, SIOCSIFFLAGS, &lo) == 0 && ioctl(fd, SIOCGIFINDEX, &lo) == 0)
		index = lo.ifr_ifindex;
	close(fd);
	return index;
}

int
sandbox_net(const struct sandbox_job *job, int fds[SANDBOX_LISTENERS])
{
	const struct sandbox_plan *plan = job->plan;
	const struct sandbox_listener *l;
	int index;
	size_t i;

	if (plan->net == SANDBOX_NET_HOST)
		return 0;
	if ((index = loopback_up()) == -1)
		return -1;
	if (plan->net == SANDBOX_NET_CAUGHT && route_all(index) != 0)
		return -1;
	for (i = 0; i < plan->listener_count; i++) {
		l = &plan->listeners[i];
		/* A kernel without nftables: what does not know of the others reaches nothing. */
		if (l->catch && catch_to(l->port) != 0)
			fds[i] = -1;
		else if ((fds[i] = listener_open(l)) == -1)
			return -1;
	}
	return 0;
}
