/* head.c: one reading of a head, and one writing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/egress/head.h"

#define LENGTH_DIGITS 18
#define HOP_NAMES_MAX 64 /* names in Connection fields */

struct piece {
	const char *at;
	size_t len;
};

struct field {
	struct piece name, value;
};

/* The lines of a head, taken apart. */
struct lines {
	struct piece first;
	struct field *fields;
	size_t n;
	struct piece hops[HOP_NAMES_MAX]; /* what Connection names */
	size_t nhops;
};

/*
 * Fields for one hop (RFC 9110 §7.6.1), and those that are written anew; "close" as well, which our
 * own Connection field would say of a field of that name.
 */
static const char *const never[] = {"connection", "proxy-connection", "keep-alive", "close",
    "upgrade", "te", "trailer", "proxy-authorization", "proxy-authenticate"};

static int
refuse(struct refusal *r, const char *why)
{
	return refusal_set(r, "egress.request", "the request cannot be read in one way: %s", why);
}

/*
 * Pieces.
 */

static bool
piece_is(const struct piece *p, const char *text)
{
	return p->len == strlen(text) && strncasecmp(p->at, text, p->len) == 0;
}

static bool
pieces_equal(const struct piece *a, const struct piece *b)
{
	return a->len == b->len && strncasecmp(a->at, b->at, a->len) == 0;
}

static void
piece_trim(struct piece *p)
{
	for (; p->len > 0 && (*p->at == ' ' || *p->at == '\t'); p->at++)
		p->len--;
	while (p->len > 0 && (p->at[p->len - 1] == ' ' || p->at[p->len - 1] == '\t'))
		p->len--;
}

/* Take what stands before the first ${end} off ${rest}, or all of it. */
static struct piece
piece_until(struct piece *rest, char end)
{
	const char *at = memchr(rest->at, end, rest->len);
	struct piece first = {rest->at, at == NULL ? rest->len : (size_t)(at - rest->at)};
	size_t gone = at == NULL ? rest->len : first.len + 1;

	rest->at += gone;
	rest->len -= gone;
	return first;
}

static bool
is_token(const struct piece *p)
{
	size_t i;

	for (i = 0; i < p->len; i++) {
		char c = p->at[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
			return false;
	}
	return p->len > 0;
}

/*
 * Lines.
 */

size_t
head_end(const char *bytes, size_t len, size_t from)
{
	const char *at = bytes + (from > 2 ? from - 3 : 0), *end = bytes + len;

	while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		at++;
		if (at < end && *at == '\n')
			return (size_t)(at + 1 - bytes);
		if (at + 1 < end && at[0] == '\r' && at[1] == '\n')
			return (size_t)(at + 2 - bytes);
	}
	return 0;
}

bool
head_is_one(const char *bytes, size_t len)
{
	struct piece rest = {bytes, len}, line = piece_until(&rest, '\n');
	size_t fields = 0, i;
	bool within = false;

	for (i = 0; i < line.len; i++) {
		bool space = line.at[i] == ' ' || line.at[i] == '\t' || line.at[i] == '\r';

		fields += !space && !within;
		within = !space;
	}
	return fields >= 2;
}

/* Return 1 with a line, 0 at the empty one, -1 where it has a CR or NUL within. */
static int
line_next(struct piece *rest, struct piece *line)
{
	*line = piece_until(rest, '\n');
	if (line->len > 0 && line->at[line->len - 1] == '\r')
		line->len--;
	if (memchr(line->at, '\r', line->len) != NULL || memchr(line->at, '\0', line->len) != NULL)
		return -1;
	return line->len > 0;
}

static int
hops_take(struct lines *l, struct piece value, const char **why)
{
	while (value.len > 0) {
		struct piece name = piece_until(&value, ',');

		piece_trim(&name);
		if (name.len == 0)
			continue;
		if (l->nhops >= HOP_NAMES_MAX) {
			*why = "too many names in Connection";
			return -1;
		}
		l->hops[l->nhops++] = name;
	}
	return 0;
}

static int
field_take(struct lines *l, struct piece line, size_t most, const char **why)
{
	struct field *f = &l->fields[l->n];

	if (*line.at == ' ' || *line.at == '\t') {
		*why = "a header line is folded";
		return -1;
	}
	if (l->n >= most) {
		*why = "too many header fields";
		return -1;
	}
	if (memchr(line.at, ':', line.len) == NULL) {
		*why = "a header line has no colon";
		return -1;
	}
	f->value = line;
	f->name = piece_until(&f->value, ':');
	piece_trim(&f->value);
	if (!is_token(&f->name)) {
		*why = "the name of a header field is none";
		return -1;
	}
	l->n++;
	return piece_is(&f->name, "connection") ? hops_take(l, f->value, why) : 0;
}

static int
lines_take(struct lines *l, const char *bytes, size_t len, size_t most, const char **why)
{
	struct piece rest = {bytes, len}, line;
	int more;

	memset(l, 0, sizeof(*l));
	if ((l->fields = calloc(most + 1, sizeof(*l->fields))) == NULL) {
		*why = "there is no memory for it";
		return -1;
	}
	*why = "a line has a CR or NUL in it";
	if (line_next(&rest, &l->first) == -1)
		return -1;
	while ((more = line_next(&rest, &line)) == 1)
		if (field_take(l, line, most, why) != 0)
			return -1;
	return more;
}

/* The first field of that name; store in ${n} how many there are. */
static const struct field *
field_find(const struct lines *l, const char *name, size_t *n)
{
	const struct field *first = NULL;
	size_t i;

	for (*n = 0, i = 0; i < l->n; i++)
		if (piece_is(&l->fields[i].name, name)) {
			first = first == NULL ? &l->fields[i] : first;
			++*n;
		}
	return first;
}

static bool
is_dropped(const struct lines *l, const struct field *f, const char *const *also)
{
	size_t i;

	for (i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (piece_is(&f->name, never[i]))
			return true;
	for (; *also != NULL; also++)
		if (piece_is(&f->name, *also))
			return true;
	for (i = 0; i < l->nhops; i++)
		if (pieces_equal(&f->name, &l->hops[i]))
			return true;
	return false;
}

static void
fields_write(FILE *out, const struct lines *l, const char *const *also)
{
	size_t i;

	for (i = 0; i < l->n; i++) {
		const struct field *f = &l->fields[i];

		if (!is_dropped(l, f, also))
			fprintf(out, "%.*s: %.*s\r\n", (int)f->name.len, f->name.at,
			    (int)f->value.len, f->value.at);
	}
}

/*
 * Framing.
 */

static int
number_read(struct piece *p, uint64_t *n)
{
	size_t i;

	for (*n = 0, i = 0; i < p->len; i++) {
		if (p->at[i] < '0' || p->at[i] > '9')
			return -1;
		*n = *n * 10 + (uint64_t)(p->at[i] - '0');
	}
	return p->len > 0 && p->len <= LENGTH_DIGITS ? 0 : -1;
}

/* All lengths that are given, in one field or several, are one number.  Return how many, or -1. */
static int
length_read(const struct lines *l, uint64_t *length)
{
	size_t i;
	int given = 0;

	for (i = 0; i < l->n; i++) {
		struct piece value = l->fields[i].value, one;
		uint64_t n;
		bool more;

		if (!piece_is(&l->fields[i].name, "content-length"))
			continue;
		do {
			more = memchr(value.at, ',', value.len) != NULL;
			one = piece_until(&value, ',');
			piece_trim(&one);
			if (number_read(&one, &n) != 0 || (given > 0 && n != *length))
				return -1;
			*length = n;
			given++;
		} while (more);
	}
	return given;
}

/* Return 1 where the codings are chunked and nothing else, 0 where there are none, else -1. */
static int
coding_read(const struct lines *l)
{
	const struct field *coding;
	size_t n;

	if ((coding = field_find(l, "transfer-encoding", &n)) == NULL)
		return 0;
	return n == 1 && piece_is(&coding->value, "chunked") ? 1 : -1;
}

static int
body_read(const struct lines *l, bool old, struct head *h, struct refusal *r)
{
	int lengths = length_read(l, &h->length), coding = coding_read(l);

	if (lengths == -1)
		return refuse(r, "its Content-Length is not one plain number");
	if (coding == -1)
		return refuse(r, "its Transfer-Encoding is another than chunked");
	if (coding == 1 && (lengths > 0 || old))
		return refuse(r, "its Transfer-Encoding meets a Content-Length or HTTP/1.0");
	h->body = coding == 1 ? HEAD_CHUNKED : lengths > 0 ? HEAD_LENGTH : HEAD_NO_BODY;
	return 0;
}

/*
 * A request.
 */

/* What the first line says.  ${path} is the target without its authority, where it had one. */
struct line {
	struct piece target, version, authority, path;
	bool absolute;
};

static int
line_read(const struct lines *l, struct head *h, struct line *line, struct refusal *r)
{
	struct piece rest = l->first, method = piece_until(&rest, ' ');
	size_t i;

	line->target = piece_until(&rest, ' ');
	line->version = rest;
	if (!is_token(&method) || method.len > HEAD_METHOD_MAX || line->target.len == 0 ||
	    line->version.len == 0 || memchr(line->version.at, ' ', line->version.len) != NULL)
		return refuse(r, "its first line is not a method, a target and a version");
	if (!(line->version.len == 8 && (memcmp(line->version.at, "HTTP/1.1", 8) == 0 ||
					    memcmp(line->version.at, "HTTP/1.0", 8) == 0)))
		return refuse(r, "its version is neither HTTP/1.1 nor HTTP/1.0");
	for (i = 0; i < line->target.len; i++)
		if ((unsigned char)line->target.at[i] <= ' ' ||
		    (unsigned char)line->target.at[i] >= 0x7f)
			return refuse(r, "its target has a character that none has");
	for (i = 0; i < method.len; i++)
		h->method[i] =
		    (char)(method.at[i] >= 'a' && method.at[i] <= 'z' ? method.at[i] - 'a' + 'A'
								      : method.at[i]);
	h->connect = strcmp(h->method, "CONNECT") == 0;
	return 0;
}

/* scheme://authority/path?query#fragment: the fragment is not for servers. */
static int
absolute_read(struct line *line, const char *scheme_end, struct refusal *r)
{
	const struct piece scheme = {line->target.at, (size_t)(scheme_end - line->target.at)};
	struct piece rest = {scheme_end + 3, line->target.len - scheme.len - 3};
	size_t i;

	if (!piece_is(&scheme, "http"))
		return refuse(r, "a plain request is for an http:// target; others take CONNECT");
	for (i = 0; i < rest.len && strchr("/?#", rest.at[i]) == NULL; i++)
		;
	line->authority = (struct piece){rest.at, i};
	line->path = (struct piece){rest.at + i, rest.len - i};
	line->path = piece_until(&line->path, '#');
	line->absolute = true;
	return 0;
}

static int
target_read(const struct lines *l, struct line *line, struct head *h, struct refusal *r)
{
	const char *scheme_end = memmem(line->target.at, line->target.len, "://", 3);
	const struct field *host;
	size_t hosts;

	host = field_find(l, "host", &hosts);
	if (hosts > 1)
		return refuse(r, "it has more than one Host");
	if (h->connect)
		return authority_parse(line->target.at, line->target.len, 443, &h->to, r);
	if (scheme_end != NULL)
		return absolute_read(line, scheme_end, r) != 0
			   ? -1
			   : authority_parse(
				 line->authority.at, line->authority.len, 80, &h->to, r);
	if (*line->target.at != '/' && !piece_is(&line->target, "*"))
		return refuse(r, "its target is neither a path nor an http:// address");
	if (host == NULL)
		return refuse(r, "it says nowhere which host it is for");
	line->path = line->target;
	return authority_parse(host->value.at, host->value.len, 80, &h->to, r);
}

static int
request_write(const struct lines *l, const struct line *line, struct head *h)
{
	static const char *const also[] = {"host", "content-length", "transfer-encoding", NULL};
	char to[AUTHORITY_TEXT_MAX + 1];
	FILE *out;

	if ((out = open_memstream(&h->out, &h->out_len)) == NULL)
		return -1;
	authority_text(&h->to, 80, to, sizeof(to));
	fprintf(out, "%s ", h->method);
	if (line->absolute)
		fprintf(
		    out, "http://%s%s", to, line->path.len > 0 && *line->path.at == '/' ? "" : "/");
	fprintf(out, "%.*s %.*s\r\nHost: %s\r\n", (int)line->path.len, line->path.at,
	    (int)line->version.len, line->version.at, to);
	fields_write(out, l, also);
	if (h->body == HEAD_CHUNKED)
		fputs("Transfer-Encoding: chunked\r\n", out);
	if (h->body == HEAD_LENGTH)
		fprintf(out, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	fputs("Connection: close\r\n\r\n", out);
	return fclose(out) == 0 ? 0 : -1;
}

static int
request_read(const struct lines *l, struct head *h, struct refusal *r)
{
	struct line line = {.absolute = false};

	if (line_read(l, h, &line, r) != 0 || target_read(l, &line, h, r) != 0)
		return -1;
	if (h->connect)
		return 0;
	if (body_read(l, line.version.at[7] == '0', h, r) != 0)
		return -1;
	return request_write(l, &line, h) == 0
		   ? 0
		   : refusal_set(r, "http.memory", "there is no memory for the request");
}

int
head_read(const char *bytes, size_t len, size_t most, struct head *h, struct refusal *r)
{
	const char *why;
	struct lines l;
	int rc;

	memset(h, 0, sizeof(*h));
	rc = lines_take(&l, bytes, len, most, &why) == 0 ? request_read(&l, h, r) : refuse(r, why);
	free(l.fields);
	if (rc != 0)
		head_free(h);
	return rc;
}

void
head_free(struct head *h)
{
	free(h->out);
	free(h->path);
	h->out = h->path = NULL;
}

/*
 * An answer.
 */

static int
refuse_answer(struct refusal *r, const char *why)
{
	return refusal_set(r, "egress.answer", "the server's answer cannot be read: %s", why);
}

/* "HTTP/1.x NNN reason" */
static int
status_read(const struct piece *line, struct head_answer *a)
{
	size_t i;

	if (line->len < 12 || memcmp(line->at, "HTTP/1.", 7) != 0 ||
	    (line->at[7] != '0' && line->at[7] != '1') || line->at[8] != ' ' ||
	    (line->len > 12 && line->at[12] != ' '))
		return -1;
	for (i = 9; i < 12; i++) {
		if (line->at[i] < '0' || line->at[i] > '9')
			return -1;
		a->status = a->status * 10 + (line->at[i] - '0');
	}
	return a->status >= 100 ? 0 : -1;
}

/* What follows the head (RFC 9112 §6.3). */
static int
answer_body(const struct lines *l, bool to_head, struct head_answer *a)
{
	int lengths = length_read(l, &a->length);
	size_t codings;

	field_find(l, "transfer-encoding", &codings);
	if (to_head || a->status < 200 || a->status == 204 || a->status == 304) {
		a->body = HEAD_NO_BODY;
		return 0;
	}
	a->body = codings > 0 ? HEAD_CHUNKED : HEAD_LENGTH;
	a->sized = codings == 0 && lengths > 0;
	return lengths == -1 ? -1 : 0;
}

static int
answer_write(const struct lines *l, struct head_answer *a)
{
	/* A length beside a coding is a trap, and our own word is ours to say. */
	static const char *const coded[] = {"x-bastion-refused", "content-length", NULL};
	static const char *const plain[] = {"x-bastion-refused", NULL};
	FILE *out;

	if ((out = open_memstream(&a->out, &a->out_len)) == NULL)
		return -1;
	fprintf(out, "%.*s\r\n", (int)l->first.len, l->first.at);
	fields_write(out, l, a->body == HEAD_CHUNKED ? coded : plain);
	fputs(a->status < 200 ? "\r\n" : "Connection: close\r\n\r\n", out);
	return fclose(out) == 0 ? 0 : -1;
}

static int
answer_read(const struct lines *l, bool to_head, struct head_answer *a, struct refusal *r)
{
	if (status_read(&l->first, a) != 0)
		return refuse_answer(r, "its first line is none of HTTP/1");
	if (a->status == 101)
		return refuse_answer(r, "it goes over to another protocol, which was not asked");
	if (answer_body(l, to_head, a) != 0)
		return refuse_answer(r, "its Content-Length is not one plain number");
	return answer_write(l, a) == 0
		   ? 0
		   : refusal_set(r, "http.memory", "there is no memory for the answer");
}

int
head_answer_read(const char *bytes, size_t len, size_t most, bool to_head, struct head_answer *a,
    struct refusal *r)
{
	const char *why;
	struct lines l;
	int rc;

	memset(a, 0, sizeof(*a));
	rc = lines_take(&l, bytes, len, most, &why) == 0 ? answer_read(&l, to_head, a, r)
							 : refuse_answer(r, why);
	free(l.fields);
	if (rc != 0)
		head_answer_free(a);
	return rc;
}

void
head_answer_free(struct head_answer *a)
{
	free(a->out);
	a->out = NULL;
}

/*
 * Within a tunnel.
 */

/* Take a character off ${p}, undoing percent encoding once. */
static char
path_char(struct piece *p)
{
	static const char digits[] = "0123456789abcdef";
	const char *high, *low;
	char c = *p->at;

	if (c == '%' && p->len >= 3 && p->at[1] != '\0' && p->at[2] != '\0' &&
	    (high = strchr(digits, p->at[1] | 0x20)) != NULL &&
	    (low = strchr(digits, p->at[2] | 0x20)) != NULL) {
		c = (char)((high - digits) << 4 | (low - digits));
		p->at += 2;
		p->len -= 2;
	}
	p->at++;
	p->len--;
	return c;
}

/* Whether some server would climb on it: a segment of dots, however it is written. */
static bool
path_climbs(struct piece path)
{
	bool dots = true;
	size_t n = 0;

	while (path.len > 0) {
		char c = path_char(&path);

		if (c == '/' || c == '\\' || c == ';') {
			if (dots && (n == 1 || n == 2))
				return true;
			/* What is behind a ; belongs to the segment, and is no segment of dots. */
			dots = c != ';';
			n = 0;
		} else {
			dots = dots && c == '.';
			n++;
		}
	}
	return dots && (n == 1 || n == 2);
}

static int
within_target(const struct line *line, struct head *h, struct refusal *r)
{
	struct piece rest = line->target, path = piece_until(&rest, '?');

	if (memchr(line->target.at, '#', line->target.len) != NULL ||
	    (*path.at != '/' && !(piece_is(&path, "*") && strcmp(h->method, "OPTIONS") == 0)))
		return refuse(r, "its target is not a path");
	if (path.len > HEAD_PATH_MAX)
		return refuse(r, "its path is too long");
	if (path_climbs(path))
		return refuse(r, "its path has a segment of dots");
	if ((h->path = strndup(path.at, path.len)) == NULL)
		return refusal_set(r, "http.memory", "there is no memory for the request");
	return 0;
}

static bool
hop_named(const struct lines *l, const char *name)
{
	size_t i;

	for (i = 0; i < l->nhops; i++)
		if (piece_is(&l->hops[i], name))
			return true;
	return false;
}

static int
within_read(
    const struct lines *l, const struct authority *tunnel, struct head *h, struct refusal *r)
{
	struct line line = {.absolute = false};
	const struct field *host, *upgrade;
	size_t n;
	bool old;

	if (line_read(l, h, &line, r) != 0)
		return -1;
	if (h->connect)
		return refuse(r, "it is a CONNECT within a tunnel");
	host = field_find(l, "host", &n);
	if (n > 1)
		return refuse(r, "it has more than one Host");
	h->to = *tunnel;
	if (host != NULL && authority_parse(host->value.at, host->value.len, 443, &h->to, r) != 0)
		return -1;
	old = line.version.at[7] == '0';
	if (within_target(&line, h, r) != 0 || body_read(l, old, h, r) != 0)
		return -1;
	h->keep = !old && !hop_named(l, "close");
	upgrade = field_find(l, "upgrade", &n);
	h->websocket = n == 1 && piece_is(&upgrade->value, "websocket") && hop_named(l, "upgrade");
	if (h->websocket && (old || h->body != HEAD_NO_BODY || strcmp(h->method, "GET") != 0))
		return refuse(r, "it goes over to another protocol by something else than a GET");
	return 0;
}

int
head_within_read(const char *bytes, size_t len, size_t most, const struct authority *tunnel,
    struct head *h, struct refusal *r)
{
	const char *why;
	struct lines l;
	int rc;

	memset(h, 0, sizeof(*h));
	rc = lines_take(&l, bytes, len, most, &why) == 0 ? within_read(&l, tunnel, h, r)
							 : refuse(r, why);
	free(l.fields);
	if (rc != 0)
		head_free(h);
	return rc;
}

static int
within_write(const struct lines *l, struct head *h, const char *header)
{
	const char *const plain[] = {"host", "content-length", "transfer-encoding", NULL};
	const char *const secret[] = {"host", "content-length", "transfer-encoding",
	    "accept-encoding", "range", "if-range", "sec-websocket-extensions", header, NULL};
	char to[AUTHORITY_TEXT_MAX + 1];
	FILE *out;

	if ((out = open_memstream(&h->out, &h->out_len)) == NULL)
		return -1;
	authority_text(&h->to, 443, to, sizeof(to));
	fprintf(out, "%.*s\r\nHost: %s\r\n", (int)l->first.len, l->first.at, to);
	fields_write(out, l, header == NULL ? plain : secret);
	if (header != NULL)
		fputs("Accept-Encoding: identity\r\n", out);
	if (h->body == HEAD_CHUNKED)
		fputs("Transfer-Encoding: chunked\r\n", out);
	if (h->body == HEAD_LENGTH)
		fprintf(out, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	fputs(h->websocket ? "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	      : h->keep    ? "Connection: keep-alive\r\n"
			   : "Connection: close\r\n",
	    out);
	return fclose(out) == 0 ? 0 : -1;
}

int
head_within_write(const char *bytes, size_t len, size_t most, struct head *h, const char *header,
    struct refusal *r)
{
	const char *why = "there is no memory for it";
	struct lines l;
	int rc = lines_take(&l, bytes, len, most, &why) == 0 ? within_write(&l, h, header) : -1;

	free(l.fields);
	return rc == 0 ? 0 : refuse(r, why);
}

long
head_field(const char *bytes, size_t len, size_t most, const char *name, const char **value)
{
	const struct field *found = NULL;
	const char *why;
	struct lines l;
	size_t n;
	long rc = -1;

	if (lines_take(&l, bytes, len, most, &why) == 0 &&
	    (found = field_find(&l, name, &n)) != NULL) {
		*value = found->value.at;
		rc = (long)found->value.len;
	}
	free(l.fields);
	return rc;
}

static int
within_answer_write(const struct lines *l, const struct head *h, struct head_answer *a)
{
	static const char *const framing[] = {
	    "x-bastion-refused", "content-length", "transfer-encoding", NULL};
	/* To HEAD, and of 304, it says how long the body would be. */
	static const char *const none[] = {"x-bastion-refused", "transfer-encoding", NULL};
	bool told = a->body == HEAD_NO_BODY && (a->status == 304 || strcmp(h->method, "HEAD") == 0);
	FILE *out;

	if ((out = open_memstream(&a->out, &a->out_len)) == NULL)
		return -1;
	fprintf(out, "%.*s\r\n", (int)l->first.len, l->first.at);
	fields_write(out, l, told ? none : framing);
	if (a->body == HEAD_CHUNKED)
		fputs("Transfer-Encoding: chunked\r\n", out);
	if (a->body == HEAD_LENGTH && a->sized)
		fprintf(out, "Content-Length: %llu\r\n", (unsigned long long)a->length);
	fputs(a->over           ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	      : a->status < 200 ? "\r\n"
	      : a->keep         ? "Connection: keep-alive\r\n\r\n"
				: "Connection: close\r\n\r\n",
	    out);
	return fclose(out) == 0 ? 0 : -1;
}

static int
within_answer(const struct lines *l, const struct head *h, struct head_answer *a, struct refusal *r)
{
	const struct field *coding;
	size_t n;
	int chunked = coding_read(l);

	if (status_read(&l->first, a) != 0)
		return refuse_answer(r, "its first line is none of HTTP/1");
	if ((a->over = a->status == 101) && !h->websocket)
		return refuse_answer(r, "it goes over to another protocol, which was not asked");
	if (answer_body(l, strcmp(h->method, "HEAD") == 0, a) != 0)
		return refuse_answer(r, "its Content-Length is not one plain number");
	if (a->body != HEAD_NO_BODY && (chunked == -1 || (chunked == 1 && l->first.at[7] == '0')))
		return refuse_answer(r, "its Transfer-Encoding is another than chunked");
	coding = field_find(l, "content-encoding", &n);
	a->coded = n > 1 || (n == 1 && !piece_is(&coding->value, "identity"));
	a->keep = h->keep && l->first.at[7] == '1' && !hop_named(l, "close") &&
		  (a->body != HEAD_LENGTH || a->sized);
	return within_answer_write(l, h, a) == 0
		   ? 0
		   : refusal_set(r, "http.memory", "there is no memory for the answer");
}

int
head_within_answer(const char *bytes, size_t len, size_t most, const struct head *h,
    struct head_answer *a, struct refusal *r)
{
	const char *why;
	struct lines l;
	int rc;

	memset(a, 0, sizeof(*a));
	rc = lines_take(&l, bytes, len, most, &why) == 0 ? within_answer(&l, h, a, r)
							 : refuse_answer(r, why);
	free(l.fields);
	if (rc != 0)
		head_answer_free(a);
	return rc;
}
