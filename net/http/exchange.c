/* exchange.c: one request at a time: its checks, its handler, its answer. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/http/internal.h"
#include "net/http/json.h"

#define STREAM_BLOCK 16384
#define ALLOW_MAX    128

/* Refusals as JSON. */

/* Append ${s} as a JSON string to ${out}, which has room for six bytes a character and the ends. */
static char *
put_string(char *out, const char *s)
{
	const char *end = s + strlen(s);
	size_t n;

	*out++ = '"';
	for (; s < end; s += n) {
		n = http_utf8_len(s, end);
		if (n == 0) { /* a sentence that was cut to its bound may end inside a character */
			*out++ = '?';
			n = 1;
		} else if ((unsigned char)*s < 0x20) {
			out += sprintf(out, "\\u%04x", (unsigned)*s);
		} else {
			if (*s == '"' || *s == '\\')
				*out++ = '\\';
			memcpy(out, s, n);
			out += n;
		}
	}
	*out++ = '"';
	return out;
}

char *
exchange_refusal_json(const struct refusal *refusal, const char *extra, size_t *len)
{
	char *json, *p;

	if (extra == NULL)
		extra = "";
	json = malloc(6 * (REFUSAL_CODE_MAX + REFUSAL_WHY_MAX) + strlen(extra) + 128);
	if (json == NULL)
		return NULL;
	p = stpcpy(json, "{\"error\":{\"code\":");
	p = put_string(p, refusal->code);
	p = stpcpy(p, ",\"why\":");
	p = put_string(p, refusal->why);
	p = stpcpy(p, ",\"retry_at\":");
	if (refusal->retry_at != 0)
		p += sprintf(p, "%lld", (long long)refusal->retry_at);
	else
		p = stpcpy(p, "null");
	if (extra[0] != '\0')
		*p++ = ',';
	p = stpcpy(stpcpy(p, extra), "}}\n");
	*len = (size_t)(p - json);
	return json;
}

/* What handlers ask. */

static const struct lazy_mhd *
mhd_of(const struct http_exchange *x)
{
	return x->conn->server->mhd;
}

static const struct http_limits *
limits_of(const struct http_exchange *x)
{
	return &x->conn->server->config.limits;
}

const char *
http_param(const struct http_exchange *x, const char *name)
{
	return route_param(&x->params, name);
}

const char *
http_query(const struct http_exchange *x, const char *name)
{
	return mhd_of(x)->lookup_connection_value(x->conn->mhd, MHD_GET_ARGUMENT_KIND, name);
}

int64_t
http_digits(const char *text)
{
	int64_t n;

	if (text == NULL || text[0] == '\0' || text[strspn(text, "0123456789")] != '\0')
		return -1;
	errno = 0;
	n = strtoll(text, NULL, 10);
	return errno == 0 ? n : -1;
}

const char *
http_header(const struct http_exchange *x, const char *name)
{
	return mhd_of(x)->lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, name);
}

const char *
http_body(const struct http_exchange *x, size_t *len)
{
	if (len != NULL)
		*len = x->body_len;
	return x->body != NULL ? x->body : "";
}

const char *
http_body_json(struct http_exchange *x, size_t *len)
{
	struct refusal r = {.code = ""};
	const char *body = http_body(x, len);

	if (http_json_check(body, x->body_len, limits_of(x)->json_depth, &r) == 0)
		return body;
	http_refuse(x, strcmp(r.code, "http.memory") == 0 ? 500 : 400, &r, NULL);
	return NULL;
}

const struct http_peer *
http_peer(const struct http_exchange *x)
{
	return &x->conn->peer;
}

unsigned
http_surface(const struct http_exchange *x)
{
	return x->conn->peer.surface;
}

const char *
http_method(const struct http_exchange *x)
{
	return x->is_head ? "HEAD" : x->route->method;
}

void
http_on_close(struct http_exchange *x, void (*fn)(void *), void *ctx)
{
	x->on_close = fn;
	x->on_close_ctx = ctx;
}

/* Suspending and resuming. */

static void
suspend(struct http_exchange *x)
{
	if (x->conn->hung_up) {
		x->gone = true;
		return;
	}
	x->suspended = true;
	mhd_of(x)->suspend_connection(x->conn->mhd);
}

static void
resume(struct http_exchange *x)
{
	if (!x->suspended)
		return;
	x->suspended = false;
	mhd_of(x)->resume_connection(x->conn->mhd);
	server_wake(x->conn->server);
}

void
exchange_abandon(struct http_exchange *x)
{
	x->gone = true;
	resume(x);
}

/* Answering. */

static int
add_headers(struct http_exchange *x, struct MHD_Response *response, const char *type,
    const struct http_field *headers)
{
	const struct lazy_mhd *mhd = mhd_of(x);
	const struct http_field *h;

	if (type != NULL &&
	    mhd->add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) != MHD_YES)
		return -1;
	for (h = headers; h != NULL && h->name != NULL; h++)
		if (mhd->add_response_header(response, h->name, h->value) != MHD_YES)
			return -1;
	if ((x->conn->server->draining || x->conn->server->config.once || x->why != NULL) &&
	    mhd->add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") != MHD_YES)
		return -1;
	return 0;
}

/* Take ${response} (NULL: memory ran out) as the answer; if it cannot be, the client is cut off. */
static int
answer(struct http_exchange *x, unsigned status, struct MHD_Response *response, const char *type,
    const struct http_field *headers)
{
	int r = 0;

	if (response != NULL && add_headers(x, response, type, headers) == -1) {
		mhd_of(x)->destroy_response(response);
		response = NULL;
	}
	if (response == NULL) {
		x->gone = true;
		r = -1;
	}
	x->response = response;
	x->status = status;
	resume(x);
	return r;
}

void
http_reply(struct http_exchange *x, unsigned status, const char *type,
    const struct http_field *headers, const void *body, size_t len)
{
	static char nothing[1];

	if (x->phase != PHASE_HANDLE)
		return;
	x->phase = PHASE_DONE;
	answer(x, status,
	    mhd_of(x)->create_response_from_buffer(
		len, len > 0 ? (void *)(uintptr_t)body : nothing, MHD_RESPMEM_MUST_COPY),
	    type, headers);
}

void
http_refuse(
    struct http_exchange *x, unsigned status, const struct refusal *refusal, const char *extra)
{
	const struct http_field headers[] = {{"X-Bastion-Refused", refusal->code}, {NULL, NULL}};
	size_t len = 0;
	char *json = exchange_refusal_json(refusal, extra, &len);

	if (json == NULL)
		x->gone = true;
	http_reply(x, status, "application/json", headers, json, len);
	free(json);
}

/*
 * Refuse before the handler.  With a body on its way that is done past libmicrohttpd, which takes
 * no answer in the midst of one; without, its next call fetches the answer and the connection
 * can be kept.
 */
static enum MHD_Result
refuse_early(struct http_exchange *x, unsigned status, const struct refusal *refusal,
    const char *allow, bool has_body)
{
	const struct http_field headers[] = {{"X-Bastion-Refused", refusal->code},
	    {allow != NULL ? "Allow" : NULL, allow}, {NULL, NULL}};
	char *json;
	size_t len;

	x->phase = PHASE_DONE;
	if (has_body) {
		server_refuse_raw(
		    x->conn->server, x->conn->fd, status, refusal, x->extra, allow, !x->is_head);
		return MHD_NO;
	}
	if ((json = exchange_refusal_json(refusal, x->extra, &len)) == NULL)
		return MHD_NO;
	answer(x, status, mhd_of(x)->create_response_from_buffer(len, json, MHD_RESPMEM_MUST_COPY),
	    "application/json", headers);
	free(json);
	return MHD_YES;
}

/* Becoming something else. */

static void
upgraded(void *ctx, struct MHD_Connection *mhd, void *request, const char *extra, size_t extra_len,
    MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
	struct http_exchange *x = request;
	struct http_upgraded *u = x->upgraded;

	(void)ctx;
	(void)mhd;
	(void)extra;
	x->upgraded = NULL;
	x->conn->upgraded = u;
	u->conn = x->conn;
	u->handle = handle;
	conn_deadline(x->conn, 0);
	loop_del(x->conn->server->loop, fd);
	if (extra_len == 0 && !x->conn->server->draining) {
		u->taken(u->ctx, u);
		return;
	}
	u->ended(u->ctx);
	http_upgraded_close(u);
}

/* Is ${word} an element of the comma-separated ${list}, whatever its case? */
static bool
has_word(const char *list, const char *word)
{
	size_t len;

	for (; list != NULL && *list != '\0'; list += len + strspn(list + len, ",")) {
		list += strspn(list, " \t");
		len = strcspn(list, ", \t");
		if (len == strlen(word) && strncasecmp(list, word, len) == 0)
			return true;
		len = strcspn(list, ",");
	}
	return false;
}

bool
http_asks_upgrade(const struct http_exchange *x, const char *protocol)
{
	return has_word(http_header(x, "Connection"), "Upgrade") &&
	       has_word(http_header(x, "Upgrade"), protocol);
}

void
http_upgrade(struct http_exchange *x, const char *protocol,
    void (*taken)(void *ctx, struct http_upgraded *upgraded), void (*ended)(void *ctx), void *ctx)
{
	const struct http_field headers[] = {{"Upgrade", protocol}, {NULL, NULL}};
	struct MHD_Response *response;

	if ((x->upgraded = calloc(1, sizeof(*x->upgraded))) == NULL) {
		ended(ctx);
		exchange_abandon(x);
		return;
	}
	x->phase = PHASE_DONE;
	*x->upgraded = (struct http_upgraded){.taken = taken, .ended = ended, .ctx = ctx};
	response = mhd_of(x)->create_response_for_upgrade(upgraded, x);
	answer(x, MHD_HTTP_SWITCHING_PROTOCOLS, response, NULL, headers);
}

/* Streams. */

/* libmicrohttpd wants up to ${max} bytes of the stream. */
static ssize_t
stream_read(void *ctx, uint64_t pos, char *buf, size_t max)
{
	struct http_exchange *x = ctx;
	size_t half = limits_of(x)->stream_bytes / 2, n = x->queue_len;

	(void)pos;
	if (x->gone)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n == 0 && x->phase == PHASE_DONE)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n == 0) {
		suspend(x);
		return x->gone ? MHD_CONTENT_READER_END_WITH_ERROR : 0;
	}
	if (n > max)
		n = max;
	memcpy(buf, x->queue + x->queue_at, n);
	x->queue_at += n;
	x->queue_len -= n;
	if (x->queue_len <= half && x->queue_len + n > half && x->on_drain != NULL &&
	    x->phase == PHASE_STREAM)
		x->on_drain(x->on_drain_ctx);
	return (ssize_t)n;
}

int
http_stream_begin(struct http_exchange *x, unsigned status, const char *type)
{
	if (x->phase != PHASE_HANDLE || x->on_close == NULL)
		return -1;
	x->phase = PHASE_STREAM;
	return answer(x, status,
	    mhd_of(x)->create_response_from_callback(
		MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read, x, NULL),
	    type, NULL);
}

static int
queue_make_room(struct http_exchange *x, size_t len)
{
	size_t room = x->queue_room ? x->queue_room : 4096;
	char *grown;

	if (x->queue_at + x->queue_len + len <= x->queue_room)
		return 0;
	if (x->queue_at > 0) {
		memmove(x->queue, x->queue + x->queue_at, x->queue_len);
		x->queue_at = 0;
	}
	while (room < x->queue_len + len)
		room *= 2;
	if (room == x->queue_room)
		return 0;
	if ((grown = realloc(x->queue, room)) == NULL)
		return -1;
	x->queue = grown;
	x->queue_room = room;
	return 0;
}

ssize_t
http_stream_write(struct http_exchange *x, const void *data, size_t len)
{
	size_t max = 2 * limits_of(x)->stream_bytes;

	if (x->phase != PHASE_STREAM || x->queue_len > max || len > max - x->queue_len ||
	    queue_make_room(x, len) == -1)
		return -1;
	if (len == 0)
		return (ssize_t)x->queue_len;
	memcpy(x->queue + x->queue_at + x->queue_len, data, len);
	x->queue_len += len;
	resume(x);
	return (ssize_t)x->queue_len;
}

void
http_stream_on_drain(struct http_exchange *x, void (*fn)(void *), void *ctx)
{
	x->on_drain = fn;
	x->on_drain_ctx = ctx;
}

void
http_stream_end(struct http_exchange *x)
{
	if (x->phase != PHASE_STREAM)
		return;
	x->phase = PHASE_DONE;
	resume(x);
}

/* A request, as libmicrohttpd hands it over. */

void *
exchange_begin(void *ctx, const char *target, struct MHD_Connection *mhd)
{
	const struct http_server *server = ctx;
	const union MHD_ConnectionInfo *info;
	struct http_exchange *x;

	info = server->mhd->get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	if (info == NULL || (x = calloc(1, sizeof(*x))) == NULL)
		return NULL;
	if ((x->target = strdup(target)) == NULL) {
		free(x);
		return NULL;
	}
	x->conn = info->socket_context;
	x->conn->x = x;
	return x;
}

static enum MHD_Result
count_header(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	(void)kind;
	(void)name;
	(void)value;
	++*(unsigned *)ctx;
	return MHD_YES;
}

static bool
headers_are_too_much(const struct http_exchange *x)
{
	const union MHD_ConnectionInfo *info;
	unsigned n = 0;

	info =
	    mhd_of(x)->get_connection_info(x->conn->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	mhd_of(x)->get_connection_values(x->conn->mhd, MHD_HEADER_KIND, count_header, &n);
	return n > limits_of(x)->headers ||
	       (info != NULL && info->header_size > limits_of(x)->header_bytes);
}

/* Store the route for ${method} in ${x}, and in ${allow} what methods its path has here. */
static void
find_route(struct http_exchange *x, const char *method, char allow[ALLOW_MAX])
{
	const struct http_route *r;
	struct route_params params;
	size_t n = 0;

	allow[0] = '\0';
	for (r = x->conn->server->config.routes; r->method != NULL; r++) {
		if ((r->surface & x->conn->peer.surface) == 0 ||
		    !route_match(r->path, x->target, &params))
			continue;
		if (strcmp(r->method, x->is_head ? "GET" : method) == 0 && x->route == NULL) {
			x->route = r;
			x->params = params;
		}
		if (n < ALLOW_MAX)
			n += (size_t)snprintf(allow + n, ALLOW_MAX - n, "%s%s%s", n ? ", " : "",
			    r->method, strcmp(r->method, "GET") == 0 ? ", HEAD" : "");
	}
}

static size_t
body_max(const struct http_exchange *x)
{
	size_t server = limits_of(x)->body, route = x->route->body_max;

	if (route == HTTP_BEAT)
		return limits_of(x)->beat;
	return route < server ? route : server;
}

static enum MHD_Result
too_large(struct http_exchange *x)
{
	struct refusal r;

	refusal_set(&r, "http.too_large", "the body is over %zu bytes", body_max(x));
	return refuse_early(x, 413, &r, NULL, true);
}

static unsigned long long
announced_body(const struct http_exchange *x)
{
	const char *length = http_header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return length != NULL ? strtoull(length, NULL, 10) : 0;
}

static bool
has_body(const struct http_exchange *x)
{
	return announced_body(x) > 0 || http_header(x, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
}

/* Nothing stands against ${method}: is it there? */
static enum MHD_Result
check_route(struct http_exchange *x, const char *method)
{
	char allow[ALLOW_MAX];
	struct refusal r;

	find_route(x, method, allow);
	if (x->route == NULL && allow[0] == '\0') {
		refusal_set(&r, "http.route", "there is nothing at this path");
		return refuse_early(x, 404, &r, NULL, has_body(x));
	}
	if (x->route == NULL) {
		refusal_set(&r, "http.method", "this path does not have that method");
		return refuse_early(x, 405, &r, allow, has_body(x));
	}
	if (announced_body(x) > body_max(x))
		return too_large(x);
	x->phase = PHASE_BODY;
	return MHD_YES;
}

/* Do what the guard said, or wait for it. */
static enum MHD_Result
heed_guard(struct http_exchange *x)
{
	if (x->why != NULL)
		return refuse_early(x, x->status, x->why, NULL, has_body(x));
	if (x->let_in)
		return check_route(x, x->method);
	suspend(x);
	return x->gone ? MHD_NO : MHD_YES;
}

void
http_pass(struct http_exchange *x, unsigned surface, int64_t tag)
{
	if (x->phase != PHASE_GUARD)
		return;
	x->on_close = NULL;
	x->let_in = true;
	x->conn->passed = true;
	x->conn->peer.surface = surface;
	x->conn->peer.tag = tag;
	conn_deadline(x->conn, limits_of(x)->request_ms);
	resume(x);
}

void
http_turn_away(
    struct http_exchange *x, unsigned status, const struct refusal *refusal, const char *extra)
{
	if (x->phase != PHASE_GUARD)
		return;
	x->on_close = NULL;
	x->status = status;
	x->extra = extra == NULL ? NULL : strdup(extra);
	if ((x->why = malloc(sizeof(*x->why))) == NULL)
		x->gone = true;
	else
		*x->why = *refusal;
	resume(x);
}

/* The headers are there. */
static enum MHD_Result
check_head(struct http_exchange *x, const char *method)
{
	const struct http_server_config *config = &x->conn->server->config;
	struct refusal r;

	x->is_head = strcmp(method, "HEAD") == 0;
	if (!config->once && x->conn->passed)
		conn_deadline(x->conn, limits_of(x)->request_ms);
	if (headers_are_too_much(x)) {
		refusal_set(&r, "http.headers", "the request has too many or too long headers");
		return refuse_early(x, 431, &r, NULL, has_body(x));
	}
	if ((config->guarded & x->conn->peer.surface) == 0)
		return check_route(x, method);
	x->phase = PHASE_GUARD;
	x->method = method;
	config->guard(config->ctx, x);
	return heed_guard(x);
}

static int
body_make_room(struct http_exchange *x, size_t len)
{
	size_t room = x->body_room ? x->body_room : 1024;
	char *grown;

	while (room <= x->body_len + len)
		room *= 2;
	if (room == x->body_room)
		return 0;
	if ((grown = malloc(room)) == NULL)
		return -1;
	if (x->body != NULL) {
		memcpy(grown, x->body, x->body_len);
		sodium_memzero(x->body, x->body_len);
		free(x->body);
	}
	x->body = grown;
	x->body_room = room;
	return 0;
}

static enum MHD_Result
add_body(struct http_exchange *x, const char *data, size_t *len)
{
	if (*len > body_max(x) - x->body_len)
		return too_large(x);
	if (body_make_room(x, *len) == -1)
		return MHD_NO;
	memcpy(x->body + x->body_len, data, *len);
	x->body_len += *len;
	x->body[x->body_len] = '\0';
	*len = 0;
	return MHD_YES;
}

/* Hand the answer over if there is one, else wait for it. */
static enum MHD_Result
proceed(struct http_exchange *x)
{
	enum MHD_Result r;

	if (x->response == NULL && !x->gone)
		suspend(x);
	if (x->gone)
		return MHD_NO;
	if (x->response == NULL)
		return MHD_YES;
	if (limits_of(x)->stall_ms > 0)
		mhd_of(x)->set_connection_option(x->conn->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
		    (unsigned)((limits_of(x)->stall_ms + 999) / 1000));
	r = mhd_of(x)->queue_response(x->conn->mhd, x->status, x->response);
	mhd_of(x)->destroy_response(x->response);
	x->response = NULL;
	return r;
}

static enum MHD_Result
handle(struct http_exchange *x)
{
	struct refusal refusal;
	int r;

	conn_deadline(x->conn, 0);
	x->phase = PHASE_HANDLE;
	r = x->route->handle(x, x->conn->server->config.ctx);
	if (x->phase == PHASE_HANDLE && (r != 0 || x->on_close == NULL)) {
		refusal_set(&refusal, "http.internal", "the request was not answered");
		http_refuse(x, 500, &refusal, NULL);
	}
	return proceed(x);
}

enum MHD_Result
exchange_request(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
    const char *version, const char *data, size_t *len, void **request)
{
	struct http_exchange *x = *request;
	enum MHD_Result r;

	(void)server;
	(void)mhd;
	(void)url;
	(void)version;
	if (x == NULL || x->gone)
		return MHD_NO;
	if (x->phase == PHASE_HEAD)
		return check_head(x, method);
	/*
	 * Resumed: libmicrohttpd hands the head over once more, and what follows after that.  It
	 * would close a connection on which the head alone was answered.
	 */
	if (x->phase == PHASE_GUARD &&
	    ((r = heed_guard(x)) != MHD_YES || *len == 0 || x->phase == PHASE_GUARD))
		return r;
	if (x->phase == PHASE_BODY)
		return *len > 0 ? add_body(x, data, len) : handle(x);
	return proceed(x);
}

void
exchange_end(
    void *ctx, struct MHD_Connection *mhd, void **request, enum MHD_RequestTerminationCode why)
{
	const struct http_server *server = ctx;
	struct http_exchange *x = *request;
	struct conn *c;
	bool last;

	(void)why;
	if (x == NULL)
		return;
	*request = NULL;
	c = x->conn;
	c->x = NULL;
	last = x->status == MHD_HTTP_SWITCHING_PROTOCOLS;
	if ((x->phase == PHASE_GUARD || x->phase == PHASE_HANDLE || x->phase == PHASE_STREAM) &&
	    x->on_close != NULL)
		x->on_close(x->on_close_ctx);
	if (x->upgraded != NULL)
		x->upgraded->ended(x->upgraded->ctx);
	free(x->upgraded);
	if (x->response != NULL)
		server->mhd->destroy_response(x->response);
	if (x->body != NULL)
		sodium_memzero(x->body, x->body_len);
	free(x->body);
	free(x->queue);
	free(x->why);
	free(x->extra);
	free(x->target);
	free(x);

	/* The connection goes with what it became, and libmicrohttpd holds a lock of its own. */
	if (last)
		return;
	server->mhd->set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, 0);
	if (c->passed)
		conn_deadline(c, server->draining ? 1 : server->config.limits.idle_ms);
}
