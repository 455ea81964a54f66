/* authority.c: take an authority apart. */
#include <stdio.h>
#include <string.h>

#include "net/egress/authority.h"

#define PORT_DIGITS 5

static int
refuse(struct refusal *r, const char *why)
{
	return refusal_set(r, "egress.authority", "the destination cannot be read: %s", why);
}

static int
port_read(const char *text, size_t len, uint16_t *port, struct refusal *r)
{
	unsigned long n = 0;
	size_t i;

	for (i = 0; i < len && i <= PORT_DIGITS && text[i] >= '0' && text[i] <= '9'; i++)
		n = n * 10 + (unsigned long)(text[i] - '0');
	if (len == 0 || i != len || len > PORT_DIGITS || n == 0 || n > UINT16_MAX)
		return refuse(r, "a port is a number from 1 to 65535");
	*port = (uint16_t)n;
	return 0;
}

static int
bracketed_read(const char *text, size_t len, struct authority *a, struct refusal *r)
{
	const char *end = memchr(text, ']', len);
	size_t inner, rest;

	if (end == NULL)
		return refuse(r, "a bracket is not closed");
	inner = (size_t)(end - text) - 1;
	rest = len - inner - 2;
	if (memchr(text + 1, ':', inner) == NULL)
		return refuse(r, "brackets hold an IPv6 address and nothing else");
	if (host_read(text + 1, inner, &a->host, r) != 0)
		return -1;
	if (rest == 0)
		return 0;
	if (end[1] != ':')
		return refuse(r, "behind the bracket comes a colon and a port");
	return port_read(end + 2, rest - 1, &a->port, r);
}

int
authority_parse(const char *text, size_t len, uint16_t port, struct authority *a, struct refusal *r)
{
	const char *colon;

	for (; len > 0 && (*text == ' ' || *text == '\t'); text++)
		len--;
	for (; len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t');)
		len--;
	a->port = port;
	if (len == 0)
		return refuse(r, "it is empty");
	if (memchr(text, '@', len) != NULL)
		return refuse(r, "a user and password have no place in it");
	if (*text == '[')
		return bracketed_read(text, len, a, r);
	if ((colon = memchr(text, ':', len)) == NULL)
		return host_read(text, len, &a->host, r);
	if (memchr(colon + 1, ':', len - (size_t)(colon + 1 - text)) != NULL)
		return refuse(r, "an IPv6 address stands in brackets");
	if (port_read(colon + 1, len - (size_t)(colon + 1 - text), &a->port, r) != 0)
		return -1;
	return host_read(text, (size_t)(colon - text), &a->host, r);
}

void
authority_text(const struct authority *a, uint16_t otherwise, char *out, size_t size)
{
	char port[8] = "";

	if (a->port != otherwise)
		snprintf(port, sizeof(port), ":%u", (unsigned)a->port);
	if (a->host.kind == ENDPOINT_IPV6)
		snprintf(out, size, "[%s]%s", a->host.text, port);
	else
		snprintf(out, size, "%s%s", a->host.text, port);
}

int
authority_pattern(const char *text, struct authority *a, struct refusal *r)
{
	char any[16];

	/* "*" is no name: another stands for it where the port is read. */
	if (text[0] == '*' && (text[1] == '\0' || text[1] == ':')) {
		snprintf(any, sizeof(any), "any%s", text + 1);
		if (authority_parse(any, strlen(any), 0, a, r) != 0)
			return -1;
		strcpy(a->host.text, "*");
		return 0;
	}
	/* A name stands for all below it, so a star in front says nothing more. */
	if (strncmp(text, "*.", 2) == 0)
		text += 2;
	a->port = 0;
	if (host_read(text, strlen(text), &a->host, NULL) == 0)
		return 0;
	return authority_parse(text, strlen(text), 0, a, r);
}
