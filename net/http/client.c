/* client.c: libcurl's multi interface, driven by our loop. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "net/http/client.h"
#include "net/http/lazy.h"
#include "net/http/tls.h"
#include "net/http/via.h"

struct http_client {
	struct loop *loop;
	const struct lazy_curl *curl; /* NULL until libcurl has something to do, as is the next */
	CURLM *multi;
	uint64_t timer;
	struct http_call *calls;
};

struct http_call {
	struct http_client *client;
	struct http_request request;
	CURL *easy;
	struct curl_slist *headers, *dial;
	char *body; /* our copy of the request's */
	int fd;
	struct http_via keeper; /* of the connection; take is NULL: libcurl dials */
	struct via *via;        /* on that connection, instead of libcurl */
	uint64_t total_timer;   /* likewise */
	bool clean;             /* its connection may carry another request */
	char error[CURL_ERROR_SIZE];
	uint64_t idle_timer, head_timer;
	int64_t last; /* when the last byte came: loop_now */
	size_t received;
	bool in_callback, aborted;
	struct refusal refusal; /* why we gave up ourselves; empty code: we did not */
	struct http_call *prev, *next;
};

/* The loop. */

static void call_finish(struct http_call *call, CURLcode result);

static void
collect(struct http_client *client)
{
	struct http_call *call;
	CURLMsg *msg;
	char *data;
	int left;

	while ((msg = client->curl->multi_info_read(client->multi, &left)) != NULL) {
		if (msg->msg != CURLMSG_DONE)
			continue;
		client->curl->easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &data);
		call = (struct http_call *)(void *)data;
		call_finish(call, msg->data.result);
	}
}

/* A socket that libcurl waits for.  The client is all the context there is: see on_want. */
struct watch {
	struct http_client *client;
	curl_socket_t fd;
};

static void
on_socket(void *ctx, uint32_t events)
{
	const struct watch *w = ctx;
	struct http_client *client = w->client;
	int running, what = 0;

	if (events & EPOLLIN)
		what |= CURL_CSELECT_IN;
	if (events & EPOLLOUT)
		what |= CURL_CSELECT_OUT;
	if (events & (EPOLLERR | EPOLLHUP))
		what |= CURL_CSELECT_ERR;
	client->curl->multi_socket_action(client->multi, w->fd, what, &running);
	collect(client);
}

static void
unwatch(struct http_client *client, struct watch *w)
{
	if (w == NULL)
		return;
	loop_del(client->loop, w->fd);
	free(w);
}

/* CURLMOPT_SOCKETFUNCTION: what libcurl wants to know of ${fd}. */
static int
on_want(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
	struct http_client *client = ctx;
	struct watch *w = socket_ctx;
	uint32_t events = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		unwatch(client, w);
		return 0;
	}
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		events |= EPOLLIN;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		events |= EPOLLOUT;
	if (w != NULL)
		return loop_mod(client->loop, fd, events);
	if ((w = calloc(1, sizeof(*w))) == NULL)
		return -1;
	w->client = client;
	w->fd = fd;
	if (loop_add(client->loop, fd, events, on_socket, w) == -1) {
		free(w);
		return -1;
	}
	client->curl->multi_assign(client->multi, fd, w);
	return 0;
}

static void
on_timeout(void *ctx)
{
	struct http_client *client = ctx;
	int running;

	client->timer = 0;
	client->curl->multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(client);
}

/* CURLMOPT_TIMERFUNCTION: call back in ${ms}; -1: never. */
static int
on_timer(CURLM *multi, long ms, void *ctx)
{
	struct http_client *client = ctx;

	(void)multi;
	loop_cancel(client->loop, client->timer);
	client->timer = 0;
	if (ms >= 0 && (client->timer = loop_after(client->loop, ms, on_timeout, client)) == 0)
		return -1;
	return 0;
}

/* One call. */

/* One of them may be a secret: what bears it is wiped. */
static void
headers_free(struct http_call *call)
{
	struct curl_slist *at;

	for (at = call->headers; at != NULL; at = at->next)
		sodium_memzero(at->data, strlen(at->data));
	call->client->curl->slist_free_all(call->headers);
}

static void
call_free(struct http_call *call)
{
	struct http_client *client = call->client;

	if (call->prev != NULL)
		call->prev->next = call->next;
	else if (client->calls == call)
		client->calls = call->next;
	if (call->next != NULL)
		call->next->prev = call->prev;
	loop_cancel(client->loop, call->idle_timer);
	loop_cancel(client->loop, call->head_timer);
	if (call->easy != NULL) {
		client->curl->multi_remove_handle(client->multi, call->easy);
		client->curl->easy_cleanup(call->easy);
	}
	if (client->curl != NULL) {
		headers_free(call);
		client->curl->slist_free_all(call->dial);
	}
	if (call->body != NULL)
		sodium_memzero(call->body, call->request.body_len);
	free(call->body);
	via_free(call->via);
	loop_cancel(client->loop, call->total_timer);
	if (call->keeper.take != NULL)
		call->keeper.over(call->keeper.ctx, call->clean);
	free(call);
}

/* What libcurl says, of a call that it made; parts of it may come from a certificate. */
static const char *
words_of(struct http_call *call, CURLcode result)
{
	char *p;

	if (call->error[0] == '\0')
		return call->client->curl->easy_strerror(result);
	for (p = call->error; *p != '\0'; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return call->error;
}

static void
explain(struct http_call *call, CURLcode result)
{
	if (call->refusal.code[0] != '\0')
		return;
	switch (result) {
	case CURLE_OPERATION_TIMEDOUT:
		refusal_set(&call->refusal, "http.timeout", "no complete answer in time");
		break;
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		refusal_set(&call->refusal, "http.unreachable", "%s", words_of(call, result));
		break;
	case CURLE_SSL_CONNECT_ERROR:
		refusal_set(&call->refusal, "tls.handshake", "%s", words_of(call, result));
		break;
	case CURLE_PEER_FAILED_VERIFICATION:
		refusal_set(&call->refusal, "tls.untrusted", "%s", words_of(call, result));
		break;
	case CURLE_FILESIZE_EXCEEDED:
		refusal_set(&call->refusal, "http.too_large", "the answer is over %zu bytes",
		    call->request.reply_max);
		break;
	case CURLE_OUT_OF_MEMORY:
		refusal_set(&call->refusal, "http.memory", "no memory for the answer");
		break;
	default:
		refusal_set(&call->refusal, "http.protocol", "%s", words_of(call, result));
	}
}

static void
call_finish(struct http_call *call, CURLcode result)
{
	call->clean = call->via != NULL && result == CURLE_OK && !call->aborted &&
		      !via_reply(call->via)->close;
	if (!call->aborted) {
		if (result != CURLE_OK)
			explain(call, result);
		call->request.done(
		    call->request.ctx, call, result != CURLE_OK ? &call->refusal : NULL);
	}
	call_free(call);
}

static void
on_idle(void *ctx)
{
	struct http_call *call = ctx;
	int64_t left = call->last + call->request.idle_ms - loop_now();

	if (left <= 0) {
		call_finish(call, CURLE_OPERATION_TIMEDOUT);
		return;
	}
	call->idle_timer = loop_after(call->client->loop, left, on_idle, call);
	if (call->idle_timer == 0)
		call_finish(call, CURLE_OUT_OF_MEMORY);
}

static void
on_head(void *ctx)
{
	struct http_call *call = ctx;

	call->head_timer = 0;
	if (http_call_status(call) == 0)
		call_finish(call, CURLE_OPERATION_TIMEDOUT);
}

/* Take ${n} bytes of the answer's body.  Return 0, or -1 to end the call. */
static int
take_data(struct http_call *call, const char *data, size_t n)
{
	const struct http_request *q = &call->request;
	int r;

	call->last = loop_now();
	if (q->reply_max != 0 && n > q->reply_max - call->received) {
		refusal_set(
		    &call->refusal, "http.too_large", "the answer is over %zu bytes", q->reply_max);
		return -1;
	}
	call->received += n;
	if (q->chunk == NULL)
		return 0;
	call->in_callback = true;
	r = q->chunk(q->ctx, call, data, n);
	call->in_callback = false;
	if (r == 0 && !call->aborted)
		return 0;
	if (call->refusal.code[0] == '\0')
		refusal_set(&call->refusal, "http.aborted", "the answer was not wanted to its end");
	return -1;
}

static size_t
on_data(char *data, size_t size, size_t n, void *ctx)
{
	return take_data(ctx, data, size * n) == 0 ? size * n : CURL_WRITEFUNC_ERROR;
}

static size_t
on_header(char *data, size_t size, size_t n, void *ctx)
{
	struct http_call *call = ctx;

	(void)data;
	call->last = loop_now();
	return n * size;
}

/* CURLOPT_OPENSOCKETFUNCTION: as libcurl's own, close-on-exec, and remembered. */
static curl_socket_t
on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http_call *call = ctx;

	(void)purpose;
	call->fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	return call->fd == -1 ? CURL_SOCKET_BAD : call->fd;
}

/* CURLOPT_SSL_CTX_FUNCTION */
static CURLcode
on_context(CURL *easy, void *ssl_ctx, void *ctx)
{
	struct http_call *call = ctx;

	(void)easy;
	return tls_end_apply(call->request.tls, ssl_ctx, &call->refusal) == 0
		   ? CURLE_OK
		   : CURLE_SSL_CERTPROBLEM;
}

/* Who is at the other end of the socket, or of TLS. */
static int
peer_of_call(struct http_call *call, struct http_peer *peer)
{
	struct curl_tlssessioninfo *info = NULL;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	*peer = (struct http_peer){.uid = HTTP_NOBODY, .gid = (gid_t)-1};
	if (call->request.tls != NULL) {
		call->client->curl->easy_getinfo(call->easy, CURLINFO_TLS_SSL_PTR, &info);
		if (info != NULL && info->internals != NULL)
			peer->tls = tls_peer_of(info->internals, &call->refusal);
		return peer->tls != NULL ? 0
					 : refusal_set(&call->refusal, "tls.handshake",
					       "no certificate was shown");
	}
	if (getsockopt(call->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == -1)
		return refusal_errno(
		    &call->refusal, "http.unreachable", "who listens on the socket");
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	peer->gid = cred.gid;
	return 0;
}

/* CURLOPT_PREREQFUNCTION: connected, and nothing sent yet. */
static int
on_connected(void *ctx, char *remote, char *local, int remote_port, int local_port)
{
	struct http_call *call = ctx;
	struct http_peer peer;
	int r;

	(void)remote;
	(void)local;
	(void)remote_port;
	(void)local_port;
	if (peer_of_call(call, &peer) == -1)
		return CURL_PREREQFUNC_ABORT;
	call->in_callback = true;
	r = call->request.verify(call->request.ctx, &peer, &call->refusal);
	call->in_callback = false;
	tls_peer_free(peer.tls);
	if (r == 0 && !call->aborted)
		return CURL_PREREQFUNC_OK;
	if (call->refusal.code[0] == '\0')
		refusal_set(&call->refusal, "http.aborted", "the listener is not the expected one");
	return CURL_PREREQFUNC_ABORT;
}

static int
add_header(struct http_call *call, const char *name, const char *value)
{
	const struct lazy_curl *curl = call->client->curl;
	struct curl_slist *list;
	char *line;

	if (strpbrk(name, "\r\n:") != NULL || strpbrk(value, "\r\n") != NULL ||
	    (line = malloc(strlen(name) + strlen(value) + 3)) == NULL)
		return -1;
	stpcpy(stpcpy(stpcpy(line, name), value[0] != '\0' ? ": " : ":"), value);
	list = curl->slist_append(call->headers, line);
	sodium_memzero(line, strlen(line)); /* it may have said who we are */
	free(line);
	if (list == NULL)
		return -1;
	call->headers = list;
	return 0;
}

static bool
has_header(const struct http_field *headers, const char *name)
{
	for (; headers != NULL && headers->name != NULL; headers++)
		if (strcasecmp(headers->name, name) == 0)
			return true;
	return false;
}

static int
set_headers(struct http_call *call)
{
	const struct http_request *q = &call->request;
	const struct http_field *h;

	/* An empty value takes a header away: we neither wait for a 100 nor send a form. */
	if (add_header(call, "Expect", "") == -1)
		return -1;
	if (q->body != NULL && !has_header(q->headers, "Content-Type") &&
	    add_header(call, "Content-Type", "application/json") == -1)
		return -1;
	for (h = q->headers; h != NULL && h->name != NULL; h++)
		if (add_header(call, h->name, h->value) == -1)
			return -1;
	return call->client->curl->easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
}

static int
set_body(struct http_call *call)
{
	const struct lazy_curl *curl = call->client->curl;
	struct http_request *q = &call->request;
	int r = 0;

	if (q->body == NULL)
		return 0;
	if ((call->body = malloc(q->body_len + 1)) == NULL)
		return -1;
	memcpy(call->body, q->body, q->body_len);
	r |= curl->easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_len);
	r |= curl->easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->body);
	return r;
}

/* A connection that serves this call alone, but where it may be kept; and whom to ask about its
 * other end. */
static int
set_connection(struct http_call *call)
{
	const struct lazy_curl *curl = call->client->curl;
	const struct http_request *q = &call->request;
	CURL *e = call->easy;
	int r = 0;

	if (q->socket_path == NULL && q->tls == NULL)
		return 0;
	r |= curl->easy_setopt(e, CURLOPT_FRESH_CONNECT, q->keep ? 0L : 1L);
	r |= curl->easy_setopt(e, CURLOPT_FORBID_REUSE, q->keep ? 0L : 1L);
	if (q->socket_path != NULL)
		r |= curl->easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, q->socket_path);
	if (q->verify != NULL) {
		r |= curl->easy_setopt(e, CURLOPT_PREREQFUNCTION, on_connected);
		r |= curl->easy_setopt(e, CURLOPT_PREREQDATA, call);
	}
	return r;
}

static int
set_tls(struct http_call *call)
{
	const struct lazy_curl *curl = call->client->curl;
	CURL *e = call->easy;
	int r = 0;

	r |= curl->easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (call->request.tls == NULL)
		return r;

	/* No file of the system's: our end says who is trusted, libcurl still checks the name. */
	r |= curl->easy_setopt(e, CURLOPT_CAINFO, NULL);
	r |= curl->easy_setopt(e, CURLOPT_CAPATH, NULL);
	r |= curl->easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	r |= curl->easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_context);
	r |= curl->easy_setopt(e, CURLOPT_SSL_CTX_DATA, call);
	return r;
}

/* Where to, if not to where the URL says. */
static int
set_dial(struct http_call *call)
{
	const struct lazy_curl *curl = call->client->curl;
	char entry[512];

	if (call->request.dial == NULL)
		return 0;
	if (snprintf(entry, sizeof(entry), "::%s", call->request.dial) >= (int)sizeof(entry) ||
	    (call->dial = curl->slist_append(NULL, entry)) == NULL)
		return -1;
	return curl->easy_setopt(call->easy, CURLOPT_CONNECT_TO, call->dial);
}

static int
set_method(struct http_call *call)
{
	const struct lazy_curl *curl = call->client->curl;
	const char *method = call->request.method;

	if (method == NULL)
		return curl->easy_setopt(call->easy, CURLOPT_CONNECT_ONLY, 1L);
	if (strcmp(method, "HEAD") == 0)
		return curl->easy_setopt(call->easy, CURLOPT_NOBODY, 1L);
	return curl->easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, method);
}

/* Return 0 if every option was taken. */
static int
set_options(struct http_call *call)
{
	const struct lazy_curl *curl = call->client->curl;
	const struct http_request *q = &call->request;
	CURL *e = call->easy;
	int r = 0;

	r |= curl->easy_setopt(e, CURLOPT_PRIVATE, (void *)call);
	r |= curl->easy_setopt(e, CURLOPT_URL, q->url);
	r |= curl->easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	r |= curl->easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	r |= curl->easy_setopt(e, CURLOPT_PROXY, "");
	r |= curl->easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	/* A stream may be silent for long: the kernel asks whether the other end is still there. */
	r |= curl->easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	r |= curl->easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 10L);
	r |= curl->easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 5L);
	r |= curl->easy_setopt(e, CURLOPT_USERAGENT, "bastion/" BASTION_VERSION);
	r |= curl->easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)q->connect_ms);
	r |= curl->easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)q->total_ms);
	r |= curl->easy_setopt(e, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)q->reply_max);
	r |= curl->easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
	r |= curl->easy_setopt(e, CURLOPT_WRITEDATA, call);
	r |= curl->easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	r |= curl->easy_setopt(e, CURLOPT_HEADERDATA, call);
	r |= curl->easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
	r |= curl->easy_setopt(e, CURLOPT_OPENSOCKETDATA, call);
	r |= set_body(call);
	r |= curl->easy_setopt(e, CURLOPT_ERRORBUFFER, call->error);
	r |= set_method(call);
	r |= set_connection(call);
	r |= set_tls(call);
	r |= set_dial(call);
	r |= set_headers(call);
	return r;
}

/* On a connection that is there already. */

static int
on_via_body(void *ctx, const char *data, size_t len)
{
	return take_data(ctx, data, len);
}

static void
on_via_over(void *ctx, const struct refusal *why)
{
	struct http_call *call = ctx;

	if (why != NULL && call->refusal.code[0] == '\0')
		call->refusal = *why;
	call_finish(call, why != NULL ? CURLE_RECV_ERROR : CURLE_OK);
}

static void
on_total(void *ctx)
{
	struct http_call *call = ctx;

	call->total_timer = 0;
	call_finish(call, CURLE_OPERATION_TIMEDOUT);
}

static bool
is_line(const char *text)
{
	return strpbrk(text, "\r\n") == NULL;
}

/* Return the bytes that libcurl would send, their number in ${*len}; NULL without memory. */
static char *
request_text(const struct http_request *q, size_t *len)
{
	const char *host = strstr(q->url, "://") != NULL ? strstr(q->url, "://") + 3 : q->url;
	size_t size = 256 + strlen(q->method) + strlen(q->url) + q->body_len;
	int host_len = (int)strcspn(host, "/");
	const struct http_field *h;
	char *text, *p;

	for (h = q->headers; h != NULL && h->name != NULL; h++) {
		if (!is_line(h->name) || !is_line(h->value))
			return NULL;
		size += strlen(h->name) + strlen(h->value) + 4;
	}
	if (!is_line(q->url) || strchr(q->url, ' ') != NULL || (text = malloc(size)) == NULL)
		return NULL;
	p = text + sprintf(text, "%s %s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: bastion/%s\r\n",
		       q->method, host[host_len] != '\0' ? host + host_len : "/", host_len, host,
		       BASTION_VERSION);
	if (q->body != NULL)
		p += sprintf(p, "Content-Length: %zu\r\n", q->body_len);
	if (q->body != NULL && !has_header(q->headers, "Content-Type"))
		p = stpcpy(p, "Content-Type: application/json\r\n");
	for (h = q->headers; h != NULL && h->name != NULL; h++)
		p = stpcpy(stpcpy(stpcpy(stpcpy(p, h->name), ": "), h->value), "\r\n");
	p = stpcpy(p, "\r\n");
	if (q->body != NULL)
		p = mempcpy(p, q->body, q->body_len);
	*len = (size_t)(p - text);
	return text;
}

static int
via_begin(struct http_call *call)
{
	const struct http_request *q = &call->request;
	const struct via_hooks hooks = {.body = on_via_body, .over = on_via_over, .ctx = call};
	struct loop *loop = call->client->loop;
	char *text;
	size_t len;
	int fd;

	if (q->total_ms > 0 &&
	    (call->total_timer = loop_after(loop, q->total_ms, on_total, call)) == 0)
		return -1;
	if ((text = request_text(q, &len)) == NULL)
		return -1;
	if ((fd = call->keeper.take(call->keeper.ctx)) == -1) {
		sodium_memzero(text, len);
		free(text);
		return -1;
	}
	call->via = via_start(loop, fd, text, len, strcmp(q->method, "HEAD") == 0, &hooks);
	return call->via != NULL ? 0 : -1;
}

static int
curl_begin(struct http_call *call)
{
	const struct lazy_curl *curl = call->client->curl;

	if ((call->easy = curl->easy_init()) == NULL || set_options(call) != 0)
		return -1;
	return curl->multi_add_handle(call->client->multi, call->easy) == CURLM_OK ? 0 : -1;
}

static int
call_start(struct http_call *call)
{
	if (call->request.idle_ms > 0) {
		call->idle_timer =
		    loop_after(call->client->loop, call->request.idle_ms, on_idle, call);
		if (call->idle_timer == 0)
			return -1;
	}
	if (call->request.head_ms > 0) {
		call->head_timer =
		    loop_after(call->client->loop, call->request.head_ms, on_head, call);
		if (call->head_timer == 0)
			return -1;
	}
	return call->keeper.take != NULL ? via_begin(call) : curl_begin(call);
}

/*
 * libcurl brings thirty libraries with it, which take some milliseconds and megabytes: who never
 * asks anything of anybody, or only over connections that somebody else keeps, does without.
 */
static int
client_ready(struct http_client *client, struct refusal *refusal)
{
	const struct lazy_curl *curl;

	if (client->curl != NULL)
		return 0;
	if ((curl = lazy_curl(refusal)) == NULL)
		return -1;
	if ((client->multi = curl->multi_init()) == NULL)
		return refusal_set(refusal, "http.memory", "no memory for a client");
	client->curl = curl;
	curl->multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_want);
	curl->multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
	curl->multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl->multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
	return 0;
}

struct http_call *
http_start(struct http_client *client, const struct http_request *request, struct refusal *refusal)
{
	struct http_call *call;

	if ((call = calloc(1, sizeof(*call))) == NULL) {
		refusal_set(refusal, "http.memory", "no memory for a request");
		if (request->via != NULL)
			request->via->over(request->via->ctx, false);
		return NULL;
	}
	if (request->via != NULL)
		call->keeper = *request->via;
	call->client = client;
	call->request = *request;
	call->fd = -1;
	call->last = loop_now();
	if ((call->next = client->calls) != NULL)
		call->next->prev = call;
	client->calls = call;
	if (call->keeper.take == NULL && client_ready(client, refusal) == -1) {
		call_free(call);
		return NULL;
	}
	if (call_start(call) == -1) {
		refusal_set(refusal, "http.memory",
		    "the request cannot be made: out of memory, or a header with a line break");
		call_free(call);
		return NULL;
	}

	/* What the caller passed may go away now. */
	call->request.socket_path = call->request.url = call->request.method = NULL;
	call->request.headers = NULL;
	call->request.via = NULL;
	call->request.dial = NULL;
	call->request.body = NULL;
	return call;
}

void
http_abort(struct http_call *call)
{
	call->aborted = true;
	if (!call->in_callback)
		call_free(call);
}

int
http_pause(struct http_call *call, bool on)
{
	return via_pause(call->via, on);
}

int
http_call_status(const struct http_call *call)
{
	long status = 0;

	if (call->via != NULL)
		return via_reply(call->via)->status;
	call->client->curl->easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	return (int)status;
}

const char *
http_call_header(const struct http_call *call, const char *name)
{
	struct curl_header *h;

	if (call->via != NULL)
		return reply_header(via_reply(call->via), name);
	if (call->client->curl->easy_header(call->easy, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK)
		return NULL;
	return h->value;
}

int
http_call_socket(const struct http_call *call)
{
	curl_socket_t fd = CURL_SOCKET_BAD;

	call->client->curl->easy_getinfo(call->easy, CURLINFO_ACTIVESOCKET, &fd);
	return fd == CURL_SOCKET_BAD ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

struct http_client *
http_client_new(struct loop *loop, struct refusal *refusal)
{
	struct http_client *client;

	if ((client = calloc(1, sizeof(*client))) == NULL) {
		refusal_set(refusal, "http.memory", "no memory for a client");
		return NULL;
	}
	client->loop = loop;
	return client;
}

void
http_client_free(struct http_client *client)
{
	if (client == NULL)
		return;
	while (client->calls != NULL)
		call_free(client->calls);
	if (client->curl != NULL)
		client->curl->multi_cleanup(client->multi);
	loop_cancel(client->loop, client->timer);
	free(client);
}

/* Asking and waiting. */

struct asking {
	struct loop *loop;
	const struct http_request *request;
	struct http_answer *answer;
	struct refusal *refusal;
	int result;
};

static int
ask_verify(void *ctx, const struct http_peer *peer, struct refusal *refusal)
{
	const struct asking *a = ctx;

	return a->request->verify(a->request->ctx, peer, refusal);
}

static int
ask_chunk(void *ctx, struct http_call *call, const char *data, size_t len)
{
	struct asking *a = ctx;
	char *grown;

	a->answer->status = http_call_status(call);
	if (a->request->chunk != NULL)
		return a->request->chunk(a->request->ctx, call, data, len);
	if ((grown = realloc(a->answer->body, a->answer->len + len + 1)) == NULL)
		return -1;
	memcpy(grown + a->answer->len, data, len);
	a->answer->body = grown;
	a->answer->len += len;
	grown[a->answer->len] = '\0';
	return 0;
}

static void
ask_done(void *ctx, struct http_call *call, const struct refusal *refusal)
{
	struct asking *a = ctx;

	if (refusal == NULL) {
		a->answer->status = http_call_status(call);
		a->result = 0;
	} else if (a->refusal != NULL) {
		*a->refusal = *refusal;
	}
	loop_stop(a->loop);
}

int
http_ask(const struct http_request *request, struct http_answer *answer, struct refusal *refusal)
{
	struct asking a = {.request = request, .answer = answer, .refusal = refusal, .result = -1};
	struct http_request q = *request;
	struct http_client *client = NULL;

	*answer = (struct http_answer){.body = NULL};
	q.verify = request->verify != NULL ? ask_verify : NULL;
	q.chunk = ask_chunk;
	q.done = ask_done;
	q.ctx = &a;
	if ((a.loop = loop_new()) == NULL)
		return refusal_errno(refusal, "http.memory", "no loop for a request");
	if ((client = http_client_new(a.loop, refusal)) != NULL &&
	    http_start(client, &q, refusal) != NULL)
		loop_run(a.loop);
	http_client_free(client);
	loop_free(a.loop);
	if (a.result == -1) {
		free(answer->body);
		answer->body = NULL;
		answer->len = 0;
	} else if (answer->body == NULL && (answer->body = calloc(1, 1)) == NULL) {
		return refusal_set(refusal, "http.memory", "no memory for the answer");
	}
	return a.result;
}
