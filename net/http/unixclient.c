/* unixclient.c: connect, verify, send, and read line by line, under one deadline. */
#include <sys/socket.h>
#include <sys/un.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net/http/unixclient.h"

#define BUFFER 16384 /* bytes to begin with */

int64_t
unixclient_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Wait until the socket is ready for ${events}, or has ended. */
static int
wait_for(const struct unixclient *c, short events, struct refusal *r)
{
	struct pollfd p = {.fd = c->fd, .events = events};
	int64_t left;
	int n;

	do {
		left = c->deadline - unixclient_now();
		n = poll(&p, 1, left < 0 ? 0 : left > 60000 ? 60000 : (int)left);
	} while ((n == -1 && errno == EINTR) || (n == 0 && left > 0));
	if (n > 0)
		return 0;
	return refusal_set(r, "http.timeout", "the daemon did not answer in time");
}

/* A backlog that is full makes connect wait: for a while, and never beyond the deadline. */
static int
dial(struct unixclient *c, const char *path, struct refusal *r)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int64_t left = c->deadline - unixclient_now();
	struct timeval wait = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};

	if (strlen(path) >= sizeof(sun.sun_path))
		return refusal_set(r, "socket.path", "the name of the socket is too long");
	strcpy(sun.sun_path, path);
	if (left <= 0)
		return refusal_set(r, "http.timeout", "the daemon did not answer in time");
	if ((c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) == -1 ||
	    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) == -1)
		return refusal_errno(r, "http.unreachable", path);
	if (connect(c->fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return 0;
	if (errno == EAGAIN)
		return refusal_set(r, "http.timeout", "the daemon did not answer in time");
	return refusal_errno(r, "http.unreachable", path);
}

/* Nobody else's process is told what is asked, whoever let it listen there. */
static int
verify(const struct unixclient *c, const char *path, uid_t owner, struct refusal *r)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == -1)
		return refusal_errno(r, "http.unreachable", path);
	if (peer.uid == owner || peer.uid == 0)
		return 0;
	return refusal_set(r, "socket.taken", "user %u listens at %s, where user %u should",
	    (unsigned)peer.uid, path, (unsigned)owner);
}

int
unixclient_dial(
    struct unixclient *c, const char *path, uid_t owner, int64_t deadline, struct refusal *r)
{
	int error;

	*c = (struct unixclient){.fd = -1, .deadline = deadline};
	if (dial(c, path, r) == 0 && verify(c, path, owner, r) == 0)
		return 0;
	error = errno;
	unixclient_close(c);
	errno = error;
	return -1;
}

static int
send_all(struct unixclient *c, const char *data, size_t len, struct refusal *r)
{
	ssize_t n;

	for (; len > 0; data += n, len -= (size_t)n) {
		if (wait_for(c, POLLOUT, r) != 0)
			return -1;
		n = send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n == -1 && (errno == EINTR || errno == EAGAIN))
			n = 0;
		/* Whoever closes before it heard all may have said why. */
		if (n == -1 && errno == EPIPE)
			return 0;
		if (n == -1)
			return refusal_errno(r, "http.aborted", "sending to the daemon");
	}
	return 0;
}

static int
make_room(struct unixclient *c, struct refusal *r)
{
	char *more;

	if (c->at > 0) {
		memmove(c->buf, c->buf + c->at, c->len - c->at);
		c->len -= c->at;
		c->at = 0;
	}
	if (c->len < c->size)
		return 0;
	if ((more = realloc(c->buf, c->size == 0 ? BUFFER : 2 * c->size)) == NULL)
		return refusal_set(r, "http.memory", "out of memory");
	c->buf = more;
	c->size = c->size == 0 ? BUFFER : 2 * c->size;
	return 0;
}

/* Read what is there, or wait for it.  Return 1, 0 at the end, -1. */
static int
receive(struct unixclient *c, struct refusal *r)
{
	ssize_t n;

	if (make_room(c, r) != 0)
		return -1;
	do {
		if (wait_for(c, POLLIN, r) != 0)
			return -1;
		n = recv(c->fd, c->buf + c->len, c->size - c->len, MSG_DONTWAIT);
	} while (n == -1 && (errno == EINTR || errno == EAGAIN));
	if (n <= 0)
		return 0;
	c->len += (size_t)n;
	return 1;
}

bool
unixclient_waits(const struct unixclient *c)
{
	return c->len == c->at || memchr(c->buf + c->at, '\n', c->len - c->at) == NULL;
}

int
unixclient_line(struct unixclient *c, char **line, struct refusal *r)
{
	size_t seen = 0;
	char *end;
	int n;

	while (c->len == c->at ||
	       (end = memchr(c->buf + c->at + seen, '\n', c->len - c->at - seen)) == NULL) {
		if ((seen = c->len - c->at) > c->line_max)
			return refusal_set(r, "http.protocol",
			    "the daemon sent a line over %zu bytes", c->line_max);
		if ((n = receive(c, r)) != 1)
			return n;
	}
	*line = c->buf + c->at;
	*end = '\0';
	c->at = (size_t)(end - c->buf) + 1;
	if (memchr(*line, '\0', (size_t)(end - *line)) != NULL)
		return refusal_set(r, "http.protocol", "the daemon sent a line with a NUL");
	return 1;
}

/* A line of the head; all of them together are bounded. */
static int
head_line(struct unixclient *c, char **line, struct refusal *r)
{
	int n = unixclient_line(c, line, r);

	if (n == 0)
		return refusal_set(
		    r, "http.aborted", "the daemon closed the connection before it answered");
	if (n == -1)
		return -1;
	c->line_max -= strlen(*line) < c->line_max ? strlen(*line) : c->line_max;
	(*line)[strcspn(*line, "\r")] = '\0';
	return 0;
}

/* "HTTP/1.0 200 OK": the three digits; 0 for anything else. */
static int
status_of(const char *line)
{
	int status;

	if (strncmp(line, "HTTP/1.", 7) != 0 || strlen(line) < 12 || line[8] != ' ' ||
	    strspn(line + 9, "0123456789") != 3)
		return 0;
	status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + line[11] - '0';
	return status;
}

/* In one piece, so that the daemon need not wait for the second. */
int
unixclient_send(struct unixclient *c, const char *method, const char *target, const char *body,
    size_t len, struct refusal *r)
{
	char *text;
	int n, rc;

	n = asprintf(&text,
	    "%s %s HTTP/1.0\r\nHost: bastion\r\nContent-Type: application/json\r\n"
	    "Content-Length: %zu\r\n\r\n%.*s",
	    method, target, len, (int)len, len > 0 ? body : "");
	if (n == -1)
		return refusal_set(r, "http.memory", "out of memory");
	rc = send_all(c, text, (size_t)n, r);
	free(text);
	return rc;
}

int
unixclient_status(struct unixclient *c, struct refusal *r)
{
	char *line;
	int status;

	c->line_max = UNIXCLIENT_HEAD_MAX;
	if (head_line(c, &line, r) != 0)
		return -1;
	if ((status = status_of(line)) == 0)
		return refusal_set(r, "http.protocol", "what listens there does not speak HTTP");
	do {
		if (head_line(c, &line, r) != 0)
			return -1;
	} while (*line != '\0');
	c->line_max = UNIXCLIENT_LINE_MAX;
	return status;
}

int
unixclient_ask(struct unixclient *c, const char *method, const char *target, const char *body,
    size_t len, struct refusal *r)
{
	if (unixclient_send(c, method, target, body, len, r) != 0)
		return -1;
	return unixclient_status(c, r);
}

void
unixclient_close(struct unixclient *c)
{
	if (c->fd != -1)
		close(c->fd);
	free(c->buf);
	*c = (struct unixclient){.fd = -1};
}
