/* endpoint.c: take an endpoint apart, strictly: what reaches a resolver or a socket was read here.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "engine/ascii.h"
#include "engine/endpoint.h"

#define PORT_MAX 5 /* digits */

static int
refuse(struct refusal *r, const char *why)
{
	return refusal_set(r, "endpoint.invalid", "not a host:port: %s", why);
}

/* The bytes of any good endpoint.  After this there is no NUL, white space or control left. */
static int
is_plain(const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (text[i] == '\0' || (!ascii_is_letter(text[i]) && !ascii_is_digit(text[i]) &&
					   strchr(".-_:[]", text[i]) == NULL))
			return 0;
	return 1;
}

static int
port_read(const char *text, uint16_t *port)
{
	unsigned long n = 0;
	size_t i, len = strlen(text);

	if (len == 0 || len > PORT_MAX)
		return -1;
	for (i = 0; i < len; i++) {
		if (!ascii_is_digit(text[i]))
			return -1;
		n = n * 10 + (unsigned long)(text[i] - '0');
	}
	if (text[0] == '0' || n > UINT16_MAX)
		return -1;
	*port = (uint16_t)n;
	return 0;
}

static int
ipv6_read(struct endpoint *e, struct refusal *r)
{
	static const unsigned char embeds[12];
	struct in6_addr a;

	if (inet_pton(AF_INET6, e->host, &a) != 1)
		return refuse(r, "brackets hold an IPv6 address and nothing else");
	if (IN6_IS_ADDR_UNSPECIFIED(&a) || IN6_IS_ADDR_MULTICAST(&a))
		return refuse(r, "no peer has this address");
	if (IN6_IS_ADDR_LINKLOCAL(&a))
		return refuse(r, "a link-local address needs a zone, which none may have");
	if (IN6_IS_ADDR_V4MAPPED(&a) ||
	    (memcmp(&a, embeds, sizeof(embeds)) == 0 && !IN6_IS_ADDR_LOOPBACK(&a)))
		return refuse(r, "an IPv4 address is written as one");
	e->kind = ENDPOINT_IPV6;
	inet_ntop(AF_INET6, &a, e->host, sizeof(e->host));
	return 0;
}

static int
ipv4_read(struct endpoint *e, struct refusal *r)
{
	struct in_addr a;
	uint32_t n;

	if (inet_pton(AF_INET, e->host, &a) != 1)
		return refuse(r, "what ends in a number is four decimal numbers");
	n = ntohl(a.s_addr);
	if (n >> 24 == 0 || IN_MULTICAST(n) || n == INADDR_BROADCAST)
		return refuse(r, "no peer has this address");
	e->kind = ENDPOINT_IPV4;
	return 0;
}

bool
endpoint_host_is_number(const char *host)
{
	const char *dot = strrchr(host, '.'), *last = dot != NULL ? dot + 1 : host;

	return ascii_is_digit(last[0]) &&
	       (last[strspn(last, "0123456789")] == '\0' || last[1] == 'x' || last[1] == 'X');
}

static int
label_read(const char *label, size_t len)
{
	size_t i;

	if (len == 0 || len > ENDPOINT_LABEL_MAX || label[0] == '-' || label[len - 1] == '-')
		return -1;
	for (i = 0; i < len; i++)
		if (!ascii_is_letter(label[i]) && !ascii_is_digit(label[i]) && label[i] != '-' &&
		    label[i] != '_')
			return -1;
	return 0;
}

static int
name_read(struct endpoint *e, struct refusal *r)
{
	const char *at = e->host;
	char *c;

	for (;; at++) {
		size_t len = strcspn(at, ".");

		if (label_read(at, len) != 0)
			return refuse(
			    r, "each label of a name is 1 to 63 letters, digits, - and _");
		if (*(at += len) == '\0')
			break;
	}
	for (c = e->host; *c != '\0'; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	e->kind = ENDPOINT_NAME;
	return 0;
}

static int
host_read(struct endpoint *e, struct refusal *r)
{
	size_t len = strlen(e->host);

	if (e->host[0] == '[' && e->host[len - 1] == ']') {
		e->host[len - 1] = '\0';
		memmove(e->host, e->host + 1, len - 1);
		return ipv6_read(e, r);
	}
	return endpoint_host_is_number(e->host) ? ipv4_read(e, r) : name_read(e, r);
}

int
endpoint_parse(const char *text, size_t len, struct endpoint *e, struct refusal *r)
{
	char copy[ENDPOINT_TEXT_MAX + 1], *colon;

	if (len == 0)
		return refusal_set(r, "endpoint.missing", "there is no endpoint");
	if (len > ENDPOINT_TEXT_MAX)
		return refuse(r, "it is longer than any");
	if (!is_plain(text, len))
		return refuse(r, "it has a character that none has");
	memcpy(copy, text, len);
	copy[len] = '\0';
	if ((colon = strrchr(copy, ':')) == NULL || colon == copy ||
	    (size_t)(colon - copy) > ENDPOINT_HOST_MAX)
		return refuse(r, "a host, one colon and a port are needed");
	*colon = '\0';
	if (port_read(colon + 1, &e->port) != 0)
		return refuse(r, "a port is a number from 1 to 65535, in digits alone");
	memcpy(e->host, copy, (size_t)(colon - copy) + 1);
	if (host_read(e, r) != 0)
		return -1;
	snprintf(e->text, sizeof(e->text), e->kind == ENDPOINT_IPV6 ? "[%s]:%u" : "%s:%u", e->host,
	    (unsigned)e->port);
	return 0;
}
