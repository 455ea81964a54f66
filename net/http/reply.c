/* reply.c: status line, headers, and a body by length or in chunks. */
#include <sys/types.h>
#include <string.h>
#include <strings.h>

#include "net/http/reply.h"

#define INTERIM_MAX 8  /* answers of 1xx before the real one */
#define LENGTH_MAX  15 /* digits */
#define CHUNK_MAX   8

static const char TOKEN[] =
    "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

void
reply_init(struct reply *reply, bool to_head)
{
	memset(reply, 0, sizeof(*reply));
	reply->to_head = to_head;
}

const char *
reply_header(const struct reply *reply, const char *name)
{
	unsigned i;

	for (i = reply->nheaders; i-- > 0;)
		if (strcasecmp(reply->headers[i].name, name) == 0)
			return reply->headers[i].value;
	return NULL;
}

static int
wrong(struct refusal *r, const char *why)
{
	return refusal_set(r, "http.protocol", "the answer is no HTTP/1.1: %s", why);
}

static int
number(const char *digits, unsigned base, size_t max, uint64_t *n)
{
	static const char DIGITS[] = "0123456789abcdef";
	const char *at;
	size_t len;

	*n = 0;
	for (len = 0; digits[len] != '\0'; len++) {
		at = memchr(DIGITS, digits[len] | (digits[len] >= 'A' ? 0x20 : 0), base);
		if (at == NULL || len == max)
			return -1;
		*n = *n * base + (uint64_t)(at - DIGITS);
	}
	return len > 0 ? 0 : -1;
}

/* The head. */

/* "HTTP/1.1 200" and either nothing or a space and any words. */
static int
read_status(struct reply *reply, const char *line)
{
	char digits[4];
	uint64_t n;

	if (strncmp(line, "HTTP/1.1 ", 9) != 0 || strlen(line) < 12 ||
	    (line[12] != '\0' && line[12] != ' '))
		return -1;
	memcpy(digits, line + 9, 3);
	digits[3] = '\0';
	if (number(digits, 10, 3, &n) == -1 || n < 100 || n > 599)
		return -1;
	reply->status = (int)n;
	return 0;
}

static int
read_field(struct reply *reply, char *line)
{
	char *colon = strchr(line, ':'), *value, *end;

	if (colon == NULL || colon == line || strspn(line, TOKEN) != (size_t)(colon - line) ||
	    reply->nheaders == REPLY_HEADERS_MAX)
		return -1;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	for (end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t'); end--)
		continue;
	*end = '\0';
	reply->headers[reply->nheaders].name = line;
	reply->headers[reply->nheaders++].value = value;
	return 0;
}

static unsigned
count(const struct reply *reply, const char *name)
{
	unsigned i, n = 0;

	for (i = 0; i < reply->nheaders; i++)
		n += strcasecmp(reply->headers[i].name, name) == 0;
	return n;
}

/* What follows the head. */
static int
read_framing(struct reply *reply, struct refusal *r)
{
	const char *length = reply_header(reply, "Content-Length");
	const char *encoding = reply_header(reply, "Transfer-Encoding");
	const char *connection = reply_header(reply, "Connection");

	reply->close = connection != NULL && strcasecmp(connection, "keep-alive") != 0;
	if (count(reply, "Content-Length") + count(reply, "Transfer-Encoding") > 1)
		return wrong(r, "its length is given twice");
	if (length != NULL && number(length, 10, LENGTH_MAX, &reply->left) == -1)
		return wrong(r, "its length is no number");
	if (encoding != NULL && strcasecmp(encoding, "chunked") != 0)
		return wrong(r, "its encoding is not known");
	if (reply->to_head || reply->status == 204 || reply->status == 304)
		reply->stage = REPLY_COMPLETE;
	else if (encoding != NULL)
		reply->stage = REPLY_CHUNK_SIZE;
	else if (length == NULL)
		return wrong(r, "it has no length");
	else
		reply->stage = reply->left > 0 ? REPLY_BODY : REPLY_COMPLETE;
	return 0;
}

/* Take the head apart, which ends with an empty line. */
static int
read_head(struct reply *reply, struct refusal *r)
{
	char *line = reply->head, *end;

	reply->nheaders = 0;
	for (; (end = strstr(line, "\r\n")) != line || line == reply->head; line = end + 2) {
		*end = '\0';
		if (strpbrk(line, "\r\n") != NULL)
			return wrong(r, "a line of its head ends in another way");
		if (line == reply->head ? read_status(reply, line) : read_field(reply, line))
			return wrong(r, "a line of its head is none");
	}
	if (reply->status == 101)
		return wrong(r, "it changes the protocol");
	if (reply->status >= 200)
		return read_framing(reply, r);
	if (++reply->interim > INTERIM_MAX)
		return wrong(r, "it does not come to the point");
	reply->status = 0;
	reply->head_len = 0;
	return 0;
}

/* Return how many of ${len} bytes belong to the head, or -1. */
static ssize_t
feed_head(struct reply *reply, const char *data, size_t len, struct refusal *r)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (data[i] == '\0' || reply->head_len == REPLY_HEAD_MAX)
			return wrong(r, "its head has no end");
		reply->head[reply->head_len++] = data[i];
		if (data[i] != '\n' || reply->head_len < 4 ||
		    memcmp(reply->head + reply->head_len - 4, "\r\n\r\n", 4) != 0)
			continue;
		reply->head[reply->head_len] = '\0';
		return read_head(reply, r) == 0 ? (ssize_t)i + 1 : -1;
	}
	return (ssize_t)len;
}

/* The body. */

/* Collect a line of at most a chunk size's length; 1: it is there, without its end. */
static int
feed_line(struct reply *reply, char c, struct refusal *r)
{
	if (c != '\n') {
		if (reply->line_len == sizeof(reply->line) - 1)
			return wrong(r, "a line between its chunks is too long");
		reply->line[reply->line_len++] = c;
		return 0;
	}
	if (reply->line_len == 0 || reply->line[--reply->line_len] != '\r')
		return wrong(r, "a line between its chunks ends in another way");
	reply->line[reply->line_len] = '\0';
	if (strlen(reply->line) != reply->line_len)
		return wrong(r, "a line between its chunks has a NUL");
	reply->line_len = 0;
	return 1;
}

static int
read_line(struct reply *reply, struct refusal *r)
{
	switch (reply->stage) {
	case REPLY_CHUNK_SIZE:
		if (number(reply->line, 16, CHUNK_MAX, &reply->left) == -1)
			return wrong(r, "a chunk has no size");
		reply->stage = reply->left > 0 ? REPLY_CHUNK : REPLY_END;
		return 0;
	case REPLY_CHUNK_END:
		reply->stage = REPLY_CHUNK_SIZE;
		break;
	default:
		reply->stage = REPLY_COMPLETE;
	}
	return reply->line[0] == '\0' ? 0 : wrong(r, "something stands between its chunks");
}

/* Pass on what belongs to the body or chunk at hand.  Return how many bytes that were, or -1. */
static ssize_t
feed_body(struct reply *reply, const char *data, size_t len,
    int (*body)(void *, const char *, size_t), void *ctx)
{
	size_t n = reply->left < len ? (size_t)reply->left : len;

	reply->left -= n;
	if (reply->left == 0)
		reply->stage = reply->stage == REPLY_BODY ? REPLY_COMPLETE : REPLY_CHUNK_END;
	return body(ctx, data, n) == 0 ? (ssize_t)n : -1;
}

int
reply_feed(struct reply *reply, const char *data, size_t len,
    int (*body)(void *, const char *, size_t), void *ctx, struct refusal *r)
{
	ssize_t n;
	int line;

	for (; len > 0; data += n, len -= (size_t)n) {
		n = 1;
		switch (reply->stage) {
		case REPLY_HEAD:
			n = feed_head(reply, data, len, r);
			break;
		case REPLY_BODY:
		case REPLY_CHUNK:
			n = feed_body(reply, data, len, body, ctx);
			break;
		case REPLY_COMPLETE:
			return wrong(r, "something stands behind it");
		default:
			if ((line = feed_line(reply, *data, r)) == -1 ||
			    (line == 1 && read_line(reply, r) == -1))
				n = -1;
		}
		if (n == -1)
			return -1;
	}
	return 0;
}
