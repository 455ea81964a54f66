/* own.c: links, addresses and routes from the kernel. */
#include <sys/socket.h>

#include <errno.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/egress/own.h"

#define UNKNOWN    "egress.own_unknown"
#define BUFFER     65536
#define LINKS_MAX  65536
#define RANGES_MAX 65536

static const char FORGET[] = "DELETE FROM own_address";
static const char ADD[] = "INSERT OR IGNORE INTO own_address (first, last, source, ifname)"
			  " VALUES (:first, :last, :source, :ifname)";
static const char COUNT[] = "SELECT count(*) FROM own_address";
static const char HAS[] = "SELECT 1 FROM own_address WHERE first = :first AND last = :last"
			  " AND source = :source AND ifname = :ifname";

static const char *const sources[] = {"nic", "local_route", "container", "bridge"};

enum link_kind { LINK_OTHER, LINK_INNER, LINK_BRIDGE }; /* inner: veth, tap, dummy */

struct link {
	int index, master;
	enum link_kind kind;
	bool veth;
	bool outer;   /* a bridge with a port that leads out */
	bool way_out; /* carries a default route */
	char name[OWN_IFNAME];
};

struct route {
	struct own_range range;
	int oif;
};

/* What one reading gathers. */
struct reading {
	struct own *own;
	struct link *links;
	size_t nlinks;
	struct route *direct; /* without a gateway */
	size_t ndirect;
};

static struct link *
link_of(const struct reading *g, int index)
{
	size_t i;

	for (i = 0; i < g->nlinks; i++)
		if (g->links[i].index == index)
			return &g->links[i];
	return NULL;
}

static void
range_fill(struct own_range *range, int family, const void *bytes, int length)
{
	int bits = family == AF_INET ? 96 + length : length, i;

	memset(range, 0, sizeof(*range));
	if (family == AF_INET) {
		range->first.b[10] = range->first.b[11] = 0xff;
		if (bytes != NULL)
			memcpy(range->first.b + 12, bytes, 4);
	} else if (bytes != NULL) {
		memcpy(range->first.b, bytes, 16);
	}
	range->last = range->first;
	for (i = bits; i < 128; i++) {
		range->first.b[i / 8] &= (uint8_t) ~(0x80 >> (i % 8));
		range->last.b[i / 8] |= (uint8_t)(0x80 >> (i % 8));
	}
}

static int
range_add(struct reading *g, const struct own_range *range, enum own_source source, int index)
{
	const struct link *link = link_of(g, index);
	struct own_range *grown;

	if (g->own->n >= RANGES_MAX ||
	    (grown = reallocarray(g->own->ranges, g->own->n + 1, sizeof(*grown))) == NULL)
		return -1;
	g->own->ranges = grown;
	grown += g->own->n++;
	*grown = *range;
	grown->source = source;
	snprintf(grown->ifname, sizeof(grown->ifname), "%s", link != NULL ? link->name : "?");
	return 0;
}

/*
 * Messages.
 */

static const struct rtattr *
attribute(const struct rtattr *at, int len, unsigned short type)
{
	for (; RTA_OK(at, len); at = RTA_NEXT(at, len))
		if ((at->rta_type & NLA_TYPE_MASK) == type)
			return at;
	return NULL;
}

static const void *
attribute_data(const struct rtattr *at, int len, unsigned short type, size_t size)
{
	const struct rtattr *found = attribute(at, len, type);

	return found != NULL && RTA_PAYLOAD(found) >= size ? RTA_DATA(found) : NULL;
}

static int
attribute_int(const struct rtattr *at, int len, unsigned short type)
{
	const void *data = attribute_data(at, len, type, sizeof(int));
	int n = 0;

	if (data != NULL)
		memcpy(&n, data, sizeof(n));
	return n;
}

static bool
kind_is(const struct rtattr *kind, const char *name)
{
	size_t len = strlen(name);

	return RTA_PAYLOAD(kind) >= len && memcmp(RTA_DATA(kind), name, len) == 0 &&
	       (RTA_PAYLOAD(kind) == len || ((const char *)RTA_DATA(kind))[len] == '\0');
}

static void
link_kind(struct link *link, const struct rtattr *info)
{
	const struct rtattr *kind;

	if (info == NULL ||
	    (kind = attribute(RTA_DATA(info), (int)RTA_PAYLOAD(info), IFLA_INFO_KIND)) == NULL)
		return;
	link->veth = kind_is(kind, "veth");
	if (link->veth || kind_is(kind, "tun") || kind_is(kind, "dummy"))
		link->kind = LINK_INNER;
	else if (kind_is(kind, "bridge"))
		link->kind = LINK_BRIDGE;
}

static int
on_link(struct reading *g, const struct nlmsghdr *m)
{
	const struct ifinfomsg *info = NLMSG_DATA(m);
	const struct rtattr *at = IFLA_RTA(info), *name;
	int len = (int)IFLA_PAYLOAD(m);
	struct link *grown;

	if (m->nlmsg_type != RTM_NEWLINK || m->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return 0;
	if (g->nlinks >= LINKS_MAX ||
	    (grown = reallocarray(g->links, g->nlinks + 1, sizeof(*grown))) == NULL)
		return -1;
	g->links = grown;
	grown += g->nlinks++;
	memset(grown, 0, sizeof(*grown));
	grown->index = info->ifi_index;
	grown->master = attribute_int(at, len, IFLA_MASTER);
	if ((name = attribute(at, len, IFLA_IFNAME)) != NULL)
		snprintf(grown->name, sizeof(grown->name), "%.*s", (int)RTA_PAYLOAD(name),
		    (const char *)RTA_DATA(name));
	link_kind(grown, attribute(at, len, IFLA_LINKINFO));
	return 0;
}

static int
on_address(struct reading *g, const struct nlmsghdr *m)
{
	const struct ifaddrmsg *info = NLMSG_DATA(m);
	const struct rtattr *at = IFA_RTA(info);
	int len = (int)IFA_PAYLOAD(m);
	size_t size = info->ifa_family == AF_INET ? 4 : 16;
	const void *bytes;
	struct own_range range;

	if (m->nlmsg_type != RTM_NEWADDR || m->nlmsg_len < NLMSG_LENGTH(sizeof(*info)) ||
	    (info->ifa_family != AF_INET && info->ifa_family != AF_INET6))
		return 0;
	/* On a point-to-point link IFA_ADDRESS is the other end. */
	if ((bytes = attribute_data(at, len, IFA_LOCAL, size)) == NULL &&
	    (bytes = attribute_data(at, len, IFA_ADDRESS, size)) == NULL)
		return 0;
	range_fill(&range, info->ifa_family, bytes, (int)size * 8);
	return range_add(g, &range, OWN_NIC, (int)info->ifa_index);
}

static int
direct_add(struct reading *g, const struct own_range *range, int oif)
{
	struct route *grown;

	if (g->ndirect >= RANGES_MAX ||
	    (grown = reallocarray(g->direct, g->ndirect + 1, sizeof(*grown))) == NULL)
		return -1;
	g->direct = grown;
	grown[g->ndirect].range = *range;
	grown[g->ndirect++].oif = oif;
	return 0;
}

/* One way of a route: a default one leads out, one without a gateway leads to whoever is there. */
static int
hop_take(struct reading *g, const struct own_range *range, int length, bool gateway, int oif)
{
	struct link *link = link_of(g, oif);

	if (length == 0) {
		if (link != NULL)
			link->way_out = true;
		return 0;
	}
	return gateway ? 0 : direct_add(g, range, oif);
}

static int
hops_take(struct reading *g, const struct own_range *range, int length, const struct rtattr *hops)
{
	const struct rtnexthop *hop = RTA_DATA(hops);
	int left = (int)RTA_PAYLOAD(hops);

	for (; RTNH_OK(hop, left); hop = RTNH_NEXT(hop)) {
		int len = hop->rtnh_len - (int)sizeof(*hop);
		const struct rtattr *at = RTNH_DATA(hop);
		bool gateway =
		    attribute(at, len, RTA_GATEWAY) != NULL || attribute(at, len, RTA_VIA) != NULL;

		if (hop_take(g, range, length, gateway, hop->rtnh_ifindex) != 0)
			return -1;
		left -= (int)RTNH_ALIGN(hop->rtnh_len);
	}
	return 0;
}

static int
on_route(struct reading *g, const struct nlmsghdr *m)
{
	const struct rtmsg *info = NLMSG_DATA(m);
	const struct rtattr *at = RTM_RTA(info), *hops;
	int len = (int)RTM_PAYLOAD(m), oif, table;
	struct own_range range;
	const void *bytes;

	if (m->nlmsg_type != RTM_NEWROUTE || m->nlmsg_len < NLMSG_LENGTH(sizeof(*info)) ||
	    (info->rtm_family != AF_INET && info->rtm_family != AF_INET6) ||
	    (info->rtm_flags & RTM_F_CLONED) != 0)
		return 0;
	bytes = attribute_data(at, len, RTA_DST, info->rtm_family == AF_INET ? 4 : 16);
	range_fill(&range, info->rtm_family, bytes, info->rtm_dst_len);
	oif = attribute_int(at, len, RTA_OIF);
	table = attribute_int(at, len, RTA_TABLE);
	if (info->rtm_type == RTN_LOCAL || info->rtm_type == RTN_ANYCAST ||
	    info->rtm_type == RTN_BROADCAST)
		return range_add(g, &range, OWN_LOCAL_ROUTE, oif);
	/* A default route of another table is for some packets only. */
	if (info->rtm_type != RTN_UNICAST || (info->rtm_dst_len == 0 && table != RT_TABLE_MAIN))
		return 0;
	if ((hops = attribute(at, len, RTA_MULTIPATH)) != NULL)
		return hops_take(g, &range, info->rtm_dst_len, hops);
	return hop_take(g, &range, info->rtm_dst_len,
	    attribute(at, len, RTA_GATEWAY) != NULL || attribute(at, len, RTA_VIA) != NULL, oif);
}

/*
 * The conversation.
 */

static int
ask(int fd, uint16_t type, unsigned char family)
{
	struct {
		struct nlmsghdr head;
		struct rtgenmsg gen;
	} request = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtgenmsg)),
			 .nlmsg_type = type,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			 .nlmsg_seq = 1},
	    .gen = {.rtgen_family = family}};

	return send(fd, &request, request.head.nlmsg_len, 0) == (ssize_t)request.head.nlmsg_len
		   ? 0
		   : -1;
}

/* Return 1 at the end of the dump, 0 where more comes, -1 on failure. */
static int
take(struct reading *g, const char *buffer, ssize_t n,
    int (*on)(struct reading *, const struct nlmsghdr *))
{
	const struct nlmsghdr *m = (const struct nlmsghdr *)(const void *)buffer;
	unsigned int left = (unsigned int)n;

	for (; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
		/* A dump that something changed under is no picture. */
		if (m->nlmsg_type == NLMSG_ERROR || (m->nlmsg_flags & NLM_F_DUMP_INTR) != 0)
			return -1;
		if (m->nlmsg_type == NLMSG_DONE)
			return 1;
		if (on(g, m) != 0)
			return -1;
	}
	return 0;
}

static int
dump(struct reading *g, int fd, uint16_t type, int (*on)(struct reading *, const struct nlmsghdr *))
{
	char buffer[BUFFER] __attribute__((aligned(8)));
	ssize_t n;
	int rc;

	if (ask(fd, type, AF_UNSPEC) != 0)
		return -1;
	do {
		if ((n = recv(fd, buffer, sizeof(buffer), MSG_TRUNC)) <= 0 ||
		    n > (ssize_t)sizeof(buffer))
			return -1;
	} while ((rc = take(g, buffer, n, on)) == 0);
	return rc == 1 ? 0 : -1;
}

/* A bridge with any port that is no container's leads out. */
static void
bridges_judge(struct reading *g)
{
	struct link *bridge;
	size_t i;

	for (i = 0; i < g->nlinks; i++)
		if (g->links[i].master != 0 && g->links[i].kind != LINK_INNER &&
		    (bridge = link_of(g, g->links[i].master)) != NULL)
			bridge->outer = true;
}

static int
direct_judge(struct reading *g)
{
	const struct link *link;
	size_t i;

	for (i = 0; i < g->ndirect; i++) {
		if ((link = link_of(g, g->direct[i].oif)) == NULL || link->way_out || link->outer ||
		    !(link->veth || link->kind == LINK_BRIDGE))
			continue;
		if (range_add(g, &g->direct[i].range, link->veth ? OWN_CONTAINER : OWN_BRIDGE,
			link->index) != 0)
			return -1;
	}
	return 0;
}

static int
by_range(const void *one, const void *two)
{
	return memcmp(one, two, sizeof(struct own_range));
}

static int
gather(struct reading *g)
{
	const struct timeval patience = {.tv_sec = 2};
	int fd, rc = -1;

	if ((fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) == -1)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
	    dump(g, fd, RTM_GETLINK, on_link) == 0 && dump(g, fd, RTM_GETADDR, on_address) == 0 &&
	    dump(g, fd, RTM_GETROUTE, on_route) == 0) {
		bridges_judge(g);
		rc = direct_judge(g);
	}
	close(fd);
	return rc;
}

int
own_read(struct own *own, struct refusal *r)
{
	struct reading g = {.own = own};

	own_free(own);
	errno = 0;
	own->known = gather(&g) == 0 && own->n > 0;
	free(g.links);
	free(g.direct);
	if (!own->known)
		return refusal_set(r, UNKNOWN,
		    "cannot tell whether that is itself: the kernel does not say what this"
		    " machine's addresses are%s%s",
		    errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
	qsort(own->ranges, own->n, sizeof(*own->ranges), by_range);
	return 0;
}

bool
own_has(const struct own *own, const struct address *a)
{
	size_t i;

	for (i = 0; i < own->n && memcmp(&own->ranges[i].first, a, 16) <= 0; i++)
		if (memcmp(a, &own->ranges[i].last, 16) <= 0)
			return true;
	return false;
}

int
own_watch(struct refusal *r)
{
	const struct sockaddr_nl groups = {.nl_family = AF_NETLINK,
	    .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
			 RTMGRP_IPV6_ROUTE};
	int fd;

	if ((fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) ==
		-1 ||
	    bind(fd, (const struct sockaddr *)(const void *)&groups, sizeof(groups)) != 0) {
		refusal_errno(r, UNKNOWN, "cannot watch this machine's addresses");
		if (fd != -1)
			close(fd);
		return -1;
	}
	return fd;
}

/* Where the kernel had no room for all of it (ENOBUFS), something changed as well. */
bool
own_changed(int fd)
{
	char buffer[4096];
	bool any = false;

	while (recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		any = true;
	return any;
}

static struct stmt *
range_sql(struct store *db, const char *sql, const struct own_range *range)
{
	struct stmt *q;

	if ((q = store_sql(db, sql)) == NULL)
		return NULL;
	stmt_blob(q, ":first", range->first.b, 16);
	stmt_blob(q, ":last", range->last.b, 16);
	stmt_text(q, ":source", sources[range->source]);
	stmt_text(q, ":ifname", range->ifname);
	return q;
}

bool
own_is_stored(struct store *db, const struct own *own)
{
	size_t i, n = own->known ? own->n : 0;

	if (stmt_value(store_sql(db, COUNT), -1) != (int64_t)n)
		return false;
	for (i = 0; i < n; i++)
		if (stmt_value(range_sql(db, HAS, &own->ranges[i]), 0) != 1)
			return false;
	return true;
}

int
own_store(struct store *db, const struct own *own)
{
	struct stmt *q;
	size_t i;

	if ((q = store_sql(db, FORGET)) == NULL || stmt_run(q) != 0)
		return -1;
	for (i = 0; own->known && i < own->n; i++)
		if ((q = range_sql(db, ADD, &own->ranges[i])) == NULL || stmt_run(q) != 0)
			return -1;
	return 0;
}

void
own_free(struct own *own)
{
	free(own->ranges);
	*own = (struct own){.known = false};
}
