/* listener.c: read the lines of ss. */
#include <arpa/inet.h>

#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "engine/worker/listener.h"

static int
is_loopback(const struct listener_dial *d)
{
	if (d->to.any.sa_family == AF_INET)
		return ntohl(d->to.v4.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&d->to.v6.sin6_addr);
}

static int
same_address(const struct listener_dial *d, const struct sockaddr *a)
{
	const void *in6;

	if (a == NULL || a->sa_family != d->to.any.sa_family)
		return 0;
	if (a->sa_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
			   &d->to.v4.sin_addr, sizeof(struct in_addr)) == 0;
	in6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
	return memcmp(in6, &d->to.v6.sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* Does an interface hold this address?  A socket may be bound to one that another machine has. */
static int
is_own(struct listener_dial *d)
{
	struct ifaddrs *all, *i;
	int own = 0;

	if (getifaddrs(&all) == -1)
		return 0;
	for (i = all; i != NULL && !own; i = i->ifa_next) {
		own = same_address(d, i->ifa_addr);
		if (own && d->to.any.sa_family == AF_INET6 &&
		    IN6_IS_ADDR_LINKLOCAL(&d->to.v6.sin6_addr))
			d->to.v6.sin6_scope_id = if_nametoindex(i->ifa_name);
	}
	freeifaddrs(all);
	return own;
}

static void
add(struct listener *l, int family, const char *address)
{
	struct listener_dial *d = &l->dials[l->ndials];
	int i;

	if (l->ndials == LISTENER_DIALS_MAX)
		return;
	memset(d, 0, sizeof(*d));
	d->to.any.sa_family = (sa_family_t)family;
	if (family == AF_INET) {
		d->len = sizeof(d->to.v4);
		d->to.v4.sin_port = htons(l->port);
		if (inet_pton(AF_INET, address, &d->to.v4.sin_addr) != 1)
			return;
	} else {
		d->len = sizeof(d->to.v6);
		d->to.v6.sin6_port = htons(l->port);
		if (inet_pton(AF_INET6, address, &d->to.v6.sin6_addr) != 1)
			return;
	}
	d->loopback = is_loopback(d);
	if (!d->loopback && !is_own(d))
		return;
	for (i = 0; i < l->ndials; i++) {
		if (same_address(d, &l->dials[i].to.any))
			return;
	}
	l->ndials++;
}

/* ${local} is "0.0.0.0", "*", "[::]", "127.0.0.53%lo", "[fe80::1]%eth0" …, without the port. */
static void
add_local(struct listener *l, char *local)
{
	char *zone;

	if ((zone = strchr(local, '%')) != NULL)
		*zone = '\0';
	if (local[0] == '[') {
		local++;
		local[strcspn(local, "]")] = '\0';
	}
	l->found++;
	if (strcmp(local, "*") == 0) {
		add(l, AF_INET, "127.0.0.1");
		add(l, AF_INET6, "::1");
	} else if (strcmp(local, "0.0.0.0") == 0) {
		add(l, AF_INET, "127.0.0.1");
	} else if (strcmp(local, "::") == 0) {
		add(l, AF_INET6, "::1");
	} else if (strncmp(local, "::ffff:", 7) == 0) {
		add(l, AF_INET, local + 7);
	} else {
		add(l, strchr(local, ':') != NULL ? AF_INET6 : AF_INET, local);
	}
}

void
listener_line(struct listener *l, const char *line, size_t len)
{
	char copy[256], *word, *rest, *colon, *end;
	long port;
	int i;

	if (len >= sizeof(copy))
		return;
	memcpy(copy, line, len);
	copy[len] = '\0';
	word = strtok_r(copy, " ", &rest);
	if (word == NULL || strcmp(word, "LISTEN") != 0)
		return;
	/* State, Recv-Q, Send-Q, Local Address:Port. */
	for (i = 0; i < 3 && word != NULL; i++)
		word = strtok_r(NULL, " ", &rest);
	if (word == NULL || (colon = strrchr(word, ':')) == NULL)
		return;
	port = strtol(colon + 1, &end, 10);
	if (end == colon + 1 || *end != '\0' || port != l->port)
		return;
	*colon = '\0';
	add_local(l, word);
}

void
listener_sort(struct listener *l)
{
	struct listener_dial d;
	int i, first = 0;

	for (i = 0; i < l->ndials; i++) {
		if (!l->dials[i].loopback)
			continue;
		d = l->dials[i];
		memmove(&l->dials[first + 1], &l->dials[first], (size_t)(i - first) * sizeof(d));
		l->dials[first++] = d;
	}
}
