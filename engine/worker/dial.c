/* dial.c: a name to all of its addresses, and whether it is still that name. */
#include <sys/socket.h>

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "engine/worker/dial.h"

static const char DESTINATION[] =
    "SELECT json_object('destination', json_object('host', ?1, 'port', ?2,"
    "  'addresses', (SELECT json_group_array(name) FROM (SELECT name FROM item GROUP BY name"
    "    ORDER BY min(rowid)))))";

static int
add(struct work *w, const struct sockaddr *at)
{
	struct address a = {.b = {[10] = 0xff, [11] = 0xff}};
	char text[ADDRESS_TEXT_MAX + 1];

	if (at->sa_family == AF_INET)
		memcpy(a.b + 12, &((const struct sockaddr_in *)(const void *)at)->sin_addr, 4);
	else if (at->sa_family == AF_INET6)
		memcpy(a.b, &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr, 16);
	else
		return 0;
	address_text(&a, text);
	return work_item(w, "", text);
}

/* All that the name leads to, also what this machine has no route to: each is judged. */
static int
add_all(struct work *w, const char *name)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all, *one;
	int rc;

	if ((rc = getaddrinfo(name, NULL, &hints, &all)) != 0)
		return refusal_set(&w->refusal, "egress.resolve", "could not resolve that name: %s",
		    gai_strerror(rc));
	for (one = all; one != NULL && rc == 0; one = one->ai_next)
		rc = add(w, one->ai_addr);
	freeaddrinfo(all);
	return rc == 0 ? 0 : -1;
}

int
dial_look(struct work *w, const struct destination *d)
{
	if (work_items(w) != 0 ||
	    (d->host.kind == ENDPOINT_NAME ? add_all(w, d->host.text)
					   : work_item(w, "", d->host.text)) != 0)
		return -1;
	return answer_result(w->out, DESTINATION, "ti", d->host.text, (int64_t)d->port);
}

int
dial_holds(struct work *w, const struct destination *d)
{
	char begin[ENDPOINT_HOST_MAX + 16];
	int n = snprintf(begin, sizeof(begin), "%s:%d:", d->host.text, d->port);

	if (strncmp(w->args->pin, begin, (size_t)n) == 0)
		return 0;
	return refusal_set(
	    &w->refusal, "act.changed", "that is another place than the one that was judged");
}
