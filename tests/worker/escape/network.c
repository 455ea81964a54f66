/* network.c: out by way of sockets. */
#include "escape.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <unistd.h>

/* A listener outside, on loopback: "about" is its port. */
static int
loopback(const char *about)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(about))};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	if (fd == -1 || connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return escaped("a listener outside");
	return held();
}

/* Anything else: there is no way out at all. */
static int
away(const char *about)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
	struct addrinfo *found = NULL, hints = {.ai_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), fd6 = socket(AF_INET6, SOCK_DGRAM, 0);

	(void)about;
	inet_pton(AF_INET, "192.0.2.53", &to.sin_addr);
	inet_pton(AF_INET6, "2001:db8::53", &six.sin6_addr);
	if (fd == -1 || sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) != -1 ||
	    (fd6 != -1 && sendto(fd6, "x", 1, 0, (struct sockaddr *)&six, sizeof(six)) != -1))
		return escaped("a datagram left");
	if (getaddrinfo("example.com", NULL, &hints, &found) == 0)
		return escaped("a name was resolved");
	sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	return held();
}

static int
connect_to(const char *name, int abstract)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), rc;

	snprintf(to.sun_path + abstract, sizeof(to.sun_path) - 1, "%s", name);
	rc = connect(fd, (struct sockaddr *)&to,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)abstract + strlen(name) +
			(abstract ? 0 : 1)));
	return rc;
}

/* An abstract socket has no file that could be hidden: "about" is its name. */
static int
abstract(const char *about)
{
	return connect_to(about, 1) == 0 ? escaped("an abstract socket outside") : held();
}

/* A socket with a file. */
static int
named(const char *about)
{
	return connect_to(about, 0) == 0 ? escaped("a socket outside") : held();
}

/* Families and kinds that no network namespace holds, or that need a fault to be of use. */
static int
families(const char *about)
{
	static const int list[] = {AF_PACKET, 40 /* vsock */, AF_ALG, AF_BLUETOOTH, AF_TIPC, AF_CAN,
	    AF_KEY, AF_RDS, AF_APPLETALK, AF_IPX, AF_X25, AF_NFC, AF_PPPOX, 44 /* XDP */, AF_LLC};
	static const int talks[] = {NETLINK_NETFILTER, NETLINK_AUDIT, NETLINK_KOBJECT_UEVENT,
	    NETLINK_CONNECTOR, NETLINK_XFRM, NETLINK_GENERIC, NETLINK_SOCK_DIAG};
	size_t i;

	(void)about;
	for (i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (socket(list[i], SOCK_RAW, 0) != -1 || socket(list[i], SOCK_DGRAM, 0) != -1 ||
		    socket(list[i], SOCK_STREAM, 0) != -1 ||
		    socket(list[i], SOCK_SEQPACKET, 0) != -1)
			return escaped("a family of sockets");
	for (i = 0; i < sizeof(talks) / sizeof(talks[0]); i++)
		if (socket(AF_NETLINK, SOCK_RAW, talks[i]) != -1)
			return escaped("a way to talk to the kernel");
	return held();
}

static int
raw(const char *about)
{
	(void)about;
	if (socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) != -1 ||
	    socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6) != -1 ||
	    socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP) != -1)
		return escaped("raw packets");
	return held();
}

/* A new device in the network, or the one there is, changed. */
static int
links(const char *about)
{
	struct {
		struct nlmsghdr n;
		struct ifinfomsg i;
	} ask = {.n = {.nlmsg_len = sizeof(ask),
		     .nlmsg_type = RTM_SETLINK,
		     .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
	    .i = {.ifi_index = 1, .ifi_change = IFF_UP}};
	struct {
		struct nlmsghdr n;
		struct nlmsgerr e;
		char room[512];
	} answer;
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = 0};
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	(void)about;
	if (fd == -1 || send(fd, &ask, sizeof(ask), 0) == -1 ||
	    recv(fd, &answer, sizeof(answer), 0) <= 0)
		return escaped("no answer, so nothing was tried");
	if (answer.n.nlmsg_type == NLMSG_ERROR && answer.e.error == 0)
		return escaped("a device was changed");
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (ioctl(fd, SIOCSIFFLAGS, &lo) == 0)
		return escaped("a device was changed");
	return held();
}

int
main(int argc, char **argv)
{
	static const struct attempt list[] = {{"loopback", loopback}, {"away", away},
	    {"abstract", abstract}, {"named", named}, {"families", families}, {"raw", raw},
	    {"links", links}, {NULL, NULL}};

	return attempt(list, argc, argv);
}
