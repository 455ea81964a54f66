/* wire.c: HTTP by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/driver.h"
#include "tests/wire.h"

/* What came and was not used yet. */
struct inbox {
	int fd;
	size_t at, len;
	char bytes[65536];
};

int
wire_dial(const char *path)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd != -1);
	assert_true(strlen(path) < sizeof(name.sun_path));
	strcpy(name.sun_path, path);
	if (connect(fd, (const struct sockaddr *)&name, sizeof(name)) == -1)
		fail_msg("%s: %s", path, strerror(errno));
	return fd;
}

int
wire_send(int fd, const void *bytes, size_t len)
{
	const char *p = bytes;
	ssize_t n;

	for (; len > 0; p += n, len -= (size_t)n)
		if ((n = send(fd, p, len, MSG_NOSIGNAL)) <= 0)
			return -1;
	return 0;
}

int
wire_request(int fd, const char *method, const char *target, const char *headers, const void *body,
    size_t len)
{
	char head[32768];
	int n;

	n = snprintf(head, sizeof(head),
	    "%s %s HTTP/1.1\r\nHost: bastion\r\nContent-Length: %zu\r\n%s\r\n", method, target, len,
	    headers);
	assert_true(n > 0 && (size_t)n < sizeof(head));
	if (wire_send(fd, head, (size_t)n) != 0)
		return -1;
	return wire_send(fd, body, len);
}

/* The next byte, or -1 at the end. */
static int
next(struct inbox *in)
{
	struct pollfd p = {.fd = in->fd, .events = POLLIN};
	ssize_t n;

	if (in->at < in->len)
		return (unsigned char)in->bytes[in->at++];
	if (poll(&p, 1, DRIVER_WAIT_MS) != 1)
		return -1;
	if ((n = recv(in->fd, in->bytes, sizeof(in->bytes), 0)) <= 0)
		return -1;
	in->at = 1;
	in->len = (size_t)n;
	return (unsigned char)in->bytes[0];
}

/* A line without its end; -1 where the connection ended before it did. */
static int
line(struct inbox *in, char *out, size_t size)
{
	size_t len = 0;
	int c;

	while ((c = next(in)) != '\n') {
		if (c == -1)
			return -1;
		if (len + 1 < size && c != '\r')
			out[len++] = (char)c;
	}
	out[len] = '\0';
	return (int)len;
}

static int
copy(struct inbox *in, struct wire_answer *a, size_t len)
{
	int c;

	for (; len > 0; len--) {
		if ((c = next(in)) == -1)
			return -1;
		assert_true(a->len + 1 < sizeof(a->body));
		a->body[a->len++] = (char)c;
	}
	return 0;
}

static int
chunks(struct inbox *in, struct wire_answer *a)
{
	char text[64];
	unsigned long len;

	do {
		if (line(in, text, sizeof(text)) == -1)
			return -1;
		len = strtoul(text, NULL, 16);
		if (copy(in, a, len) == -1 || line(in, text, sizeof(text)) == -1)
			return -1;
	} while (len > 0);
	return 0;
}

/* The value of the header ${name}, if ${text} is that. */
static const char *
value(const char *text, const char *name)
{
	size_t len = strlen(name);

	if (strncasecmp(text, name, len) != 0 || text[len] != ':')
		return NULL;
	return text + len + 1 + strspn(text + len + 1, " ");
}

void
wire_take(int fd, struct wire_answer *a)
{
	static struct inbox in;
	char text[4096];
	const char *v;
	long length = 0;
	bool chunked = false;
	int n;

	in = (struct inbox){.fd = fd};
	a->status = 0;
	a->whole = false;
	a->refused[0] = a->head[0] = a->body[0] = '\0';
	a->len = 0;
	if (line(&in, text, sizeof(text)) == -1 || sscanf(text, "HTTP/1.1 %d", &a->status) != 1)
		return;
	while ((n = line(&in, text, sizeof(text))) > 0) {
		if (strlen(a->head) + strlen(text) + 2 < sizeof(a->head))
			strcat(strcat(a->head, text), "\n");
		if ((v = value(text, "X-Bastion-Refused")) != NULL)
			snprintf(a->refused, sizeof(a->refused), "%.63s", v);
		if ((v = value(text, "Content-Length")) != NULL)
			length = strtol(v, NULL, 10);
		if ((v = value(text, "Transfer-Encoding")) != NULL)
			chunked = strcasecmp(v, "chunked") == 0;
	}
	if (n == 0)
		a->whole = (chunked ? chunks(&in, a) : copy(&in, a, (size_t)length)) == 0;
	a->body[a->len] = '\0';
}

int
wire_ask(const char *path, const char *method, const char *target, const char *headers,
    const void *body, size_t len, struct wire_answer *answer)
{
	int fd = wire_dial(path);

	wire_request(fd, method, target, headers, body, len);
	wire_take(fd, answer);
	close(fd);
	return answer->status;
}
