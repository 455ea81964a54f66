/* destination.c: HOST[:PORT], strictly. */
#include <string.h>

#include "engine/destination.h"

/* One to five digits, from 1 to 65535. */
static int
port_read(const char *text, size_t len, uint16_t *port)
{
	unsigned value = 0;
	size_t i;

	if (len < 1 || len > 5 || text[0] == '0')
		return -1;
	for (i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		value = value * 10 + (unsigned)(text[i] - '0');
	}
	*port = (uint16_t)value;
	return value <= UINT16_MAX ? 0 : -1;
}

int
destination_read(const char *text, size_t len, struct destination *d)
{
	const char *slash = memchr(text, '/', len), *end;
	size_t host, skip = len > 0 && text[0] == '[';

	if (slash != NULL)
		len = (size_t)(slash - text);
	if ((end = memchr(text, skip ? ']' : ':', len)) == NULL && skip)
		return -1;
	host = end != NULL ? (size_t)(end - text) : len;
	d->port = DESTINATION_PORT;
	if (host_read(text + skip, host - skip, &d->host, NULL) != 0 ||
	    (d->host.kind == ENDPOINT_IPV6) != (skip == 1))
		return -1;
	host += skip;
	if (host == len)
		return 0;
	return text[host] == ':' ? port_read(text + host + 1, len - host - 1, &d->port) : -1;
}
